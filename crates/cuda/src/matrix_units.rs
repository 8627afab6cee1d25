//! What the matrix units of a card multiply at most, by kernels that do nothing else: with the instructions that generated ones use.

use crate::driver::{Context, Shape, unusable};
use crate::memory::CardHeap;
use crate::nvrtc::{self, Nvrtc};
use compiler::render::cuda::PRELUDE;
use device::heap::Heap;
use device::{MatrixUnits, Result};
use std::ffi::CStr;
use std::sync::Arc;

/// Rounds of a kernel.
const ROUNDS: u64 = 4096;

/// Sixteen warps, of which two are enough for a unit.
const THREADS: u32 = 512;

/// Bytes of shared memory that columns of a product of four warps lie in.
const COLUMNS: u32 = 4096;

/// Products of a block in a round: `codes` has eight of 16 by 8 by 32 in each warp, `halves` eight of 16 by 8 by 16, and
/// `halves_together` one of 64 by 128 by 16 for every four warps. Sums begin with different numbers: what is the same
/// would be computed once.
const SOURCE: &str = r#"
template <class Rows, class Columns, class Sum> KL_FN void multiply(Sum *to) {
  Rows rows = {};
  Columns columns = {};
  vec<Sum, 4> sums[8] = {};
  KL_EACH(i, 8) sums[i].v[0] = i;
#pragma unroll 4
  for (int r = 0; r < ROUNDS; r++) {
    KL_EACH(i, 8) kl_product(sums[i], sums[i], rows, columns);
  }
  Sum all = 0;
  KL_EACH(i, 8) KL_EACH(j, 4) all += sums[i].v[j];
  if (all) *to = all;
}
extern "C" __global__ void __launch_bounds__(THREADS) codes(int *to) { multiply<vec<i8, 16>, vec<i8, 8>>(to); }
extern "C" __global__ void __launch_bounds__(THREADS) halves(float *to) { multiply<vec<bf16, 8>, vec<bf16, 4>>(to); }
#if __CUDA_ARCH_FEAT_SM90_ALL
extern "C" __global__ void __launch_bounds__(THREADS) halves_together(float *to) {
  extern __shared__ uint4 columns[];
  for (int i = threadIdx.x; i < COLUMNS / 16; i += blockDim.x) columns[i] = make_uint4(0, 0, 0, 0);
  kl_for_groups();
  __syncthreads();
  vec<bf16, 8> rows = {};
  vec<float, 64> sums = {};
#pragma unroll 4
  for (int r = 0; r < ROUNDS; r++) kl_group_product(sums, sums, rows, columns, COLUMNS / 2);
  float all = 0;
  KL_EACH(j, 64) all += sums.v[j];
  if (all) *to = all;
}
#endif
"#;

/// The kernels for an architecture of this name.
fn compiled(nvrtc: &Nvrtc, architecture: &str) -> std::result::Result<Vec<u8>, String> {
    let numbers = format!("#define ROUNDS {ROUNDS}\n#define THREADS {THREADS}\n#define COLUMNS {COLUMNS}\n");
    nvrtc.compile(&format!("{PRELUDE}{numbers}{SOURCE}"), &nvrtc::options(architecture))
}

/// Products a second.
pub fn measure(context: &Arc<Context>, nvrtc: &Nvrtc) -> Result<MatrixUnits> {
    let architecture = context.card.architecture();
    let code = compiled(nvrtc, &architecture.name())
        .map_err(|message| unusable(format!("the kernels that measure matrix units do not compile: {message}")))?;
    let module = context.module(&code)?;
    let to = CardHeap::new(context.clone()).allocate(16, "measuring")?;
    let best = |name: &CStr, shared: u32, of_round: u64| -> Result<f64> {
        let function = module.function(name, shared as usize)?;
        let blocks = context.card.multiprocessors as u32;
        let shape = Shape { blocks, threads: THREADS, shared };
        // SAFETY: the kernel has this parameter, and writes one number to the block or none.
        let least = context.fastest(|| unsafe { context.launch(function, shape, &[to.address() as u64]) })?;
        let products = u64::from(blocks) * ROUNDS * of_round;
        Ok(products as f64 / (least as f64 / 1e9))
    };
    let warps = u64::from(THREADS) / 32;
    let codes = best(c"codes", 0, warps * 8 * 16 * 8 * 32)?;
    let mut halves = best(c"halves", 0, warps * 8 * 16 * 8 * 16)?;
    if architecture.multiplies_together() {
        halves = halves.max(best(c"halves_together", COLUMNS, warps / 4 * 64 * 128 * 16)?);
    }
    Ok(MatrixUnits { codes, halves })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvrtc::NEWEST;
    use std::path::Path;

    #[test]
    fn the_kernels_compile_where_their_compiler_is() {
        let Ok(path) = std::env::var("KERNLOOM_NVRTC") else {
            println!("matrix units: skipped, KERNLOOM_NVRTC does not name the library");
            return;
        };
        let nvrtc = Nvrtc::find(Some(Path::new(&path)), (NEWEST, 0)).expect("the library that KERNLOOM_NVRTC names");
        for architecture in ["sm_80", "sm_89", "sm_90a", "sm_120a"] {
            let code = compiled(&nvrtc, architecture).unwrap_or_else(|message| panic!("{architecture}: {message}"));
            assert!(!code.is_empty());
        }
    }
}

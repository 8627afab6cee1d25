//! What a card reads at most, by a kernel that does nothing else.

use crate::driver::{Context, Shape, unusable};
use crate::memory::CardHeap;
use crate::nvrtc::{self, Nvrtc};
use device::Result;
use device::heap::Heap;
use std::sync::Arc;

/// Bytes that are read, unless the card has less room: many times the second cache.
const READ: usize = 2 << 30;

const THREADS: u32 = 512;

/// Each block reads pieces of 16 bytes a thread, eight of them in flight.
const SOURCE: &str = r#"
extern "C" __global__ void __launch_bounds__(512) read_all(const uint4 *from, long long n, unsigned *to) {
  unsigned sum = 0;
  const long long step = (long long)gridDim.x * blockDim.x;
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + 7 * step < n; i += 8 * step) {
    uint4 v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = from[i + k * step];
#pragma unroll
    for (int k = 0; k < 8; k++) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  if (sum == 12345) *to = sum;
}
"#;

/// Bytes a second.
pub fn measure(context: &Arc<Context>, nvrtc: &Nvrtc) -> Result<f64> {
    let options = nvrtc::options(&context.card.architecture().name());
    let code = nvrtc.compile(SOURCE, &options).map_err(|message| unusable(format!("measuring: {message}")))?;
    let module = context.module(&code)?;
    let function = module.function(c"read_all", 0)?;
    let (blocks, unit) = (context.card.multiprocessors as u32 * 4, 16);
    let step = blocks as usize * THREADS as usize * 8 * unit;
    let bytes = (READ.min(context.memory()?.0 / 2) / step).max(1) * step;
    let heap = CardHeap::new(context.clone());
    let (from, to) = (heap.allocate(bytes, "measuring")?, heap.allocate(16, "measuring")?);
    let arguments = [from.address() as u64, (bytes / unit) as u64, to.address() as u64];
    let shape = Shape { blocks, threads: THREADS, shared: 0 };
    // SAFETY: the kernel has these parameters and reads within the block.
    let least = context.fastest(|| unsafe { context.launch(function, shape, &arguments) })?;
    Ok(bytes as f64 / (least as f64 / 1e9))
}

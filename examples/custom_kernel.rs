//! A kernel of one's own inside a compiled step: `Tensor::call` with a source for each kind of device.
//! It runs after a kernel that the compiler made, inside the one launch of the step, and a replay of the step runs it again.
//!
//!     cargo run --release -p kernloom-devices --features wgpu --example custom_kernel -- cpu | cuda | wgpu

use compiler::{Builder, Compiled, Numerics, Options, Tensor, compile, dims};
use device::Device;
use ir::{CustomSource, DType};
use std::error::Error;
use std::sync::Arc;

/// Rotates each row of 8 values by one; buffers are the source, then the result, and a task is a row.
const C: &str = "
void rotate(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {
    const float *x = (const float *)bufs[0];
    float *y = (float *)bufs[1];
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < 8; i++) y[row * 8 + i] = x[row * 8 + (i + 1) % 8];
}
";
const CUDA: &str = r#"
extern "C" __global__ void rotate(const float *x, float *y) {
    y[blockIdx.x * 8 + threadIdx.x] = x[blockIdx.x * 8 + (threadIdx.x + 1) % 8];
}
"#;
const WGSL: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(8)
fn rotate(@builtin(workgroup_id) row: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    y[row.x * 8u + i] = x[row.x * 8u + (i + 1u) % 8u];
}
";

/// A step that normalises rows and rotates them.
///
/// # Errors
/// Of the compiler.
pub fn step(options: &Options) -> Result<Compiled, compiler::CompileError> {
    let b = Builder::new();
    let x = b.input("x", DType::F32, dims![4, 8]);
    let likely = (&x * &x).softmax();
    let sources = [CustomSource::c(C), CustomSource::cuda(CUDA, 8), CustomSource::wgsl(WGSL, 8)];
    let y = Tensor::call("rotate", &sources, 4, &[likely], DType::F32, dims![4, 8]);
    compile(&b, "custom", &[("y", &y)], &[], options)
}

/// Runs the step on a device.
///
/// # Errors
/// Of the compiler and of the device.
pub fn run(device: &dyn Device) -> Result<(), Box<dyn Error>> {
    let program = step(&device.options(Numerics::Exact))?.program;
    let launches: Vec<&str> = program.each_launch().map(|l| program.kernels[l.kernel].symbol.as_str()).collect();
    println!("launches: {}", launches.join(", "));
    assert_eq!(launches.iter().filter(|l| **l == "rotate").count(), 1);
    assert!(launches.len() > 1, "the compiler's own kernels run in the same step");

    let mut memory = device.memory();
    let mut step = device.load(Arc::new(program), &mut memory)?;
    for replay in 0..3 {
        let input: Vec<f32> = (0..32).map(|i| ((i * 5 + replay * 3) % 7) as f32 / 7.0).collect();
        memory.input_mut::<f32>("x")?.copy_from_slice(&input);
        step.run(&mut memory, &[])?;
        let got = memory.output::<f32>("y")?;
        for (row, x) in input.chunks(8).enumerate() {
            let total: f32 = x.iter().map(|v| (v * v).exp()).sum();
            for i in 0..8 {
                let v = x[(i + 1) % 8];
                let want = (v * v).exp() / total;
                assert!((got[row * 8 + i] - want).abs() < 1e-5, "replay {replay}, row {row}, column {i}");
            }
        }
        println!("replay {replay}: {:?}", &got[..4]);
    }
    Ok(())
}

/// Runs it on the device that is named, by default the processor.
#[cfg(not(test))]
fn main() -> Result<(), Box<dyn Error>> {
    let choice = std::env::args().nth(1).as_deref().unwrap_or("cpu").parse()?;
    let config = devices::Config {
        choice,
        cpu: device::CpuConfig::from_environment(),
        cuda: cuda::CudaConfig::from_environment(),
    };
    let needs = device::Needs::default();
    run(&*devices::open(&config, needs, |line| eprintln!("{line}"))?.device())
}

//! A kernel of one's own inside a compiled step: `Tensor::call` with C source.
//! It runs after a kernel that the compiler made, inside the one parallel region
//! of the step, and a replay of the step runs it again.

use compiler::{Builder, Numerics, Options, Tensor, compile, dims};
use device::{Cpu, CpuConfig, Device, Memory};
use ir::DType;
use std::error::Error;
use std::sync::Arc;

/// Rotates each row of 8 values by one; buffers are the source, then the result.
const SOURCE: &str = "
void rotate(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {
    const float *x = (const float *)bufs[0];
    float *y = (float *)bufs[1];
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < 8; i++) y[row * 8 + i] = x[row * 8 + (i + 1) % 8];
}
";

/// Runs the example.
///
/// # Errors
/// Of the compiler and of the device.
pub fn main() -> Result<(), Box<dyn Error>> {
    let b = Builder::new();
    let x = b.input("x", DType::F32, dims![4, 8]);
    let square = (&x * &x).softmax();
    let y = Tensor::call("rotate", SOURCE, 4, &[square], DType::F32, dims![4, 8]);
    let compiled = compile(&b, "custom", &[("y", &y)], &[], &Options::cpu(Numerics::Exact, 32))?;
    let launches: Vec<&str> = compiled
        .program
        .stages
        .iter()
        .flat_map(|s| &s.launches)
        .map(|l| compiled.program.kernels[l.kernel].symbol.as_str())
        .collect();
    println!("launches: {}", launches.join(", "));
    assert_eq!(launches.iter().filter(|l| **l == "rotate").count(), 1);
    assert!(launches.len() > 1, "the compiler's own kernels run in the same step");

    let cpu = Cpu::new(&CpuConfig::from_environment())?;
    let mut memory = Memory::new();
    let mut step = cpu.load(Arc::new(compiled.program), &mut memory)?;
    for replay in 0..3 {
        let input: Vec<f32> = (0..32).map(|i| ((i * 5 + replay * 3) % 7) as f32 / 7.0).collect();
        memory.input_mut::<f32>("x")?.copy_from_slice(&input);
        let before = cpu.regions();
        step.run(&mut memory, &[])?;
        assert_eq!(cpu.regions() - before, 1, "all kernels of a step are one launch of the device");
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

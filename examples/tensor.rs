//! Tensor code compiled and run: a product of matrices, softmax, the largest of
//! each row, and attention, on the cpu and in the interpreter. Prints the
//! kernels that the compiler made.

use compiler::{Builder, Numerics, Options, Tensor, compile, dims};
use device::{Cpu, CpuConfig, Device, Memory};
use ir::DType;
use ir::interp::{Bindings, evaluate};
use std::error::Error;
use std::sync::Arc;

/// Runs `y = f(x, w)` for `x` of 4 x 64 and `w` of 64 x 64 and compares.
fn show(cpu: &Cpu, name: &str, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Result<(), Box<dyn Error>> {
    let b = Builder::new();
    let x = b.input("x", DType::F32, dims![4, 64]);
    let w = b.input("w", DType::F32, dims![64, 64]);
    let y = f(&x, &w);
    let compiled = compile(&b, name, &[("y", &y)], &[], &Options::cpu(Numerics::Exact, 32))?;
    println!("== {name}: {} kernels in {} stages", compiled.program.launches(), compiled.program.stages.len());
    for body in &compiled.bodies {
        println!("{}", ir::print::kernel(&compiled.graph, body.root));
    }

    let wave = |n: usize, step: usize| (0..n).map(|i| ((i * step) % 101) as f32 / 101.0 - 0.5).collect::<Vec<f32>>();
    let (xs, ws) = (wave(4 * 64, 37), wave(64 * 64, 29));
    let bytes = |v: &[f32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (xb, wb) = (bytes(&xs), bytes(&ws));
    let want = evaluate(&compiled.graph, &[y.id()], &Bindings::new().tensor("x", &xb).tensor("w", &wb))?[0].floats();

    let mut memory = Memory::new();
    let mut step = cpu.load(Arc::new(compiled.program), &mut memory)?;
    memory.input_mut::<f32>("x")?.copy_from_slice(&xs);
    if let Ok(w) = memory.input_mut::<f32>("w") {
        w.copy_from_slice(&ws);
    }
    step.run(&mut memory, &[])?;
    let got = memory.output::<f32>("y")?;
    println!("cpu         {:?}\ninterpreter {:?}\n", &got[..4], &want[..4]);
    for (i, (a, b)) in got.iter().zip(&want).enumerate() {
        assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{name}: element {i} is {a}, expected {b}");
    }
    Ok(())
}

/// Compiles a few programs and prints their kernels.
///
/// # Errors
/// Of the compiler and of the device.
pub fn main() -> Result<(), Box<dyn Error>> {
    let cpu = Cpu::new(&CpuConfig::from_environment())?;
    show(&cpu, "matmul", |x, w| x.linear(w))?;
    show(&cpu, "softmax", |x, _| x.softmax())?;
    show(&cpu, "top-k", |x, _| x.topk(4).cast(DType::F32).exp())?;
    // The rows of w are keys and values of 64 positions.
    show(&cpu, "attention", |x, w| (x.linear(w) * 0.125).softmax().linear(&w.permute(&[1, 0])))
}

//! Functions of one number, scalar and by vectors, where they leave the ordinary: at infinities, NaN, and where floats
//! end.

use crate::support;
use std::sync::Arc;

use compiler::cpu::plan::Plan;
use compiler::{Builder, Numerics, Options, compile, dims};
use device::{Device, Memory};
use ir::DType;

const X: [f32; 16] = [
    f32::NEG_INFINITY,
    f32::MIN,
    -104.5,
    -103.0,
    -88.0,
    -1.0,
    -0.0,
    0.0,
    f32::MIN_POSITIVE,
    1.0,
    88.7,
    88.8,
    89.5,
    f32::MAX,
    f32::INFINITY,
    f32::NAN,
];

#[test]
fn exp_at_its_ends() {
    let folder = support::Folder::new();
    let cpu = support::cpu(&folder, 1);
    for vector_bytes in [0, 16, 32, 64] {
        let b = Builder::new();
        let y = b.input("x", DType::F32, dims![16]).exp();
        let mut options = Options::cpu(Numerics::Exact, vector_bytes);
        if vector_bytes == 0 {
            options.on_cpu(|cpu| cpu.plan = Plan::scalar());
        }
        let program = compile(&b, "exp", &[("y", &y)], &[], &options).expect("a program").program;
        let mut memory = Memory::new();
        let mut step = cpu.load(Arc::new(program), &mut memory).expect("a loaded program");
        memory.input_mut("x").expect("the input").copy_from_slice(&X);
        step.run(&mut memory, &[]).expect("a step");
        for (x, &y) in X.iter().zip(memory.output::<f32>("y").expect("the output")) {
            let want = x.exp();
            let close = y == want || (y - want).abs() <= 1e-6 * want + f32::from_bits(2);
            assert!(close || y.is_nan() && want.is_nan(), "exp({x}) = {y}, expected {want} ({vector_bytes} bytes)");
        }
    }
}

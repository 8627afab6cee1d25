//! Functions of one number, scalar and by vectors, where they leave the ordinary: at infinities, NaN, and where floats
//! end.

use crate::support;
use std::sync::Arc;

use compiler::cpu::plan::Plan;
use compiler::{Builder, Numerics, Options, Tensor, compile, dims};
use device::{Device, Memory};
use ir::{DType, UnOp};

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

/// Whole numbers, of which two to the power of some is no normal float, or none.
const WHOLE: [f32; 16] =
    [-1e9, -300.0, -253.0, -252.0, -150.0, -149.0, -128.0, -127.0, -126.0, -1.0, 0.0, 1.0, 127.0, 128.0, 254.0, 1e9];

/// Calls `check` with each number, what a kernel makes of it, and the bytes of the kernel's vectors.
fn each(x: [f32; 16], function: impl Fn(&Tensor) -> Tensor, check: impl Fn(f32, f32, usize)) {
    let folder = support::Folder::new();
    let cpu = support::cpu(&folder, 1);
    for vector_bytes in [0, 16, 32, 64] {
        let b = Builder::new();
        let y = function(&b.input("x", DType::F32, dims![16]));
        let mut options = Options::cpu(Numerics::Exact, vector_bytes);
        if vector_bytes == 0 {
            options.on_cpu(|cpu| cpu.plan = Plan::scalar());
        }
        let program = compile(&b, "function", &[("y", &y)], &[], &options).expect("a program").program;
        let mut memory = Memory::new();
        let mut step = cpu.load(Arc::new(program), &mut memory).expect("a loaded program");
        memory.input_mut("x").expect("the input").copy_from_slice(&x);
        step.run(&mut memory, &[]).expect("a step");
        for (&x, &y) in x.iter().zip(memory.output::<f32>("y").expect("the output")) {
            check(x, y, vector_bytes);
        }
    }
}

#[test]
fn exp_at_its_ends() {
    each(X, Tensor::exp, |x, y, vector_bytes| {
        let want = x.exp();
        let close = y == want || (y - want).abs() <= 1e-6 * want + f32::from_bits(2);
        assert!(close || y.is_nan() && want.is_nan(), "exp({x}) = {y}, expected {want} ({vector_bytes} bytes)");
    });
}

#[test]
fn powers_of_two_are_exact() {
    each(
        WHOLE,
        |x| x.unary(UnOp::Exp2),
        |x, y, vector_bytes| {
            let want = f64::from(x).exp2() as f32;
            assert_eq!(y.to_bits(), want.to_bits(), "2^{x} = {y}, expected {want} ({vector_bytes} bytes)");
        },
    );
}

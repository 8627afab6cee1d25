//! The interpreter as a device: what it refuses, and what it does to values that nobody has written.

use crate::support::{Builder, Folder, cpu};
use compiler::program::{BufferKind, Count, Kernel, Program};
use compiler::{Machine, Numerics, Options, Tensor, dims};
use device::{Clock, Device, Error, Interpreter, Memory};
use ir::{Axis, DType, Graph, Id, Op, Space};
use std::sync::Arc;
use testkit::cases::programs::{format, input, weights};
use testkit::cases::{Case, Random};

/// A product with a matrix of 8 rows.
fn product(options: &Options) -> (Case, Arc<Program>) {
    let (mut case, mut random) = (Case::default(), Random(3));
    let x = input(&mut case, "x", 2, 64, &mut random);
    let w = weights(&mut case, "w", format("Q4_0"), &[8, 64], &mut random);
    case.output("y", &x.linear(&w));
    let program = Arc::new(case.compile(options).expect("a program").program);
    (case, program)
}

fn refused(program: &Arc<Program>, memory: &mut Memory) -> Error {
    Interpreter::default().load(program.clone(), memory).err().expect("refused")
}

#[test]
fn weights_must_be_there_as_whole_rows() {
    for options in [Options::cpu(Numerics::Exact, 32), Options::gpu(Numerics::Exact)] {
        let (case, program) = product(&options);
        let error = refused(&program, &mut Memory::new());
        assert!(matches!(&error, Error::Weight { weight, held: 0, .. } if weight == "w"), "{error}");
        let mut memory = Memory::new();
        memory.copy_weight("w", &case.data["w"][18..]).expect("memory");
        let error = refused(&program, &mut memory).to_string();
        match options.machine {
            Machine::Cpu(_) => assert_eq!(error, "program test needs 288 bytes of weight w, memory holds 270"),
            Machine::Gpu(_) => {
                assert!(error.starts_with("weight w cannot be repacked: 270 bytes"), "{error}");
                let error = cpu(&Folder::new(), 1).load(program, &mut memory).err().expect("refused").to_string();
                assert!(error.contains("w is to be repacked"), "{error}");
            }
        }
    }
}

#[test]
fn weights_are_repacked_once() {
    let (case, program) = product(&Options::gpu(Numerics::Exact));
    let mut memory = Memory::new();
    memory.copy_weight("w", &case.data["w"]).expect("memory");
    for _ in 0..2 {
        Interpreter::default().load(program.clone(), &mut memory).expect("a program");
        assert_eq!(memory.usage().weights, 288 + 8 * 48, "8 rows of 32 bytes of codes and 2 scales in 16");
    }
}

#[test]
fn a_kernel_that_is_nothing_but_source_is_refused() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 2, 4, &mut Random(3));
    case.output(
        "y",
        &Tensor::call("own", &[ir::CustomSource::c("void own() {}")], 1, &[x.exp()], DType::F32, dims![2, 4]),
    );
    let program = Arc::new(case.compile(&Options::cpu(Numerics::Exact, 32)).expect("a program").program);
    let error = refused(&program, &mut Memory::new());
    let text = "kernel own has source of its own, which the interpreter cannot run; run it on the cpu";
    assert_eq!(error.to_string(), text);
}

/// A kernel whose task `i` stores element `i + offset` of its first parameter into element `i` of its second.
fn copy(offset: i64) -> Kernel {
    let mut g = Graph::new();
    let (most, offset) = (g.int(64), g.int(offset));
    let i = g.range(0, Axis::Task, most);
    let from = g.buffer(0, Space::Input, DType::F32, 0);
    let at = g.add(i, offset);
    let value = g.load(from, at, 1);
    kernel(g, &[i, value])
}

/// A kernel that stores a value at an index of its second parameter.
fn kernel(mut g: Graph, stored: &[Id]) -> Kernel {
    let to = g.buffer(1, Space::Output, DType::F32, 0);
    let store = g.make(Op::Store, DType::F32, vec![], [&[to], stored].concat());
    let root = g.make(Op::Block, DType::Bool, vec![], vec![store]);
    Kernel { ir: Some(Arc::new((g, root))), ..Kernel::of_source("copy", "", 0) }
}

/// `x`, of which `n` values go through the arena to `y`, which has 4.
fn through_the_arena(kernel: Kernel) -> Program {
    let mut program = Builder::new();
    let n = program.var("n", 0, 4);
    let x = program.buffer(BufferKind::Input("x".into()), 16);
    let t = program.arena(16);
    let y = program.buffer(BufferKind::Output("y".into()), 16);
    let copy = program.add(kernel);
    program.stage().launch(copy, &[x, t], n);
    program.stage().launch(copy, &[t, y], Count::Const(4));
    program.program().clone()
}

#[test]
fn what_no_kernel_has_written_in_a_step_is_nan() {
    let mut memory = Memory::new();
    let mut step = Interpreter::default().load(Arc::new(through_the_arena(copy(0))), &mut memory).expect("a program");
    memory.input_mut("x").expect("x").copy_from_slice(&[1.0_f32, 2.0, 3.0, 4.0]);
    step.run(&mut memory, &[4]).expect("a step");
    assert_eq!(memory.output::<f32>("y").expect("y"), [1.0, 2.0, 3.0, 4.0]);
    let profile = step.run_profiled(&mut memory, &[2], Clock::Wall).expect("a step");
    let y = memory.output::<f32>("y").expect("y");
    assert_eq!(y[..2], [1.0, 2.0]);
    assert!(y[2..].iter().all(|v| v.is_nan()), "{y:?}");
    assert_eq!(profile.launches.iter().map(|l| (l.tasks, l.calls)).collect::<Vec<_>>(), [(2, 1), (4, 1)]);
    let stages: u64 = profile.stages.iter().map(|stage| stage.wall_ns).sum();
    assert!(profile.workers == 1 && stages > 0 && stages + profile.rest_ns == profile.wall_ns);
}

#[test]
fn errors_come_before_the_step_or_name_the_kernel() {
    let mut memory = Memory::new();
    let mut step = Interpreter::default().load(Arc::new(through_the_arena(copy(64))), &mut memory).expect("a program");
    let error = step.run(&mut Memory::new(), &[4]).unwrap_err();
    assert!(matches!(error, Error::OtherMemory { .. }), "{error}");
    let error = step.run(&mut memory, &[5]).unwrap_err();
    assert!(matches!(error, Error::VariableRange { .. }), "{error}");
    let error = step.run(&mut memory, &[0]).unwrap_err();
    assert!(matches!(error, Error::Kernel { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("kernel copy (launch 1): task 0: ") && !text.contains('\n'), "{text}");
}

#[test]
fn what_is_no_kernel_is_refused() {
    let mut g = Graph::new();
    let (at, value) = (g.int(0), g.int(1));
    let error = refused(&Arc::new(through_the_arena(kernel(g, &[at, value]))), &mut Memory::new());
    assert!(matches!(error, Error::Kernel { .. }), "{error}");
    assert!(error.to_string().starts_with("kernel copy (launch 0): "), "{error}");
}

#[test]
fn arguments_of_a_launch_do_not_overlap() {
    let mut program = through_the_arena(copy(0));
    program.arena_bytes = 128;
    program.buffers[0].kind = BufferKind::Arena(8);
    let error = refused(&Arc::new(program), &mut Memory::new()).to_string();
    assert_eq!(error, "program test is malformed: arguments of launch 0 overlap");
}

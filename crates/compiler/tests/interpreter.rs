//! Every kernel of several programs through the kernel interpreter, against the
//! unfused graph, for scalar and vector plans and both numerics.

use crate::support::{Case, Random, gpu_options, gpu_plans, options, plans, programs};
use compiler::cpu::plan::Plan;
use compiler::{Numerics, Options, Tensor, dims};
use ir::DType;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// NMSE of another order of sums.
const EXACT: f64 = 1e-11;

/// NMSE of activations of 8 bits.
const INT8: f64 = 1e-3;

/// Runs all programs under each of these options.
fn check(all: &[Options], most: f64) {
    let mut problems = vec![];
    for (name, case) in programs::all() {
        for o in all {
            let run = || case.check(o, most).err();
            let problem = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Some("panicked".into()));
            problems.extend(problem.map(|p| format!("{name}, {:?} without {:?}: {p}", o.machine, o.without)));
        }
    }
    assert!(problems.is_empty(), "{} failed:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn programs_agree_with_their_definition_under_every_plan() {
    check(&plans().into_iter().map(|plan| options(Numerics::Exact, plan)).collect::<Vec<_>>(), EXACT);
}

/// Under `int8`, plans differ by a code here and there only.
#[test]
fn programs_agree_with_their_definition_with_codes_of_8_bits() {
    check(&plans().into_iter().map(|plan| options(Numerics::Int8, plan)).collect::<Vec<_>>(), INT8);
}

#[test]
fn programs_agree_with_their_definition_on_a_gpu() {
    check(&gpu_plans().into_iter().map(|plan| gpu_options(Numerics::Exact, plan)).collect::<Vec<_>>(), EXACT);
}

#[test]
fn programs_agree_with_their_definition_on_a_gpu_with_codes_of_8_bits() {
    check(&gpu_plans().into_iter().map(|plan| gpu_options(Numerics::Int8, plan)).collect::<Vec<_>>(), INT8);
}

#[test]
fn programs_agree_with_their_definition_without_fusion() {
    let without = vec!["fuse".into()];
    check(&[Options { without, ..options(Numerics::Exact, compiler::cpu::plan::Plan::scalar()) }], EXACT);
}

/// A program whose custom kernel is followed by `after`.
fn after_a_call(after: impl Fn(&Tensor) -> Tensor) -> compiler::Compiled {
    let case = with_a_call(after);
    case.compile(&options(Numerics::Exact, compiler::cpu::plan::Plan::scalar())).expect("a program")
}

fn with_a_call(after: impl Fn(&Tensor) -> Tensor) -> Case {
    let mut case = Case::default();
    let x = programs::input(&mut case, "x", 3, 8, &mut Random(9));
    let source = "void own(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {}";
    let own = Tensor::call("own", &[ir::CustomSource::c(source)], 1, &[x.exp()], DType::F32, dims![3, 8]);
    case.output("y", &after(&own));
    case
}

#[test]
fn a_custom_kernel_in_c_is_refused_for_a_gpu() {
    let refused = with_a_call(Tensor::clone).compile(&Options::gpu(Numerics::Exact));
    let refused = refused.err().expect("it is C").to_string();
    assert!(refused.contains("kernel own ") && refused.contains("CUDA C++, only in C:"), "{refused}");
}

#[test]
fn a_custom_kernel_may_come_last() {
    let c = after_a_call(Tensor::clone);
    assert_eq!(c.program.launches(), 2);
    assert!(c.buffer("y").is_some());
}

#[test]
fn a_function_of_a_custom_kernel_is_computed() {
    let c = after_a_call(|own| own.exp());
    assert_eq!(c.program.launches(), 3);
    assert!(c.buffer("y").is_some());
}

#[test]
fn a_sum_of_a_custom_kernel_is_computed() {
    let c = after_a_call(|own| own.sum(1).exp());
    assert_eq!(c.program.launches(), 3);
    assert!(c.buffer("y").is_some());
}

/// What decides the speed of a prompt: rows are unpacked once for several tokens.
#[test]
fn every_block_format_is_multiplied_in_register_tiles() {
    let grouped = ["experts of grouped tokens", "a sum longer than a panel"];
    let others = programs::all().into_iter().filter(|(name, _)| grouped.contains(&name.as_str()));
    for (name, case) in programs::products(256, |_| true).chain(others) {
        for vector_bytes in [16, 32, 64] {
            let plan = Plan::of_vectors(vector_bytes);
            let c = case.check(&options(Numerics::Int8, plan), INT8).unwrap_or_else(|e| panic!("{name}: {e}"));
            let tiles = c.bodies.iter().filter(|b| b.paths().contains(&"integer tile")).count();
            let want = if name.starts_with("experts") { 2 } else { 1 };
            assert_eq!(tiles, want, "{name} with vectors of {vector_bytes} bytes");
        }
    }
}

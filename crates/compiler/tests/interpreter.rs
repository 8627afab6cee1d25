//! Every kernel of several programs through the kernel interpreter, against the
//! unfused graph, for scalar and vector plans and both numerics.

mod support;

use compiler::tensor::SoftmaxParts;
use compiler::{Numerics, Tensor, dims};
use gguf::format::{Format, rows};
use ir::{BinOp, DType};
use support::{Case, Random, bytes, int_bytes, options, plans};

/// NMSE of another order of sums.
const EXACT: f64 = 1e-11;

/// NMSE of activations of 8 bits.
const INT8: f64 = 1e-3;

/// Runs a case under every plan. Under `int8`, plans differ by a code here and
/// there only.
fn check(case: &Case) {
    let mut problems = vec![];
    for (numerics, most) in [(Numerics::Exact, EXACT), (Numerics::Int8, INT8)] {
        for plan in plans() {
            if let Err(e) = case.check(&options(numerics, plan.clone()), most) {
                problems.push(format!("{numerics:?} {plan:?}: {e}"));
            }
        }
    }
    assert!(problems.is_empty(), "{} of 20 failed; the first: {}", problems.len(), problems[0]);
}

/// A matrix of random weights in a format.
fn weights(case: &mut Case, name: &str, f: &Format, shape: &[i64], random: &mut Random) -> Tensor {
    let n = shape.iter().product::<i64>() as usize;
    let mut data = vec![0; f.row_bytes(n as u64).expect("whole blocks") as usize];
    gguf::quantise::quantise(f, &random.floats(n), &mut data).expect("a quantiser");
    case.bind(name, data);
    let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
    case.b.quantised(name, f, &dims)
}

fn format(name: &str) -> &'static Format {
    rows().iter().find(|f| f.name == name).expect("a known format")
}

/// An input of `rows` rows, of which up to 8 are possible.
fn input(case: &mut Case, name: &str, rows: i64, n: i64, random: &mut Random) -> Tensor {
    case.bind(name, bytes(&random.floats((rows * n) as usize)));
    let t = case.b.var("t", 1, 8);
    case.vars = vec![("t", rows)];
    case.b.input(name, DType::F32, dims![t, n])
}

#[test]
fn linear_in_every_block_format() {
    let mut failed = vec![];
    for f in rows().iter().filter(|f| f.as_blocks().is_some()) {
        let mut r = Random(7);
        let mut case = Case::default();
        let x = input(&mut case, "x", 3, 512, &mut r);
        let w = weights(&mut case, "w", f, &[12, 512], &mut r);
        case.output("y", &x.linear(&w));
        if let Err(e) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&case))) {
            failed.push(format!("{}: {}", f.name, e.downcast_ref::<String>().map_or("panicked", |s| s)));
        }
    }
    assert!(failed.is_empty(), "{} formats failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn norms_residuals_and_gates() {
    let mut r = Random(1);
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 256, &mut r);
    case.bind("norm", bytes(&r.floats(256)));
    let norm = case.b.param("norm", DType::F32, dims![256]);
    let (q4, q6) = (format("Q4_0"), format("Q6_K"));
    let gate = weights(&mut case, "gate", q4, &[512, 256], &mut r);
    let up = weights(&mut case, "up", q4, &[512, 256], &mut r);
    let down = weights(&mut case, "down", q6, &[256, 512], &mut r);
    let h = x.rms_norm(&norm, 1e-6);
    let y = &x + &(&h.linear(&gate).silu() * &h.linear(&up)).linear(&down);
    case.output("y", &y.rms_norm(&norm, 1e-6));
    case.output("p", &y.softmax());
    check(&case);
}

#[test]
fn plain_weights() {
    let mut r = Random(2);
    let mut case = Case::default();
    let x = input(&mut case, "x", 2, 48, &mut r);
    case.bind("w", bytes(&r.floats(20 * 48)));
    case.bind("h", (0..20 * 48).flat_map(|i| ((0x3000 + i * 13 % 0x0c00) as u16).to_le_bytes()).collect());
    let w = case.b.param("w", DType::F32, dims![20, 48]);
    let h = case.b.param("h", DType::F16, dims![20, 48]).cast(DType::F32);
    case.output("y", &x.linear(&w));
    case.output("z", &x.linear(&h).exp());
    check(&case);
}

#[test]
fn attention_over_a_cache_that_the_step_writes() {
    let mut r = Random(3);
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 256, &mut r);
    let t = case.b.var("t", 1, 8);
    case.bind("pos", int_bytes(&[40, 41, 42]));
    let pos = case.b.input("pos", DType::I32, dims![t]);
    case.bind("cache", bytes(&r.floats(128 * 64)));
    let cache = case.b.state("cache", DType::F32, dims![128, 64]);
    let next = cache.scatter(&pos, &x.slice(1, 0, 64));
    let kv = next.reshape(dims![1, 4, 1, 32, 64]);
    let q = x.reshape(dims![t, 1, 4, 1, 64]);
    let scores = (&q * &kv).sum(4);
    let one = case.b.int32(1);
    let at = case.b.iota(128).reshape(dims![1, 4, 1, 32]);
    let seen = at.lt(&pos.binary(BinOp::Add, &one).reshape(dims![t, 1, 1, 1]));
    let scores = seen.select(&scores, &case.b.float(-1e30));
    let parts = SoftmaxParts::of_tile(&scores, |e| (&e.unsqueeze(4) * &kv).sum(3));
    let tile = case.b.int32(32);
    let count = pos.binary(BinOp::Add, &tile).binary(BinOp::Div, &tile);
    case.output("o", &parts.fold(1, &count).finish());
    case.effects.push(("cache".into(), next));
    check(&case);
}

#[test]
fn a_cache_is_written_in_place() {
    let mut r = Random(4);
    let mut case = Case::default();
    let x = input(&mut case, "x", 2, 32, &mut r);
    let t = case.b.var("t", 1, 8);
    case.bind("pos", int_bytes(&[5, 1]));
    let pos = case.b.input("pos", DType::I32, dims![t]);
    case.bind("cache", bytes(&r.floats(8 * 32)));
    let cache = case.b.state("cache", DType::F32, dims![8, 32]);
    let next = cache.scatter(&pos, &(&x * &x));
    case.output("rows", &next.gather(&pos).exp());
    case.effects.push(("cache".into(), next));
    check(&case);
}

#[test]
fn gather_from_a_quantised_table() {
    let mut r = Random(5);
    let mut case = Case { vars: vec![("t", 3)], ..Case::default() };
    let t = case.b.var("t", 1, 8);
    case.bind("id", int_bytes(&[4, 0, 9]));
    let id = case.b.input("id", DType::I32, dims![t]);
    let table = weights(&mut case, "table", format("Q8_0"), &[10, 64], &mut r);
    case.output("y", &table.gather(&id));
    check(&case);
}

#[test]
fn the_largest_of_each_row() {
    let mut r = Random(6);
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 24, &mut r);
    let ids = x.topk(5);
    case.output("values", &x.take_last(&ids));
    case.output("ids", &ids);
    check(&case);
}

#[test]
fn ties_and_nan_have_a_place_in_the_order() {
    let mut case = Case { vars: vec![("t", 1)], ..Case::default() };
    let t = case.b.var("t", 1, 8);
    case.bind("x", bytes(&[1.0, f32::NAN, 3.0, 3.0, f32::NEG_INFINITY, 0.0, -0.0, 3.0]));
    let x = case.b.input("x", DType::F32, dims![t, 8]);
    case.output("ids", &x.topk(8));
    check(&case);
}

#[test]
fn experts_are_read_in_place() {
    let mut r = Random(8);
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 64, &mut r);
    case.bind("router", bytes(&r.floats(6 * 64)));
    let router = case.b.param("router", DType::F32, dims![6, 64]);
    let q4 = format("Q4_0");
    let gate = weights(&mut case, "gate", q4, &[6, 96, 64], &mut r);
    let up = weights(&mut case, "up", q4, &[6, 96, 64], &mut r);
    let down = weights(&mut case, "down", q4, &[6, 64, 96], &mut r);
    let probs = x.linear(&router).sigmoid();
    let ids = probs.topk(2);
    let weight = probs.take_last(&ids);
    let x1 = x.unsqueeze(1);
    let h = &x1.linear(&gate.gather(&ids)).silu() * &x1.linear(&up.gather(&ids));
    case.output("y", &(&x + &(&h.linear(&down.gather(&ids)) * &weight.unsqueeze(2)).sum(1)));
    check(&case);
}

#[test]
fn an_output_may_be_a_view_of_an_input() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &x.slice(1, 2, 4));
    check(&case);
}

#[test]
fn an_output_may_be_twice_a_parameter() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &(&x * 2.0));
    check(&case);
}

#[test]
fn a_value_may_have_two_names() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &x.exp());
    case.output("z", &x.exp());
    check(&case);
}

/// Runs a case fused and unfused.
fn check_unfused(case: &Case) {
    check(case);
    let mut o = options(Numerics::Exact, compiler::tile::Plan::scalar());
    o.without = vec!["fuse".into()];
    case.check(&o, EXACT).expect("the same without fusion");
}

#[test]
fn concatenated_inputs() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &Tensor::concat(&[x.clone(), x], 1).exp());
    check_unfused(&case);
}

#[test]
fn concatenated_values() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &Tensor::concat(&[x.exp(), x], 1).exp());
    check_unfused(&case);
}

#[test]
fn the_largest_of_gathered_rows() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.bind("id", int_bytes(&[2, 0, 1, 0]));
    let id = case.b.input("id", DType::I32, dims![4]);
    case.output("y", &x.gather(&id).topk(2).cast(DType::F32).exp());
    check(&case);
}

#[test]
fn a_gathered_row_beside_all_rows() {
    let mut case = Case::default();
    case.bind("x", bytes(&Random(9).floats(8 * 32)));
    let x = case.b.param("x", DType::F32, dims![8, 32]);
    case.bind("id", int_bytes(&[2]));
    let id = case.b.input("id", DType::I32, dims![1]);
    case.output("y", &(&x + &x.gather(&id)).exp());
    check(&case);
}

#[test]
fn an_output_may_be_rows_of_an_input() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.bind("id", int_bytes(&[2, 0]));
    let id = case.b.input("id", DType::I32, dims![2]);
    case.output("y", &x.gather(&id));
    check(&case);
}

#[test]
fn an_output_may_be_read_by_others() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    let y = x.exp();
    case.output("y", &y);
    case.output("z", &y.sum(1));
    check(&case);
}

#[test]
fn an_outer_product_of_a_vector_with_itself() {
    let mut case = Case::default();
    case.bind("x", bytes(&Random(9).floats(48)));
    let x = case.b.param("x", DType::F32, dims![12, 4]);
    let v = x.sum(1);
    case.output("y", &(&v.reshape(dims![1, 12]) * &v.reshape(dims![12, 1])).exp());
    check(&case);
}

#[test]
fn an_output_may_be_read_through_a_slice() {
    let mut case = Case::default();
    case.bind("x", bytes(&Random(9).floats(12)));
    let x = case.b.param("x", DType::F32, dims![12]);
    let s = x.softmax();
    let y = s.exp();
    case.output("y", &y);
    case.output("z", &(&s * &y).slice(0, 6, 3).sum(0).exp());
    check(&case);
}

#[test]
fn a_fence_stands_between_two_kernels() {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &x.exp().fence().exp());
    check(&case);
}

/// A program whose custom kernel is followed by `after`.
fn after_a_call(after: impl Fn(&Tensor) -> Tensor) -> compiler::Compiled {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    let source = "void own(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {}";
    let own = Tensor::call("own", source, 1, &[x.exp()], DType::F32, dims![3, 8]);
    case.output("y", &after(&own));
    case.compile(&options(Numerics::Exact, compiler::tile::Plan::scalar())).expect("a program")
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

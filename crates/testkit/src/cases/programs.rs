//! Small programs with their data: what every plan, numerics policy and
//! instruction level has to compute alike.

use super::{Case, Random, bytes, int_bytes};
use compiler::tensor::SoftmaxParts;
use compiler::{Tensor, dims};
use gguf::format::{Format, rows};
use ir::{BinOp, DType, UnOp};

/// Functions with their names.
macro_rules! named {
    ($($program:ident)*) => {
        [$((stringify!($program), $program as fn() -> Case)),*]
    };
}

/// All programs, by name.
pub fn all() -> Vec<(String, Case)> {
    let named = named![
        norms_residuals_and_gates
        plain_weights
        attention_over_a_cache_that_the_step_writes
        a_cache_is_written_in_place
        gather_from_a_quantised_table
        the_largest_of_each_row
        ties_and_nan_have_a_place_in_the_order
        the_largest_of_one
        truth_values_of_truth_values
        experts_are_read_in_place
        experts_of_grouped_tokens
        a_sum_longer_than_a_panel
        an_output_may_be_a_view_of_an_input
        an_output_may_be_twice_a_parameter
        a_value_may_have_two_names
        concatenated_inputs
        concatenated_values
        the_largest_of_gathered_rows
        a_gathered_row_beside_all_rows
        an_output_may_be_rows_of_an_input
        an_output_may_be_read_by_others
        an_outer_product_of_a_vector_with_itself
        an_output_may_be_read_through_a_slice
        a_fence_stands_between_two_kernels
        integers_wrap
        a_softmax_of_one_tile
    ];
    let named = named.into_iter().map(|(name, program)| (name.replace('_', " "), program()));
    named.chain(products(12, |_| true)).chain(products(256, |name| ["Q4_0", "Q6_K"].contains(&name))).collect()
}

/// A product of some tokens with so many rows, for each block format that is asked for.
pub fn products(rows_each: i64, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (String, Case)> {
    let formats = rows().iter().filter(move |f| f.as_blocks().is_some() && wanted(&f.name));
    formats.map(move |f| (format!("a product with {rows_each} rows of {}", f.name), product(f, rows_each)))
}

/// A matrix of random weights in a format.
pub fn weights(case: &mut Case, name: &str, f: &Format, shape: &[i64], random: &mut Random) -> Tensor {
    let n = shape.iter().product::<i64>() as usize;
    let mut data = vec![0; f.row_bytes(n as u64).expect("whole blocks") as usize];
    gguf::quantise::quantise(f, &random.floats(n), &mut data).expect("a quantiser");
    case.bind(name, data);
    let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
    case.b.quantised(name, f, &dims)
}

/// A format of the table by its name.
pub fn format(name: &str) -> &'static Format {
    rows().iter().find(|f| f.name == name).expect("a known format")
}

/// An input of `rows` rows, of which up to 8 are possible.
pub fn input(case: &mut Case, name: &str, rows: i64, n: i64, random: &mut Random) -> Tensor {
    input_of(case, name, rows, (1, 8), n, random)
}

/// Rows of an input, of which there can be as many as the limits say.
pub fn input_of(
    case: &mut Case,
    name: &str,
    rows: i64,
    (least, most): (i64, i64),
    n: i64,
    random: &mut Random,
) -> Tensor {
    case.bind(name, bytes(&random.floats((rows * n) as usize)));
    let t = case.b.var("t", least, most);
    case.vars = vec![("t", rows)];
    case.b.input(name, DType::F32, dims![t, n])
}

/// A matrix product with weights in a block format.
fn product(f: &Format, rows: i64) -> Case {
    let mut r = Random(7);
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 512, &mut r);
    let w = weights(&mut case, "w", f, &[rows, 512], &mut r);
    // Of an input itself each row would make the codes again.
    case.output("y", &x.silu().linear(&w));
    case
}

/// Sums and products that do not fit 32 bits; each output tells a compiler that takes them for impossible from one that does
/// not.
fn integers_wrap() -> Case {
    let mut case = Case::default();
    let n = 40;
    let values: Vec<i32> = (0..n).map(|i| [i32::MAX, i32::MIN, 7, -3, 1 << 30][i as usize % 5]).collect();
    case.bind("x", int_bytes(&values));
    let x = case.b.input("x", DType::I32, dims![n]);
    let [zero, one, two] = [0, 1, 2].map(|v| case.b.int32(v));
    let grown = x.binary(BinOp::Add, &one).lt(&x);
    let shrunk = x.lt(&x.binary(BinOp::Sub, &one));
    let halved = x.binary(BinOp::Mul, &two).binary(BinOp::Div, &two).binary(BinOp::Eq, &x);
    for (name, is) in [("grown", grown), ("shrunk", shrunk), ("halved", halved)] {
        case.output(name, &is.cast(DType::F32));
    }
    case.output("sum", &x.sum(0).cast(DType::F32));
    case.output("negative", &x.unary(UnOp::Neg).lt(&zero).cast(DType::F32));
    case
}

/// A loop of at most one step.
fn a_softmax_of_one_tile() -> Case {
    let mut r = Random(31);
    let mut case = Case::default();
    case.bind("x", bytes(&r.floats(3 * 8)));
    case.bind("count", int_bytes(&[1, 1, 1]));
    let x = case.b.input("x", DType::F32, dims![3, 1, 8]);
    let count = case.b.input("count", DType::I32, dims![3]);
    let parts = SoftmaxParts::of_tile(&x.silu(), |e| e * &x);
    case.output("y", &parts.fold(1, &count).finish());
    case
}

fn norms_residuals_and_gates() -> Case {
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
    case
}

fn plain_weights() -> Case {
    let mut r = Random(2);
    let mut case = Case::default();
    let x = input(&mut case, "x", 2, 48, &mut r);
    case.bind("w", bytes(&r.floats(20 * 48)));
    case.bind("h", (0..20 * 48).flat_map(|i| ((0x3000 + i * 13 % 0x0c00) as u16).to_le_bytes()).collect());
    let w = case.b.param("w", DType::F32, dims![20, 48]);
    let h = case.b.param("h", DType::F16, dims![20, 48]).cast(DType::F32);
    case.output("y", &x.linear(&w));
    case.output("z", &x.linear(&h).exp());
    case
}

fn attention_over_a_cache_that_the_step_writes() -> Case {
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
    case
}

fn a_cache_is_written_in_place() -> Case {
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
    case
}

fn gather_from_a_quantised_table() -> Case {
    let mut r = Random(5);
    let mut case = Case { vars: vec![("t", 3)], ..Case::default() };
    let t = case.b.var("t", 1, 8);
    case.bind("id", int_bytes(&[4, 0, 9]));
    let id = case.b.input("id", DType::I32, dims![t]);
    let table = weights(&mut case, "table", format("Q8_0"), &[10, 64], &mut r);
    case.output("y", &table.gather(&id));
    case
}

fn the_largest_of_each_row() -> Case {
    let mut r = Random(6);
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 24, &mut r);
    let ids = x.topk(5);
    case.output("values", &x.take_last(&ids));
    case.output("ids", &ids);
    case
}

fn ties_and_nan_have_a_place_in_the_order() -> Case {
    let mut case = Case { vars: vec![("t", 1)], ..Case::default() };
    let t = case.b.var("t", 1, 8);
    case.bind("x", bytes(&[1.0, f32::NAN, 3.0, 3.0, f32::NEG_INFINITY, 0.0, -0.0, 3.0]));
    let x = case.b.input("x", DType::F32, dims![t, 8]);
    case.output("ids", &x.topk(8));
    case
}

fn the_largest_of_one() -> Case {
    let mut case = Case::default();
    case.bind("x", bytes(&Random(6).floats(96)));
    let x = case.b.input("x", DType::F32, dims![24, 4, 1]);
    case.output("ids", &x.exp().topk(1));
    case
}

fn truth_values_of_truth_values() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 16, &mut Random(6));
    case.bind("n", int_bytes(&[3, 1, 4, 1]));
    let n = case.b.input("n", DType::I32, dims![4]);
    let few = n.lt(&case.b.int32(2)).reshape(dims![1, 4]).expand(dims![4, 4]).reshape(dims![1, 16]);
    let few = few.expand(&x.shape());
    case.output("y", &x.lt(&(&x * 0.5)).select(&few, &x.lt(&(-&x + 0.25))).select(&x.exp(), &x));
    case
}

fn experts_are_read_in_place() -> Case {
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
    case
}

/// Places past the counts are read by nobody: they hold NaN.
fn experts_of_grouped_tokens() -> Case {
    let mut r = Random(21);
    let mut case = Case::default();
    let x = input(&mut case, "x", 5, 64, &mut r).silu();
    case.bind("owner", int_bytes(&[2, 1, 0, 0, 1, 1]));
    case.bind("count", int_bytes(&[9, 2, 0]));
    case.bind("token", int_bytes(&(0..36).map(|i| (i * 7 + i / 5) % 5).collect::<Vec<_>>()));
    case.bind("place", int_bytes(&[8, 0, 13, 3, 12]));
    // Chosen by a computed index, as a router's choices are.
    let owner = case.b.input("owner", DType::I32, dims![3, 2]).max(1);
    let count = case.b.input("count", DType::I32, dims![3]);
    let token = case.b.input("token", DType::I32, dims![3, 12]);
    let t = x.shape()[0];
    let place = case.b.input("place", DType::I32, &[t]);
    let q4 = format("Q4_0");
    let gate = weights(&mut case, "gate", q4, &[3, 256, 64], &mut r);
    let down = weights(&mut case, "down", q4, &[3, 256, 256], &mut r);
    let rows = |w: &Tensor| w.gather(&owner).unsqueeze(1);
    let h = x.gather(&token).prefix(1, &count).linear(&rows(&gate)).silu();
    let y = h.prefix(1, &count).linear(&rows(&down));
    case.output("y", &y.reshape(dims![36, 256]).gather(&place));
    case
}

pub fn a_sum_longer_than_a_panel() -> Case {
    let mut r = Random(22);
    let mut case = Case::default();
    let x = input(&mut case, "x", 7, 4608, &mut r).silu();
    let w = weights(&mut case, "w", format("Q4_K"), &[256, 4608], &mut r);
    case.output("y", &x.linear(&w));
    case
}

fn an_output_may_be_a_view_of_an_input() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &x.slice(1, 2, 4));
    case
}

fn an_output_may_be_twice_a_parameter() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &(&x * 2.0));
    case
}

fn a_value_may_have_two_names() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &x.exp());
    case.output("z", &x.exp());
    case
}

fn concatenated_inputs() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &Tensor::concat(&[x.clone(), x], 1).exp());
    case
}

fn concatenated_values() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &Tensor::concat(&[x.exp(), x], 1).exp());
    case
}

fn the_largest_of_gathered_rows() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.bind("id", int_bytes(&[2, 0, 1, 0]));
    let id = case.b.input("id", DType::I32, dims![4]);
    case.output("y", &x.gather(&id).topk(2).cast(DType::F32).exp());
    case
}

fn a_gathered_row_beside_all_rows() -> Case {
    let mut case = Case::default();
    case.bind("x", bytes(&Random(9).floats(8 * 32)));
    let x = case.b.param("x", DType::F32, dims![8, 32]);
    case.bind("id", int_bytes(&[2]));
    let id = case.b.input("id", DType::I32, dims![1]);
    case.output("y", &(&x + &x.gather(&id)).exp());
    case
}

fn an_output_may_be_rows_of_an_input() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.bind("id", int_bytes(&[2, 0]));
    let id = case.b.input("id", DType::I32, dims![2]);
    case.output("y", &x.gather(&id));
    case
}

fn an_output_may_be_read_by_others() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    let y = x.exp();
    case.output("y", &y);
    case.output("z", &y.sum(1));
    case
}

fn an_outer_product_of_a_vector_with_itself() -> Case {
    let mut case = Case::default();
    case.bind("x", bytes(&Random(9).floats(48)));
    let x = case.b.param("x", DType::F32, dims![12, 4]);
    let v = x.sum(1);
    case.output("y", &(&v.reshape(dims![1, 12]) * &v.reshape(dims![12, 1])).exp());
    case
}

fn an_output_may_be_read_through_a_slice() -> Case {
    let mut case = Case::default();
    case.bind("x", bytes(&Random(9).floats(12)));
    let x = case.b.param("x", DType::F32, dims![12]);
    let s = x.softmax();
    let y = s.exp();
    case.output("y", &y);
    case.output("z", &(&s * &y).slice(0, 6, 3).sum(0).exp());
    case
}

fn a_fence_stands_between_two_kernels() -> Case {
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 8, &mut Random(9));
    case.output("y", &x.exp().fence().exp());
    case
}

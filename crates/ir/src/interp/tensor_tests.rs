//! Each tensor operation against straight code.

use super::tensor::{Bindings, EvalError, Tensor, evaluate};
use crate::{BinOp, Const, DType, Graph, Id, Op, Part, ReduceOp, UnOp};
use gguf::format::{Encoding, Format, rows};
use std::sync::Arc;

/// Bytes of small floats that differ.
fn floats(n: usize) -> (Vec<f32>, Vec<u8>) {
    let v: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 101) as f32 / 16.0 - 3.0).collect();
    let bytes = v.iter().flat_map(|v| v.to_le_bytes()).collect();
    (v, bytes)
}

fn i32s(v: &[i32]) -> Vec<u8> {
    v.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn shape(g: &mut Graph, dims: &[i64]) -> Vec<Id> {
    dims.iter().map(|&d| g.int(d)).collect()
}

fn param(g: &mut Graph, name: &str, ty: DType, dims: &[i64]) -> Id {
    let s = shape(g, dims);
    g.param(name, ty, s)
}

fn expand(g: &mut Graph, a: Id, dims: &[i64]) -> Id {
    let s = shape(g, dims);
    g.expand(a, s)
}

fn reshape(g: &mut Graph, a: Id, dims: &[i64]) -> Id {
    let s = shape(g, dims);
    g.reshape(a, s)
}

fn run(g: &Graph, root: Id, b: &Bindings) -> Tensor {
    evaluate(g, &[root], b).unwrap().remove(0)
}

#[test]
fn unary_of_floats() {
    let (v, bytes) = floats(5000);
    type Case = (UnOp, fn(f32) -> f32);
    let cases: &[Case] = &[
        (UnOp::Neg, |a| -a),
        (UnOp::Exp, f32::exp),
        (UnOp::Sqrt, f32::sqrt),
        (UnOp::Rsqrt, |a| 1.0 / a.sqrt()),
        (UnOp::Recip, |a| 1.0 / a),
        (UnOp::Sin, f32::sin),
        (UnOp::Cos, f32::cos),
        (UnOp::Abs, f32::abs),
        (UnOp::Round, f32::round),
        (UnOp::Exp2, f32::exp2),
    ];
    for (op, f) in cases {
        let mut g = Graph::new();
        let x = param(&mut g, "x", DType::F32, &[5000]);
        let y = g.unary(*op, x);
        let got = run(&g, y, &Bindings::new().tensor("x", &bytes));
        let want: Vec<u32> = v.iter().map(|&a| f(a).to_bits()).collect();
        assert_eq!(got.floats().iter().map(|f| f.to_bits()).collect::<Vec<_>>(), want, "{op:?}");
    }
}

#[test]
fn binary_of_integers_wraps_to_the_type() {
    use BinOp::*;
    let a: Vec<i8> = (-128..=127).collect();
    let b: Vec<i8> = (0..256).map(|i| if i % 9 == 4 { 1 } else { (i % 9) as i8 - 4 }).collect();
    let (ab, bb): (Vec<u8>, Vec<u8>) = (a.iter().map(|&v| v as u8).collect(), b.iter().map(|&v| v as u8).collect());
    type Case = (BinOp, fn(i8, i8) -> i64);
    let cases: &[Case] = &[
        (Add, |a, b| a.wrapping_add(b).into()),
        (Sub, |a, b| a.wrapping_sub(b).into()),
        (Mul, |a, b| a.wrapping_mul(b).into()),
        (Div, |a, b| a.wrapping_div_euclid(b).into()),
        (Mod, |a, b| a.wrapping_rem_euclid(b).into()),
        (Min, |a, b| a.min(b).into()),
        (Max, |a, b| a.max(b).into()),
        (And, |a, b| (a & b).into()),
        (Or, |a, b| (a | b).into()),
        (Xor, |a, b| (a ^ b).into()),
        (Lt, |a, b| (a < b).into()),
        (Eq, |a, b| (a == b).into()),
    ];
    for (op, f) in cases {
        let mut g = Graph::new();
        let x = param(&mut g, "a", DType::I8, &[256]);
        let y = param(&mut g, "b", DType::I8, &[256]);
        let z = g.binary(*op, x, y);
        let got = run(&g, z, &Bindings::new().tensor("a", &ab).tensor("b", &bb));
        let want: Vec<i64> = a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect();
        assert_eq!(got.integers(), want, "{op:?}");
    }
}

#[test]
fn unsigned_words_keep_their_sign_bit() {
    let a = i32s(&[-1, 7, i32::MIN]);
    let b = i32s(&[2, 9, 3]);
    let mut g = Graph::new();
    let x = param(&mut g, "a", DType::U32, &[3]);
    let y = param(&mut g, "b", DType::U32, &[3]);
    for (op, want) in [
        (BinOp::Div, [u32::MAX / 2, 0, (1 << 31) / 3]),
        (BinOp::Shr, [u32::MAX >> 2, 0, 1 << 28]),
        (BinOp::Max, [u32::MAX, 9, 1 << 31]),
    ] {
        let z = g.binary(op, x, y);
        let got = run(&g, z, &Bindings::new().tensor("a", &a).tensor("b", &b));
        assert_eq!(got.integers(), want.map(i64::from), "{op:?}");
    }
    let f = g.cast(x, DType::F32);
    assert_eq!(run(&g, f, &Bindings::new().tensor("a", &a)).floats()[0], u32::MAX as f32);
}

#[test]
fn maximum_and_minimum_keep_nan() {
    let v = [1.0, f32::NAN, 3.0, f32::NAN];
    let w = [f32::NAN, 2.0, 1.0, f32::NAN];
    let bytes = |v: [f32; 4]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (v, w) = (bytes(v), bytes(w));
    let mut g = Graph::new();
    let (x, y) = (param(&mut g, "x", DType::F32, &[4]), param(&mut g, "y", DType::F32, &[4]));
    let bindings = Bindings::new().tensor("x", &v).tensor("y", &w);
    for op in [BinOp::Min, BinOp::Max] {
        let z = g.binary(op, x, y);
        let nan: Vec<bool> = run(&g, z, &bindings).floats().iter().map(|v| v.is_nan()).collect();
        assert_eq!(nan, [true, true, false, true]);
    }
    let m = g.reduce(ReduceOp::Max, x, vec![0]);
    assert!(run(&g, m, &bindings).floats()[0].is_nan());
}

#[test]
fn casts() {
    let v = [0.1f32, -2.9, 300.7, f32::NAN, 1e-8, 65504.0];
    let bytes: Vec<u8> = v.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut g = Graph::new();
    let x = param(&mut g, "x", DType::F32, &[6]);
    let b = Bindings::new().tensor("x", &bytes);
    let half = g.cast(x, DType::F16);
    assert_eq!(
        run(&g, half, &b).bytes,
        v.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect::<Vec<_>>()
    );
    let brain = g.cast(x, DType::BF16);
    let back = g.cast(brain, DType::F32);
    assert_eq!(run(&g, back, &b).floats()[0], half::bf16::from_f32(0.1).to_f32());
    let int = g.cast(x, DType::I32);
    assert_eq!(run(&g, int, &b).integers(), [0, -2, 300, 0, 0, 65504]);
    let byte = g.cast(int, DType::U8);
    assert_eq!(run(&g, byte, &b).integers(), [0, 254, 44, 0, 0, 224]);
    let byte = g.cast(x, DType::U8);
    assert_eq!(run(&g, byte, &b).integers(), [0, 254, 44, 0, 0, 224]);
    let truth = g.cast(x, DType::Bool);
    assert_eq!(run(&g, truth, &b).bytes, [1, 1, 1, 1, 1, 1]);
}

#[test]
fn arithmetic_on_halves_rounds_each_time() {
    let v = [1.0f32, 3.0];
    let bytes: Vec<u8> = v.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
    let mut g = Graph::new();
    let x = param(&mut g, "x", DType::F16, &[2]);
    let y = g.unary(UnOp::Recip, x);
    let z = g.binary(BinOp::Add, y, y);
    let third = half::f16::from_f32(1.0 / 3.0);
    let want = half::f16::from_f32(third.to_f32() * 2.0);
    assert_eq!(run(&g, z, &Bindings::new().tensor("x", &bytes)).bytes[2..], want.to_le_bytes());
}

#[test]
fn select_and_not() {
    let (v, bytes) = floats(7);
    let mut g = Graph::new();
    let x = param(&mut g, "x", DType::F32, &[7]);
    let zero = g.float(0.0);
    let zero = reshape(&mut g, zero, &[1]);
    let zero = expand(&mut g, zero, &[7]);
    let c = g.binary(BinOp::Lt, x, zero);
    let c = g.unary(UnOp::Not, c);
    let y = g.select(c, x, zero);
    let want: Vec<f32> = v.iter().map(|&v| v.max(0.0)).collect();
    assert_eq!(run(&g, y, &Bindings::new().tensor("x", &bytes)).floats(), want);
}

#[test]
fn reductions_of_any_dimensions() {
    let dims = [3usize, 70, 5, 9];
    let n: usize = dims.iter().product();
    let (v, bytes) = floats(n);
    for mask in 1..16usize {
        let axes: Vec<usize> = (0..4).filter(|d| mask >> d & 1 == 1).collect();
        let mut g = Graph::new();
        let x = param(&mut g, "x", DType::F32, &dims.map(|d| d as i64));
        let sum = g.reduce(ReduceOp::Sum, x, axes.clone());
        let max = g.reduce(ReduceOp::Max, x, axes.clone());
        let kept: Vec<usize> = (0..4).filter(|d| !axes.contains(d)).collect();
        let len: usize = kept.iter().map(|&d| dims[d]).product();
        let (mut sums, mut most) = (vec![0.0f64; len], vec![f32::NEG_INFINITY; len]);
        for (i, &v) in v.iter().enumerate() {
            let index = [i / 3150, i / 45 % 70, i / 9 % 5, i % 9];
            let at = kept.iter().fold(0, |at, &d| at * dims[d] + index[d]);
            sums[at] += f64::from(v);
            most[at] = most[at].max(v);
        }
        let b = Bindings::new().tensor("x", &bytes);
        let got = evaluate(&g, &[sum, max], &b).unwrap();
        assert_eq!(got[0].floats(), sums.iter().map(|&v| v as f32).collect::<Vec<_>>(), "sum {axes:?}");
        assert_eq!(got[1].floats(), most, "max {axes:?}");
    }
}

#[test]
fn long_reductions_cross_blocks() {
    for (dims, axis) in [([3, 5000], 1), ([5000, 3], 0), ([2, 3000], 0)] {
        let (v, bytes) = floats(dims[0] * dims[1]);
        let mut g = Graph::new();
        let x = param(&mut g, "x", DType::F32, &dims.map(|d| d as i64));
        let y = g.reduce(ReduceOp::Sum, x, vec![axis]);
        let n = dims[1 - axis];
        let mut want = vec![0.0f64; n];
        for (i, &v) in v.iter().enumerate() {
            want[if axis == 1 { i / dims[1] } else { i % dims[1] }] += f64::from(v);
        }
        let want: Vec<f32> = want.iter().map(|&v| v as f32).collect();
        assert_eq!(run(&g, y, &Bindings::new().tensor("x", &bytes)).floats(), want);
    }
}

#[test]
fn integer_sums_wrap_and_maxima_compare() {
    let v = [200u8, 100, 7, 250];
    let mut g = Graph::new();
    let x = param(&mut g, "x", DType::U8, &[2, 2]);
    let sum = g.reduce(ReduceOp::Sum, x, vec![1]);
    let max = g.reduce(ReduceOp::Max, x, vec![0]);
    let got = evaluate(&g, &[sum, max], &Bindings::new().tensor("x", &v)).unwrap();
    assert_eq!(got[0].bytes, [44, 1]);
    assert_eq!(got[1].bytes, [200, 250]);
}

#[test]
fn a_matrix_product_and_its_transposed_forms() {
    let (m, n, k) = (7usize, 33, 300);
    let (a, a_bytes) = floats(m * k);
    let (w, w_bytes) = floats(n * k);
    let dims = [m as i64, n as i64, k as i64];
    let mut g = Graph::new();
    let x = param(&mut g, "x", DType::F32, &[dims[0], 1, dims[2]]);
    let x = expand(&mut g, x, &dims);
    // Weights as [n, k], and as [k, n] read through a permutation.
    let by_row = param(&mut g, "w", DType::F32, &[1, dims[1], dims[2]]);
    let by_column = param(&mut g, "w", DType::F32, &[1, dims[2], dims[1]]);
    let by_column = g.permute(by_column, vec![0, 2, 1]);
    let mut roots = vec![];
    for w in [by_row, by_column] {
        let w = expand(&mut g, w, &dims);
        let p = g.mul(x, w);
        roots.push(g.reduce(ReduceOp::Sum, p, vec![2]));
    }
    let got = evaluate(&g, &roots, &Bindings::new().tensor("x", &a_bytes).tensor("w", &w_bytes)).unwrap();
    for (t, at) in [(0, &(|r, c| r * k + c) as &dyn Fn(usize, usize) -> usize), (1, &|r, c| c * n + r)] {
        let mut want = vec![];
        for i in 0..m {
            for j in 0..n {
                want.push((0..k).map(|l| f64::from(a[i * k + l] * w[at(j, l)])).sum::<f64>() as f32);
            }
        }
        assert_eq!(got[t].floats(), want);
    }
}

#[test]
fn gather_clamps_and_scatter_makes_a_version() {
    let (v, bytes) = floats(5 * 3);
    let index = i32s(&[4, -7, 99, 2]);
    let mut g = Graph::new();
    let t = param(&mut g, "t", DType::F32, &[5, 3]);
    let i = param(&mut g, "i", DType::I32, &[2, 2]);
    let y = g.gather(t, i);
    let b = Bindings::new().tensor("t", &bytes).tensor("i", &index);
    let want: Vec<f32> = [4, 0, 4, 2].iter().flat_map(|&r| v[r * 3..r * 3 + 3].to_vec()).collect();
    let got = run(&g, y, &b);
    assert_eq!((got.dims.clone(), got.floats()), (vec![2, 2, 3], want));

    let mut g = Graph::new();
    let s = {
        let dims = shape(&mut g, &[5, 3]);
        g.state("s", DType::F32, dims)
    };
    let i = param(&mut g, "i", DType::I32, &[2]);
    let rows = param(&mut g, "rows", DType::F32, &[2, 3]);
    let next = g.scatter(s, i, rows);
    let old = g.reduce(ReduceOp::Sum, s, vec![0, 1]);
    let new = g.reduce(ReduceOp::Sum, next, vec![0, 1]);
    let rows_bytes: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut want = v.clone();
    want[9..12].copy_from_slice(&[1.0, 2.0, 3.0]);
    want[0..3].copy_from_slice(&[4.0, 5.0, 6.0]);
    let index = i32s(&[3, 0]);
    let b = Bindings::new().tensor("s", &bytes).tensor("i", &index).tensor("rows", &rows_bytes);
    let got = evaluate(&g, &[next, old, new], &b).unwrap();
    assert_eq!(got[0].floats(), want);
    assert_eq!(got[1].floats()[0], v.iter().sum::<f32>());
    assert_eq!(got[2].floats()[0], want.iter().sum::<f32>());
    for (bad, what) in [([5, 0], "row 5"), ([1, 1], "twice")] {
        let index = i32s(&bad);
        let b = Bindings::new().tensor("s", &bytes).tensor("i", &index).tensor("rows", &rows_bytes);
        assert!(evaluate(&g, &[next], &b).unwrap_err().to_string().contains(what));
    }
}

#[test]
fn scans_along_each_dimension() {
    let v: Vec<i32> = (0..24).map(|i| i * 7 % 11 - 5).collect();
    let bytes = i32s(&v);
    for axis in 0..3 {
        let mut g = Graph::new();
        let x = param(&mut g, "x", DType::I32, &[2, 3, 4]);
        let s = g.shape(x).to_vec();
        let y = g.make(Op::Scan(axis), DType::I32, s, vec![x]);
        let step = [12, 4, 1][axis];
        let mut want: Vec<i64> = v.iter().map(|&v| v.into()).collect();
        for i in 0..24 {
            if i / step % [2, 3, 4][axis] > 0 {
                want[i] += want[i - step];
            }
        }
        assert_eq!(run(&g, y, &Bindings::new().tensor("x", &bytes)).integers(), want);
    }
}

#[test]
fn top_k_is_a_total_order() {
    let v = [1.0f32, f32::NAN, 5.0, 5.0, -1.0, f32::NAN, f32::INFINITY, 0.0];
    let bytes: Vec<u8> = v.iter().flat_map(|v| v.to_le_bytes()).collect();
    for k in 0..=8usize {
        let mut g = Graph::new();
        let x = param(&mut g, "x", DType::F32, &[1, 8]);
        let s = shape(&mut g, &[1, k as i64]);
        let y = g.make(Op::TopK(k), DType::I32, s, vec![x]);
        let got = run(&g, y, &Bindings::new().tensor("x", &bytes)).integers();
        assert_eq!(got, [6, 2, 3, 0, 7, 4, 1, 5][..k]);
    }
}

#[test]
fn iota_choice_fence_and_symbolic_extents() {
    let mut g = Graph::new();
    let t = g.var("t", 1, 9);
    let iota = g.make(Op::Iota, DType::I32, vec![t], vec![]);
    let double = g.add(iota, iota);
    let choice = {
        let op = Op::Choice { name: "c".into(), of: vec!["double".into(), "iota".into()] };
        g.make(op, DType::I32, vec![t], vec![double, iota])
    };
    let fence = g.make(Op::Fence, DType::I32, vec![t], vec![choice]);
    let got = run(&g, fence, &Bindings::new().var("t", 4));
    assert_eq!((got.dims.clone(), got.integers()), (vec![4], vec![0, 2, 4, 6]));
    let e = evaluate(&g, &[fence], &Bindings::new()).unwrap_err();
    assert!(e.to_string().contains("variable t has no value"), "{e}");
    let e = evaluate(&g, &[fence], &Bindings::new().var("t", 10)).unwrap_err();
    assert!(e.to_string().contains("outside 1..=9"), "{e}");
}

/// Online softmax: `sum of v * exp(s) / sum of exp(s)` with a running maximum.
#[test]
fn a_fold_with_counts() {
    let (h, n, d) = (3usize, 6, 4);
    let (s, s_bytes) = floats(h * n);
    let (v, v_bytes) = floats(h * n * d);
    let mut g = Graph::new();
    let scores = param(&mut g, "s", DType::F32, &[3, 6]);
    let values = param(&mut g, "v", DType::F32, &[3, 6, 4]);
    let counts = param(&mut g, "c", DType::I32, &[3]);
    let one = g.float(1.0);
    let one = reshape(&mut g, one, &[1, 1]);
    let ones = expand(&mut g, one, &[3, 6]);
    let arg = |g: &mut Graph, i: usize, dims: &[i64]| {
        let s = shape(g, dims);
        g.make(Op::Arg(i), DType::F32, s, vec![])
    };
    let (m, l, o) = (arg(&mut g, 0, &[3]), arg(&mut g, 1, &[3]), arg(&mut g, 2, &[3, 4]));
    let (m2, l2, o2) = (arg(&mut g, 3, &[3]), arg(&mut g, 4, &[3]), arg(&mut g, 5, &[3, 4]));
    let most = g.binary(BinOp::Max, m, m2);
    let weight = |g: &mut Graph, m: Id| {
        let x = g.sub(m, most);
        g.unary(UnOp::Exp, x)
    };
    let (w, w2) = (weight(&mut g, m), weight(&mut g, m2));
    let (a, b) = (g.mul(l, w), g.mul(l2, w2));
    let sum = g.add(a, b);
    let scaled = |g: &mut Graph, o: Id, w: Id| {
        let w = reshape(g, w, &[3, 1]);
        let w = expand(g, w, &[3, 4]);
        g.mul(o, w)
    };
    let (a, b) = (scaled(&mut g, o, w), scaled(&mut g, o2, w2));
    let acc = g.add(a, b);
    let (low, zero) = (g.float(f32::NEG_INFINITY), g.float(0.0));
    let src = vec![scores, ones, values, most, sum, acc, low, zero, zero, counts];
    let fold = |g: &mut Graph, part: usize, dims: &[i64]| {
        let s = shape(g, dims);
        g.make(Op::Fold { axis: 1, part, parts: 3 }, DType::F32, s, src.clone())
    };
    let (total, out) = (fold(&mut g, 1, &[3]), fold(&mut g, 2, &[3, 4]));
    let counts = [6usize, 1, 4];
    let count_bytes = i32s(&counts.map(|c| c as i32));
    let b = Bindings::new().tensor("s", &s_bytes).tensor("v", &v_bytes).tensor("c", &count_bytes);
    let got = evaluate(&g, &[out, total], &b).unwrap();
    for i in 0..h {
        let top = s[i * n..i * n + counts[i]].iter().fold(f32::MIN, |a, &b| a.max(b));
        let weights: Vec<f32> = (0..counts[i]).map(|j| (s[i * n + j] - top).exp()).collect();
        let total: f32 = weights.iter().sum();
        assert!((got[1].floats()[i] - total).abs() < 1e-5);
        for c in 0..d {
            let want: f32 = weights.iter().enumerate().map(|(j, w)| w * v[(i * n + j) * d + c]).sum();
            assert!((got[0].floats()[i * d + c] - want).abs() < 1e-4);
        }
    }
}

/// `sum over s of sum over j of p[i, s] * q[i, j]`: the placeholders of both
/// folds are the same nodes.
#[test]
fn a_fold_inside_a_fold() {
    let (p, p_bytes) = floats(2 * 3);
    let (q, q_bytes) = floats(2 * 4);
    let mut g = Graph::new();
    let (outer, rows) = (param(&mut g, "p", DType::F32, &[2, 3]), param(&mut g, "q", DType::F32, &[2, 4]));
    let two = shape(&mut g, &[2]);
    let so_far = g.make(Op::Arg(0), DType::F32, two.clone(), vec![]);
    let next = g.make(Op::Arg(1), DType::F32, two.clone(), vec![]);
    let zero = g.float(0.0);
    let fold = |g: &mut Graph, part: Id, merge: Id, steps: i64| {
        let count = g.constant(Const::Int(steps), DType::I32);
        let count = reshape(g, count, &[1]);
        let count = expand(g, count, &[2]);
        g.make(Op::Fold { axis: 1, part: 0, parts: 1 }, DType::F32, two.clone(), vec![part, merge, zero, count])
    };
    let each = reshape(&mut g, next, &[2, 1]);
    let each = expand(&mut g, each, &[2, 4]);
    let each = g.mul(each, rows);
    let plain = g.add(so_far, next);
    let inner = fold(&mut g, each, plain, 4);
    let merge = g.add(so_far, inner);
    let root = fold(&mut g, outer, merge, 3);
    let got = run(&g, root, &Bindings::new().tensor("p", &p_bytes).tensor("q", &q_bytes)).floats();
    for i in 0..2 {
        let want = p[3 * i..3 * i + 3].iter().sum::<f32>() * q[4 * i..4 * i + 4].iter().sum::<f32>();
        assert!((got[i] - want).abs() <= 1e-5 * want.abs().max(1.0), "{} {want}", got[i]);
    }
}

/// `state = state / 2 + x`, anew from its start where a run begins: what is given before and after, and what each run leaves.
#[test]
fn a_recurrence() {
    let (x, x_bytes) = floats(5);
    let (start, start_bytes) = floats(5);
    let mut g = Graph::new();
    let ints = |values: [i32; 5]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let flags = [ints([1, 0, 1, 0, 0]), ints([0, 1, 0, 0, 1]), ints([0, 0, 1, 1, 1])];
    let mut src: Vec<Id> = ["begins", "ends", "run"].map(|n| param(&mut g, n, DType::I32, &[5])).to_vec();
    src.extend([param(&mut g, "start", DType::F32, &[5]), param(&mut g, "x", DType::F32, &[5])]);
    let [so_far, input, after] = [0, 1, 2].map(|n| g.make(Op::Arg(n), DType::F32, vec![], vec![]));
    let half = g.float(0.5);
    let rest = g.mul(so_far, half);
    let next = g.add(rest, input);
    let given = g.add(after, input);
    src.extend([next, given]);
    let parts: Vec<Id> = [(0, 2), (1, 5)]
        .map(|(part, n)| {
            let s = shape(&mut g, &[n]);
            g.make(Op::Recur { inputs: 1, part }, DType::F32, s, src.clone())
        })
        .to_vec();
    let mut bindings = Bindings::new().tensor("start", &start_bytes).tensor("x", &x_bytes);
    for (name, bytes) in ["begins", "ends", "run"].into_iter().zip(&flags) {
        bindings = bindings.tensor(name, bytes);
    }
    let got: Vec<Vec<f32>> = parts.iter().map(|&part| run(&g, part, &bindings).floats()).collect();
    let (mut carried, mut left, mut want) = (0.0, vec![], vec![]);
    for t in 0..5 {
        carried = if t == 0 || t == 2 { start[t] } else { carried } * 0.5 + x[t];
        want.push(carried + x[t]);
        if t == 1 || t == 4 {
            left.push(carried);
        }
    }
    assert_eq!((&got[0], &got[1]), (&left, &want));
}

/// Every part of every block format: the value is `scale * code + offset`.
#[test]
fn dequantised_parts_agree() {
    let mut with_levels = vec![];
    for format in rows() {
        let Encoding::Blocks(blocks) = &format.encoding else { continue };
        let n = 3 * blocks.bytes as usize;
        // Arbitrary bits, but no exponent that overflows: halves stay finite.
        let bytes: Vec<u8> = (0..2 * n).map(|i| (i * 89 + 13) as u8 & 0x3b).collect();
        let mut g = Graph::new();
        let f = g.format_id(&Arc::new(format.clone()));
        let w = param(&mut g, "w", DType::U8, &[2, n as i64]);
        let parts = [Part::Value, Part::Code, Part::Scale, Part::Offset].map(|p| g.dequant(w, f, p));
        let got = evaluate(&g, &parts, &Bindings::new().tensor("w", &bytes)).unwrap();
        let (codes, scales, offsets) = (got[1].integers(), got[2].floats(), got[3].floats());
        let group = g.format_group(f) as usize;
        for (i, (&value, &code)) in got[0].floats().iter().zip(&codes).enumerate() {
            let block = &bytes[i / blocks.block as usize * blocks.bytes as usize..];
            assert_eq!(value, blocks.value(&block[..blocks.bytes as usize], i as u32 % blocks.block));
            let (s, o) = (f64::from(scales[i / group]), f64::from(offsets[i / group]));
            let (real, size) = (s * code as f64 + o, (s * code as f64).abs() + o.abs());
            assert!((real - f64::from(value)).abs() <= 1e-6 * size, "{} {i}: {real} {value}", format.name);
        }
        assert!(codes.iter().all(|c| (0..256).contains(c)));
        let Some(up) = blocks.level_shift().filter(|_| blocks.min.is_none()) else { continue };
        with_levels.push(format.name.clone());
        let levels = g.dequant(w, f, Part::Level);
        let levels = evaluate(&g, &[levels], &Bindings::new().tensor("w", &bytes)).unwrap()[0].integers();
        for (i, (&value, &level)) in got[0].floats().iter().zip(&levels).enumerate() {
            let real = f64::from(scales[i / group]) * level as f64 / f64::from(1 << up);
            assert!((real - f64::from(value)).abs() <= 1e-6 * real.abs(), "{} {i}: {real} {value}", format.name);
        }
    }
    for name in ["Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"] {
        assert!(with_levels.iter().any(|with| with == name), "{name} of {with_levels:?}");
    }
}

#[test]
fn rows_of_a_quantised_table_are_gathered_before_they_are_dequantised() {
    let format: &Format = rows().iter().find(|f| f.name == "Q4_0").unwrap();
    let bytes: Vec<u8> = (0..4 * 36).map(|i| (i * 7) as u8 & 0x3b).collect();
    let mut g = Graph::new();
    let f = g.format_id(&Arc::new(format.clone()));
    let w = param(&mut g, "w", DType::U8, &[4, 36]);
    let i = param(&mut g, "i", DType::I32, &[2]);
    let table = g.dequant(w, f, Part::Value);
    let y = g.gather(table, i);
    let index = i32s(&[2, 3]);
    let b = Bindings::new().tensor("w", &bytes).tensor("i", &index);
    let all = run(&g, table, &b).floats();
    assert_eq!(run(&g, y, &b).floats(), all[128..]);
}

#[test]
fn a_custom_kernel_needs_a_reference() {
    let (v, bytes) = floats(4);
    let mut g = Graph::new();
    let x = param(&mut g, "x", DType::F32, &[4]);
    let s = g.shape(x).to_vec();
    let op = Op::Call { symbol: "twice".into(), sources: vec![], tasks: 1 };
    let y = g.make(op, DType::F32, s, vec![x]);
    let e = evaluate(&g, &[y], &Bindings::new().tensor("x", &bytes)).unwrap_err();
    assert!(e.to_string().contains("twice"), "{e}");
    let twice = |args: &[Tensor]| {
        let v: Vec<f32> = args[0].floats().iter().map(|v| v * 2.0).collect();
        Ok(Tensor::f32(&args[0].dims, &v))
    };
    let b = Bindings::new().tensor("x", &bytes).reference("twice", Box::new(twice));
    assert_eq!(run(&g, y, &b).floats(), v.iter().map(|v| v * 2.0).collect::<Vec<_>>());
}

#[test]
fn wrong_bindings_are_named() {
    let mut g = Graph::new();
    let x = param(&mut g, "x", DType::F32, &[4]);
    assert_eq!(evaluate(&g, &[x], &Bindings::new()), Err(EvalError::MissingBinding("x".into())));
    let e = evaluate(&g, &[x], &Bindings::new().tensor("x", &[0; 15])).unwrap_err();
    assert_eq!(e.to_string(), "x is f32 [4], which takes 16 bytes, but 15 are bound to it");
    let i = param(&mut g, "i", DType::I32, &[2]);
    let y = g.binary(BinOp::Div, i, i);
    let e = evaluate(&g, &[y], &Bindings::new().tensor("i", &[0; 8])).unwrap_err();
    assert!(e.to_string().contains("division by zero"), "{e}");
}

#[test]
fn empty_dimensions() {
    let mut g = Graph::new();
    let t = g.var("t", 0, 4);
    let three = g.int(3);
    let x = g.param("x", DType::F32, vec![t, three]);
    let rows = g.reduce(ReduceOp::Sum, x, vec![1]);
    let columns = g.reduce(ReduceOp::Max, x, vec![0]);
    let both = evaluate(&g, &[rows, columns], &Bindings::new().tensor("x", &[]).var("t", 0)).unwrap();
    assert_eq!(both[0].dims, [0]);
    assert_eq!(both[1].floats(), [f32::NEG_INFINITY; 3]);
}

#[test]
fn constants_take_the_type_of_the_node() {
    let mut g = Graph::new();
    let c = g.constant(Const::f32(0.1), DType::F16);
    assert_eq!(run(&g, c, &Bindings::new()).bytes, half::f16::from_f32(0.1).to_le_bytes());
    let c = g.constant(Const::Int(-1), DType::U8);
    assert_eq!(run(&g, c, &Bindings::new()).bytes, [255]);
}

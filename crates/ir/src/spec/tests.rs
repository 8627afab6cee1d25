//! One broken example for each rule.

use super::{check_kernel, check_scalars, check_tensor};
use crate::{Axis, BinOp, Const, DType, Graph, Id, Op, Part, ReduceOp, Space, Type, UnOp};
use DType::{Bool, F16, F32, I8, I32, U8};
use std::sync::Arc;

fn dims(g: &mut Graph, dims: &[i64]) -> Vec<Id> {
    dims.iter().map(|&d| g.int(d)).collect()
}

/// A parameter of constant extents.
fn p(g: &mut Graph, ty: DType, shape: &[i64]) -> Id {
    let s = dims(g, shape);
    g.param("p", ty, s)
}

fn node(g: &mut Graph, op: Op, ty: impl Into<Type>, shape: &[i64], src: &[Id]) -> Id {
    let s = dims(g, shape);
    g.make(op, ty, s, src.to_vec())
}

fn q4(g: &mut Graph) -> crate::FormatId {
    let f = gguf::format::rows().iter().find(|f| f.name == "Q4_0").unwrap();
    g.format_id(&Arc::new(f.clone()))
}

/// A fold of one part `[2, 3]` over its second dimension, whose sources may be
/// replaced.
fn fold(g: &mut Graph, change: impl Fn(&mut Graph, &mut Vec<Id>)) -> Id {
    let part = p(g, F32, &[2, 3]);
    let (a, b) = (node(g, Op::Arg(0), F32, &[2], &[]), node(g, Op::Arg(1), F32, &[2], &[]));
    let merge = g.add(a, b);
    let zero = g.float(0.0);
    let count = p(g, I32, &[2]);
    let mut src = vec![part, merge, zero, count];
    change(g, &mut src);
    node(g, Op::Fold { axis: 1, part: 0, parts: 1 }, F32, &[2], &src)
}

/// A recurrence of 3 steps that carries two values and has one input, whose sources may be replaced.
fn recurrence(g: &mut Graph, change: impl Fn(&mut Graph, &mut Vec<Id>)) -> Id {
    let flags = [(); 3].map(|()| p(g, I32, &[3]));
    let (start, input) = (p(g, F32, &[3, 2]), p(g, F32, &[3, 2]));
    let [a, b, c] = [0, 1, 2].map(|n| node(g, Op::Arg(n), F32, &[2], &[]));
    let (next, given) = (g.add(a, b), g.add(c, b));
    let mut src = vec![flags[0], flags[1], flags[2], start, input, next, given];
    change(g, &mut src);
    node(g, Op::Recur { inputs: 1, part: 1 }, F32, &[3, 2], &src)
}

type Broken = (&'static str, fn(&mut Graph) -> Id);

#[test]
fn broken_tensors() {
    let table: &[Broken] = &[
        ("has no lanes", |g| node(g, Op::Iota, Type::vector(I32, 4), &[4], &[])),
        ("is not an index", |g| {
            let f = g.float(1.0);
            g.param("p", F32, vec![f])
        }),
        ("an extent is -1", |g| p(g, F32, &[-1])),
        ("it must have 2 sources", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Binary(BinOp::Add), F32, &[2], &[a])
        }),
        ("Exp of f32 cannot be f16", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Unary(UnOp::Exp), F16, &[2], &[a])
        }),
        ("no Exp of i32", |g| {
            let a = p(g, I32, &[2]);
            node(g, Op::Unary(UnOp::Exp), I32, &[2], &[a])
        }),
        ("no Not of i32", |g| {
            let a = p(g, I32, &[2]);
            node(g, Op::Unary(UnOp::Not), I32, &[2], &[a])
        }),
        ("Add of f32 and i32", |g| {
            let (a, b) = (p(g, F32, &[2]), p(g, I32, &[2]));
            node(g, Op::Binary(BinOp::Add), F32, &[2], &[a, b])
        }),
        ("no Mod of f32", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Binary(BinOp::Mod), F32, &[2], &[a, a])
        }),
        ("no And of f32", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Binary(BinOp::And), F32, &[2], &[a, a])
        }),
        ("is bool, not f32", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Binary(BinOp::Lt), F32, &[2], &[a, a])
        }),
        ("the condition is i32", |g| {
            let (c, a) = (p(g, I32, &[2]), p(g, F32, &[2]));
            node(g, Op::Where, F32, &[2], &[c, a, a])
        }),
        ("[2] is not [3]", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Unary(UnOp::Exp), F32, &[3], &[a])
        }),
        ("it is a scalar", |g| node(g, Op::Const(Const::f32(1.0)), F32, &[2], &[])),
        ("no value lies in 3..=2", |g| g.var("v", 3, 2)),
        ("a variable is an index", |g| node(g, Op::Var { name: "v".into(), min: 0, max: 1, usual: 1 }, I32, &[], &[])),
        ("a movement of f32 cannot be f16", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Reshape, F16, &[1, 2], &[a])
        }),
        ("[2, 3] elements are not [5]", |g| {
            let a = p(g, F32, &[2, 3]);
            node(g, Op::Reshape, F32, &[5], &[a])
        }),
        ("[0, 0] is not an order", |g| {
            let a = p(g, F32, &[2, 2]);
            node(g, Op::Permute(vec![0, 0]), F32, &[2, 2], &[a])
        }),
        ("[3, 2] is not [2, 3]", |g| {
            let a = p(g, F32, &[2, 3]);
            node(g, Op::Permute(vec![1, 0]), F32, &[2, 3], &[a])
        }),
        ("[2] cannot be expanded to [4]", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Expand, F32, &[4], &[a])
        }),
        ("it starts at -1", |g| {
            let a = p(g, F32, &[4]);
            node(g, Op::Slice { axis: 0, start: -1 }, F32, &[2], &[a])
        }),
        ("3..5 of an extent of 4", |g| {
            let a = p(g, F32, &[4]);
            node(g, Op::Slice { axis: 0, start: 3 }, F32, &[2], &[a])
        }),
        ("there is no dimension 1", |g| {
            let a = p(g, F32, &[4]);
            node(g, Op::Slice { axis: 1, start: 0 }, F32, &[2], &[a])
        }),
        ("do not add up", |g| {
            let a = p(g, F32, &[4]);
            node(g, Op::Concat(0), F32, &[9], &[a, a])
        }),
        ("it must have a source", |g| node(g, Op::Concat(0), F32, &[0], &[])),
        ("no reduction of truth values", |g| {
            let a = p(g, Bool, &[4]);
            node(g, Op::Reduce(ReduceOp::Max, vec![0]), Bool, &[], &[a])
        }),
        ("[1, 0] are not some of 2 dimensions in order", |g| {
            let a = p(g, F32, &[4, 4]);
            node(g, Op::Reduce(ReduceOp::Sum, vec![1, 0]), F32, &[], &[a])
        }),
        ("[4] is not []", |g| {
            let a = p(g, F32, &[4, 4]);
            node(g, Op::Reduce(ReduceOp::Sum, vec![1]), F32, &[], &[a])
        }),
        ("the index is f32", |g| {
            let (t, i) = (p(g, F32, &[4]), p(g, F32, &[2]));
            node(g, Op::Gather, F32, &[2], &[t, i])
        }),
        ("a scalar has no rows", |g| {
            let (t, i) = (p(g, F32, &[]), p(g, I32, &[2]));
            node(g, Op::Gather, F32, &[2], &[t, i])
        }),
        ("[2, 3] is not [2, 4]", |g| {
            let (t, i) = (p(g, F32, &[9, 3]), p(g, I32, &[2]));
            node(g, Op::Gather, F32, &[2, 4], &[t, i])
        }),
        ("it must write a state", |g| {
            let (t, i, r) = (p(g, F32, &[9]), p(g, I32, &[2]), p(g, F32, &[2]));
            node(g, Op::Scatter, F32, &[9], &[t, i, r])
        }),
        ("[2] is not [3]", |g| {
            let s = dims(g, &[9]);
            let s = g.state("s", F32, s);
            let (i, r) = (p(g, I32, &[2]), p(g, F32, &[3]));
            node(g, Op::Scatter, F32, &[9], &[s, i, r])
        }),
        ("there is no dimension 1", |g| {
            let a = p(g, F32, &[4]);
            node(g, Op::Scan(1), F32, &[4], &[a])
        }),
        ("its source is f32, not bytes", |g| {
            let (f, a) = (q4(g), p(g, F32, &[18]));
            node(g, Op::Dequant(f, Part::Value), F32, &[32], &[a])
        }),
        ("the part Code is u8", |g| {
            let (f, a) = (q4(g), p(g, U8, &[18]));
            node(g, Op::Dequant(f, Part::Code), F32, &[32], &[a])
        }),
        ("17 bytes of Q4_0 do not make [32]", |g| {
            let (f, a) = (q4(g), p(g, U8, &[17]));
            node(g, Op::Dequant(f, Part::Value), F32, &[32], &[a])
        }),
        ("18 bytes of Q4_0 do not make [32]", |g| {
            let (f, a) = (q4(g), p(g, U8, &[18]));
            node(g, Op::Dequant(f, Part::Scale), F32, &[32], &[a])
        }),
        ("indices are i32", |g| {
            let a = p(g, F32, &[4]);
            node(g, Op::TopK(2), F32, &[2], &[a])
        }),
        ("the 5 largest of 4", |g| {
            let a = p(g, F32, &[4]);
            node(g, Op::TopK(5), I32, &[5], &[a])
        }),
        ("the number of steps is f32", |g| fold(g, |g, src| src[3] = p(g, F32, &[2]))),
        ("the identity of part 0 is not a constant", |g| fold(g, |g, src| src[2] = p(g, F32, &[]))),
        ("[3] is not [2]", |g| fold(g, |g, src| src[1] = p(g, F32, &[3]))),
        ("there is no placeholder 2", |g| {
            fold(g, |g, src| {
                let a = node(g, Op::Arg(2), F32, &[2], &[]);
                src[1] = g.add(src[1], a);
            })
        }),
        ("placeholder 1 is f16, not f32", |g| {
            fold(g, |g, src| {
                let a = node(g, Op::Arg(1), F16, &[2], &[]);
                src[1] = g.cast(a, F32);
            })
        }),
        ("it must have 4 sources, not 3", |g| fold(g, |_, src| src.truncate(3))),
        ("there is no part 1 of 1", |g| {
            let f = fold(g, |_, _| {});
            let src = g.src(f).to_vec();
            node(g, Op::Fold { axis: 1, part: 1, parts: 1 }, F32, &[2], &src)
        }),
        ("its runs are f32", |g| recurrence(g, |g, src| src[1] = p(g, F32, &[3]))),
        ("f16 begins, f32 is carried", |g| recurrence(g, |g, src| src[3] = p(g, F16, &[3, 2]))),
        ("[4] is not [2]", |g| recurrence(g, |g, src| src[3] = p(g, F32, &[3, 4]))),
        ("it has too few sources", |g| recurrence(g, |_, src| src.truncate(5))),
        ("there is no part 1 of 1", |g| recurrence(g, |_, src| src.truncate(6))),
        ("there is no placeholder 3", |g| {
            recurrence(g, |g, src| {
                let other = node(g, Op::Arg(3), F32, &[2], &[]);
                src[6] = g.add(src[6], other);
            })
        }),
        ("reads what is carried elsewhere", |g| {
            recurrence(g, |g, src| {
                let so_far = node(g, Op::Arg(0), F32, &[2], &[]);
                src[5] = node(g, Op::Permute(vec![0]), F32, &[2], &[so_far]);
            })
        }),
        ("both what is carried before and after", |g| {
            recurrence(g, |g, src| {
                let so_far = node(g, Op::Arg(0), F32, &[2], &[]);
                src[6] = g.add(src[6], so_far);
            })
        }),
        ("placeholder of no fold", |g| node(g, Op::Arg(0), F32, &[2], &[])),
        ("it is i32 with one dimension", |g| node(g, Op::Iota, I32, &[2, 2], &[])),
        ("an alternative is f16, not f32", |g| {
            let (a, b) = (p(g, F32, &[2]), p(g, F16, &[2]));
            node(g, Op::Choice { name: "c".into(), of: vec!["a".into(), "b".into()] }, F32, &[2], &[a, b])
        }),
        ("1 names for 2 alternatives", |g| {
            let (a, b) = (p(g, F32, &[2]), p(g, F32, &[2]));
            node(g, Op::Choice { name: "c".into(), of: vec!["a".into()] }, F32, &[2], &[a, b])
        }),
        ("[2] is not [3]", |g| {
            let a = p(g, F32, &[2]);
            node(g, Op::Fence, F32, &[3], &[a])
        }),
        ("0 tasks", |g| node(g, Op::Call { symbol: "f".into(), sources: vec![], tasks: 0 }, F32, &[2], &[])),
        ("not an operation on tensors", |g| node(g, Op::Acc(0), F32, &[], &[])),
    ];
    for (i, (rule, build)) in table.iter().enumerate() {
        let mut g = Graph::new();
        let root = build(&mut g);
        let e = check_tensor(&g, &[root]).expect_err(rule);
        assert!(e.rule.contains(rule), "case {i}: {:?} for {rule:?}", e.rule);
        assert!(e.node.starts_with('%'), "{}", e.node);
    }
}

#[test]
fn symbolic_extents_are_compared() {
    let mut g = Graph::new();
    let t = g.var("t", 1, 9);
    let (two, six, twelve) = (g.int(2), g.int(6), g.int(12));
    let x = g.param("x", F32, vec![t, twelve]);
    let t2 = g.mul(t, two);
    let y = g.reshape(x, vec![t2, six]);
    assert_eq!(check_tensor(&g, &[y]), Ok(()));
    let one = g.int(1);
    let more = g.add(t, one);
    let z = g.param("z", F32, vec![more, six]);
    let both = g.concat(vec![y, z], 0);
    let more6 = g.mul(more, six);
    let flat = g.reshape(z, vec![more6]);
    assert_eq!(check_tensor(&g, &[both, flat]), Ok(()));
    let wrong = g.make(Op::Reshape, F32, vec![t, six], vec![x]);
    assert!(check_tensor(&g, &[wrong]).is_err());
    let fine = fold(&mut g, |_, _| {});
    assert_eq!(check_tensor(&g, &[fine]), Ok(()));
}

/// A statement in a block.
fn block(g: &mut Graph, statements: &[Id]) -> Id {
    node(g, Op::Block, Bool, &[], statements)
}

fn out(g: &mut Graph) -> Id {
    g.buffer(1, Space::Output, F32, 0)
}

/// `out[0] = value`, as a kernel.
fn stored(g: &mut Graph, value: Id) -> Id {
    let zero = g.int(0);
    let to = g.buffer(1, Space::Output, g.dtype(value), 0);
    let s = node(g, Op::Store, F32, &[], &[to, zero, value]);
    block(g, &[s])
}

fn vector(g: &mut Graph, ty: DType, lanes: usize) -> Id {
    node(g, Op::Lanes(vec![Const::Int(1); lanes]), Type::vector(ty, lanes), &[], &[])
}

fn looped(g: &mut Graph, number: u32) -> Id {
    let n = g.int(4);
    g.range(number, Axis::Loop, n)
}

#[test]
fn broken_kernels() {
    let table: &[Broken] = &[
        ("a kernel is a block", |g| g.float(1.0)),
        ("a kernel has no tensors", |g| {
            let a = p(g, F32, &[2]);
            stored(g, a)
        }),
        ("it has no lanes", |g| {
            let v = node(g, Op::Lanes(vec![]), Type::vector(F32, 0), &[], &[]);
            stored(g, v)
        }),
        ("not an operation of kernels", |g| {
            let v = node(g, Op::Iota, F32, &[], &[]);
            stored(g, v)
        }),
        ("its source 0 is not a statement", |g| {
            let v = g.float(1.0);
            block(g, &[v])
        }),
        ("its source 0 is a statement", |g| {
            let empty = block(g, &[]);
            let v = node(g, Op::Cast, F32, &[], &[empty]);
            stored(g, v)
        }),
        ("its source 0 is a buffer", |g| {
            let b = out(g);
            let v = node(g, Op::Unary(UnOp::Neg), F32, &[], &[b]);
            stored(g, v)
        }),
        ("it must be of a buffer", |g| {
            let zero = g.int(0);
            let v = node(g, Op::Load, F32, &[], &[zero, zero]);
            stored(g, v)
        }),
        ("there is one task range", |g| {
            let n = g.int(4);
            let (a, b) = (g.range(0, Axis::Task, n), g.range(1, Axis::Task, n));
            let v = g.add(a, b);
            stored(g, v)
        }),
        ("the number of tasks must be known at launch", |g| {
            let (b, zero) = (g.buffer(0, Space::Input, DType::Index, 0), g.int(0));
            let n = g.load(b, zero, 1);
            let v = g.range(0, Axis::Task, n);
            stored(g, v)
        }),
        ("a warp has a power of two of lanes", |g| {
            let n = g.int(6);
            let v = g.range(0, Axis::Lane, n);
            stored(g, v)
        }),
        ("a block has 1 to 32 warps", |g| {
            let n = g.int(33);
            let v = g.range(0, Axis::Warp, n);
            stored(g, v)
        }),
        ("one range of warps and one of lanes", |g| {
            let n = g.int(32);
            let (a, b) = (g.range(0, Axis::Lane, n), g.range(1, Axis::Lane, n));
            let v = g.add(a, b);
            stored(g, v)
        }),
        ("no two lanes differ in the bits 0", |g| {
            let x = g.float(1.0);
            let v = node(g, Op::LaneXor(0), F32, &[], &[x]);
            stored(g, v)
        }),
        ("no two of 8 lanes differ in the bits 8", |g| {
            let n = g.int(8);
            let lane = g.range(0, Axis::Lane, n);
            let x = g.cast(lane, F32);
            let v = node(g, Op::LaneXor(8), F32, &[], &[x]);
            stored(g, v)
        }),
        ("nothing says how many lanes a warp has", |g| {
            let n = g.int(4);
            let v = g.range(0, Axis::Warp, n);
            stored(g, v)
        }),
        ("32 lanes hold a matrix together, not 16", |g| {
            let (b, n) = (g.buffer(0, Space::Shared, DType::F16, 128), g.int(16));
            let (lane, eight) = (g.range(0, Axis::Lane, n), g.int(8));
            let at = g.mul(lane, eight);
            let row = g.load(b, at, 8);
            let fragment = g.make(Op::Fragment { transposed: false }, Type::vector(DType::F16, 8), vec![], vec![row]);
            let v = g.make(Op::Extract(0), DType::F16, vec![], vec![fragment]);
            let v = g.cast(v, F32);
            stored(g, v)
        }),
        ("rows of a matrix are loaded from shared memory, or from what is only read", |g| {
            let (b, zero) = (g.buffer(0, Space::Output, DType::F16, 0), g.int(0));
            let row = g.load(b, zero, 8);
            let v = g.make(Op::Fragment { transposed: false }, Type::vector(DType::F16, 8), vec![], vec![row]);
            stored(g, v)
        }),
        ("a row of a matrix is 8 halves or 16 bytes, not f16x4", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, DType::F16, 8), g.int(0));
            let row = g.load(b, zero, 4);
            let v = g.make(Op::Fragment { transposed: false }, Type::vector(DType::F16, 8), vec![], vec![row]);
            stored(g, v)
        }),
        ("f16x6 is no fragment of one, two or four matrices", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, DType::F16, 8), g.int(0));
            let row = g.load(b, zero, 8);
            let v = g.make(Op::Fragment { transposed: false }, Type::vector(DType::F16, 6), vec![], vec![row]);
            stored(g, v)
        }),
        ("bytes cannot be transposed", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, DType::U8, 16), g.int(0));
            let row = g.load(b, zero, 16);
            let v = g.make(Op::Fragment { transposed: true }, Type::vector(DType::U8, 8), vec![], vec![row]);
            stored(g, v)
        }),
        ("its source 2 is u8x16, not i8x8", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, DType::U8, 16), g.int(0));
            let row = g.load(b, zero, 16);
            let rows = g.make(Op::Fragment { transposed: false }, Type::vector(DType::U8, 16), vec![], vec![row]);
            let sums = vector(g, I32, 4);
            let v = g.make(Op::WarpProduct, Type::vector(I32, 4), vec![], vec![sums, rows, rows]);
            stored(g, v)
        }),
        ("its source 2 is f16x8, not f16x4", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, DType::F16, 8), g.int(0));
            let row = g.load(b, zero, 8);
            let rows = g.make(Op::Fragment { transposed: false }, Type::vector(DType::F16, 8), vec![], vec![row]);
            let sums = vector(g, F32, 4);
            let v = g.make(Op::WarpProduct, Type::vector(F32, 4), vec![], vec![sums, rows, rows]);
            stored(g, v)
        }),
        ("sums are stored to shared memory of f32", |g| {
            let (b, zero) = (g.buffer(0, Space::Output, F32, 0), g.int(0));
            let sums = vector(g, F32, 8);
            let store = g.make(Op::StoreFragment { pitch: 16 }, DType::Index, vec![], vec![b, zero, sums]);
            g.make(Op::Block, DType::Index, vec![], vec![store])
        }),
        ("columns of 16 rows lie 12 apart", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, F32, 256), g.int(0));
            let sums = vector(g, F32, 8);
            let store = g.make(Op::StoreFragment { pitch: 12 }, DType::Index, vec![], vec![b, zero, sums]);
            g.make(Op::Block, DType::Index, vec![], vec![store])
        }),
        ("f32x6 are no sums of a product of halves", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, F32, 256), g.int(0));
            let sums = vector(g, F32, 6);
            let store = g.make(Op::StoreFragment { pitch: 16 }, DType::Index, vec![], vec![b, zero, sums]);
            g.make(Op::Block, DType::Index, vec![], vec![store])
        }),
        ("scratch must have a length", |g| {
            let (b, zero) = (g.buffer(0, Space::Shared, F32, 0), g.int(0));
            let v = g.load(b, zero, 1);
            stored(g, v)
        }),
        ("the extent is i32, not index", |g| {
            let n = g.constant(Const::Int(4), I32);
            let v = node(g, Op::Range(0, Axis::Loop), DType::Index, &[], &[n]);
            stored(g, v)
        }),
        ("outside of its loop", |g| {
            let i = looped(g, 1);
            stored(g, i)
        }),
        ("outside of its loop", |g| {
            // The extent of an inner loop by its own counter's neighbour.
            let (i, b) = (looped(g, 1), out(g));
            let j = g.range(2, Axis::Loop, i);
            let x = g.float(1.0);
            let s = node(g, Op::Store, F32, &[], &[b, j, x]);
            let l = node(g, Op::Loop, F32, &[], &[j, s]);
            block(g, &[l])
        }),
        ("is open already", |g| {
            let i = looped(g, 1);
            let inner = node(g, Op::Loop, F32, &[], &[i]);
            let outer = node(g, Op::Loop, F32, &[], &[i, inner]);
            block(g, &[outer])
        }),
        ("its first source must be a range", |g| {
            let n = g.int(1);
            let l = node(g, Op::Loop, F32, &[], &[n]);
            block(g, &[l])
        }),
        ("scratch must have a length", |g| {
            let (b, zero) = (g.buffer(0, Space::Task, F32, 0), g.int(0));
            let v = g.load(b, zero, 1);
            stored(g, v)
        }),
        ("f16 cannot be loaded from f32", |g| {
            let (b, zero) = (g.buffer(0, Space::Input, F32, 0), g.int(0));
            let v = node(g, Op::Load, F16, &[], &[b, zero]);
            stored(g, v)
        }),
        ("the index is i32, not index", |g| {
            let (b, zero) = (g.buffer(0, Space::Input, F32, 0), g.constant(Const::Int(0), I32));
            let v = g.load(b, zero, 1);
            stored(g, v)
        }),
        ("i32 cannot be stored to f32", |g| {
            let (b, zero, v) = (out(g), g.int(0), g.constant(Const::Int(0), I32));
            let s = node(g, Op::Store, F32, &[], &[b, zero, v]);
            block(g, &[s])
        }),
        ("an input cannot be written", |g| {
            let (b, zero, v) = (g.buffer(0, Space::Input, F32, 0), g.int(0), g.float(0.0));
            let s = node(g, Op::Store, F32, &[], &[b, zero, v]);
            block(g, &[s])
        }),
        ("it must have 3 or 4 sources", |g| {
            let (b, zero) = (out(g), g.int(0));
            let s = node(g, Op::Store, F32, &[], &[b, zero]);
            block(g, &[s])
        }),
        ("the condition of f32x4 is boolx2", |g| {
            let (b, zero, v, c) = (out(g), g.int(0), vector(g, F32, 4), vector(g, Bool, 2));
            let s = node(g, Op::Store, F32, &[], &[b, zero, v, c]);
            block(g, &[s])
        }),
        ("the condition is i32, not bool", |g| {
            let c = g.constant(Const::Int(1), I32);
            let s = node(g, Op::If, F32, &[], &[c]);
            block(g, &[s])
        }),
        ("it must have pairs of sources", |g| {
            let a = node(g, Op::Acc(0), F32, &[], &[]);
            let s = node(g, Op::Set, F32, &[], &[a]);
            block(g, &[s])
        }),
        ("the target 0 is not an accumulator", |g| {
            let v = g.float(0.0);
            let s = node(g, Op::Set, F32, &[], &[v, v]);
            block(g, &[s])
        }),
        ("the accumulator 0 is f32, its value i32", |g| {
            let (a, v) = (node(g, Op::Acc(0), F32, &[], &[]), g.constant(Const::Int(0), I32));
            let s = node(g, Op::Set, F32, &[], &[a, v]);
            block(g, &[s])
        }),
        ("the accumulator 0 is set twice", |g| {
            let (a, v) = (node(g, Op::Acc(0), F32, &[], &[]), g.float(0.0));
            let s = node(g, Op::Set, F32, &[], &[a, v, a, v]);
            block(g, &[s])
        }),
        ("before it is set", |g| {
            let (a, one) = (node(g, Op::Acc(0), F32, &[], &[]), g.float(1.0));
            let v = g.add(a, one);
            let s = node(g, Op::Set, F32, &[], &[a, v]);
            block(g, &[s])
        }),
        ("the lane is i32, not f32", |g| {
            let v = g.constant(Const::Int(0), I32);
            let v = node(g, Op::Splat, Type::vector(F32, 4), &[], &[v]);
            stored(g, v)
        }),
        ("Add of f32x4 and f32x2", |g| {
            let (a, b) = (vector(g, F32, 4), vector(g, F32, 2));
            let v = node(g, Op::Binary(BinOp::Add), Type::vector(F32, 4), &[], &[a, b]);
            stored(g, v)
        }),
        ("2 conditions for f32x4", |g| {
            let (c, a) = (vector(g, Bool, 2), vector(g, F32, 4));
            let v = node(g, Op::Where, Type::vector(F32, 4), &[], &[c, a, a]);
            stored(g, v)
        }),
        ("there are only 4 lanes", |g| {
            let a = vector(g, F32, 4);
            let v = node(g, Op::Shuffle(vec![0, 4]), Type::vector(F32, 2), &[], &[a]);
            stored(g, v)
        }),
        ("1 lanes for f32x2", |g| {
            let a = vector(g, F32, 4);
            let v = node(g, Op::Shuffle(vec![0]), Type::vector(F32, 2), &[], &[a]);
            stored(g, v)
        }),
        ("the parts have 6 lanes", |g| {
            let (a, b) = (vector(g, F32, 4), vector(g, F32, 2));
            let v = node(g, Op::Join, Type::vector(F32, 8), &[], &[a, b]);
            stored(g, v)
        }),
        ("a part is not f32", |g| {
            let (a, b) = (vector(g, F32, 4), vector(g, I32, 4));
            let v = node(g, Op::Join, Type::vector(F32, 8), &[], &[a, b]);
            stored(g, v)
        }),
        ("its source 2 is u8x16, not i8x16", |g| {
            let (s, c) = (vector(g, I32, 4), vector(g, U8, 16));
            let v = node(g, Op::Dot4, Type::vector(I32, 4), &[], &[s, c, c]);
            stored(g, v)
        }),
        ("its source 1 is u8x8, not i16x8", |g| {
            let (s, c) = (vector(g, I32, 4), vector(g, U8, 8));
            let v = node(g, Op::Dot2, Type::vector(I32, 4), &[], &[s, c, c]);
            stored(g, v)
        }),
        ("across f32x4 is a scalar", |g| {
            let a = vector(g, F32, 4);
            let v = node(g, Op::Across(ReduceOp::Sum), Type::vector(F32, 2), &[], &[a]);
            stored(g, v)
        }),
        ("3 constants for f32x4", |g| {
            let v = node(g, Op::Lanes(vec![Const::Int(0); 3]), Type::vector(F32, 4), &[], &[]);
            stored(g, v)
        }),
        ("a table has 16 lanes, not 8", |g| {
            let (t, i) = (vector(g, I8, 8), vector(g, U8, 4));
            let v = node(g, Op::Lookup, Type::vector(I8, 4), &[], &[t, i]);
            stored(g, v)
        }),
        ("an index of f32x4 for i8x4", |g| {
            let (t, i) = (vector(g, I8, 16), vector(g, F32, 4));
            let v = node(g, Op::Lookup, Type::vector(I8, 4), &[], &[t, i]);
            stored(g, v)
        }),
        ("there are only 4 lanes", |g| {
            let a = vector(g, F32, 4);
            let v = node(g, Op::Extract(4), F32, &[], &[a]);
            stored(g, v)
        }),
    ];
    for (i, (rule, build)) in table.iter().enumerate() {
        let mut g = Graph::new();
        let root = build(&mut g);
        let e = check_kernel(&g, root).expect_err(rule);
        assert!(e.rule.contains(rule), "case {i}: {:?} for {rule:?}", e.rule);
    }
}

/// A sum over a range of a product of the range and `by`.
fn scalar_sum(g: &mut Graph, by: Id) -> Id {
    let n = g.int(4);
    let r = g.range(1, Axis::Loop, n);
    let body = g.mul(r, by);
    g.make(Op::Reduce(ReduceOp::Sum, vec![]), DType::Index, vec![], vec![body, r])
}

/// A part that does not say how many warps it is for is for one.
#[test]
fn parts_of_a_kernel_have_equally_many_warps() {
    let mut g = Graph::default();
    let part = |g: &mut Graph, warps: Option<i64>| {
        let four = g.int(4);
        let mut at = g.range(1, Axis::Lane, four);
        if let Some(n) = warps {
            let n = g.int(n);
            let warp = g.range(2, Axis::Warp, n);
            let first = g.mul(warp, four);
            at = g.add(first, at);
        }
        let (to, one) = (g.buffer(1, Space::Output, F32, 0), g.float(1.0));
        let s = node(g, Op::Store, F32, &[], &[to, at, one]);
        block(g, &[s])
    };
    for (warps, fit) in [(1, true), (2, false)] {
        let parts = [part(&mut g, Some(warps)), part(&mut g, None)];
        let root = node(&mut g, Op::Parts, DType::Index, &[], &parts);
        assert_eq!(check_kernel(&g, root).is_ok(), fit, "{warps} warps");
    }
}

#[test]
fn a_sum_hides_its_range_and_needs_those_around_it() {
    let mut g = Graph::default();
    let n = g.int(3);
    let (task, outer) = (g.range(0, Axis::Task, n), g.range(2, Axis::Loop, n));
    let by = g.add(task, outer);
    let sum = scalar_sum(&mut g, by);
    check_scalars(&g, &[sum], &[outer]).expect("its loop is open");
    let e = check_scalars(&g, &[sum], &[]).unwrap_err().to_string();
    assert!(e.contains("outside of its loop"), "{e}");
}

#[test]
fn broken_scalars() {
    let table: &[Broken] = &[
        ("there are no lanes yet", |g| {
            let one = g.float(1.0);
            node(g, Op::Splat, Type::vector(F32, 4), &[], &[one])
        }),
        ("a statement is no value", |g| node(g, Op::Block, DType::Index, &[], &[])),
        ("it must have a value and ranges", |g| {
            let one = g.int(1);
            node(g, Op::Reduce(ReduceOp::Sum, vec![]), DType::Index, &[], &[one])
        }),
        ("must be a range of a loop", |g| {
            let one = g.int(1);
            node(g, Op::Reduce(ReduceOp::Sum, vec![]), DType::Index, &[], &[one, one])
        }),
        ("a kernel has no tensors", |g| p(g, F32, &[2])),
    ];
    for (rule, make) in table {
        let mut g = Graph::default();
        let id = make(&mut g);
        let e = check_scalars(&g, &[id], &[]).expect_err(rule).to_string();
        assert!(e.contains(rule), "{e}, not {rule}");
    }
}

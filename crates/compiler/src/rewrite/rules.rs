//! Rewrite rules on tensors, as data: what they match and what they make.
//!
//! Rules marked [`Kind::Reassociating`] are equal in real arithmetic only.

use ir::rewrite::{Kind, Rule};
use ir::{BinOp, Const, DType, Graph, Id, Op, Part, ReduceOp, UnOp};

/// Values in a block of a quantised activation (DESIGN: one f32 scale each).
pub const ACTIVATION_BLOCK: i64 = 32;

/// Moves factors that do not depend on the summed dimension out of the sum:
/// this is what turns RMSNorm into a scalar after the dot product.
pub const FACTOR: Rule = Rule { name: "factor", kind: Kind::Reassociating, apply: factor };

/// Splits the sum of a whole row into sums of 32 and a sum of those, so that
/// the first can be computed where the row is produced.
pub const SPLIT_SUM: Rule = Rule { name: "split-sum", kind: Kind::Reassociating, apply: split_sum };

/// Reads block-quantised weights as integers against an input quantised once
/// (the `int8` policy).
pub const INT8: Rule = Rule { name: "int8", kind: Kind::Reassociating, apply: int8 };

/// Reads codes of 8 bits that have a scale a block, such as those of a cache, in the same way.
pub const CODES: Rule = Rule { name: "codes", kind: Kind::Reassociating, apply: codes };

/// Writes top-k as a rank by pairwise comparison and one-hot sums.
pub const TOPK: Rule = Rule { name: "topk", kind: Kind::Exact, apply: topk };

/// Offers short prefix sums as sums over pairs of elements, beside the loop that they are otherwise.
pub const SCAN: Rule = Rule { name: "scan", kind: Kind::Reassociating, apply: scan };

/// Removes arithmetic with neutral elements.
pub const NEUTRAL: Rule = Rule { name: "neutral", kind: Kind::Exact, apply: neutral };

/// The constant that a tensor is filled with.
fn filled(g: &Graph, id: Id) -> Option<Const> {
    match g.op(id) {
        Op::Const(c) => Some(*c),
        Op::Reshape | Op::Expand => filled(g, g.src(id)[0]),
        _ => None,
    }
}

fn neutral(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Binary(op) = *g.op(id) else { return None };
    if !g.dtype(id).is_float() {
        return None;
    }
    let (a, b) = (g.src(id)[0], g.src(id)[1]);
    let one = Some(Const::f32(1.0));
    match op {
        BinOp::Mul if filled(g, a) == one => Some(b),
        BinOp::Mul | BinOp::Div if filled(g, b) == one => Some(a),
        _ => None,
    }
}

/// The chain of reshapes and expansions above a value whose last dimension
/// stays the last one, and the value under it.
fn under_movement(g: &Graph, id: Id) -> (Vec<Id>, Id) {
    let mut chain = vec![];
    let mut at = id;
    while matches!(g.op(at), Op::Reshape | Op::Expand | Op::Prefix(_) | Op::Gather) {
        let s = g.src(at)[0];
        if g.shape(s).len() < 2 {
            break;
        }
        match (g.shape(at).last(), g.shape(s).last()) {
            (Some(a), Some(b)) if a == b => {}
            _ => break,
        }
        chain.push(at);
        at = s;
    }
    (chain, at)
}

/// Repeats a chain of [`under_movement`] over a value with another last
/// dimension.
fn replay(g: &mut Graph, chain: &[Id], leaf: Id) -> Id {
    let mut at = leaf;
    for &link in chain.iter().rev() {
        let mut shape = g.shape(link).to_vec();
        *shape.last_mut().unwrap() = *g.shape(at).last().unwrap();
        at = match g.op(link) {
            Op::Reshape => g.reshape(at, shape),
            Op::Gather => g.gather(at, g.src(link)[1]),
            Op::Prefix(_) => {
                let (ty, counts) = (g.ty(at), g.src(link)[1]);
                g.make(g.op(link).clone(), ty, shape, vec![at, counts])
            }
            _ => g.expand(at, shape),
        };
    }
    at
}

/// The factors of a product.
fn factors(g: &Graph, id: Id, out: &mut Vec<Id>) {
    if *g.op(id) == Op::Binary(BinOp::Mul) {
        factors(g, g.src(id)[0], out);
        factors(g, g.src(id)[1], out);
    } else {
        out.push(id);
    }
}

fn product(g: &mut Graph, all: &[Id]) -> Option<Id> {
    let mut it = all.iter();
    let mut acc = *it.next()?;
    for &f in it {
        acc = g.mul(acc, f);
    }
    Some(acc)
}

/// `u` with its last dimension of length 1, if `id` repeats it along the last.
fn constant_along_last(g: &Graph, id: Id) -> Option<Id> {
    if *g.op(id) != Op::Expand {
        return None;
    }
    let s = g.src(id)[0];
    let last = *g.shape(s).last()?;
    let same_elsewhere = g.shape(s).iter().zip(g.shape(id)).rev().skip(1).all(|(a, b)| a == b);
    (g.as_int(last) == Some(1) && same_elsewhere).then_some(s)
}

fn factor(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Reduce(ReduceOp::Sum, axes) = g.op(id) else { return None };
    let x = g.src(id)[0];
    if axes[..] != [g.shape(x).len() - 1] || *g.op(x) != Op::Binary(BinOp::Mul) || g.dtype(x) != DType::F32 {
        return None;
    }
    let axes = axes.clone();
    let mut all = vec![];
    factors(g, x, &mut all);
    for (i, &f) in all.iter().enumerate() {
        let (chain, leaf) = under_movement(g, f);
        if chain.is_empty() {
            continue;
        }
        let mut inner = vec![];
        factors(g, leaf, &mut inner);
        let Some(at) = inner.iter().position(|&u| constant_along_last(g, u).is_some()) else { continue };
        if inner.len() == 1 {
            continue;
        }
        let scalar = constant_along_last(g, inner.remove(at)).unwrap();
        let rest = product(g, &inner)?;
        let moved = replay(g, &chain, rest);
        let mut others = all.clone();
        others[i] = moved;
        let body = product(g, &others)?;
        let sum = g.reduce(ReduceOp::Sum, body, axes);
        let outside = replay(g, &chain, scalar);
        // [.., 1] with the other dimensions already repeated: drop the last.
        let shape = g.shape(sum).to_vec();
        let outside = g.reshape(outside, shape);
        return Some(g.mul(sum, outside));
    }
    None
}

fn split_sum(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Reduce(ReduceOp::Sum, axes) = g.op(id) else { return None };
    let x = g.src(id)[0];
    let last = g.shape(x).len() - 1;
    let n = g.as_int(g.shape(x)[last])?;
    // A square of one value: a row that some producer writes.
    let square = *g.op(x) == Op::Binary(BinOp::Mul) && g.src(x)[0] == g.src(x)[1];
    if axes[..] != [last] || !square || n % ACTIVATION_BLOCK != 0 || n < 4 * ACTIVATION_BLOCK {
        return None;
    }
    let base = g.src(x)[0];
    let mut shape = g.shape(x).to_vec();
    shape[last] = g.int(n / ACTIVATION_BLOCK);
    shape.push(g.int(ACTIVATION_BLOCK));
    let split = g.reshape(base, shape);
    let split = g.mul(split, split);
    let partial = g.reduce(ReduceOp::Sum, split, vec![last + 1]);
    Some(g.reduce(ReduceOp::Sum, partial, vec![last]))
}

/// A constant in this shape.
fn fill(g: &mut Graph, value: Const, ty: DType, shape: &[Id]) -> Id {
    let c = g.constant(value, ty);
    let one = g.int(1);
    let c = g.reshape(c, vec![one; shape.len()]);
    g.expand(c, shape.to_vec())
}

/// An activation as codes, scales and sums of codes.
struct Quantised {
    codes: Id,
    scales: Id,
}

/// Blocks of 32: scale = largest magnitude / 127, codes rounded to nearest,
/// halves away from zero (as in the Q8_0 format, with an f32 scale).
fn quantise(g: &mut Graph, x: Id) -> Quantised {
    let shape = g.shape(x).to_vec();
    let last = shape.len() - 1;
    let n = g.as_int(shape[last]).unwrap();
    let blocks = g.int(n / ACTIVATION_BLOCK);
    let width = g.int(ACTIVATION_BLOCK);
    let mut split = shape.clone();
    split[last] = blocks;
    let per_block = split.clone();
    split.push(width);
    let xb = g.reshape(x, split.clone());
    let mag = g.unary(UnOp::Abs, xb);
    let amax = g.reduce(ReduceOp::Max, mag, vec![last + 1]);
    let inv127 = fill(g, Const::f32(1.0 / 127.0), DType::F32, &per_block);
    let scales = g.mul(amax, inv127);
    let mut float = |v: f32| fill(g, Const::f32(v), DType::F32, &per_block);
    let (zero, most) = (float(0.0), float(127.0));
    let positive = g.binary(BinOp::Lt, zero, amax);
    let inverse = g.binary(BinOp::Div, most, amax);
    let inverse = g.select(positive, inverse, zero);
    let mut column = per_block.clone();
    column.push(g.int(1));
    let inverse = g.reshape(inverse, column);
    let inverse = g.expand(inverse, split);
    let scaled = g.mul(xb, inverse);
    let rounded = g.unary(UnOp::Round, scaled);
    let codes = g.cast(rounded, DType::I8);
    Quantised { codes: g.reshape(codes, shape), scales }
}

/// Replaces the `Dequant(Value)` under a chain of views that keep rows whole
/// with another part of the block.
fn other_part(g: &mut Graph, id: Id, part: Part) -> Option<Id> {
    let n = g.node(id).clone();
    match n.op {
        Op::Dequant(f, Part::Value) => Some(g.dequant(n.src[0], f, part)),
        Op::Reshape | Op::Expand => {
            if g.shape(n.src[0]).last() != n.shape.last() {
                return None;
            }
            let leaf = other_part(g, n.src[0], part)?;
            Some(replay(g, &[id], leaf))
        }
        Op::Slice { axis, start } if axis + 1 < n.shape.len() => {
            let leaf = other_part(g, n.src[0], part)?;
            let len = g.as_int(n.shape[axis])?;
            Some(g.slice(leaf, axis, start, len))
        }
        Op::Permute(p) if p.last() == Some(&(p.len() - 1)) => {
            let leaf = other_part(g, n.src[0], part)?;
            Some(g.permute(leaf, p))
        }
        Op::Gather if g.shape(n.src[0]).len() > 1 => {
            let leaf = other_part(g, n.src[0], part)?;
            Some(g.gather(leaf, n.src[1]))
        }
        _ => None,
    }
}

fn format_under(g: &Graph, id: Id) -> Option<ir::FormatId> {
    match g.op(id) {
        Op::Dequant(f, Part::Value) => Some(*f),
        Op::Reshape | Op::Expand | Op::Slice { .. } | Op::Permute(_) | Op::Gather => format_under(g, g.src(id)[0]),
        _ => None,
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Values that are `scale * code + offset` along the last dimension.
struct Coded {
    /// u8, shaped as the values.
    code: Id,
    /// Values that share a scale.
    group: i64,
    /// f32, one for each group along the last dimension.
    scale: Id,
    /// As the scale; `None` where it is zero.
    offset: Option<Id>,
}

fn int8(g: &mut Graph, id: Id) -> Option<Id> {
    integer_dots(g, id, |g, w| {
        let format = format_under(g, w)?;
        let group = g.format_group(format);
        let offset = if offset_is_zero(g, format) { None } else { Some(other_part(g, w, Part::Offset)?) };
        let (code, scale) = (other_part(g, w, Part::Code)?, other_part(g, w, Part::Scale)?);
        Some(Coded { code, group, scale, offset })
    })
}

fn codes(g: &mut Graph, id: Id) -> Option<Id> {
    integer_dots(g, id, |g, w| {
        let Blocks { codes, scales } = blocks(g, w)?;
        let shape = g.shape(w).to_vec();
        // Two's complement shifted up: the sign bit flips.
        let signed = g.reshape(codes, shape.clone());
        let flip = fill(g, Const::Int(-SIGN), DType::I8, &shape);
        let code = g.binary(BinOp::Xor, signed, flip);
        let code = g.cast(code, DType::U8);
        let like = g.shape(scales).to_vec();
        let least = fill(g, Const::f32(-SIGN as f32), DType::F32, &like);
        let offset = g.mul(scales, least);
        Some(Coded { code, group: ACTIVATION_BLOCK, scale: scales, offset: Some(offset) })
    })
}

/// The magnitude of the least code of 8 bits.
const SIGN: i64 = 128;

/// Values as codes `[.., n / 32, 32]` and scales `[.., n / 32]`.
struct Blocks {
    codes: Id,
    scales: Id,
}

/// The codes that values are conversions of.
fn codes_of(g: &mut Graph, id: Id) -> Option<Id> {
    let source = *g.src(id).first()?;
    match g.op(id) {
        Op::Cast if g.dtype(source) == DType::I8 => Some(source),
        Op::Reshape => {
            let (codes, shape) = (codes_of(g, source)?, g.shape(id).to_vec());
            Some(g.reshape(codes, shape))
        }
        _ => None,
    }
}

/// Finds codes and scales under views that keep blocks of 32 whole.
fn blocks(g: &mut Graph, id: Id) -> Option<Blocks> {
    let n = g.node(id).clone();
    let length = g.as_int(*n.shape.last()?)?;
    if length % ACTIVATION_BLOCK != 0 || n.ty.base != DType::F32 {
        return None;
    }
    // The shape with the last dimension in blocks, and that of the scales.
    let (width, count) = (g.int(ACTIVATION_BLOCK), g.int(length / ACTIVATION_BLOCK));
    let mut of_scales = n.shape.clone();
    *of_scales.last_mut().unwrap() = count;
    let mut split = of_scales.clone();
    split.push(width);
    let last = n.shape.len() - 1;
    Some(match n.op {
        Op::Binary(BinOp::Mul) if length == ACTIVATION_BLOCK => {
            let (a, b) = (n.src[0], n.src[1]);
            let (codes, scale) = match codes_of(g, a) {
                Some(codes) => (codes, b),
                None => (codes_of(g, b)?, a),
            };
            let scales = constant_along_last(g, scale)?;
            Blocks { codes: g.reshape(codes, split), scales }
        }
        Op::Reshape => {
            let b = blocks(g, n.src[0])?;
            Blocks { codes: g.reshape(b.codes, split), scales: g.reshape(b.scales, of_scales) }
        }
        Op::Expand if g.shape(n.src[0]).last() == n.shape.last() => {
            let b = blocks(g, n.src[0])?;
            Blocks { codes: g.expand(b.codes, split), scales: g.expand(b.scales, of_scales) }
        }
        Op::Permute(mut p) if p.last() == Some(&last) => {
            let b = blocks(g, n.src[0])?;
            let scales = g.permute(b.scales, p.clone());
            p.push(last + 1);
            Blocks { codes: g.permute(b.codes, p), scales }
        }
        Op::Slice { axis, start } => {
            let per = if axis == last { ACTIVATION_BLOCK } else { 1 };
            let len = g.as_int(n.shape[axis])?;
            if start % per != 0 {
                return None;
            }
            let b = blocks(g, n.src[0])?;
            let mut cut = |id: Id| g.slice(id, axis, start / per, len / per);
            Blocks { codes: cut(b.codes), scales: cut(b.scales) }
        }
        _ => return None,
    })
}

/// A sum over the last dimension of products with coded values as dots of integers, if one side is coded and the other
/// is not.
fn integer_dots(g: &mut Graph, id: Id, coded: impl Fn(&mut Graph, Id) -> Option<Coded>) -> Option<Id> {
    let Op::Reduce(ReduceOp::Sum, axes) = g.op(id).clone() else { return None };
    let body = g.src(id)[0];
    let last = g.shape(body).len() - 1;
    if axes[..] != [last] || *g.op(body) != Op::Binary(BinOp::Mul) {
        return None;
    }
    let (a, b) = (g.src(body)[0], g.src(body)[1]);
    let (w, x) = match coded(g, a) {
        Some(w) => (w, b),
        None => (coded(g, b)?, a),
    };
    let k = g.as_int(g.shape(body)[last])?;
    let (chain, leaf) = under_movement(g, x);
    // Weights are not rounded again: where their blocks lie across the sum, it is one of floats.
    if k % ACTIVATION_BLOCK != 0 || chain.is_empty() || coded(g, leaf).is_some() || format_under(g, leaf).is_some() {
        return None;
    }
    let group = gcd(w.group, ACTIVATION_BLOCK);
    if group % 4 != 0 {
        return None;
    }
    let q = quantise(g, leaf);
    let groups = g.int(k / group);
    let width = g.int(group);
    let mut outer = g.shape(body).to_vec();
    outer[last] = groups;
    let mut split = outer.clone();
    split.push(width);
    // One factor for each group of `from` elements, repeated for groups of `group`.
    let spread = |g: &mut Graph, t: Id, from: i64| {
        let times = from / group;
        let mut s = g.shape(t).to_vec();
        let n = s.len();
        s.push(g.int(1));
        let t = g.reshape(t, s.clone());
        s[n] = g.int(times);
        let t = g.expand(t, s.clone());
        s.pop();
        s[n - 1] = groups;
        g.reshape(t, s)
    };
    // sum of code * x over a group, in integers
    let code = g.reshape(w.code, split.clone());
    let code = g.cast(code, DType::I32);
    let xq = replay(g, &chain, q.codes);
    let xq = g.reshape(xq, split);
    let xq = g.cast(xq, DType::I32);
    let prod = g.mul(code, xq);
    let dots = g.reduce(ReduceOp::Sum, prod, vec![last + 1]);
    let dots = g.cast(dots, DType::F32);
    let ws = spread(g, w.scale, w.group);
    let xs = spread(g, q.scales, ACTIVATION_BLOCK);
    let xs = replay(g, &chain, xs);
    let scale = g.mul(ws, xs);
    let mut value = g.mul(dots, scale);
    if let Some(offset) = w.offset {
        let mut leaf_split = g.shape(leaf).to_vec();
        *leaf_split.last_mut().unwrap() = groups;
        leaf_split.push(width);
        let axis = leaf_split.len() - 1;
        let sums = g.reshape(q.codes, leaf_split);
        let sums = g.cast(sums, DType::I32);
        let sums = g.reduce(ReduceOp::Sum, sums, vec![axis]);
        let sums = g.cast(sums, DType::F32);
        let sums = replay(g, &chain, sums);
        let wo = spread(g, offset, w.group);
        let off = g.mul(sums, xs);
        let off = g.mul(wo, off);
        value = g.add(value, off);
    }
    Some(g.reduce(ReduceOp::Sum, value, vec![last]))
}

/// Whether the value of a format is a plain multiple of its code.
pub fn offset_is_zero(g: &Graph, format: ir::FormatId) -> bool {
    let f = g.format(format).clone();
    let b = f.as_blocks().expect("a block format");
    b.min.is_none() && code_bias(b) == b.zero
}

/// What is subtracted from codes (or table entries) so that the least is 0.
pub fn code_bias(b: &gguf::format::Blocks) -> i32 {
    match &b.table {
        Some(t) => t.iter().copied().min().unwrap_or(0) as i32,
        None => b.code.range().0,
    }
}

fn topk(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::TopK(k) = *g.op(id) else { return None };
    let s = g.src(id)[0];
    let shape = g.shape(s).to_vec();
    let n = *shape.last().unwrap();
    let last = shape.len() - 1;
    let one = g.int(1);
    let mut pair = shape.clone();
    pair.push(n);
    let (mut col, mut row) = (shape.clone(), shape.clone());
    col.push(one);
    row.insert(last, one);
    let pairs = |g: &mut Graph, t: Id, s: &[Id], pair: &[Id]| {
        let t = g.reshape(t, s.to_vec());
        g.expand(t, pair.to_vec())
    };
    let nan = {
        let same = g.binary(BinOp::Eq, s, s);
        g.unary(UnOp::Not, same)
    };
    let (si, sj) = (pairs(g, s, &col, &pair), pairs(g, s, &row, &pair));
    let (ni, nj) = (pairs(g, nan, &col, &pair), pairs(g, nan, &row, &pair));
    let iota = g.make(Op::Iota, DType::I32, vec![n], vec![]);
    let mut ones = vec![one; shape.len() + 1];
    ones[last] = n;
    let ii = pairs(g, iota, &ones, &pair);
    ones[last] = one;
    ones[last + 1] = n;
    let ij = pairs(g, iota, &ones, &pair);
    let less = g.binary(BinOp::Lt, si, sj);
    let not_nj = g.unary(UnOp::Not, nj);
    let nan_less = g.binary(BinOp::And, ni, not_nj);
    let greater = g.binary(BinOp::Or, less, nan_less);
    let same = g.binary(BinOp::Eq, si, sj);
    let both = g.binary(BinOp::And, ni, nj);
    let same = g.binary(BinOp::Or, same, both);
    let before = g.binary(BinOp::Lt, ij, ii);
    let tie = g.binary(BinOp::And, same, before);
    let better = g.binary(BinOp::Or, greater, tie);
    let better = g.cast(better, DType::I32);
    let rank = g.reduce(ReduceOp::Sum, better, vec![last + 1]);
    // ids[p] = sum over i of i where rank[i] = p
    let mut hot = shape.clone();
    hot[last] = g.int(k as i64);
    hot.push(n);
    let mut rank_row = shape.clone();
    rank_row.insert(last, one);
    let rank = pairs(g, rank, &rank_row, &hot);
    let kk = hot[last];
    let want = g.make(Op::Iota, DType::I32, vec![kk], vec![]);
    let mut ones = vec![one; shape.len() + 1];
    ones[last] = kk;
    let want = pairs(g, want, &ones, &hot);
    let mut ones = vec![one; shape.len() + 1];
    ones[last + 1] = n;
    let index = pairs(g, iota, &ones, &hot);
    let here = g.binary(BinOp::Eq, rank, want);
    let zero = g.constant(Const::Int(0), DType::I32);
    let zero = g.reshape(zero, vec![one; shape.len() + 1]);
    let zero = g.expand(zero, hot);
    let picked = g.select(here, index, zero);
    Some(g.reduce(ReduceOp::Sum, picked, vec![last + 1]))
}

/// Elements of a prefix sum that are worth a look at all pairs of them.
const PAIRS: i64 = 256;

/// `sum over j of (j <= i ? x[j] : 0)`: more additions, but a reduction like others, which may join another kernel.
fn scan(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Scan(axis) = *g.op(id) else { return None };
    let x = g.src(id)[0];
    let shape = g.shape(id).to_vec();
    let n = shape[axis];
    if g.as_int(n)? > PAIRS {
        return None;
    }
    let one = g.int(1);
    let mut pair = shape.clone();
    pair.insert(axis, n);
    let at = |g: &mut Graph, t: Id, shape: Vec<Id>| {
        let t = g.reshape(t, shape);
        g.expand(t, pair.clone())
    };
    let iota = g.make(Op::Iota, DType::I32, vec![n], vec![]);
    let ones = vec![one; pair.len()];
    let (mut column, mut row, mut each) = (ones.clone(), ones, shape.clone());
    (column[axis], row[axis + 1]) = (n, n);
    each.insert(axis, one);
    let (i, j, x) = (at(g, iota, column), at(g, iota, row), at(g, x, each));
    let later = g.binary(BinOp::Lt, i, j);
    let ty = g.dtype(id);
    let nothing = fill(g, if ty.is_float() { Const::f32(0.0) } else { Const::Int(0) }, ty, &pair);
    let counted = g.select(later, nothing, x);
    let pairs = g.reduce(ReduceOp::Sum, counted, vec![axis + 1]);
    let op = Op::Choice { name: "scan".into(), of: vec!["pairs".into(), "loop".into()] };
    Some(g.make(op, ty, shape, vec![pairs, id]))
}

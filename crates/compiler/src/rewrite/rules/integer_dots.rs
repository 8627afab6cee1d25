//! Sums of products as integer dots by blocks, against an input that is quantised once.

use crate::rewrite::rules::movement::{fill, products_along_last, repeated_along_last, replay, under_movement};
use ir::index::gcd;
use ir::{BinOp, Const, DType, Graph, Id, Op, Part, ReduceOp, UnOp};

/// Values in a block of a quantised activation (DESIGN: one f32 scale each).
pub const ACTIVATION_BLOCK: i64 = 32;

/// Values that are `unit * scale * code + offset` along the last dimension.
pub(super) struct Coded {
    /// u8 or i8, shaped as the values.
    pub(super) code: Id,
    /// Values that share a scale.
    pub(super) group: i64,
    /// f32, one for each group along the last dimension.
    pub(super) scale: Id,
    /// A power of two.
    pub(super) unit: f32,
    /// As the scale; `None` where it is zero.
    pub(super) offset: Option<Id>,
}

/// A sum over the last dimension of products with coded values as dots of integers, if one side is coded and the other
/// is not.
pub(super) fn integer_dots(g: &mut Graph, id: Id, coded: impl Fn(&mut Graph, Id) -> Option<Coded>) -> Option<Id> {
    let (a, b) = products_along_last(g, id)?;
    let body = g.src(id)[0];
    let last = g.shape(body).len() - 1;
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
    let spread = |g: &mut Graph, t: Id, from: i64| repeated_along_last(g, t, from / group);
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
    let mut scale = g.mul(ws, xs);
    if w.unit != 1.0 {
        let unit = fill(g, Const::f32(w.unit), DType::F32, &outer);
        scale = g.mul(scale, unit);
    }
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

pub(super) fn format_under(g: &Graph, id: Id) -> Option<ir::FormatId> {
    match g.op(id) {
        Op::Dequant(f, Part::Value) => Some(*f),
        Op::Reshape | Op::Expand | Op::Slice { .. } | Op::Permute(_) | Op::Gather => format_under(g, g.src(id)[0]),
        _ => None,
    }
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

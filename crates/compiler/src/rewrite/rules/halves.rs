//! Weights and what they are multiplied with as numbers of 16 bits: bf16, or f16.

use crate::rewrite::rules::Rule;
use crate::rewrite::rules::movement::{fill, products_along_last, repeated_along_last, replay, under_movement};
use ir::rewrite::Kind;
use ir::{BinOp, Const, DType, Graph, Id, Op, Part, ReduceOp, walk};

/// Rounds weights of 16 bits, and their input, to bf16 for sums of products along rows: what a GPU multiplies at once where
/// there are many tokens. Weights of more bits are so on purpose: they choose experts.
pub const BF16: Rule =
    Rule { name: "bf16", kind: Kind::Reassociating, apply: |g, id, _| rounded(g, id, DType::BF16, of_16_bits) };

/// The same for weights in block formats, where rows are unpacked in registers: a number of 8 bits with an exponent of its
/// own says more of an input than a code of 8 bits does.
pub const BF16_BLOCKS: Rule =
    Rule { name: "bf16-blocks", kind: Kind::Reassociating, apply: |g, id, _| rounded(g, id, DType::BF16, of_blocks) };

/// As [`BF16`], to f16: three more bits of a number, which is at most 65,504.
pub const F16: Rule =
    Rule { name: "f16", kind: Kind::Reassociating, apply: |g, id, _| rounded(g, id, DType::F16, of_16_bits) };

/// As [`F16`], for weights in block formats, each of which is rounded once.
pub const F16_BLOCKS: Rule = Rule {
    name: "f16-blocks",
    kind: Kind::Reassociating,
    apply: |g, id, _| rounded(g, id, DType::F16, value_of_blocks),
};

/// Elements that are multiplied at once.
const WHOLE: i64 = 16;

/// Codes of so many values are bf16 numbers without a sign.
const EXACT: i32 = 128;

/// The largest f16 number: what is greater would be infinite.
const MOST: f32 = 65504.0;

/// What makes halves of weights, if a node is some.
type OfWeights = fn(&mut Graph, Id, DType) -> Option<Id>;

/// A sum of products with weights as halves of this type, which `halves` makes of what is weights.
fn rounded(g: &mut Graph, id: Id, ty: DType, halves: OfWeights) -> Option<Id> {
    let (a, b) = products_along_last(g, id)?;
    let last = g.shape(a).len() - 1;
    let whole = g.as_int(g.shape(a)[last])? % WHOLE == 0;
    let (w, x) = match rows(g, a, ty, halves) {
        Some(w) => (w, b),
        None => (rows(g, b, ty, halves)?, a),
    };
    let (chain, leaf) = under_movement(g, x);
    let plain = g.dtype(leaf) == DType::F32 && rows(g, leaf, ty, halves).is_none();
    if !whole || chain.is_empty() || !plain {
        return None;
    }
    let finite = if ty == DType::F16 { clamped(g, leaf) } else { leaf };
    let mut rounded = g.cast(finite, ty);
    // What is read by a sum where it lies is rounded there each time; what was computed is rounded once.
    if !is_computed(g, leaf) {
        let (ty, shape) = (g.ty(rounded), g.shape(rounded).to_vec());
        rounded = g.make(Op::Fence, ty, shape, vec![rounded]);
    }
    let x = replay(g, &chain, rounded);
    let (w, x) = (g.cast(w, DType::F32), g.cast(x, DType::F32));
    let product = g.mul(w, x);
    Some(g.reduce(ReduceOp::Sum, product, vec![last]))
}

/// A value as far as f16 numbers reach.
fn clamped(g: &mut Graph, value: Id) -> Id {
    let shape = g.shape(value).to_vec();
    let [most, least] = [MOST, -MOST].map(|limit| fill(g, Const::f32(limit), DType::F32, &shape));
    let value = g.binary(BinOp::Min, value, most);
    g.binary(BinOp::Max, value, least)
}

/// Rows of weights, which stay whole, as halves below what moves them; `halves` makes these of weights.
fn rows(g: &mut Graph, id: Id, ty: DType, halves: OfWeights) -> Option<Id> {
    let n = g.node(id).clone();
    match n.op {
        Op::Permute(ref p) if p.last() != Some(&(p.len() - 1)) => None,
        Op::Reshape | Op::Expand | Op::Slice { .. } | Op::Permute(_) | Op::Gather => {
            let mut src = n.src;
            src[0] = rows(g, src[0], ty, halves)?;
            Some(g.make(n.op, ty, n.shape, src))
        }
        _ => halves(g, id, ty),
    }
}

/// Weights of 16 bits as halves.
fn of_16_bits(g: &mut Graph, id: Id, ty: DType) -> Option<Id> {
    let weights = *g.src(id).first().filter(|_| *g.op(id) == Op::Cast)?;
    let half = matches!(g.op(weights), Op::Param { .. }) && g.dtype(weights).bytes() == 2;
    half.then(|| if g.dtype(weights) == ty { weights } else { g.cast(weights, ty) })
}

/// Weights in a block format, rounded.
fn value_of_blocks(g: &mut Graph, id: Id, ty: DType) -> Option<Id> {
    let Op::Dequant(format, Part::Value) = *g.op(id) else { return None };
    g.format(format).as_blocks()?;
    Some(g.cast(id, ty))
}

/// Weights in a block format as bf16 numbers: codes are exact, and less what lies in their middle, so that what is added to
/// their products is small. Factors and what is added are rounded.
fn of_blocks(g: &mut Graph, id: Id, _: DType) -> Option<Id> {
    let Op::Dequant(id_of_format, Part::Value) = *g.op(id) else { return None };
    let format = g.format(id_of_format).clone();
    let blocks = format.as_blocks()?;
    let (least, greatest) = blocks.level_range();
    let packed = g.src(id)[0];
    let part = |g: &mut Graph, part: Part| g.dequant(packed, id_of_format, part);
    let scale = part(g, Part::Scale);
    let of_groups = g.shape(scale).to_vec();
    let times = |g: &mut Graph, t: Id, by: f32| {
        let by = fill(g, Const::f32(by), DType::F32, &of_groups);
        g.mul(t, by)
    };
    let (code, scale, middle) = match blocks.level_shift() {
        _ if greatest - least < EXACT => {
            let middle = if blocks.min.is_none() { -least } else { (greatest - least + 1) / 2 };
            (part(g, Part::Code), scale, middle as f32)
        }
        Some(up) if blocks.min.is_none() => (part(g, Part::Level), times(g, scale, 1.0 / (1u32 << up) as f32), 0.0),
        _ => return None,
    };
    // A float of each group, rounded, for each element.
    let group = g.format_group(id_of_format);
    let spread = |g: &mut Graph, of_groups: Id| {
        let half = g.cast(of_groups, DType::BF16);
        let half = repeated_along_last(g, half, group);
        g.cast(half, DType::F32)
    };
    let mut value = g.cast(code, DType::F32);
    if middle != 0.0 {
        let shape = g.shape(code).to_vec();
        let middle = fill(g, Const::f32(middle), DType::F32, &shape);
        value = g.binary(BinOp::Sub, value, middle);
    }
    let value = g.cast(value, DType::BF16);
    let value = g.cast(value, DType::F32);
    let factor = spread(g, scale);
    let mut value = g.mul(value, factor);
    if blocks.min.is_some() {
        let (offset, of_middle) = (part(g, Part::Offset), times(g, scale, middle));
        let rest = g.add(offset, of_middle);
        let rest = spread(g, rest);
        value = g.add(value, rest);
    }
    Some(g.cast(value, DType::BF16))
}

/// Whether a value is more than renamed, chosen and scaled elements of tensors and states.
fn is_computed(g: &Graph, id: Id) -> bool {
    let found = walk::try_reach([id], |id, more| match g.op(id) {
        Op::Reduce(..) | Op::Unary(_) | Op::Fold { .. } | Op::Recur { .. } | Op::Scan(_) | Op::TopK(_) | Op::Fence => {
            Err(())
        }
        Op::Scatter => Ok(()),
        Op::Gather => {
            more.push(g.src(id)[0]);
            Ok(())
        }
        _ => {
            more.extend(g.src(id));
            Ok(())
        }
    });
    found.is_err()
}

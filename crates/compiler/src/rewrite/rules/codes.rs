//! A tensor's own codes of 8 bits, such as those of a cache, as integers.

use crate::rewrite::rules::Rule;
use crate::rewrite::rules::integer_dots::{ACTIVATION_BLOCK, Coded, integer_dots};
use crate::rewrite::rules::movement::{constant_along_last, fill};
use ir::rewrite::Kind;
use ir::{BinOp, Const, DType, Graph, Id, Op};

/// Reads codes of 8 bits that have a scale a block, such as those of a cache, in the same way.
pub const CODES: Rule = Rule { name: "codes", kind: Kind::Reassociating, apply: |g, id, _| codes(g, id) };

/// The magnitude of the least code of 8 bits.
const SIGN: i64 = 128;

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
        Some(Coded { code, group: ACTIVATION_BLOCK, scale: scales, unit: 1.0, offset: Some(offset) })
    })
}

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

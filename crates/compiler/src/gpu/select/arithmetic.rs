//! Products, and operations of one element or of each lane.

use super::inst::Inst;
use super::words::in_words;
use ir::{BinOp, DType, Graph, Id, Op, index};

/// Products of bytes from nothing on that become floats: no conversion is needed.
pub(super) fn product_as_float(g: &mut Graph, id: Id) -> Option<Inst> {
    let product = g.src(id).first().copied().filter(|_| *g.op(id) == Op::Cast && g.dtype(id) == DType::F32)?;
    let (Op::WarpProduct, &[sums, rows, columns]) = (g.op(product), g.src(product)) else { return None };
    let none = matches!(g.op(sums), Op::Lanes(all) if all.iter().all(|c| c.as_int() == 0));
    (none && g.dtype(product) == DType::I32).then_some(Inst::ProductAsFloat { rows, columns })
}

/// Signed codes times a half that become halves again: a product of a code and a half is no longer than a float, so it is
/// rounded once in either case.
pub(super) fn scaled_codes(g: &mut Graph, id: Id) -> Option<Inst> {
    let cast = |g: &Graph, id: Id, from: DType| {
        let source = g.src(id).first().copied()?;
        (*g.op(id) == Op::Cast && g.dtype(source) == from).then_some(source)
    };
    let product = cast(g, id, DType::F32).filter(|_| g.dtype(id) == DType::F16)?;
    let (Op::Binary(BinOp::Mul), &[a, b]) = (g.op(product), g.src(product)) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(codes, splat)| {
        let codes = cast(g, codes, DType::I8).filter(|&codes| in_words(g.ty(codes)))?;
        let scale = g.src(splat).first().copied().filter(|_| *g.op(splat) == Op::Splat)?;
        Some(Inst::ScaledCodes { codes, scale: cast(g, scale, DType::F16)? })
    })
}

/// Floats that become bf16 numbers.
pub(super) fn pairs(g: &mut Graph, id: Id) -> Option<Inst> {
    let ty = g.ty(id);
    let whole = *g.op(id) == Op::Cast && ty.base == DType::BF16 && ty.lanes.is_multiple_of(2);
    (whole && g.dtype(g.src(id)[0]) == DType::F32).then_some(Inst::Pairs)
}

/// A product of matrices that a warp holds.
pub(super) fn product(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::WarpProduct).then_some(Inst::Product)
}

/// Four products of bytes.
pub(super) fn dot4(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::Dot4).then_some(Inst::Dot4)
}

/// Whether an index fits 32 bits.
pub(crate) fn is_narrow(g: &mut Graph, id: Id) -> bool {
    let (lo, hi) = index::bounds(g, id);
    lo >= i64::from(i32::MIN) && hi <= i64::from(i32::MAX)
}

/// What is done to each lane alone. An index has 64 bits only if its bounds need them.
pub(super) fn elementwise(g: &mut Graph, id: Id) -> Option<Inst> {
    let n = g.node(id).clone();
    if !matches!(n.op, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast) {
        return None;
    }
    if n.ty.lanes > 1 {
        return Some(Inst::Elementwise { wide: false, natural: false });
    }
    // Of two ends one may be wide where the result is not.
    let ends = matches!(n.op, Op::Binary(BinOp::Min | BinOp::Max));
    let mut fits = || is_narrow(g, id) && (!ends || n.src.iter().all(|&s| is_narrow(g, s)));
    let wide = n.ty.base == DType::Index && !fits();
    let natural = n.ty.base.is_int() && index::bounds(g, n.src[0]).0 >= 0;
    Some(Inst::Elementwise { wide, natural })
}

//! Halves that are made of codes and of each other, two in a word.

use super::inst::Inst;
use super::words::in_words;
use ir::{BinOp, DType, Graph, Id, Op, index};

/// Signed codes times a half that become halves again: a product of a code and a half is no longer than a float, so it is
/// rounded once in either case.
pub(super) fn scaled_codes(g: &mut Graph, id: Id) -> Option<Inst> {
    let product = cast(g, id, DType::F32).filter(|_| g.dtype(id) == DType::F16)?;
    let (Op::Binary(BinOp::Mul), &[a, b]) = (g.op(product), g.src(product)) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(codes, splat)| {
        let codes = cast(g, codes, DType::I8).filter(|&codes| in_words(g.ty(codes)))?;
        let scale = g.src(splat).first().copied().filter(|_| *g.op(splat) == Op::Splat)?;
        Some(Inst::ScaledCodes { codes, scale: cast(g, scale, DType::F16)? })
    })
}

/// Codes less a number that become bf16 numbers: they are exact, so no float is needed.
pub(super) fn codes(g: &mut Graph, id: Id) -> Option<Inst> {
    let float = cast(g, id, DType::F32).filter(|_| g.dtype(id) == DType::BF16)?;
    let (float, less) = match (g.op(float), g.src(float)) {
        (Op::Binary(BinOp::Sub), &[a, b]) => (a, whole_number(g, b)?),
        _ => (float, 0),
    };
    let codes = g.src(float).first().copied().filter(|&codes| *g.op(float) == Op::Cast && in_words(g.ty(codes)))?;
    let exact = match g.dtype(codes) {
        DType::U8 => index::bounds(g, codes).1 < 128 && (0..128).contains(&less),
        DType::I8 => less == 0,
        _ => false,
    };
    exact.then_some(Inst::HalvesOfCodes { codes, less })
}

/// A product of bf16 numbers that becomes one, with another one added or not: a product of two is no longer than a float.
pub(super) fn product(g: &mut Graph, id: Id) -> Option<Inst> {
    let ty = g.ty(id);
    let float = cast(g, id, DType::F32).filter(|_| ty.base == DType::BF16 && ty.lanes.is_multiple_of(2))?;
    let halves = |g: &Graph, product: Id| {
        let (Op::Binary(BinOp::Mul), &[a, b]) = (g.op(product), g.src(product)) else { return None };
        half(g, a).zip(half(g, b)).map(|(a, b)| [a, b])
    };
    if let Some(factors) = halves(g, float) {
        return Some(Inst::HalfProduct { factors, rest: None });
    }
    let (Op::Binary(BinOp::Add), &[a, b]) = (g.op(float), g.src(float)) else { return None };
    let sum = |product, rest| Some(Inst::HalfProduct { factors: halves(g, product)?, rest: Some(half(g, rest)?) });
    sum(a, b).or_else(|| sum(b, a))
}

/// The bf16 numbers that floats were, or the one that is in each lane.
fn half(g: &Graph, id: Id) -> Option<Id> {
    match g.op(id) {
        Op::Splat => half(g, g.src(id)[0]),
        _ => cast(g, id, DType::BF16),
    }
}

/// The same integer in all lanes.
fn whole_number(g: &Graph, id: Id) -> Option<i64> {
    let one = match g.op(id) {
        Op::Lanes(all) => *all.first().filter(|&first| all.iter().all(|c| c == first))?,
        Op::Const(c) => *c,
        Op::Splat => return whole_number(g, g.src(id)[0]),
        _ => return None,
    };
    let value = one.as_f32();
    (value.fract() == 0.0 && value.abs() < 256.0).then_some(value as i64)
}

/// What was converted, if it was of this type.
fn cast(g: &Graph, id: Id, from: DType) -> Option<Id> {
    let source = g.src(id).first().copied()?;
    (*g.op(id) == Op::Cast && g.dtype(source) == from).then_some(source)
}

/// Floats that become bf16 numbers.
pub(super) fn pairs(g: &mut Graph, id: Id) -> Option<Inst> {
    let ty = g.ty(id);
    let whole = *g.op(id) == Op::Cast && ty.base == DType::BF16 && ty.lanes.is_multiple_of(2);
    (whole && g.dtype(g.src(id)[0]) == DType::F32).then_some(Inst::Pairs)
}

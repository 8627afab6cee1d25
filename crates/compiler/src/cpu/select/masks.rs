//! Vectors of truth values: signed integers, 0 or -1, as wide as what was compared.

use super::inst::{Inst, call, convert, prefix, type_name, value};
use ir::{BinOp, DType, Graph, Id, Op, Type};

/// Width of the lanes of a vector of truth values.
pub(super) fn bits(g: &Graph, id: Id) -> usize {
    if g.dtype(id) != DType::Bool || g.ty(id).lanes == 1 {
        return 8;
    }
    match g.op(id) {
        Op::Binary(BinOp::Lt | BinOp::Eq) => g.dtype(g.src(id)[0]).bytes() * 8,
        Op::Binary(_) | Op::Unary(_) => bits(g, g.src(id)[0]),
        _ => 8,
    }
}

/// The type of the register of a value.
pub(crate) fn register(g: &Graph, id: Id) -> Type {
    let ty = g.ty(id);
    if ty.base == DType::Bool && ty.lanes > 1 { signed(bits(g, id), ty.lanes) } else { ty }
}

fn signed(bits: usize, lanes: u16) -> Type {
    let base = match bits {
        8 => DType::I8,
        16 => DType::I16,
        _ => DType::I32,
    };
    Type { base, lanes }
}

/// A mask with lanes of another width.
pub(super) fn widened(mask: Inst, from: usize, to: usize, lanes: u16) -> Inst {
    match (from, to) {
        _ if from == to => mask,
        (8, 32) => call(format!("kl_words_{}", type_name(signed(8, lanes))), [mask]),
        (32, 8) => call(format!("kl_bytes_{}", type_name(signed(8, lanes))), [mask]),
        _ => convert(signed(to, lanes), mask),
    }
}

/// A value as lanes of a vector that is moved about: truth values are 0 or -1, in bytes.
pub(super) fn lanes(g: &Graph, id: Id) -> Inst {
    match g.ty(id) {
        Type { base: DType::Bool, lanes: 1 } => prefix("-", value(id)),
        Type { base: DType::Bool, lanes } => widened(value(id), bits(g, id), 8, lanes),
        _ => value(id),
    }
}

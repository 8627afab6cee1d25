//! Loads and stores.

use super::inst::{Access, Inst};
use crate::gpu::align::alignment;
use ir::{Graph, Id, Op};

/// The load and the exchange are one instruction.
pub(super) fn fragment(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Fragment { transposed } = *g.op(id) else { return None };
    let &[buffer, at, ..] = g.src(g.src(id)[0]) else { return None };
    Some(Inst::Fragment { buffer, at, transposed })
}

/// An element, or lanes that lie one after another.
pub(super) fn load(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Load, ty, &[buffer, at, ..]) = (g.op(id), g.ty(id), g.src(id)) else { return None };
    Some(Inst::Load(match ty.lanes {
        1 if g.dtype(buffer) == ty.base => Access::Element,
        _ if alignment(g, buffer, at) >= ty.bytes() => Access::Whole,
        _ => Access::Bytes,
    }))
}

/// An element, or lanes one after another.
pub(super) fn store(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Store, &[buffer, _, stored, ..]) = (g.op(id), g.src(id)) else { return None };
    let ty = g.ty(stored);
    let element = ty.lanes == 1 && g.dtype(buffer) == ty.base;
    Some(Inst::Store(if element { Access::Element } else { Access::Whole }))
}

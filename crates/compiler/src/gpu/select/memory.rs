//! Loads and stores.

use super::inst::{Access, Inst};
use crate::gpu::align::alignment;
use crate::kernel::expression::replace;
use ir::{Axis, Graph, Id, Op, Space};
use rustc_hash::FxHashSet;

/// Bytes that go from memory to shared memory at once.
const COPIED: usize = 16;

/// The load and the exchange are one instruction.
pub(super) fn fragment(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Fragment { transposed } = *g.op(id) else { return None };
    let &[buffer, at, ..] = g.src(g.src(id)[0]) else { return None };
    Some(Inst::Fragment { buffer, at, transposed })
}

/// The same as a whole: the first lane says where it begins, and the second where its next row does.
pub(super) fn matrix(g: &mut Graph, id: Id) -> Option<Inst> {
    let Some(Inst::Fragment { buffer, at, transposed }) = fragment(g, id) else { return None };
    let lane = g.toposort(&[at]).into_iter().find(|&id| matches!(g.op(id), Op::Range(_, Axis::Lane)))?;
    let [first, second] = [0, 1].map(|number| {
        let number = g.int(number);
        replace(g, at, lane, number)
    });
    let apart = g.sub(second, first);
    Some(Inst::Matrix { buffer, at: first, pitch: g.as_int(apart)?, transposed })
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

/// Stores to shared memory of what was loaded just for them, where nothing reads that memory but fragments: those of what
/// other threads have stored, behind a barrier.
pub(super) fn copies(g: &mut Graph, order: &[Id]) -> Vec<(Id, Inst)> {
    let is_shared = |g: &Graph, buffer: Id| matches!(g.op(buffer), Op::Buffer { space: Space::Shared, .. });
    let mut read: FxHashSet<Id> = FxHashSet::default();
    for &id in order.iter().filter(|&&id| !matches!(g.op(id), Op::Fragment { .. })) {
        read.extend(g.src(id).iter().filter(|&&s| *g.op(s) == Op::Load).map(|&s| g.src(s)[0]));
    }
    let mut all = vec![];
    for &id in order {
        let (Op::Store, &[buffer, _, stored]) = (g.op(id), g.src(id)) else { continue };
        let loaded = *g.op(stored) == Op::Load && g.ty(stored).bytes() == COPIED;
        if !loaded || !is_shared(g, buffer) || read.contains(&buffer) {
            continue;
        }
        let &[from, at, ..] = g.src(stored) else { continue };
        let whole = matches!(load(g, stored), Some(Inst::Load(Access::Whole)));
        if whole && !is_shared(g, from) && !matches!(g.op(from), Op::Buffer { space: Space::Task, .. }) {
            all.push((id, Inst::Copy { from, at }));
        }
    }
    all
}

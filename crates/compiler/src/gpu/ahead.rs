//! Loads of a round of a loop that the round before sends (software pipelining).
//!
//! A loop over pages of a cache loads a page, waits for it, copies it to shared memory and computes with it. What it loads
//! depends on nothing that a round computes, so the loads of the next round can be on their way while this one
//! computes: in registers, which are free from the moment when the copies are made.

use crate::gpu::early;
use crate::gpu::threads::Tiler;
use crate::kernel::expression::{by, replace};
use ir::{BinOp, Graph, Id, Op};
use rustc_hash::FxHashSet;

/// Bytes of registers that a thread has at most for what is on its way and for fragments that a loop keeps.
const MOST: usize = 512;

/// The statements before a loop over `range` and those of a round, where loads are a round ahead.
pub(super) fn loads_ahead(t: &Tiler, g: &mut Graph, range: Id, round: Vec<Id>) -> (Vec<Id>, Vec<Id>) {
    let written = early::written(g, &round);
    let (loads, mut rest): (Vec<Id>, Vec<Id>) = round.iter().partition(|&&s| loads_only(g, s, &written));
    let accs: Vec<Id> = loads.iter().flat_map(|&s| set_by(g, s)).collect();
    let kept = t.target.carried.values().flat_map(|c| &c.accs).chain(&accs);
    let bytes: usize = kept.map(|&acc| g.ty(acc).bytes().next_multiple_of(4)).sum();
    let set_elsewhere = rest.iter().any(|&s| set_by(g, s).iter().any(|acc| accs.contains(acc)));
    let last = rest.iter().rposition(|&s| g.toposort(&[s]).iter().any(|id| accs.contains(id)));
    let (Some(last), false, false) = (last, bytes > MOST, set_elsewhere) else { return (vec![], round) };
    let (zero, next, end) = (g.int(0), by(g, BinOp::Add, range, 1), g.src(range)[0]);
    let [any, goes_on] = [zero, next].map(|at| g.binary(BinOp::Lt, at, end));
    if g.as_int(goes_on) == Some(0) {
        // There is one round at most.
        return (vec![], round);
    }
    let sent = |g: &mut Graph, at: Id, condition: Id| {
        let loads: Vec<Id> = loads.iter().map(|&s| replace(g, s, range, at)).collect();
        t.only(g, Some(condition).filter(|&c| g.as_int(c) != Some(1)), loads)
    };
    let (first, following) = (sent(g, zero, any), sent(g, next, goes_on));
    rest.splice(last + 1..last + 1, following);
    (first, rest)
}

/// Whether a statement does nothing but set registers to what lies in memory, but in these slots.
fn loads_only(g: &Graph, statement: Id, written: &FxHashSet<u32>) -> bool {
    let src = g.src(statement);
    match g.op(statement) {
        Op::If => known(g, src[0], written) && src[1..].iter().all(|&s| loads_only(g, s, written)),
        Op::Set => src.chunks_exact(2).all(|pair| *g.op(pair[1]) == Op::Load && known(g, pair[1], written)),
        _ => false,
    }
}

/// Whether a value is made of such memory alone.
fn known(g: &Graph, value: Id, written: &FxHashSet<u32>) -> bool {
    let mut all = g.toposort(&[value]).into_iter();
    all.all(|id| match g.op(id) {
        Op::Load => early::stays(g, id, written),
        Op::Acc(_) => false,
        _ => true,
    })
}

/// Registers that a statement sets.
fn set_by(g: &Graph, statement: Id) -> Vec<Id> {
    let sets = g.toposort(&[statement]).into_iter().filter(|&id| *g.op(id) == Op::Set);
    sets.flat_map(|set| g.src(set).chunks_exact(2).map(|pair| pair[0])).collect()
}

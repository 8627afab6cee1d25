//! How much of the states a kernel reads.

use crate::schedule::Schedule;
use crate::schedule::roles::base;
use ir::{Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// A part of a row: its first element and how many.
type Part = (i64, i64);

/// Bytes of a row of each state that is read by gathers among the nodes of a kernel: all of it, or the slices that are
/// used. A row is what a scatter replaces.
pub(crate) fn row_bytes(g: &Graph, s: &Schedule, within: &FxHashSet<Id>) -> i64 {
    let mut read: FxHashMap<Id, BTreeSet<Part>> = FxHashMap::default();
    for &id in within.iter().filter(|&&id| *g.op(id) == Op::Gather) {
        let Some(state) = state_of(g, g.src(id)[0]) else { continue };
        let Some(length) = last(g, state) else { continue };
        let parts = read.entry(state).or_default();
        if last(g, id) == Some(length) {
            slices(g, s, within, id, length, parts);
        } else {
            parts.insert((0, length));
        }
    }
    let bytes = |(&state, parts): (&Id, &BTreeSet<Part>)| {
        let length = last(g, state).unwrap_or(0);
        let mut end = 0;
        let mut elements = 0;
        for &(start, n) in parts {
            elements += (start + n - end.max(start)).max(0);
            end = end.max(start + n);
        }
        elements.min(length) * g.dtype(state).bytes() as i64
    };
    read.iter().map(bytes).sum()
}

/// The state of which a node is a version, through views.
fn state_of(g: &Graph, mut id: Id) -> Option<Id> {
    loop {
        id = base(g, id);
        match g.op(id) {
            Op::State { .. } => return Some(id),
            Op::Scatter => id = g.src(id)[0],
            _ => return None,
        }
    }
}

/// The length of the last dimension.
fn last(g: &Graph, id: Id) -> Option<i64> {
    g.as_int(*g.shape(id).last()?)
}

/// The parts of rows that the readers of a node use; all of the row as soon as one is no slice of it.
fn slices(g: &Graph, s: &Schedule, within: &FxHashSet<Id>, id: Id, length: i64, parts: &mut BTreeSet<Part>) {
    let users = s.roles.users.get(&id).into_iter().flatten().filter(|user| within.contains(user));
    for &user in users {
        match *g.op(user) {
            Op::Slice { axis, start } if axis + 1 == g.shape(id).len() => {
                parts.insert((start, last(g, user).unwrap_or(length)));
            }
            Op::Cast | Op::Reshape if last(g, user) == Some(length) => slices(g, s, within, user, length, parts),
            _ => _ = parts.insert((0, length)),
        }
    }
}

//! What of a graph is inside of a fold: its merge reads placeholders, and is evaluated once for each step.

use crate::walk;
use crate::{Graph, Id, Op};
use rustc_hash::FxHashSet;

/// The nodes whose value depends on a placeholder of a fold around them.
pub(crate) fn open_nodes(g: &Graph, order: &[Id]) -> FxHashSet<Id> {
    let mut open = FxHashSet::default();
    for &id in order {
        let src = g.src(id);
        let is_open = match g.op(id) {
            Op::Arg(_) => true,
            // The placeholders of its merge are its own.
            Op::Fold { parts, .. } => {
                src.iter().enumerate().any(|(i, s)| !(*parts..2 * parts).contains(&i) && open.contains(s))
            }
            _ => src.iter().any(|s| open.contains(s)),
        };
        if is_open {
            open.insert(id);
        }
    }
    open
}

/// The open nodes that the merge of a fold needs, in order.
pub(crate) fn body(g: &Graph, open: &FxHashSet<Id>, merge: &[Id]) -> Vec<Id> {
    let mut body = vec![];
    walk::reach(merge.iter().copied(), |id, more| {
        if !open.contains(&id) {
            return;
        }
        body.push(id);
        let src = g.src(id);
        match g.op(id) {
            Op::Fold { parts, .. } => more.extend(src[..*parts].iter().chain(&src[2 * parts..])),
            _ => more.extend(src),
        }
    });
    body.sort_unstable();
    body
}

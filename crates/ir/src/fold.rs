//! What of a graph is inside of a fold or a recurrence: expressions of placeholders, which are evaluated once for each step.

use crate::walk;
use crate::{Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Sources of a recurrence before its inputs.
const RUNS: usize = 4;

/// The sources of a recurrence by their roles ([`Op::Recur`]).
pub struct Recurrence<'a> {
    /// Whether a run begins at each step.
    pub begins: Id,
    /// Whether it ends there.
    pub ends: Id,
    /// Its number.
    pub run: Id,
    /// What it begins with.
    pub start: Id,
    /// What each step reads.
    pub inputs: &'a [Id],
    /// What is carried on.
    pub next: Id,
    /// What is given.
    pub given: &'a [Id],
}

impl Recurrence<'_> {
    /// The sources of a part of a recurrence.
    pub fn of(g: &Graph, id: Id) -> Option<Recurrence<'_>> {
        let Op::Recur { inputs, .. } = *g.op(id) else { return None };
        let [begins, ends, run, start, ref rest @ ..] = *g.src(id) else { return None };
        let (inputs, own) = rest.split_at_checked(inputs)?;
        let (&next, given) = own.split_first()?;
        Some(Recurrence { begins, ends, run, start, inputs, next, given })
    }
}

impl Recurrence<'_> {
    /// Whether what is carried is read as it is made: each element where it lies, or in sums over dimensions that nothing
    /// given has, and what was carried before in sums only by who reads what is carried on, too.
    ///
    /// # Errors
    /// What reads it otherwise.
    pub fn check_reads(&self, g: &Graph) -> Result<(), String> {
        let carried = g.shape(self.next);
        let lead = self.given.iter().map(|&given| g.shape(given).len()).min().unwrap_or(0);
        let last = self.inputs.len() + 1;
        let roots: Vec<Id> = self.given.iter().copied().chain([self.next]).collect();
        // Placeholders that a node has at its own index: what is carried before and after a step.
        let mut here: FxHashMap<Id, [bool; 2]> = FxHashMap::default();
        for id in g.toposort(&roots) {
            let of = |s: &Id| here.get(s).copied().unwrap_or_default();
            let read = g.src(id).iter().map(of).fold([false; 2], |a, b| [a[0] | b[0], a[1] | b[1]]);
            let (reads, own) = (read != [false; 2], merges(g, id));
            match g.op(id) {
                Op::Arg(0) => drop(here.insert(id, [true, false])),
                Op::Arg(n) if *n == last => drop(here.insert(id, [false, true])),
                _ if !reads || !own.is_empty() => {}
                _ if read == [true; 2] => {
                    return Err("an element is read of both what is carried before and after a step".into());
                }
                Op::Reduce(_, axes) if axes.iter().all(|&axis| axis >= lead) => {}
                op if op.is_elementwise() && g.shape(id) == carried => drop(here.insert(id, read)),
                op => return Err(format!("{op:?} reads what is carried elsewhere than where it lies")),
            }
        }
        Ok(())
    }
}

/// Which sources of a node are expressions of its placeholders.
pub(crate) fn merges(g: &Graph, id: Id) -> Range<usize> {
    match *g.op(id) {
        Op::Fold { parts, .. } => parts..2 * parts,
        Op::Recur { inputs, .. } => RUNS + inputs..g.src(id).len(),
        _ => 0..0,
    }
}

/// The nodes whose value depends on a placeholder of a fold or a recurrence around them.
pub(crate) fn open_nodes(g: &Graph, order: &[Id]) -> FxHashSet<Id> {
    let mut open = FxHashSet::default();
    for &id in order {
        let src = g.src(id);
        let is_open = match g.op(id) {
            Op::Arg(_) => true,
            // The placeholders of its merge are its own.
            _ => {
                let own = merges(g, id);
                src.iter().enumerate().any(|(i, s)| !own.contains(&i) && open.contains(s))
            }
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
        let own = merges(g, id);
        more.extend(src[..own.start].iter().chain(&src[own.end..]));
    });
    body.sort_unstable();
    body
}

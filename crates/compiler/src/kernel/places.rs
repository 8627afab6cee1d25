//! Where the scratch of a block of threads lies in the memory that they share: what is no longer used makes room, once
//! all threads have passed a barrier.

use ir::{Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// The offset of each stash, and the bytes in all. Stashes begin at multiples of `align`.
pub(crate) fn places(g: &Graph, root: Id, stashes: &[(Id, usize)], align: usize) -> (FxHashMap<Id, usize>, usize) {
    let used = stretches(g, root);
    let mut order: Vec<(usize, Id)> = stashes.iter().map(|&(s, bytes)| (bytes.next_multiple_of(align), s)).collect();
    order.sort_unstable_by_key(|&(bytes, stash)| (std::cmp::Reverse(bytes), stash));
    let mut placed: Vec<(Id, usize, usize)> = vec![];
    for (bytes, stash) in order {
        let beside = |other: &Id| match (used.get(&stash), used.get(other)) {
            (Some(a), Some(b)) => a.0 <= b.1 && b.0 <= a.1,
            _ => true,
        };
        let mut taken: Vec<(usize, usize)> =
            placed.iter().filter(|p| beside(&p.0)).map(|&(_, at, bytes)| (at, at + bytes)).collect();
        taken.sort_unstable();
        // The lowest gap that is wide enough.
        let at = taken.iter().fold(0, |at: usize, &(from, to)| if at + bytes <= from { at } else { at.max(to) });
        placed.push((stash, at, bytes));
    }
    let total = placed.iter().map(|&(_, at, bytes)| at + bytes).max().unwrap_or(0);
    (placed.into_iter().map(|(stash, at, _)| (stash, at)).collect(), total)
}

/// Between which barriers a buffer is first and last touched.
fn stretches(g: &Graph, root: Id) -> FxHashMap<Id, (usize, usize)> {
    let mut statements = vec![];
    flatten(g, g.src(root), &mut statements);
    let mut used: FxHashMap<Id, (usize, usize)> = FxHashMap::default();
    let mut stretch = 0;
    for s in statements {
        if *g.op(s) == Op::Barrier {
            stretch += 1;
            continue;
        }
        for id in g.toposort(&[s]).into_iter().collect::<FxHashSet<Id>>() {
            if matches!(g.op(id), Op::Buffer { .. }) {
                used.entry(id).and_modify(|u| u.1 = stretch).or_insert((stretch, stretch));
            }
        }
    }
    used
}

/// Statements in order, with what lies in branches that all threads take together.
fn flatten(g: &Graph, statements: &[Id], all: &mut Vec<Id>) {
    for &s in statements {
        match g.op(s) {
            Op::Block => flatten(g, g.src(s), all),
            Op::If if g.src(s)[1..].iter().any(|&s| *g.op(s) == Op::Barrier) => {
                all.push(g.src(s)[0]);
                flatten(g, &g.src(s)[1..], all);
            }
            _ => all.push(s),
        }
    }
}

//! Where the scratch of a block of threads lies in the memory that they share: what is no longer used makes room, once
//! all threads have passed a barrier.

use crate::placement::{ALWAYS, Life, place};
use ir::{Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// The offset of each stash, and the bytes in all. Stashes begin at multiples of `align`.
pub(crate) fn places(g: &Graph, root: Id, stashes: &[(Id, usize)], align: usize) -> (FxHashMap<Id, usize>, usize) {
    let used = stretches(g, root);
    let mut order: Vec<(usize, Id)> = stashes.iter().map(|&(s, bytes)| (bytes.next_multiple_of(align), s)).collect();
    order.sort_unstable_by_key(|&(bytes, stash)| (std::cmp::Reverse(bytes), stash));
    let lives = |&(bytes, stash): &(usize, Id)| (bytes, used.get(&stash).copied().unwrap_or(ALWAYS));
    let (offsets, total) = place(order.iter().map(lives));
    (order.into_iter().map(|(_, stash)| stash).zip(offsets).collect(), total)
}

/// Between which barriers a buffer is first and last touched.
fn stretches(g: &Graph, root: Id) -> FxHashMap<Id, Life> {
    let mut statements = vec![];
    flatten(g, g.src(root), &mut statements);
    let mut used: FxHashMap<Id, Life> = FxHashMap::default();
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

//! Where the scratch of a block of threads lies in the memory that they share: what is no longer used makes room, once
//! all threads have passed a barrier.

use crate::kernel::emitter::is_barrier;
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
    let mut lives = Lives::default();
    lives.pass(g, g.src(root), false);
    lives.used
}

/// Lives so far, and the number of barriers.
#[derive(Default)]
struct Lives {
    used: FxHashMap<Id, Life>,
    stretch: usize,
}

impl Lives {
    /// Goes through statements in order, into branches and loops that all threads take together; of loops in loops, only
    /// into the outer one.
    fn pass(&mut self, g: &Graph, statements: &[Id], in_loop: bool) {
        let waits = |s: Id| g.src(s)[1..].iter().any(|&s| is_barrier(g, s));
        for &s in statements {
            match g.op(s) {
                Op::Barrier { .. } => self.stretch += 1,
                Op::Block => self.pass(g, g.src(s), in_loop),
                Op::If if waits(s) => {
                    self.touch(g, g.src(s)[0]);
                    self.pass(g, &g.src(s)[1..], in_loop);
                }
                Op::Loop if waits(s) && !in_loop => self.rounds(g, s),
                _ => self.touch(g, s),
            }
        }
    }

    fn touch(&mut self, g: &Graph, s: Id) {
        buffers(g, &[s]).into_iter().for_each(|b| self.note(b, (self.stretch, self.stretch)));
    }

    fn note(&mut self, buffer: Id, (from, to): Life) {
        self.used.entry(buffer).and_modify(|u| *u = (u.0.min(from), u.1.max(to))).or_insert((from, to));
    }

    /// A loop: what one round leaves to the next lives as long as it, and so does what is touched where one round goes
    /// over into the next without a barrier. If there may be no round, its barriers are none for what was before.
    fn rounds(&mut self, g: &Graph, s: Id) {
        let src = g.src(s);
        self.touch(g, g.src(src[0])[0]);
        let mut inside = Lives { used: FxHashMap::default(), stretch: self.stretch };
        inside.pass(g, &src[1..], true);
        let whole = (self.stretch, inside.stretch);
        let apart = [src[1], src[src.len() - 1]].iter().any(|&s| is_barrier(g, s));
        let anew = made_anew(g, src[0], &src[1..]);
        for (buffer, life) in inside.used {
            let own = anew.contains(&buffer) && (apart || life.0 > whole.0 && life.1 < whole.1);
            self.note(buffer, if own { life } else { whole });
        }
        if g.as_int(g.src(src[0])[0]).is_none_or(|rounds| rounds < 1) {
            self.used.values_mut().filter(|life| life.1 == whole.0).for_each(|life| life.1 = whole.1);
        }
        self.stretch = inside.stretch;
    }
}

/// The buffers that statements of a loop over `range` store to before anything reads them.
fn made_anew(g: &Graph, range: Id, statements: &[Id]) -> FxHashSet<Id> {
    let (mut anew, mut seen) = (FxHashSet::default(), FxHashSet::default());
    first_touches(g, range, statements, &mut anew, &mut seen);
    anew
}

fn first_touches(g: &Graph, range: Id, statements: &[Id], anew: &mut FxHashSet<Id>, seen: &mut FxHashSet<Id>) {
    for &s in statements {
        let src = g.src(s);
        match g.op(s) {
            Op::Store | Op::StoreFragment { .. } => {
                seen.extend(buffers(g, &src[1..]));
                if seen.insert(src[0]) {
                    anew.insert(src[0]);
                }
            }
            Op::Block => first_touches(g, range, src, anew, seen),
            // The same for all rounds.
            Op::If | Op::Loop => {
                let on = g.toposort(&[if *g.op(s) == Op::If { src[0] } else { g.src(src[0])[0] }]);
                let same = !on.contains(&range) && !on.iter().any(|&id| matches!(g.op(id), Op::Load | Op::Acc(_)));
                match same {
                    true => first_touches(g, range, &src[1..], anew, seen),
                    false => seen.extend(buffers(g, &[s])),
                }
            }
            _ => seen.extend(buffers(g, &[s])),
        }
    }
}

/// The buffers that expressions and statements touch.
fn buffers(g: &Graph, all: &[Id]) -> FxHashSet<Id> {
    g.toposort(all).into_iter().filter(|&id| matches!(g.op(id), Op::Buffer { .. })).collect()
}

#[cfg(test)]
mod tests {
    use super::places;
    use crate::kernel::emitter::{block, make_barrier, make_loop};
    use ir::{Axis, Const, DType, Graph, Id, Op, Space};

    fn buffer(g: &mut Graph, slot: u32) -> (Id, usize) {
        (g.make(Op::Buffer { slot, space: Space::Shared, len: 16 }, DType::F32, vec![], vec![]), 64)
    }

    /// Stores to one buffer what is read of others.
    fn copy(g: &mut Graph, to: Id, from: &[Id]) -> Id {
        let lane = g.int(3);
        let one = g.constant(Const::Float(1), DType::F32);
        let loads: Vec<Id> = from.iter().map(|&b| g.load(b, lane, 1)).collect();
        let value = loads.into_iter().fold(one, |a, b| g.add(a, b));
        g.make(Op::Store, DType::Index, vec![], vec![to, lane, value])
    }

    /// Bytes of these buffers, with a loop over this body.
    fn bytes(g: &mut Graph, body: Vec<Id>, after: Vec<Id>, all: &[(Id, usize)]) -> usize {
        let extent = g.int(7);
        bytes_around(g, extent, vec![], body, after, all)
    }

    fn bytes_around(
        g: &mut Graph,
        extent: Id,
        before: Vec<Id>,
        body: Vec<Id>,
        after: Vec<Id>,
        all: &[(Id, usize)],
    ) -> usize {
        let range = g.make(Op::Range(9, Axis::Loop), DType::Index, vec![], vec![extent]);
        let rounds = make_loop(g, range, body);
        let statements = before.into_iter().chain([rounds]).chain(after).collect();
        let root = block(g, statements);
        places(g, root, all, 16).1
    }

    #[test]
    fn what_a_round_no_longer_needs_is_room_for_the_rest_of_it() {
        let g = &mut Graph::new();
        let all: Vec<(Id, usize)> = (0..3).map(|slot| buffer(g, slot)).collect();
        let [a, b, c] = [all[0].0, all[1].0, all[2].0];
        let wait = make_barrier(g);
        let (first, second, third) = (copy(g, a, &[]), copy(g, b, &[a]), copy(g, c, &[b]));
        let apart = vec![first, wait, second, wait, third, wait];
        assert_eq!(bytes(g, apart.clone(), vec![], &all), 128, "the third lies where the first was");
        let into_next = vec![first, wait, second, wait, third];
        assert_eq!(bytes(g, into_next, vec![], &all), 192, "the next round begins while threads are in the last one");
        let read_after = copy(g, c, &[a]);
        assert_eq!(bytes(g, apart, vec![wait, read_after], &all), 192, "the first is read after the loop");
        let (carried, rest) = (copy(g, a, &[a]), vec![wait, second, wait, third, wait]);
        let carried = std::iter::once(carried).chain(rest).collect();
        assert_eq!(bytes(g, carried, vec![], &all), 192, "a round reads what the one before it has left");
    }

    #[test]
    fn barriers_of_a_loop_without_rounds_are_none() {
        let g = &mut Graph::new();
        let all: Vec<(Id, usize)> = (0..2).map(|slot| buffer(g, slot)).collect();
        let [a, b] = [all[0].0, all[1].0];
        let wait = make_barrier(g);
        let (before, after) = (vec![copy(g, a, &[])], vec![copy(g, b, &[])]);
        let some = g.int(2);
        assert_eq!(bytes_around(g, some, before.clone(), vec![wait], after.clone(), &all), 64);
        let maybe = g.var("n", 0, 9);
        assert_eq!(bytes_around(g, maybe, before, vec![wait], after, &all), 128);
    }
}

//! The threads of a block: who has which element, and what lies in the memory that they share.

use crate::gpu::places::{Carrier, Copies, Held, Staged};
use crate::gpu::plan::GpuPlan;
use crate::kernel::emitter::Emitter;
use crate::kernel::expression::{by, collect_loads, reads};
use crate::lower::{Item, Nest, Phase};
use ir::index;
use ir::{Axis, BinOp, DType, Graph, Id, Op, Space};
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

/// Writes a kernel for blocks of threads.
pub(super) type Tiler = Emitter<Threads>;

/// What is known of the block that a kernel is written for.
pub(super) struct Threads {
    pub(super) plan: GpuPlan,
    /// Whether each block usually has a multiprocessor for itself.
    pub(super) alone: bool,
    /// Number of this warp in its block.
    pub(super) warp: Id,
    /// Number of this lane in its warp.
    pub(super) lane: Id,
    /// Scratch of the nest, and what stands for it here.
    placed: FxHashMap<Id, Id>,
    /// Scratch whose rows, of so many elements, are apart, so that those of a fragment lie in different banks.
    apart: FxHashMap<Id, i64>,
    /// What paths keep in shared memory for the present phase.
    pub(super) staged: Staged,
    /// Bytes of shared memory that are left in each phase; in all of them, if phases do not take turns with it.
    free: Vec<usize>,
    /// The present phase, and those in which each stash of the nest is used.
    phase: usize,
    spans: FxHashMap<Id, RangeInclusive<usize>>,
    /// Whether something found no room.
    pub(super) crowded: bool,
    /// Stashes that lie in registers.
    pub(super) held: FxHashMap<Id, Held>,
    /// Halves of rows and of columns for which products of whole matrices have places, which they take turns with.
    pub(super) halves: [i64; 2],
    /// Stashes that lie in fragments.
    pub(super) carried: FxHashMap<Id, Carrier>,
    /// Shared memory that items take turns with, by what they ask for and how much they have asked for before.
    lent: FxHashMap<(usize, DType, i64), Id>,
    /// How often the present item has asked for some.
    near: usize,
    /// Stashes whose parts are still to be put together, and the statements that do so: after those of other items, so
    /// that one barrier serves all.
    pub(super) pending: Vec<(Id, Vec<Id>)>,
}

/// What takes turns with shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    /// Nothing, but for what barriers happen to lie between.
    None,
    /// Phases: what one no longer needs is room for the next one.
    Phases,
    /// What is used in a round of a loop, too: one round ends before the next one begins.
    Rounds,
}

/// Elements that threads take in turns.
pub(super) struct Shares {
    /// Loops that all threads run.
    pub(super) outer: Vec<Id>,
    /// Whether a thread has an element at all, if some have none.
    pub(super) has: Option<Id>,
    /// The index along each of the dimensions that were shared out.
    pub(super) at: FxHashMap<Id, Id>,
}

/// By which rows that are put apart are longer.
const GAP: i64 = 8;

impl Threads {
    fn space(&mut self, bytes: usize, phases: RangeInclusive<usize>) -> Space {
        let bytes = bytes.next_multiple_of(16);
        if self.free[phases.clone()].iter().any(|&free| bytes > free) {
            self.crowded = true;
            return Space::Task;
        }
        self.free[phases].iter_mut().for_each(|free| *free -= bytes);
        Space::Shared
    }

    /// Goes on to a phase: what others keep for themselves is not there.
    pub(super) fn enter(&mut self, phase: usize, staged: Staged) {
        self.staged = staged;
        if self.free.len() > 1 {
            self.phase = phase;
            self.lent.clear();
        }
    }

    /// Makes room where a stash lay that lies in shared memory no longer.
    pub(super) fn give_back(&mut self, g: &Graph, stash: Id, len: usize) {
        if let Op::Buffer { space: Space::Shared, .. } = *g.op(stash) {
            let bytes = (len * g.dtype(stash).bytes()).next_multiple_of(16);
            self.free[self.spans[&stash].clone()].iter_mut().for_each(|free| *free += bytes);
        }
    }

    /// Bytes of shared memory that are left.
    pub(super) fn room(&self) -> usize {
        self.free[self.phase]
    }

    /// Number of this thread in its block.
    pub(super) fn number(&self, g: &mut Graph) -> Id {
        let lanes = g.int(self.plan.lanes);
        let at = g.mul(self.warp, lanes);
        g.add(at, self.lane)
    }
}

/// The phases from the first to the last one that touches a stash.
fn span(g: &Graph, nest: &Nest, stash: Id) -> RangeInclusive<usize> {
    let touches = |phase: &Phase| {
        let counted = phase.serial.is_some_and(|r| g.toposort(&[g.src(r)[0]]).contains(&stash));
        counted || phase.items.iter().any(|i| i.buffer == stash || reads(g, i, stash))
    };
    let wanted = nest.wanted.is_some_and(|w| g.toposort(&[w]).contains(&stash));
    let all: Vec<usize> = (0..nest.phases.len()).filter(|&i| touches(&nest.phases[i])).collect();
    match all[..] {
        [one] if !wanted => one..=one,
        [first, .., last] if !wanted => first..=last,
        _ => 0..=nest.phases.len().max(1) - 1,
    }
}

impl Emitter<Threads> {
    /// For a nest, in blocks of the warps of the plan; `apart` are stashes whose rows, of so many elements, lie apart, `reserved`
    /// bytes of shared memory are for what can lie nowhere else, and `turns` says what takes turns with it.
    pub(super) fn of_blocks(
        g: &mut Graph,
        nest: &Nest,
        plan: &GpuPlan,
        apart: &FxHashMap<Id, i64>,
        reserved: usize,
        turns: Turns,
    ) -> Tiler {
        let plan = plan.clone();
        let (warps, lanes) = (g.int(plan.warps), g.int(plan.lanes));
        let mut t = Emitter::new((), nest, vec![]);
        let (warp, lane) = (t.range_of(g, Axis::Warp, warps), t.range_of(g, Axis::Lane, lanes));
        let length = |s: Id, len: usize| len + apart.get(&s).map_or(0, |&row| len / row as usize * GAP as usize);
        let phases = if turns == Turns::None { 1 } else { nest.phases.len().max(1) };
        let free = vec![plan.shared.saturating_sub(reserved); phases];
        let (placed, staged, held, halves, carried, lent, pending) = Default::default();
        let alone = index::usual(g, nest.tasks) <= plan.processors;
        let mut threads = Threads {
            plan,
            alone,
            warp,
            lane,
            placed,
            apart: FxHashMap::default(),
            staged,
            free,
            phase: 0,
            spans: FxHashMap::default(),
            crowded: false,
            held,
            halves,
            carried,
            lent,
            near: 0,
            pending,
        };
        // The smallest first, so that what is read most is near.
        let mut order: Vec<(usize, Id)> = vec![];
        for &s in &nest.stashes {
            let Op::Buffer { len, .. } = *g.op(s) else { continue };
            order.push((length(s, len) * g.dtype(s).bytes(), s));
        }
        order.sort_unstable();
        let mut place: FxHashMap<Id, Space> = FxHashMap::default();
        for (bytes, s) in order {
            let span = if turns == Turns::None { 0..=0 } else { span(g, nest, s) };
            place.insert(s, threads.space(bytes, span.clone()));
            threads.spans.insert(s, span);
        }
        threads.free.iter_mut().for_each(|free| *free = (*free + reserved).min(threads.plan.shared));
        for &s in &nest.stashes {
            let Op::Buffer { len, .. } = *g.op(s) else { continue };
            let here = t.scratch(g, place[&s], g.dtype(s), length(s, len));
            threads.placed.insert(s, here);
            threads.apart.extend(apart.get(&s).map(|&row| (here, row)));
            let span = threads.spans[&s].clone();
            threads.spans.insert(here, span);
        }
        t.with(threads)
    }

    /// Scratch that the threads of a block share.
    pub(super) fn stash(&mut self, g: &mut Graph, ty: DType, len: usize) -> Id {
        let phase = self.target.phase;
        let space = self.target.space(len * ty.bytes(), phase..=phase);
        self.scratch(g, space, ty, len)
    }

    /// What `f` makes with shared memory of its own, or all as it was before.
    pub(super) fn attempt_near<M>(&mut self, f: impl FnOnce(&mut Self) -> Option<M>) -> Option<M> {
        let (free, lent) = (self.target.free.clone(), self.target.lent.clone());
        self.target.near = 0;
        let made = self.attempt(f);
        if made.is_none() {
            (self.target.free, self.target.lent) = (free, lent);
        }
        made
    }

    /// Lets the threads of a block take `count` units in turns: of each, what loads into registers and what stores from
    /// them.
    pub(super) fn in_turns(
        &mut self,
        g: &mut Graph,
        count: i64,
        each: impl FnMut(&mut Self, &mut Graph, Id) -> (Vec<Id>, Vec<Id>),
    ) -> Copies {
        self.in_turns_from(g, (0, count), each)
    }

    /// The same from this thread on; those before it come last.
    pub(super) fn in_turns_from(
        &mut self,
        g: &mut Graph,
        (first, count): (i64, i64),
        mut each: impl FnMut(&mut Self, &mut Graph, Id) -> (Vec<Id>, Vec<Id>),
    ) -> Copies {
        let threads = self.target.plan.threads();
        let mut number = self.target.number(g);
        if first > 0 {
            let turned = by(g, BinOp::Add, number, threads - first);
            number = by(g, BinOp::Mod, turned, threads);
        }
        let one = |round: i64| {
            let at = by(g, BinOp::Add, number, round * threads);
            let some = ((round + 1) * threads > count).then(|| by(g, BinOp::Lt, at, count));
            let (loads, stores) = each(self, g, at);
            (self.only(g, some, loads), self.only(g, some, stores))
        };
        (0..(count + threads - 1) / threads).map(one).collect()
    }

    /// Shared memory for what an item needs while it is computed; items take turns with it.
    pub(super) fn near(&mut self, g: &mut Graph, ty: DType, len: i64) -> Option<Id> {
        let key = (self.target.near, ty, len);
        self.target.near += 1;
        if let Some(&known) = self.target.lent.get(&key) {
            return Some(known);
        }
        let bytes = (len as usize * ty.bytes()).next_multiple_of(16);
        if bytes > self.target.room() {
            self.target.crowded = true;
            return None;
        }
        let phase = self.target.phase;
        self.target.free[phase] -= bytes;
        let buffer = self.scratch(g, Space::Shared, ty, len as usize);
        self.target.lent.insert(key, buffer);
        Some(buffer)
    }

    /// An item with its scratch where it lies here.
    pub(super) fn in_shared(&self, g: &mut Graph, item: &Item) -> Item {
        let mut map = self.target.placed.clone();
        let mut sub = |e: Id| g.substitute(e, &mut map);
        let dims = item.dims.iter().map(|&d| sub(d)).collect();
        let mut here = Item { dims, value: sub(item.value), buffer: sub(item.buffer), index: sub(item.index) };
        let apart = &self.target.apart;
        if apart.is_empty() {
            return here;
        }
        let place = |g: &mut Graph, buffer: Id, index: Id| {
            let gaps = by(g, BinOp::Div, index, apart[&buffer]);
            let gaps = by(g, BinOp::Mul, gaps, GAP);
            g.add(index, gaps)
        };
        let mut loads = vec![];
        collect_loads(g, here.value, &mut loads);
        loads.retain(|&l| apart.contains_key(&g.src(l)[0]));
        let mut moved = FxHashMap::default();
        for load in loads {
            let (buffer, index) = (g.src(load)[0], g.src(load)[1]);
            let index = place(g, buffer, index);
            moved.insert(load, g.load(buffer, index, 1));
        }
        here.value = g.substitute(here.value, &mut moved);
        if apart.contains_key(&here.buffer) {
            here.index = place(g, here.buffer, here.index);
        }
        here
    }

    /// Shares out elements: as many of the last dimensions as have a known length, and one more, or two if that one is
    /// usually short. Neighbours go to neighbouring lanes.
    pub(super) fn share(&mut self, g: &mut Graph, dims: &[Id]) -> Shares {
        let extents: Vec<Id> = dims.iter().map(|&d| g.src(d)[0]).collect();
        let known = extents.iter().rev().take_while(|&&e| g.as_int(e).is_some()).count();
        let first = dims.len() - known.min(dims.len());
        let mut first = first.saturating_sub(1);
        let usual = extents[first..].iter().fold(1i64, |n, &e| n.saturating_mul(index::usual(g, e)));
        if usual < self.target.plan.threads() {
            first = first.saturating_sub(1);
        }
        let mut total = g.int(1);
        for &e in &extents[first..] {
            total = g.mul(total, e);
        }
        let (threads, lanes) = (self.target.plan.threads(), self.target.plan.lanes);
        let rounds = {
            let (up, by) = (g.int(threads - 1), g.int(threads));
            let n = g.add(total, up);
            g.binary(BinOp::Div, n, by)
        };
        let mut outer = dims[..first].to_vec();
        let mut e = self.target.number(g);
        if g.as_int(rounds) != Some(1) {
            let j = self.range(g, rounds);
            outer.push(j);
            let by = g.int(threads);
            let at = g.mul(j, by);
            e = g.add(at, e);
        }
        let known = g.as_int(total);
        let has = (known.is_none_or(|n| n % threads != 0)).then(|| match known {
            // Whole warps.
            Some(n) if n < threads && n % lanes == 0 => {
                let warps = g.int(n / lanes);
                g.binary(BinOp::Lt, self.target.warp, warps)
            }
            _ => g.binary(BinOp::Lt, e, total),
        });
        let at = index::unflatten(g, &extents[first..], e);
        Shares { outer, has, at: dims[first..].iter().copied().zip(at).collect() }
    }
}

//! The threads of a block: who has which element, and what lies in the memory that they share.

use crate::gpu::places::{Carrier, Held, Staged};
use crate::gpu::plan::Plan;
use crate::kernel::emitter::Emitter;
use crate::lower::{Item, Nest};
use ir::index;
use ir::{Axis, BinOp, DType, Graph, Id, Op, Space};
use rustc_hash::FxHashMap;

/// Writes a kernel for blocks of threads.
pub(super) type Tiler = Emitter<Threads>;

/// What is known of the block that a kernel is written for.
pub(super) struct Threads {
    pub(super) plan: Plan,
    /// Number of this warp in its block.
    pub(super) warp: Id,
    /// Number of this lane in its warp.
    pub(super) lane: Id,
    /// Scratch of the nest, and what stands for it here.
    placed: FxHashMap<Id, Id>,
    /// What paths keep in shared memory for the present phase.
    pub(super) staged: Staged,
    /// Bytes of shared memory that are left.
    free: usize,
    /// Stashes that lie in registers.
    pub(super) held: FxHashMap<Id, Held>,
    /// Stashes that lie in fragments.
    pub(super) carried: FxHashMap<Id, Carrier>,
    /// Stashes whose parts are still to be put together, and the statements that do so: after those of other items, so
    /// that one barrier serves all.
    pub(super) pending: Vec<(Id, Vec<Id>)>,
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

impl Threads {
    fn space(&mut self, bytes: usize) -> Space {
        let bytes = bytes.next_multiple_of(16);
        if bytes > self.free {
            return Space::Task;
        }
        self.free -= bytes;
        Space::Shared
    }

    /// Makes room where a stash lay that lies in shared memory no longer.
    pub(super) fn give_back(&mut self, g: &Graph, stash: Id, len: usize) {
        if let Op::Buffer { space: Space::Shared, .. } = *g.op(stash) {
            self.free += (len * g.dtype(stash).bytes()).next_multiple_of(16);
        }
    }

    /// Bytes of shared memory that are left.
    pub(super) fn room(&self) -> usize {
        self.free
    }

    /// Number of this thread in its block.
    pub(super) fn number(&self, g: &mut Graph) -> Id {
        let lanes = g.int(self.plan.lanes);
        let at = g.mul(self.warp, lanes);
        g.add(at, self.lane)
    }
}

impl Emitter<Threads> {
    /// For a nest, in blocks of the warps of the plan.
    pub(super) fn of_blocks(g: &mut Graph, nest: &Nest, plan: &Plan) -> Tiler {
        let plan = plan.clone();
        let (warps, lanes) = (g.int(plan.warps), g.int(plan.lanes));
        let mut t = Emitter::new((), nest, vec![]);
        let (warp, lane) = (t.range_of(g, Axis::Warp, warps), t.range_of(g, Axis::Lane, lanes));
        let free = plan.shared;
        let (placed, staged, held, carried, pending) = Default::default();
        let mut threads = Threads { plan, warp, lane, placed, staged, free, held, carried, pending };
        // The smallest first, so that what is read most is near.
        let mut order: Vec<(usize, Id)> = vec![];
        for &s in &nest.stashes {
            let Op::Buffer { len, .. } = *g.op(s) else { continue };
            order.push((len * g.dtype(s).bytes(), s));
        }
        order.sort_unstable();
        let place: FxHashMap<Id, Space> = order.into_iter().map(|(bytes, s)| (s, threads.space(bytes))).collect();
        for &s in &nest.stashes {
            let Op::Buffer { len, .. } = *g.op(s) else { continue };
            threads.placed.insert(s, t.scratch(g, place[&s], g.dtype(s), len));
        }
        t.with(threads)
    }

    /// Scratch that the threads of a block share.
    pub(super) fn stash(&mut self, g: &mut Graph, ty: DType, len: usize) -> Id {
        let space = self.target.space(len * ty.bytes());
        self.scratch(g, space, ty, len)
    }

    /// An item with its scratch where it lies here.
    pub(super) fn in_shared(&self, g: &mut Graph, item: &Item) -> Item {
        let mut map = self.target.placed.clone();
        let mut sub = |e: Id| g.substitute(e, &mut map);
        let dims = item.dims.iter().map(|&d| sub(d)).collect();
        Item { dims, value: sub(item.value), buffer: sub(item.buffer), index: sub(item.index) }
    }

    /// Shares out elements: as many of the last dimensions as have a known length, and one more. Neighbours go to
    /// neighbouring lanes.
    pub(super) fn share(&mut self, g: &mut Graph, dims: &[Id]) -> Shares {
        let extents: Vec<Id> = dims.iter().map(|&d| g.src(d)[0]).collect();
        let known = extents.iter().rev().take_while(|&&e| g.as_int(e).is_some()).count();
        let first = dims.len() - known.min(dims.len());
        let first = first.saturating_sub(1);
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

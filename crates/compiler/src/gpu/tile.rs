//! From a nest to a kernel of blocks: which thread computes which element.
//!
//! | path | for |
//! |---|---|
//! | integer dot | sums over blocks of weights with integer dots inside: lanes along the sum |
//! | lane reduction | other sums whose loads are neighbours along the sum: lanes along the sum |
//! | thread reduction | sums whose loads are neighbours along the output, or of unknown length: one thread an element |
//! | thread map | no sum: one thread an element |

use super::{Plan, dot, reduce, sync};
use crate::lower::{Item, Nest, identity};
use crate::tile::{Body, Way, block, collect_loads, combine, depends, has_reduction, make_loop, replace};
use ir::index::{self, Linear, bounds};
use ir::{Axis, BinOp, DType, Graph, Id, Op, ReduceOp, Space, Type, WARP};
use rustc_hash::FxHashMap;

/// Tiles a nest for blocks of threads.
pub fn tile(g: &mut Graph, nest: &Nest, plan: &Plan) -> Body {
    let mut t = Tiler::new(g, nest, plan);
    let mut root = vec![];
    for phase in &nest.phases {
        let mut stmts = vec![];
        for item in &phase.items {
            let item = t.in_shared(g, item);
            stmts.extend(t.item(g, &item));
        }
        match phase.serial {
            Some(r) => root.push(make_loop(g, r, stmts)),
            None => root.extend(stmts),
        }
    }
    let root = sync::synchronise(g, root);
    let root = block(g, root);
    let ways = t.paths.iter().map(|path| Way { path, no_dot: None }).collect();
    Body { root, stashes: t.stashes, tasks: nest.tasks, paths: t.paths, ways }
}

pub(super) struct Tiler {
    pub(super) plan: Plan,
    /// Number of this warp in its block.
    pub(super) warp: Id,
    /// Number of this lane in its warp.
    pub(super) lane: Id,
    ranges: u32,
    accs: u32,
    stashes: Vec<Id>,
    /// Scratch of the nest, and what stands for it here.
    placed: FxHashMap<Id, Id>,
    free: usize,
    paths: Vec<&'static str>,
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

impl Tiler {
    fn new(g: &mut Graph, nest: &Nest, plan: &Plan) -> Tiler {
        let tasks = bounds(g, nest.tasks).0;
        let elements = nest.phases.iter().flat_map(|p| &p.items).map(|i| elements(g, i)).max().unwrap_or(0);
        let plan = plan.for_blocks(tasks, elements);
        let (warps, lanes) = (g.int(plan.warps), g.int(WARP as i64));
        let warp = g.range(nest.ranges, Axis::Warp, warps);
        let lane = g.range(nest.ranges + 1, Axis::Lane, lanes);
        let free = plan.shared;
        let (placed, stashes, paths) = (FxHashMap::default(), vec![], vec![]);
        let mut t = Tiler { plan, warp, lane, ranges: nest.ranges + 2, accs: 0, stashes, placed, free, paths };
        // The smallest first, so that what is read most is near.
        let mut order: Vec<(usize, Id)> = vec![];
        for &s in &nest.stashes {
            let Op::Buffer { len, .. } = *g.op(s) else { continue };
            order.push((len * g.dtype(s).bytes(), s));
        }
        order.sort_unstable();
        let mut place = FxHashMap::default();
        for (bytes, s) in order {
            place.insert(s, t.space(bytes));
        }
        for &s in &nest.stashes {
            let Op::Buffer { slot, len, .. } = *g.op(s) else { continue };
            let b = g.buffer(slot, place[&s], g.dtype(s), len);
            t.placed.insert(s, b);
            t.stashes.push(b);
        }
        t
    }

    fn space(&mut self, bytes: usize) -> Space {
        let bytes = bytes.next_multiple_of(16);
        if bytes > self.free {
            return Space::Task;
        }
        self.free -= bytes;
        Space::Shared
    }

    /// Scratch that the threads of a block share.
    pub(super) fn stash(&mut self, g: &mut Graph, ty: DType, len: usize) -> Id {
        let space = self.space(len * ty.bytes());
        let b = g.buffer(self.stashes.len() as u32, space, ty, len);
        self.stashes.push(b);
        b
    }

    fn in_shared(&self, g: &mut Graph, item: &Item) -> Item {
        let mut map = self.placed.clone();
        let mut sub = |e: Id| g.substitute(e, &mut map);
        let dims = item.dims.iter().map(|&d| sub(d)).collect();
        Item { dims, value: sub(item.value), buffer: sub(item.buffer), index: sub(item.index) }
    }

    pub(super) fn range(&mut self, g: &mut Graph, extent: Id) -> Id {
        self.ranges += 1;
        g.range(self.ranges - 1, Axis::Loop, extent)
    }

    pub(super) fn counted(&mut self, g: &mut Graph, n: i64) -> Id {
        let e = g.int(n);
        self.range(g, e)
    }

    pub(super) fn acc(&mut self, g: &mut Graph, ty: impl Into<Type>) -> Id {
        self.accs += 1;
        g.make(Op::Acc(self.accs - 1), ty, vec![], vec![])
    }

    pub(super) fn set(&self, g: &mut Graph, pairs: Vec<(Id, Id)>) -> Id {
        let src = pairs.into_iter().flat_map(|(a, v)| [a, v]).collect();
        g.make(Op::Set, DType::Index, vec![], src)
    }

    /// A store, under a condition or not.
    pub(super) fn store(&self, g: &mut Graph, buffer: Id, index: Id, value: Id, condition: Option<Id>) -> Id {
        let want = g.dtype(buffer);
        let value = g.cast(value, want);
        let src = [buffer, index, value].into_iter().chain(condition).collect();
        g.make(Op::Store, DType::Index, vec![], src)
    }

    /// `body` inside loops over `dims`, the first one outermost.
    pub(super) fn nest(&self, g: &mut Graph, dims: &[Id], body: Vec<Id>) -> Vec<Id> {
        dims.iter().rev().fold(body, |b, &d| vec![make_loop(g, d, b)])
    }

    /// `body` where a condition holds.
    pub(super) fn only(&self, g: &mut Graph, condition: Option<Id>, body: Vec<Id>) -> Vec<Id> {
        let Some(c) = condition else { return body };
        let src = std::iter::once(c).chain(body).collect();
        vec![g.make(Op::If, DType::Index, vec![], src)]
    }

    fn item(&mut self, g: &mut Graph, item: &Item) -> Vec<Id> {
        if let Op::Reduce(op, _) = *g.op(item.value) {
            if let Some(s) = dot::integer_dot(self, g, item) {
                self.paths.push("integer dot");
                return s;
            }
            if neighbours_along_sum(g, item)
                && let Some(s) = reduce::lane_reduction(self, g, item, op)
            {
                self.paths.push("lane reduction");
                return s;
            }
            self.paths.push("thread reduction");
        } else {
            self.paths.push("thread map");
        }
        self.by_thread(g, item)
    }

    /// One thread an element, or a few that read the same from memory.
    fn by_thread(&mut self, g: &mut Graph, item: &Item) -> Vec<Id> {
        if let Op::Reduce(op, _) = *g.op(item.value)
            && let Some((dim, side)) = self.beside(g, item)
        {
            return self.sums_beside(g, item, op, dim, side);
        }
        let shares = self.share(g, &item.dims);
        let value = g.substitute(item.value, &mut shares.at.clone());
        let index = g.substitute(item.index, &mut shares.at.clone());
        let (value, mut body) = self.sums(g, value);
        body.push(self.store(g, item.buffer, index, value, None));
        let body = self.only(g, shares.has, body);
        self.nest(g, &shares.outer, body)
    }

    /// A dimension along which a sum reads something from memory again, and how many elements of it a thread may take
    /// without leaving others idle.
    fn beside(&self, g: &mut Graph, item: &Item) -> Option<(Id, i64)> {
        let body = g.src(item.value)[0];
        if has_reduction(g, body) {
            return None;
        }
        let mut loads = vec![];
        collect_loads(g, body, &mut loads);
        let extents: Vec<i64> = item.dims.iter().map(|&d| g.as_int(g.src(d)[0])).collect::<Option<_>>()?;
        let total: i64 = extents.iter().product();
        let (_, outer) = item.dims.split_last()?;
        outer.iter().zip(&extents).find_map(|(&d, &extent)| {
            let again = loads.iter().any(|&l| outside(g, l) && !depends(g, l, d));
            let moves = loads.iter().any(|&l| depends(g, l, d));
            let fits = |u: &i64| extent % u == 0 && total / u >= self.plan.threads();
            let side = (2..=self.plan.rows).rev().find(fits).filter(|_| again && moves)?;
            Some((d, side))
        })
    }

    /// Sums of `side` neighbours along a dimension in one thread, in one loop.
    fn sums_beside(&mut self, g: &mut Graph, item: &Item, op: ReduceOp, dim: Id, side: i64) -> Vec<Id> {
        let (src, ty) = (g.src(item.value).to_vec(), g.dtype(item.value));
        let extent = g.as_int(g.src(dim)[0]).unwrap_or(side);
        let r = self.counted(g, extent / side);
        let dims: Vec<Id> = item.dims.iter().map(|&d| if d == dim { r } else { d }).collect();
        let shares = self.share(g, &dims);
        let start = g.constant(identity(op, ty), ty);
        let (mut begin, mut update, mut end) = (vec![], vec![], vec![]);
        for i in 0..side {
            let (k, i) = (g.int(side), g.int(i));
            let at = g.mul(r, k);
            let at = g.add(at, i);
            let place = |g: &mut Graph, e: Id| {
                let e = replace(g, e, dim, at);
                g.substitute(e, &mut shares.at.clone())
            };
            let (value, index) = (place(g, src[0]), place(g, item.index));
            let acc = self.acc(g, ty);
            begin.push((acc, start));
            update.push((acc, combine(g, op, acc, value)));
            end.push(self.store(g, item.buffer, index, acc, None));
        }
        let update = self.set(g, update);
        let mut body = vec![self.set(g, begin)];
        body.extend(self.nest(g, &src[1..], vec![update]));
        body.extend(end);
        let body = self.only(g, shares.has, body);
        self.nest(g, &shares.outer, body)
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
        let threads = self.plan.threads();
        let rounds = {
            let (up, by) = (g.int(threads - 1), g.int(threads));
            let n = g.add(total, up);
            g.binary(BinOp::Div, n, by)
        };
        let mut outer = dims[..first].to_vec();
        let mut e = self.thread(g);
        if g.as_int(rounds) != Some(1) {
            let j = self.range(g, rounds);
            outer.push(j);
            let by = g.int(threads);
            let at = g.mul(j, by);
            e = g.add(at, e);
        }
        let full = g.as_int(total).is_some_and(|n| n % threads == 0);
        let has = (!full).then(|| g.binary(BinOp::Lt, e, total));
        let at = index::unflatten(g, &extents[first..], e);
        Shares { outer, has, at: dims[first..].iter().copied().zip(at).collect() }
    }

    /// Number of this thread in its block.
    pub(super) fn thread(&self, g: &mut Graph) -> Id {
        let lanes = g.int(WARP as i64);
        let at = g.mul(self.warp, lanes);
        g.add(at, self.lane)
    }

    /// An expression whose sums were computed by statements before it.
    fn sums(&mut self, g: &mut Graph, value: Id) -> (Id, Vec<Id>) {
        let mut found = vec![];
        outermost_reductions(g, value, &mut found);
        let (mut pre, mut map) = (vec![], FxHashMap::default());
        for r in found {
            let Op::Reduce(op, _) = *g.op(r) else { continue };
            let (src, ty) = (g.src(r).to_vec(), g.dtype(r));
            let acc = self.acc(g, ty);
            let start = g.constant(identity(op, ty), ty);
            let (body, mut inner) = self.sums(g, src[0]);
            let next = combine(g, op, acc, body);
            inner.push(self.set(g, vec![(acc, next)]));
            pre.push(self.set(g, vec![(acc, start)]));
            pre.extend(self.nest(g, &src[1..], inner));
            map.insert(r, acc);
        }
        (if map.is_empty() { value } else { g.substitute(value, &mut map) }, pre)
    }
}

/// Elements that an item computes with, at most.
fn elements(g: &mut Graph, item: &Item) -> i64 {
    let mut ranges = item.dims.clone();
    for r in g.toposort(&[item.value]) {
        if matches!(g.op(r), Op::Reduce(..)) {
            ranges.extend_from_slice(&g.src(r)[1..]);
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    ranges.iter().fold(1i64, |n, &r| {
        let extent = g.src(r)[0];
        n.saturating_mul(bounds(g, extent).1)
    })
}

fn outermost_reductions(g: &Graph, value: Id, out: &mut Vec<Id>) {
    let mut stack = vec![value];
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some(e) = stack.pop() {
        if !seen.insert(e) {
            continue;
        }
        match g.op(e) {
            Op::Reduce(..) => out.push(e),
            _ => stack.extend_from_slice(g.src(e)),
        }
    }
    out.sort_unstable();
}

/// Whether a load is not of scratch.
fn outside(g: &Graph, load: Id) -> bool {
    !matches!(g.op(g.src(load)[0]), Op::Buffer { space, .. } if space.is_scratch())
}

/// Whether lanes should lie along the sum rather than along the output: neighbours in memory go to neighbouring lanes,
/// and short outputs leave threads over.
fn neighbours_along_sum(g: &mut Graph, item: &Item) -> bool {
    let src = g.src(item.value).to_vec();
    let (Some(&k), body) = (src[1..].last(), src[0]) else { return false };
    if has_reduction(g, body) {
        return false;
    }
    let mut loads = vec![];
    collect_loads(g, body, &mut loads);
    let last = item.dims.last().copied();
    let step = |g: &Graph, l: Id, r: Id| Linear::of(g, g.src(l)[1]).coefficient(r);
    let along = |g: &Graph, r: Id| loads.iter().any(|&l| outside(g, l) && step(g, l, r) == 1);
    if along(g, k) {
        return true;
    }
    if last.is_some_and(|d| along(g, d)) {
        return false;
    }
    let (count, of) = (g.src(k)[0], |g: &mut Graph, r: Id| {
        let e = g.src(r)[0];
        bounds(g, e).1
    });
    let outputs: i64 = item.dims.iter().map(|&d| of(g, d)).product();
    bounds(g, count).1 >= 8 && outputs < 64
}

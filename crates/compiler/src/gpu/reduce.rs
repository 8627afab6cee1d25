//! Sums over the lanes of warps.
//!
//! The steps of a sum are dealt to the lanes of a warp, neighbours to neighbours, and to several warps if there are more
//! than one warp takes at once; a short sum takes a part of a warp, and others go beside it. Each thread keeps several
//! outputs side by side, so that their loads are in flight together. Then lanes exchange their sums by shuffles, and
//! warps through shared memory. The order is fixed by the plan, so a result does not depend on timing.

use crate::gpu::align::{align, alignment, widths};
use crate::gpu::joined;
use crate::gpu::plan::GpuPlan;
use crate::gpu::threads::Tiler;
use crate::kernel::expression::{by, collect_loads, combine, has_reduction, or_last, outside, replace};
use crate::kernel::superword::{Packer, splat};
use crate::lower::{Item, identity};
use ir::index;
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, Type};
use rustc_hash::FxHashMap;

/// What one step adds to each output.
pub(super) struct Steps {
    /// A placeholder for the number of the step.
    pub(super) step: Id,
    /// Number of steps.
    pub(super) count: i64,
    /// The value, by the dimensions of the output and the step; the lanes of a vector are reduced at the end.
    pub(super) value: Id,
    /// How values are put together.
    pub(super) op: ReduceOp,
}

/// A reduction whose length is known, one or a few elements a step.
/// `everywhere`: by each warp, for all of its lanes.
pub(super) fn lane_reduction(
    t: &mut Tiler,
    g: &mut Graph,
    item: &Item,
    op: ReduceOp,
    everywhere: bool,
) -> Option<Vec<Id>> {
    let src = g.src(item.value).to_vec();
    let (body, ranges) = (src[0], &src[1..]);
    if has_reduction(g, body) {
        return None;
    }
    let extents: Vec<Id> = ranges.iter().map(|&r| g.src(r)[0]).collect();
    let lens: Vec<i64> = extents.iter().map(|&e| g.as_int(e)).collect::<Option<_>>()?;
    let total: i64 = lens.iter().product();
    let last = *lens.last()?;
    let widest = t.target.plan.widest;
    // As many elements as make the widest load.
    let wide = [8, 4, 2].into_iter().filter(|v| last % v == 0).find_map(|v| {
        let step = t.counted(g, total / v);
        let values: Vec<Id> = (0..v).map(|i| at_element(g, body, ranges, &extents, step, v, i)).collect();
        let mut packer = Packer::shifting();
        let packed = packer.pack_vector(g, &values)?;
        let aligned = align(g, packed, widest);
        let whole = match t.target.plan.words {
            false => aligned == packed && widths(g, packed).0 <= widest,
            true => in_whole_loads(g, packed, widest),
        };
        (whole && packer.gathered == 0).then_some((step, total / v, aligned))
    });
    let (step, count, value) = wide.unwrap_or_else(|| {
        let step = t.counted(g, total);
        (step, total, at_element(g, body, ranges, &extents, step, 1, 0))
    });
    Some(across_lanes(t, g, item, &Steps { step, count, value, op }, everywhere))
}

/// Whether all that a value loads from memory is aligned for loads as wide as a thread has them, and something comes in one of
/// these: of eight elements halves take one, and floats two.
fn in_whole_loads(g: &Graph, value: Id, widest: usize) -> bool {
    let mut loads = vec![];
    collect_loads(g, value, &mut loads);
    loads.retain(|&l| outside(g, l));
    let bytes = |&l: &Id| g.ty(l).bytes();
    let aligned = |l: &Id| alignment(g, g.src(*l)[0], g.src(*l)[1]) >= bytes(l).min(widest);
    loads.iter().all(aligned) && loads.iter().any(|l| bytes(l) <= widest)
}

/// Element `i` of the `v` of a step.
fn at_element(g: &mut Graph, body: Id, ranges: &[Id], extents: &[Id], step: Id, v: i64, i: i64) -> Id {
    let (v, i) = (g.int(v), g.int(i));
    let flat = g.mul(step, v);
    let flat = g.add(flat, i);
    let at = index::unflatten(g, extents, flat);
    let mut map: FxHashMap<Id, Id> = ranges.iter().copied().zip(at).collect();
    g.substitute(body, &mut map)
}

/// How the steps of sums are dealt to the threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deal {
    /// Lanes along a sum.
    lanes_k: i64,
    /// Warps along a sum.
    warps_k: i64,
    /// Sums that a thread keeps side by side.
    side: i64,
}

/// Lanes along a sum at least, if it is that long: neighbours in memory make whole sectors.
const LANES: i64 = 8;

impl Deal {
    /// The deal by which a thread has least to do, for `n` sums of `count` steps.
    fn best(count: i64, n: i64, plan: &GpuPlan) -> Deal {
        let most = plan.lanes.min((count as u64).next_power_of_two() as i64);
        let powers = |from: i64, to: i64| (0..8).map(|i| 1 << i).filter(move |p| (from..=to).contains(p));
        let pairs = powers(LANES.min(most), most).flat_map(|l| powers(1, plan.warps).map(move |w| (l, w)));
        let deals = pairs.filter(|(l, w)| *w == 1 || (w - 1) * l < count).map(|(lanes_k, warps_k)| {
            let beside = plan.lanes / lanes_k * (plan.warps / warps_k);
            let side = (1..=plan.rows.max(1)).rev().find(|u| n % (beside * u) == 0).unwrap_or(1);
            let rounds = (n + beside * side - 1) / (beside * side);
            let deal = Deal { lanes_k, warps_k, side };
            (deal.work(count, rounds), deal)
        });
        deals
            .min_by_key(|(work, deal)| (*work, -deal.lanes_k))
            .map_or(Deal { lanes_k: most, warps_k: 1, side: 1 }, |d| d.1)
    }

    /// Instructions of a thread, about: a step of a row of weights, its input, shuffles, and exchanges with other warps.
    fn work(&self, count: i64, rounds: i64) -> i64 {
        let steps = (count + self.lanes_k * self.warps_k - 1) / (self.lanes_k * self.warps_k);
        let sums = rounds * self.side;
        let exchange = if self.warps_k > 1 { 16 + self.warps_k } else { 0 };
        32 * sums * steps + 12 * steps + 2 * sums * i64::from(self.lanes_k.ilog2()) + exchange
    }
}

/// Statements that compute all outputs of an item, the steps of each dealt to lanes; `everywhere`, the one output, by
/// each warp for all of its lanes.
pub(super) fn across_lanes(t: &mut Tiler, g: &mut Graph, item: &Item, steps: &Steps, everywhere: bool) -> Vec<Id> {
    // Dimensions that may be long are loops of all threads; of others, threads have as many as there may be.
    let near = |g: &mut Graph, d: Id| is_known(g, d) || t.most(g, d) <= FEW_ROWS;
    let (rows, outer): (Vec<Id>, Vec<Id>) = item.dims.iter().partition(|&&d| near(g, d));
    let extents: Vec<Id> = rows.iter().map(|&d| if is_known(g, d) { g.src(d)[0] } else { at_most(t, g, d) }).collect();
    let ragged: Vec<Id> = rows.iter().copied().filter(|&d| !is_known(g, d)).collect();
    let n: i64 = extents.iter().filter_map(|&e| g.as_int(e)).product();
    let lanes = t.target.plan.lanes;
    // Lanes and warps along the sum, and what is left for other outputs.
    let (warps, warp) = if everywhere { (1, g.int(0)) } else { (t.target.plan.warps, t.target.warp) };
    let deal = match everywhere {
        true => Deal { lanes_k: lanes, warps_k: 1, side: 1 },
        false => Deal::best(steps.count, n, &t.target.plan),
    };
    let Deal { lanes_k, warps_k, side } = deal;
    let slices = (steps.count + lanes_k - 1) / lanes_k;
    let (lanes_n, warps_n) = (lanes / lanes_k, warps / warps_k);
    let beside = lanes_n * warps_n;
    let rounds = (n + beside * side - 1) / (beside * side);
    let part = |g: &mut Graph, op: BinOp, id: Id, by: i64| {
        let by = g.int(by);
        g.binary(op, id, by)
    };
    let (lane_k, lane_n) = (part(g, BinOp::Mod, t.target.lane, lanes_k), part(g, BinOp::Div, t.target.lane, lanes_k));
    let (warp_k, warp_n) = (part(g, BinOp::Mod, warp, warps_k), part(g, BinOp::Div, warp, warps_k));
    // The first output of this thread.
    let mut loops = vec![];
    let mut first = part(g, BinOp::Mul, warp_n, lanes_n);
    first = g.add(first, lane_n);
    if rounds > 1 {
        let j = t.counted(g, rounds);
        loops.push(j);
        let at = part(g, BinOp::Mul, j, beside);
        first = g.add(at, first);
    }
    first = part(g, BinOp::Mul, first, side);
    let count = g.int(n);
    let has = (n % (beside * side) != 0).then(|| g.binary(BinOp::Lt, first, count));
    // The step of this thread.
    let per_warp = (slices + warps_k - 1) / warps_k;
    let mut step_loop = vec![];
    let mut at = warp_k;
    if per_warp > 1 {
        let s = t.counted(g, per_warp);
        step_loop.push(s);
        let by = part(g, BinOp::Mul, s, warps_k);
        at = g.add(by, at);
    }
    at = part(g, BinOp::Mul, at, lanes_k);
    at = g.add(at, lane_k);
    let steps_left = g.int(steps.count);
    let inside = (per_warp * warps_k * lanes_k != steps.count).then(|| g.binary(BinOp::Lt, at, steps_left));
    let both = all_of(g, has.into_iter().chain(inside));
    let stepped = replace(g, steps.value, steps.step, at);
    let ty = g.ty(stepped);
    let start = g.constant(identity(steps.op, ty.base), ty.base);
    let start = splat(g, start, ty.lanes as usize);
    let scalar = Type::from(ty.base);
    let leader = {
        let zero = g.int(0);
        g.binary(BinOp::Eq, lane_k, zero)
    };
    let leader = match has {
        Some(h) => g.binary(BinOp::And, leader, h),
        None => leader,
    };
    let leader = (g.as_int(leader) != Some(1)).then_some(leader);
    let partials = (warps_k > 1 || t.holds(item)) && !everywhere;
    let partials = partials.then(|| t.stash(g, ty.base, (n * warps_k) as usize));
    let (mut begin, mut update, mut end) = (vec![], vec![], vec![]);
    for u in 0..side {
        let offset = g.int(u);
        let row = g.add(first, offset);
        let at = index::unflatten(g, &extents, row);
        let map: FxHashMap<Id, Id> = rows.iter().copied().zip(at).collect();
        // Rows past the last one are those of the last one, and go nowhere.
        let mut within = map.clone();
        let mut stored: Vec<Id> = leader.into_iter().collect();
        for d in &ragged {
            stored.push(g.binary(BinOp::Lt, map[d], g.src(*d)[0]));
            let last = or_last(g, map[d], *d);
            let none = g.int(0);
            within.insert(*d, g.binary(BinOp::Max, last, none));
        }
        let stored = all_of(g, stored);
        let value = g.substitute(stepped, &mut within);
        let acc = t.acc(g, ty);
        let once = per_warp == 1 && both.is_none();
        if once {
            update.push((acc, value));
        } else {
            begin.push((acc, start));
            update.push((acc, combine(g, steps.op, acc, value)));
        }
        let mut sum = acc;
        if ty.lanes > 1 {
            sum = g.make(Op::Across(steps.op), scalar, vec![], vec![acc]);
        }
        let mut mask = lanes_k / 2;
        while mask > 0 {
            let other = g.make(Op::LaneXor(mask as u16), scalar, vec![], vec![sum]);
            sum = combine(g, steps.op, sum, other);
            mask /= 2;
        }
        let index = g.substitute(item.index, &mut map.clone());
        match partials {
            Some(p) => {
                let k = part(g, BinOp::Mul, warp_k, n);
                let k = g.add(k, row);
                end.push(t.store_if(g, p, k, sum, leader));
            }
            None if everywhere => end.extend(t.put(g, item, index, sum, None)),
            None => end.push(t.store_if(g, item.buffer, index, sum, stored)),
        }
    }
    let mut stmts = vec![];
    if !begin.is_empty() {
        stmts.push(t.set(g, begin));
    }
    let update = t.set(g, update);
    let update = t.only(g, both, vec![update]);
    stmts.extend(t.nest(g, &step_loop, update));
    stmts.extend(end);
    let mut stmts = t.nest(g, &loops, stmts);
    if let Some(p) = partials {
        let whole = across_warps(t, g, item, &rows, &extents, p, warps_k, steps.op);
        match outer.is_empty() {
            true => t.target.pending.push((item.buffer, whole)),
            false => stmts.extend(whole),
        }
    }
    t.nest(g, &outer, stmts)
}

/// A sum whose steps threads share out that would have no element otherwise: whole warps take a stretch each. Of what lies in
/// scratch a thread has an element; of numbers of less than a word in memory, where that consists of words, as many neighbours
/// as a load has.
pub(super) fn shared_out(t: &mut Tiler, g: &mut Graph, item: &Item, op: ReduceOp) -> Option<Vec<Id>> {
    let &[body, range] = g.src(item.value) else { return None };
    if has_reduction(g, body) {
        return None;
    }
    let mut loads = vec![];
    collect_loads(g, body, &mut loads);
    loads.retain(|&l| outside(g, l));
    if loads.is_empty() {
        return stretches(t, g, item, op, (body, range), 1);
    }
    if !t.target.plan.words || loads.iter().all(|&l| g.ty(l).bytes() >= joined::WORD) {
        return None;
    }
    [8, 4, 2].into_iter().find_map(|v| t.attempt(|t| stretches(t, g, item, op, (body, range), v)))
}

/// The same with `v` neighbours a thread, of which each is the sum of a body over a range.
fn stretches(t: &mut Tiler, g: &mut Graph, item: &Item, op: ReduceOp, sum: (Id, Id), v: i64) -> Option<Vec<Id>> {
    let (body, range) = sum;
    let (len, ty) = (g.as_int(g.src(range)[0])?, g.dtype(item.value));
    let lens: Vec<i64> = item.dims.iter().map(|&d| g.as_int(g.src(d)[0])).collect::<Option<_>>()?;
    let n: i64 = lens.iter().product();
    let (last, &of_last) = (*item.dims.last()?, lens.last()?);
    let lanes = t.target.plan.lanes;
    if of_last % v != 0 || n / v % lanes != 0 {
        return None;
    }
    let fits = |of: &i64| of * n / v <= t.target.plan.threads() && len % of == 0 && len / of >= LEAST;
    let groups = (1..=t.target.plan.warps.ilog2()).rev().map(|b| 1i64 << b).find(fits)?;
    let warps = n / v / lanes;
    let (group, warp) = (by(g, BinOp::Div, t.target.warp, warps), by(g, BinOp::Mod, t.target.warp, warps));
    let element = by(g, BinOp::Mul, warp, lanes);
    let element = g.add(element, t.target.lane);
    let extents: Vec<Id> = item.dims.iter().map(|&d| g.src(d)[0]).collect();
    let mut of_threads = extents.clone();
    *of_threads.last_mut()? = g.int(of_last / v);
    let at = index::unflatten(g, &of_threads, element);
    let mut map: FxHashMap<Id, Id> = item.dims.iter().copied().zip(at).collect();
    let step = t.counted(g, len / groups);
    let first = by(g, BinOp::Mul, group, len / groups);
    map.insert(range, g.add(first, step));
    let first = by(g, BinOp::Mul, map[&last], v);
    let values: Vec<Id> = (0..v)
        .map(|i| {
            let at = by(g, BinOp::Add, first, i);
            map.insert(last, at);
            g.substitute(body, &mut map.clone())
        })
        .collect();
    let mut packer = Packer::shifting();
    let value = packer.pack_vector(g, &values)?;
    let widest = t.target.plan.widest;
    if packer.gathered > 0 || align(g, value, widest) != value || widths(g, value).0 > widest {
        return None;
    }
    let start = g.constant(identity(op, ty), ty);
    let start = splat(g, start, v as usize);
    let acc = t.acc(g, g.ty(value));
    let next = combine(g, op, acc, value);
    let parts = t.stash(g, ty, (n * groups) as usize);
    let update = t.set(g, vec![(acc, next)]);
    let mut all = vec![t.set(g, vec![(acc, start)])];
    all.extend(t.nest(g, &[step], vec![update]));
    let place = by(g, BinOp::Mul, group, n);
    let first = by(g, BinOp::Mul, element, v);
    let place = g.add(place, first);
    all.extend(stores(g, parts, place, acc, widest));
    let has = (warps * groups < t.target.plan.warps).then(|| by(g, BinOp::Lt, group, groups));
    let all = t.only(g, has, all);
    let whole = across_warps(t, g, item, &item.dims, &extents, parts, groups, op);
    t.target.pending.push((item.buffer, whole));
    Some(all)
}

/// Stores of a vector to neighbouring elements of its type, each of as many lanes as a thread stores at once.
fn stores(g: &mut Graph, buffer: Id, place: Id, value: Id, widest: usize) -> Vec<Id> {
    let (ty, lanes) = (g.dtype(value), usize::from(g.ty(value).lanes));
    let together = (widest / ty.bytes()).min(lanes);
    let part = |first: usize| {
        let of = (first..first + together).map(|lane| lane as u16).collect();
        let part = match together == lanes {
            true => value,
            false => g.make(Op::Shuffle(of), Type::vector(ty, together), vec![], vec![value]),
        };
        let at = by(g, BinOp::Add, place, first as i64);
        g.make(Op::Store, DType::Index, vec![], vec![buffer, at, part])
    };
    (0..lanes).step_by(together).map(part).collect()
}

/// Steps of a thread at least, for which an exchange is worth it.
const LEAST: i64 = 8;

/// Rows at most that are known by their greatest number alone.
const FEW_ROWS: i64 = 256;

fn is_known(g: &Graph, dim: Id) -> bool {
    g.as_int(g.src(dim)[0]).is_some()
}

/// The greatest number of steps of a dimension.
fn at_most(t: &Tiler, g: &mut Graph, dim: Id) -> Id {
    let most = t.most(g, dim);
    g.int(most)
}

/// All conditions together; none of none.
fn all_of(g: &mut Graph, conditions: impl IntoIterator<Item = Id>) -> Option<Id> {
    conditions.into_iter().reduce(|a, b| g.binary(BinOp::And, a, b))
}

/// Puts the parts of several warps together, one thread an output.
#[allow(clippy::too_many_arguments)]
fn across_warps(
    t: &mut Tiler,
    g: &mut Graph,
    item: &Item,
    rows: &[Id],
    extents: &[Id],
    parts: Id,
    warps: i64,
    op: ReduceOp,
) -> Vec<Id> {
    let shares = t.shares_of(g, item, rows);
    let at: Vec<Id> = rows.iter().map(|r| shares.at[r]).collect();
    let row = index::flatten(g, extents, &at);
    let n: i64 = extents.iter().filter_map(|&e| g.as_int(e)).product();
    let mut total: Option<Id> = None;
    for w in 0..warps {
        let i = by(g, BinOp::Add, row, w * n);
        let v = g.load(parts, i, 1);
        total = Some(total.map_or(v, |so_far| combine(g, op, so_far, v)));
    }
    let Some(total) = total else { return vec![] };
    let index = g.substitute(item.index, &mut shares.at.clone());
    let body = t.put(g, item, index, total, None);
    let body = t.only(g, shares.has, body);
    t.nest(g, &shares.outer, body)
}

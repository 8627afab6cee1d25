//! From a nest to a kernel of blocks: which thread computes which element.
//!
//! | path | for |
//! |---|---|
//! | block product | sums over rows of weights, both sides of which are bf16 numbers or f16, where a task has several tokens |
//! | integer tile | the same sums as the next path, where a task has several tokens |
//! | integer dot | sums over blocks of weights with integer dots inside: lanes along the sum |
//! | warp product | sums over rows of halves that several columns share |
//! | whole product | the same by matrices that no lane has elements of |
//! | warp rows | what a loop that goes row by row computes beside its warp products |
//! | fragments | what sets or reads what a loop adds warp products to |
//! | lane reduction | other sums whose loads are neighbours along the sum: lanes along the sum |
//! | thread reduction | sums whose loads are neighbours along the output, or of unknown length: one thread an element, or a few neighbours and a stretch of the sum |
//! | butterfly | short sums of what neighbouring threads have in registers: lanes along the sum |
//! | thread map | no sum: one thread an element, or several that all have it |
//! | wide map | copies for other kernels: one thread a few neighbours |
//! | lane rows | a loop that carries rows, sums along them and replaces them: neighbouring lanes have a row in registers |
//! | fold in registers | all of a loop that merges parts from memory: one thread an element of the widest carrier |

use crate::gpu::gathered::{Gathered, gathered};
use crate::gpu::matrix;
use crate::gpu::places::{InFragments, Staged};
use crate::gpu::plan::GpuPlan;
use crate::gpu::registers::Form;
use crate::gpu::threads::{Tiler, Turns};
use crate::gpu::{
    ahead, banks, batch, carried, dot, early, fold, int_tile, joined, lane_rows, reduce, registers, scope, sync,
    warp_rows, whole_product, wide_map,
};
use crate::kernel::body::{Body, Way};
use crate::kernel::emitter::{block, make_barrier, make_loop};
use crate::kernel::expression::{collect_loads, combine, depends, has_reduction, loads_of, outside, reads, replace};
use crate::lower::{Item, Nest, identity};
use ir::index::{self, Linear, bounds};
use ir::{Graph, Id, Op, ReduceOp, Space};
use rustc_hash::FxHashMap;

/// Tiles a nest for blocks of threads.
pub fn tile(g: &mut Graph, nest: &Nest, plan: &GpuPlan) -> Body {
    let bytes = |g: &Graph, body: &Body| body.bytes_in(g, Space::Shared, plan.widest);
    let (mut body, crowded) = best(g, nest, plan, Turns::None);
    if crowded && plan.multiplies && nest.phases.len() > 1 {
        let (turns, _) = best(g, nest, plan, Turns::Phases);
        if bytes(g, &turns) <= plan.shared {
            body = turns;
        }
    }
    // Where a block has a multiprocessor for itself for its memory alone, two of them hide what each waits for, if they
    // compute all in the same way.
    if plan.multiplies && index::usual(g, nest.tasks) > plan.processors && bytes(g, &body) > plan.shared_of_two {
        let (rounds, _) = best(g, nest, plan, Turns::Rounds);
        if bytes(g, &rounds) <= plan.shared_of_two && rounds.paths() == body.paths() {
            return rounds;
        }
    }
    body
}

/// The body of a kernel, with as much in fragments as can lie there; and whether something found no room.
fn best(g: &mut Graph, nest: &Nest, plan: &GpuPlan, turns: Turns) -> (Body, bool) {
    let rows = plan.multiplies.then_some(InFragments::Rows);
    let carriers = (plan.multiplies || plan.cooperative).then_some(InFragments::Carriers);
    let of_tiles = plan.multiplies_whole().then_some(InFragments::Elements);
    let mut all = [rows, carriers, of_tiles, Some(InFragments::Nothing)].into_iter().flatten();
    all.find_map(|kept| tiled(g, nest, plan, kept, turns)).expect("every item has a path if nothing is kept")
}

/// The body of a kernel, if what shall lie in fragments can lie there, and whether something found no room.
fn tiled(g: &mut Graph, nest: &Nest, plan: &GpuPlan, kept: InFragments, turns: Turns) -> Option<(Body, bool)> {
    let Gathered { nest, into, tiles } = gathered(g, nest, plan, kept);
    if kept == InFragments::Elements && !tiles {
        return None;
    }
    let nest = &nest;
    let apart = if plan.multiplies { banks::rows_apart(g, nest) } else { FxHashMap::default() };
    let of_products = whole_product::needed(g, nest, plan);
    let reserved = int_tile::needed(g, nest, plan).max(of_products.bytes(plan));
    let mut t = Tiler::of_blocks(g, nest, plan, &apart, reserved, turns);
    t.target.halves = of_products.halves;
    let mut phases: Vec<(Option<Id>, Vec<Item>)> = vec![];
    for phase in &nest.phases {
        phases.push((phase.serial, phase.items.iter().map(|item| t.in_shared(g, item)).collect()));
    }
    let by_rows: Vec<Option<warp_rows::RowsPlan>> = match kept {
        InFragments::Rows => (0..phases.len()).map(|n| warp_rows::plan(&mut t, g, &phases, n)).collect(),
        _ => phases.iter().map(|_| None).collect(),
    };
    let fits = match kept {
        InFragments::Nothing | InFragments::Elements => true,
        InFragments::Carriers => carried::plan(&mut t, g, &phases) && (plan.multiplies || !t.target.carried.is_empty()),
        InFragments::Rows => {
            let plain = |(plan, (_, items)): (&Option<_>, &(Option<Id>, Vec<Item>))| {
                plan.is_some() || !items.iter().any(|i| matrix::updates(g, i).is_some())
            };
            by_rows.iter().any(|plan| plan.is_some()) && by_rows.iter().zip(&phases).all(plain)
        }
    };
    if !fits {
        return None;
    }
    let folds: Vec<Option<fold::FoldPlan>> = (0..phases.len()).map(|n| fold::plan(g, &phases, n)).collect();
    let mut forms = registers::plan(&mut t, g, &phases).into_iter();
    let (mut ways, mut all) = (vec![], vec![]);
    for (n, (serial, items)) in phases.iter().enumerate() {
        if turns != Turns::None && n > 0 {
            all.push(make_barrier(g));
        }
        t.target.enter(n, Staged::of(*serial));
        let forms: Vec<Form> = forms.by_ref().take(items.len()).collect();
        if let Some(fold) = &folds[n] {
            ways.extend(items.iter().map(|_| Way::by("fold in registers")));
            all.extend(fold::statements(&mut t, g, fold));
            continue;
        }
        if let (Some(rows), Some(range)) = (&by_rows[n], *serial) {
            let [before, round, after] = warp_rows::statements(&mut t, g, rows, range)?;
            ways.extend(rows.paths().map(Way::by));
            all.extend(t.target.staged.before());
            all.extend(before);
            all.push(rounds(g, range, round, turns));
            all.extend(after);
            continue;
        }
        if let Some(loop_of_rows) = lane_rows::statements(&mut t, g, &phases, n) {
            ways.extend(items.iter().map(|_| Way::by("lane rows")));
            all.extend(loop_of_rows);
            continue;
        }
        let (mut body, before) = (vec![], ways.len());
        // What a fold begins with is a part of it.
        ways.resize(before + items.len(), Way::by("fold in registers"));
        let mut order = weights_first(g, items, plan);
        order.retain(|&i| !folds[n..].iter().flatten().any(|fold| fold.begins(items[i].buffer)));
        let mut at = 0;
        while at < order.len() {
            let i = order[at];
            let ahead: Vec<&Item> = order[at..].iter().map(|&i| &items[i]).collect();
            body.extend(t.due(g, Some(&items[i])));
            let (path, together, stmts) = statements(&mut t, g, &ahead, forms[i], serial.is_none());
            for &i in &order[at..at + together] {
                if kept == InFragments::Elements && path == "thread map" && has_reduction(g, items[i].value) {
                    return None;
                }
                let of_product = matches!(path, "warp product" | "whole product");
                if serial.is_some() && !of_product && t.target.carried.contains_key(&items[i].buffer) {
                    return None;
                }
                ways[before + i].path = path;
            }
            body.extend(stmts);
            at += together;
        }
        body.extend(t.due(g, None));
        if let Some(range) = *serial
            && ways[before..].iter().any(|w| w.path == "warp product")
        {
            let first;
            (first, body) = ahead::loads_ahead(&t, g, range, body);
            all.extend(first);
        }
        all.extend(t.target.staged.before());
        match *serial {
            Some(range) => all.push(rounds(g, range, body, turns)),
            None => all.extend(body),
        }
    }
    if plan.words {
        all = joined::stores(&t, g, all);
    }
    let (mut first, rest) = early::loads_first(&mut t, g, all);
    let rest = sync::synchronise(g, rest);
    let rest = branches_together(g, rest);
    first.extend(t.only(g, nest.wanted, rest));
    let root = block(g, first);
    let root = scope::narrowed(g, root);
    let ways: Vec<Way> = into.iter().map(|&n| ways[n]).collect();
    let used = g.toposort(&[root]);
    let crowded = t.target.crowded;
    let stashes = t.into_stashes().into_iter().filter(|stash| used.contains(stash)).collect();
    Some((Body { root, stashes, tasks: nest.tasks, ways }, crowded))
}

/// The loop of a phase, whose rounds may take turns with shared memory.
fn rounds(g: &mut Graph, range: Id, mut round: Vec<Id>, turns: Turns) -> Id {
    if turns == Turns::Rounds {
        round.push(make_barrier(g));
    }
    make_loop(g, range, round)
}

/// The order in which items are computed: sums over weights before what they do not need, so that what they exchange
/// between warps goes through one barrier, and tiles of the same tokens follow each other.
fn weights_first(g: &mut Graph, items: &[Item], plan: &GpuPlan) -> Vec<usize> {
    let mut order: Vec<usize> = vec![];
    for (i, item) in items.iter().enumerate() {
        let loads = loads_of(g, item);
        let weight = |&l: &Id| matches!(g.op(g.src(l)[0]), Op::Buffer { space: Space::Weight, .. });
        let sums = matches!(g.op(item.value), Op::Reduce(..)) && loads.iter().any(weight);
        // Scratch may be written again after it was read.
        let touches = |other: &Item| {
            other.buffer == item.buffer
                || loads.iter().any(|&l| g.src(l)[0] == other.buffer)
                || reads(g, other, item.buffer)
        };
        let after = order.iter().rposition(|&o| touches(&items[o])).map_or(0, |at| at + 1);
        let known = items[i].dims.iter().all(|&d| g.as_int(g.src(d)[0]).is_some());
        let moves = sums && (known || int_tile::is_tile(g, item, plan));
        order.insert(if moves { after } else { order.len() }, i);
    }
    order
}

/// Statements with neighbours under one condition in one branch.
fn branches_together(g: &mut Graph, statements: Vec<Id>) -> Vec<Id> {
    let mut all: Vec<Id> = vec![];
    for s in statements {
        let same = |g: &Graph, &last: &Id| {
            *g.op(last) == Op::If && *g.op(s) == Op::If && g.src(last)[0] == g.src(s)[0] && reads_no_acc(g, g.src(s)[0])
        };
        match all.last().copied().filter(|last| same(g, last)) {
            Some(last) => {
                let body = g.src(last).iter().chain(&g.src(s)[1..]).copied().collect();
                *all.last_mut().expect("a branch") = g.with_src(last, body);
            }
            None => all.push(s),
        }
    }
    all
}

/// Whether a condition is the same before and after any statement.
fn reads_no_acc(g: &Graph, condition: Id) -> bool {
    !g.toposort(&[condition]).iter().any(|&n| matches!(g.op(n), Op::Load | Op::Acc(_) | Op::LaneXor(_)))
}

/// The path that the first of these items takes, how many of them take it together, and their statements.
fn statements(
    t: &mut Tiler,
    g: &mut Graph,
    items: &[&Item],
    form: Form,
    plain: bool,
) -> (&'static str, usize, Vec<Id>) {
    let item = items[0];
    if plain && let Some(s) = t.by_fragments(g, item) {
        return ("fragments", 1, s);
    }
    if let Form::Map(spread) = form
        && let Some(s) = t.mapped(g, item, spread)
    {
        return ("thread map", 1, s);
    }
    if !matches!(form, Form::Butterfly(_))
        && let Some(s) = matrix::products(t, g, item)
    {
        return ("warp product", 1, s);
    }
    if let Some(s) = whole_product::products(t, g, item) {
        return ("whole product", 1, s);
    }
    let Op::Reduce(op, _) = *g.op(item.value) else {
        if let Some(tile) = int_tile::int_tile(t, g, items) {
            return tile;
        }
        return match wide_map::wide_map(t, g, item) {
            Some(s) => ("wide map", 1, s),
            None => ("thread map", 1, by_thread(t, g, item)),
        };
    };
    if let Form::Butterfly(len) = form
        && let Some(s) = t.butterfly(g, item, op, len)
    {
        return ("butterfly", 1, s);
    }
    if let Some(tile) = int_tile::int_tile(t, g, items) {
        return tile;
    }
    if let Some(s) = dot::integer_dot(t, g, item) {
        return ("integer dot", 1, s);
    }
    if (form == Form::Everywhere || neighbours_along_sum(g, item))
        && let Some(s) = reduce::lane_reduction(t, g, item, op, form == Form::Everywhere)
    {
        return ("lane reduction", 1, s);
    }
    ("thread reduction", 1, by_thread(t, g, item))
}

/// One thread an element, or a few that read the same from memory.
fn by_thread(t: &mut Tiler, g: &mut Graph, item: &Item) -> Vec<Id> {
    if let Op::Reduce(op, _) = *g.op(item.value)
        && let Some((dim, side)) = beside(t, g, item)
    {
        return sums_beside(t, g, item, op, dim, side);
    }
    if let Op::Reduce(op, _) = *g.op(item.value)
        && let Some(s) = reduce::shared_out(t, g, item, op)
    {
        return s;
    }
    let shares = t.shares_of(g, item, &item.dims);
    if !t.target.held.contains_key(&item.buffer)
        && let Some(s) = batch::rounds(t, g, item, &shares)
    {
        return s;
    }
    let value = g.substitute(item.value, &mut shares.at.clone());
    let index = g.substitute(item.index, &mut shares.at.clone());
    let (value, mut body) = t.sums(g, value);
    body.extend(t.put(g, item, index, value, None));
    let body = t.only(g, shares.has, body);
    t.nest(g, &shares.outer, body)
}

/// A dimension along which a sum reads something from memory again, and how many elements of it a thread may take
/// without leaving others idle.
fn beside(t: &Tiler, g: &mut Graph, item: &Item) -> Option<(Id, i64)> {
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
        let fits = |u: &i64| extent % u == 0 && total / u >= t.target.plan.threads();
        let side = (2..=t.target.plan.rows).rev().find(fits).filter(|_| again && moves)?;
        Some((d, side))
    })
}

/// Sums of `side` neighbours along a dimension in one thread, in one loop.
fn sums_beside(t: &mut Tiler, g: &mut Graph, item: &Item, op: ReduceOp, dim: Id, side: i64) -> Vec<Id> {
    let (src, ty) = (g.src(item.value).to_vec(), g.dtype(item.value));
    let extent = g.as_int(g.src(dim)[0]).unwrap_or(side);
    let r = t.counted(g, extent / side);
    let dims: Vec<Id> = item.dims.iter().map(|&d| if d == dim { r } else { d }).collect();
    let shares = t.share(g, &dims);
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
        let acc = t.acc(g, ty);
        begin.push((acc, start));
        update.push((acc, combine(g, op, acc, value)));
        end.push(t.store(g, item.buffer, index, acc));
    }
    let update = t.set(g, update);
    let mut body = vec![t.set(g, begin)];
    body.extend(t.nest(g, &src[1..], vec![update]));
    body.extend(end);
    let body = t.only(g, shares.has, body);
    t.nest(g, &shares.outer, body)
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

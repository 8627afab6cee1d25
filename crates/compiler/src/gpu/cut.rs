//! How the tasks of a kernel are cut into blocks of threads.

use crate::gpu::int_tile;
use crate::gpu::lane_rows;
use crate::gpu::plan::GpuPlan;
use crate::gpu::tokens::{Tokens, halves_axes, token_axes};
use crate::lower::Cut;
use crate::schedule::axes::Along;
use crate::schedule::cuts::{before_fold, carried_by_step, widest_unit};
use crate::schedule::limits::limits;
use crate::schedule::{Group, Schedule};
use ir::{Graph, index};

/// How many steps of each axis a block takes: as many blocks as the GPU can run, each large enough for its threads. A
/// kernel beside another whose blocks are large has blocks that are as large, as both have as many threads.
pub(super) fn cut(g: &mut Graph, s: &Schedule, group: usize, plan: &GpuPlan) -> Cut {
    if let Some(cut) = tiles(g, s, group, plan).or_else(|| halves(g, s, group, plan)) {
        return cut;
    }
    let gr = &s.groups[group];
    let mut total = usual_tasks(g, gr);
    let mut steps = vec![1; gr.axes.len()];
    let (mut least, most) =
        if gr.heavy { (plan.blocks, plan.block_rows) } else { (plan.blocks / 2, 4 * plan.threads()) };
    if plan.join
        && gr.heavy
        && let Some(beside) = large_blocks_beside(g, s, group)
    {
        least = beside.min(least);
        // A few blocks more than run at once would take as long again.
        let (all, at_once) = (beside + total, plan.processors);
        if beside < at_once && (at_once + 1..=at_once * 3 / 2).contains(&all) {
            least = least.min((at_once - beside) / 2).max(1);
        }
    }
    // What a recurrence carries lies in registers.
    let mut carried = carried_by_step(g, s, group);
    for i in (0..gr.axes.len()).rev() {
        let a = &gr.axes[i];
        if !a.is_task() || before_fold(g, s, group, i) {
            continue;
        }
        // Few tokens stay apart: their number is not known here, and weights come from the cache the second time.
        let Some(n) = g.as_int(a.count) else { continue };
        let unit = widest_unit(s, group, i);
        let most = carried.map_or(most, |each| lane_rows::EACH * plan.threads() / each);
        let best = (1..=n).rev().find(|d| n % d == 0 && total / d >= least && d * unit <= most).unwrap_or(1);
        steps[i] = best;
        carried = carried.map(|each| each * best);
        total /= best;
    }
    Cut { steps, order: None }
}

/// Tiles of several tokens and rows, where there are many tokens and sums by integer dots or of bf16 numbers.
fn tiles(g: &mut Graph, s: &Schedule, group: usize, plan: &GpuPlan) -> Option<Cut> {
    let gr = &s.groups[group];
    if !(plan.multiplies || plan.multiplies_whole()) || !gr.heavy || gr.axes.iter().any(|a| a.serial) {
        return None;
    }
    let Tokens { axes: tokens, sums, halves, blocks, light } = token_axes(g, s, group);
    if !plan.multiplies && !halves {
        return None;
    }
    // Each step of what counts the steps of another axis has a task of its own.
    let counts: Vec<Along> = limits(g, s, group).into_values().flat_map(|l| l.lead).collect();
    let counting = |i: usize| counts.iter().any(|a| matches!(*a, Along::Axis { axis, .. } if axis == i));
    let mut steps = vec![1; gr.axes.len()];
    // As many tasks as there usually are, and not many more places for tokens than those.
    let (mut tokens_left, mut tasks) = (plan.tile_tokens, 1);
    for &i in tokens.iter().rev().filter(|&&i| !counting(i)) {
        let (most, usual) = (index::bounds(g, gr.axes[i].count).1, index::usual(g, gr.axes[i].count));
        steps[i] = match g.as_int(gr.axes[i].count) {
            Some(n) => (1..=n.min(tokens_left)).rev().find(|d| n % d == 0).unwrap_or(1),
            None => {
                let usual = usual.clamp(int_tile::M, tokens_left.max(int_tile::M)) as u64;
                most.min(tokens_left).min(usual.next_power_of_two() as i64)
            }
        };
        tokens_left /= steps[i];
        tasks *= (usual + steps[i] - 1) / steps[i];
    }
    let places = plan.tile_tokens / tokens_left.max(1);
    if places < 2 {
        return None;
    }
    // Other sums of so few tokens have paths of their own.
    let few = places <= int_tile::FEW && !halves;
    let rows = |i: &usize| !gr.axes[*i].inner && !tokens.contains(i) && !counting(*i);
    let rows: Vec<usize> = (0..gr.axes.len()).filter(rows).collect();
    for i in (0..gr.axes.len()).filter(|&i| !gr.axes[i].inner && !tokens.contains(&i)) {
        tasks *= index::usual(g, gr.axes[i].count).max(1);
    }
    // Rows that lie in each task in any case.
    let inner = gr.axes.iter().filter(|a| a.inner && !a.serial);
    let inner: i64 = inner.filter_map(|a| g.as_int(a.count)).product();
    // The rows of a tile lie along one axis: the last one.
    if let Some(&i) = rows.last()
        && let Some(n) = g.as_int(gr.axes[i].count)
    {
        let unit = widest_unit(s, group, i) * inner;
        // Whole tiles, as many rows for all sums together as a block takes, and a task for each multiprocessor if there are as many.
        // Half a tile of whole matrices takes 0.7 of its time, as they are read as often: with fewer tasks than multiprocessors, large
        // ones are still ahead where more tokens come than usual (bench/JOURNAL.md).
        let enough = if plan.cooperative { plan.processors / 3 } else { plan.processors };
        let whole: Vec<i64> = (1..=n).filter(|d| n % d == 0 && d * unit % int_tile::M == 0).collect();
        let fits = |d: &&i64| tasks / *d >= enough && *d * unit * sums <= plan.tile_rows;
        // As many as warps multiply together; of blocks however few tasks that leaves, as only then they are unpacked once.
        let able = halves && (plan.groups || plan.cooperative) && places > int_tile::FEW;
        let together = |d: &&i64| able && (*d * unit * sums) % int_tile::TOGETHER_ROWS == 0;
        let least = whole.iter().find(|d| blocks && together(d));
        let most = whole.iter().rev().find(|d| together(d) && fits(d)).or(least);
        steps[i] = *most.or(whole.iter().rev().find(fits)).or(whole.first()).unwrap_or(&1);
        // Few tokens wait for weights, but where blocks come after blocks all that they compute does.
        let rounds = tasks / steps[i] / plan.processors;
        if few && (rounds < 2 || steps[i] * unit < int_tile::ROWS_OF_FEW) {
            return None;
        }
        // Where half of the multiprocessors have nothing, others read the same rows for half of the tokens.
        let last = tokens.iter().rfind(|&&t| !counting(t) && steps[t] % (2 * int_tile::M) == 0);
        if let Some(&t) = last.filter(|_| 2 * tasks / steps[i] <= enough) {
            steps[t] /= 2;
        }
        // A tile of more rows has fewer tokens: warps have registers for so many sums.
        let sums_of = |steps: &[i64], t: usize| steps[i] * unit * sums * steps[t];
        let last = tokens.iter().rfind(|&&t| !counting(t)).copied().filter(|_| plan.cooperative);
        while let Some(t) = last
            && steps[t] % (2 * int_tile::M) == 0
            && sums_of(&steps, t) > plan.tile_rows * plan.tile_tokens
        {
            steps[t] /= 2;
        }
        // Where there are tasks enough, rows that are unpacked once serve twice as many.
        let last = tokens.iter().rfind(|&&t| !counting(t) && steps[t] == plan.tile_tokens);
        if let Some(&t) = last.filter(|_| able && plan.groups && light && tasks / steps[i] >= 2 * plan.processors)
            && index::usual(g, gr.axes[t].count) >= 2 * steps[t]
        {
            steps[t] *= 2;
        }
    } else if few {
        return None;
    }
    Some(Cut { steps, order: None })
}

/// Tiles of products of halves: some rows of a cache and some columns.
fn halves(g: &mut Graph, s: &Schedule, group: usize, plan: &GpuPlan) -> Option<Cut> {
    let gr = &s.groups[group];
    if !(plan.multiplies || plan.cooperative) || !gr.heavy || gr.axes.iter().any(|a| a.serial) {
        return None;
    }
    let (rows, columns) = halves_axes(g, s, group)?;
    let mut steps = vec![1; gr.axes.len()];
    for mut of in [rows, columns] {
        let i = of.pop()?;
        let count = gr.axes[i].count;
        let whole = |n: &i64| index::is_multiple(g, count, *n) && widest_unit(s, group, i) == 1;
        steps[i] = [plan.tile_tokens.min(64), 16].into_iter().find(whole)?;
    }
    Some(Cut { steps, order: None })
}

/// Blocks of another kernel of the stage that reads weights and takes several rows at once in any case.
fn large_blocks_beside(g: &mut Graph, s: &Schedule, group: usize) -> Option<i64> {
    let level = s.groups[group].level;
    let beside = |i: &usize| *i != group && !s.groups[*i].dead && s.groups[*i].heavy && s.groups[*i].level == level;
    let large = |i: &usize| (0..s.groups[*i].axes.len()).any(|axis| widest_unit(s, *i, axis) > 1);
    let all: Vec<usize> = (0..s.groups.len()).filter(|i| beside(i) && large(i)).collect();
    all.into_iter().map(|i| usual_tasks(g, &s.groups[i])).max()
}

/// Steps of the task axes of a group; of a symbolic axis, as many as there usually are.
fn usual_tasks(g: &mut Graph, group: &Group) -> i64 {
    let axes = group.axes.iter().filter(|a| a.is_task());
    axes.fold(1i64, |n, a| n.saturating_mul(index::usual(g, a.count).max(1)))
}

//! How the tasks of a kernel are cut into blocks of threads.

use crate::gpu::plan::Plan;
use crate::lower::Cut;
use crate::schedule::cuts::{before_fold, widest_unit};
use crate::schedule::{Group, Schedule};
use ir::{Graph, index};

/// How many steps of each axis a block takes: as many blocks as the GPU can run, each large enough for its threads. A
/// kernel beside another whose blocks are large has blocks that are as large, as both have as many threads.
pub(super) fn cut(g: &mut Graph, s: &Schedule, group: usize, plan: &Plan) -> Cut {
    let gr = &s.groups[group];
    let mut total = least_tasks(g, gr);
    let mut steps = vec![1; gr.axes.len()];
    let (mut least, most) =
        if gr.heavy { (plan.blocks, plan.block_rows) } else { (plan.blocks / 2, 4 * plan.threads()) };
    if plan.join
        && gr.heavy
        && let Some(beside) = large_blocks_beside(g, s, group)
    {
        least = beside.min(least);
    }
    for i in (0..gr.axes.len()).rev() {
        let a = &gr.axes[i];
        if a.serial || a.inner || before_fold(g, s, group, i) {
            continue;
        }
        // Tokens stay apart: their number is not known here, and weights come from the cache the second time.
        let Some(n) = g.as_int(a.count) else { continue };
        let unit = widest_unit(s, group, i);
        let best = (1..=n).rev().find(|d| n % d == 0 && total / d >= least && d * unit <= most).unwrap_or(1);
        steps[i] = best;
        total /= best;
    }
    Cut { steps, order: None }
}

/// Blocks of another kernel of the stage that reads weights and takes several rows at once in any case.
fn large_blocks_beside(g: &mut Graph, s: &Schedule, group: usize) -> Option<i64> {
    let level = s.groups[group].level;
    let beside = |i: &usize| *i != group && !s.groups[*i].dead && s.groups[*i].heavy && s.groups[*i].level == level;
    let large = |i: &usize| (0..s.groups[*i].axes.len()).any(|axis| widest_unit(s, *i, axis) > 1);
    let all: Vec<usize> = (0..s.groups.len()).filter(|i| beside(i) && large(i)).collect();
    all.into_iter().map(|i| least_tasks(g, &s.groups[i])).max()
}

/// Steps of the task axes of a group; of a symbolic axis, those that are there in any case.
fn least_tasks(g: &mut Graph, group: &Group) -> i64 {
    let axes = group.axes.iter().filter(|a| !a.serial && !a.inner);
    axes.map(|a| index::bounds(g, a.count).0.max(1)).product()
}

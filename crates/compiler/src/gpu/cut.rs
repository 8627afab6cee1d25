//! How the tasks of a kernel are cut into blocks of threads.

use crate::gpu::plan::Plan;
use crate::lower::Cut;
use crate::schedule::Schedule;
use crate::schedule::cuts::{before_fold, widest_unit};
use ir::{Graph, index};

/// How many steps of each axis a block takes: as many blocks as the GPU can run, each large enough for its threads.
pub(super) fn cut(g: &mut Graph, s: &Schedule, group: usize, plan: &Plan) -> Cut {
    let gr = &s.groups[group];
    // Of a symbolic axis, the steps that are there in any case.
    let mut total: i64 =
        gr.axes.iter().filter(|a| !a.serial && !a.inner).map(|a| index::bounds(g, a.count).0.max(1)).product();
    let mut steps = vec![1; gr.axes.len()];
    let (least, most) = if gr.heavy { (plan.blocks, plan.block_rows) } else { (plan.blocks / 2, 4 * plan.threads()) };
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

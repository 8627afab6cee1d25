//! Kernels of blocks of threads, from the same nests as those of a CPU.
//!
//! A task is a block; what a task keeps (its stashes) lies in shared memory, and the threads of the block divide the
//! elements of each item among them. [`tile`](mod@tile) decides how for each item, [`reduce`](mod@reduce) sums over
//! lanes and warps, [`dot`] finds packed integer dots, [`align`] makes loads that a thread can do, [`sync`] adds
//! barriers, and [`planes`] makes weights lie so that a lane can read 16 bytes of them at once. What comes before (the
//! rewrites, the schedule, the nests) and the index algebra are shared with the CPU.

pub mod align;
pub mod dot;
pub mod planes;
pub mod reduce;
pub mod sync;
pub mod tile;

pub use planes::{PLANES, repacked};
pub use tile::tile;

use crate::compile::{before_fold, widest_unit};
use crate::lower::Cut;
use crate::schedule::Schedule;
use ir::Graph;

/// How a GPU is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Warps of a block at least: a power of two, at most 32.
    pub warps: i64,
    /// Warps that the whole GPU should have: a kernel of few blocks has more in each, up to 32.
    pub all_warps: i64,
    /// Sums that a thread keeps side by side, so that as many loads are in flight.
    pub rows: i64,
    /// Blocks that a kernel should have at least, so that every multiprocessor has some.
    pub blocks: i64,
    /// Rows of a matrix that a block takes at most.
    pub block_rows: i64,
    /// Bytes of shared memory that a block may have; what exceeds it lies in memory.
    pub shared: usize,
}

impl Default for Plan {
    /// For an H200: 132 multiprocessors, on each two blocks or more, and 16 warps.
    fn default() -> Plan {
        Plan { warps: 4, all_warps: 132 * 16, rows: 4, blocks: 264, block_rows: 32, shared: 200 << 10 }
    }
}

/// Elements of the largest item of a block that are worth a thread.
const WORTH: i64 = 16;

impl Plan {
    /// The plan with as many warps in a block as `tasks` blocks need, if the largest item of a block has `elements`.
    pub fn for_blocks(&self, tasks: i64, elements: i64) -> Plan {
        let pow2 = |n: i64| (n.clamp(1, 32) as u64 + 1).next_power_of_two() as i64 / 2;
        let worth = elements / (WORTH * ir::WARP as i64);
        let wanted = pow2((self.all_warps / tasks.max(1)).min(worth));
        Plan { warps: pow2(self.warps).max(wanted), ..self.clone() }
    }

    /// Threads of a block.
    pub fn threads(&self) -> i64 {
        self.warps * ir::WARP as i64
    }
}

/// How many steps of each axis a block takes: as many blocks as the GPU can run, each large enough for its threads.
pub fn cut(g: &mut Graph, s: &Schedule, group: usize, plan: &Plan) -> Cut {
    let gr = &s.groups[group];
    let mut total: i64 = gr.axes.iter().filter(|a| !a.serial && !a.inner).filter_map(|a| g.as_int(a.count)).product();
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

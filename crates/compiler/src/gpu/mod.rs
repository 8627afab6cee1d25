//! Kernels of blocks of threads, from the same nests as those of a CPU.
//!
//! A task is a block; what a task keeps (its stashes) lies in shared memory, and the threads of the block divide the
//! elements of each item among them. `cut` and [`plan`] say how many blocks and threads there are,
//! `threads` gives elements to threads, [`tile`](mod@tile) decides for each item, `reduce` sums over lanes
//! and warps, `fold` keeps the carriers of a loop in registers, `dot` finds packed integer dots, [`align`] makes loads
//! that a thread can do, `registers` keeps small stashes in the threads that need them, `early` puts loads first, `sync`
//! adds barriers, and [`planes`] makes weights lie so that a lane can read 16 bytes of them at once. What comes before (the rewrites, the
//! schedule, the nests) and the index algebra are shared with the CPU.

pub mod align;
mod carried;
mod cut;
mod dot;
mod early;
mod fold;
mod gathered;
mod int_tile;
mod matrix;
mod places;
pub mod plan;
pub mod planes;
mod reduce;
mod registers;
mod sync;
mod threads;
pub mod tile;
mod tokens;
mod warps;
mod wide_map;

pub use plan::Plan;

use crate::kernel::body::Body;
use crate::lower::{Cut, Nest};
use crate::program::Geometry;
use crate::render::{Unwritable, cuda};
use crate::schedule::Schedule;
use crate::target::Target;
use ir::Graph;

/// A GPU that is used by this plan.
#[derive(Clone, Debug)]
pub struct Gpu(pub Plan);

impl Target for Gpu {
    fn prelude(&self) -> &'static str {
        cuda::PRELUDE
    }

    fn lays_planes(&self) -> bool {
        true
    }

    fn loads_early(&self) -> bool {
        true
    }

    fn has_matrix_unit(&self) -> bool {
        false
    }

    fn cut(&self, g: &mut Graph, s: &Schedule, group: usize) -> Cut {
        cut::cut(g, s, group, &self.0)
    }

    fn joins_stages(&self) -> bool {
        self.0.join
    }

    fn threads(&self, g: &mut Graph, nests: &[&Nest]) -> i64 {
        nests.iter().map(|nest| warps::wanted(g, nest, &self.0)).max().unwrap_or(1) * self.0.lanes
    }

    fn tile(&self, g: &mut Graph, nest: &Nest, threads: i64) -> (Body, bool) {
        let plan = Plan { warps: threads / self.0.lanes, ..self.0.clone() };
        (tile::tile(g, nest, &plan), false)
    }

    fn render(
        &self,
        g: &mut Graph,
        symbol: &str,
        body: &Body,
        slots: usize,
        vars: &[String],
    ) -> Result<String, Unwritable> {
        cuda::kernel(g, symbol, body, &self.0, slots, vars)
    }

    fn geometry(&self, g: &Graph, body: &Body) -> Geometry {
        cuda::geometry(g, body, &self.0)
    }
}

//! Kernels of blocks of threads, from the same nests as those of a CPU.
//!
//! A task is a block; what a task keeps (its stashes) lies in shared memory, and the threads of the block divide the
//! elements of each item among them. `cut` and [`plan`] say how many blocks and threads there are,
//! `threads` gives elements to threads, [`tile`](mod@tile) decides for each item, `reduce` sums over lanes
//! and warps, `fold` keeps the carriers of a loop in registers, `dot` finds packed integer dots, [`align`] makes loads that a thread can do, `sync` adds barriers, and
//! [`planes`] makes weights lie so that a lane can read 16 bytes of them at once. What comes before (the rewrites, the
//! schedule, the nests) and the index algebra are shared with the CPU.

pub mod align;
mod cut;
mod dot;
mod fold;
mod gathered;
mod matrix;
pub mod plan;
pub mod planes;
mod reduce;
mod sync;
mod threads;
pub mod tile;

pub use plan::Plan;

use crate::kernel::body::Body;
use crate::lower::{Cut, Nest};
use crate::program::Geometry;
use crate::render::cuda;
use crate::schedule::Schedule;
use crate::target::Target;
use ir::Graph;

/// A GPU that is used by this plan.
pub(crate) struct Gpu<'a>(pub(crate) &'a Plan);

impl Target for Gpu<'_> {
    fn prelude(&self) -> &'static str {
        cuda::PRELUDE
    }

    fn lays_planes(&self) -> bool {
        true
    }

    fn has_matrix_unit(&self) -> bool {
        false
    }

    fn cut(&self, g: &mut Graph, s: &Schedule, group: usize) -> Cut {
        cut::cut(g, s, group, self.0)
    }

    fn tile(&self, g: &mut Graph, nest: &Nest) -> (Body, bool) {
        (tile::tile(g, nest, self.0), false)
    }

    fn render(&self, g: &mut Graph, symbol: &str, body: &Body, slots: usize, vars: &[String]) -> String {
        cuda::kernel(g, symbol, body, slots, vars)
    }

    fn geometry(&self, g: &Graph, body: &Body) -> Geometry {
        cuda::geometry(g, body)
    }
}

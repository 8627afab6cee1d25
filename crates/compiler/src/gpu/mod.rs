//! Kernels of blocks of threads, from the same nests as those of a CPU.
//!
//! A task is a block; what a task keeps (its stashes) lies in shared memory, and the threads of the block divide the
//! elements of each item among them. `cut` and [`plan`] say how many blocks and threads there are,
//! `threads` gives elements to threads, [`tile`](mod@tile) decides for each item, `reduce` sums over lanes
//! and warps, `fold` and `warp_rows` keep what a loop computes in registers, `dot` finds packed integer dots, [`align`] makes loads
//! that a thread can do, `registers` keeps small stashes in the threads that need them, `lane_rows` what a recurrence carries,
//! `joined` stores words instead of bytes, `early` puts loads first and `sync` adds barriers, of which `scope` says what they
//! order. `select` chooses how a thread computes each value, and `launch` says what a launch has to provide. What comes before (the rewrites, the schedule, the nests) and the index algebra are shared with the
//! CPU.

mod ahead;
pub mod align;
mod banks;
mod batch;
mod carried;
mod cooperative;
mod cut;
mod dot;
pub(crate) mod early;
mod fold;
mod gathered;
mod int_tile;
mod joined;
mod lane_rows;
pub(crate) mod launch;
mod matrix;
mod places;
pub mod plan;
mod reduce;
mod registers;
mod scope;
pub(crate) mod select;
mod sync;
mod threads;
pub mod tile;
mod tokens;
mod warp_rows;
mod warps;
mod whole_product;
mod wide_map;

pub use plan::GpuPlan;

use crate::kernel::body::{Body, shared_by_turns, whole_matrices};
use crate::lower::{Cut, Nest};
use crate::program::Geometry;
use crate::render::{Unwritable, cuda, wgsl};
use crate::schedule::Schedule;
use crate::target::Target;
use ir::{DType, Graph, Language};

/// What kernels of blocks are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GpuLanguage {
    /// CUDA C++.
    #[default]
    Cuda,
    /// The language of WebGPU.
    Wgsl,
}

/// A GPU that is used by this plan.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// How it is used, and what it is.
    pub plan: GpuPlan,
    /// What it is told in.
    pub language: GpuLanguage,
}

impl Target for Gpu {
    fn prelude(&self) -> &'static str {
        match self.language {
            GpuLanguage::Cuda => cuda::PRELUDE,
            GpuLanguage::Wgsl if self.plan.cooperative => wgsl::PRELUDE_OF_MATRICES,
            GpuLanguage::Wgsl => wgsl::PRELUDE,
        }
    }

    fn language(&self) -> Language {
        match self.language {
            GpuLanguage::Cuda => Language::Cuda,
            GpuLanguage::Wgsl => Language::Wgsl,
        }
    }

    fn lays_planes(&self) -> bool {
        true
    }

    /// Keys and values of a long past are made once a step of a prompt: of 32,768 tokens GLM-4.7-Flash reads 8,150 a second
    /// with 4096 a step and 6,860 with 2048 (bench/JOURNAL.md).
    fn step_tokens(&self) -> i64 {
        if self.plan.multiplies { 4096 } else { 2048 }
    }

    fn multiplies_signed(&self) -> bool {
        true
    }

    fn loads_early(&self) -> bool {
        true
    }

    fn multiplied_half(&self) -> Option<DType> {
        let half = if self.plan.cooperative { Some(DType::F16) } else { self.plan.multiplies.then_some(DType::BF16) };
        half.filter(|_| self.plan.halves)
    }

    fn multiplies_blocks_as_halves(&self) -> bool {
        self.multiplied_half().is_some() && (self.plan.groups || self.plan.cooperative) && self.plan.halves_of_blocks
    }

    /// Two, where tiles leave half of the multiprocessors idle: more tiles of fewer elements. Of still fewer, others of their stage
    /// run beside them: with shared experts in parts GLM-4.7-Flash reads prompts 0.95 times as fast (bench/JOURNAL.md).
    fn sum_parts(&self, rows: i64, tokens: i64, elements: i64) -> i64 {
        let GpuPlan { processors, tile_rows, tile_tokens, split_k, .. } = self.plan;
        let tiles = ((rows + tile_rows - 1) / tile_rows) * ((tokens + tile_tokens - 1) / tile_tokens);
        let idle = 2 * tiles <= processors && 5 * tiles > 2 * processors;
        if split_k > 0 && elements >= 2 * split_k && idle { 2 } else { 1 }
    }

    fn has_matrix_unit(&self) -> bool {
        false
    }

    fn cut(&self, g: &mut Graph, s: &Schedule, group: usize) -> Cut {
        cut::cut(g, s, group, &self.plan)
    }

    fn joins_stages(&self) -> bool {
        self.plan.join
    }

    /// What matrices are loaded from as a whole lies in arrays of their own, so that all that kernels side by side have of these
    /// has to fit. Kernels without such matrices have more threads at once than those with them.
    fn fit_beside(&self, g: &mut Graph, nests: &[Nest]) -> bool {
        if !self.plan.cooperative {
            return true;
        }
        let threads = self.threads(g, &nests.iter().collect::<Vec<_>>());
        let bodies: Vec<Body> = nests.iter().map(|nest| self.tile(g, nest, threads)).collect();
        let whole: Vec<bool> = bodies.iter().map(|body| !whole_matrices(g, body.root).is_empty()).collect();
        let fit = |g: &Graph| shared_by_turns(g, &bodies, launch::ALIGN).iter().sum::<usize>() <= self.plan.shared;
        !whole.contains(&true) || self.plan.halves && !whole.contains(&false) && fit(g)
    }

    fn most_slots(&self) -> usize {
        self.plan.slots
    }

    fn alignment(&self) -> usize {
        self.plan.alignment
    }

    fn threads(&self, g: &mut Graph, nests: &[&Nest]) -> i64 {
        nests.iter().map(|nest| warps::wanted(g, nest, &self.plan)).max().unwrap_or(1) * self.plan.lanes
    }

    fn tile(&self, g: &mut Graph, nest: &Nest, threads: i64) -> Body {
        let plan = GpuPlan { warps: threads / self.plan.lanes, ..self.plan.clone() };
        tile::tile(g, nest, &plan)
    }

    fn render(
        &self,
        g: &mut Graph,
        symbol: &str,
        body: &Body,
        slots: usize,
        vars: &[String],
    ) -> Result<String, Unwritable> {
        let selection = select::select(g, &[body.root, body.tasks]);
        match self.language {
            GpuLanguage::Cuda => cuda::kernel(g, symbol, body, &selection, &self.plan, slots, vars),
            GpuLanguage::Wgsl => wgsl::kernel(g, symbol, body, &selection, &self.plan, slots, vars),
        }
    }

    fn geometry(&self, g: &Graph, body: &Body) -> Geometry {
        launch::geometry(g, body, &self.plan)
    }
}

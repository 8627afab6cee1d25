//! Kernels for the cores of a CPU: which loops become lanes, which are unrolled, and how sums are accumulated.
//!
//! `cut` shares out tasks by a [`plan`]; [`tile`](mod@tile) takes the first path that fits each item, and a path is a file
//! or a folder. `select` says which instructions compute what came out, and `render::c` writes them down.

mod bf16_tile;
pub(crate) mod cut;
mod dot;
mod hoisted_dequant;
mod int_tile;
mod panels;
pub mod plan;
pub(crate) mod select;
mod summed_map;
pub mod tile;
mod transposed_map;
mod vectors;

use crate::kernel::body::Body;
use crate::lower::{Cut, Nest};
use crate::program::Geometry;
use crate::render::{Unwritable, c};
use crate::schedule::Schedule;
use crate::target::Target;
use cut::Cuts;
use ir::{DType, Graph, Language, Space};
use plan::Plan;

/// The cores of a CPU, and how they are used.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Widths and unrolling.
    pub plan: Plan,
    /// How the tasks of a kernel are cut.
    pub cuts: Cuts,
}

impl Cpu {
    /// With vectors of this many bytes.
    pub fn of_vectors(bytes: usize) -> Cpu {
        Cpu { plan: Plan::of_vectors(bytes), cuts: Cuts::Sized }
    }
}

impl Target for Cpu {
    fn prelude(&self) -> &'static str {
        c::PRELUDE
    }

    fn language(&self) -> Language {
        Language::C
    }

    fn lays_planes(&self) -> bool {
        false
    }

    fn step_tokens(&self) -> i64 {
        1024
    }

    fn multiplies_signed(&self) -> bool {
        false
    }

    fn loads_early(&self) -> bool {
        false
    }

    fn multiplied_half(&self) -> Option<DType> {
        None
    }

    fn multiplies_blocks_as_halves(&self) -> bool {
        false
    }

    fn has_matrix_unit(&self) -> bool {
        self.plan.matrix_unit
    }

    fn cut(&self, g: &mut Graph, s: &Schedule, group: usize) -> Cut {
        match self.cuts {
            Cuts::Sized => cut::choose_cut(g, s, group, &self.plan),
            Cuts::Random(seed) => cut::random_cut(g, s, group, seed),
        }
    }

    fn joins_stages(&self) -> bool {
        false
    }

    fn threads(&self, _: &mut Graph, _: &[&Nest]) -> i64 {
        1
    }

    fn tile(&self, g: &mut Graph, nest: &Nest, _: i64) -> Body {
        tile::tile(g, nest, &self.plan)
    }

    fn render(
        &self,
        g: &mut Graph,
        symbol: &str,
        body: &Body,
        _: usize,
        vars: &[String],
    ) -> Result<String, Unwritable> {
        let selection = select::select(g, body.root, &self.plan);
        c::kernel(g, symbol, body, &selection, vars)
    }

    fn geometry(&self, g: &Graph, body: &Body) -> Geometry {
        Geometry {
            threads: 1,
            widest: None,
            shared_bytes: 0,
            scratch_bytes: body.bytes_in(g, Space::Task, c::ALIGN),
            waits: false,
        }
    }
}

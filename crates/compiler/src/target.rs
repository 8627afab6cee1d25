//! What kernels are made for. The rest of the compiler asks nothing else about it, and nothing asks which one it is.

use crate::kernel::body::Body;
use crate::lower::{Cut, Nest};
use crate::program::Geometry;
use crate::render::Unwritable;
use crate::schedule::Schedule;
use ir::{DType, Graph, Language};

/// A kind of machine: how kernels are cut into tasks for it, tiled, and written down.
pub(crate) trait Target {
    /// Source before all kernels.
    fn prelude(&self) -> &'static str;

    /// What its kernels are written in.
    fn language(&self) -> Language;

    /// Whether rows of weights in block formats lie in planes.
    fn lays_planes(&self) -> bool;

    /// Tokens of a prompt that are worth one step: enough that each row of weights serves many.
    fn step_tokens(&self) -> i64;

    /// Whether its integer dots take signed bytes on both sides.
    fn multiplies_signed(&self) -> bool;

    /// Whether kernels read weights before the launches that they need are over.
    fn loads_early(&self) -> bool;

    /// The numbers of 16 bits that steps of several tokens round weights of 16 bits and their input to and multiply, if they do.
    fn multiplied_half(&self) -> Option<DType>;

    /// Whether they do so with weights in block formats.
    fn multiplies_blocks_as_halves(&self) -> bool;

    /// Parts in which a sum of so many products is computed, for each of these rows of weights and tokens: 1, if it is not split.
    fn sum_parts(&self, _rows: i64, _tokens: i64, _elements: i64) -> i64 {
        1
    }

    /// Whether a matrix unit multiplies rows of block formats with many tokens.
    fn has_matrix_unit(&self) -> bool;

    /// How the tasks of a group are cut.
    fn cut(&self, g: &mut Graph, s: &Schedule, group: usize) -> Cut;

    /// Whether the kernels of a stage become one.
    fn joins_stages(&self) -> bool;

    /// Whether nests of a stage become one kernel.
    fn fit_beside(&self, _: &mut Graph, _: &[Nest]) -> bool {
        true
    }

    /// Buffers of a kernel at most.
    fn most_slots(&self) -> usize {
        usize::MAX
    }

    /// Bytes at whose multiples values between kernels lie.
    fn alignment(&self) -> usize {
        64
    }

    /// Threads that run a task of these nests together, if they are one kernel.
    fn threads(&self, g: &mut Graph, nests: &[&Nest]) -> i64;

    /// A nest as a kernel with so many threads.
    fn tile(&self, g: &mut Graph, nest: &Nest, threads: i64) -> Body;

    /// The source of a kernel with `slots` buffers; `vars` names the variables in the order of its parameters.
    ///
    /// # Errors
    /// What its language has no words for.
    fn render(
        &self,
        g: &mut Graph,
        symbol: &str,
        body: &Body,
        slots: usize,
        vars: &[String],
    ) -> Result<String, Unwritable>;

    /// What a launch of a kernel has to provide.
    fn geometry(&self, g: &Graph, body: &Body) -> Geometry;
}

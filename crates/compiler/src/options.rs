//! What a compilation may do.

use crate::cpu::Cpu;
pub use crate::cpu::cut::Cuts;
use crate::cpu::plan::Plan;
use crate::cpu::tuned::Tuned;
use crate::gpu::{self, Gpu};
use crate::schedule::Prices;
use crate::target::Target;
use std::sync::Arc;

/// How numbers are represented while a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// f32 activations and sums.
    Exact,
    /// Weights in block formats read 8-bit integer codes of their input.
    Int8,
}

/// What a compilation may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The numerics policy.
    pub numerics: Numerics,
    /// Widths and unrolling.
    pub plan: Plan,
    /// Kernels of a CPU that have a plan of their own.
    pub tuned: Arc<Tuned>,
    /// Blocks of threads, if the target is a GPU; `plan` is for a CPU.
    pub gpu: Option<gpu::Plan>,
    /// Scheduling limits.
    pub prices: Prices,
    /// Names of what is skipped, see [`crate::switches()`].
    pub without: Vec<String>,
    /// How the tasks of a kernel for a CPU are cut.
    pub cuts: Cuts,
    /// Whether every pass is followed by a check of its grammar; the default in debug builds.
    pub check: bool,
}

impl Options {
    /// What kernels are made for.
    pub(crate) fn target(&self) -> Box<dyn Target + '_> {
        match &self.gpu {
            Some(plan) => Box::new(Gpu(plan)),
            None => Box::new(Cpu { plan: &self.plan, tuned: &self.tuned, cuts: self.cuts }),
        }
    }

    /// The defaults for a CPU with vectors of this many bytes.
    pub fn cpu(numerics: Numerics, vector_bytes: usize) -> Options {
        Options {
            numerics,
            plan: Plan::of_vectors(vector_bytes),
            tuned: Arc::default(),
            gpu: None,
            prices: Prices::cpu(),
            without: vec![],
            cuts: Cuts::Sized,
            check: cfg!(debug_assertions),
        }
    }

    /// The defaults for a GPU.
    pub fn gpu(numerics: Numerics) -> Options {
        Options { gpu: Some(gpu::Plan::default()), prices: Prices::gpu(), ..Options::cpu(numerics, 0) }
    }

    /// These options for steps of many tokens: with a matrix unit, rows of block formats are multiplied with tokens
    /// in bf16, which needs no codes of the input.
    pub fn for_many_tokens(&self) -> Options {
        let mut options = self.clone();
        options.plan.matrix_unit &= self.numerics == Numerics::Int8 && self.allows("product");
        if options.plan.matrix_unit {
            options.numerics = Numerics::Exact;
        }
        options
    }

    /// These options for steps in which each token has the same bits whatever is beside it: nothing is computed in
    /// another way for few tokens than for many, nor by plans that were measured for a number of tokens.
    pub fn batch_invariant(&self) -> Options {
        let mut options = self.clone();
        options.tuned = Arc::default();
        options.plan.matrix_unit = false;
        options.plan.stream_below = 0;
        options
    }

    /// These options for steps of few tokens, which do without the matrix unit.
    pub fn for_few_tokens(&self) -> Options {
        let mut options = self.clone();
        options.plan.matrix_unit = false;
        options
    }
}

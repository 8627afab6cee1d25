//! What a compilation may do.

use crate::cpu::Cpu;
pub use crate::cpu::cut::Cuts;
use crate::cpu::plan::Plan;
use crate::gpu::{Gpu, GpuLanguage, GpuPlan};
pub use crate::machine::Machine;
use crate::schedule::{ExpertTiles, Fusions, Heads, Latents, Prices, Several, Short, Splits, TiledHeads, Usual};
use crate::target::Target;
use crate::tuned::Tuned;
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
    /// What kernels are made for.
    pub machine: Machine,
    /// Kernels that have a plan of their own.
    pub tuned: Arc<Tuned>,
    /// Scheduling limits.
    pub prices: Prices,
    /// Names of what is skipped, see [`crate::switches()`].
    pub without: Vec<String>,
    /// Whether every pass is followed by a check of its grammar; the default in debug builds.
    pub check: bool,
}

impl Options {
    /// What kernels are made for.
    pub(crate) fn target(&self) -> &dyn Target {
        self.machine.target()
    }

    fn on(numerics: Numerics, machine: Machine, prices: Prices) -> Options {
        Options { numerics, machine, tuned: Arc::default(), prices, without: vec![], check: cfg!(debug_assertions) }
    }

    /// The defaults for a CPU with vectors of this many bytes.
    pub fn cpu(numerics: Numerics, vector_bytes: usize) -> Options {
        Options::on(numerics, Machine::Cpu(Cpu::of_vectors(vector_bytes)), Prices::cpu())
    }

    /// The defaults for a GPU that runs CUDA: an H200.
    pub fn gpu(numerics: Numerics) -> Options {
        Options::cuda(numerics, GpuPlan::default(), Prices::gpu())
    }

    /// The defaults for a GPU that runs CUDA, of so many multiprocessors and a memory that gives so many bytes a microsecond.
    pub fn gpu_of(numerics: Numerics, processors: i64, bytes: f64) -> Options {
        Options::cuda(numerics, GpuPlan::default().with_processors(processors), Prices::of_gpu(processors, bytes))
    }

    fn cuda(numerics: Numerics, plan: GpuPlan, prices: Prices) -> Options {
        let fusions = Fusions { codes_to_halves: numerics == Numerics::Int8, ..prices.fusions };
        Options::on(numerics, Machine::Gpu(Gpu { plan, language: GpuLanguage::Cuda }), Prices { fusions, ..prices })
    }

    /// The defaults for a GPU that runs WGSL, with subgroups of 32 lanes.
    pub fn wgsl(numerics: Numerics) -> Options {
        Options::wgsl_on(numerics, GpuPlan::portable(32, 256))
    }

    /// The same where they multiply matrices as a whole.
    pub fn wgsl_of_matrices(numerics: Numerics) -> Options {
        Options::wgsl_on(numerics, GpuPlan::of_matrices())
    }

    /// The defaults for a GPU that runs WGSL and is used by this plan.
    pub fn wgsl_on(numerics: Numerics, plan: GpuPlan) -> Options {
        // Without products of matrices the heads of a task wait for each other: with two of a latent GLM-4.7-Flash decodes at a
        // depth of 4,000 0.88 times as fast, and four sequences of Youtu-LLM-2B 0.90 times. A tile has them side by side, with which
        // both decode there 1.12 and 1.14 times as fast (bench/JOURNAL.md).
        let heads = Heads { of_group: 2, of_latent: 1, of_run: 1 };
        let tiled_heads = plan.cooperative.then_some(TiledHeads { heads: 16, splits: 64 });
        // With few pages there are threads enough for a head in each task.
        let short = Some(Short { heads: 1, pages: if plan.cooperative { 16 } else { 32 } });
        // The room for more is beyond what kernels of many adapters reach.
        let latents = Latents { pages: 256, ..Prices::gpu().latents };
        let (usual, several) = match plan.cooperative {
            // Tiles take as long however many places are empty: 32 sequences of Youtu-LLM-2B 31 ms a step with tiles of 128 tokens,
            // and 14 where they are planned for as many. With experts, of which each has few of the tokens, 16, 32 and 48 sequences
            // are 2.3, 1.7 and 1.3 times as fast without any (DeepSeek-V2-Lite; bench/JOURNAL.md).
            true => (Usual { many: 64, ..Prices::gpu().usual }, Some(Several { most: 48, usual: 24, tiles: false })),
            // One program for several tokens, as the driver compiles each in the foreground.
            false => (Usual { many: 32, beside: 64, ..Prices::gpu().usual }, None),
        };
        // A place that is empty costs little beside a block that is unpacked for it, and most prompts are longer than usual ones:
        // of 2048 tokens DeepSeek-V2-Lite reads 1.2 times as many as with 64 places (bench/JOURNAL.md).
        let expert_tiles = match plan.cooperative {
            true => ExpertTiles { most: 128, of_usual: 4 },
            false => Prices::gpu().expert_tiles,
        };
        // Sums by lanes share nothing: a llama of 1B reads prompts of 2048 1.6 times as fast token by token.
        let alone = if plan.cooperative { Prices::gpu().alone } else { 0.5 };
        // A tile of queries is copied to shared memory for each page.
        let chosen_halves = plan.cooperative && numerics == Numerics::Int8;
        let fusions = Fusions { chosen_halves, ..Prices::gpu().fusions };
        // Tiles are of one size here. By CUDA a shared expert has larger ones, whose memory the blocks of all experts have then: prompts
        // of DeepSeek-V2-Lite are 0.85 times as fast (bench/JOURNAL.md).
        let beside_larger = plan.cooperative;
        // Each with a task for every head, which read a page again.
        let splits = Splits { of_latent: 16, ..Prices::gpu().splits };
        let prices = Prices {
            heads,
            tiled_heads,
            short,
            splits,
            several,
            usual,
            expert_tiles,
            alone,
            latents,
            beside_larger,
            fusions,
            ..Prices::gpu()
        };
        Options::on(numerics, Machine::Gpu(Gpu { plan, language: GpuLanguage::Wgsl }), prices)
    }

    /// Widths and unrolling, if kernels are for a CPU.
    pub fn plan(&self) -> Option<&Plan> {
        self.machine.plan()
    }

    /// Changes how a CPU is used, if kernels are for one.
    pub fn on_cpu(&mut self, change: impl FnOnce(&mut Cpu)) {
        if let Machine::Cpu(cpu) = &mut self.machine {
            change(cpu);
        }
    }

    /// Changes how a GPU is used, if kernels are for one.
    pub fn on_gpu(&mut self, change: impl FnOnce(&mut GpuPlan)) {
        if let Machine::Gpu(Gpu { plan, .. }) = &mut self.machine {
            change(plan);
        }
    }

    /// These options for a CPU that is used in another way.
    #[must_use]
    pub fn with_cpu(mut self, change: impl FnOnce(&mut Cpu)) -> Options {
        self.on_cpu(change);
        self
    }

    /// Tokens of a prompt that are computed in one step unless somebody asks for another number.
    pub fn step_tokens(&self) -> i64 {
        self.target().step_tokens()
    }

    /// These options for launches that are long: each begins when those before it are over, so that none waits where
    /// another could run.
    #[must_use]
    pub fn without_overlap(mut self) -> Options {
        self.on_gpu(|plan| plan.overlap = false);
        self
    }

    /// These options for steps of many tokens: with a matrix unit, rows of block formats are multiplied with tokens
    /// in bf16, which needs no codes of the input.
    pub fn for_many_tokens(&self) -> Options {
        let wanted = self.numerics == Numerics::Int8 && self.allows("product");
        let mut options = self.clone().with_cpu(|cpu| cpu.plan.matrix_unit &= wanted);
        if options.target().has_matrix_unit() {
            options.numerics = Numerics::Exact;
        }
        options
    }

    /// These options for steps in which each token has the same bits whatever is beside it: nothing is computed in
    /// another way for few tokens than for many, nor by plans that were measured for a number of tokens.
    pub fn batch_invariant(&self) -> Options {
        let mut untuned = Options { tuned: Arc::default(), ..self.clone() };
        untuned.on_gpu(|gpu| gpu.halves = false);
        untuned.with_cpu(|cpu| {
            cpu.plan.matrix_unit = false;
            cpu.plan.stream_below = 0;
        })
    }

    /// These options for steps of several tokens: as of many, but memory is what they wait for, and integer dots need less of
    /// a GPU's registers.
    pub fn for_several_tokens(&self) -> Options {
        let mut options = self.for_many_tokens();
        options.on_gpu(|gpu| gpu.halves_of_blocks = false);
        options
    }

    /// These options for steps of few tokens, which do without the matrix unit of a CPU.
    pub fn for_few_tokens(&self) -> Options {
        let mut options = self.clone().with_cpu(|cpu| cpu.plan.matrix_unit = false);
        options.on_gpu(|gpu| gpu.halves_of_blocks = false);
        options
    }

    /// These options for steps of one token, whose products have one side.
    pub fn for_one_token(&self) -> Options {
        let mut options = self.for_few_tokens();
        options.on_gpu(|gpu| gpu.halves = false);
        options
    }
}

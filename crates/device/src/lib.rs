//! Devices run programs that the compiler made; they do not know what the
//! kernels compute.
//!
//! A [`Device`] loads a [`Program`] for a [`Memory`] and gives an
//! [`Executable`], which runs one step at a time. Weights are added to the
//! memory before programs are loaded; inputs, outputs and states come into
//! being with the first program that names them.
//!
//! - [`cpu`]: C kernels, the system's compiler, a pool of threads;
//! - [`interpreter`]: the compiler's IR, every access checked, no C compiler needed;
//! - [`null`]: runs nothing.
//!
//! Kernels can also be built without a device, for this machine or another: [`cpu::ahead`]. What lies on disk is in
//! [`store`], what the system gives in [`host`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use compiler::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage};
//! use device::{Cpu, CpuConfig, Device, Memory};
//!
//! let double = "void twice(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {
//!     for (int64_t i = begin; i < end; i++) ((float *)bufs[0])[i] = 2 * ((const float *)bufs[1])[i];
//! }";
//! let buffer = |kind, name: &str| Buffer { kind, bytes: 16, name: name.into() };
//! let program = Program {
//!     name: "example".into(),
//!     prelude: "#include <stdint.h>\n".into(),
//!     buffers: vec![
//!         buffer(BufferKind::Output("y".into()), "y"),
//!         buffer(BufferKind::Input("x".into()), "x"),
//!     ],
//!     kernels: vec![Kernel::of_source("twice", double, 0)],
//!     stages: vec![Stage {
//!         launches: vec![Launch {
//!             kernel: 0,
//!             args: vec![0, 1],
//!             tasks: Count::Const(4),
//!             origin: "the only operation".into(),
//!             ..Launch::default()
//!         }],
//!     }],
//!     ..Program::default()
//! };
//!
//! let cpu = Cpu::new(&CpuConfig::from_environment())?;
//! let mut memory = Memory::new();
//! let mut step = cpu.load(Arc::new(program), &mut memory)?;
//! memory.input_mut("x")?.copy_from_slice(&[1.0_f32, 2.0, 3.0, 4.0]);
//! step.run(&mut memory, &[])?;
//! assert_eq!(memory.output::<f32>("y")?, [2.0, 4.0, 6.0, 8.0]);
//! # Ok::<(), device::Error>(())
//! ```

pub mod cpu;
pub mod error;
pub mod heap;
pub mod host;
pub mod interpreter;
pub mod memory;
pub mod null;
pub mod packing;
pub mod profile;
pub mod store;
pub mod validate;

use std::sync::Arc;

use compiler::program::Program;
use compiler::{Numerics, Options};

pub use cpu::ahead::Ahead;
pub use cpu::isa::{Extra, Isa, Target};
pub use cpu::objects::{CompileReport, Progress};
pub use cpu::threads::default_threads;
pub use cpu::toolchain::{Toolchain, ToolchainConfig};
pub use cpu::{Cpu, CpuConfig};
pub use error::{Error, Result};
pub use heap::{Block, Heap, Port, Requested};
pub use host::available::{available_memory, memory_limit, total_memory};
pub use host::lock::{Holder, MachineLock};
pub use host::stop::Stop;
pub use interpreter::Interpreter;
pub use memory::{Beside, Element, Memory, MemoryPlan, Pending, Place};
pub use null::Null;
pub use profile::{Clock, LaunchTime, MatrixUnits, Profile, StageTime};
pub use store::cache::{CacheConfig, Warning, pack};
pub use store::folder::BuildFolder;
pub use store::pack::Pack;
pub use store::trust::Refusal;
pub use store::tuned::TunedPlans;

/// Steps that are sent before the result of one is known, by a device that works beside the host, if nothing else is said: it has
/// the next step while the host looks at a token. More of them only are for nothing when a text ends.
pub const AHEAD: usize = 1;

/// Steps that may be sent before the result of one is known, at most.
pub const MOST_AHEAD: usize = 4;

/// What a model takes of a device that has a copy of its weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of weights and cache.
    pub bytes: u64,
    /// Bytes of the largest weight, or state of the cache, among them.
    pub largest: u64,
}

/// Something that can run programs.
pub trait Device: Send + Sync {
    /// What it is, for reports.
    fn name(&self) -> String;

    /// What programs are compiled for; by default the best level of this machine's processor.
    fn options(&self, numerics: Numerics) -> Options {
        Target { isa: Isa::detect(), extras: vec![] }.options(numerics)
    }

    /// Memory for programs of this device. By default that of the host.
    fn memory(&self) -> Memory {
        Memory::new()
    }

    /// Bytes that programs, and weights if it keeps them, may take; `None` if the system does not say.
    fn available_memory(&self) -> Option<u64> {
        host::available::available_memory()
    }

    /// Bytes of one weight or state at most; `None` without a bound of its own.
    fn largest_block(&self) -> Option<u64> {
        None
    }

    /// Whether weights are copied into memory of its own. Otherwise they are read where they are, in a mapped file.
    fn keeps_weights(&self) -> bool {
        false
    }

    /// Workers, each with scratch of its own, in steps of few tokens or of many ([`Program::many_tokens`]).
    fn workers(&self, many_tokens: bool) -> usize {
        let _ = many_tokens;
        1
    }

    /// Whether it still works. Whoever had a step that failed asks: if this fails as well, no other step will do better.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// How many steps more are worth sending before the result of one is known. None, where a step is over when
    /// [`Executable::run`] returns.
    fn steps_ahead(&self) -> usize {
        0
    }

    /// Makes a program ready to run: checks it, compiles its kernels, and
    /// binds its buffers in `memory`.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a program that breaks its contract,
    /// [`Error::Weight`] for one whose weights are not in `memory`,
    /// [`Error::Repack`] for one whose weights cannot be repacked as it says,
    /// [`Error::OutOfMemory`], and errors of the device's compiler.
    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>>;

    /// Whether [`Device::compile_beside`] does anything.
    fn compiles_beside(&self) -> bool {
        false
    }

    /// Compiles the kernels of a program while steps of others run, so that [`Device::load`] of the same one has nothing to
    /// compile, and says how. On the calling thread, whose priority others inherit, until `stop` says so.
    ///
    /// # Errors
    /// Of the device's compiler, [`Error::NotBuilt`] if there is none; [`Error::Stopped`].
    fn compile_beside(&self, program: &Arc<Program>, stop: &Stop) -> Result<CompileReport> {
        let _ = stop;
        Ok(CompileReport { kernels: program.kernels.len(), ..CompileReport::default() })
    }

    /// Calls `job` with each number below `count`, in any order, on the threads
    /// that otherwise run steps, and returns when all calls have: for what the
    /// host does between steps. A device without threads on the host calls from
    /// the thread that asks.
    ///
    /// # Errors
    /// [`Error::WorkerPanicked`] if a call did; others may then be missing.
    fn parallel_for(&self, count: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        (0..count).for_each(job);
        Ok(())
    }

    /// What [`Device::keep`] was given for a program that follows from the same text, by this build of this program. A
    /// device that keeps none, or that needs the IR of kernels, has nothing.
    fn kept(&self, follows_from: &str) -> Option<Vec<u8>> {
        let _ = follows_from;
        None
    }

    /// Where plans of kernels are kept that a search finds on this device, which takes those that are there when it is opened;
    /// `None` for a device without, or if kernels are not kept.
    fn tuned_plans(&self, kept: &CacheConfig) -> Option<TunedPlans> {
        let _ = kept;
        None
    }

    /// Keeps a program in bytes for later processes, where there is a place for it.
    fn keep(&self, follows_from: &str, program: &[u8]) {
        let _ = (follows_from, program);
    }
}

/// A loaded program.
///
/// A step borrows the memory alone: programs that share one take turns, and
/// the host reads outputs after a step, not during it.
pub trait Executable: Send {
    /// What it runs.
    fn program(&self) -> &Program;

    /// How it was compiled.
    fn report(&self) -> &CompileReport;

    /// Runs one step with these values of the program's variables. Allocates
    /// nothing, but in the interpreter. When it returns, inputs may be written for the next one; a device that works beside
    /// the host may still be at it, and what is read from the memory then waits for it, and tells of its failure.
    ///
    /// # Errors
    /// [`Error::VariableCount`], [`Error::VariableRange`],
    /// [`Error::TaskCount`] and [`Error::OtherMemory`] before anything runs;
    /// [`Error::WorkerPanicked`] and [`Error::Kernel`] when buffers are
    /// already half written.
    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()>;

    /// As [`Executable::run`], and takes the time of every launch.
    ///
    /// # Errors
    /// As [`Executable::run`].
    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64], clock: Clock) -> Result<Profile>;
}

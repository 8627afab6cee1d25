//! Devices run programs that the compiler made; they do not know what the
//! kernels compute.
//!
//! A [`Device`] loads a [`Program`] for a [`Memory`] and gives an
//! [`Executable`], which runs one step at a time. Weights are added to the
//! memory before programs are loaded; inputs, outputs and states come into
//! being with the first program that names them.
//!
//! - [`cpu`]: C kernels, the system's compiler, a pool of threads;
//! - [`null`]: runs nothing.

pub mod cache;
pub mod cpu;
mod digest;
pub mod error;
pub mod isa;
pub mod memory;
mod mapped;
pub mod null;
pub mod objects;
mod pool;
pub mod profile;
mod region;
pub mod threads;
pub mod toolchain;
mod units;
mod validate;
mod walk;

/// The atomics of [`walk`], which tests replace by those of a model checker.
mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

use std::sync::Arc;

use compiler::program::Program;

pub use cache::{CacheConfig, Warning};
pub use cpu::{Cpu, CpuConfig};
pub use error::{Error, Result};
pub use isa::{Extra, Isa, Target};
pub use memory::{Element, Memory, MemoryPlan};
pub use null::Null;
pub use objects::{CompileReport, Progress};
pub use profile::{LaunchTime, Profile, StageTime};
pub use threads::default_threads;
pub use toolchain::{Toolchain, ToolchainConfig};

/// Something that can run programs.
pub trait Device: Send + Sync {
    /// What it is, for reports.
    fn name(&self) -> String;

    /// Makes a program ready to run: checks it, compiles its kernels, and
    /// binds its buffers in `memory`.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a program that breaks its contract,
    /// [`Error::Weight`] for one whose weights are not in `memory`,
    /// [`Error::OutOfMemory`], and errors of the device's compiler.
    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>>;
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
    /// nothing.
    ///
    /// # Errors
    /// [`Error::VariableCount`], [`Error::VariableRange`],
    /// [`Error::TaskCount`] and [`Error::OtherMemory`] before anything runs;
    /// [`Error::WorkerPanicked`] when buffers are already half written.
    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()>;

    /// As [`Executable::run`], and takes the time of every launch.
    ///
    /// # Errors
    /// As [`Executable::run`].
    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<Profile>;
}

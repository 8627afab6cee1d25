//! Kernels built ahead of time, for this machine or for others.

use std::path::{Path, PathBuf};

use compiler::program::Program;

use crate::cpu::isa::Target;
use crate::cpu::objects::{CompileReport, Objects, Progress};
use crate::cpu::toolchain::{Lazy, Toolchain, ToolchainConfig};
use crate::error::Result;
use crate::store::cache::Cache;

/// Builds kernels into a folder that [`crate::CacheConfig`] can name; runs nothing.
///
/// What is in the folder depends on the kernels, the target and the compiler, not on the machine that builds.
pub struct Ahead {
    objects: Objects,
}

impl Ahead {
    /// Finds a compiler for the target. `jobs` is how many of them run at the same time; `trusted` are folders as those
    /// of [`crate::CacheConfig::trusted`].
    ///
    /// # Errors
    /// [`crate::Error::NoCompiler`] and [`crate::Error::NoCrossCompiler`], [`crate::Error::BadCompiler`],
    /// [`crate::Error::CompilerTooOld`]; [`crate::Error::Untrusted`] for a folder that others can change.
    pub fn new(
        target: &Target,
        toolchain: &ToolchainConfig,
        folder: &Path,
        trusted: &[PathBuf],
        jobs: usize,
        progress: Option<Progress>,
    ) -> Result<Ahead> {
        let compiler = Toolchain::find_for(toolchain, target.isa.architecture())?.able_to(target)?;
        let (compiler, cache) = (Lazy::found(compiler, target), Cache::ahead(folder, trusted, target)?);
        Ok(Ahead { objects: Objects::ahead(compiler, target, cache, jobs, progress) })
    }

    /// Builds the kernels of a program that are not in the folder yet.
    ///
    /// # Errors
    /// A folder that cannot be written, and kernels that do not compile.
    pub fn build(&self, program: &Program) -> Result<CompileReport> {
        self.objects.build(program)
    }

    /// Keeps a program for [`crate::Device::kept`] of devices of the target, as [`crate::Device::keep`] does.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn keep(&self, follows_from: &str, program: &[u8]) -> Result<()> {
        self.objects.cache().keep_program_ahead(follows_from, program)
    }
}

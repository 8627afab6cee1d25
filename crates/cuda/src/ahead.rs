//! Kernels built ahead of time, for cards of this machine or others; needs the compiler, and no card.

use crate::architecture::Architecture;
use crate::cubins::{Compiling, Cubins};
use crate::driver::unusable;
use compiler::program::Program;
use device::store::blobs::Blobs;
use device::{CacheConfig, Result};
use std::path::Path;

/// Builds kernels for an architecture into a folder for [`CacheConfig`].
pub struct Ahead {
    cubins: Cubins,
}

impl Ahead {
    /// Finds the compiler.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] if there is none.
    pub fn new(architecture: Architecture, folder: &Path, config: Compiling) -> Result<Ahead> {
        let cache = CacheConfig { folder: Some(folder.into()), ..CacheConfig::from_environment() };
        let blobs = Blobs::open_public(&cache, &architecture.name());
        let cubins = Cubins::new(architecture.name(), None, config, blobs);
        cubins.nvrtc()?;
        Ok(Ahead { cubins })
    }

    /// Builds the kernels of a program that are not in the folder yet; how many.
    ///
    /// # Errors
    /// [`device::Error::Unusable`]: a folder that cannot be written, and kernels that do not compile.
    pub fn build(&self, program: &Program) -> Result<usize> {
        let (_, built) = self.cubins.codes(program)?;
        match self.cubins.blobs().problem() {
            Some(problem) => Err(unusable(problem)),
            None => Ok(built),
        }
    }
}

//! Kernels built ahead of time, for cards of this machine or others; needs the compiler, and no card.

use crate::cubins::{Compiling, Cubins};
use crate::driver::unusable;
use compiler::program::Program;
use device::blobs::Blobs;
use device::{CacheConfig, Result};
use std::path::Path;

/// Builds kernels for an architecture into a folder for [`CacheConfig`].
pub struct Ahead {
    cubins: Cubins,
}

/// Whether a name is that of an architecture, as `sm_90a`.
pub fn is_architecture(name: &str) -> bool {
    let digits = name.strip_prefix("sm_").map(|rest| rest.trim_end_matches(['a', 'f']));
    digits.is_some_and(|digits| (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()))
}

impl Ahead {
    /// Finds the compiler.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] if there is none.
    pub fn new(architecture: &str, folder: &Path, config: Compiling) -> Result<Ahead> {
        let cache = CacheConfig { folder: Some(folder.into()), ..CacheConfig::from_environment() };
        let blobs = Blobs::open_public(&cache, architecture);
        let cubins = Cubins::new(architecture.into(), None, config, blobs);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_names() {
        assert!(["sm_80", "sm_90a", "sm_100f", "sm_120"].iter().all(|name| is_architecture(name)));
        assert!(["sm_", "sm_9", "sm_a", "sm_9x", "cuda", "compute_90"].iter().all(|name| !is_architecture(name)));
    }
}

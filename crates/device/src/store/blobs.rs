//! Compiled code of devices other than the processor, kept by key.
//!
//! What a file holds follows from its key, and it begins with the digest of what follows, so a damaged one is as good as
//! none; so is one that others may have changed ([`crate::store::trust`]). A folder that cannot be written costs time at the next
//! start, and nothing now.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::store::cache::CacheConfig;
use crate::store::digest;
use crate::store::programs;
use crate::store::publish::{self, PRIVATE, PUBLIC};
use crate::store::trust::Trust;

/// Files of one kind, for example the kernels of an architecture.
pub struct Blobs {
    /// Where they are looked for; new ones go to the first if it is `own`.
    folders: Vec<PathBuf>,
    own: Option<PathBuf>,
    /// Permissions of the own folder where it is made.
    mode: u32,
    trust: Mutex<Trust>,
    /// What went wrong when something was kept.
    problem: Mutex<Option<String>>,
}

impl Blobs {
    /// Those of a kind, which is a name for a folder, in the folders of kernels.
    pub fn open(config: &CacheConfig, kind: &str) -> Blobs {
        let of = |folder: &PathBuf| folder.join("blobs-1").join(kind);
        Blobs {
            folders: config.folders().map(of).collect(),
            own: config.folder.as_ref().map(of),
            mode: PRIVATE,
            trust: Mutex::new(Trust::with(&config.trusted)),
            problem: Mutex::default(),
        }
    }

    /// As [`Blobs::open`], for a folder that others read.
    pub fn open_public(config: &CacheConfig, kind: &str) -> Blobs {
        Blobs { mode: PUBLIC, ..Blobs::open(config, kind) }
    }

    /// Why something could not be kept.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A program that was kept, in bytes.
    pub fn program(&self, follows_from: &str) -> Option<Vec<u8>> {
        let trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner).clone();
        programs::find(&self.folders, follows_from, trust)
    }

    /// Keeps a program, if the own folder can be written.
    pub fn keep_program(&self, follows_from: &str, program: &[u8]) {
        if let Some(own) = self.own.as_ref().filter(|own| own.is_dir()) {
            let _ = programs::keep(own, follows_from, program);
        }
    }

    /// The key of something that follows from these parts.
    pub fn key<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        digest::of_parts(parts)
    }

    /// What was kept under a key.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.folders.iter().find_map(|folder| {
            let opened = self.trust.lock().ok()?.open(&folder.join(key)).ok()?;
            let (mut file, mut bytes) = (opened.file, vec![]);
            file.read_to_end(&mut bytes).ok()?;
            digest::unsealed(bytes)
        })
    }

    /// Keeps bytes under a key; whether that was possible.
    pub fn keep(&self, key: &str, bytes: &[u8]) -> bool {
        let Some(own) = &self.own else { return false };
        let folder = if own.is_dir() { Ok(()) } else { publish::folder(own, self.mode) };
        let kept = folder.and_then(|()| publish::file(&own.join(key), &digest::sealed(bytes)));
        if let Err(error) = &kept {
            let text = format!("cannot write to {}: {error}", own.display());
            *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        kept.is_ok()
    }

    /// How many files there are.
    pub fn count(&self) -> usize {
        self.folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).map(Iterator::count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::BuildFolder;

    #[test]
    fn what_is_damaged_is_as_good_as_none() {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let config = CacheConfig { folder: Some(folder.path().into()), ..CacheConfig::from_environment() };
        let blobs = Blobs::open(&config, "sm_90");
        let key = Blobs::key([b"source".as_slice(), b"options"]);
        assert_eq!(blobs.get(&key), None);
        assert!(blobs.keep(&key, b"code"));
        assert_eq!((blobs.get(&key), blobs.count()), (Some(b"code".to_vec()), 1));
        assert_eq!(Blobs::open(&config, "sm_80").get(&key), None, "another kind");
        let path = folder.path().join("blobs-1/sm_90").join(&key);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(blobs.get(&key), None);
    }
}

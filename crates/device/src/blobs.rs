//! Compiled code of devices other than the processor, kept by key.
//!
//! What a file holds follows from its key, and it begins with the digest of what follows, so a damaged one is as good as
//! none; so is one that others may have changed ([`crate::trust`]). A folder that cannot be written costs time at the next
//! start, and nothing now.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::cache::CacheConfig;
use crate::digest::{self, DIGITS};
use crate::publish::{self, PRIVATE};
use crate::trust::Trust;

/// Files of one kind, for example the kernels of an architecture.
pub struct Blobs {
    /// Where they are looked for; new ones go to the first if it is `own`.
    folders: Vec<PathBuf>,
    own: Option<PathBuf>,
    trust: Mutex<Trust>,
}

impl Blobs {
    /// Those of a kind, which is a name for a folder, in the folders of kernels.
    pub fn open(config: &CacheConfig, kind: &str) -> Blobs {
        let of = |folder: &PathBuf| folder.join("blobs-1").join(kind);
        Blobs {
            folders: config.folders().map(of).collect(),
            own: config.folder.as_ref().map(of),
            trust: Mutex::new(Trust::with(&config.trusted)),
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
            let (proof, blob) = bytes.split_at_checked(DIGITS)?;
            if digest::of_bytes(blob).as_bytes() != proof {
                return None;
            }
            bytes.drain(..DIGITS);
            Some(bytes)
        })
    }

    /// Keeps bytes under a key; whether that was possible.
    pub fn keep(&self, key: &str, bytes: &[u8]) -> bool {
        let Some(own) = &self.own else { return false };
        let there = own.is_dir() || publish::folder(own, PRIVATE).is_ok();
        there && publish::file(&own.join(key), &[digest::of_bytes(bytes).as_bytes(), bytes].concat()).is_ok()
    }

    /// How many there are in the own folder.
    pub fn count(&self) -> usize {
        self.own.as_ref().and_then(|own| fs::read_dir(own).ok()).map_or(0, Iterator::count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::BuildFolder;

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

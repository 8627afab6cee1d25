//! Removing models from the cache: their links in all snapshots, and what no other link leads to.

use crate::cache::{Cache, Entry, Linked, Repo};
use crate::error::Error;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What will go.
#[derive(Debug)]
pub struct Removal {
    repo: Repo,
    /// Links to remove.
    links: Vec<PathBuf>,
    /// Blobs and unfinished downloads to remove.
    blobs: Vec<PathBuf>,
    /// Whether nothing of the repository is left then.
    whole: bool,
    /// Bytes that are free afterwards.
    pub bytes: u64,
}

impl Removal {
    /// What goes if these models of one repository do. With `unfinished`, what its downloads have left goes too.
    pub fn plan(cache: &Cache, repo: &str, entries: &[Entry], unfinished: bool) -> Removal {
        let repo = cache.repo(repo);
        let files: HashSet<&String> = entries.iter().flat_map(|entry| &entry.files).collect();
        let (gone, kept): (Vec<Linked>, Vec<Linked>) =
            repo.files().into_iter().partition(|file| files.contains(&file.path));
        let needed: HashSet<&PathBuf> = kept.iter().map(|file| &file.blob).collect();
        let own = repo.folder().canonicalize().unwrap_or_else(|_| repo.folder().to_owned());
        let mut blobs: Vec<PathBuf> = gone
            .iter()
            .map(|file| &file.blob)
            // A link may lead out of the cache: what is there is not ours.
            .filter(|blob| !needed.contains(blob) && blob.starts_with(&own))
            .cloned()
            .collect();
        blobs.sort();
        blobs.dedup();
        if unfinished {
            blobs.extend(repo.partials());
        }
        let bytes = blobs.iter().filter_map(|blob| blob.metadata().ok()).map(|meta| meta.len()).sum();
        let whole = kept.is_empty() && (unfinished || repo.partials().is_empty());
        Removal { links: gone.into_iter().map(|file| file.link).collect(), blobs, bytes, whole, repo }
    }

    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.blobs.is_empty()
    }

    /// Removes it. Links go first: whoever looks meanwhile finds no link without its bytes.
    pub fn carry_out(&self) -> Result<(), Error> {
        for path in self.links.iter().chain(&self.blobs) {
            gone(fs::remove_file(path), path)?;
        }
        if self.whole {
            for folder in [self.repo.folder(), self.repo.locks()] {
                gone(fs::remove_dir_all(folder), folder)?;
            }
            return Ok(());
        }
        let snapshots = self.repo.snapshots();
        for link in &self.links {
            // A folder that still holds something stays.
            let above = link.ancestors().skip(1).take_while(|folder| *folder != snapshots);
            let _ = above.map(fs::remove_dir).take_while(Result::is_ok).count();
        }
        self.forget_references()
    }

    /// Branches whose snapshot is gone.
    fn forget_references(&self) -> Result<(), Error> {
        let folder = self.repo.folder().join("refs");
        for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(name) = item.file_name().into_string() else { continue };
            let Some(commit) = self.repo.reference(&name) else { continue };
            if !self.repo.snapshots().join(commit).is_dir() {
                gone(fs::remove_file(item.path()), &item.path())?;
            }
        }
        Ok(())
    }
}

/// Nothing is wrong if it was gone before.
fn gone(result: std::io::Result<()>, path: &Path) -> Result<(), Error> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

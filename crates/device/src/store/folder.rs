//! Folders that code is loaded from, and folders that live for a moment.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::publish::{self, PRIVATE, unique_name};
use crate::store::trust::{Trust, Unopened};

/// What was made for a moment and is older belongs to nobody.
pub(crate) const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// How the names of files begin that show whether a folder can be written.
const PROBE: &str = "probe";

/// Whether the file system of a folder forbids to load code from it.
#[cfg(target_os = "linux")]
pub fn forbids_code(folder: &Path) -> bool {
    use rustix::fs::StatVfsMountFlags;
    rustix::fs::statvfs(folder).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Whether the file system of a folder forbids to load code from it.
#[cfg(not(target_os = "linux"))]
pub fn forbids_code(_: &Path) -> bool {
    false
}

/// Removes what processes that were killed have left behind, under names that begin so.
pub(crate) fn sweep(folder: &Path, prefixes: &[&str]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let passing = prefixes.iter().chain(&[PROBE]).any(|prefix| {
            let name = name.as_encoded_bytes();
            name.starts_with(prefix.as_bytes()) && name.get(prefix.len()) == Some(&b'-')
        });
        let age = entry.metadata().and_then(|data| data.modified());
        let age = age.map(|time| time.elapsed().unwrap_or_default());
        if passing && age.is_ok_and(|age| age > ABANDONED) {
            let path = entry.path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
}

/// Makes the folder, and checks that code may be loaded from it and that it can be written.
pub(crate) fn prepare(folder: &Path, mode: u32, mut trust: Trust) -> std::result::Result<(), Unopened> {
    publish::folder(folder, mode)?;
    trust.folder(folder)?;
    let probe = folder.join(unique_name(PROBE));
    publish::create(&probe)?.write_all(b"kernloom")?;
    Ok(fs::remove_file(&probe)?)
}

/// A fresh private folder that lives as long as this value.
#[derive(Debug)]
pub struct BuildFolder(PathBuf);

impl BuildFolder {
    /// Makes one in `parent`, whose name begins with `prefix`.
    ///
    /// # Errors
    /// [`Error::Cache`].
    pub fn new(parent: &Path, prefix: &str) -> Result<Self> {
        let folder = parent.join(unique_name(prefix));
        // Not recursive: a folder that is already there is somebody else's.
        publish::new_folder(&folder, PRIVATE).map_err(|error| Error::cache("make", &folder, error))?;
        Ok(BuildFolder(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BuildFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

//! Files that later processes load: whole or not there, and changed by nobody but their owner.
//!
//! They are made under a name of their own, exclusively, and appear by a rename. Modes are given where a file or a folder
//! is made, so that no umask, and no default access list of a folder, makes them wider. What is there already keeps its
//! mode; whether it may be loaded is for [`crate::store::trust`] to say.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Permissions of files, at most: all may read what they are let to.
#[cfg(unix)]
const FILE: u32 = 0o644;

/// Permissions of folders for this user, and for all; at most.
pub const PRIVATE: u32 = 0o700;
/// See [`PRIVATE`].
pub const PUBLIC: u32 = 0o755;

/// Names of files that are not whole yet begin with it.
pub(crate) const FRESH: &str = "fresh";

/// Writes a file that appears whole, in place of what has its name.
///
/// # Errors
/// What the system says; nothing is left behind then.
pub fn file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_file_name(unique_name(FRESH));
    let mut file = create(&fresh)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// Makes a file that is not there yet, to be read and written.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Nor does this follow a link.
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE);
    options.open(path)
}

/// Makes a folder that is not there yet.
pub(crate) fn new_folder(path: &Path, mode: u32) -> io::Result<()> {
    builder(mode).create(path)
}

/// Makes a folder, and those around it, where they are not there.
///
/// # Errors
/// What the system says.
pub fn folder(path: &Path, mode: u32) -> io::Result<()> {
    builder(mode).recursive(true).create(path)
}

fn builder(mode: u32) -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// A name that nobody else has.
pub(crate) fn unique_name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Process ids repeat across containers that share a folder; time does not.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{prefix}-{}-{now:x}-{next}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::BuildFolder;

    #[test]
    fn a_file_takes_the_place_of_another_and_nothing_else_is_left() {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let path = folder.path().join("file");
        for text in ["one", "two"] {
            file(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::create_dir(folder.path().join("taken")).unwrap();
        assert!(file(&folder.path().join("taken"), b"").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_is_replaced_and_not_followed() {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        fs::write(&victim, "as it was").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert_eq!(create(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        file(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }
}

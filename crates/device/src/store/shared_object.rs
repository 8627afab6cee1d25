//! A file of code that was checked, and loading just that file.
//!
//! On Linux the loader is given the descriptor, as a path below `/proc/self/fd`, so that nothing that happens to the name
//! of the file matters. Loaders take a path that they know for the library that they loaded by it, and numbers of
//! descriptors come again: so every path is spelled in a way that was never used before. Where there is no such folder, as
//! on macOS, the loader is given the path without links, which only root and the user can change.
//!
//! Code that was never a file of its own, as that of a pack, becomes one in memory where the system has such
//! ([`in_memory`]): no disk is written, and no mount forbids it.

use std::fs::File;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::error::{Error, Result};
use crate::store::folder;
use crate::store::trust::Trusted;

/// Shared code on disk that may be loaded.
#[derive(Debug)]
pub(crate) struct SharedObject {
    /// Where it was found.
    pub(crate) path: PathBuf,
    /// What was checked; none where it was given before.
    pub(crate) checked: Option<Trusted>,
}

impl SharedObject {
    /// Loads what was checked.
    ///
    /// # Errors
    /// [`Error::NoExec`] and [`Error::Open`].
    pub(crate) fn load(&self) -> Result<Library> {
        let Some(Trusted { file, path }) = &self.checked else {
            return Err(self.unusable("it could not be loaded before".into()));
        };
        let name = name_of(file).unwrap_or_else(|| path.clone());
        // SAFETY: the object was compiled from kernels, which have no initialisers, by this process or by one of root or
        // of the user, who alone can change it; its digest was checked.
        unsafe { open(&name) }.map_err(|error| match path.parent() {
            Some(folder) if folder::forbids_code(folder) => Error::NoExec { folder: folder.to_path_buf() },
            _ => self.unusable(error.to_string().replace(&*name.to_string_lossy(), &self.path.to_string_lossy())),
        })
    }

    /// It cannot be used, for this reason.
    pub(crate) fn unusable(&self, reason: String) -> Error {
        Error::Open { object: self.path.clone(), reason }
    }
}

/// A file in memory that nobody can change, this process included; none where the system has no such files, or no path that
/// leads to one.
#[cfg(target_os = "linux")]
pub(crate) fn in_memory(bytes: &[u8]) -> Option<Trusted> {
    use rustix::fs::{MemfdFlags, SealFlags};
    use std::io::Write;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("kernels", flags).ok()?);
    file.write_all(bytes).ok()?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)
        .ok()?;
    let path = name_of(&file)?;
    Some(Trusted { file, path })
}

/// A file in memory; there is none here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn in_memory(_: &[u8]) -> Option<Trusted> {
    None
}

/// A path that leads to an open file, and that no other file ever had; none where there are no such paths.
#[cfg(target_os = "linux")]
fn name_of(file: &File) -> Option<PathBuf> {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = String::from("/proc/self/fd");
    // A digit is a separator, or one with the folder itself behind it.
    while number > 0 {
        name += if number & 1 == 1 { "/." } else { "/" };
        number >>= 1;
    }
    let name = PathBuf::from(format!("{name}/{}", file.as_raw_fd()));
    let place = |data: fs::Metadata| (data.dev(), data.ino());
    (fs::metadata(&name).map(place).ok()? == file.metadata().map(place).ok()?).then_some(name)
}

#[cfg(not(target_os = "linux"))]
fn name_of(_: &File) -> Option<PathBuf> {
    None
}

#[cfg(unix)]
unsafe fn open(object: &Path) -> std::result::Result<Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: the caller vouches for the object.
    unsafe { Library::open(Some(object), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
unsafe fn open(object: &Path) -> std::result::Result<Library, libloading::Error> {
    // SAFETY: the caller vouches for the object.
    unsafe { Library::new(object) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::cpu::toolchain::{FLAGS, Toolchain, ToolchainConfig};
    use crate::store::folder::BuildFolder;
    use crate::store::publish;
    use crate::store::trust::Trust;
    use std::fs;

    /// Code that answers with a number.
    fn answering(number: i32) -> Vec<u8> {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        fs::write(folder.path().join("kernels.c"), format!("int answer(void) {{ return {number}; }}")).unwrap();
        let toolchain = Toolchain::find(&ToolchainConfig::from_environment()).unwrap();
        toolchain.compile(folder.path(), &FLAGS, None).unwrap();
        fs::read(folder.path().join("kernels.so")).unwrap()
    }

    fn checked(path: &Path) -> SharedObject {
        SharedObject { path: path.to_path_buf(), checked: Some(Trust::default().open(path).unwrap()) }
    }

    fn answer(library: &Library) -> i32 {
        // SAFETY: it is such a function.
        unsafe { library.get::<unsafe extern "C" fn() -> i32>(b"answer").unwrap()() }
    }

    #[test]
    fn each_is_itself_though_descriptors_have_the_same_number() {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let mut loaded = vec![];
        for number in 1..=5 {
            let path = folder.path().join(format!("{number}.so"));
            publish::file(&path, &answering(number)).unwrap();
            // The descriptor is closed here, and its number free for the next.
            loaded.push(checked(&path).load().unwrap());
        }
        assert_eq!(loaded.iter().map(answer).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_loaded_is_what_was_checked() {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let path = folder.path().join("kernels.so");
        publish::file(&path, &answering(1)).unwrap();
        let object = checked(&path);
        publish::file(&path, &answering(2)).unwrap();
        assert_eq!(answer(&object.load().unwrap()), 1);
        assert_eq!(answer(&checked(&path).load().unwrap()), 2);
        let object = checked(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(answer(&object.load().unwrap()), 2);
    }

    #[test]
    fn what_is_no_code_is_an_error_that_names_the_file() {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let path = folder.path().join("kernels.so");
        publish::file(&path, b"text").unwrap();
        let error = checked(&path).load().unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()) && !error.contains("/proc/self"), "{error}");
    }
}

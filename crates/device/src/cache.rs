//! The folder of compiled kernels.
//!
//! Shared objects are named by the digest of their own bytes, so an object
//! proves itself before it is opened, and two processes that write one write
//! the same. A small *reference* per kernel says which object holds it. Every
//! file appears by a rename: a reader sees all of it or nothing.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::digest::{self, Digest};
use crate::error::{Error, Result};

/// Changes whenever files of older versions would be misread.
const LAYOUT: &str = "kernels-1";

/// How the names of files and folders that live for a moment begin.
const BUILD: &str = "build";
const PROBE: &str = "probe";
const REFERENCE: &str = "ref";

/// Older ones belong to nobody.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Where compiled kernels are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The folder to keep them in; `None` keeps them for this process only.
    pub folder: Option<PathBuf>,
    /// Where a folder for this process is made if `folder` cannot be written.
    pub temporary: PathBuf,
}

impl CacheConfig {
    /// `kernloom` in the user's cache folder, by the environment of this
    /// process (`XDG_CACHE_HOME`, else `.cache` in the home folder).
    pub fn from_environment() -> Self {
        let absolute = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        CacheConfig { folder: caches.map(|folder| folder.join("kernloom")), temporary: std::env::temp_dir() }
    }
}

/// Something the user should know although the work went on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// New kernels are compiled again at the next start.
    #[error("kernels cannot be kept in {}: {reason}; they are compiled again at every start", folder.display())]
    CacheUnusable {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A cached object was not what its name says; it was built again.
    #[error("the compiled kernels in {} were damaged and have been built again", object.display())]
    Damaged {
        /// The object.
        object: PathBuf,
    },
    /// The compiler does not know all instructions of this machine.
    #[error("{compiler} does not know all of {machine}; kernels use {target}")]
    OldCompiler {
        /// Version line of the compiler.
        compiler: String,
        /// What the machine has.
        machine: String,
        /// What is used.
        target: String,
    },
}

/// What a look-up found.
pub(crate) enum Found {
    /// The object that holds the kernel; its bytes are as they were written.
    Object(PathBuf),
    /// An object that is not what it was.
    Damaged(PathBuf),
    /// Nothing.
    Missing,
}

/// An open cache folder, and the place that new objects go to.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Where objects are looked for.
    folder: Option<PathBuf>,
    /// Where objects are written to; the same folder unless it refused.
    output: PathBuf,
    /// Where the sources of kernels that do not compile are left.
    failures: PathBuf,
    /// Removed when the cache is dropped.
    _temporary: Option<BuildFolder>,
}

impl Cache {
    /// Opens the folder, making it if needed; falls back to a folder for this
    /// process, with a warning, if it cannot be written or trusted.
    pub(crate) fn open(config: &CacheConfig) -> Result<(Cache, Option<Warning>)> {
        let mut warning = None;
        let mut readable = None;
        if let Some(parent) = &config.folder {
            let parent = &std::path::absolute(parent).unwrap_or_else(|_| parent.clone());
            let folder = parent.join(LAYOUT);
            let reason = match prepare(&folder) {
                Ok(()) => {
                    sweep(&folder);
                    let cache = Cache {
                        folder: Some(folder.clone()),
                        failures: folder.clone(),
                        output: folder,
                        _temporary: None,
                    };
                    return Ok((cache, None));
                }
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    return Err(Error::DiskFull { folder });
                }
                Err(error) => error.to_string(),
            };
            if folder.is_dir() && trusted(&folder).is_ok() {
                readable = Some(folder);
            }
            warning = Some(Warning::CacheUnusable { folder: parent.clone(), reason });
        }
        let temporary = BuildFolder::new(&config.temporary, "kernloom")?;
        let cache = Cache {
            folder: readable,
            output: temporary.0.clone(),
            failures: config.temporary.clone(),
            _temporary: Some(temporary),
        };
        Ok((cache, warning))
    }

    /// The folder that new objects are built in.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    /// The folder for sources that did not compile; it outlives this value.
    pub(crate) fn failures(&self) -> &Path {
        &self.failures
    }

    /// The object that holds the kernel of this key. Objects in `proved` are
    /// not read again; the one that is found is added to it.
    pub(crate) fn find(&self, key: &Digest, proved: &mut HashSet<PathBuf>) -> Found {
        let places = [self.folder.as_deref(), Some(self.output.as_path())];
        let mut damaged = None;
        for folder in places.into_iter().flatten() {
            let Ok(name) = fs::read_to_string(folder.join(format!("{key}.ref"))) else {
                continue;
            };
            // The name comes from a file: it must not lead out of the folder.
            if name.len() != 64 || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
                damaged = Some(folder.join(format!("{key}.ref")));
                continue;
            }
            let object = folder.join(format!("{name}.so"));
            if proved.contains(&object) {
                return Found::Object(object);
            }
            match fs::read(&object) {
                Ok(bytes) if digest::of_bytes(&bytes) == name => {
                    proved.insert(object.clone());
                    return Found::Object(object);
                }
                Ok(_) => damaged = Some(object),
                Err(_) => {}
            }
        }
        damaged.map_or(Found::Missing, Found::Damaged)
    }

    /// Keeps a freshly built object that holds the kernels of these keys, and
    /// returns its place.
    pub(crate) fn keep(&self, built: &Path, keys: &[Digest]) -> Result<PathBuf> {
        let bytes = fs::read(built).map_err(|error| Error::cache("read", built, error))?;
        let name = digest::of_bytes(&bytes);
        let object = self.output.join(format!("{name}.so"));
        fs::rename(built, &object).map_err(|error| Error::cache("write", &object, error))?;
        for key in keys {
            let reference = self.output.join(format!("{key}.ref"));
            let fresh = self.output.join(unique_name(REFERENCE));
            fs::write(&fresh, &name)
                .and_then(|()| fs::rename(&fresh, &reference))
                .map_err(|error| Error::cache("write", &reference, error))?;
        }
        Ok(object)
    }

    /// A folder to build in, on the file system of the objects.
    pub(crate) fn build_folder(&self) -> Result<BuildFolder> {
        BuildFolder::new(&self.output, BUILD)
    }
}

fn unique_name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Process ids repeat across containers that share a folder; time does not.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{prefix}-{}-{now:x}-{next}", std::process::id())
}

/// Removes what processes that were killed have left behind.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let passing = [BUILD, PROBE, REFERENCE].iter().any(|prefix| {
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

/// Makes the folder, and checks that it is ours and can be written.
fn prepare(folder: &Path) -> io::Result<()> {
    make_private(folder, true)?;
    trusted(folder)?;
    let probe = folder.join(unique_name(PROBE));
    fs::write(&probe, b"kernloom")?;
    fs::remove_file(&probe)
}

#[cfg(unix)]
fn make_private(folder: &Path, recursive: bool) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(recursive).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_private(folder: &Path, recursive: bool) -> io::Result<()> {
    fs::DirBuilder::new().recursive(recursive).create(folder)
}

/// Code is loaded from the folder, so nobody else may write it.
#[cfg(unix)]
fn trusted(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(folder)?;
    // SAFETY: geteuid reads one number and cannot fail.
    let user = unsafe { libc::geteuid() };
    if metadata.uid() != user && metadata.uid() != 0 {
        return Err(io::Error::other("it belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("other users can write to it"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn trusted(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(|_| ())
}

/// A fresh private folder that lives as long as this value.
#[derive(Debug)]
pub(crate) struct BuildFolder(PathBuf);

impl BuildFolder {
    fn new(parent: &Path, prefix: &str) -> Result<Self> {
        let folder = parent.join(unique_name(prefix));
        // Not recursive: a folder that is already there is somebody else's.
        make_private(&folder, false).map_err(|error| Error::cache("make", &folder, error))?;
        Ok(BuildFolder(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BuildFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(name: &str) -> (BuildFolder, CacheConfig) {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let config = CacheConfig { folder: Some(folder.0.join(name)), temporary: folder.0.clone() };
        (folder, config)
    }

    fn keep(cache: &Cache, bytes: &[u8], key: &str) -> PathBuf {
        let folder = cache.build_folder().unwrap();
        let built = folder.path().join("kernels.so");
        fs::write(&built, bytes).unwrap();
        cache.keep(&built, &[key.to_string()]).unwrap()
    }

    fn find(cache: &Cache, key: &Digest) -> Found {
        cache.find(key, &mut HashSet::new())
    }

    #[test]
    fn what_was_kept_is_found_also_by_another_process() {
        let (_folder, config) = here("cache");
        let (cache, warning) = Cache::open(&config).unwrap();
        assert_eq!(warning, None);
        let key = digest::of_bytes(b"kernel");
        assert!(matches!(find(&cache, &key), Found::Missing));
        let object = keep(&cache, b"object", &key);
        let (other, _) = Cache::open(&config).unwrap();
        assert!(matches!(find(&other, &key), Found::Object(path) if path == object));
    }

    #[test]
    #[cfg(unix)]
    fn what_a_killed_process_left_is_removed_a_day_later() {
        let (_folder, config) = here("cache");
        let (cache, _) = Cache::open(&config).unwrap();
        let key = digest::of_bytes(b"kernel");
        keep(&cache, b"object", &key);
        let old = cache.output().join("build-1-2-3");
        let new = cache.output().join("build-4-5-6");
        for folder in [&old, &new] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("kernels.c"), "").unwrap();
        }
        let yesterday = std::time::SystemTime::now() - ABANDONED - Duration::from_secs(60);
        fs::File::open(&old).and_then(|file| file.set_modified(yesterday)).unwrap();
        let (cache, _) = Cache::open(&config).unwrap();
        assert!(!old.exists() && new.exists());
        assert!(matches!(find(&cache, &key), Found::Object(_)));
    }

    #[test]
    fn a_damaged_object_is_noticed_and_replaced() {
        let (_folder, config) = here("cache");
        let (cache, _) = Cache::open(&config).unwrap();
        let key = digest::of_bytes(b"kernel");
        let object = keep(&cache, b"object", &key);
        fs::write(&object, b"obj").unwrap();
        assert!(matches!(find(&cache, &key), Found::Damaged(path) if path == object));
        keep(&cache, b"object", &key);
        assert!(matches!(find(&cache, &key), Found::Object(_)));
    }

    #[test]
    fn a_reference_cannot_lead_out_of_the_folder() {
        let (_folder, config) = here("cache");
        let (cache, _) = Cache::open(&config).unwrap();
        let key = digest::of_bytes(b"kernel");
        fs::write(cache.output().join(format!("{key}.ref")), "../../evil").unwrap();
        assert!(matches!(find(&cache, &key), Found::Damaged(_)));
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_that_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, config) = here("cache");
        let inner = config.folder.as_ref().unwrap().join(LAYOUT);
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
        let (cache, warning) = Cache::open(&config).unwrap();
        let warning = warning.unwrap().to_string();
        assert!(warning.contains("other users can write"), "{warning}");
        assert_ne!(cache.output(), inner);
    }

    #[test]
    fn a_folder_that_cannot_be_made_gives_a_warning_and_a_temporary_one() {
        let (folder, config) = here("file");
        fs::write(config.folder.as_ref().unwrap(), b"in the way").unwrap();
        let (cache, warning) = Cache::open(&config).unwrap();
        assert!(matches!(warning, Some(Warning::CacheUnusable { .. })));
        let output = cache.output().to_path_buf();
        assert!(output.starts_with(&folder.0) && output.is_dir());
        keep(&cache, b"object", &digest::of_bytes(b"kernel"));
        drop(cache);
        assert!(!output.exists());
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::cache("write", Path::new("/cache/x.so"), full).to_string();
        assert!(error.contains("no space left in /cache"), "{error}");
    }
}

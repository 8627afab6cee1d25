//! The folders that this program writes to.

use super::Finding;
use crate::open::bytes;
use device::CacheConfig;
use std::path::{Path, PathBuf};

/// Kernels, and the user's state.
pub fn look(config: &CacheConfig) -> Vec<Finding> {
    let kernels = match &config.folder {
        Some(folder) => of_kernels(folder, config),
        None => Finding::poor(
            "kernel cache",
            "no folder: neither XDG_CACHE_HOME nor HOME is set",
            "set one of them, or every start compiles all kernels again",
        ),
    };
    let state = crate::folders::state();
    let state = state.map(|folder| Finding::good("state", format!("{}: {}", folder.display(), contents(&folder))));
    [Some(kernels), state].into_iter().flatten().collect()
}

fn of_kernels(folder: &Path, config: &CacheConfig) -> Finding {
    let text = format!("{}: {}", folder.display(), contents(folder));
    let Some(there) = existing(folder) else {
        return Finding::poor("kernel cache", text, "there is no such file system");
    };
    if let Err(device::Error::Untrusted(refusal)) = config.check() {
        return Finding::bad(
            "kernel cache",
            format!("{text}; {} {}", refusal.path.display(), refusal.why),
            refusal.advice,
        );
    }
    let mount = mount(&there);
    if mount.as_ref().is_some_and(|mount| mount.noexec) {
        let advice = "it is mounted noexec: name a folder that code may be loaded from with --kernel-cache";
        return Finding::bad("kernel cache", text, advice);
    }
    if !writable(&there) {
        let advice = "it cannot be written: name another one with --kernel-cache, or every start compiles again";
        return Finding::poor("kernel cache", text, advice);
    }
    match mount {
        Some(mount) if mount.free < 256 << 20 => {
            Finding::poor("kernel cache", format!("{text}; {} left", bytes(mount.free)), "free some space")
        }
        Some(mount) => Finding::good("kernel cache", format!("{text}; {} left", bytes(mount.free))),
        None => Finding::good("kernel cache", text),
    }
}

/// The folder, or the nearest one around it that is there.
fn existing(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|folder| folder.is_dir()).map(Path::to_owned)
}

/// Whether a file can be made in it; asking for permissions says less.
fn writable(folder: &Path) -> bool {
    let probe = folder.join(format!(".kernloom-doctor-{}", std::process::id()));
    let made = std::fs::File::create_new(&probe).is_ok();
    let _ = std::fs::remove_file(&probe);
    made
}

fn contents(folder: &Path) -> String {
    if !folder.is_dir() {
        return "not there yet".into();
    }
    let (mut files, mut size) = (0, 0);
    count(folder, 8, &mut files, &mut size);
    format!("{files} files, {}", bytes(size))
}

fn count(folder: &Path, depth: usize, files: &mut u64, size: &mut u64) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(data) if data.is_dir() && depth > 0 => count(&entry.path(), depth - 1, files, size),
            Ok(data) if data.is_file() => {
                *files += 1;
                *size += data.len();
            }
            _ => {}
        }
    }
}

/// What a mount says.
struct Mount {
    noexec: bool,
    free: u64,
}

#[cfg(target_os = "linux")]
fn mount(folder: &Path) -> Option<Mount> {
    use rustix::fs::StatVfsMountFlags;
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(Mount {
        noexec: stat.f_flag.contains(StatVfsMountFlags::NOEXEC),
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

#[cfg(not(target_os = "linux"))]
fn mount(_: &Path) -> Option<Mount> {
    None
}

//! The folders that this program writes to.

use super::Finding;
use crate::open::bytes;
use crate::platform::free_bytes;
use device::store::folder::forbids_code;
use device::{CacheConfig, Pack, Target};
use std::path::{Path, PathBuf};

/// Kernels, packs of them, and the user's state.
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
    let packs = config.packs.iter().map(|path| of_pack(path, config));
    std::iter::once(kernels).chain(packs).chain(state).collect()
}

/// What a pack has for this machine.
fn of_pack(path: &Path, config: &CacheConfig) -> Finding {
    match Pack::open(path, &config.trusted) {
        Ok(pack) => {
            let list = |targets: Vec<(&Target, usize)>| {
                let each = targets.iter().map(|(target, kernels)| format!("{kernels} for {target}"));
                each.collect::<Vec<_>>().join(", ")
            };
            let (here, elsewhere): (Vec<_>, Vec<_>) = pack.targets().partition(|(target, _)| target.is_available());
            let path = path.display();
            match here.is_empty() {
                true => Finding::poor(
                    "kernel pack",
                    format!("{path}: nothing for this machine ({})", list(elsewhere)),
                    "take the pack of a release for this architecture, or build one with kernloom compile --pack",
                ),
                false => Finding::good("kernel pack", format!("{path}: kernels that run here: {}", list(here))),
            }
        }
        Err(device::Error::Untrusted(refusal)) => {
            Finding::bad("kernel pack", format!("{} {}", refusal.path.display(), refusal.why), refusal.advice)
        }
        Err(error) => Finding::poor("kernel pack", error.to_string(), "fetch it again, or remove it"),
    }
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
    if forbids_code(&there) {
        let advice = "it is mounted noexec: name a folder that code may be loaded from with --kernel-cache";
        return Finding::bad("kernel cache", text, advice);
    }
    if !writable(&there) {
        let advice = "it cannot be written: name another one with --kernel-cache, or every start compiles again";
        return Finding::poor("kernel cache", text, advice);
    }
    match free_bytes(&there) {
        Some(free) if free < 256 << 20 => {
            Finding::poor("kernel cache", format!("{text}; {} left", bytes(free)), "free some space")
        }
        Some(free) => Finding::good("kernel cache", format!("{text}; {} left", bytes(free))),
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

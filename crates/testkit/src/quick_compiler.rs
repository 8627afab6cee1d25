//! The system's C compiler with little optimisation, which is most of what tests of the program would wait for. Tests that run
//! many steps do better with kernels as users have them.
//!
//! What kernels compute is tested with what it builds; that they compute the same with full optimisation is tested on single
//! kernels (`device/tests/levels.rs`) and on golden files of two models (`cli/tests/golden.rs`).

use crate::standalone::builder::find;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folders that programs are looked for in, and before them one under `folder` in which `cc` is that compiler. Without a
/// compiler, or where it cannot be wrapped, the folders alone.
pub fn search_path(folder: &Path) -> Vec<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let quick = FOLDER.get_or_init(|| wrapped(folder)).iter().cloned();
    quick.chain(std::env::split_paths(&path)).collect()
}

#[cfg(unix)]
fn wrapped(folder: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let compiler = ["cc", "gcc", "clang"].into_iter().find_map(find)?;
    // The last of several levels counts.
    let script = format!("#!/bin/sh\nexec '{}' \"$@\" -Og\n", compiler.display());
    let folder = folder.join("quick-compiler");
    let path = folder.join("cc");
    if std::fs::read_to_string(&path).is_ok_and(|old| old == script) {
        return Some(folder);
    }
    std::fs::create_dir_all(&folder).expect("a folder for a compiler");
    // Tests of another crate may run it meanwhile.
    let made = folder.join(format!("cc-{}", std::process::id()));
    std::fs::write(&made, script).expect("a compiler");
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o755)).expect("a file of ours");
    std::fs::rename(made, path).expect("a file in place of another");
    Some(folder)
}

#[cfg(not(unix))]
fn wrapped(_: &Path) -> Option<PathBuf> {
    None
}

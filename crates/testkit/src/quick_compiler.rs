//! The system's C compiler with little optimisation, which is most of what tests of the program would wait for. Tests that run
//! many steps do better with kernels as users have them.
//!
//! What kernels compute is tested with what it builds; that they compute the same with full optimisation is tested on single
//! kernels (`device/tests/levels.rs`) and on golden files of two models (`cli/tests/golden.rs`).

use crate::standalone::builder::find;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// That compiler, in a folder under this one of which it is all; nothing without a compiler, or where it cannot be wrapped.
pub fn path(folder: &Path) -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| wrapped(folder)).as_ref().map(|folder| folder.join("cc"))
}

/// The folders that programs are looked for in, and before them the one in which `cc` is that compiler, if there is one.
pub fn search_path(folder: &Path) -> Vec<PathBuf> {
    let quick = path(folder).and_then(|compiler| compiler.parent().map(Path::to_path_buf));
    quick.into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())).collect()
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

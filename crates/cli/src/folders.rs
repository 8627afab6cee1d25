//! Where the user's files of this program lie.

use std::path::PathBuf;

/// History and references: `kernloom` in `$XDG_STATE_HOME`, else in `~/.local/state`.
pub fn state() -> Option<PathBuf> {
    of("XDG_STATE_HOME", ".local/state")
}

/// The file of settings: `kernloom` in `$XDG_CONFIG_HOME`, else in `~/.config`.
pub fn config() -> Option<PathBuf> {
    of("XDG_CONFIG_HOME", ".config")
}

fn of(variable: &str, at_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let folder = absolute(variable).or_else(|| Some(absolute("HOME")?.join(at_home)));
    folder.map(|folder| folder.join("kernloom"))
}

//! Model files in a folder.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// Folders in folders that are looked into.
const DEPTH: usize = 8;

/// The GGUF files of a folder and of those in it that are models: not parts of one, and nothing that goes beside one.
pub fn in_folder(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![];
    look(folder, DEPTH, &mut found).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    found.sort();
    Ok(found)
}

fn look(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && depth > 0 {
            look(&path, depth - 1, found)?;
        } else if path.is_file() && is_model(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_model(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let Some(stem) = name.strip_suffix(".gguf") else { return false };
    // `-00002-of-00003`
    let part = stem.rsplit_once("-of-").and_then(|(before, _)| before.rsplit_once('-')).map(|(_, part)| part);
    let is_later = part.and_then(|part| part.parse::<u32>().ok()).is_some_and(|part| part > 1);
    !is_later && !["mmproj", "imatrix"].iter().any(|other| stem.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_other_files() {
        let is = |name: &str| is_model(Path::new(name));
        assert!(is("a/x.gguf") && is("x-00001-of-00003.gguf") && is("X.GGUF") && is("one-of-many.gguf"));
        assert!(!is("x-00002-of-00003.gguf") && !is("mmproj-x.gguf") && !is("x.json") && !is("x.gguf.part"));
    }
}

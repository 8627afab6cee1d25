//! Programs in bytes, kept beside the kernels that they launch.
//!
//! What a program follows from is known before it is compiled: the model, the sizes, the options, and the compiler, which
//! is this executable. Its name on disk is the digest of all of that, and its file begins with the digest of what
//! follows: a damaged one is as good as none. So is one that others may have changed ([`crate::store::trust`]): what it says of
//! buffers and launches is what kernels believe. The last [`MOST`] that were used stay.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::store::digest::{self, Digest};
use crate::store::publish;
use crate::store::trust::Trust;

/// Files in a folder at most: every context and every build of the executable has files of its own.
const MOST: usize = 32;

/// Names end in it.
pub(crate) const PROGRAM: &str = "program";

/// The name of the file of a program that follows from this text; none if the executable cannot be read.
pub(crate) fn name(follows_from: &str) -> Option<String> {
    static BUILD: OnceLock<Option<Digest>> = OnceLock::new();
    let build = || Some(digest::of_bytes(&fs::read(std::env::current_exe().ok()?).ok()?));
    let build = BUILD.get_or_init(build).as_ref()?;
    Some(format!("{}.{PROGRAM}", digest::of_parts([build.as_bytes(), follows_from.as_bytes()])))
}

/// The bytes of a program, from the first folder that has it whole.
pub(crate) fn find<'a>(
    folders: impl IntoIterator<Item = &'a PathBuf>,
    follows_from: &str,
    mut trust: Trust,
) -> Option<Vec<u8>> {
    let name = name(follows_from)?;
    folders.into_iter().find_map(|folder| read(&folder.join(&name), &mut trust))
}

fn read(path: &Path, trust: &mut Trust) -> Option<Vec<u8>> {
    let mut file = trust.open(path).ok()?.file;
    let mut bytes = vec![];
    file.read_to_end(&mut bytes).ok()?;
    let program = digest::unsealed(bytes)?;
    // Those that were used last stay; a folder that cannot be written loses none.
    let _ = file.set_modified(SystemTime::now());
    Some(program)
}

/// Writes a program. What goes wrong here costs time at the next start, and nothing now.
pub(crate) fn keep(folder: &Path, follows_from: &str, program: &[u8]) -> Option<()> {
    write(folder, follows_from, program)?;
    drop_oldest(folder)
}

/// As [`keep`], beside however many others.
pub(crate) fn write(folder: &Path, follows_from: &str, program: &[u8]) -> Option<()> {
    publish::file(&folder.join(name(follows_from)?), &digest::sealed(program)).ok()
}

/// The names of the files of a folder's programs.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(&format!(".{PROGRAM}"))).collect();
    names.sort();
    names
}

fn drop_oldest(folder: &Path) -> Option<()> {
    let whole = |path: &PathBuf| path.extension().is_some_and(|ending| ending == PROGRAM);
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(whole);
    let mut files: Vec<(SystemTime, PathBuf)> =
        files.filter_map(|path| Some((fs::metadata(&path).and_then(|data| data.modified()).ok()?, path))).collect();
    files.sort_unstable();
    let many = files.len().saturating_sub(MOST);
    for (_, path) in &files[..many] {
        let _ = fs::remove_file(path);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::BuildFolder;

    fn folder() -> BuildFolder {
        BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap()
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn what_was_kept_is_found_by_what_it_follows_from() {
        let folder = folder();
        let folders = [folder.path().to_path_buf()];
        assert_eq!(find(&folders, "a model", Trust::default()), None);
        keep(folder.path(), "a model", b"program").unwrap();
        assert_eq!(find(&folders, "a model", Trust::default()).as_deref(), Some(&b"program"[..]));
        assert_eq!(find(&folders, "another", Trust::default()), None);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = folder();
        let folders = [folder.path().to_path_buf()];
        keep(folder.path(), "a model", b"program").unwrap();
        let [path] = &files(folder.path())[..] else { panic!("one file") };
        let whole = fs::read(path).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[..10], b"", &[&whole[..], b"s"].concat()] {
            fs::write(path, damaged).unwrap();
            assert_eq!(find(&folders, "a model", Trust::default()), None);
        }
        keep(folder.path(), "a model", b"program").unwrap();
        assert!(find(&folders, "a model", Trust::default()).is_some());
    }

    #[test]
    fn those_that_were_used_last_stay() {
        let folder = folder();
        let folders = [folder.path().to_path_buf()];
        let hours_ago = |hours: usize| SystemTime::now() - std::time::Duration::from_secs(3600 * hours as u64);
        for i in 0..MOST {
            keep(folder.path(), &i.to_string(), b"program").unwrap();
            let path = folder.path().join(name(&i.to_string()).unwrap());
            fs::File::options().append(true).open(path).unwrap().set_modified(hours_ago(MOST - i)).unwrap();
        }
        assert!(find(&folders, "0", Trust::default()).is_some());
        keep(folder.path(), "new", b"program").unwrap();
        assert_eq!(files(folder.path()).len(), MOST);
        assert!(find(&folders, "1", Trust::default()).is_none(), "the oldest that nobody has used since");
        assert!(["0", "2", "new"].iter().all(|text| find(&folders, text, Trust::default()).is_some()));
    }
}

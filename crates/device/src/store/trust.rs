//! Whether what a path leads to may be loaded: only root and the user may have been able to change it.
//!
//! The path is walked from the root down, links resolved. Every folder, link and file on the way must belong to root or
//! to the user, and no folder or file may be writable by its group or by others. A sticky folder that others may write,
//! such as `/tmp`, is not trusted itself: anybody may have put there, or linked there, what lies directly in it. Only a
//! folder in it that passes for itself may be gone through: nobody else can move that away, nor link it from elsewhere. So
//! by the time that a name is looked at, none but root and the user can change what it leads to. The file is then opened
//! and its descriptor checked; that is what is read and loaded.
//!
//! Where nobody else is, as in a container with volumes that all may write, the user can name folders that are not
//! questioned ([`crate::CacheConfig::trusted`]).
//!
//! Whoever owns `/` is as good as root: in a user namespace that does not know root, root's folders belong to the number
//! that stands for all unknown users, and those cannot be told apart there. What this cannot see: access lists of macOS
//! and of network file systems, and descriptors that were opened for writing before a mode was mended. Where there are no
//! such owners and modes, on systems other than Unix, nothing is checked.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Why something is not loaded; its text is one line that ends in what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {why}; {advice}", path.display())]
pub struct Refusal {
    /// The folder, link or file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: Why,
    /// What to do, with a command for a shell.
    pub advice: String,
}

/// What is wrong with a folder, link or file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// It belongs to neither root nor the user.
    #[error("belongs to user {0}, who can change it")]
    Owner(u32),
    /// Its group or all users may write to it.
    #[error("can be changed by other users (mode {0:04o})")]
    Mode(u32),
    /// It is no folder, and lies directly in a folder that is everybody's.
    #[error("lies in a folder that everybody can write to")]
    Shared,
    /// It is a device, a pipe or the like.
    #[error("is neither a file nor a folder")]
    Kind,
}

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unopened {
    /// It may not be loaded.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The system says no; often there is nothing.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Unopened> for io::Error {
    fn from(unopened: Unopened) -> io::Error {
        match unopened {
            Unopened::Refused(refusal) => io::Error::other(refusal),
            Unopened::Io(error) => error,
        }
    }
}

/// A file that may be loaded, and where it is without links.
#[derive(Debug)]
pub(crate) struct Trusted {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
}

/// One opening of files: folders that passed are not looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    /// Folders without links, which only root and the user can change.
    passed: HashSet<PathBuf>,
    /// Folders without links that the user vouches for.
    named: Vec<PathBuf>,
}

impl Trust {
    /// Takes these folders for trusted, as the user says that nobody else reaches them; what is in them is checked.
    pub(crate) fn with(folders: &[PathBuf]) -> Trust {
        let named: Vec<PathBuf> = folders.iter().filter_map(|folder| std::fs::canonicalize(folder).ok()).collect();
        Trust { passed: named.iter().cloned().collect(), named }
    }
}

#[cfg(unix)]
mod system {
    use super::{Path, PathBuf, Refusal, Trust, Trusted, Unopened, Why};
    use rustix::fs::{Mode, OFlags};
    use std::ffi::OsString;
    use std::fs::{self, File, Metadata};
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::path::Component;
    use std::sync::OnceLock;

    /// Links on a path at most; as many as Linux follows.
    const LINKS: usize = 40;

    /// Permissions of the group and of others to write.
    const OTHERS_WRITE: u32 = 0o022;

    /// Permissions that are shown.
    const MODE: u32 = 0o7777;

    /// The mark of a folder in which only owners remove files.
    const STICKY: u32 = 0o1000;

    impl Trust {
        /// The folder without links, if only root and the user can change it.
        pub(crate) fn folder(&mut self, path: &Path) -> Result<PathBuf, Unopened> {
            let (path, is_folder) = self.walk(path)?;
            if !is_folder {
                return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
            }
            if !self.passed.contains(&path) {
                let mode = fs::metadata(&path)?.mode() & MODE;
                return Err(refused(&path, Why::Mode(mode)));
            }
            Ok(path)
        }

        /// Opens a file to read, if only root and the user can change it.
        pub(crate) fn open(&mut self, path: &Path) -> Result<Trusted, Unopened> {
            let (path, _) = self.walk(path)?;
            // What is no file must not hold this up.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = File::from(rustix::fs::open(&path, flags, Mode::empty()).map_err(io::Error::from)?);
            let data = file.metadata()?;
            if !data.is_file() {
                return Err(refused(&path, Why::Kind));
            }
            owned(&path, &data)?;
            if data.mode() & OTHERS_WRITE != 0 {
                return Err(refused(&path, Why::Mode(data.mode() & MODE)));
            }
            Ok(Trusted { file, path })
        }

        /// Resolves links and checks all on the way but the modes of what is at the end: where it is, and whether it is a
        /// folder.
        fn walk(&mut self, path: &Path) -> Result<(PathBuf, bool), Unopened> {
            let mut rest: Vec<OsString> = vec![];
            push(&mut rest, &std::path::absolute(path)?);
            let (mut at, mut is_folder, mut links) = (PathBuf::from("/"), true, 0);
            if !self.passed.contains(&at) {
                self.enter(&at, &fs::symlink_metadata(&at)?)?;
            }
            while let Some(name) = rest.pop() {
                if !is_folder {
                    return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
                }
                if name == ".." {
                    at.pop();
                    continue;
                }
                let next = at.join(name);
                if self.passed.contains(&next) {
                    at = next;
                    continue;
                }
                let data = fs::symlink_metadata(&next)?;
                let kind = data.file_type();
                if !kind.is_dir() && !self.passed.contains(&at) {
                    return Err(refused(&next, Why::Shared));
                }
                if kind.is_symlink() {
                    owned(&next, &data)?;
                    links += 1;
                    if links > LINKS {
                        return Err(io::Error::from(rustix::io::Errno::LOOP).into());
                    }
                    let target = fs::read_link(&next)?;
                    if target.has_root() {
                        at = PathBuf::from("/");
                    }
                    push(&mut rest, &target);
                    continue;
                }
                is_folder = kind.is_dir();
                if is_folder {
                    self.enter(&next, &data)?;
                }
                at = next;
            }
            Ok((at, is_folder))
        }

        /// Goes into a folder. One that passed is noted; a sticky one that others may write is only gone through.
        fn enter(&mut self, path: &Path, data: &Metadata) -> Result<(), Unopened> {
            // The way to a folder that the user vouches for; others beside it are not meant.
            let is_around = self.named.iter().any(|named| named.starts_with(path));
            let checked = owned(path, data);
            if checked.is_ok() && data.mode() & OTHERS_WRITE == 0 {
                self.passed.insert(path.to_path_buf());
            } else if !is_around {
                checked?;
                if data.mode() & STICKY == 0 {
                    return Err(refused(path, Why::Mode(data.mode() & MODE)));
                }
            }
            Ok(())
        }
    }

    /// The names of a path, the first of them last.
    fn push(rest: &mut Vec<OsString>, path: &Path) {
        let names = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        rest.extend(names.map(|part| part.as_os_str().to_os_string()));
    }

    fn owned(path: &Path, data: &Metadata) -> Result<(), Unopened> {
        static ROOT: OnceLock<u32> = OnceLock::new();
        let root = *ROOT.get_or_init(|| fs::symlink_metadata("/").map_or(0, |data| data.uid()));
        let owner = data.uid();
        if [0, root, rustix::process::geteuid().as_raw()].contains(&owner) {
            return Ok(());
        }
        Err(refused(path, Why::Owner(owner)))
    }

    fn refused(path: &Path, why: Why) -> Unopened {
        // Where one file needs it, those beside it do as well.
        let is_file = fs::symlink_metadata(path).is_ok_and(|data| data.is_file());
        let (flag, place) = if is_file { (" -R", path.parent().unwrap_or(path)) } else { ("", path) };
        let place = quoted(place);
        let advice = match why {
            Why::Owner(_) => {
                let flag = if path.is_symlink() { " -h" } else { flag };
                format!("if you trust what is there: chown{flag} \"$(id -un)\" {place}")
            }
            Why::Mode(_) => format!("if you trust what is there: chmod{flag} go-w {place}"),
            Why::Shared => "move it to a folder of your own".into(),
            Why::Kind => format!("remove it: rm {}", quoted(path)),
        };
        Refusal { path: path.to_path_buf(), why, advice }.into()
    }

    /// A path as a word for a shell.
    fn quoted(path: &Path) -> String {
        let text = path.display().to_string();
        let plain = |c: char| c.is_alphanumeric() || "/._-+,=@%".contains(c);
        if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
    }
}

#[cfg(not(unix))]
impl Trust {
    /// The folder without links.
    pub(crate) fn folder(&mut self, path: &Path) -> Result<PathBuf, Unopened> {
        Ok(std::fs::canonicalize(path)?)
    }

    /// Opens a file to read.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Trusted, Unopened> {
        let path = std::fs::canonicalize(path)?;
        self.passed.insert(path.clone());
        Ok(Trusted { file: File::open(&path)?, path })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::store::folder::BuildFolder;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

    /// Somebody else.
    const STRANGER: u32 = 4711;

    fn here() -> BuildFolder {
        BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap()
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Why a file is refused, and at which path.
    fn refusal(path: &Path) -> Option<Refusal> {
        match Trust::default().open(path) {
            Ok(_) => None,
            Err(Unopened::Refused(refusal)) => Some(refusal),
            Err(Unopened::Io(error)) => panic!("{error}"),
        }
    }

    /// Whether this process may give files away.
    fn is_root() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            println!("only root can give files away: that part did not run");
        }
        root
    }

    /// `outer/inner/file` in a folder.
    fn tree(folder: &BuildFolder) -> [PathBuf; 3] {
        let outer = folder.path().join("outer");
        let (inner, file) = (outer.join("inner"), outer.join("inner/file"));
        fs::create_dir_all(&inner).unwrap();
        fs::write(&file, "text").unwrap();
        [outer.as_path(), &inner].into_iter().for_each(|folder| mode(folder, 0o755));
        mode(&file, 0o644);
        [outer, inner, file]
    }

    #[test]
    fn what_others_can_write_is_refused_wherever_it_is_on_the_way() {
        let folder = here();
        let all = tree(&folder);
        let file = &all[2];
        assert_eq!(refusal(file), None);
        for (path, good) in all.iter().zip([0o755, 0o755, 0o644]) {
            for bad in [0o020, 0o002, 0o022] {
                mode(path, good | bad);
                let refusal = refusal(file).unwrap();
                assert_eq!((&refusal.path, refusal.why), (path, Why::Mode(good | bad)));
            }
            let line = refusal(file).unwrap().to_string();
            assert!(line.contains(&*path.to_string_lossy()) && !line.contains('\n'), "{line}");
            let (_, command) = line.split_once("if you trust what is there: ").unwrap();
            assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
            assert_eq!(refusal(file), None, "{command}");
        }
    }

    #[test]
    fn what_belongs_to_others_is_refused_wherever_it_is_on_the_way() {
        let folder = here();
        let all = tree(&folder);
        let link = folder.path().join("link");
        symlink(&all[1], &link).unwrap();
        let file = link.join("file");
        assert_eq!(refusal(&file), None);
        if !is_root() {
            return;
        }
        for path in all.iter().chain([&link]) {
            lchown(path, Some(STRANGER), None).unwrap();
            let refused = refusal(&file).unwrap();
            assert_eq!((&refused.path, refused.why), (path, Why::Owner(STRANGER)));
            let (_, command) = refused.advice.split_once(": ").unwrap();
            assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
            assert_eq!(refusal(&file), None, "{command}");
        }
    }

    #[test]
    fn links_are_followed_to_what_is_checked() {
        let folder = here();
        let [outer, inner, file] = tree(&folder);
        let beside = folder.path().join("beside");
        fs::create_dir(&beside).unwrap();
        for (name, target) in [("absolute", file.clone()), ("relative", "../outer/./inner/file".into())] {
            symlink(target, beside.join(name)).unwrap();
            let opened = Trust::default().open(&beside.join(name)).unwrap();
            assert_eq!(opened.path, fs::canonicalize(&file).unwrap());
            mode(&outer, 0o775);
            assert!(refusal(&beside.join(name)).is_some(), "{name}");
            mode(&outer, 0o755);
        }
        assert_eq!(refusal(&inner.join("../inner/file")), None);
        symlink("loop", beside.join("loop")).unwrap();
        for missing in ["loop", "loop/file", "nothing", "absolute/file"] {
            assert!(matches!(Trust::default().open(&beside.join(missing)), Err(Unopened::Io(_))), "{missing}");
        }
    }

    #[test]
    fn a_sticky_folder_is_only_gone_through() {
        let folder = here();
        let [outer, inner, file] = tree(&folder);
        mode(&outer, 0o1777);
        assert_eq!(refusal(&file), None);
        let (direct, link) = (outer.join("direct"), outer.join("link"));
        fs::write(&direct, "text").unwrap();
        symlink(&inner, &link).unwrap();
        assert_eq!(refusal(&direct).unwrap().why, Why::Shared);
        assert_eq!(refusal(&link.join("file")).unwrap().why, Why::Shared);
        assert!(matches!(Trust::default().folder(&outer), Err(Unopened::Refused(_))));
        assert_eq!(Trust::default().folder(&inner).unwrap(), fs::canonicalize(&inner).unwrap());
        if is_root() {
            chown(&inner, Some(STRANGER), None).unwrap();
            assert_eq!(refusal(&file).unwrap().why, Why::Owner(STRANGER));
        }
    }

    #[test]
    fn a_folder_that_is_named_as_trusted_is_not_questioned_but_what_is_in_it_is() {
        let folder = here();
        let [outer, inner, file] = tree(&folder);
        mode(&outer, 0o777);
        let open = |file: &Path| Trust::with(std::slice::from_ref(&outer)).open(file);
        assert!(open(&file).is_ok());
        mode(&inner, 0o777);
        assert!(matches!(open(&file), Err(Unopened::Refused(refusal)) if refusal.path == inner));
        let mut trust = Trust::with(&[inner.clone(), "/nowhere".into()]);
        assert!(trust.open(&file).is_ok(), "nor are those around it");
        let beside = outer.join("beside");
        fs::write(&beside, "").unwrap();
        assert!(matches!(trust.open(&beside), Err(Unopened::Refused(_))), "what lies beside it is");
        mode(&inner, 0o755);
        mode(&file, 0o666);
        assert!(matches!(open(&file), Err(Unopened::Refused(refusal)) if refusal.path == file));
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = here();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        mode(&pipe, 0o600);
        assert_eq!(refusal(&pipe).unwrap().why, Why::Kind);
        assert_eq!(refusal(folder.path()).unwrap().why, Why::Kind);
    }

    #[test]
    fn what_was_opened_stays_what_it_was() {
        let folder = here();
        let [_, inner, file] = tree(&folder);
        let opened = Trust::default().open(&file).unwrap();
        fs::write(inner.join("other"), "longer text").unwrap();
        fs::rename(inner.join("other"), &file).unwrap();
        assert_eq!(opened.file.metadata().unwrap().size(), 4);
    }

    #[test]
    fn commands_name_paths_as_words_of_a_shell() {
        let folder = here();
        let odd = folder.path().join("it's $(odd)");
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("file"), "").unwrap();
        mode(&odd.join("file"), 0o644);
        mode(&odd, 0o777);
        let refused = refusal(&odd.join("file")).unwrap();
        let (_, command) = refused.advice.split_once(": ").unwrap();
        assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
        assert_eq!(refusal(&odd.join("file")), None);
    }
}

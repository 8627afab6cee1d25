//! A file that takes its name when it is complete.
//!
//! It is written under a hidden name beside its place, so that an error, a full disk or a program that ends leaves what
//! was there before. Links are followed: what is replaced is the file that they lead to. What is there and is no regular
//! file, a pipe or a device, is never replaced: it is written to directly, and gets what comes as it comes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

/// Bytes that pass through memory at a time.
const BUFFER: usize = 1 << 20;

/// Links that lead from one to the next, at most; systems refuse as many.
const LINKS: usize = 40;

/// A file that is being written. Dropped before it is [kept](Partial::keep), it is deleted.
#[derive(Debug)]
pub struct Partial {
    /// `None` once all is written.
    out: Option<BufWriter<File>>,
    /// `None` for what is written to directly.
    hidden: Option<Hidden>,
}

#[derive(Debug)]
struct Hidden {
    path: PathBuf,
    /// The name that it will have.
    target: PathBuf,
}

impl Partial {
    /// Begins a file that will be at `path`.
    ///
    /// # Errors
    /// What the system says, also about what is at `path` now: it must be a file that may be written, or nothing.
    pub fn create(path: &Path) -> io::Result<Partial> {
        let (file, hidden) = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => (File::options().write(true).open(path)?, None),
            Ok(_) => {
                // Renaming would replace a file that may not be written.
                File::options().write(true).open(path)?;
                Hidden::create(path)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Hidden::create(path)?,
            Err(error) => return Err(error),
        };
        Ok(Partial { out: Some(BufWriter::with_capacity(BUFFER, file)), hidden })
    }

    /// Ends the writing: everything is on the disk, without a name still.
    ///
    /// # Errors
    /// What the system says; a full disk shows here.
    pub fn complete(&mut self) -> io::Result<()> {
        let Some(out) = self.out.take() else { return Ok(()) };
        let file = out.into_inner().map_err(IntoInnerError::into_error)?;
        // Pipes cannot be synchronised.
        if self.hidden.is_some() { file.sync_all() } else { Ok(()) }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// What the system says; what was at the path is then as it was.
    pub fn keep(mut self) -> io::Result<()> {
        self.complete()?;
        match &self.hidden {
            Some(hidden) => fs::rename(&hidden.path, &hidden.target),
            None => Ok(()),
        }
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Some(out) => out.write(bytes),
            None => Err(io::Error::other("the file is complete")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl Hidden {
    fn create(path: &Path) -> io::Result<(File, Option<Hidden>)> {
        let target = behind_links(path)?;
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
        name.push(format!(".partial-{}", std::process::id()));
        let path = target.with_file_name(name);
        Ok((File::create(&path)?, Some(Hidden { path, target })))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // After `keep` there is nothing left to delete.
        let _ = fs::remove_file(&self.path);
    }
}

/// The path that links at the end of this one lead to, whether something is there or not.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match path.read_link() {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            // No link, or nothing at all.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("there are too many links"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kernloom-partial-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        let mut file = Partial::create(path)?;
        file.write_all(text.as_bytes())?;
        file.keep()
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn what_is_not_kept_leaves_what_was_there() {
        let folder = folder("dropped");
        let path = folder.join("x");
        write(&path, "old").unwrap();
        let mut file = Partial::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.complete().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(&folder)), ("old", 2));
        drop(file);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(&folder)), ("old", 1));
        assert_eq!(Partial::create(&folder).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn links_stay() {
        let folder = folder("links");
        let [file, link, other, nowhere] = ["file", "link", "other", "nowhere"].map(|name| folder.join(name));
        fs::create_dir(folder.join("inner")).unwrap();
        symlink("inner/file", &link).unwrap();
        symlink(&link, &other).unwrap();
        // The first time, nothing is there.
        for text in ["one", "two"] {
            write(&other, text).unwrap();
            assert!(other.is_symlink() && link.is_symlink() && !file.exists());
            assert_eq!(fs::read_to_string(folder.join("inner/file")).unwrap(), text);
        }
        symlink("nowhere", &nowhere).unwrap();
        assert!(write(&nowhere, "x").is_err());
        assert_eq!((names(&folder), names(&folder.join("inner"))), (4, 1));
        fs::remove_dir_all(folder).unwrap();
    }
}

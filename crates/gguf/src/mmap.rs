//! The bytes of a file in memory: mapped from disk, or owned.
//!
//! Either way [`SLACK`] readable bytes follow the last one, so that kernels may load whole vectors at the end of the
//! data. How a file is mapped is the system's (`unix`); where nobody has tried to (`other`), it is read instead.
//!
//! What a map cannot do: survive another process that truncates the file. Touching pages beyond the new end then kills
//! this process (SIGBUS; the program `kernloom` says why it ends). [`Map::check_unchanged`] catches the case before the
//! data is used, not during.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
use other::Pages;
#[cfg(unix)]
use unix::Pages;

use crate::error::Error;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::time::SystemTime;

/// Bytes after the end of every file's data that may be read. Their contents mean nothing.
pub const SLACK: usize = 64;

/// Bytes around a page that is touched which Linux maps with it, if they are in memory and nobody has changed that.
const AROUND: usize = 64 << 10;

/// A file mapped read-only, with [`SLACK`] readable bytes after it.
#[derive(Debug)]
pub(crate) struct Map {
    pages: Pages,
    file: File,
    modified: Option<SystemTime>,
}

impl Map {
    /// Maps a regular, non-empty file. The file stays open as long as the map lives.
    ///
    /// # Errors
    /// [`Error::Directory`], [`Error::NotAFile`], [`Error::Empty`], [`Error::Changed`] when the file shrinks meanwhile,
    /// or [`Error::Io`] with what the system said.
    pub(crate) fn new(file: File) -> Result<Map, Error> {
        let before = file.metadata().map_err(|source| Error::Io { doing: "look at the file", source })?;
        regular(&before)?;
        let too_large = || Error::Io { doing: "map the file", source: io::ErrorKind::FileTooLarge.into() };
        let len = usize::try_from(before.len()).map_err(|_| too_large())?;
        let pages = Pages::of(&file, len)?;
        let map = Map { pages, file, modified: before.modified().ok() };
        map.check_unchanged()?;
        Ok(map)
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        let all = self.with_slack();
        &all[..all.len() - SLACK]
    }

    /// The bytes of the file and [`SLACK`] more.
    pub(crate) fn with_slack(&self) -> &[u8] {
        self.pages.with_slack()
    }

    /// Asks the system to start reading a range of bytes from disk. A hint: errors are ignored.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        let len = self.bytes().len();
        let range = range.start.min(len)..range.end.min(len);
        if !range.is_empty() {
            self.pages.will_need(range);
        }
    }

    /// Touches a range of bytes, so that its first use costs few faults; what is not in memory is read. Systems map the
    /// pages around one that is touched: one touch in [`AROUND`] bytes maps all, in half the time of a call that asks
    /// for each page.
    pub(crate) fn bring_in(&self, range: Range<usize>) {
        let bytes = self.bytes();
        let range = range.start.min(bytes.len())..range.end.min(bytes.len());
        bytes[range].iter().step_by(AROUND).for_each(|byte| {
            std::hint::black_box(*byte);
        });
    }

    /// Checks that the file still has the length and time of change that it had when it was mapped.
    ///
    /// # Errors
    /// [`Error::Changed`], or [`Error::Io`] if the file can no longer be asked.
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        let now = self.file.metadata().map_err(|source| Error::Io { doing: "look at the file again", source })?;
        if now.len() != self.bytes().len() as u64 {
            return Err(Error::Changed { change: format!("from {} to {} bytes", self.bytes().len(), now.len()) });
        }
        if now.modified().ok() != self.modified {
            return Err(Error::Changed { change: "it was written to".to_owned() });
        }
        Ok(())
    }
}

/// Checks that a file is one that can be mapped.
pub(crate) fn regular(meta: &Metadata) -> Result<(), Error> {
    match () {
        () if meta.is_dir() => Err(Error::Directory),
        () if !meta.is_file() => Err(Error::NotAFile),
        () if meta.len() == 0 => Err(Error::Empty),
        () => Ok(()),
    }
}

/// The bytes of one file.
#[derive(Debug)]
pub(crate) enum Bytes {
    Map(Map),
    /// The file's bytes, then `SLACK` zeros.
    Owned(Box<[u8]>),
}

impl Bytes {
    /// Takes over bytes in memory.
    pub(crate) fn owned(mut bytes: Vec<u8>) -> Bytes {
        bytes.resize(bytes.len() + SLACK, 0);
        Bytes::Owned(bytes.into_boxed_slice())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map.bytes(),
            Bytes::Owned(bytes) => &bytes[..bytes.len() - SLACK],
        }
    }

    pub(crate) fn with_slack(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map.with_slack(),
            Bytes::Owned(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(len: usize) -> (std::path::PathBuf, File) {
        let path = std::env::temp_dir().join(format!("kernloom-mmap-{}-{len}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![0x5A; len]).unwrap();
        let file = File::open(&path).unwrap();
        (path, file)
    }

    #[test]
    fn slack_is_readable_whatever_the_length() {
        let page = 4096;
        for len in [1, page - 1, page, page + 1, 3 * page - SLACK / 2, 16 * page] {
            let (path, file) = file_of(len);
            let map = Map::new(file).unwrap();
            map.will_need(0..usize::MAX);
            map.will_need(len..len);
            assert!(map.bytes().iter().all(|&b| b == 0x5A));
            assert_eq!(map.with_slack().len(), len + SLACK);
            assert!(map.with_slack()[len..].iter().all(|&b| b == 0));
            drop(map);
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let (path, file) = file_of(5000);
        let map = Map::new(file).unwrap();
        map.check_unchanged().unwrap();
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert!(matches!(map.check_unchanged(), Err(Error::Changed { .. })));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_regular_files_with_bytes() {
        let folder = File::open(std::env::temp_dir()).unwrap();
        assert!(matches!(Map::new(folder), Err(Error::Directory)));
        assert!(matches!(Map::new(File::open("/dev/null").unwrap()), Err(Error::NotAFile)));
        let (path, file) = file_of(0);
        assert!(matches!(Map::new(file), Err(Error::Empty)));
        std::fs::remove_file(path).unwrap();
    }
}

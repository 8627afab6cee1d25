//! A file on a system whose ways of mapping nobody has tried: it is read into memory.

use super::SLACK;
use crate::error::Error;
use std::fs::File;
use std::io::Read;
use std::ops::Range;

/// The bytes of the file, then [`SLACK`] zeros.
#[derive(Debug)]
pub(super) struct Pages(Box<[u8]>);

impl Pages {
    /// Reads a file of this length.
    pub(super) fn of(mut file: &File, len: usize) -> Result<Pages, Error> {
        let mut bytes = vec![0; len + SLACK];
        file.read_exact(&mut bytes[..len]).map_err(|source| Error::Io { doing: "read the file", source })?;
        Ok(Pages(bytes.into_boxed_slice()))
    }

    /// The bytes of the file and [`SLACK`] more.
    pub(super) fn with_slack(&self) -> &[u8] {
        &self.0
    }

    /// All is there.
    pub(super) fn will_need(&self, _: Range<usize>) {}
}

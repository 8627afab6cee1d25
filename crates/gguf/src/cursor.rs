//! A reader over bytes that cannot leave them: every read is checked and says what was being read.

use crate::error::Error;

/// Longest string that a file may hold.
const STRING_LIMIT: u64 = 1 << 30;

/// A position in the bytes of a file.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// Bytes from the start of the file to here.
    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Bytes from here to the end of the file.
    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next `n` bytes; `what` names them in the error.
    pub(crate) fn take(&mut self, n: u64, what: impl Fn() -> String) -> Result<&'a [u8], Error> {
        let have = self.left();
        if n > have {
            return Err(Error::Truncated { what: what(), offset: self.offset(), need: n, have });
        }
        let start = self.at;
        self.at += n as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn array<const N: usize>(&mut self, what: impl Fn() -> String) -> Result<[u8; N], Error> {
        let bytes = self.take(N as u64, what)?;
        Ok(std::array::from_fn(|i| bytes[i]))
    }

    pub(crate) fn u32(&mut self, what: impl Fn() -> String) -> Result<u32, Error> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: impl Fn() -> String) -> Result<u64, Error> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self, what: impl Fn() -> String) -> Result<i64, Error> {
        self.array(what).map(i64::from_le_bytes)
    }

    /// A string: its length in eight bytes, then its bytes.
    pub(crate) fn string(&mut self, what: impl Fn() -> String) -> Result<&'a [u8], Error> {
        self.short_string(STRING_LIMIT, what)
    }

    /// A string of at most `most` bytes.
    pub(crate) fn short_string(&mut self, most: u64, what: impl Fn() -> String) -> Result<&'a [u8], Error> {
        let offset = self.offset();
        let len = self.u64(&what)?;
        let limit = self.left().min(most);
        if len > limit {
            return Err(Error::StringLength { what: what(), offset, len, limit });
        }
        self.take(len, what)
    }
}

/// A key or tensor name that started at `offset`, if it can be shown: UTF-8 without control characters.
pub(crate) fn plain_text<'a>(what: &'static str, name: &'a [u8], offset: u64) -> Result<&'a str, Error> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text),
        _ => Err(Error::NameNotText { what, offset, name: String::from_utf8_lossy(name).into_owned() }),
    }
}

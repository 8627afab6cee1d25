//! Numbers and texts between the server and the processes of its grammars. Both ends are the same program.

use super::budget;
use super::rule::Source;
use std::io::{self, Read};

/// What a process says before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// It is done; a mask follows, if one was asked for.
    Done,
    /// It cannot be done; a text follows that says why.
    Refused,
    /// It took too much processor time.
    OutOfTime,
}

impl Tag {
    /// From its byte.
    pub fn of(byte: u8) -> io::Result<Tag> {
        match byte {
            0 => Ok(Tag::Done),
            1 => Ok(Tag::Refused),
            2 => Ok(Tag::OutOfTime),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// A refusal and its reason.
pub fn refusal(why: &str) -> Vec<u8> {
    let mut out = vec![Tag::Refused as u8];
    put(&mut out, why.as_bytes());
    out
}

/// A length and so many bytes.
pub fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// A number.
pub fn number(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// What [`put`] wrote.
pub fn bytes(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = number(from)? as usize;
    if length > budget::LARK_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A text that [`put`] wrote.
pub fn text(from: &mut impl Read) -> io::Result<String> {
    String::from_utf8(bytes(from)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A source, as [`source`] reads it.
pub fn of_source(source: &Source) -> Vec<u8> {
    let (kind, text) = match source {
        Source::Lark(text) => (0, text),
        Source::Schema(text) => (1, text),
    };
    let mut out = vec![kind];
    put(&mut out, text.as_bytes());
    out
}

/// A source that [`of_source`] wrote.
pub fn source(from: &mut impl Read) -> io::Result<Source> {
    let mut kind = [0];
    from.read_exact(&mut kind)?;
    let text = text(from)?;
    Ok(if kind == [0] { Source::Lark(text) } else { Source::Schema(text) })
}

//! Stdout, where results go, with errors that say so. A terminal gets plain text, whoever wrote it; anything else gets
//! the bytes as they are.

use gguf::plain;
use std::io::{self, IsTerminal, Write};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Writes to stdout.
pub struct Stdout;

/// Whether somebody reads along.
static IS_TERMINAL: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());

/// The bytes of a character whose rest has not come yet.
static BEGUN: Mutex<Vec<u8>> = Mutex::new(vec![]);

/// Stdout takes no more.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the output: {0}")]
struct Cannot(#[source] io::Error);

/// What text can be written to in colours.
pub trait Styled: Write {
    /// Writes what changes how the text after it looks.
    ///
    /// # Errors
    /// As those of [`Write::write_all`].
    fn style(&mut self, sequence: &'static str) -> io::Result<()>;
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !*IS_TERMINAL {
            return io::stdout().write(bytes).map_err(explained);
        }
        let text = shown(&mut BEGUN.lock().unwrap_or_else(PoisonError::into_inner), bytes);
        io::stdout().write_all(text.as_bytes()).map_err(explained)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(explained)
    }
}

impl Styled for Stdout {
    fn style(&mut self, sequence: &'static str) -> io::Result<()> {
        io::stdout().write_all(sequence.as_bytes()).map_err(explained)
    }
}

/// Prints what is made for people, with names out of files in it: plain wherever it goes.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = Stdout;
    out.write_all(plain::lines(text, usize::MAX).as_bytes())?;
    Ok(out.flush()?)
}

/// The text of bytes after those that have `begun` a character, which take what is left over.
fn shown(begun: &mut Vec<u8>, bytes: &[u8]) -> String {
    begun.extend_from_slice(bytes);
    let end = begun.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let is_part = std::str::from_utf8(end).is_err_and(|error| error.error_len().is_none());
    let rest = if is_part { end.to_vec() } else { vec![] };
    begun.truncate(begun.len() - rest.len());
    let whole = std::mem::replace(begun, rest);
    plain::lines(&String::from_utf8_lossy(&whole), usize::MAX).into_owned()
}

/// An error of stdout in words. Its kind stays: nobody needs to hear of a pipe that was closed.
pub fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        // What is interrupted is tried again by the caller.
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, Cannot(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_may_come_in_parts() {
        let text = "a\x1b[31m é €\u{9b}2J 🦊\n\tb";
        for size in 1..=text.len() {
            let mut begun = vec![];
            let shown: String = text.as_bytes().chunks(size).map(|bytes| shown(&mut begun, bytes)).collect();
            assert_eq!(shown, "a\\u{1b}[31m é €\\u{9b}2J 🦊\n\tb", "{size} bytes at a time");
            assert!(begun.is_empty());
        }
        let mut begun = vec![];
        assert_eq!(shown(&mut begun, b"a\xff\x9b\xe2\x82"), "a\u{fffd}\u{fffd}");
        assert_eq!(shown(&mut begun, b"b\x1b"), "\u{fffd}b\\u{1b}", "what was begun and does not go on");
    }
}

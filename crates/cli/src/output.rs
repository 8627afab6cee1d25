//! Stdout, where results go, with errors that say so.

use std::io::{self, Write};

/// Writes to stdout.
pub struct Stdout;

/// Stdout takes no more.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the output: {0}")]
struct Cannot(#[source] io::Error);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(explained)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(explained)
    }
}

/// An error of stdout in words. Its kind stays: nobody needs to hear of a pipe that was closed.
pub fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        // What is interrupted is tried again by the caller.
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, Cannot(error)),
    }
}

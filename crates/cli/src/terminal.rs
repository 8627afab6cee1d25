//! What goes to stderr, and how things look on a terminal. Whatever is said here is made plain first: errors and notes
//! repeat what files, servers and compilers say.

use gguf::plain::{self, MESSAGE, NAME};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Starts dim text on a terminal.
pub const DIM: &str = "\x1b[2m";

/// Back to normal text.
pub const NORMAL: &str = "\x1b[0m";

/// Whether a progress line is showing, to be wiped before the next line.
static SHOWING: AtomicBool = AtomicBool::new(false);

/// Whether stderr is a terminal.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether stdout is a terminal that wants colours.
pub fn is_styled() -> bool {
    std::io::stdout().is_terminal() && !is_plain()
}

/// Writes a line to stderr.
pub fn line(text: &str) {
    put(&plain::line(text, MESSAGE));
}

/// Writes a text of several lines to stderr.
pub fn lines(text: &str) {
    put(&plain::lines(text, usize::MAX));
}

/// Writes what is plain. A stderr that nobody reads is no reason to stop.
fn put(text: &str) {
    wipe();
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes a question to stderr; the answer goes on its line.
pub fn ask(question: &str) {
    wipe();
    let _ = write!(std::io::stderr(), "{} ", plain::line(question, MESSAGE));
    let _ = std::io::stderr().flush();
}

/// Writes a line to stderr that is dimmed where that is wanted.
pub fn faint(text: &str) {
    match is_watched() && !is_plain() {
        true => put(&format!("{DIM}{}{NORMAL}", plain::line(text, MESSAGE))),
        false => line(text),
    }
}

/// Whether the user wants no colours.
fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Shows how far something is, on a terminal only.
pub fn progress(text: &str) {
    if is_watched() {
        SHOWING.store(true, Ordering::Relaxed);
        let (dim, normal) = if is_plain() { ("", "") } else { (DIM, NORMAL) };
        let _ = write!(std::io::stderr(), "\r{dim}{}{normal}\x1b[K", plain::line(text, NAME));
        let _ = std::io::stderr().flush();
    }
}

/// Removes the progress line.
pub fn wipe() {
    let _ = write!(std::io::stderr(), "{}", wiping());
}

/// What removes the progress line, if one is showing; it counts as removed.
pub fn wiping() -> &'static str {
    if SHOWING.swap(false, Ordering::Relaxed) { "\r\x1b[K" } else { "" }
}

//! What goes to stderr, and how things look on a terminal.

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

/// Writes a line to stderr. A stderr that nobody reads is no reason to stop.
pub fn line(text: &str) {
    wipe();
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes a line to stderr that is dimmed where that is wanted.
pub fn faint(text: &str) {
    match is_watched() && !is_plain() {
        true => line(&format!("{DIM}{text}{NORMAL}")),
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
        let _ = write!(std::io::stderr(), "\r{dim}{text}{normal}\x1b[K");
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

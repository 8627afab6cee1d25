//! From an error to one line and an exit code: 1 for failures, 2 for wrong usage, 130 after Ctrl-C.

use crate::terminal;
use model::error::EngineError;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Wrong usage that the parser of arguments could not see.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The user pressed Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Prints an error and gives its exit code.
pub fn exit(error: &anyhow::Error) -> ExitCode {
    if error.is::<Interrupted>() || is_stopped(error) {
        terminal::wipe();
        return ExitCode::from(130);
    }
    if is_closed_pipe(error) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    if let Some(Usage(text)) = error.downcast_ref() {
        terminal::line(&format!("error: {}", text.trim_end()));
        return ExitCode::from(2);
    }
    terminal::line(&format!("error: {}", message(error)));
    ExitCode::FAILURE
}

/// Whether Ctrl-C has ended a step.
fn is_stopped(error: &anyhow::Error) -> bool {
    error.chain().any(|e| e.downcast_ref::<EngineError>().is_some_and(EngineError::is_stopped))
}

/// Whether whoever reads our output has stopped.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |e: &(dyn std::error::Error + 'static)| {
        e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().any(closed)
}

/// An error and its causes on one line. Causes that the text before them quotes are not said again.
pub fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = one_line(&cause.to_string());
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// A text without line breaks and runs of spaces.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A panic is a bug, but also one line.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        terminal::line(&format!("error: internal error: {}{place}; this is a bug, please report it", one_line(&text)));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn one_line_each() {
        assert_eq!(one_line("a\n  b: c\n"), "a b: c");
        let io = io::Error::from(ErrorKind::BrokenPipe);
        assert_eq!(exit(&anyhow::Error::from(io).context("write")), ExitCode::SUCCESS);
        assert_eq!(exit(&Interrupted.into()), ExitCode::from(130));
        let quoting = anyhow::anyhow!("no file").context("in x: no file").context("y");
        assert_eq!(message(&quoting), "y: in x: no file");
        let wrapped = Err::<(), _>(Usage("x".into())).context("y").unwrap_err();
        assert_eq!(exit(&wrapped), ExitCode::from(2));
    }
}

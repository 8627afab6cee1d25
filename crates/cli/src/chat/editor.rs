//! What the user types: lines with editing, history and completion on a terminal.

use crate::chat::command::{self, Command};
use anyhow::Context as _;
use gguf::plain;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, Config, Context, Helper};
use std::borrow::Cow;
use std::cell::Cell;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Texts that are remembered.
const REMEMBERED: usize = 1000;

/// The mark of a text of several lines.
const QUOTES: &str = "\"\"\"";

const PROMPT: &str = "> ";

/// What came from the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// A text to send, several lines perhaps.
    Text(String),
    /// A line that begins with a slash.
    Command(String),
    /// Ctrl-C with something on the line, which is dropped.
    Dropped,
    /// Ctrl-C on an empty line.
    Interrupt,
    /// Ctrl-D, or the end of the input.
    End,
}

/// Reads what is typed, and remembers it.
pub struct Editor {
    lines: rustyline::Editor<Typing, FileHistory>,
    history: Option<PathBuf>,
}

impl Editor {
    /// An editor that keeps what was typed in `history`, if that can be read and written.
    pub fn new(history: Option<PathBuf>) -> anyhow::Result<Editor> {
        let behavior = match std::io::stdout().is_terminal() {
            true => Behavior::Stdio,
            // What goes to stdout is for somebody else.
            false => Behavior::PreferTerm,
        };
        let config = Config::builder().max_history_size(REMEMBERED)?.history_ignore_space(true).behavior(behavior);
        let history_file = FileHistory::with_config(&config.clone().build());
        let mut lines = rustyline::Editor::with_history(config.build(), history_file)?;
        lines.set_helper(Some(Typing { files: FilenameCompleter::new(), has_text: Cell::new(false) }));
        if let Some(path) = &history {
            // There is none before the first chat.
            let _ = lines.load_history(path);
        }
        Ok(Editor { lines, history })
    }

    /// The next input.
    pub fn read(&mut self) -> anyhow::Result<Input> {
        match self.lines.readline(PROMPT) {
            Ok(text) => {
                if !text.trim().is_empty() {
                    self.remember(&text);
                }
                Ok(sorted(&text))
            }
            Err(ReadlineError::Interrupted) => {
                let typed = self.lines.helper_mut().is_some_and(|typing| typing.has_text.get());
                Ok(if typed { Input::Dropped } else { Input::Interrupt })
            }
            Err(ReadlineError::Eof) => Ok(Input::End),
            Err(error) => Err(error).context("cannot read from the terminal"),
        }
    }

    /// A history that cannot be written is no reason to stop talking.
    fn remember(&mut self, text: &str) {
        let added = self.lines.add_history_entry(text).unwrap_or(false);
        if let Some(path) = self.history.as_deref().filter(|_| added) {
            let _ = path.parent().map(std::fs::create_dir_all);
            let _ = self.lines.append_history(path);
        }
    }
}

/// The file that keeps what was typed: in the folder of the user's state.
pub fn usual_history() -> Option<PathBuf> {
    crate::folders::state().map(|folder| folder.join("history"))
}

/// A command or a text without its marks.
fn sorted(typed: &str) -> Input {
    let trimmed = typed.trim();
    if let Some(rest) = trimmed.strip_prefix(QUOTES) {
        return Input::Text(rest.strip_suffix(QUOTES).unwrap_or(rest).trim_matches('\n').to_owned());
    }
    let text = typed.replace("\\\n", "\n");
    match trimmed.starts_with('/') {
        true => Input::Command(trimmed.to_owned()),
        false => Input::Text(text.trim().to_owned()),
    }
}

/// Whether more lines follow.
fn is_open(typed: &str) -> bool {
    match typed.trim_start().strip_prefix(QUOTES) {
        Some(rest) => !rest.trim_end().ends_with(QUOTES),
        None => typed.ends_with('\\'),
    }
}

/// What the editor asks about the text that is being typed.
struct Typing {
    files: FilenameCompleter,
    /// Whether there is anything on the line; after Ctrl-C nobody else knows.
    has_text: Cell<bool>,
}

impl Helper for Typing {}

impl Validator for Typing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_open(context.input()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Typing {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        if !typed.starts_with('/') {
            return Ok((at, vec![]));
        }
        match Command::parse(typed) {
            Ok((command, _)) if command.takes_file() && typed.contains(' ') => {
                let (start, mut names) = self.files.complete(line, at, context)?;
                // What cannot be shown cannot be typed either.
                names.retain(|name| plain::are_lines(&name.replacement));
                Ok((start, names))
            }
            _ => {
                let fitting = command::names().filter(|name| name.starts_with(typed));
                Ok((0, fitting.map(|name| Pair { display: name.into(), replacement: format!("{name} ") }).collect()))
            }
        }
    }
}

impl Hinter for Typing {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.has_text.set(!line.trim().is_empty());
        None
    }
}

impl Highlighter for Typing {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Borrowed(prompt)
    }

    /// What was pasted is shown as other text is.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        plain::lines(line, usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_several_lines() {
        let text = |typed: &str| sorted(typed);
        assert_eq!(text(" hello "), Input::Text("hello".into()));
        assert_eq!(text("one\\\ntwo"), Input::Text("one\ntwo".into()));
        assert_eq!(text("\"\"\"\none\n\ntwo\n\"\"\""), Input::Text("one\n\ntwo".into()));
        assert_eq!(text("\"\"\"/clear\"\"\""), Input::Text("/clear".into()));
        assert_eq!(text("/clear "), Input::Command("/clear".into()));
        for (typed, open) in [
            ("one", false),
            ("one\\", true),
            ("one\\\ntwo", false),
            ("\"\"\"one", true),
            ("\"\"\"", true),
            ("\"\"\"one\ntwo\"\"\"", false),
            ("a \"\"\" in the middle", false),
        ] {
            assert_eq!(is_open(typed), open, "{typed:?}");
        }
    }
}

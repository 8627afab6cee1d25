//! `run`: answers one prompt, or chats.
//!
//! Text goes to stdout as it comes. What a model thinks before it answers is dimmed on a terminal and left out of a
//! pipe. One line of timing goes to stderr at the end.

pub mod arguments;

use crate::arguments::MeasureFlags;
use crate::chat;
use crate::speaker::Speaker;
use crate::terminal;
use anyhow::Context;
use arguments::Arguments;
use std::io::{IsTerminal, Read};

/// Runs a prompt or a chat.
pub fn run(args: Arguments) -> anyhow::Result<()> {
    args.tune.before(&args.model, &args.engine, &MeasureFlags::default())?;
    let prompt = match prompt(&args)? {
        Some(prompt) => prompt,
        None => return chat::run(args),
    };
    let mut speaker = Speaker::open(&args)?;
    let prompt = speaker.prompt_of(&args, prompt)?;
    speaker.prepare(&args.begin, prompt.len())?;
    let answer = speaker.answer(&prompt)?;
    speaker.end_line()?;
    if answer.content.is_empty() && !answer.reasoning.is_empty() && !speaker.shows_thoughts {
        terminal::line("the model only thought and did not answer; --reasoning show prints its thoughts");
    }
    terminal::line(&speaker.timing_line());
    answer.check()
}

/// The prompt, or `None` for a chat.
fn prompt(args: &Arguments) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(text) = &args.prompt {
        let text = if args.escapes { unescaped(text) } else { text.clone() };
        return Ok(Some(text.into_bytes()));
    }
    if let Some(path) = &args.file {
        return Ok(Some(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?));
    }
    if std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut bytes = vec![];
    std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read stdin")?;
    // The newline that ends a line of input is not part of a prompt.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(Some(bytes))
}

/// A text with the characters that `\n`, `\t` and the like stand for; other backslashes stay.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let meant = match (c, rest.as_str().chars().next()) {
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some(same @ ('\\' | '"' | '\''))) => Some(same),
            _ => None,
        };
        if meant.is_some() {
            rest.next();
        }
        out.push(meant.unwrap_or(c));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_once() {
        assert_eq!(unescaped(r#"a\nb\\n\"\'\t\r"#), "a\nb\\n\"'\t\r");
        assert_eq!(unescaped(r"C:\dir\"), "C:\\dir\\");
    }
}

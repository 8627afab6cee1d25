//! The channels of gpt-oss: `<|channel|>NAME<|message|>TEXT<|end|>`, messages one after the other, each with a head that
//! may name a function that is called.
//!
//! What is said in `analysis` is reasoning. A call stays in what is said, in the one form that [`CALL`] begins; so does
//! what the model says in any other channel, without its head.

use super::scan::beginning_of;

/// A message begins.
const START: &str = "<|start|>";
/// The name of a channel follows.
const CHANNEL: &str = "<|channel|>";
/// A head is over.
pub(super) const MESSAGE: &str = "<|message|>";
/// What a call begins with after it was told apart, whatever its head was.
pub(super) const CALL: &str = "<|channel|>commentary to=functions.";
/// A message is over; a call, too, after it was told apart.
pub(super) const END: &str = "<|end|>";
/// What ends a text, where it was printed.
const ENDS: [&str; 3] = [END, "<|call|>", "<|return|>"];
/// Marks that end a message; the last two begin the next one.
const BREAKS: [&str; 5] = [END, "<|call|>", "<|return|>", START, CHANNEL];

/// Whether an output is in channels; `None` while that is open.
pub(super) fn begins(start: &str) -> Option<bool> {
    let marks = [CHANNEL, START];
    if marks.iter().any(|mark| start.starts_with(mark)) {
        return Some(true);
    }
    if marks.iter().any(|mark| mark.starts_with(start)) { None } else { Some(false) }
}

/// Whether a chat template writes the channel of reasoning.
pub(super) fn is_written_by(template: &str) -> bool {
    template.contains(CHANNEL) && template.contains("analysis")
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Reasoning(String),
    Content(String),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Channels {
    held: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// In a head, or before one.
    #[default]
    Head,
    Reasoning,
    Content,
    Call,
}

impl Channels {
    /// Takes the next text and tells what is decided.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Piece>) {
        self.held.push_str(text);
        while self.step(out) {}
    }

    /// Ends the text.
    pub(super) fn finish(&mut self, out: &mut Vec<Piece>) {
        let held = std::mem::take(&mut self.held);
        if self.kind != Kind::Head {
            self.say(held, out);
        }
    }

    /// Whether a message that is open is reasoning.
    pub(super) fn in_reasoning(&self) -> bool {
        self.kind == Kind::Reasoning
    }

    fn step(&mut self, out: &mut Vec<Piece>) -> bool {
        if self.kind == Kind::Head {
            let Some((head, rest)) = self.held.split_once(MESSAGE) else { return false };
            let (head, rest) = (head.to_owned(), rest.to_owned());
            self.held = rest;
            self.kind = kind(&head);
            if let Some(function) = function(&head) {
                self.kind = Kind::Call;
                out.push(Piece::Content(format!("{CALL}{function}{MESSAGE}")));
            }
            return true;
        }
        let found = BREAKS.iter().filter_map(|mark| Some((self.held.find(mark)?, *mark))).min();
        let Some((at, mark)) = found else {
            let kept = BREAKS.iter().map(|mark| beginning_of(mark, &self.held)).max().unwrap_or(0);
            let text = self.held.drain(..self.held.len() - kept).collect();
            self.say(text, out);
            return false;
        };
        let text = self.held.drain(..at).collect();
        self.say(text, out);
        if ENDS.contains(&mark) {
            self.held.drain(..mark.len());
        }
        if self.kind == Kind::Call {
            out.push(Piece::Content(END.to_owned()));
        }
        self.kind = Kind::Head;
        true
    }

    fn say(&self, text: String, out: &mut Vec<Piece>) {
        if !text.is_empty() {
            out.push(if self.kind == Kind::Reasoning { Piece::Reasoning(text) } else { Piece::Content(text) });
        }
    }
}

/// What a message with this head is, unless it is a call.
fn kind(head: &str) -> Kind {
    let channel = head.rsplit(CHANNEL).next().unwrap_or_default();
    if channel.trim_start().starts_with("analysis") { Kind::Reasoning } else { Kind::Content }
}

/// The function that a head calls.
fn function(head: &str) -> Option<&str> {
    let (_, rest) = head.split_once("to=functions.")?;
    let end = rest.find(|c: char| c == '<' || c.is_whitespace()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

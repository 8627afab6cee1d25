//! Reasoning and answer told apart in streamed text.

use super::harmony::{self, Channels, Piece};
use crate::sampler::StopStrings;
use crate::tokenizer::tags;

pub(super) const OPEN: &str = tags::THINK.0;
pub(super) const CLOSE: &str = tags::THINK.1;

/// Splits a model's output into what it thinks and what it says.
///
/// Output starts as reasoning if the prompt opened the tag, or if `<think>` is the first thing in
/// it; the first `</think>` ends the reasoning for good. The tags, and the whitespace on either side
/// of them, belong to neither. What may be part of a tag is held back until it is known. The tags of other families
/// (`[THINK]`, `<seed:think>`, `<|START_THINKING|>`, …) do the same, and the channels of gpt-oss are told apart.
///
/// ```
/// use text::chat::ReasoningSplitter;
///
/// let mut splitter = ReasoningSplitter::new(true);
/// assert_eq!(splitter.push("so it is\n</th").reasoning, "so it is");
/// let split = splitter.push("ink>\n\nIt is.");
/// assert_eq!((split.reasoning.as_str(), split.content.as_str()), ("", "It is."));
/// ```
#[derive(Debug, Clone)]
pub struct ReasoningSplitter {
    state: State,
    close: StopStrings,
    /// Text that is not decided: the beginning of the output, or whitespace that may be trimmed.
    held: String,
    channels: Channels,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but whitespace and the beginning of the opening tag so far.
    Undecided,
    /// Inside the tag; only whitespace so far.
    ReasoningStarts,
    Reasoning,
    /// After the closing tag; only whitespace so far.
    ContentStarts,
    Content,
    /// The output is in channels.
    Channels,
}

/// The next pieces of reasoning and of content; all reasoning comes before all content, but in channels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// What the model thinks.
    pub reasoning: String,
    /// What the model says.
    pub content: String,
}

impl Split {
    fn take(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => self.reasoning += &text,
                Piece::Content(text) => self.content += &text,
            }
        }
    }
}

impl ReasoningSplitter {
    /// A splitter for output after a prompt that `opened` the tag, or not.
    pub fn new(opened: bool) -> ReasoningSplitter {
        ReasoningSplitter {
            state: if opened { State::ReasoningStarts } else { State::Undecided },
            close: StopStrings::new(tags::THOUGHTS.map(|(_, close)| close)),
            held: String::new(),
            channels: Channels::default(),
        }
    }

    /// Takes the next text and returns what is decided.
    pub fn push(&mut self, text: &str) -> Split {
        let mut split = Split::default();
        match self.state {
            State::Undecided => self.open(text, &mut split),
            State::ReasoningStarts | State::Reasoning => self.reason(text, &mut split),
            State::ContentStarts | State::Content => self.say(text, &mut split),
            State::Channels => {
                let mut pieces = vec![];
                self.channels.push(text, &mut pieces);
                split.take(pieces);
            }
        }
        split
    }

    /// Ends the output and returns what was held back.
    pub fn finish(&mut self) -> Split {
        let mut split = Split::default();
        match self.state {
            State::Undecided => split.content = std::mem::take(&mut self.held),
            State::ReasoningStarts | State::Reasoning => {
                // An unclosed tag is reasoning to the end; a cut closing tag is text after all.
                let rest = self.close.finish().to_owned();
                self.think(&rest, &mut split);
            }
            State::ContentStarts | State::Content => {}
            State::Channels => {
                let mut pieces = vec![];
                self.channels.finish(&mut pieces);
                split.take(pieces);
            }
        }
        self.held.clear();
        split
    }

    /// Whether the output is still reasoning.
    pub fn in_reasoning(&self) -> bool {
        match self.state {
            State::ReasoningStarts | State::Reasoning => true,
            State::Channels => self.channels.in_reasoning(),
            State::Undecided | State::ContentStarts | State::Content => false,
        }
    }

    fn open(&mut self, text: &str, split: &mut Split) {
        self.held.push_str(text);
        let start = self.held.trim_start();
        let opened =
            tags::THOUGHTS.iter().find_map(|(open, close)| Some((start.strip_prefix(open)?.to_owned(), *close)));
        if let Some((rest, close)) = opened {
            self.held.clear();
            self.close = StopStrings::new([close]);
            self.state = State::ReasoningStarts;
            return self.reason(&rest, split);
        }
        let in_channels = harmony::begins(start);
        if in_channels == Some(true) {
            let text = start.to_owned();
            self.held.clear();
            self.state = State::Channels;
            let mut pieces = vec![];
            self.channels.push(&text, &mut pieces);
            split.take(pieces);
        } else if in_channels == Some(false) && !tags::THOUGHTS.iter().any(|(open, _)| open.starts_with(start)) {
            self.state = State::Content;
            split.content = std::mem::take(&mut self.held);
        }
    }

    fn reason(&mut self, text: &str, split: &mut Split) {
        let (before, stopped) = self.close.push(text);
        let before = before.to_owned();
        self.think(&before, split);
        if let Some(stopped) = stopped {
            self.held.clear();
            self.state = State::ContentStarts;
            self.say(&text[text.len() - stopped.rest..], split);
        }
    }

    /// Adds to the reasoning, without whitespace at either end.
    fn think(&mut self, text: &str, split: &mut Split) {
        let mut text = text;
        if self.state == State::ReasoningStarts {
            text = text.trim_start();
            if text.is_empty() {
                return;
            }
            self.state = State::Reasoning;
        }
        self.held.push_str(text);
        let decided = self.held.trim_end().len();
        split.reasoning.extend(self.held.drain(..decided));
    }

    fn say(&mut self, text: &str, split: &mut Split) {
        let mut text = text;
        if self.state == State::ContentStarts {
            text = text.trim_start();
            if text.is_empty() {
                return;
            }
            self.state = State::Content;
        }
        split.content.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(opened: bool, pieces: &[&str]) -> (String, String) {
        let mut splitter = ReasoningSplitter::new(opened);
        let mut whole = Split::default();
        for piece in pieces {
            let split = splitter.push(piece);
            assert!(whole.content.is_empty() || split.reasoning.is_empty());
            whole.reasoning += &split.reasoning;
            whole.content += &split.content;
        }
        let rest = splitter.finish();
        (whole.reasoning + &rest.reasoning, whole.content + &rest.content)
    }

    #[test]
    fn whole_outputs() {
        for (opened, output, reasoning, content) in [
            (true, "\nhm\n</think>\n\nYes", "hm", "Yes"),
            (true, "hm</think>Yes", "hm", "Yes"),
            (true, "</think>Yes", "", "Yes"),
            (true, "never closed </thi", "never closed </thi", ""),
            (true, "a  b\n\nc </think> d </think> e", "a  b\n\nc", "d </think> e"),
            (false, "Yes", "", "Yes"),
            (false, "  Yes ", "", "  Yes "),
            (false, "<think>hm</think>Yes", "hm", "Yes"),
            (false, "\n<think>\nhm\n</think>\n\nYes\n", "hm", "Yes\n"),
            (false, "<thinking>", "", "<thinking>"),
            (false, "<thi", "", "<thi"),
            (false, "a <think>b</think>", "", "a <think>b</think>"),
            (false, "", "", ""),
            (true, "", "", ""),
            (true, " \n", "", ""),
        ] {
            let expected = (reasoning.to_owned(), content.to_owned());
            assert_eq!(run(opened, &[output]), expected, "{output:?}");
            let letters: Vec<String> = output.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(run(opened, &letters), expected, "{output:?}, letter by letter");
        }
    }

    #[test]
    fn text_is_passed_on_as_soon_as_it_is_decided() {
        let mut splitter = ReasoningSplitter::new(true);
        assert_eq!(splitter.push("one two ").reasoning, "one two");
        assert_eq!(splitter.push("three < four").reasoning, " three < four");
        assert!(splitter.in_reasoning());
        assert_eq!(splitter.push("</think>five").content, "five");
        assert!(!splitter.in_reasoning());
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            opened in any::<bool>(),
            words in prop::collection::vec(
                prop::sample::select(vec!["<think>", "</think>", "<", "</", "a", " ", "\n", "é", "think>"]),
                0..12,
            ),
            cuts in prop::collection::vec(1usize..6, 60),
        ) {
            let text: Vec<char> = words.concat().chars().collect();
            let (mut pieces, mut at) = (vec![], 0);
            for cut in cuts {
                let end = (at + cut).min(text.len());
                pieces.push(String::from_iter(&text[at..end]));
                at = end;
            }
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(run(opened, &pieces), run(opened, &[&words.concat()]));
        }
    }
}

//! A rendered conversation.

use std::ops::Range;

use super::jinja::Marked;
use super::words::Words;
use crate::tokenizer::{Tokenizer, tags};

/// A rendered conversation: the text for a model, and which of it are the words of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text, control tokens spelled out. What is appended here counts as the template's.
    pub text: String,
    /// Whether the text ends inside a tag of reasoning, such as `<think>`, so that the output starts as reasoning.
    pub opens_reasoning: bool,
    /// In order, apart from each other, none empty.
    data: Vec<Range<usize>>,
    parse_special: bool,
    /// What ends the reasoning that the text opened.
    close: &'static str,
}

impl Prompt {
    pub(super) fn new(marked: Marked, parse_special: bool) -> Prompt {
        Prompt { text: marked.text, opens_reasoning: false, data: marked.data, parse_special, close: tags::THINK.1 }
    }

    /// The tokens. Special ones are only found where the template wrote them: one that is spelled out in the words of
    /// others, wholly or in part, is text.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        tokenizer.encode_with_data(&self.text, true, &self.data)
    }

    /// The tokens of the text from byte `at` on, which go on from those before.
    ///
    /// # Panics
    /// `at` is no boundary of characters in the text.
    pub fn encode_from(&self, tokenizer: &Tokenizer, at: usize) -> Vec<u32> {
        let ranges = self.data.iter().filter(|range| range.end > at);
        let ranges: Vec<Range<usize>> = ranges.map(|range| range.start.saturating_sub(at)..range.end - at).collect();
        tokenizer.encode_with_data(&self.text[at..], false, &ranges)
    }

    /// The ranges of bytes that are the words of others, in order.
    pub fn data(&self) -> &[Range<usize>] {
        &self.data
    }

    /// Goes on with what the assistant has thought and said already. Thoughts go only where the prompt lets it think.
    pub fn begin_answer(&mut self, thoughts: &str, said: &str) {
        if self.opens_reasoning {
            self.push(thoughts, Words::Data);
            if !said.is_empty() {
                self.close_reasoning();
            }
        }
        self.push(said, Words::Model);
    }

    /// Finds out whether the text ends inside a tag of reasoning.
    pub(super) fn find_open_reasoning(&mut self) {
        if let Some((_, close)) = tags::THOUGHTS.iter().find(|(open, _)| self.ends_with_tag(open)) {
            self.opens_reasoning = true;
            self.close = close;
        }
    }

    pub(super) fn close_reasoning(&mut self) {
        self.text.push_str(self.close);
        self.opens_reasoning = false;
    }

    /// Whether the last that is not white space is this tag, and the template's or the model's.
    fn ends_with_tag(&self, tag: &str) -> bool {
        let text = self.text.trim_end();
        let start = text.len().saturating_sub(tag.len());
        text.ends_with(tag) && !self.data.iter().any(|range| range.start < text.len() && range.end > start)
    }

    fn push(&mut self, text: &str, words: Words) {
        let at = self.text.len();
        self.text.push_str(text);
        if !self.parse_special {
            self.data.extend(words.data_in(text).into_iter().map(|range| range.start + at..range.end + at));
        }
    }
}

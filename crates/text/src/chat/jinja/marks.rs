//! Text that knows which of its bytes are *data*: words of messages, tools and variables, as opposed to the template's
//! own. Data stays data through every operation, so that a prompt can be encoded without special tokens in it.
//!
//! An operation that has no exact place for each byte, such as a change of case, makes all of its result data if any of
//! what it worked on was. Numbers have no marks, and comparisons do not see them.

use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::Arc;

/// What one range costs.
pub(super) const RANGE_BYTES: usize = std::mem::size_of::<Range<usize>>();

/// A string value.
#[derive(Clone)]
pub(super) struct Text {
    text: Arc<str>,
    data: Data,
}

#[derive(Clone)]
enum Data {
    None,
    All,
    /// In order, apart from each other, none empty.
    Some(Rc<[Range<usize>]>),
}

impl Text {
    /// Text of the template.
    pub(super) fn own(text: impl Into<Arc<str>>) -> Text {
        Text { text: text.into(), data: Data::None }
    }

    /// Text in which these ranges are data.
    pub(super) fn with_data(text: impl Into<Arc<str>>, ranges: Vec<Range<usize>>) -> Text {
        let text = text.into();
        let data = match &ranges[..] {
            [] => Data::None,
            [all] if *all == (0..text.len()) => Data::All,
            _ => Data::Some(ranges.into()),
        };
        Text { text, data }
    }

    /// What was made of this text as a whole.
    pub(super) fn made(&self, text: String) -> Text {
        Text { text: text.into(), data: if self.has_data() { Data::All } else { Data::None } }
    }

    pub(super) fn has_data(&self) -> bool {
        !matches!(self.data, Data::None)
    }

    /// The part of the text in `range`.
    pub(super) fn part(&self, range: Range<usize>) -> Text {
        let mut ranges = vec![];
        self.each_data_in(range.clone(), |data| ranges.push(data.start - range.start..data.end - range.start));
        Text::with_data(&self.text[range], ranges)
    }

    /// The data in a part of the text.
    fn each_data_in(&self, part: Range<usize>, mut sink: impl FnMut(Range<usize>)) {
        match &self.data {
            Data::None => {}
            Data::All if part.is_empty() => {}
            Data::All => sink(part),
            Data::Some(ranges) => {
                let first = ranges.partition_point(|range| range.end <= part.start);
                for range in ranges[first..].iter().take_while(|range| range.start < part.end) {
                    sink(range.start.max(part.start)..range.end.min(part.end));
                }
            }
        }
    }

    /// What the marks cost.
    pub(super) fn mark_bytes(&self) -> usize {
        match &self.data {
            Data::Some(ranges) => ranges.len().saturating_mul(RANGE_BYTES),
            _ => 0,
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Text that grows.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    pub(crate) text: String,
    /// In order, apart from each other, none empty.
    pub(crate) data: Vec<Range<usize>>,
}

impl Marked {
    /// Appends a part of a text.
    pub(super) fn push_part(&mut self, text: &Text, part: Range<usize>) {
        let (from, to) = (part.start, self.text.len());
        text.each_data_in(part.clone(), |data| self.mark(data.start - from + to..data.end - from + to));
        self.text.push_str(&text[part]);
    }

    /// Makes what is there from `from` on data if any of it is.
    pub(super) fn spread(&mut self, from: usize) {
        if self.data.last().is_none_or(|last| last.end <= from) {
            return;
        }
        while self.data.last().is_some_and(|last| last.start >= from) {
            self.data.pop();
        }
        self.mark(from..self.text.len());
    }

    /// Marks a range that begins in or after the last one.
    fn mark(&mut self, range: Range<usize>) {
        match self.data.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => self.data.push(range),
        }
    }
}

impl From<Marked> for Text {
    fn from(marked: Marked) -> Text {
        Text::with_data(marked.text, marked.data)
    }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;

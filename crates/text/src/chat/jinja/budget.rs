//! How much a template may use. Templates come with downloaded models and are not trusted: every
//! step of evaluation and every byte of every value made is paid for here.

use std::ops::Range;

use super::error::{Fault, Limit};
use super::marks::{Marked, RANGE_BYTES, Text};

/// What one rendering may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Steps of evaluation; work on text costs one step for every 32 bytes.
    pub steps: u64,
    /// Bytes of all values made, whether still alive or not.
    pub memory: u64,
    /// Bytes of output.
    pub output: usize,
}

impl Default for Limits {
    /// Enough for a conversation of several million tokens; a hostile template ends within
    /// seconds.
    fn default() -> Limits {
        Limits { steps: 50_000_000, memory: 512 << 20, output: 64 << 20 }
    }
}

/// Deepest nesting of brackets, operands and blocks in the source.
pub(super) const MAX_NESTING: usize = 64;

/// Longest chain of operators, filters or attributes: they nest to the left.
pub(super) const MAX_CHAIN: usize = 100;

/// Deepest nesting of evaluation: macros in macros, blocks in blocks. A level takes under 1 kB of
/// stack, 8 kB without optimisation.
pub(super) const MAX_DEPTH: usize = 200;

/// Deepest nesting of lists and mappings.
pub(super) const MAX_VALUE_DEPTH: usize = 150;

/// Longest template.
pub(super) const MAX_SOURCE_BYTES: usize = 1 << 20;

const BYTES_PER_STEP: usize = 32;

pub(super) struct Budget {
    steps: u64,
    memory: u64,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Budget {
        Budget { steps: limits.steps, memory: limits.memory }
    }

    pub(super) fn step(&mut self) -> Result<(), Fault> {
        self.steps(1)
    }

    pub(super) fn steps(&mut self, count: usize) -> Result<(), Fault> {
        match self.steps.checked_sub(count as u64) {
            Some(left) => self.steps = left,
            None => return Err(Limit::Steps.into()),
        }
        Ok(())
    }

    /// Pays for reading `bytes` of text.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), Fault> {
        self.steps(bytes / BYTES_PER_STEP)
    }

    /// Pays for making a value of `bytes`.
    pub(super) fn make(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.memory.checked_sub(bytes as u64) {
            Some(left) => self.memory = left,
            None => return Err(Limit::Memory.into()),
        }
        self.read(bytes)
    }
}

/// Text under construction, paid for before it grows; its marks are paid for as they come.
pub(super) struct Builder<'b> {
    made: Marked,
    pub(super) budget: &'b mut Budget,
}

impl Builder<'_> {
    pub(super) fn new(budget: &mut Budget) -> Builder<'_> {
        Builder { made: Marked::default(), budget }
    }

    /// Appends text of the template.
    pub(super) fn push(&mut self, text: &str) -> Result<(), Fault> {
        self.budget.make(text.len())?;
        self.made.text.push_str(text);
        Ok(())
    }

    pub(super) fn push_char(&mut self, ch: char) -> Result<(), Fault> {
        self.push(ch.encode_utf8(&mut [0; 4]))
    }

    pub(super) fn push_text(&mut self, text: &Text) -> Result<(), Fault> {
        self.push_part(text, 0..text.len())
    }

    pub(super) fn push_part(&mut self, text: &Text, part: Range<usize>) -> Result<(), Fault> {
        self.budget.make(part.len())?;
        self.append(text, part)
    }

    pub(super) fn repeat(&mut self, text: &Text, count: usize) -> Result<(), Fault> {
        self.budget.make(text.len().saturating_mul(count))?;
        // Nothing costs nothing, and could be repeated for ever.
        let count = if text.is_empty() { 0 } else { count };
        (0..count).try_for_each(|_| self.append(text, 0..text.len()))
    }

    /// Appends what is paid for but for its marks.
    fn append(&mut self, text: &Text, part: Range<usize>) -> Result<(), Fault> {
        let marks = self.made.data.len();
        self.made.push_part(text, part);
        self.budget.make((self.made.data.len() - marks).saturating_mul(RANGE_BYTES))
    }

    /// Length so far.
    pub(super) fn len(&self) -> usize {
        self.made.text.len()
    }

    /// Makes what is there from `from` on data if any of it is: what was rendered as one.
    pub(super) fn spread(&mut self, from: usize) {
        self.made.spread(from);
    }

    pub(super) fn finish(self) -> Text {
        self.made.into()
    }
}

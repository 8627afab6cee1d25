//! What one step computes: tokens of several sequences, and whose logits are wanted.
//!
//! A [`Batch`] is the ragged input of a step program in plain numbers. Each sequence in it is a *segment*: a run of
//! tokens from some position on, and the pages that its cache lies in. A segment may be one decoded token, a chunk of
//! a prompt, or anything between; how they are mixed is the [`crate::scheduler`]'s business.

use crate::cache::PAGE;
use crate::config::Pooling;
use crate::error::EngineError;
use crate::pages::Move;
use crate::prefill_attention::{RUN, Reach};
use crate::sent::Arriving;
use crate::snapshot::Snapshot;
use crate::step::{Class, Output, Variant, WINDOW_PAGES, WINDOW_TABLE};
use device::{Device, Null};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use text::sampler::Draw;

/// What a step can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Length of a row of logits; every token is below it.
    pub vocab: usize,
    /// Tokens of a step.
    pub tokens: usize,
    /// Rows of logits of a step.
    pub rows: usize,
    /// Segments of a step.
    pub segments: usize,
    /// Positions of one sequence.
    pub context: usize,
    /// Pages of the cache, which all sequences share.
    pub pages: usize,
    /// Whether all tokens of a text come in one step, as they see what follows.
    pub whole: bool,
    /// The token whose row has the scores of a text, in a model that ranks.
    pub ranks: Option<Pooling>,
    /// What reading the cache costs.
    pub reach: Reach,
}

impl Limits {
    /// The class of a step whose segments are tokens between two positions.
    pub fn class(&self, segments: impl Iterator<Item = Range<usize>> + Clone) -> Class {
        let tokens = segments.clone().map(|s| s.len()).sum();
        match Class::of(tokens) {
            Class::One if segments.clone().all(|s| self.reach.is_short(s.end)) => Class::Short,
            Class::Many if self.reach.by_runs(segments) => Class::Prompt,
            Class::Many if tokens <= self.reach.several() => Class::Several,
            class => class,
        }
    }

    /// Rows of an output that a step gives at most.
    pub fn rows_of(&self, output: Output) -> usize {
        match output {
            Output::Logits => self.rows,
            Output::Hidden => self.tokens,
            Output::Scores | Output::Likeliest | Output::Drawn => self.segments.min(self.tokens),
        }
    }

    /// Pages of one sequence at most.
    pub fn row_pages(&self) -> usize {
        self.context.div_ceil(PAGE as usize)
    }
}

/// The input of a step. Keeps its memory from step to step.
///
/// ```
/// use model::batch::{Batch, Limits};
///
/// let reach = model::prefill_attention::Reach::NOTHING;
/// let limits = Limits { vocab: 100, tokens: 8, rows: 2, segments: 2, context: 128, pages: 4, whole: false, ranks: None, reach };
/// let mut batch = Batch::new(limits);
/// batch.add(&[5, 6, 7], 0, &[2])?; // a prompt, in page 2
/// batch.want_last();
/// batch.add(&[9], 70, &[0, 3])?; // one token more of another sequence
/// batch.want_last();
/// assert_eq!((batch.tokens(), batch.segments(), batch.rows()), (4, 2, 2));
/// # Ok::<(), model::error::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    limits: Limits,
    token: Vec<i32>,
    position: Vec<i32>,
    segment: Vec<i32>,
    rows: Vec<i32>,
    /// How the token of each row is drawn, the bits of [`Draw::numbers`].
    draws: Vec<i32>,
    /// Page table, `[segments, row_pages]`.
    table: Vec<i32>,
    /// Positions of the tokens of each segment.
    segments: Vec<Range<usize>>,
    /// First token of each segment, how many it has, and where its sequence is remembered.
    first: Vec<i32>,
    len: Vec<i32>,
    places: Vec<i32>,
    output: Output,
    runs: Runs,
}

/// The tokens of a batch in runs, as [`crate::prefill_attention`] takes them.
#[derive(Clone, Debug, Default)]
struct Runs {
    /// Tokens and their positions, [`RUN`] a run.
    token: Vec<i32>,
    position: Vec<i32>,
    /// Segment of each run, its first slot, and the pages that it reads.
    segment: Vec<i32>,
    slot: Vec<i32>,
    pages: Vec<i32>,
    /// Place of each token.
    place: Vec<i32>,
    /// Page of each slot: the pages of one segment after those of another.
    slot_page: Vec<i32>,
}

impl Runs {
    fn clear(&mut self) {
        let Runs { token, position, segment, slot, pages, place, slot_page } = self;
        [token, position, segment, slot, pages, place, slot_page].into_iter().for_each(Vec::clear);
    }

    /// Adds a segment of tokens from `first` on, at these positions, in these pages: the last run first, as it reads the
    /// most and should not be the one that others wait for.
    fn add(&mut self, segment: usize, first: usize, positions: Range<usize>, pages: &[u32]) {
        let (run, slot) = (RUN as usize, self.slot_page.len() as i32);
        self.slot_page.extend(pages.iter().map(|&page| page as i32));
        let all = self.token.len() + positions.len().next_multiple_of(run);
        self.place.extend((0..positions.len()).map(|i| (all - (i / run + 1) * run + i % run) as i32));
        for start in positions.clone().step_by(run).rev() {
            let end = positions.end.min(start + run);
            for position in (start..start + run).map(|position| position.min(end - 1)) {
                self.token.push((first + position - positions.start) as i32);
                self.position.push(position as i32);
            }
            self.segment.push(segment as i32);
            self.slot.push(slot);
            self.pages.push(end.div_ceil(PAGE as usize) as i32);
        }
    }
}

impl Batch {
    /// An empty batch.
    pub fn new(limits: Limits) -> Batch {
        Batch {
            token: Vec::with_capacity(limits.tokens),
            position: Vec::with_capacity(limits.tokens),
            segment: Vec::with_capacity(limits.tokens),
            rows: Vec::with_capacity(limits.tokens),
            draws: vec![],
            table: vec![0; limits.segments * limits.row_pages()],
            segments: Vec::with_capacity(limits.segments),
            first: Vec::with_capacity(limits.segments),
            len: Vec::with_capacity(limits.segments),
            places: Vec::with_capacity(limits.segments),
            output: Output::Logits,
            runs: Runs::default(),
            limits,
        }
    }

    /// A batch that nothing fits into, and which has no memory.
    pub(crate) fn none() -> Batch {
        let reach = Reach::NOTHING;
        Batch::new(Limits {
            vocab: 0,
            tokens: 0,
            rows: 0,
            segments: 0,
            context: 0,
            pages: 0,
            whole: false,
            ranks: None,
            reach,
        })
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.token.clear();
        self.position.clear();
        self.segment.clear();
        self.rows.clear();
        self.draws.clear();
        self.runs.clear();
        self.segments.clear();
        self.first.clear();
        self.len.clear();
        self.places.clear();
        self.output = Output::Logits;
    }

    /// Asks for something else than logits in the rows.
    pub fn set_output(&mut self, output: Output) {
        self.output = output;
    }

    /// What the rows hold.
    pub fn output(&self) -> Output {
        self.output
    }

    /// The program that runs it.
    pub fn variant(&self) -> Variant {
        Variant { class: self.limits.class(self.segments.iter().cloned()), output: self.output }
    }

    /// Adds tokens of a sequence that begin at position `start`; position `p` lies in `pages[p / 64]`. Every position
    /// before `start` must have been computed into these pages.
    ///
    /// # Errors
    /// What does not fit: tokens, segments, positions, pages. The batch is then as before.
    pub fn add(&mut self, tokens: &[u32], start: usize, pages: &[u32]) -> Result<(), EngineError> {
        let vocab = self.limits.vocab;
        if let Some(&bad) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(EngineError::Token(bad, vocab as i64));
        }
        self.place(start..start + tokens.len(), pages)?;
        self.token.extend(tokens.iter().map(|&token| token as i32));
        Ok(())
    }

    /// As [`Batch::add`], a token that the host does not know: what the last step that chose tokens chose in a row.
    ///
    /// # Errors
    /// As [`Batch::add`].
    pub fn add_chosen(&mut self, row: usize, position: usize, pages: &[u32]) -> Result<(), EngineError> {
        self.place(position..position + 1, pages)?;
        self.token.push(-1 - row as i32);
        Ok(())
    }

    /// Makes room for tokens at these positions, which are added next.
    fn place(&mut self, positions: Range<usize>, pages: &[u32]) -> Result<(), EngineError> {
        let context = self.limits.context;
        let Range { start, end } = positions;
        if end > context {
            return Err(EngineError::Context(end - 1, context as i64));
        }
        if self.limits.whole && start > 0 {
            let why =
                format!("position {start} of a text that is read as a whole, since its tokens see what follows them");
            return Err(EngineError::Batch(why));
        }
        let needed = end.div_ceil(PAGE as usize);
        let Some(pages) = pages.get(..needed) else {
            return Err(EngineError::Batch(format!("{end} positions in {} pages", pages.len())));
        };
        if let Some(page) = pages.iter().find(|&&page| page as usize >= self.limits.pages) {
            return Err(EngineError::Batch(format!("page {page} of {}", self.limits.pages)));
        }
        if start == end {
            return Err(EngineError::Batch("a segment without tokens".into()));
        }
        let tokens = self.token.len() + end - start;
        if tokens > self.limits.tokens || self.segments.len() == self.limits.segments {
            return Err(EngineError::Batch(format!(
                "{tokens} tokens of {} sequences (at most {} of {})",
                self.segments.len() + 1,
                self.limits.tokens,
                self.limits.segments
            )));
        }
        let (segment, row) = (self.segments.len(), self.limits.row_pages());
        self.segments.push(start..end);
        self.first.push(self.token.len() as i32);
        self.len.push((end - start) as i32);
        self.places.push(segment as i32);
        self.runs.add(segment, self.token.len(), start..end, pages);
        self.position.extend((start..end).map(|position| position as i32));
        self.segment.extend(std::iter::repeat_n(segment as i32, end - start));
        let table = &mut self.table[segment * row..][..needed];
        table.iter_mut().zip(pages).for_each(|(entry, &page)| *entry = page as i32);
        Ok(())
    }

    /// Says where the sequence added last is remembered, by a model that has states: one place for all its steps, below
    /// [`Limits::segments`]. Who does not say it has the place of its number in the batch.
    pub fn set_place(&mut self, place: usize) {
        if let Some(last) = self.places.last_mut() {
            *last = place.min(self.limits.segments - 1) as i32;
        }
    }

    /// Where each sequence is remembered, and the positions of its tokens.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, &Range<usize>)> {
        self.places.iter().map(|&place| place as usize).zip(&self.segments)
    }

    /// Of each sequence its place, the positions of its tokens, and the pages until the last of them.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (usize, &Range<usize>, &[i32])> + Clone {
        let rows = self.table.chunks(self.limits.row_pages().max(1));
        let sequences = self.places.iter().zip(&self.segments).zip(rows);
        sequences.map(|((&place, positions), row)| {
            (place as usize, positions, &row[..positions.end.div_ceil(PAGE as usize)])
        })
    }

    /// Asks for the logits of the token added last.
    pub fn want_last(&mut self) {
        self.want(self.token.len().saturating_sub(1)..self.token.len());
    }

    /// Asks for the token after the one added last, drawn so: the output is then tokens.
    pub fn draw(&mut self, draw: Draw) {
        self.want_last();
        if self.output != Output::Drawn {
            self.output = Output::of(draw);
        }
        self.draws.extend(draw.numbers().map(|number| number.to_bits() as i32));
    }

    /// Asks for the logits of tokens, by their places in the batch. Rows come in the order in which they are asked for. A
    /// batch that wants more than [`Limits::rows`] is refused when it shall run ([`EngineError::Rows`]).
    pub fn want(&mut self, tokens: std::ops::Range<usize>) {
        let tokens = tokens.start.min(self.token.len())..tokens.end.min(self.token.len());
        let room = self.limits.tokens - self.rows.len().min(self.limits.tokens);
        self.rows.extend(tokens.take(room).map(|token| token as i32));
    }

    /// Becomes the part of another batch that has these of its tokens, and wants what that wants of them; one of the rows in
    /// any case, as a step gives at least one. Which rows of the other one its rows are. Every token must be known.
    pub(crate) fn cut(&mut self, whole: &Batch, part: Range<usize>) -> Vec<usize> {
        self.clear();
        self.output = whole.output;
        let (mut first, row) = (0, whole.limits.row_pages());
        for (segment, positions) in whole.segments.iter().enumerate() {
            let from = part.start.clamp(first, first + positions.len());
            let to = part.end.clamp(first, first + positions.len());
            let start = positions.start + from - first;
            first += positions.len();
            if from < to {
                let table = &whole.table[segment * row..][..(start + to - from).div_ceil(PAGE as usize)];
                let pages: Vec<u32> = table.iter().map(|&page| page as u32).collect();
                self.place(start..start + to - from, &pages).expect("it fits as part of another");
                self.set_place(whole.places[segment] as usize);
                self.token.extend_from_slice(&whole.token[from..to]);
            }
        }
        let wanted = |(_, token): &(usize, &i32)| part.contains(&(**token as usize));
        let (numbers, tokens): (Vec<usize>, Vec<&i32>) = whole.rows.iter().enumerate().filter(wanted).unzip();
        self.rows.extend(tokens.into_iter().map(|token| token - part.start as i32));
        if self.rows.is_empty() {
            self.want_last();
        }
        numbers
    }

    /// Tokens in it.
    pub fn tokens(&self) -> usize {
        self.token.len()
    }

    /// Sequences in it.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Rows of logits that were asked for.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Rows of the cache that belong to a segment from this step on and hold what somebody left there: of each page
    /// that it begins, all; of the page that a prompt goes on in, what is not computed yet.
    pub fn begun(&self) -> impl Iterator<Item = Range<usize>> {
        let page = PAGE as usize;
        (0..self.token.len()).filter_map(move |i| {
            let (position, segment) = (self.position[i] as usize, self.segment[i]);
            let first = i == 0 || self.segment[i - 1] != segment;
            let goes_on = first && self.segment.get(i + 1) == Some(&segment);
            (position % page == 0 || goes_on).then(|| {
                let entry = segment as usize * self.limits.row_pages() + position / page;
                let start = self.table[entry] as usize * page;
                start + position % page..start + page
            })
        })
    }

    /// The inputs of a step program.
    pub fn inputs(variant: Variant) -> impl Iterator<Item = &'static str> {
        let Variant { class, output } = variant;
        let runs = ["run_token", "run_position", "run_segment", "run_slot", "run_pages", "run_place", "slot_page"];
        let by_runs = runs.into_iter().filter(move |_| class == Class::Prompt);
        let draws = (output == Output::Drawn).then_some("draws");
        let always = [
            "token",
            "position",
            "segment",
            "rows",
            "page_table",
            WINDOW_TABLE,
            "place",
            "segment_first",
            "segment_len",
        ];
        always.into_iter().chain(draws).chain(by_runs)
    }

    /// An input of the step program by its name, as far as this step uses it.
    pub fn input(&self, name: &str) -> Option<&[i32]> {
        Some(match name {
            "token" => &self.token,
            "position" => &self.position,
            "segment" => &self.segment,
            "rows" => &self.rows,
            "draws" => &self.draws,
            // Layers with a window have the same pages where nobody says otherwise.
            "page_table" | WINDOW_TABLE => &self.table[..self.segments.len() * self.limits.row_pages()],
            "place" => &self.places,
            "segment_first" => &self.first,
            "segment_len" => &self.len,
            "run_token" => &self.runs.token,
            "run_position" => &self.runs.position,
            "run_segment" => &self.runs.segment,
            "run_slot" => &self.runs.slot,
            "run_pages" => &self.runs.pages,
            "run_place" => &self.runs.place,
            "slot_page" => &self.runs.slot_page,
            _ => return None,
        })
    }

    /// The value of a variable of the step program.
    pub fn variable(&self, name: &str) -> Option<i64> {
        let value = match name {
            "tokens" => self.token.len(),
            "rows" => self.rows.len(),
            "pages" | WINDOW_PAGES => self.limits.pages,
            "row_pages" => self.limits.row_pages(),
            "table" => self.limits.segments * self.limits.row_pages(),
            "segments" => self.segments.len(),
            "runs" => self.runs.segment.len(),
            "slots" => self.runs.slot_page.len(),
            _ => return None,
        };
        Some(value as i64)
    }
}

/// Room beside a device for pages of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// How many there may be now.
    pub pages: usize,
    /// How long it takes to move one there and back.
    pub time: Duration,
}

/// Runs steps of many sequences. [`Steps`](crate::steps::Steps) is the same for one, which needs no pages.
pub trait Batches {
    /// What a step can take.
    fn limits(&self) -> Limits;

    /// Makes sure that a step of so many tokens waits for no compiler.
    ///
    /// # Errors
    /// Of the compiler and of the device.
    fn prepare(&mut self, tokens: usize) -> Result<(), EngineError>;

    /// Runs a batch that was made for [`Batches::limits`] and returns its output for the rows it asks for, row after
    /// row.
    ///
    /// # Errors
    /// An empty batch, one that wants more rows than there is room for, or a failure of the device.
    fn run(&mut self, batch: &Batch) -> Result<&[f32], EngineError>;

    /// Whether a sequence can go on from any of its positions; otherwise only from the last, or from the start.
    fn rewinds(&self) -> bool {
        true
    }

    /// The last position until `at` from which a sequence can go on whose cache lies in these pages, those beside the device
    /// counted behind those of it: layers with a window may have forgotten what it needs.
    fn goes_on(&self, pages: &[u32], at: usize) -> usize {
        let _ = pages;
        at
    }

    /// Lets the sequence at a place go on from such a position.
    fn settle(&mut self, place: usize, pages: &[u32], at: usize) {
        let _ = (place, pages, at);
    }

    /// What the layers of a model that remembers have of the sequence at a place, if that is known.
    ///
    /// # Errors
    /// A failure of the device.
    fn remember(&mut self, place: usize) -> Result<Option<Snapshot>, EngineError> {
        let _ = place;
        Ok(None)
    }

    /// Lets the sequence at a place go on from where a snapshot was taken, of a sequence that had the same tokens.
    ///
    /// # Errors
    /// A failure of the device.
    fn recall(&mut self, place: usize, snapshot: &Snapshot) -> Result<(), EngineError> {
        let _ = (place, snapshot);
        unreachable!("no snapshots")
    }

    /// Room beside the device for pages of the cache, of which so many are taken there; more is on its way, until it has so
    /// many bytes, if little is left.
    ///
    /// # Errors
    /// A failure of the device.
    fn room_beside(&mut self, most: u64, taken: usize) -> Result<Room, EngineError> {
        let _ = (most, taken);
        Ok(Room::default())
    }

    /// Moves pages of the cache between the device and the room beside it, before the next step.
    ///
    /// # Errors
    /// A failure of the device.
    fn carry(&mut self, moves: &[Move]) -> Result<(), EngineError> {
        assert!(moves.iter().all(|step| matches!(step, Move::Join { .. })), "no room beside the device");
        Ok(())
    }

    /// How many steps may be sent before the tokens of one are known.
    fn ahead(&self) -> usize {
        0
    }

    /// As [`Batches::run`] for a batch whose output is tokens, and does not wait for them. The next step may be sent before,
    /// and have these tokens ([`Batch::add_chosen`]).
    ///
    /// # Errors
    /// As [`Batches::run`].
    fn send(&mut self, batch: &Batch) -> Result<Box<dyn Arriving>, EngineError> {
        let _ = batch;
        unreachable!("no steps ahead")
    }

    /// Whose threads are free between steps ([`Device::parallel_for`]); if nobody's are, the calling thread is alone.
    fn device(&self) -> Arc<dyn Device> {
        Arc::new(Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        vocab: 50,
        tokens: 4,
        rows: 4,
        segments: 2,
        context: 128,
        pages: 3,
        whole: false,
        ranks: None,
        reach: Reach::NOTHING,
    };

    #[test]
    fn a_part_of_a_batch_is_a_batch() {
        let mut whole = Batch::new(LIMITS);
        whole.add(&[1, 2], 63, &[0, 2]).unwrap();
        whole.want(1..2);
        whole.add(&[3, 4], 5, &[1]).unwrap();
        whole.want(2..4);
        let mut part = Batch::new(LIMITS);
        assert_eq!(part.cut(&whole, 1..3), [0, 1]);
        let input = |name: &str| part.input(name).unwrap().to_vec();
        assert_eq!((input("token"), input("position")), (vec![2, 3], vec![64, 5]));
        assert_eq!((input("segment"), input("rows")), (vec![0, 1], vec![0, 1]));
        assert_eq!(input("page_table"), [0, 2, 1, 0]);
        assert_eq!(part.cut(&whole, 3..4), [2]);
        assert_eq!((part.input("position"), part.input("rows")), (Some(&[5 + 1][..]), Some(&[0][..])));
        // Nobody wants the first token, so the row that a step gives is nobody's.
        assert_eq!((part.cut(&whole, 0..1), part.rows()), (vec![], 1));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut batch = Batch::new(LIMITS);
        batch.add(&[1, 2, 3], 0, &[2]).unwrap();
        let mut refused = |tokens: &[u32], start, pages: &[u32]| {
            let error = batch.add(tokens, start, pages).unwrap_err().to_string();
            assert_eq!((batch.tokens(), batch.segments()), (3, 1), "{error}");
            error
        };
        assert!(refused(&[50], 0, &[1]).contains("token 50"));
        assert!(refused(&[1], 128, &[0, 1]).contains("position 128"));
        assert!(refused(&[1], 64, &[0]).contains("65 positions in 1 pages"));
        assert!(refused(&[1], 0, &[3]).contains("page 3 of 3"));
        assert!(refused(&[], 0, &[0]).contains("without tokens"));
        assert!(refused(&[1, 1], 0, &[0]).contains("5 tokens"));
        batch.add(&[1], 0, &[0]).unwrap();
        batch.clear();
        batch.add(&[1], 0, &[0]).unwrap();
        batch.add(&[1], 0, &[1]).unwrap();
        assert!(batch.add(&[1], 0, &[1]).unwrap_err().to_string().contains("3 sequences"));
    }

    #[test]
    fn inputs_of_two_sequences() {
        let mut batch = Batch::new(LIMITS);
        batch.add(&[7, 8], 63, &[1, 2]).unwrap();
        batch.want_last();
        batch.add(&[9], 0, &[0]).unwrap();
        batch.want_last();
        assert_eq!(batch.input("token").unwrap(), [7, 8, 9]);
        assert_eq!(batch.input("position").unwrap(), [63, 64, 0]);
        assert_eq!(batch.input("segment").unwrap(), [0, 0, 1]);
        assert_eq!(batch.input("rows").unwrap(), [1, 2]);
        assert_eq!(batch.input("page_table").unwrap(), [1, 2, 0, 0]);
        assert_eq!((batch.variable("row_pages"), batch.variable("table")), (Some(2), Some(4)));
        assert_eq!((batch.input("other"), batch.variable("other")), (None, None));
    }

    #[test]
    fn tokens_in_runs() {
        let limits = Limits { tokens: 100, context: 256, pages: 8, ..LIMITS };
        let mut batch = Batch::new(limits);
        batch.add(&[1; 66], 63, &[1, 2, 5]).unwrap();
        batch.add(&[9; 2], 0, &[0]).unwrap();
        let input = |name: &str| batch.input(name).unwrap();
        assert_eq!((batch.variable("runs"), batch.variable("slots")), (Some(3), Some(4)));
        assert_eq!(input("run_segment"), [0, 0, 1]);
        assert_eq!(input("run_pages"), [3, 2, 1], "what reads the most comes first");
        assert_eq!(input("run_slot"), [0, 0, 3]);
        assert_eq!(input("slot_page"), [1, 2, 5, 0]);
        let run = RUN as usize;
        let token = input("run_token");
        assert_eq!((token.len(), token[run], token[2 * run - 1]), (3 * run, 0, 63));
        assert_eq!((token[0], token[1], token[run - 1]), (64, 65, 65), "the last one repeats");
        let position = input("run_position");
        assert_eq!((position[run], position[1], position[2 * run], position[3 * run - 1]), (63, 128, 0, 1));
        let places = input("run_place");
        assert!(places.iter().enumerate().all(|(i, &place)| token[place as usize] as usize == i), "{places:?}");
        batch.clear();
        assert_eq!((batch.variable("runs"), batch.variable("slots")), (Some(0), Some(0)));
    }
}

//! Pages of layers with a window: which pages of the cache have one there, and where it lies.
//!
//! Such a layer needs nothing of a text but what the window behind its end sees, so it has a pool of its own, which does not
//! grow with the context. A page of the pool stands for a page of the cache ([`crate::pages`]): both hold the same positions,
//! each of its own layers, and are written by the same steps. Who has which page of the cache is not known here, only which
//! of them have been left without one in the pool. A text can go on from where the pages of the window behind it are there
//! (`WindowPages::goes_on`).
//!
//! Each sequence keeps two windows of its place: the one behind its end, and the one behind the last tokens that came
//! together, which are those of a prompt: the next turn of a chat begins like this one, up to its answer. Of the rest, the page
//! that was used longest ago makes room. That is enough for every step, as the pool has room for all windows and for the
//! tokens of a step ([`pool`]).

use crate::cache::PAGE;
use crate::config::{Config, Window};
use crate::error::EngineError;
use std::ops::Range;

const BLOCK: usize = PAGE as usize;

/// No page.
const NONE: u32 = u32::MAX;

/// Pages that nobody needs, for texts that begin as an earlier one did.
const SPARE: i64 = 32;

/// How far before the end of a prompt the next turn of a chat may differ from it: a page.
const CHANGED: usize = BLOCK;

/// Pages of the pool that serves so many sequences in steps of `tokens` at most; `None` for a model whose layers need what is
/// before their windows, or have none. Where masks are in place of windows (`--without window`), there is none either.
pub fn pool(config: &Config, sequences: i64, tokens: i64) -> Option<i64> {
    // A model that remembers goes on from elsewhere, and one that sees what follows from nowhere.
    let of = config.window.as_ref().filter(|_| config.recurrence.is_none() && config.causal)?;
    of.layers.contains(&true).then(|| pages(of.width, sequences, tokens))
}

/// Pages that serve so many sequences that see so many positions, in steps of `tokens` at most.
fn pages(width: i64, sequences: i64, tokens: i64) -> i64 {
    // A window may begin at the last position of a page; behind that of a prompt there is what may change.
    let behind = (width + PAGE - 2) / PAGE + 1;
    let steps = (tokens + PAGE - 1) / PAGE + sequences;
    sequences * (2 * behind + 1) + steps + SPARE
}

/// The pool, and what its pages stand for.
#[derive(Debug)]
pub(crate) struct WindowPages {
    width: usize,
    chunks: bool,
    /// Where each page of the cache lies in the pool.
    places: Vec<u32>,
    pool: Vec<Pooled>,
    /// Where the pages lie that each sequence keeps, by what they are kept for.
    kept: Vec<[Vec<usize>; 2]>,
    /// Of pages beside the device, those that have been moved there with what lay in the pool.
    beside: Vec<bool>,
    /// Whether sequences go on from anywhere, to be measured.
    measured: bool,
    clock: u64,
}

/// What a sequence keeps pages for: the window behind its end, or behind its prompt.
#[derive(Clone, Copy)]
enum Kept {
    End,
    Prompt,
}

#[derive(Clone, Debug)]
struct Pooled {
    /// The page of the cache that it stands for.
    page: u32,
    /// How often it is kept.
    kept: u32,
    used: u64,
}

impl WindowPages {
    /// A pool of so many pages for a cache of `pages`, and so many sequences.
    pub fn new(window: &Window, pool: usize, pages: usize, sequences: usize) -> WindowPages {
        WindowPages {
            width: window.width as usize,
            chunks: window.chunks,
            places: vec![NONE; pages],
            pool: vec![Pooled { page: NONE, kept: 0, used: 0 }; pool],
            kept: vec![Default::default(); sequences],
            beside: vec![],
            measured: false,
            clock: 0,
        }
    }

    /// Pages of the pool.
    pub fn len(&self) -> usize {
        self.pool.len()
    }

    /// From now on, sequences may go on from where nothing was computed.
    pub fn measure(&mut self) {
        self.measured = true;
    }

    /// Where a page of the cache lies in the pool.
    pub fn place(&self, page: usize) -> Option<usize> {
        self.places.get(page).filter(|&&place| place != NONE).map(|&place| place as usize)
    }

    /// Where rows of a page of the cache lie in the pool.
    pub fn rows(&self, rows: Range<usize>) -> Option<Range<usize>> {
        let start = self.place(rows.start / BLOCK)? * BLOCK + rows.start % BLOCK;
        Some(start..start + rows.len())
    }

    /// Pages, by their number in a sequence, that a token at a position sees before its own position.
    pub fn behind(&self, position: usize) -> Range<usize> {
        let first =
            if self.chunks { position / self.width * self.width } else { (position + 1).saturating_sub(self.width) };
        first.min(position) / BLOCK..position.div_ceil(BLOCK)
    }

    /// Pages that tokens between two positions see, their own among them.
    pub fn seen(&self, start: usize, end: usize) -> Range<usize> {
        self.behind(start).start..end.div_ceil(BLOCK)
    }

    /// Whether a page is in the pool, or was moved beside the device from there; pages behind those of the device are numbers of
    /// pages beside it.
    fn is_there(&self, page: u32) -> bool {
        let page = page as usize;
        match page.checked_sub(self.places.len()) {
            None => self.place(page).is_some(),
            Some(beside) => self.beside.get(beside).copied().unwrap_or(false),
        }
    }

    /// The last position until `at` that a sequence in these pages can go on from.
    pub fn goes_on(&self, pages: &[u32], mut at: usize) -> usize {
        while let Some(missing) = self.behind(at).rev().find(|&i| !self.is_there(pages[i])) {
            at = missing * BLOCK;
        }
        at
    }

    /// Keeps what the sequence in these pages sees that goes on from a position, as far as it is there.
    pub fn keep(&mut self, sequence: usize, pages: &[u32], at: usize) {
        let pages: Vec<i32> = pages[self.behind(at)].iter().map(|&page| page as i32).collect();
        self.keep_all(sequence, Kept::End, &pages);
    }

    /// Keeps these pages of the cache for a sequence, as far as they are there, instead of those before.
    fn keep_all(&mut self, sequence: usize, which: Kept, pages: &[i32]) {
        self.clock += 1;
        let mut kept = std::mem::take(&mut self.kept[sequence][which as usize]);
        for &page in pages {
            if let Some(place) = self.place(page as usize) {
                let pooled = &mut self.pool[place];
                (pooled.kept, pooled.used) = (pooled.kept + 1, self.clock);
            }
        }
        kept.drain(..).for_each(|place| self.pool[place].kept -= 1);
        kept.extend(pages.iter().filter_map(|&page| self.place(page as usize)));
        self.kept[sequence][which as usize] = kept;
    }

    /// Sees to the pages of a step: of each sequence, the positions of its tokens and its pages. What was seen before must be
    /// there, unless it is only `measured`.
    ///
    /// # Errors
    /// A sequence that goes on from where it cannot.
    pub fn begin<'a>(
        &mut self,
        sequences: impl Iterator<Item = (usize, &'a Range<usize>, &'a [i32])> + Clone,
        measured: bool,
    ) -> Result<(), EngineError> {
        let any = measured || self.measured;
        for (sequence, positions, pages) in sequences.clone() {
            let behind = self.behind(positions.start);
            if let Some(i) = behind.clone().find(|&i| self.place(pages[i] as usize).is_none()).filter(|_| !any) {
                let at = positions.start;
                return Err(EngineError::Batch(format!("position {at} of a text whose window lacks page {i}")));
            }
            self.keep_all(sequence, Kept::End, &pages[behind]);
        }
        for (sequence, positions, pages) in sequences {
            let Range { start, end } = *positions;
            for &page in &pages[self.seen(start, end)] {
                // One that is there may hold what another text left, and be the next to make room.
                match self.place(page as usize) {
                    Some(place) => self.pool[place].used = self.clock,
                    None => {
                        self.give(page as u32)?;
                    }
                }
            }
            if positions.len() > 1 {
                let before = self.behind(end.saturating_sub(CHANGED)).start;
                self.keep_all(sequence, Kept::Prompt, &pages[before.min(self.behind(end).start)..end.div_ceil(BLOCK)]);
            }
            self.keep_all(sequence, Kept::End, &pages[self.behind(end)]);
        }
        Ok(())
    }

    /// Gives a page of the cache one in the pool, which nobody keeps: a free one, or the one used longest ago.
    fn give(&mut self, page: u32) -> Result<usize, EngineError> {
        let unkept = self.pool.iter().enumerate().filter(|(_, pooled)| pooled.kept == 0);
        let Some((place, _)) = unkept.min_by_key(|(_, pooled)| pooled.used) else {
            return Err(EngineError::Batch("more windows than the pool of their pages has room for".into()));
        };
        self.clock += 1;
        let before = std::mem::replace(&mut self.pool[place], Pooled { page, kept: 0, used: self.clock }).page;
        if before != NONE {
            self.places[before as usize] = NONE;
        }
        self.places[page as usize] = place as u32;
        Ok(place)
    }

    /// A page of the cache is another's from now on.
    fn take_from(&mut self, page: u32) {
        if let Some(place) = self.place(page as usize) {
            self.pool[place].page = NONE;
            self.pool[place].used = 0;
            self.places[page as usize] = NONE;
        }
    }

    /// What a page of the cache is moved beside the device with: its place in the pool, if it has one.
    pub fn move_out(&mut self, page: u32, to: u32) -> Option<usize> {
        let (place, to) = (self.place(page as usize), to as usize);
        self.beside.resize(self.beside.len().max(to + 1), false);
        self.beside[to] = place.is_some();
        place
    }

    /// Where a page that comes back has its place in the pool, if what lay there was moved out with it.
    ///
    /// # Errors
    /// A pool without a page that nobody keeps.
    pub fn move_in(&mut self, from: u32, page: u32) -> Result<Option<usize>, EngineError> {
        if !self.is_there(self.places.len() as u32 + from) {
            self.take_from(page);
            return Ok(None);
        }
        self.place(page as usize).map_or_else(|| self.give(page), Ok).map(Some)
    }

    /// Two pages of the cache hold the same, and the second is read instead of the first from now on.
    pub fn join(&mut self, page: u32, into: u32) {
        let Some(own) = self.place(page as usize) else { return };
        match self.place(into as usize) {
            None => {
                self.places[page as usize] = NONE;
                self.places[into as usize] = own as u32;
                self.pool[own].page = into;
            }
            Some(same) => {
                // Who keeps the one keeps the other.
                let all = self.kept.iter_mut().flatten().flatten();
                for place in all.filter(|place| **place == own) {
                    *place = same;
                    self.pool[own].kept -= 1;
                    self.pool[same].kept += 1;
                }
                self.take_from(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{Lease, Move, Pages};
    use proptest::prelude::*;

    const SEQUENCES: usize = 3;

    fn window(width: i64, chunks: bool) -> Window {
        Window { width, ahead: 0, chunks, layers: vec![true], heads: None, attention: None, rope: None }
    }

    /// A cache whose rows are the tokens that were written to them, and steps that look at what they see.
    struct Cache {
        pages: Pages,
        windows: WindowPages,
        /// By page of the device, by page of the pool, and both beside the device.
        rows: Vec<[u32; BLOCK]>,
        pool: Vec<[u32; BLOCK]>,
        beside: Vec<[[u32; BLOCK]; 2]>,
    }

    impl Cache {
        fn new(window: &Window, pool: usize, near: usize, beside: usize) -> Cache {
            let mut pages = Pages::new(near);
            pages.set_room((beside > 0).then_some(beside));
            Cache {
                windows: WindowPages::new(window, pool, near, SEQUENCES),
                pages,
                rows: vec![[0; BLOCK]; near],
                pool: vec![[0; BLOCK]; pool],
                beside: vec![[[0; BLOCK]; 2]; beside],
            }
        }

        fn carry(&mut self) {
            for step in self.pages.moves() {
                match step {
                    Move::Out { page, to } => {
                        let in_window = self.windows.move_out(page, to).map(|place| self.pool[place]);
                        self.beside[to as usize] = [self.rows[page as usize], in_window.unwrap_or([0; BLOCK])];
                    }
                    Move::In { from, page } => {
                        let place = self.windows.move_in(from, page).expect("there is room");
                        let [rows, in_window] = self.beside[from as usize];
                        self.rows[page as usize] = rows;
                        place.into_iter().for_each(|place| self.pool[place] = in_window);
                    }
                    Move::Join { page, into } => self.windows.join(page, into),
                }
            }
        }

        /// Gives a sequence its pages, and says how many of its tokens need not be computed.
        fn admit(&mut self, sequence: usize, tokens: &[u32]) -> Option<(Lease, usize)> {
            let (path, known) = self.pages.path(tokens);
            let tokens = &tokens[..self.windows.goes_on(&path, known) + 1];
            let (mut lease, cached) = self.pages.acquire(tokens);
            let cached = self.pages.restore(&mut lease, tokens, cached);
            self.carry();
            self.windows.keep(sequence, lease.pages(), cached);
            // All of it came back only if there was room for it.
            if self.windows.goes_on(lease.pages(), cached) < cached {
                self.pages.release(lease, &tokens[..cached]);
                return None;
            }
            Some((lease, cached))
        }

        /// Computes tokens of sequences until some position each.
        fn step(&mut self, parts: &[(usize, Range<usize>, &Lease, &[u32])]) {
            self.carry();
            let pages: Vec<Vec<i32>> =
                parts.iter().map(|part| part.2.pages().iter().map(|&page| page as i32).collect()).collect();
            let of_batch = parts.iter().zip(&pages).map(|(part, pages)| (part.0, &part.1, &pages[..]));
            self.windows.begin(of_batch, false).expect("the pool has room for all");
            for (_, positions, lease, tokens) in parts {
                for at in positions.clone() {
                    let page = lease.pages()[at / BLOCK] as usize;
                    self.rows[page][at % BLOCK] = tokens[at];
                    self.pool[self.windows.place(page).expect("its own page")][at % BLOCK] = tokens[at];
                }
            }
            for (_, positions, lease, tokens) in parts {
                for at in positions.clone() {
                    for seen in self.windows.behind(at).start * BLOCK..=at {
                        let in_window = seen + self.windows.width > at && !self.windows.chunks
                            || self.windows.chunks && seen / self.windows.width == at / self.windows.width;
                        let page = lease.pages()[seen / BLOCK] as usize;
                        assert_eq!(self.rows[page][seen % BLOCK], tokens[seen]);
                        if in_window {
                            let place = self.windows.place(page).expect("a page of the window");
                            assert_eq!(self.pool[place][seen % BLOCK], tokens[seen], "{at} sees {seen}");
                        }
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever texts begin alike, go on, end, come back and make room for each other: what a token sees is there.
        #[test]
        fn what_a_token_sees_is_there(
            (width, chunks) in (1..200i64, any::<bool>()),
            beside in prop_oneof![Just(0usize), Just(40)],
            jobs in prop::collection::vec((0..4u32, 1..1500usize, 0..3u32), 4..12),
            turns in prop::collection::vec((0..300usize, 0..300usize, 0..300usize), 150),
        ) {
            const STEP: usize = 320;
            let pool = pages(width, SEQUENCES as i64, STEP as i64) as usize;
            let mut cache = Cache::new(&window(width, chunks), pool, 90, beside);
            // Texts that agree in a beginning: the first block of each depends on one number, the rest on two.
            let text = |(start, len, rest): (u32, usize, u32)| -> Vec<u32> {
                (0..len as u32).map(|i| 1 + if i < 100 + 200 * start { start } else { 10 + start * 7 + rest }).collect()
            };
            let mut waiting: Vec<Vec<u32>> = jobs.into_iter().map(text).collect();
            let mut running: [Option<(Lease, usize, Vec<u32>)>; SEQUENCES] = Default::default();
            for turn in turns {
                for (sequence, slot) in running.iter_mut().enumerate() {
                    if slot.is_none() && let Some(mut tokens) = waiting.pop() {
                        tokens.extend([0; 30]);
                        let Some((mut lease, at)) = cache.admit(sequence, &tokens) else { continue };
                        match cache.pages.grow(&mut lease, tokens.len()) {
                            true => *slot = Some((lease, at, tokens)),
                            false => cache.pages.release(lease, &tokens[..at]),
                        }
                    }
                }
                let mut left = STEP;
                let shares = [turn.0, turn.1, turn.2].map(|share| {
                    let share = share.saturating_sub(100).min(left);
                    left -= share;
                    share
                });
                let parts: Vec<_> = running.iter().enumerate().filter_map(|(sequence, running)| {
                    let (lease, at, tokens) = running.as_ref()?;
                    let end = tokens.len().min(at + shares[sequence]);
                    (end > *at).then_some((sequence, *at..end, lease, &tokens[..]))
                }).collect();
                if !parts.is_empty() {
                    cache.step(&parts);
                }
                for (slot, share) in running.iter_mut().zip(shares) {
                    let Some((mut lease, at, tokens)) = slot.take() else { continue };
                    let at = tokens.len().min(at + share);
                    cache.pages.computed(&mut lease, &tokens[..at]);
                    if at < tokens.len() {
                        *slot = Some((lease, at, tokens));
                    } else {
                        cache.pages.release(lease, &tokens);
                        waiting.insert(0, tokens[..tokens.len() - 30].to_vec());
                    }
                }
            }
        }
    }

    #[test]
    fn a_text_goes_on_from_its_end_and_from_that_of_its_prompt() {
        let (width, near) = (100, 200);
        let pool = pages(width, 1, 512) as usize;
        let mut windows = WindowPages::new(&window(width, false), pool, near, 1);
        let all: Vec<u32> = (0..near as u32).collect();
        let pages: Vec<i32> = (0..near as i32).collect();
        let mut step = |positions: Range<usize>| {
            let of_batch = [(0, &positions, &pages[..positions.end.div_ceil(BLOCK)])];
            windows.begin(of_batch.into_iter(), false).map_err(|e| e.to_string())
        };
        (0..4000).step_by(500).for_each(|at| step(at..at + 500).unwrap());
        (4000..10_000).for_each(|at| step(at..at + 1).unwrap());
        let error = step(2000..2001).unwrap_err();
        assert!(error.contains("position 2000") && error.contains("lacks page"), "{error}");
        let from = |at| windows.goes_on(&all, at);
        // A window behind the prompt's end, and a page before that, is kept while an answer comes.
        assert_eq!([10_000, 9_000, 4_000, 3_940].map(from), [10_000, 9_000, 4_000, 3_940]);
        assert_eq!([2_000, 64, 0].map(from), [0; 3]);
    }
}

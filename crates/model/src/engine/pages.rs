//! The pages of the cache that a step reads and writes: cleared, found in the pool of layers with a window, and filled to
//! measure.

use super::Engine;
use crate::batch::{Batch, Batches};
use crate::cache::{CacheKind, PAGE, SCALES};
use crate::error::EngineError;
use crate::step::WINDOW_TABLE;
use crate::window_pages::WindowPages;
use std::ops::Range;

/// A state of the cache.
pub(super) struct CacheState {
    pub(super) name: String,
    /// Whether its pages are those of the pool of layers with a window.
    pub(super) in_pool: bool,
    /// How many it has.
    pub(super) pages: usize,
}

impl Engine {
    /// Positions that layers with a window keep at most, of all sequences.
    pub(crate) fn window_positions(&self) -> usize {
        self.windows.as_ref().map_or(self.limits().pages, WindowPages::len) * PAGE as usize
    }

    /// Bytes of a page of a state of the cache.
    pub(super) fn page_bytes_of(&self, state: &CacheState) -> Result<usize, EngineError> {
        Ok(self.memory.state_bytes(&state.name)? / state.pages)
    }

    /// Clears the pages that sequences of a batch begin.
    pub(super) fn clear_begun(&mut self, batch: &Batch) -> Result<(), EngineError> {
        // Nothing that another sequence left is read, not even to weigh nothing: it may be infinite.
        if batch.begun().next().is_none() {
            return Ok(());
        }
        for state in &self.caches {
            let row = self.page_bytes_of(state)? / PAGE as usize;
            let pool = self.windows.as_ref().filter(|_| state.in_pool);
            let place = |rows: Range<usize>| pool.map_or(Some(rows.clone()), |pool| pool.rows(rows));
            let mut begun = batch.begun().filter_map(place);
            begun.try_for_each(|rows| self.memory.clear_state(&state.name, rows.start * row..rows.end * row))?;
        }
        Ok(())
    }

    /// Sees to it that layers with a window have the pages of a batch.
    pub(super) fn see_windows(&mut self, batch: &Batch, measured: bool) -> Result<(), EngineError> {
        self.windows.as_mut().map_or(Ok(()), |windows| windows.begin(batch.pages(), measured))
    }

    /// The last position until `at` from which the only sequence can go on; one of a model that remembers can from the last.
    pub(crate) fn single_goes_on(&self, at: usize) -> usize {
        if !self.rewinds() {
            return if self.remembered[0] == Some(at) { at } else { 0 };
        }
        self.goes_on(&self.single_pages, at)
    }

    /// Tells a program where these pages lie, if they lie in a pool. Of others it reads nothing.
    pub(super) fn find_windows(&mut self, batch: &Batch) -> Result<(), EngineError> {
        let row_pages = self.limits().row_pages();
        let Some(windows) = self.windows.as_ref().filter(|_| self.memory.has_input(WINDOW_TABLE)) else {
            return Ok(());
        };
        let table = self.memory.input_mut::<i32>(WINDOW_TABLE)?;
        for ((_, positions, pages), row) in batch.pages().zip(table.chunks_mut(row_pages)) {
            for i in windows.seen(positions.start, positions.end) {
                row[i] = windows.place(pages[i] as usize).map_or(0, |place| place as i32);
            }
        }
        Ok(())
    }

    /// Fills the cache of the only sequence up to a position with small numbers that no tokens gave, to measure at a depth
    /// that was not computed. A program must have been prepared.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn fill_cache(&mut self, positions: usize, mut random: impl FnMut() -> u32) -> Result<(), EngineError> {
        for state in &self.caches {
            // Magnitudes from 1/8 to 1/2, with either sign; of codes, those below.
            let (width, number): (usize, fn(u32) -> u32) = match self.options.cache {
                CacheKind::F32 => (4, |bits| bits & 0x807f_ffff | (124 + (bits >> 24 & 1)) << 23),
                CacheKind::F16 => (2, |bits| bits & 0x83ff | (12 + (bits >> 16 & 1)) << 10),
                CacheKind::Q8_0 if state.name.ends_with(SCALES) => (2, |bits| bits & 0x3ff | 6 << 10),
                CacheKind::Q8_0 => (1, |bits| bits & 0xff),
            };
            let rows = state.pages * PAGE as usize;
            let bytes = self.memory.state_bytes(&state.name)? / rows * positions.min(rows);
            let mut filled: Vec<u8> = vec![];
            while filled.len() < bytes {
                filled.extend_from_slice(&number(random()).to_le_bytes()[..width]);
            }
            self.memory.write_state(&state.name, 0, &filled[..bytes])?;
        }
        self.go_on_from(positions);
        Ok(())
    }

    /// Lets all sequences go on from a position, wherever they are, to measure there.
    pub fn go_on_from(&mut self, position: usize) {
        self.remembered.fill(Some(position));
        self.windows.iter_mut().for_each(|windows| windows.measure());
    }
}

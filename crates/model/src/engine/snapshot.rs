//! Snapshots of what layers remember ([`Snapshot`]): taken, and gone on from.

use super::pages::CacheState;
use super::{Engine, states_of};
use crate::cache::layer_of;
use crate::error::EngineError;
use crate::snapshot::Snapshot;
use crate::step::REMEMBERED;
use crate::window_pages::WindowPages;
use compiler::program::Program;

impl Engine {
    pub(super) fn know_states(&mut self, program: &Program) {
        let all = self.limits().pages;
        let state = |name: String| {
            let in_window = layer_of(&name).is_some_and(|layer| self.config.window_of(layer).is_some());
            let pool = self.windows.as_ref().filter(|_| in_window);
            CacheState { name, in_pool: pool.is_some(), pages: pool.map_or(all, WindowPages::len) }
        };
        self.caches = super::states(program).into_iter().map(state).collect();
        self.memories = states_of(program, REMEMBERED);
    }

    /// What the layers remember of the sequence at a place; `None` if the model has none that do, or if it is not known
    /// where the sequence is.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn remember(&mut self, place: usize) -> Result<Option<Snapshot>, EngineError> {
        let Some(position) = self.remembered[place].filter(|_| !self.memories.is_empty()) else { return Ok(None) };
        let mut rows = vec![];
        for name in &self.memories {
            let bytes = self.memory.state_bytes(name)? / self.remembered.len();
            self.memory.copy_state(name, place * bytes..(place + 1) * bytes, &mut rows)?;
        }
        Ok(Some(Snapshot::new(position, rows)))
    }

    /// Lets the sequence at a place go on from where a snapshot of this engine was taken.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn recall(&mut self, place: usize, snapshot: &Snapshot) -> Result<(), EngineError> {
        let mut rows = snapshot.rows();
        self.remembered[place] = None;
        for name in &self.memories {
            let bytes = self.memory.state_bytes(name)? / self.remembered.len();
            let (own, rest) = rows.split_at(bytes);
            self.memory.write_state(name, place * bytes, own)?;
            rows = rest;
        }
        self.remembered[place] = Some(snapshot.position());
        Ok(())
    }
}

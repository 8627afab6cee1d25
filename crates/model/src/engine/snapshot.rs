//! Snapshots of what layers remember ([`Snapshot`]): taken, and gone on from.

use super::{Engine, states_of};
use crate::cache::layer_of;
use crate::error::EngineError;
use crate::snapshot::Snapshot;
use crate::step::REMEMBERED;
use compiler::program::Program;

impl Engine {
    pub(super) fn know_states(&mut self, program: &Program) {
        let in_window = |name: &String| layer_of(name).is_some_and(|layer| self.config.window_of(layer).is_some());
        let apart = self.windows.is_some();
        (self.window_caches, self.caches) =
            super::states(program).into_iter().partition(|name| apart && in_window(name));
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

//! Pages of the cache beside the device: when they are moved there rather than forgotten.

use super::{BLOCK, Scheduler};
use crate::error::EngineError;
use crate::pages::Move;

impl Scheduler {
    /// Pages that have to go are worth keeping if there is room, and if one is moved away and back in less time than its tokens
    /// took that were computed so far.
    pub(super) fn see_to_room(&mut self) {
        if !self.options.reuse || self.options.beside_bytes == 0 || !self.pages.is_filling() {
            return;
        }
        // A device that is gone says so in the next step.
        let room = self.engine.room_beside(self.options.beside_bytes, self.pages.spilled()).unwrap_or_default();
        let computed = self.stats.prompt_time.mul_f64(BLOCK as f64 / self.stats.prompt_tokens.max(1) as f64);
        self.pages.set_room((room.time < computed).then_some(room.pages));
    }

    /// Carries out the moves that are due before the next step.
    pub(super) fn carry(&mut self) -> Result<(), EngineError> {
        let moves = self.pages.moves();
        if moves.is_empty() {
            return Ok(());
        }
        for step in &moves {
            match step {
                Move::Out { .. } => self.stats.moved_out += 1,
                Move::In { .. } => self.stats.moved_in += 1,
                Move::Join { .. } => {}
            }
        }
        self.engine.carry(&moves)
    }
}

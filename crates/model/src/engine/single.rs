//! Steps of the only sequence, whose input and pages the engine has.

use super::Engine;
use crate::batch::Batch;
use crate::error::EngineError;
use crate::sent::Sent;
use crate::step::Output;
use std::ops::Range;
use text::sampler::Draw;

impl Engine {
    /// As [`Engine::step`], with this of the rows.
    pub(crate) fn step_of(
        &mut self,
        output: Output,
        tokens: &[u32],
        start: usize,
        rows: Range<usize>,
    ) -> Result<&[f32], EngineError> {
        self.with_single(|engine, batch| {
            batch.set_output(output);
            batch.add(tokens, start, &engine.single_pages)?;
            batch.want(rows);
            engine.run_batch(batch, None)
        })?;
        let rows = self.single.rows();
        self.rows(output, rows)
    }

    /// Sends a step of the only sequence with one token, at a position: this token, or what the last step chose.
    pub(crate) fn send_single(&mut self, token: Option<u32>, at: usize, draw: Draw) -> Result<Sent, EngineError> {
        self.with_single(|engine, batch| {
            match token {
                Some(token) => batch.add(&[token], at, &engine.single_pages)?,
                None => batch.add_chosen(0, at, &engine.single_pages)?,
            }
            batch.draw(draw);
            engine.send(batch)
        })
    }

    /// Calls `job` with the input of the only sequence, empty, which keeps its memory.
    pub(super) fn with_single<T>(
        &mut self,
        job: impl FnOnce(&mut Engine, &mut Batch) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut batch = std::mem::replace(&mut self.single, Batch::none());
        batch.clear();
        let done = job(self, &mut batch);
        self.single = batch;
        done
    }
}

//! What the loops over tokens need of an engine: generation, scoring, and their tests.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::sent::Arriving;
use crate::snapshot::Snapshot;
use crate::step::{Output, Variant};
use std::ops::Range;
use text::sampler::Draw;

/// Runs steps of one sequence.
///
/// [`Batches`](crate::batch::Batches) is the same for many: there, who has which pages of the cache and which rows are
/// wanted is part of a batch. A single text needs none of that, only where it goes on, so what reads one (generation,
/// perplexity) asks for this, and its tests run on a model of thirty lines.
pub trait Steps {
    /// Length of a row of logits.
    fn vocab(&self) -> usize;

    /// Positions of the cache.
    fn context(&self) -> usize;

    /// Tokens of a step at most.
    fn chunk(&self) -> usize;

    /// Checks that the model goes on with a text, token by token.
    ///
    /// # Errors
    /// Of a model that makes text in another way, or none.
    fn check_goes_on(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Makes sure that a step of so many tokens waits for no compiler.
    ///
    /// # Errors
    /// Of the compiler and of the device.
    fn prepare(&mut self, tokens: usize) -> Result<(), EngineError>;

    /// As [`Engine::step`].
    ///
    /// # Errors
    /// As [`Engine::step`].
    fn step(&mut self, tokens: &[u32], start: usize, rows: Range<usize>) -> Result<&[f32], EngineError>;

    /// Whether the sequence can go on from any of its positions; otherwise only from the last, or from the start.
    fn rewinds(&self) -> bool {
        true
    }

    /// The last position until `at` from which the sequence can go on: layers with a window may have forgotten what it needs.
    fn goes_on(&self, at: usize) -> usize {
        at
    }

    /// What the layers of a model that remembers have of the sequence, if that is known.
    ///
    /// # Errors
    /// A failure of the device.
    fn remember(&mut self) -> Result<Option<Snapshot>, EngineError> {
        Ok(None)
    }

    /// Lets the sequence go on from where a snapshot of it was taken.
    ///
    /// # Errors
    /// A failure of the device.
    fn recall(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        let _ = snapshot;
        unreachable!("no snapshots")
    }

    /// How many steps may be sent before the token of one is known. Without any, every token waits for its logits.
    fn ahead(&self) -> usize {
        0
    }

    /// As [`Steps::prepare`], for steps that are sent.
    ///
    /// # Errors
    /// As [`Steps::prepare`].
    fn prepare_to_send(&mut self, draw: Draw) -> Result<(), EngineError> {
        let _ = draw;
        Ok(())
    }

    /// Sends a step of one token that chooses the next: of this token, or of the one that the step before chooses.
    ///
    /// # Errors
    /// As [`Engine::step`].
    fn send_token(&mut self, token: Option<u32>, at: usize, draw: Draw) -> Result<Box<dyn Arriving>, EngineError> {
        let _ = (token, at, draw);
        unreachable!("no steps ahead")
    }
}

impl Steps for Engine {
    fn vocab(&self) -> usize {
        self.config().vocab as usize
    }

    fn context(&self) -> usize {
        Engine::context(self)
    }

    fn chunk(&self) -> usize {
        Engine::chunk(self)
    }

    fn check_goes_on(&self) -> Result<(), EngineError> {
        Ok(self.config().check_goes_on()?)
    }

    fn prepare(&mut self, tokens: usize) -> Result<(), EngineError> {
        self.expect(self.class_of(tokens, 0))
    }

    fn step(&mut self, tokens: &[u32], start: usize, rows: Range<usize>) -> Result<&[f32], EngineError> {
        Engine::step(self, tokens, start, rows)
    }

    fn rewinds(&self) -> bool {
        Engine::rewinds(self)
    }

    fn goes_on(&self, at: usize) -> usize {
        self.single_goes_on(at)
    }

    fn remember(&mut self) -> Result<Option<Snapshot>, EngineError> {
        Engine::remember(self, 0)
    }

    fn recall(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        Engine::recall(self, 0, snapshot)
    }

    fn ahead(&self) -> usize {
        self.device().steps_ahead()
    }

    fn prepare_to_send(&mut self, draw: Draw) -> Result<(), EngineError> {
        let class = self.class_of(1, 0);
        Engine::prepare(self, Variant { class, output: Output::of(draw) })
    }

    fn send_token(&mut self, token: Option<u32>, at: usize, draw: Draw) -> Result<Box<dyn Arriving>, EngineError> {
        Ok(Box::new(self.send_single(token, at, draw)?))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A model whose likeliest next token is the last one plus one. It checks that positions follow each other.
    pub(crate) struct Counting {
        pub(crate) vocab: usize,
        pub(crate) context: usize,
        pub(crate) chunk: usize,
        /// What the cache holds.
        pub(crate) cache: Vec<u32>,
        /// Tokens of every step.
        pub(crate) steps: Vec<usize>,
        /// Whether it goes on from the last position or from the start alone.
        pub(crate) remembers: bool,
        /// Whether the next step is broken off, when it has read its tokens.
        pub(crate) breaks: bool,
        logits: Vec<f32>,
    }

    impl Counting {
        pub(crate) fn new(vocab: usize, context: usize, chunk: usize) -> Counting {
            Counting {
                vocab,
                context,
                chunk,
                cache: vec![],
                steps: vec![],
                remembers: false,
                breaks: false,
                logits: vec![],
            }
        }
    }

    impl Steps for Counting {
        fn vocab(&self) -> usize {
            self.vocab
        }

        fn context(&self) -> usize {
            self.context
        }

        fn chunk(&self) -> usize {
            self.chunk
        }

        fn rewinds(&self) -> bool {
            !self.remembers
        }

        fn remember(&mut self) -> Result<Option<Snapshot>, EngineError> {
            let rows = self.cache.iter().flat_map(|token| token.to_le_bytes()).collect();
            Ok(self.remembers.then(|| Snapshot::new(self.cache.len(), rows)))
        }

        fn recall(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
            let (words, _) = snapshot.rows().as_chunks();
            let read: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
            assert!(self.cache.starts_with(&read), "what the cache holds is what was read");
            self.cache = read;
            Ok(())
        }

        fn prepare(&mut self, _: usize) -> Result<(), EngineError> {
            Ok(())
        }

        fn step(&mut self, tokens: &[u32], start: usize, rows: Range<usize>) -> Result<&[f32], EngineError> {
            assert!(!tokens.is_empty() && tokens.len() <= self.chunk && start <= self.cache.len());
            assert!(start + tokens.len() <= self.context && !rows.is_empty());
            assert!(!self.remembers || start == 0 || start == self.cache.len(), "it cannot go back to {start}");
            self.cache.truncate(start);
            self.cache.extend_from_slice(tokens);
            self.steps.push(tokens.len());
            if std::mem::take(&mut self.breaks) {
                return Err(device::Error::Stopped.into());
            }
            self.logits.clear();
            for row in rows {
                let next = (tokens[row] as usize + 1) % self.vocab;
                self.logits.extend((0..self.vocab).map(|id| if id == next { 1.0 } else { 0.0 }));
            }
            Ok(&self.logits)
        }
    }
}

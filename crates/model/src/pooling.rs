//! One vector of a text: of which tokens it needs what a step computes, and how their rows come together.

use crate::batch::Limits;
use crate::config::Pooling;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::sequence::{PromptError, check_prompt};
use crate::step::Output;
use std::ops::Range;

/// Rows of a text that become its vector.
#[derive(Clone, Debug)]
pub struct Pool {
    pooling: Pooling,
    output: Output,
    /// The sum of the rows, or all of them.
    values: Vec<f64>,
    rows: usize,
}

impl Pool {
    /// For texts of a model with these limits. One that does not rank has no [`Pooling::Rank`], which is as
    /// [`Pooling::Last`] then.
    pub fn new(pooling: Pooling, limits: &Limits) -> Pool {
        let (pooling, output) = match pooling {
            Pooling::Rank => (limits.ranks.unwrap_or(Pooling::Last), Output::Scores),
            pooling => (pooling, Output::Hidden),
        };
        Pool { pooling, output, values: vec![], rows: 0 }
    }

    /// What steps have to compute.
    pub fn output(&self) -> Output {
        self.output
    }

    /// Whether tokens before the last count.
    pub fn reads_all(&self) -> bool {
        self.pooling != Pooling::Last
    }

    /// Those of `count` tokens from `start` on whose rows count, in a text of `len` tokens.
    pub fn wanted(&self, start: usize, count: usize, len: usize) -> Range<usize> {
        match self.pooling {
            Pooling::Mean | Pooling::Each => 0..count,
            Pooling::First => 0..usize::from(start == 0),
            Pooling::Last | Pooling::Rank => count - usize::from(start + count >= len)..count,
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.values.clear();
        self.rows = 0;
    }

    /// Adds rows that count, each `width` long.
    pub fn add(&mut self, rows: &[f32], width: usize) {
        for row in rows.chunks_exact(width.max(1)) {
            self.rows += 1;
            if self.pooling == Pooling::Each {
                self.values.extend(row.iter().map(|&value| f64::from(value)));
                continue;
            }
            self.values.resize(row.len(), 0.0);
            self.values.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }

    /// The vector of the rows so far.
    ///
    /// # Errors
    /// [`NoNumber`].
    pub fn vector(&self) -> Result<Vec<f32>, NoNumber> {
        let count = if self.pooling == Pooling::Mean { self.rows.max(1) } else { 1 };
        let value = |sum: &f64| Some((sum / count as f64) as f32).filter(|value| value.is_finite());
        self.values.iter().map(value).collect::<Option<_>>().ok_or(NoNumber)
    }
}

/// What a step computed has a value that is none: the model, or a text of it that overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what the model computed of this text is infinite or no number")]
pub struct NoNumber;

/// Why there is no vector of a text.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// The text.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What came out.
    #[error(transparent)]
    NoNumber(#[from] NoNumber),
}

/// The vector of a text, as the only sequence of an engine: hidden states after the last norm, pooled and not normalised, or
/// scores. What the cache held is gone.
///
/// # Errors
/// A text that is empty or does not fit into the context, scores of a model that does not rank,
/// [`NoNumber`], and failures of the device.
pub fn vector(engine: &mut Engine, tokens: &[u32], pooling: Pooling) -> Result<Vec<f32>, VectorError> {
    let limits = engine.limits();
    check_prompt(tokens, limits.vocab, limits.context)?;
    let mut pool = Pool::new(pooling, &limits);
    let width = pool.output().width(engine.config());
    let mut start = 0;
    for chunk in tokens.chunks(limits.tokens.max(1)) {
        let wanted = pool.wanted(start, chunk.len(), tokens.len());
        let counts = !wanted.is_empty();
        // A step has at least one row.
        let wanted = if counts { wanted } else { chunk.len() - 1..chunk.len() };
        let rows = engine.step_of(pool.output(), chunk, start, wanted)?;
        if counts {
            pool.add(rows, width);
        }
        start += chunk.len();
    }
    Ok(pool.vector()?)
}

/// A vector that is comparable: the root of the sum of squares is 1, and so on for other powers. One of zeros stays.
pub fn normalised(vector: &[f32], power: i32) -> Vec<f32> {
    let sum: f64 = vector.iter().map(|&x| f64::from(x).abs().powi(power)).sum();
    let length = sum.powf(1.0 / f64::from(power));
    let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
    vector.iter().map(|&x| (f64::from(x) * scale) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefill_attention::Reach;

    fn pool(pooling: Pooling, ranks: Option<Pooling>) -> Pool {
        let reach = Reach::NOTHING;
        let limits =
            Limits { vocab: 1, tokens: 4, rows: 1, segments: 1, context: 64, pages: 1, whole: false, ranks, reach };
        let mut pool = Pool::new(pooling, &limits);
        pool.add(&[1.0, 2.0, 4.0, 6.0], 2);
        pool
    }

    #[test]
    fn rows_come_together() {
        assert_eq!(pool(Pooling::Mean, None).vector(), Ok(vec![2.5, 4.0]));
        assert_eq!(pool(Pooling::Each, None).vector(), Ok(vec![1.0, 2.0, 4.0, 6.0]));
        let mut empty = pool(Pooling::Mean, None);
        empty.clear();
        assert_eq!(empty.vector(), Ok(vec![]));
    }

    #[test]
    fn what_is_no_number_is_no_vector() {
        for value in [f32::NAN, f32::INFINITY] {
            let mut pool = pool(Pooling::Mean, None);
            pool.add(&[0.0, value], 2);
            assert_eq!(pool.vector(), Err(NoNumber));
        }
    }

    #[test]
    fn a_vector_of_zeros_stays() {
        assert_eq!(normalised(&[3.0, -4.0], 2), [0.6, -0.8]);
        assert_eq!(normalised(&[3.0, -4.0], 1), [3.0 / 7.0, -4.0 / 7.0]);
        assert_eq!(normalised(&[0.0, 0.0], 2), [0.0, 0.0]);
    }

    #[test]
    fn scores_have_the_row_of_one_token() {
        let first = pool(Pooling::Rank, Some(Pooling::First));
        assert_eq!((first.output(), first.reads_all()), (Output::Scores, true));
        assert_eq!([first.wanted(0, 4, 6), first.wanted(4, 2, 6)], [0..1, 0..0]);
        let last = pool(Pooling::Rank, Some(Pooling::Last));
        assert!(!last.reads_all());
        assert_eq!([last.wanted(0, 4, 6), last.wanted(4, 2, 6)], [4..4, 1..2]);
        assert_eq!(pool(Pooling::Mean, None).output(), Output::Hidden);
    }
}

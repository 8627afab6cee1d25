//! From a prompt to a stream of tokens.
//!
//! A [`Sequence`] remembers what the cache holds, so that the next turn of a conversation only computes what is new.
//! Text is not its business: tokens go in, tokens come out, and the caller says after each whether to go on.

use crate::error::EngineError;
use crate::steps::Steps;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use text::sampler::{Sampler, SamplerError};

/// Why there are no tokens.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The sampler, for example when every logit is NaN.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// Nothing to continue.
    #[error("the prompt is empty; a model needs at least one token to continue from")]
    Empty,
    /// A prompt that leaves no room for an answer.
    #[error("the prompt has {tokens} tokens, the context holds {context}; raise it with -c, or shorten the prompt")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Positions of the cache.
        context: usize,
    },
}

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The whole sequence so far.
    pub prompt: &'a [u32],
    /// Most tokens to generate; `None` goes on until the end or until the context is full.
    pub limit: Option<usize>,
    /// Tokens that end the text.
    pub ends: &'a [u32],
}

/// Told to the caller while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many tokens of the prompt are computed, of so many.
    Prompt(usize, usize),
    /// A token; it is no end token.
    Token(u32),
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended the text.
    End,
    /// As many tokens as were asked for.
    Limit,
    /// The cache is full.
    ContextFull,
    /// The caller said so.
    Stopped,
}

/// What was done, and how long the steps took; sampling and the caller are not in the times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// Tokens of the prompt that were computed.
    pub prompt: usize,
    /// Tokens of the prompt that the cache held already.
    pub reused: usize,
    /// Time of the steps of the prompt.
    pub prompt_time: Duration,
    /// Tokens that came out.
    pub generated: usize,
    /// Steps of one token.
    pub steps: usize,
    /// Time of those steps.
    pub step_time: Duration,
}

/// One sequence and the tokens that the cache holds of it.
#[derive(Debug, Default)]
pub struct Sequence {
    cached: Vec<u32>,
}

impl Sequence {
    /// A sequence of no tokens.
    pub fn new() -> Sequence {
        Sequence::default()
    }

    /// Tokens that the cache holds.
    pub fn cached(&self) -> &[u32] {
        &self.cached
    }

    /// Continues the prompt. `on` hears of every event; it may stop, also between steps of the prompt. A device may stop a
    /// step too.
    ///
    /// # Errors
    /// A prompt that is empty or too long, and what the engine and the sampler say. What the cache holds is known
    /// after an error too.
    pub fn generate(
        &mut self,
        engine: &mut dyn Steps,
        sampler: &mut Sampler,
        request: Request<'_>,
        timing: &mut Timing,
        mut on: impl FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Finish, GenerateError> {
        let Request { prompt, limit, ends } = request;
        if limit == Some(0) {
            check(engine, prompt)?;
            return Ok(Finish::Limit);
        }
        let first = self.read(engine, sampler, prompt, timing, |done, tokens| on(Event::Prompt(done, tokens)))?;
        let Some(mut id) = first else { return Ok(Finish::Stopped) };
        let mut generated = 0;
        loop {
            if ends.contains(&id) {
                return Ok(Finish::End);
            }
            sampler.accept(id);
            generated += 1;
            timing.generated += 1;
            if on(Event::Token(id)).is_break() {
                return Ok(Finish::Stopped);
            }
            if limit.is_some_and(|limit| generated >= limit) {
                return Ok(Finish::Limit);
            }
            match self.advance(engine, sampler, id, timing) {
                Ok(Some(next)) => id = next,
                Ok(None) => return Ok(Finish::ContextFull),
                Err(GenerateError::Engine(error)) if error.is_stopped() => return Ok(Finish::Stopped),
                Err(error) => return Err(error),
            }
        }
    }

    /// Computes a prompt, which the sampler takes into its window, and chooses the token after it. `on` hears how many
    /// of its tokens are computed; if it or the device stops, there is no token.
    ///
    /// # Errors
    /// As [`Sequence::generate`].
    pub fn read(
        &mut self,
        engine: &mut dyn Steps,
        sampler: &mut Sampler,
        prompt: &[u32],
        timing: &mut Timing,
        mut on: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Option<u32>, GenerateError> {
        check(engine, prompt)?;
        let tokens = prompt.len();
        prompt.iter().for_each(|&id| sampler.accept(id));
        // The last token is computed in any case: its logits are wanted.
        let same = prompt.iter().zip(&self.cached).take_while(|(a, b)| a == b).count().min(tokens - 1);
        self.cached.truncate(same);
        timing.reused += same;
        let mut next = None;
        while self.cached.len() < tokens {
            let start = self.cached.len();
            if on(start, tokens).is_break() {
                return Ok(None);
            }
            let n = engine.chunk().min(tokens - start);
            engine.prepare(n)?;
            let clock = Instant::now();
            let logits = match engine.step(&prompt[start..start + n], start, n - 1..n) {
                Err(error) if error.is_stopped() => return Ok(None),
                logits => logits?,
            };
            timing.prompt_time += clock.elapsed();
            timing.prompt += n;
            self.cached.extend_from_slice(&prompt[start..start + n]);
            if self.cached.len() == tokens {
                next = Some(sampler.sample(logits)?.id);
            }
        }
        if on(tokens, tokens).is_break() {
            return Ok(None);
        }
        engine.prepare(1)?;
        Ok(next)
    }

    /// Appends a token and chooses the next; `None` if the context is full. The window of the sampler is the caller's.
    ///
    /// # Errors
    /// What the engine and the sampler say.
    pub fn advance(
        &mut self,
        engine: &mut dyn Steps,
        sampler: &mut Sampler,
        id: u32,
        timing: &mut Timing,
    ) -> Result<Option<u32>, GenerateError> {
        if self.cached.len() >= engine.context() {
            return Ok(None);
        }
        let clock = Instant::now();
        let logits = engine.step(&[id], self.cached.len(), 0..1)?;
        timing.step_time += clock.elapsed();
        timing.steps += 1;
        self.cached.push(id);
        Ok(Some(sampler.sample(logits)?.id))
    }
}

/// Checks that there is something to continue, and room for it.
///
/// # Errors
/// A prompt that is empty or too long.
pub fn check(engine: &dyn Steps, prompt: &[u32]) -> Result<(), GenerateError> {
    let (tokens, context) = (prompt.len(), engine.context());
    if tokens == 0 {
        return Err(GenerateError::Empty);
    }
    if tokens > context {
        return Err(GenerateError::TooLong { tokens, context });
    }
    Ok(())
}

impl Timing {
    /// Tokens of the prompt a second.
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt, self.prompt_time)
    }

    /// Tokens a second after the first.
    pub fn step_rate(&self) -> f64 {
        rate(self.steps, self.step_time)
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    if count == 0 { 0.0 } else { count as f64 / time.as_secs_f64().max(1e-9) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::Counting;
    use text::sampler::SamplerConfig;

    fn run(
        model: &mut Counting,
        sequence: &mut Sequence,
        prompt: &[u32],
        limit: Option<usize>,
        stop_after: usize,
    ) -> (Vec<u32>, Result<Finish, GenerateError>) {
        let mut sampler = Sampler::new(SamplerConfig::greedy(), model.vocab).unwrap();
        let mut out = vec![];
        let request = Request { prompt, limit, ends: &[9] };
        let finish = sequence.generate(model, &mut sampler, request, &mut Timing::default(), |event| {
            if let Event::Token(id) = event {
                out.push(id);
            }
            if out.len() == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (out, finish)
    }

    #[test]
    fn every_way_to_end() {
        let sequence = &mut Sequence::new();
        let model = &mut Counting::new(12, 16, 4);
        let (out, finish) = run(model, sequence, &[1, 2, 3, 4, 5], None, 99);
        assert_eq!((out, finish.unwrap()), (vec![6, 7, 8], Finish::End));
        assert_eq!(model.steps, [4, 1, 1, 1, 1]);
        let (out, finish) = run(model, sequence, &[1], Some(2), 99);
        assert_eq!((out, finish.unwrap()), (vec![2, 3], Finish::Limit));
        let (out, finish) = run(model, sequence, &[1], None, 1);
        assert_eq!((out, finish.unwrap()), (vec![2], Finish::Stopped));
        let full = &mut Counting::new(100, 5, 4);
        let (out, finish) = run(full, &mut Sequence::new(), &[20, 21, 22], None, 99);
        assert_eq!((out, finish.unwrap()), (vec![23, 24, 25], Finish::ContextFull));
        assert!(matches!(run(full, sequence, &[], None, 99).1, Err(GenerateError::Empty)));
        let long = run(full, sequence, &[1; 6], None, 99).1.unwrap_err();
        assert!(long.to_string().contains("6 tokens, the context holds 5"), "{long}");
        assert_eq!(run(model, sequence, &[1], Some(0), 99).1.unwrap(), Finish::Limit);
    }

    #[test]
    fn the_next_turn_computes_only_what_is_new() {
        let sequence = &mut Sequence::new();
        let model = &mut Counting::new(12, 64, 8);
        run(model, sequence, &[1, 2, 3], Some(3), 99).1.unwrap();
        assert_eq!(sequence.cached(), [1, 2, 3, 4, 5]);
        model.steps.clear();
        run(model, sequence, &[1, 2, 3, 4, 5, 6, 10, 1], Some(1), 99).1.unwrap();
        assert_eq!(model.steps, [3]);
        model.steps.clear();
        // The same prompt again: one token is computed for its logits.
        run(model, sequence, &[1, 2, 3], Some(1), 99).1.unwrap();
        assert_eq!((model.steps.as_slice(), sequence.cached()), (&[1][..], &[1, 2, 3][..]));
    }
}

//! From a prompt to a stream of tokens, one sequence at a time.
//!
//! A [`Generator`] remembers what the cache holds, so that the next turn of a conversation only computes what is new.
//! Text is not its business: tokens go in, tokens come out, and the caller says after each whether to go on.

use crate::error::EngineError;
use crate::sent::Arriving;
use crate::sequence::{Event, Finish, PromptError, Request, Sequence, check_prompt};
use crate::snapshot::Snapshot;
use crate::steps::Steps;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use text::sampler::{Draw, Sampled, SamplerError};

/// Why there are no tokens.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The sampler, for example when every logit is NaN.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The prompt.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

/// What an engine did, and how long the steps took; sampling and the caller are not in the times.
///
/// It counts for whoever has the engine alone, perhaps over several replies. What one request took among others, with
/// its time in the queue, is [`Spent`](crate::scheduler::Spent).
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

/// Of a model that remembers, a prompt of so many tokens is worth a snapshot.
const WORTH: usize = 256;

/// Before so many of its last tokens: when a chat goes on, its template may have told the beginning of the answer otherwise.
const CHANGED: usize = 9;

/// Runs one sequence after the other, and knows the tokens that the cache holds.
#[derive(Default)]
pub struct Generator {
    cached: Vec<u32>,
    /// Steps of the sequence that were sent, and whose tokens are not known.
    flight: VecDeque<Box<dyn Arriving>>,
    /// When the token before theirs was known.
    since: Option<Instant>,
    /// Whether a step was broken off, which may have read its tokens or not.
    broken: bool,
    /// Of a model that remembers, from where tokens that the cache holds can be gone on from.
    snapshot: Option<Snapshot>,
}

impl Generator {
    /// A generator with an empty cache.
    pub fn new() -> Generator {
        Generator::default()
    }

    /// Tokens that the cache holds.
    pub fn cached(&self) -> &[u32] {
        &self.cached
    }

    /// Continues a prompt. `on` hears of every event; it may stop, also between steps of the prompt. A device may stop a
    /// step too.
    ///
    /// # Errors
    /// A prompt that is empty or too long, and what the engine and the sampler say. What the cache holds is known
    /// after an error too.
    pub fn generate(
        &mut self,
        engine: &mut dyn Steps,
        request: Request,
        timing: &mut Timing,
        mut on: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Finish, GenerateError> {
        request.sampling.check(engine.vocab())?;
        if request.limit == Some(0) {
            check(engine, &request.prompt)?;
            return Ok(Finish::Limit);
        }
        let mut sequence = Sequence::new(request);
        let Some(mut sampled) = self.read(engine, &mut sequence, timing, &mut on)? else { return Ok(Finish::Stopped) };
        loop {
            let finish = sequence.take(sampled, |event| {
                timing.generated += 1;
                on(event)
            });
            if let Some(finish) = finish {
                return Ok(finish);
            }
            match self.advance(engine, &mut sequence, timing) {
                Ok(Some(next)) => sampled = next,
                Ok(None) => return Ok(Finish::ContextFull),
                Err(GenerateError::Engine(error)) if error.is_stopped() => return Ok(Finish::Stopped),
                Err(error) => return Err(error),
            }
        }
    }

    /// Computes the prompt of a sequence and chooses the token after it. `on` hears how many of its tokens are computed; if
    /// it or the device stops, there is no token.
    ///
    /// # Errors
    /// As [`Generator::generate`].
    pub fn read(
        &mut self,
        engine: &mut dyn Steps,
        sequence: &mut Sequence,
        timing: &mut Timing,
        mut on: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Sampled>, GenerateError> {
        check(engine, sequence.tokens())?;
        // What the last sequence sent for nothing has written behind what is cached, where this one writes later.
        let is_whole = self.flight.is_empty() && !self.broken;
        self.flight.clear();
        self.since = None;
        let total = sequence.tokens().len();
        // The last token is computed in any case: its logits are wanted.
        let cached = sequence.tokens().iter().zip(&self.cached).take_while(|(a, b)| a == b).count().min(total - 1);
        // What was read into a state cannot be taken out of it.
        let goes_on = engine.rewinds() || cached == self.cached.len() && is_whole;
        self.snapshot.take_if(|snapshot| snapshot.position() > cached);
        let cached = match &self.snapshot {
            _ if goes_on => engine.goes_on(cached),
            Some(snapshot) => {
                engine.recall(snapshot)?;
                snapshot.position()
            }
            None => 0,
        };
        self.cached.truncate(cached);
        timing.reused += cached;
        let mut next = None;
        while self.cached.len() < total {
            let done = self.cached.len();
            if on(Event::Prompt { cached, done, total }).is_break() {
                return Ok(None);
            }
            let wanted = total.saturating_sub(CHANGED);
            let keeps = !engine.rewinds() && total >= WORTH;
            let end = if keeps && done < wanted { wanted } else { total };
            let n = engine.chunk().min(end - done);
            engine.prepare(n)?;
            let tokens = &sequence.tokens()[done..done + n];
            let clock = Instant::now();
            self.broken = true;
            let logits = match engine.step(tokens, done, n - 1..n) {
                Err(error) if error.is_stopped() => return Ok(None),
                logits => logits?,
            };
            self.broken = false;
            timing.prompt_time += clock.elapsed();
            timing.prompt += n;
            self.cached.extend_from_slice(tokens);
            if self.cached.len() == total {
                next = Some(sequence.choose(logits)?);
            } else if keeps && self.cached.len() == wanted {
                self.snapshot = engine.remember()?;
            }
        }
        if on(Event::Prompt { cached, done: total, total }).is_break() {
            return Ok(None);
        }
        match self.ahead(engine, sequence) {
            Some(draw) => engine.prepare_to_send(draw)?,
            None => engine.prepare(1)?,
        }
        Ok(next)
    }

    /// How the next token is drawn, if steps are sent ahead.
    fn ahead(&self, engine: &dyn Steps, sequence: &Sequence) -> Option<Draw> {
        sequence.draw(self.flight.len()).filter(|_| engine.ahead() > 0)
    }

    /// Computes the token that a sequence took last and chooses the next; `None` if the context is full.
    ///
    /// # Errors
    /// What the engine and the sampler say.
    pub fn advance(
        &mut self,
        engine: &mut dyn Steps,
        sequence: &mut Sequence,
        timing: &mut Timing,
    ) -> Result<Option<Sampled>, GenerateError> {
        let done = self.cached.len();
        if done >= engine.context() {
            return Ok(None);
        }
        if let Some(sampled) = self.advance_ahead(engine, sequence, timing)? {
            return Ok(Some(sampled));
        }
        let token = &sequence.tokens()[done..];
        let clock = Instant::now();
        self.broken = true;
        let logits = engine.step(token, done, 0..1)?;
        self.broken = false;
        timing.step_time += clock.elapsed();
        timing.steps += 1;
        self.cached.extend_from_slice(token);
        Ok(Some(sequence.choose(logits)?))
    }
}

impl Generator {
    /// As [`Generator::advance`], with steps in flight that choose tokens by themselves. `None` if there are none: then the
    /// device cannot, or the sequence does not let it.
    fn advance_ahead(
        &mut self,
        engine: &mut dyn Steps,
        sequence: &Sequence,
        timing: &mut Timing,
    ) -> Result<Option<Sampled>, GenerateError> {
        let (done, sent) = (self.cached.len(), Instant::now());
        let most = (engine.ahead() + 1).min(engine.context() - done);
        while self.flight.len() < most
            && let Some(draw) = self.ahead(engine, sequence)
        {
            let known = self.flight.is_empty().then(|| sequence.tokens()[done]);
            let arriving = engine.send_token(known, done + self.flight.len(), draw)?;
            self.flight.push_back(arriving);
        }
        let Some(first) = self.flight.pop_front() else { return Ok(None) };
        self.broken = true;
        let id = first.tokens()?.pop().flatten().ok_or(SamplerError::NoCandidate)?;
        self.broken = false;
        let now = Instant::now();
        // While a step is in flight, the time of the next one begins when this one is over.
        timing.step_time += now - self.since.take().unwrap_or(sent);
        timing.steps += 1;
        self.since = (!self.flight.is_empty()).then_some(now);
        self.cached.push(sequence.tokens()[done]);
        Ok(Some(Sampled { id, logprob: None }))
    }
}

/// Checks that the model goes on with a text, that there is something to continue, and room for it.
///
/// # Errors
/// As [`check_prompt`], and of a model that does not go on with a text.
pub fn check(engine: &dyn Steps, prompt: &[u32]) -> Result<(), GenerateError> {
    engine.check_goes_on()?;
    Ok(check_prompt(prompt, engine.vocab(), engine.context())?)
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
    use std::sync::Arc;
    use text::sampler::SamplerConfig;

    fn run(
        model: &mut Counting,
        generator: &mut Generator,
        prompt: &[u32],
        limit: Option<usize>,
        stop_after: usize,
    ) -> (Vec<u32>, Result<Finish, GenerateError>) {
        let mut out = vec![];
        let sampling = SamplerConfig::greedy();
        let request = Request { prompt: prompt.to_vec(), sampling, limit, ends: Arc::from([9]) };
        let finish = generator.generate(model, request, &mut Timing::default(), |event| {
            if let Event::Token { sampled, .. } = event {
                out.push(sampled.id);
            }
            if out.len() == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (out, finish)
    }

    #[test]
    fn every_way_to_end() {
        let generator = &mut Generator::new();
        let model = &mut Counting::new(12, 16, 4);
        let (out, finish) = run(model, generator, &[1, 2, 3, 4, 5], None, 99);
        assert_eq!((out, finish.unwrap()), (vec![6, 7, 8], Finish::End));
        assert_eq!(model.steps, [4, 1, 1, 1, 1]);
        let (out, finish) = run(model, generator, &[1], Some(2), 99);
        assert_eq!((out, finish.unwrap()), (vec![2, 3], Finish::Limit));
        let (out, finish) = run(model, generator, &[1], None, 1);
        assert_eq!((out, finish.unwrap()), (vec![2], Finish::Stopped));
        let full = &mut Counting::new(100, 5, 4);
        let (out, finish) = run(full, &mut Generator::new(), &[20, 21, 22], None, 99);
        assert_eq!((out, finish.unwrap()), (vec![23, 24, 25], Finish::ContextFull));
        assert!(matches!(run(full, generator, &[], None, 99).1, Err(GenerateError::Prompt(PromptError::Empty))));
        let long = run(full, generator, &[1; 6], None, 99).1.unwrap_err();
        assert!(long.to_string().contains("6 tokens, the context holds 5"), "{long}");
        assert_eq!(run(model, generator, &[1], Some(0), 99).1.unwrap(), Finish::Limit);
    }

    #[test]
    fn the_next_turn_computes_only_what_is_new() {
        let generator = &mut Generator::new();
        let model = &mut Counting::new(12, 64, 8);
        run(model, generator, &[1, 2, 3], Some(3), 99).1.unwrap();
        assert_eq!(generator.cached(), [1, 2, 3, 4, 5]);
        model.steps.clear();
        run(model, generator, &[1, 2, 3, 4, 5, 6, 10, 1], Some(1), 99).1.unwrap();
        assert_eq!(model.steps, [3]);
        model.steps.clear();
        // The same prompt again: one token is computed for its logits.
        run(model, generator, &[1, 2, 3], Some(1), 99).1.unwrap();
        assert_eq!((model.steps.as_slice(), generator.cached()), (&[1][..], &[1, 2, 3][..]));
    }

    #[test]
    fn what_was_remembered_is_gone_on_from_or_read_again() {
        let generator = &mut Generator::new();
        let model = &mut Counting::new(12, 64, 8);
        model.remembers = true;
        run(model, generator, &[1, 2, 3], Some(3), 99).1.unwrap();
        model.steps.clear();
        // All that was read, and more.
        run(model, generator, &[1, 2, 3, 4, 5, 6, 10, 1], Some(1), 99).1.unwrap();
        assert_eq!(model.steps, [3]);
        model.steps.clear();
        // A part of it: from the start.
        run(model, generator, &[1, 2, 3, 4, 5, 7], Some(1), 99).1.unwrap();
        run(model, generator, &[1, 2, 3, 4, 5, 7], Some(1), 99).1.unwrap();
        assert_eq!(model.steps, [6, 6]);
        // An answer that is told otherwise: from before the end of its prompt.
        let long: Vec<u32> = (0..300).map(|i| i % 8).collect();
        let longer = [&long[..], &[10; 40]].concat();
        let model = &mut Counting::new(12, 512, 128);
        model.remembers = true;
        run(model, generator, &long, Some(3), 99).1.unwrap();
        assert_eq!(model.steps, [128, 128, 35, 9, 1, 1]);
        model.steps.clear();
        run(model, generator, &longer, Some(1), 99).1.unwrap();
        assert_eq!(model.steps, [40, 9], "from 291 on");
        // Another text is read from its start, and then the first one again.
        model.steps.clear();
        run(model, generator, &[1, 2, 3], Some(1), 99).1.unwrap();
        run(model, generator, &longer, Some(1), 99).1.unwrap();
        assert_eq!(model.steps, [3, 128, 128, 75, 9]);
        let model = &mut Counting::new(12, 64, 8);
        model.remembers = true;
        run(model, generator, &[1, 2, 3, 4, 5, 7], Some(1), 99).1.unwrap();
        // A step that was broken off may have been read or not.
        model.breaks = true;
        assert_eq!(run(model, generator, &[1, 2, 3, 4, 5, 7, 8], Some(1), 99).1.unwrap(), Finish::Stopped);
        model.steps.clear();
        run(model, generator, &[1, 2, 3, 4, 5, 7, 8], Some(1), 99).1.unwrap();
        assert_eq!(model.steps, [7]);
    }
}

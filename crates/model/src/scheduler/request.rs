//! One request: what it wants, what it hears, and where it is.

use super::{Lease, Limits, Output, Sampler};
use crate::generate::Finish;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use text::sampler::{Logprob, Sampled, SamplerConfig, SamplerError};

/// What is to be generated, and who hears of it.
pub struct Request {
    /// A number of the caller's, for reports.
    pub id: u64,
    /// The tokens to continue.
    pub prompt: Vec<u32>,
    /// How tokens are chosen. The random numbers depend on the seed and on the number of tokens that came out, and on
    /// nothing else.
    pub sampling: SamplerConfig,
    /// Most tokens to generate; `None` goes on until the end or until the context is full.
    pub limit: Option<usize>,
    /// Tokens that end the text.
    pub ends: Arc<[u32]>,
    /// What restricts the tokens, if anything does.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Instead of text, one vector for the prompt: [`Event::Vector`].
    pub pooling: Option<Pooling>,
    /// Hears of everything.
    pub sink: Box<dyn Sink>,
}

/// How the hidden states of a prompt become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// That of the last token.
    Last,
    /// None: each by itself, one after the other.
    Each,
}

/// Hears what becomes of a request, on a thread that runs the steps: it must not wait for anything. Dropping it
/// without [`Event::Finished`] or [`Event::Failed`] means that the request was given up because it was closed.
pub trait Sink: Send {
    /// Something happened. [`ControlFlow::Break`] ends the request with [`Finish::Stopped`].
    fn event(&mut self, event: Event<'_>) -> ControlFlow<()>;

    /// Whether nobody is interested any more. Asked before every step, also while the request waits.
    fn is_closed(&self) -> bool;
}

/// Restricts which tokens may come.
pub trait Constraint: Send {
    /// Sets the logits of tokens that must not come next to minus infinity.
    ///
    /// # Errors
    /// Why nothing can come.
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), String>;

    /// A token was taken.
    ///
    /// # Errors
    /// Why it should not have been.
    fn accept(&mut self, token: u32) -> Result<(), String>;
}

/// What happens to a request, in this order.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many tokens of the prompt are in the cache, of so many. The first such event comes when the request gets its
    /// place.
    Prompt {
        /// Tokens that the cache held already.
        cached: usize,
        /// Tokens in the cache now.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// A token; it is no end token.
    Token {
        /// The token.
        sampled: Sampled,
        /// The likeliest, if log-probabilities are wanted.
        top: &'a [Logprob],
    },
    /// The hidden states of the prompt after the last norm, pooled; not normalised. One vector, or with
    /// [`Pooling::Each`] one for each token.
    Vector(&'a [f32]),
    /// It is over. For a request that was closed, nobody hears it.
    Finished(Finish, Spent),
    /// It cannot go on.
    Failed(Failure),
}

/// What a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of these, those that the cache held.
    pub cached: usize,
    /// Tokens that came out.
    pub generated: usize,
    /// From the request to its place.
    pub waited: Duration,
    /// From its place to the first token.
    pub prompt_time: Duration,
    /// From the first token to the last.
    pub decode_time: Duration,
}

/// Why a request ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The engine.
    #[error("{0}")]
    Engine(String),
    /// The sampler.
    #[error("{0}")]
    Sampler(String),
    /// The constraint allows nothing.
    #[error("{0}")]
    Constraint(String),
    /// The program ends.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejected {
    /// Nothing to continue.
    #[error("the prompt is empty; a model needs at least one token to continue from")]
    Empty,
    /// A token that the vocabulary lacks.
    #[error("the prompt has token {token}, the vocabulary has {vocab}")]
    Token {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A prompt that leaves no room for an answer.
    #[error("the prompt has {tokens} tokens, the context holds {context}")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Positions of a sequence.
        context: usize,
    },
    /// A setting of the sampler.
    #[error(transparent)]
    Sampling(#[from] SamplerError),
    /// Too many wait already.
    #[error("{0} requests are waiting; try again later")]
    Full(usize),
    /// The program ends.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl Request {
    /// Whether it can run at all.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Rejected> {
        let (tokens, context, vocab) = (self.prompt.len(), limits.context, limits.vocab);
        if tokens == 0 {
            return Err(Rejected::Empty);
        }
        if let Some(&token) = self.prompt.iter().find(|&&token| token as usize >= vocab) {
            return Err(Rejected::Token { token, vocab });
        }
        if tokens > context {
            return Err(Rejected::TooLong { tokens, context });
        }
        Ok(self.sampling.check(vocab)?)
    }
}

/// A request and where it is.
pub(super) struct Sequence {
    request: Request,
    /// The prompt and what came out.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens whose positions in the cache are written.
    pub computed: usize,
    pub lease: Lease,
    pub spent: Spent,
    /// Made when it first gets a place.
    sampler: Option<Sampler>,
    masked: Vec<f32>,
    /// The sum of the rows that are pooled, or all of them.
    pooled: Vec<f64>,
    submitted: Instant,
    started: Instant,
    first_token: Option<Instant>,
}

impl Sequence {
    pub fn new(mut request: Request) -> Sequence {
        let tokens = std::mem::take(&mut request.prompt);
        let now = Instant::now();
        Sequence {
            prompt: tokens.len(),
            tokens,
            computed: 0,
            lease: Lease::default(),
            spent: Spent::default(),
            sampler: None,
            masked: vec![],
            pooled: vec![],
            submitted: now,
            started: now,
            first_token: None,
            request,
        }
    }

    pub fn id(&self) -> u64 {
        self.request.id
    }

    pub fn is_closed(&self) -> bool {
        self.request.sink.is_closed()
    }

    /// Tokens that are not computed yet.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// It has a place; so many tokens were in the cache.
    pub fn begin(&mut self, cached: usize, vocab: usize) -> Result<(), super::Failure> {
        self.pooled.clear();
        if self.sampler.is_some() {
            // It had to make room and comes back.
            return Ok(());
        }
        let failed = |e: SamplerError| Failure::Sampler(e.to_string());
        let mut sampler = Sampler::new(self.request.sampling.clone(), vocab).map_err(failed)?;
        self.tokens.iter().for_each(|&token| sampler.accept(token));
        self.sampler = Some(sampler);
        self.started = Instant::now();
        self.spent = Spent { prompt: self.prompt, cached, waited: self.started - self.submitted, ..Spent::default() };
        // Whoever says to stop here is closed, and gone before the next step.
        let _ = self.report_progress();
        Ok(())
    }

    /// So many tokens more are computed. How many of them are tokens of the prompt, for the first time.
    pub fn advance(&mut self, count: usize) -> usize {
        self.computed += count;
        if self.spent.generated == 0 { count } else { 0 }
    }

    fn report_progress(&mut self) -> ControlFlow<()> {
        if self.spent.generated > 0 {
            return ControlFlow::Continue(());
        }
        let (cached, done, total) = (self.spent.cached, self.computed, self.prompt);
        self.request.sink.event(Event::Prompt { cached, done, total })
    }

    /// How its rows are pooled, if it wants a vector.
    pub fn pooling(&self) -> Option<Pooling> {
        self.request.pooling
    }

    /// What its steps have to compute.
    pub fn output(&self) -> Output {
        if self.request.pooling.is_some() { Output::Hidden } else { Output::Logits }
    }

    /// Of its next `count` tokens, those at the end whose rows it wants.
    pub fn rows(&self, count: usize) -> usize {
        match self.request.pooling {
            Some(Pooling::Mean | Pooling::Each) => count,
            _ => usize::from(self.computed + count == self.tokens.len()),
        }
    }

    /// Adds a row to the vector.
    fn pool(&mut self, row: &[f32]) {
        if self.request.pooling == Some(Pooling::Each) {
            return self.pooled.extend(row.iter().map(|&value| f64::from(value)));
        }
        self.pooled.resize(row.len(), 0.0);
        self.pooled.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
    }

    /// Passes the vector on.
    fn tell_vector(&mut self) {
        self.spent.prompt_time = self.started.elapsed();
        let count = if self.request.pooling == Some(Pooling::Mean) { self.prompt } else { 1 };
        let vector: Vec<f32> = self.pooled.iter().map(|sum| (sum / count as f64) as f32).collect();
        // It is over whatever the sink says.
        let _ = self.request.sink.event(Event::Vector(&vector));
    }

    /// Takes the rows that a step computed for it, each `width` long: pools them, or chooses the next token. Says how it
    /// ended, if it did.
    pub fn take(&mut self, rows: &[f32], width: usize, context: usize) -> Option<Result<Finish, Failure>> {
        let pools = self.request.pooling.is_some();
        if pools {
            rows.chunks_exact(width.max(1)).for_each(|row| self.pool(row));
        }
        if self.report_progress().is_break() {
            return Some(Ok(Finish::Stopped));
        }
        if self.pending() > 0 {
            return None;
        }
        if pools {
            self.tell_vector();
            return Some(Ok(Finish::End));
        }
        match self.choose(rows) {
            Err(failure) => Some(Err(failure)),
            Ok(sampled) => self.go_on(sampled, context).err().map(Ok),
        }
    }

    fn choose(&mut self, logits: &[f32]) -> Result<Sampled, Failure> {
        let Some(sampler) = &mut self.sampler else {
            return Err(Failure::Sampler("a sequence without a sampler".into()));
        };
        // What the model leaves possible was ruled out by the request.
        let failed = |e: SamplerError| match e {
            SamplerError::NoCandidate if logits.iter().any(|logit| logit.is_finite()) => Failure::Constraint(
                "no token is left: what the grammar allows is ruled out by logit_bias or ignore_eos".into(),
            ),
            e => Failure::Sampler(e.to_string()),
        };
        let Some(constraint) = &mut self.request.constraint else {
            return sampler.sample(logits).map_err(failed);
        };
        self.masked.clear();
        self.masked.extend_from_slice(logits);
        constraint.mask(&mut self.masked).map_err(Failure::Constraint)?;
        let sampled = sampler.sample(&self.masked).map_err(failed)?;
        if !self.request.ends.contains(&sampled.id) {
            constraint.accept(sampled.id).map_err(Failure::Constraint)?;
        }
        Ok(sampled)
    }

    fn go_on(&mut self, sampled: Sampled, context: usize) -> Result<(), Finish> {
        let now = Instant::now();
        let first = *self.first_token.get_or_insert(now);
        self.spent.prompt_time = first - self.started;
        self.spent.decode_time = now - first;
        if self.request.ends.contains(&sampled.id) {
            return Err(Finish::End);
        }
        let limit = self.request.limit;
        if limit == Some(0) {
            return Err(Finish::Limit);
        }
        self.spent.generated += 1;
        self.tokens.push(sampled.id);
        let mut stop = ControlFlow::Continue(());
        if let Some(sampler) = &mut self.sampler {
            sampler.accept(sampled.id);
            stop = self.request.sink.event(Event::Token { sampled, top: sampler.top_logprobs() });
        }
        if stop.is_break() {
            return Err(Finish::Stopped);
        }
        if limit.is_some_and(|limit| self.spent.generated >= limit) {
            return Err(Finish::Limit);
        }
        // The token that came last needs a position to be continued.
        if self.tokens.len() > context { Err(Finish::ContextFull) } else { Ok(()) }
    }

    /// Says how it ended.
    pub fn end(mut self, finish: Result<Finish, Failure>) {
        let event = match finish {
            Ok(finish) => Event::Finished(finish, self.spent),
            Err(failure) => Event::Failed(failure),
        };
        let _ = self.request.sink.event(event);
    }
}

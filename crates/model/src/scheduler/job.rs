//! One job of the scheduler: what it wants, what it hears, and where it is.

use super::Stats;
use crate::batch::Limits;
use crate::config::Pooling;
use crate::pages::{Lease, Pages};
use crate::pooling::Pool;
use crate::sequence::{Event, Finish, PromptError, Request, Sequence, check_prompt};
use crate::step::Output;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};
use text::sampler::{self, Draw, Logprob, Sampled, SamplerError};

/// A request, what it wants beside text, and who hears of it.
pub struct Job {
    /// A number of the caller's, for reports.
    pub id: u64,
    /// What is to be generated.
    pub request: Request,
    /// What restricts the tokens, if anything does.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Instead of text, one vector for the prompt: [`Sink::vector`].
    pub pooling: Option<Pooling>,
    /// Beside the text, the log-probabilities of the tokens of its prompt, with those of the so many likeliest:
    /// [`Sink::score`].
    pub score: Option<usize>,
    /// Hears of everything.
    pub sink: Box<dyn Sink>,
}

/// Hears what becomes of a request, on a thread that runs the steps: it must not wait for anything. Dropping it without
/// [`Sink::end`] means that the request was given up because it was closed.
pub trait Sink: Send {
    /// Something happened. [`ControlFlow::Break`] ends the request with [`Finish::Stopped`]. The first event, of the
    /// prompt, comes when the request gets its place.
    fn event(&mut self, event: Event<'_>) -> ControlFlow<()>;

    /// The hidden states of the prompt after the last norm, pooled; not normalised. One vector, or with [`Pooling::Each`]
    /// one for each token; with [`Pooling::Rank`] the scores of the prompt.
    fn vector(&mut self, vector: &[f32]);

    /// The log-probability of the next token of the prompt, from the second on, and those of the likeliest in its place;
    /// also of a token that ends the text, which is no token of it. [`ControlFlow::Break`] ends the request.
    fn score(&mut self, _token: Logprob, _top: &[Logprob]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// It is over, or cannot go on. For a request that was closed, nobody hears it.
    fn end(&mut self, end: Result<(Finish, Spent), Failure>);

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

/// What a request took, by the clock: steps are shared with other requests, so there is no time of its own as there is
/// in [`Timing`](crate::generate::Timing).
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
    /// The prompt.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// Scores of a model without a head that makes them.
    #[error("this model ranks no texts: its file has no head of a classifier")]
    NoRanking,
    /// Text of a model that writes none.
    #[error("this model makes embeddings and writes no text")]
    NoText,
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

impl Job {
    /// Whether it can run at all.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Rejected> {
        let Request { prompt, sampling, .. } = &self.request;
        check_prompt(prompt, limits.vocab, limits.context)?;
        if limits.whole && self.pooling.is_none() {
            return Err(Rejected::NoText);
        }
        if self.pooling == Some(Pooling::Rank) && limits.ranks.is_none() {
            return Err(Rejected::NoRanking);
        }
        Ok(sampling.check(limits.vocab)?)
    }
}

/// A job and where it is.
pub(super) struct Task {
    pub id: u64,
    pub sequence: Sequence,
    constraint: Option<Box<dyn Constraint>>,
    pool: Option<Pool>,
    /// How many of the likeliest are told beside each token of the prompt, if these are.
    score: Option<usize>,
    /// Tokens of the prompt that have been told or need not be; the first has nothing before it.
    scored: usize,
    sink: Box<dyn Sink>,
    /// Tokens whose positions in the cache are written.
    pub computed: usize,
    /// Tokens behind these that steps in flight compute.
    pub sent: usize,
    /// The row of the step in flight that chooses its next token.
    pub row: Option<usize>,
    /// Tells its time in a place from earlier ones and from those of others.
    pub ticket: u64,
    pub lease: Lease,
    pub spent: Spent,
    masked: Vec<f32>,
    submitted: Instant,
    /// When it first got a place.
    started: Option<Instant>,
    first_token: Option<Instant>,
}

impl Task {
    pub fn new(job: Job, limits: &Limits) -> Task {
        let Job { id, request, constraint, pooling, score, sink } = job;
        Task {
            id,
            sequence: Sequence::new(request),
            constraint,
            pool: pooling.map(|pooling| Pool::new(pooling, limits)),
            score,
            scored: 1,
            sink,
            computed: 0,
            sent: 0,
            row: None,
            ticket: 0,
            lease: Lease::default(),
            spent: Spent::default(),
            masked: vec![],
            submitted: Instant::now(),
            started: None,
            first_token: None,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }

    /// The prompt and what came out.
    pub fn tokens(&self) -> &[u32] {
        self.sequence.tokens()
    }

    /// Tokens of the prompt.
    pub fn prompt(&self) -> usize {
        self.sequence.prompt()
    }

    /// Tokens that are known and in no step yet.
    pub fn pending(&self) -> usize {
        self.tokens().len() - self.behind()
    }

    /// Where the next step goes on.
    pub fn behind(&self) -> usize {
        self.computed + self.sent
    }

    /// Tokens that the next step can take: those that are pending, or the one that a step in flight chooses.
    pub fn ready(&self, context: usize) -> usize {
        let chosen = self.row.is_some() && self.behind() < context && self.sequence.goes_on(1);
        self.pending().max(usize::from(chosen))
    }

    /// How a device may choose the token after its last, known or in flight; `None` if it cannot.
    pub fn draw(&self) -> Option<Draw> {
        self.sequence.draw(usize::from(self.row.is_some()))
    }

    /// Whether nothing that the host knows restricts its tokens.
    pub fn is_drawn(&self) -> bool {
        self.constraint.is_none() && self.pool.is_none() && self.score.is_none() && self.sequence.is_drawn()
    }

    /// It has a place, with so many of its tokens computed.
    pub fn place(&mut self, ticket: u64, cached: usize) {
        (self.ticket, self.computed, self.sent, self.row) = (ticket, cached, 0, None);
        self.begin(cached);
    }

    /// So many tokens were in the cache.
    fn begin(&mut self, cached: usize) {
        if let Some(pool) = &mut self.pool {
            pool.clear();
        }
        if self.started.is_some() {
            // It had to make room and comes back.
            return;
        }
        let now = Instant::now();
        self.started = Some(now);
        self.spent = Spent { prompt: self.prompt(), cached, waited: now - self.submitted, ..Spent::default() };
        // Whoever says to stop here is closed, and gone before the next step.
        let _ = self.report_progress();
    }

    /// So many tokens more are computed, as the pages and the counts then know. How many of them are tokens of the prompt,
    /// for the first time.
    pub fn advance(&mut self, count: usize, pages: &mut Pages, stats: &mut Stats) -> usize {
        self.computed += count;
        pages.computed(&mut self.lease, &self.sequence.tokens()[..self.computed]);
        stats.longest = stats.longest.max(self.computed as u64);
        if self.spent.generated == 0 { count } else { 0 }
    }

    fn report_progress(&mut self) -> ControlFlow<()> {
        if self.spent.generated > 0 {
            return ControlFlow::Continue(());
        }
        let (cached, done, total) = (self.spent.cached, self.computed, self.prompt());
        self.sink.event(Event::Prompt { cached, done, total })
    }

    /// Whether it wants something of tokens of its prompt before the last, also of those that were computed for another.
    pub fn is_read_whole(&self) -> bool {
        self.pool.as_ref().is_some_and(Pool::reads_all) || self.scores_prompt()
    }

    /// Whether tokens of its prompt are to be told yet.
    pub fn scores_prompt(&self) -> bool {
        self.score.is_some() && self.scored < self.prompt()
    }

    /// What its steps have to compute.
    pub fn output(&self) -> Output {
        self.pool.as_ref().map_or(Output::Logits, Pool::output)
    }

    /// Those of its next `count` tokens whose rows it wants.
    pub fn rows(&self, count: usize) -> Range<usize> {
        match &self.pool {
            Some(pool) => pool.wanted(self.behind(), count, self.tokens().len()),
            None if self.scores_prompt() => 0..count,
            None => count - usize::from(self.behind() + count >= self.tokens().len())..count,
        }
    }

    /// Passes the vector on.
    fn tell_vector(&mut self, vector: &[f32]) {
        self.spent.prompt_time = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        self.sink.vector(vector);
    }

    /// Takes the rows that a step computed for it, each `width` long: pools them, or chooses the next token. Says how it
    /// ended, if it did.
    pub fn take(&mut self, rows: &[f32], width: usize, context: usize) -> Option<Result<Finish, Failure>> {
        if let Some(pool) = &mut self.pool {
            pool.add(rows, width);
        }
        if self.tell_scores(rows, width).is_break() || self.report_progress().is_break() {
            return Some(Ok(Finish::Stopped));
        }
        if self.pending() > 0 {
            return None;
        }
        if let Some(pool) = &self.pool {
            let vector = pool.vector().map_err(|error| Failure::Engine(error.to_string()));
            return Some(vector.map(|vector| {
                self.tell_vector(&vector);
                Finish::End
            }));
        }
        if self.score.is_some() && !self.sequence.goes_on(0) {
            return Some(Ok(Finish::Limit));
        }
        let last = &rows[rows.len().saturating_sub(width)..];
        match self.choose(last) {
            Err(failure) => Some(Err(failure)),
            Ok(sampled) => {
                if let Some(count) = self.score.filter(|_| self.sequence.is_end(sampled.id)) {
                    // Whoever reads on hears it from the closed sink.
                    let _ = self.tell_score(last, sampled.id, count);
                }
                self.go_on(sampled, context).map(Ok)
            }
        }
    }

    /// Tells the log-probabilities of the tokens of the prompt that come after those of these rows. After it had to make
    /// room some of them have been told.
    fn tell_scores(&mut self, rows: &[f32], width: usize) -> ControlFlow<()> {
        let Some(count) = self.score.filter(|_| self.scores_prompt()) else { return ControlFlow::Continue(()) };
        let rows = rows.chunks_exact(width.max(1));
        let first = self.computed + 1 - rows.len();
        for (at, row) in (first..).zip(rows) {
            if at == self.scored && at < self.prompt() {
                self.scored += 1;
                self.tell_score(row, self.tokens()[at], count)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn tell_score(&mut self, row: &[f32], id: u32, count: usize) -> ControlFlow<()> {
        let (logprob, top) = sampler::score(row, id, count);
        self.sink.score(Logprob { id, logprob }, &top)
    }

    /// Takes what a step that was sent computed for it: the next token if it chose one, and none if that was impossible. Says
    /// how it ended, if it did.
    pub fn land(&mut self, token: Option<Option<u32>>, context: usize) -> Option<Result<Finish, Failure>> {
        if self.report_progress().is_break() {
            return Some(Ok(Finish::Stopped));
        }
        match token? {
            None => Some(Err(Failure::Sampler(SamplerError::NoCandidate.to_string()))),
            Some(id) => self.go_on(Sampled { id, logprob: None }, context).map(Ok),
        }
    }

    fn choose(&mut self, logits: &[f32]) -> Result<Sampled, Failure> {
        // What the model leaves possible was ruled out by the request.
        let failed = |e: SamplerError| match e {
            SamplerError::NoCandidate if logits.iter().any(|logit| logit.is_finite()) => Failure::Constraint(
                "no token is left: what the grammar allows is ruled out by logit_bias or ignore_eos".into(),
            ),
            e => Failure::Sampler(e.to_string()),
        };
        let Some(constraint) = &mut self.constraint else {
            return self.sequence.choose(logits).map_err(failed);
        };
        self.masked.clear();
        self.masked.extend_from_slice(logits);
        constraint.mask(&mut self.masked).map_err(Failure::Constraint)?;
        let sampled = self.sequence.choose(&self.masked).map_err(failed)?;
        if !self.sequence.is_end(sampled.id) {
            constraint.accept(sampled.id).map_err(Failure::Constraint)?;
        }
        Ok(sampled)
    }

    /// Takes the next token. Why the text is over, if it is.
    fn go_on(&mut self, sampled: Sampled, context: usize) -> Option<Finish> {
        let now = Instant::now();
        let first = *self.first_token.get_or_insert(now);
        self.spent.prompt_time = first - self.started.unwrap_or(first);
        self.spent.decode_time = now - first;
        let sink = &mut self.sink;
        let finish = self.sequence.take(sampled, |event| sink.event(event));
        self.spent.generated = self.sequence.generated();
        // The token that came last needs a position to be continued.
        finish.or_else(|| (self.tokens().len() > context).then_some(Finish::ContextFull))
    }

    /// Says how it ended.
    pub fn end(mut self, finish: Result<Finish, Failure>) {
        self.sink.end(finish.map(|finish| (finish, self.spent)));
    }
}

//! Which tokens go into the next step: many requests over one engine.
//!
//! Requests wait in a queue of bounded length, in the order in which they came. As long as there are places and pages,
//! the first is *admitted*: it gets the pages of its prompt, beginning with what the cache remembers of it. Every step
//! then takes one token of each sequence that decodes and, beside them, a bounded number of tokens of prompts, so that
//! nobody's text stands still behind a long prompt (`shares.rs`).
//!
//! A sequence that needs a page when there is none takes that of the youngest, which goes back to the head of the queue
//! with all its tokens: no request fails for want of memory, and none is cut short silently. Pages that nobody has are moved
//! beside the device when others need them, where that takes less than to compute them again (`spill.rs`). A request whose
//! [`Sink`] is closed is gone before the next step, wherever it is.
//!
//! A device that works beside the host has one step in flight, whose tokens it chooses itself, as long as nothing that only
//! the host knows has a say in them: the next step is sent before these tokens are known. A sequence that ends has then one
//! token more in that step, which nobody reads.
//!
//! This is plain code that does one step when told to: [`worker`] gives it a thread. Text, stop strings and transport
//! are the sink's business.

mod flight;
mod job;
mod shares;
mod snapshots;
mod spill;
pub mod worker;

pub use crate::config::Pooling;
pub use job::{Constraint, Failure, Job, Rejected, Sink, Spent};

use crate::batch::{Batch, Batches, Limits};
use crate::cache::PAGE;
use crate::error::EngineError;
use crate::pages::{Lease, Pages};
use crate::sequence::Finish;
use crate::step::Output;
use device::Device;
use flight::Flight;
use job::Task;
use snapshots::Snapshots;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use text::sampler::Draw;

const BLOCK: usize = PAGE as usize;

/// How sequences share the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Requests that may wait at most.
    pub queue: usize,
    /// Tokens of prompts in a step that also decodes.
    pub beside: usize,
    /// Keep what sequences computed for those that begin alike.
    pub reuse: bool,
    /// Of a model that remembers, how many texts it can go on from are kept for that.
    pub snapshots: usize,
    /// Bytes beside the device for pages of the cache that others need there.
    pub beside_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { queue: 256, beside: 64, reuse: true, snapshots: 32, beside_bytes: 0 }
    }
}

/// What happened since the start, and what is there now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Steps.
    pub steps: u64,
    /// Sequences in those steps, added up.
    pub sequences: u64,
    /// Tokens of prompts that were computed.
    pub prompt_tokens: u64,
    /// Tokens of prompts that the cache held.
    pub cached_tokens: u64,
    /// Time of steps in which prompts were computed.
    pub prompt_time: Duration,
    /// Time of the other steps.
    pub decode_time: Duration,
    /// Times that a sequence lost its pages to an elder one.
    pub preemptions: u64,
    /// Most tokens of a sequence.
    pub longest: u64,
    /// Requests that wait.
    pub waiting: usize,
    /// Pages that sequences have.
    pub pages_in_use: usize,
    /// All pages.
    pub pages: usize,
    /// Pages beside the device that hold something.
    pub pages_beside: usize,
    /// Pages that were moved there.
    pub moved_out: u64,
    /// Pages that came back.
    pub moved_in: u64,
    /// One entry a place; `None` is free.
    pub places: Vec<Option<Place>>,
    /// Why no step will run any more: the device is gone.
    pub lost: Option<String>,
}

impl Stats {
    /// A step with so many sequences, and tokens of prompts, is over.
    fn count(&mut self, sequences: usize, prompt_tokens: usize, time: Duration) {
        self.steps += 1;
        self.sequences += sequences as u64;
        self.prompt_tokens += prompt_tokens as u64;
        *(if prompt_tokens > 0 { &mut self.prompt_time } else { &mut self.decode_time }) += time;
    }
}

/// What a running sequence is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The request.
    pub id: u64,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of all its tokens, those that are computed.
    pub computed: usize,
    /// Tokens that came out.
    pub generated: usize,
}

/// Requests over an engine.
pub struct Scheduler {
    engine: Box<dyn Batches + Send>,
    /// Its threads choose tokens.
    device: Arc<dyn Device>,
    limits: Limits,
    options: Options,
    pages: Pages,
    snapshots: Snapshots,
    queue: VecDeque<Task>,
    /// In the order of admission; each with its place.
    running: Vec<(usize, Task)>,
    batch: Batch,
    /// For each sequence of the batch, the tokens it has there.
    parts: Vec<(usize, usize)>,
    stats: Stats,
    /// A step whose tokens are not known yet.
    flight: Option<Flight>,
    /// Whether the last step left out those who decode.
    prompts_alone: bool,
    /// Places that were given so far.
    tickets: u64,
    /// Sequences that are over and were not told yet.
    ended: Vec<(Task, Result<Finish, Failure>)>,
}

/// What a step gave a sequence.
struct Turn<'a> {
    /// Where it is among those that run.
    at: usize,
    task: &'a mut Task,
    rows: &'a [f32],
    /// How it ended, if it did.
    finish: Option<Result<Finish, Failure>>,
}

impl Scheduler {
    /// A scheduler that has the engine to itself.
    pub fn new(engine: Box<dyn Batches + Send>, mut options: Options) -> Scheduler {
        let limits = engine.limits();
        // Where tokens see what follows, no text goes on from what another left.
        options.reuse &= !limits.whole;
        Scheduler {
            batch: Batch::new(limits),
            pages: Pages::new(limits.pages),
            snapshots: Snapshots::new(options.snapshots),
            queue: VecDeque::new(),
            running: Vec::with_capacity(limits.segments),
            parts: Vec::with_capacity(limits.segments),
            stats: Stats { pages: limits.pages, places: vec![None; limits.segments], ..Stats::default() },
            device: engine.device(),
            engine,
            limits,
            options,
            flight: None,
            prompts_alone: false,
            tickets: 0,
            ended: vec![],
        }
    }

    /// What a step can take.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What happened so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether nobody waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty()
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    /// A request that could never run, or a full queue.
    pub fn submit(&mut self, job: Job) -> Result<(), Rejected> {
        job.check(&self.limits)?;
        let free = self.limits.segments - self.running.len();
        if self.queue.len() >= self.options.queue + free {
            return Err(Rejected::Full(self.queue.len()));
        }
        self.enqueue(job);
        Ok(())
    }

    /// Puts a request that was checked into the queue, however long that is.
    fn enqueue(&mut self, job: Job) {
        self.queue.push_back(Task::new(job, &self.limits));
        self.stats.waiting = self.queue.len();
    }

    /// Runs one step; `false` if there is nothing to do.
    pub fn step(&mut self) -> bool {
        let worked = self.work();
        self.tell();
        worked
    }

    /// As [`Scheduler::step`], but who is over does not hear of it yet: when its sink does, by [`Scheduler::tell`], the
    /// counts know it too.
    fn work(&mut self) -> bool {
        self.keep_due();
        self.drop_closed();
        self.see_to_room();
        self.admit();
        let worked = self.advance();
        self.note();
        worked
    }

    /// Runs a step, or sends one and then takes the tokens of the one before.
    fn advance(&mut self) -> bool {
        let sends = self.sends();
        if !sends && let Some(flight) = self.flight.take() {
            return self.land(flight);
        }
        match (self.fill(sends), sends) {
            (true, true) => self.send(),
            (true, false) => self.run(),
            (false, _) => self.flight.take().is_some_and(|flight| self.land(flight)),
        }
    }

    /// Tells those that are over.
    fn tell(&mut self) {
        self.ended.drain(..).for_each(|(task, finish)| task.end(finish));
    }

    /// Ends everything: the sinks hear of it.
    pub fn abort(&mut self, failure: &Failure) {
        for (_, task) in std::mem::take(&mut self.running) {
            self.end(task, Err(failure.clone()));
        }
        let waiting = std::mem::take(&mut self.queue);
        self.ended.extend(waiting.into_iter().map(|task| (task, Err(failure.clone()))));
        self.note();
        self.tell();
    }

    fn drop_closed(&mut self) {
        self.queue.retain(|task| !task.is_closed());
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].1.is_closed() {
                let (place, task) = self.running.remove(at);
                self.keep_leaving(place, &task);
                self.end(task, Ok(Finish::Stopped));
            } else {
                at += 1;
            }
        }
    }

    /// Gives the pages of a sequence back; it will hear how it ended.
    fn end(&mut self, mut task: Task, finish: Result<Finish, Failure>) {
        let lease = std::mem::take(&mut task.lease);
        self.give_back(lease, &task.tokens()[..task.computed]);
        self.ended.push((task, finish));
    }

    fn give_back(&mut self, lease: Lease, tokens: &[u32]) {
        self.pages.release(lease, tokens);
        if !self.options.reuse {
            self.pages.clear();
        }
    }

    /// Moves requests from the queue to places, as long as their prompts have pages.
    fn admit(&mut self) {
        let mut at = 0;
        while self.running.len() < self.limits.segments && at < self.queue.len() {
            let tokens = self.queue[at].tokens().len();
            let known = self.known(at);
            let (mut lease, mut cached) = self.pages.acquire(&self.queue[at].tokens()[..known]);
            // What a model that remembers is reading need not be where this one can go on from.
            let may_wait = self.options.reuse && self.engine.rewinds() && !self.queue[at].is_read_whole();
            if may_wait && self.is_being_computed(self.queue[at].tokens()) {
                self.pages.release(lease, &self.queue[at].tokens()[..cached]);
                at += 1;
                continue;
            }
            // Those who run may need a page each before this one is done.
            let missing = (tokens + 1).div_ceil(BLOCK).saturating_sub(lease.pages().len());
            let roomy = self.pages.available() >= missing + self.running.len();
            let starts = roomy || self.running.is_empty();
            if starts {
                cached = self.pages.restore(&mut lease, &self.queue[at].tokens()[..known], cached);
                // Whether all that it needs is there shows when what comes back has come.
                if let Err(error) = self.carry() {
                    self.pages.release(lease, &[]);
                    self.fail(&error.to_string());
                    return;
                }
                if !self.goes_on_from(&lease, &self.queue[at].tokens()[..cached]) {
                    // There were no pages for all that belongs to the snapshot, or to the window.
                    self.pages.release(lease, &self.queue[at].tokens()[..cached]);
                    (lease, cached) = (Lease::default(), 0);
                }
            }
            if !starts || !self.pages.grow(&mut lease, tokens) {
                self.pages.release(lease, &self.queue[at].tokens()[..cached]);
                break;
            }
            let Some(mut task) = self.queue.remove(at) else { break };
            task.lease = lease;
            self.tickets += 1;
            task.place(self.tickets, cached);
            let taken = |place: &usize| self.running.iter().any(|(other, _)| other == place);
            let place = (0..self.limits.segments).find(|place| !taken(place)).unwrap_or(0);
            if let Err(error) = self.settle(place, &task, cached) {
                let lease = std::mem::take(&mut task.lease);
                self.pages.release(lease, &[]);
                self.ended.push((task, Err(Failure::Engine(error.to_string()))));
                continue;
            }
            self.stats.cached_tokens += if task.spent.generated == 0 { cached as u64 } else { 0 };
            self.running.push((place, task));
        }
    }

    /// Lets a task that got a place, with so many of its tokens computed, go on there.
    fn settle(&mut self, place: usize, task: &Task, cached: usize) -> Result<(), EngineError> {
        if cached == 0 {
            return Ok(());
        }
        if !self.engine.rewinds() {
            let snapshot = self.snapshots.get(&task.tokens()[..cached]);
            return snapshot.map_or(Ok(()), |snapshot| self.engine.recall(place, snapshot));
        }
        self.engine.settle(place, task.lease.pages(), cached);
        Ok(())
    }

    /// So many tokens of the request at this place of the queue are worth looking for in the cache; the last is computed.
    fn known(&self, at: usize) -> usize {
        let task = &self.queue[at];
        // Of a vector or of scores, every token counts: none was computed before.
        if task.is_read_whole() {
            return 0;
        }
        if self.engine.rewinds() {
            let (pages, cached) = self.pages.path(task.tokens());
            return self.engine.goes_on(&pages, cached) + 1;
        }
        let lengths = self.snapshots.lengths(task.tokens());
        let there = |length: &usize| self.pages.known(&task.tokens()[..length + 1]) == *length;
        lengths.into_iter().find(there).map_or(0, |length| length + 1)
    }

    /// Whether a sequence can go on behind these tokens, in these pages.
    fn goes_on_from(&self, lease: &Lease, tokens: &[u32]) -> bool {
        match self.engine.rewinds() {
            true => self.engine.goes_on(lease.pages(), tokens.len()) == tokens.len(),
            false => tokens.is_empty() || self.snapshots.has(tokens),
        }
    }

    /// Whether a prompt that runs will soon leave more of these tokens in the cache: worth waiting for, as one text with
    /// many continuations is then computed once.
    fn is_being_computed(&self, tokens: &[u32]) -> bool {
        let cached = self.pages.known(tokens);
        self.running.iter().any(|(_, other)| {
            let ahead = other.tokens().len().min(tokens.len() - 1) / BLOCK * BLOCK;
            other.pending() > 1
                && ahead >= cached + BLOCK
                && other.computed < ahead
                && tokens[cached..cached + BLOCK] == other.tokens()[cached..cached + BLOCK]
                && tokens[..cached] == other.tokens()[..cached]
        })
    }

    /// Chooses the tokens of the next step, which chooses those after them itself if it is `sent`; `false` if there are none.
    fn fill(&mut self, sent: bool) -> bool {
        self.make_room();
        let output = self.turn();
        self.batch.clear();
        self.batch.set_output(output);
        self.parts.clear();
        let shares = self.shares(output);
        let mut behind = shares.iter().filter(|&&share| share > 0).count();
        for (at, (place, s)) in self.running.iter().enumerate().filter(|(at, _)| shares[*at] > 0) {
            behind -= 1;
            let mut count = shares[at];
            if s.scores_prompt() {
                // A row for each of its tokens, and one is left for everybody else.
                count = count.min(self.limits.rows.saturating_sub(self.batch.rows() + behind));
            }
            let (start, pages) = (s.behind(), s.lease.pages());
            let added = match (s.row, s.pending()) {
                (Some(row), 0) => self.batch.add_chosen(row, start, pages),
                _ if count == 0 => continue,
                _ => self.batch.add(&s.tokens()[start..start + count], start, pages),
            };
            if added.is_err() {
                // No room in this step.
                continue;
            }
            self.batch.set_place(*place);
            let (first, rows) = (self.batch.tokens() - count, s.rows(count));
            match (sent, rows.len()) {
                (true, 1) => self.batch.draw(s.draw().unwrap_or(Draw::GREEDY)),
                _ => self.batch.want(first + rows.start..first + rows.end),
            }
            self.parts.push((at, count));
        }
        if self.batch.tokens() > 0 && self.batch.rows() == 0 {
            // A step has at least one row; nobody reads this one.
            if sent { self.batch.draw(Draw::GREEDY) } else { self.batch.want_last() }
        }
        self.batch.tokens() > 0
    }

    /// What the next step computes: those who want text, vectors and scores take turns.
    fn turn(&self) -> Output {
        const TURNS: [Output; 3] = [Output::Logits, Output::Hidden, Output::Scores];
        let last = TURNS.iter().position(|&output| output == self.batch.output()).unwrap_or(0);
        let turns = (1..=TURNS.len()).map(|behind| TURNS[(last + behind) % TURNS.len()]);
        let wanted = |output: &Output| self.running.iter().any(|(_, s)| s.output() == *output);
        turns.into_iter().find(wanted).unwrap_or_default()
    }

    /// Sees to it that every sequence has a page for its next token.
    fn make_room(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            let task = &mut self.running[at].1;
            let tokens = (task.tokens().len() + usize::from(task.row.is_some())).min(self.limits.context);
            if self.pages.grow(&mut task.lease, tokens) {
                at += 1;
                continue;
            }
            // The youngest gives way, be it this one: one sequence alone always has enough.
            if let Some((place, mut youngest)) = self.running.pop() {
                self.keep_leaving(place, &youngest);
                let lease = std::mem::take(&mut youngest.lease);
                self.give_back(lease, &youngest.tokens()[..youngest.computed]);
                youngest.computed = 0;
                self.stats.preemptions += 1;
                self.queue.push_front(youngest);
            }
        }
    }

    /// Runs the batch and gives each sequence what it got.
    fn run(&mut self) -> bool {
        if let Err(error) = self.carry() {
            return self.fail(&error.to_string());
        }
        let began = Instant::now();
        let out = match self.engine.run(&self.batch) {
            Ok(out) => out,
            Err(error) => return self.fail(&error.to_string()),
        };
        let elapsed = began.elapsed();
        let width = out.len() / self.batch.rows().max(1);
        let mut rows = out;
        let mut prompt_tokens = 0;
        let mut parts = self.parts.iter().peekable();
        let mut turns = Vec::with_capacity(self.parts.len());
        for (at, (_, task)) in self.running.iter_mut().enumerate() {
            let Some(&(_, count)) = parts.next_if(|(part, _)| *part == at) else { continue };
            let (own, rest) = rows.split_at(task.rows(count).len() * width);
            rows = rest;
            prompt_tokens += task.advance(count, &mut self.pages, &mut self.stats);
            turns.push(Mutex::new(Turn { at, task, rows: own, finish: None }));
        }
        // Choosing a token reads a row as long as the vocabulary, or asks a grammar: sequences do it side by side.
        let context = self.limits.context;
        let told = self.device.parallel_for(turns.len(), &|i| {
            let mut turn = turns[i].lock().unwrap_or_else(PoisonError::into_inner);
            let Turn { task, rows, finish, .. } = &mut *turn;
            *finish = task.take(rows, width, context);
        });
        let turns = turns.into_iter().map(|turn| turn.into_inner().unwrap_or_else(PoisonError::into_inner));
        let ended: Vec<_> = turns.filter_map(|turn| turn.finish.map(|finish| (turn.at, finish))).collect();
        if let Err(error) = told {
            return self.fail(&error.to_string());
        }
        self.stats.count(self.parts.len(), prompt_tokens, elapsed);
        self.leave(ended);
        true
    }

    /// Ends all that run: what the step left in their pages is not known.
    fn fail(&mut self, problem: &str) -> bool {
        self.stats.lost = self.device.check().err().map(|error| error.to_string());
        for (_, mut task) in std::mem::take(&mut self.running) {
            self.pages.release(std::mem::take(&mut task.lease), &[]);
            self.ended.push((task, Err(Failure::Engine(problem.into()))));
        }
        self.pages.clear();
        self.snapshots.clear();
        self.flight = None;
        true
    }

    fn note(&mut self) {
        self.stats.waiting = self.queue.len();
        self.stats.pages_in_use = self.pages.in_use();
        self.stats.pages_beside = self.pages.spilled();
        self.stats.places.fill(None);
        for (place, s) in &self.running {
            let (id, prompt, computed, generated) = (s.id, s.prompt(), s.computed, s.spent.generated);
            self.stats.places[*place] = Some(Place { id, prompt, computed, generated });
        }
    }
}

#[cfg(test)]
mod tests;

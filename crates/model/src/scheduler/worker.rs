//! A scheduler on a thread of its own.

use super::{Failure, Job, Rejected, Scheduler, Stats};
use crate::batch::Limits;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Takes requests from any thread. Clones are handles on the same engine.
#[derive(Clone)]
pub struct Worker {
    shared: Arc<Shared>,
    limits: Limits,
    places: usize,
    queue: usize,
}

struct Shared {
    inbox: Mutex<Inbox>,
    /// Something is in the inbox, or the end was asked for.
    wake: Condvar,
    /// The engine is gone.
    gone: Condvar,
}

#[derive(Default)]
struct Inbox {
    jobs: Vec<Job>,
    stats: Stats,
    running: usize,
    state: State,
    /// The engine and its memory are given back.
    is_gone: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    /// No more requests; those that are there go on.
    Draining,
    /// Nothing goes on.
    Aborting,
    Ended,
}

impl Worker {
    /// Starts a thread that runs steps as long as there is something to do, and sleeps otherwise.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(scheduler: Scheduler) -> std::io::Result<(Worker, JoinHandle<()>)> {
        let inbox = Inbox { stats: scheduler.stats().clone(), ..Inbox::default() };
        let shared = Arc::new(Shared { inbox: Mutex::new(inbox), wake: Condvar::new(), gone: Condvar::new() });
        let worker = Worker {
            limits: scheduler.limits(),
            places: scheduler.limits().segments,
            queue: scheduler.options.queue,
            shared: shared.clone(),
        };
        let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
            run(scheduler, &shared);
            shared.lock().is_gone = true;
            shared.gone.notify_all();
        })?;
        Ok((worker, thread))
    }

    /// What a sequence can be.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    /// A request that could never run, a full queue, or the end of the program.
    pub fn submit(&self, job: Job) -> Result<(), Rejected> {
        self.submit_all(vec![job])
    }

    /// Puts requests into the queue: all of them or none.
    ///
    /// # Errors
    /// As [`Worker::submit`].
    pub fn submit_all(&self, jobs: Vec<Job>) -> Result<(), Rejected> {
        jobs.iter().try_for_each(|job| job.check(&self.limits))?;
        let mut inbox = self.shared.lock();
        if inbox.state != State::Running {
            return Err(Rejected::ShuttingDown);
        }
        let waiting = inbox.jobs.len() + inbox.stats.waiting;
        let free = self.places - inbox.running.min(self.places);
        if waiting + jobs.len() > self.queue + free {
            return Err(Rejected::Full(waiting));
        }
        inbox.jobs.extend(jobs);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// What happened up to the last step.
    pub fn stats(&self) -> Stats {
        let inbox = self.shared.lock();
        let mut stats = inbox.stats.clone();
        stats.waiting += inbox.jobs.len();
        stats
    }

    /// Takes no more requests; those that are there go on to their ends.
    pub fn drain(&self) {
        self.to(State::Draining);
    }

    /// Takes no more requests, and ends those that are there.
    pub fn abort(&self) {
        self.to(State::Aborting);
    }

    /// As [`Worker::abort`]; returns when the engine is gone, and what it took of the device is given back.
    pub fn close(&self) {
        self.abort();
        let mut inbox = self.shared.lock();
        while !inbox.is_gone {
            inbox = self.shared.gone.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether nothing runs any more and nothing will.
    pub fn is_ended(&self) -> bool {
        self.shared.lock().state == State::Ended
    }

    fn to(&self, state: State) {
        let mut inbox = self.shared.lock();
        if inbox.state != State::Ended && inbox.state != State::Aborting {
            inbox.state = state;
        }
        self.shared.wake.notify_one();
    }
}

impl Inbox {
    /// Takes down what the scheduler counted.
    fn count(&mut self, stats: &Stats) {
        self.stats.clone_from(stats);
        self.running = stats.places.iter().flatten().count();
    }
}

impl Shared {
    /// Nothing is half done under this lock, so one that a panic left is as good as any.
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(mut scheduler: Scheduler, shared: &Shared) {
    loop {
        let state = {
            let mut inbox = shared.lock();
            while inbox.state == State::Running && inbox.jobs.is_empty() && scheduler.is_idle() {
                inbox = shared.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            }
            for job in std::mem::take(&mut inbox.jobs) {
                // It was checked, and counted against the queue, when it came.
                scheduler.enqueue(job);
            }
            inbox.stats.clone_from(scheduler.stats());
            inbox.state
        };
        let over = match state {
            State::Draining => scheduler.is_idle(),
            State::Aborting => true,
            State::Running | State::Ended => false,
        };
        // A step that panics has left the scheduler in a state that nobody knows: its requests end with it.
        let step = || {
            scheduler.work();
            shared.lock().count(scheduler.stats());
            scheduler.tell();
        };
        if !over && catch_unwind(AssertUnwindSafe(step)).is_ok() && scheduler.stats().lost.is_none() {
            continue;
        }
        let lost = scheduler.stats().lost.clone();
        let mut inbox = shared.lock();
        inbox.count(scheduler.stats());
        inbox.state = State::Ended;
        for job in std::mem::take(&mut inbox.jobs) {
            scheduler.enqueue(job);
        }
        drop(inbox);
        scheduler.abort(&lost.map_or(Failure::ShuttingDown, Failure::Engine));
        return;
    }
}

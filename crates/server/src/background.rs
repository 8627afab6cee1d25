//! Threads on which requests are read: parsing, templates, tokenizers. They are few, their queues are bounded, and their
//! priority is low, so that whatever a request costs to read is taken from idle time before it is taken from the streams
//! of others. Long bodies wait for each other and never hold up short ones.
//!
//! A job cannot be interrupted; one whose client has left before it begins is not begun.

use crate::budget::{READER_STACK, READERS, SHORT_BODY, UNREAD};
use crate::error::ApiError;
use crate::system;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// After this time most short answers to long bodies have been sent.
const ANSWERED: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// Threads with one queue.
struct Lane {
    jobs: SyncSender<Job>,
    most: usize,
}

impl Lane {
    /// `tidies` says that its jobs leave much freed memory behind.
    fn start(name: &str, threads: usize, most: usize, tidies: bool) -> std::io::Result<Lane> {
        let (jobs, queue) = sync_channel::<Job>(most);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(READER_STACK);
            thread.spawn(move || work(&queue, tidies))?;
        }
        Ok(Lane { jobs, most })
    }
}

/// Does jobs until there can be no more.
fn work(queue: &Mutex<Receiver<Job>>, tidies: bool) {
    system::lower_priority();
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = lock().recv();
    while let Ok(job) = next {
        job();
        let waiting = lock().try_recv();
        next = match waiting {
            Ok(job) => Ok(job),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if tidies => {
                // After the last of a burst, as it takes a millisecond or more; and again when answers have been sent.
                system::give_back_memory();
                let later = lock().recv_timeout(ANSWERED);
                if matches!(later, Err(RecvTimeoutError::Timeout)) {
                    system::give_back_memory();
                    lock().recv()
                } else {
                    later.map_err(|_| RecvError)
                }
            }
            Err(TryRecvError::Empty) => lock().recv(),
        };
    }
}

/// The threads. They start with the first job and end with the value.
#[derive(Default)]
pub struct Background {
    lanes: OnceLock<Option<[Lane; 2]>>,
}

impl Background {
    fn lanes(&self) -> Result<&[Lane; 2], ApiError> {
        let start = || {
            let short = Lane::start("short-bodies", READERS[0], UNREAD[0], false).ok()?;
            Some([short, Lane::start("long-bodies", READERS[1], UNREAD[1], true).ok()?])
        };
        let lanes = self.lanes.get_or_init(start).as_ref();
        lanes.ok_or_else(|| ApiError::server("there is no thread to read requests (internal error)"))
    }

    /// Gives freed memory back soon, apart from whoever has freed it.
    pub fn tidy(&self) {
        if let Ok(lanes) = self.lanes() {
            // Where the queue is full, what waits there tidies up.
            let _ = lanes[1].jobs.try_send(Box::new(|| ()));
        }
    }

    /// Does a job for a body of so many bytes. Whoever stops waiting before it begins takes it back.
    ///
    /// # Errors
    /// 429 if too many wait, 500 if the job panics, and what it says.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        job: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let lane = &self.lanes()?[usize::from(bytes > SHORT_BODY)];
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            if !done.is_closed() {
                // A panic ends with the job, which owns whatever it was about.
                let _ = done.send(catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(panicked())));
            }
        });
        lane.jobs
            .try_send(job)
            .map_err(|_| ApiError::busy(format!("{} requests wait to be read already, as many as may", lane.most)))?;
        result.await.unwrap_or_else(|_| Err(panicked()))
    }
}

fn panicked() -> ApiError {
    ApiError::server("the request could not be read (internal error)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    const LONG: usize = SHORT_BODY + 1;

    /// Holds the only thread for long bodies until something is sent.
    fn hold(background: &Arc<Background>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), ApiError>>) {
        let (release, held) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let background = background.clone();
        let holding = tokio::spawn(async move {
            let job = move || {
                let _ = begins.send(());
                held.recv().map_err(|_| ApiError::server("nobody"))
            };
            background.run(LONG, job).await
        });
        tokio::task::block_in_place(|| begun.recv().expect("it begins"));
        (release, holding)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn long_bodies_hold_up_no_short_ones_and_more_than_may_wait_are_refused() {
        let background = Arc::new(Background::default());
        let (release, holding) = hold(&background);
        assert_eq!(background.run(0, || Ok(7)).await, Ok(7));
        let more: Vec<_> = (0..UNREAD[1] + 5).map(|i| (i, background.clone())).collect();
        let mut waiting = vec![];
        for (i, background) in more {
            let mut job = Box::pin(async move { background.run(LONG, move || Ok(i)).await });
            // Polled once, it is in the queue or refused.
            let now = futures_util::future::poll_immediate(job.as_mut()).await;
            match now {
                Some(result) => assert_eq!(result.expect_err("full").status.as_u16(), 429),
                None => waiting.push(job),
            }
        }
        assert_eq!(waiting.len(), UNREAD[1]);
        release.send(()).expect("it waits");
        for (i, job) in waiting.into_iter().enumerate() {
            assert_eq!(job.await, Ok(i));
        }
        assert_eq!(holding.await.expect("no panic"), Ok(()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_leaves_takes_his_job_back_and_a_panic_is_an_error() {
        let background = Arc::new(Background::default());
        let (release, holding) = hold(&background);
        let ran = Arc::new(AtomicUsize::new(0));
        let job = |ran: &Arc<AtomicUsize>| {
            let ran = ran.clone();
            move || Ok(ran.fetch_add(1, Ordering::SeqCst))
        };
        let mut left = Box::pin(background.run(LONG, job(&ran)));
        assert!(futures_util::future::poll_immediate(left.as_mut()).await.is_none());
        drop(left);
        let stays = background.run(LONG, job(&ran));
        release.send(()).expect("it waits");
        assert_eq!(stays.await, Ok(0));
        assert!(holding.await.is_ok());
        let failed = background.run(0, || -> Result<(), ApiError> { panic!("on purpose") }).await;
        assert_eq!(failed.expect_err("a panic").status.as_u16(), 500);
        assert_eq!(background.run(0, || Ok(1)).await, Ok(1));
    }
}

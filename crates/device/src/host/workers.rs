//! Threads of the host, for what it does between the steps of a device that works beside it.

use crate::cpu::threads::default_threads;
use crate::error::{Error, Result, text_of};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// More of them have nothing to do: a step has at most as many rows to choose from as there are sequences.
const MOST: usize = 16;

/// Threads that sleep until there is something to do, and are made when there first is.
#[derive(Debug, Default)]
pub struct Workers(OnceLock<Option<ThreadPool>>);

impl Workers {
    /// Calls `job` with each number below `count`, in any order, and returns when all calls have. On the calling thread where
    /// one is enough, or no others can be had.
    ///
    /// # Errors
    /// [`Error::WorkerPanicked`] if a call did; others may then be missing.
    pub fn each(&self, count: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        let threads = || ThreadPoolBuilder::new().num_threads(default_threads().min(MOST)).build().ok();
        let pool = if count > 1 { self.0.get_or_init(threads).as_ref() } else { None };
        let run = || match pool {
            Some(pool) => pool.install(|| (0..count).into_par_iter().with_max_len(1).for_each(job)),
            None => (0..count).for_each(job),
        };
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| Error::WorkerPanicked { message: text_of(&*panic) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_number_is_called_once() {
        let workers = Workers::default();
        for count in [0, 1, 2, 100] {
            let calls: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            let call = |i: usize| {
                calls[i].fetch_add(1, Ordering::Relaxed);
            };
            workers.each(count, &call).expect("no panic");
            assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        for count in [1, 9] {
            let error = Workers::default().each(count, &|i| assert_ne!(i, count - 1, "broken")).expect_err("it panics");
            assert!(matches!(&error, Error::WorkerPanicked { message } if message.contains("broken")), "{error}");
        }
    }
}

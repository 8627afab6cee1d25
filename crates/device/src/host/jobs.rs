//! Independent jobs on several threads, as compilers run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::{Error, Result};

/// The results of `job` for each number below `count`, in their order. At most `threads` run at a time, that of the caller
/// among them.
///
/// # Errors
/// The first that a job ends in; no other job begins after that.
pub fn all<T: Send>(threads: usize, count: usize, job: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::default();
    let failed: Mutex<Option<Error>> = Mutex::default();
    let work = || {
        while failed.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            match job(index) {
                Ok(result) => done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result)),
                Err(error) => drop(failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error)),
            }
        }
    };
    thread::scope(|scope| {
        (1..threads.min(count)).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => {
            let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
            done.sort_unstable_by_key(|(index, _)| *index);
            Ok(done.into_iter().map(|(_, result)| result).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_an_error_ends_the_rest() {
        assert_eq!(all(3, 100, |index| Ok(index * 2)).unwrap(), (0..100).map(|index| index * 2).collect::<Vec<_>>());
        assert!(all(4, 0, |_| Ok(())).unwrap().is_empty());
        let begun = AtomicUsize::new(0);
        let result = all(1, 100, |index| {
            begun.fetch_add(1, Ordering::Relaxed);
            if index == 7 { Err(Error::Stopped) } else { Ok(()) }
        });
        assert!(matches!(result, Err(Error::Stopped)));
        assert_eq!(begun.into_inner(), 8);
    }
}

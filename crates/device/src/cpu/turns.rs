//! Who is next: callers take turns in the order in which they come.
//!
//! A mutex of the standard library goes to whoever is quickest, which is the thread that has just given it back: of two
//! models on one pool, one would stand still while the other runs step after step.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Turns, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    numbers: Mutex<Numbers>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Numbers {
    /// Turns that were asked for.
    asked: u64,
    /// Those that are over.
    over: u64,
}

impl Turns {
    /// Waits for a turn, which lasts as long as the guard lives.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut numbers = self.lock();
        let mine = numbers.asked;
        numbers.asked += 1;
        while numbers.over != mine {
            numbers = self.bell.wait(numbers).unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }

    /// How many turns were asked for.
    pub(crate) fn asked(&self) -> u64 {
        self.lock().asked
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn.
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut numbers = self.0.lock();
        numbers.over += 1;
        if numbers.over < numbers.asked {
            self.0.bell.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn who_comes_again_waits_behind_who_waits() {
        let turns = Arc::new(Turns::default());
        let counts: Arc<[AtomicU64; 2]> = Arc::default();
        let both = Arc::new(std::sync::Barrier::new(2));
        let threads: Vec<_> = (0..2)
            .map(|me| {
                let (turns, counts, both) = (turns.clone(), counts.clone(), both.clone());
                std::thread::spawn(move || {
                    both.wait();
                    for _ in 0..500 {
                        let turn = turns.take();
                        // Whoever waits has asked before this turn is over.
                        while turns.asked() < counts.iter().map(|n| n.load(Ordering::SeqCst)).sum::<u64>() + 2
                            && counts[1 - me].load(Ordering::SeqCst) < 500
                        {
                            std::hint::spin_loop();
                        }
                        let mine = counts[me].fetch_add(1, Ordering::SeqCst) + 1;
                        let others = counts[1 - me].load(Ordering::SeqCst);
                        assert!(mine.abs_diff(others) <= 1 || others == 500, "{mine} turns beside {others}");
                        drop(turn);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(turns.asked(), 1000);
    }
}

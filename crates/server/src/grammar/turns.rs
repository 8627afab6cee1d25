//! Who may compile now: so many at a time, in the order in which they came, and so many that wait.

use super::Failed;
use super::budget::{COMPILING, WAITING};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A queue for compiles.
pub struct Turns {
    /// Places in the queue and at its head.
    queue: Semaphore,
    compiling: Semaphore,
}

/// A turn, as long as it lives.
pub struct Turn<'a> {
    _compiles: SemaphorePermit<'a>,
    _queued: SemaphorePermit<'a>,
}

impl Turns {
    /// Nobody waits.
    pub fn new() -> Turns {
        Turns { queue: Semaphore::new(COMPILING + WAITING), compiling: Semaphore::new(COMPILING) }
    }

    /// Waits for a turn. To drop the future leaves the queue.
    pub async fn take(&self) -> Result<Turn<'_>, Failed> {
        let full = || Failed::Busy(format!("{WAITING} requests wait for their grammars already; try again later"));
        let queued = self.queue.try_acquire().map_err(|_| full())?;
        let compiles = self.compiling.acquire().await.map_err(|_| full())?;
        Ok(Turn { _compiles: compiles, _queued: queued })
    }
}

//! Large files that are written with progress, and that Ctrl-C ends without leaving a part of them.

use crate::failure::Interrupted;
use crate::interrupt;
use crate::open::bytes;
use crate::terminal;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

/// Runs `write`, which tells how many bytes of how many are written, and returns the seconds that it took.
///
/// # Errors
/// Those of `write`, and [`Interrupted`].
pub fn with_progress<E>(write: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<(), E>) -> anyhow::Result<f64>
where
    anyhow::Error: From<E>,
{
    let start = Instant::now();
    let mut shown = start;
    let watch = interrupt::watch();
    let mut progress = |done: u64, total: u64| {
        if watch.is_hit() {
            // Unwinding removes the unfinished file.
            resume_unwind(Box::new(Interrupted));
        }
        if shown.elapsed().as_millis() >= 100 {
            shown = Instant::now();
            terminal::progress(&format!("{} of {}", bytes(done), bytes(total)));
        }
    };
    let written = catch_unwind(AssertUnwindSafe(|| write(&mut progress)));
    let written = written.map_err(|reason| match reason.downcast::<Interrupted>() {
        Ok(interrupted) => *interrupted,
        Err(reason) => resume_unwind(reason),
    })?;
    terminal::wipe();
    written?;
    Ok(start.elapsed().as_secs_f64())
}

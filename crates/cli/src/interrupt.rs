//! Ctrl-C: ends the program with code 130, or, while somebody [`watch`]es, what is being computed.

use crate::failure::Interrupted;
use crate::terminal;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

const UNWATCHED: u8 = 0;
const WATCHED: u8 = 1;
const HIT: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNWATCHED);

/// Takes over the signal. Where that fails, the system's default remains: the program ends.
pub fn install() {
    let _ = ctrlc::set_handler(|| {
        let first = STATE.compare_exchange(WATCHED, HIT, Ordering::SeqCst, Ordering::SeqCst);
        if first.is_err() {
            terminal::wipe();
            if terminal::is_styled() {
                let _ = std::io::stdout().write_all(terminal::NORMAL.as_bytes());
            }
            std::process::exit(130);
        }
    });
}

/// As long as it lives, the first Ctrl-C is only noted; the second ends the program. One may begin while another lives:
/// what is noted then is the inner one's.
pub struct Watch {
    /// Whether there was another watch.
    inner: bool,
}

/// Begins to watch.
pub fn watch() -> Watch {
    let before = STATE.swap(WATCHED, Ordering::SeqCst);
    Watch { inner: before != UNWATCHED }
}

/// Whether Ctrl-C was pressed since the innermost watch began.
pub fn is_hit() -> bool {
    STATE.load(Ordering::SeqCst) == HIT
}

impl Watch {
    /// Whether Ctrl-C was pressed since the watch began.
    pub fn is_hit(&self) -> bool {
        is_hit()
    }

    /// An error if Ctrl-C was pressed.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.is_hit() { Err(Interrupted) } else { Ok(()) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        STATE.store(if self.inner { WATCHED } else { UNWATCHED }, Ordering::SeqCst);
    }
}

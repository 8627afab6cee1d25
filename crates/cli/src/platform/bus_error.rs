//! A mapped file that is made shorter: whoever touches what is gone gets SIGBUS. The program then ends as after any
//! error, with one line and code 1, and does not just vanish.

use crate::terminal;
use std::sync::atomic::{AtomicBool, Ordering};

const LINE: &str = "error: a file that is mapped was made shorter or cannot be read (SIGBUS); \
                    if the model was replaced meanwhile, run it again\n";

/// Whether a thread is on its way out.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Takes over the signal. Where that fails, the system's default remains.
pub fn install() {
    // SAFETY: zeros are a valid sigaction, and `end` calls nothing that a handler of signals may not call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn end(_signal: libc::c_int) {
    while ENDING.swap(true, Ordering::SeqCst) {
        // SAFETY: waits for the end, which another worker has begun: one line is enough.
        unsafe { libc::pause() };
    }
    for text in [terminal::wiping(), LINE] {
        // SAFETY: the bytes live as long as the program.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: ends the program without running anything of it.
    unsafe { libc::_exit(1) }
}

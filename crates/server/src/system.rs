//! What is asked of the operating system: a low priority for a thread, and freed memory back. Both help where they can;
//! where they cannot, nothing is worse than without.

/// How nice threads are that read requests.
#[cfg(target_os = "linux")]
const NICE: libc::c_int = 19;

/// Lets all others run before the calling thread.
pub fn lower_priority() {
    #[cfg(target_os = "linux")]
    // SAFETY: takes numbers only. On Linux 0 is the calling thread, whose priority anybody may lower.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}

/// Gives freed memory back to the system. glibc keeps it in the arena of the thread that asked for it, and a burst of
/// long bodies leaves hundreds of megabytes there.
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number only; it may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

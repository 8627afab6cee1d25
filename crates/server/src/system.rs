//! What is asked of the operating system: a low priority for a thread, and freed memory back. Both help where they can;
//! where they cannot, nothing is worse than without.

/// How nice threads are that read requests: as nice as can be. Measured with both of two processors decoding, a short
/// request took 0.8 ms at the median with any niceness; where other programs wanted the processors too, one in ten took
/// 80 ms and not 6 as with 10. Streams beside are what is worth more.
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

/// From here on an allocation goes back to the system at once when it is freed. glibc raises this by itself, to 32 MiB, when
/// it frees a larger one, and then keeps up to twice as much.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 1 << 20;

/// Lets the system have large buffers back as soon as they are freed: bodies that are refused while they come never reach
/// the threads that give back the rest.
pub fn keep_no_large_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes numbers only, and sets what the allocator would set itself.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * LARGE);
    }
}

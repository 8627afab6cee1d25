//! How much of the processors a thread gets beside others.

/// A third of what a thread of usual priority gets beside it: what works for later holds up little of what is wanted now.
const BESIDE: i32 = 5;

/// Lowers the priority of the calling thread, and so of threads and programs that it starts. On systems where threads have
/// none of their own nothing happens.
pub fn lower() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(BESIDE);
    #[cfg(not(target_os = "linux"))]
    let _ = BESIDE;
}

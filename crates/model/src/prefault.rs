//! Weights brought in ahead of their first use.
//!
//! A page of a mapped file costs a fault at its first touch, even when the system already has it in memory: 17 GB take half
//! a second of faults. A thread takes them while programs are made ready.

use gguf::Gguf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Smaller files are left to their faults.
const LEAST: u64 = 256 << 20;

/// A thread that brings in a file; it ends when this is dropped.
pub(crate) struct Prefault {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prefault {
    /// Begins. `None` if it would not help: a small file, or one that does not fit in memory, whose pages would push
    /// each other out.
    pub(crate) fn start(file: &Arc<Gguf>) -> Option<Prefault> {
        let bytes = file.bytes();
        if bytes < LEAST || device::available_memory().is_none_or(|room| room < bytes) {
            return None;
        }
        let over = Arc::new(AtomicBool::new(false));
        let (file, ended) = (Arc::clone(file), Arc::clone(&over));
        let bring = move || file.bring_in(|| !ended.load(Ordering::Relaxed));
        let thread = std::thread::Builder::new().name("weights".into()).spawn(bring).ok()?;
        Some(Prefault { over, thread: Some(thread) })
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only maps pages: a panic there is of no consequence here.
            let _ = thread.join();
        }
    }
}

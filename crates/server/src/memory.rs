//! The account of the memory that all requests in flight take together.
//!
//! It trusts what it is told: it charges estimates that are meant to be too high (`tests/memory.rs` compares them with an
//! allocator that counts), and cannot know what a library takes beside them.

use crate::budget::SHARE;
use crate::error::ApiError;
use axum::http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The account.
#[derive(Debug)]
pub struct Memory {
    most: usize,
    taken: AtomicUsize,
}

impl Memory {
    /// An account of so many bytes.
    pub fn new(most: usize) -> Memory {
        Memory { most, taken: AtomicUsize::new(0) }
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// A charge of nothing, for one request.
    pub fn open(self: &Arc<Memory>) -> Charge {
        Charge { memory: self.clone(), bytes: 0 }
    }
}

/// What one request takes; given back with the value.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Charge {
    /// Bytes that it stands for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more.
    ///
    /// # Errors
    /// 413 if one request may not take so much, 429 if others have taken it. Nothing is taken then.
    pub fn grow(&mut self, more: usize) -> Result<(), ApiError> {
        let (most, bytes) = (self.memory.most, self.bytes.saturating_add(more));
        let share = most / SHARE;
        if bytes > share {
            let message = format!(
                "the request takes more than {share} bytes of memory, 1/{SHARE} of what all may take (--request-memory)"
            );
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message));
        }
        let add = |taken: usize| taken.checked_add(more).filter(|&all| all <= most);
        if self.memory.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            let message =
                format!("requests in flight take {most} bytes of memory, all that they may (--request-memory)");
            return Err(ApiError::busy(message));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Gives back what is beyond so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.memory.taken.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_takes_its_share_and_all_together_what_there_is() {
        let memory = Arc::new(Memory::new(100));
        let mut first = memory.open();
        first.grow(50).expect("its share");
        let refused = first.grow(1).expect_err("more than its share");
        assert_eq!((refused.status.as_u16(), first.bytes(), memory.taken()), (413, 50, 50));
        let mut second = memory.open();
        second.grow(40).expect("what is there");
        let mut third = memory.open();
        let refused = third.grow(11).expect_err("more than is left");
        assert_eq!((refused.status.as_u16(), refused.retry_after), (429, Some(1)));
        assert!(refused.message.contains("--request-memory") && third.grow(usize::MAX).is_err());
        first.shrink_to(20);
        third.grow(11).expect("what the first gave back");
        drop((first, second, third));
        assert_eq!(memory.taken(), 0);
    }
}

//! What a request may take: its numbers, each with its reason, and the account of the memory that all requests in flight
//! take together. Numbers that a flag sets are its defaults.
//!
//! The account trusts what it is told: it charges estimates that are meant to be too high (`tests/memory.rs` compares
//! them with an allocator that counts), and cannot know what a library takes beside them.

use crate::error::ApiError;
use axum::http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of a body (`--body-limit`). A prompt of 131,072 token ids has 0.9 MB, a million characters of text as much.
pub const BODY_BYTES: usize = 4 << 20;

/// Values of a body, counted while it is read: seven prompts of 131,072 ids, or all the ids of a batch for embeddings.
pub const BODY_VALUES: usize = 1_000_000;

/// How deep lists and objects of a body may lie in each other: a schema of 45 nested objects with room around it. What
/// recurses over a value (parsing, templates, drop) needs some kilobytes of stack at most for each.
pub const BODY_DEPTH: usize = 100;

/// How long a body may take to come (`--body-timeout`).
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// Within this time a body needs no place among the slow ones: whoever sends what he has is never held up by others.
pub const BODY_GRACE: Duration = Duration::from_secs(1);

/// Bodies that may be slow at a time. Each holds a connection and what has come of it.
pub const SLOW_BODIES: usize = 64;

/// Bytes that all requests in flight may take together (`--request-memory`), beside the cache and the engine.
pub const MEMORY: usize = 512 << 20;

/// One request may take so much of it: 1 / this. A million ids are read in 130 MB, 4 MB of text in 220 MB.
pub const SHARE: usize = 2;

/// What the values of a body are taken for while they are read, in parts of 2: the values themselves and the longest list
/// once more, which is there twice when it grows; for a template five times the values, as it gets them in its own form and
/// tools are printed. Measured with the bodies of `tests/memory.rs`: at most 4.5 times.
pub const PLAIN_WORK: usize = 3;
/// See [`PLAIN_WORK`].
pub const TEMPLATE_WORK: usize = 10;

/// What a byte of text is taken for while it is read: tokenizers cut it into pieces that know their neighbours. Measured: 43.
pub const TEXT_WORK: usize = 48;

/// Bodies up to here go the short way: none of them takes more than some milliseconds to read.
pub const SHORT_BODY: usize = 64 << 10;

/// Threads that read short bodies, and long ones. A long body takes up to a second: one at a time, so that what is built
/// from them is there once.
pub const READERS: [usize; 2] = [2, 1];

/// Short bodies and long ones that may wait to be read.
pub const UNREAD: [usize; 2] = [1024, 64];

/// Stack of a thread that reads: that of a main thread, for templates that recurse.
pub const READER_STACK: usize = 8 << 20;

/// Texts that one request may ask for, of all its prompts.
pub const TEXTS: usize = 128;

/// Choices of a prompt.
pub const CHOICES: i64 = 64;

/// Likeliest tokens that are listed.
pub const LOGPROBS: i64 = 1000;

/// Stop strings, and their bytes together: each text of a request has its own copy.
pub const STOPS: usize = 64;
/// See [`STOPS`].
pub const STOP_BYTES: usize = 16 << 10;

/// Tokens whose logits a request may move; each text has its own copy.
pub const BIASES: usize = 16_384;

/// Bytes of a name that comes back in every event: of a model, of a function.
pub const NAME_BYTES: usize = 256;

/// Bytes of a request's id that a client gives; a longer one is replaced.
pub const REQUEST_ID_BYTES: usize = 200;

/// Characters of an error's text, which may quote what was sent.
pub const ERROR_CHARACTERS: usize = 1000;

/// Bytes of an answer for which a token with its log-probability counts, in the object that is sent.
pub const SCORE_BYTES: usize = 1536;

/// Bytes that a client may leave unread before its answer is cut off.
pub const UNHEARD_BYTES: usize = 16 << 20;

/// The memory that all requests in flight take together.
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

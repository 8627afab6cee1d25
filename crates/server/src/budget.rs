//! What a request may take: its numbers, each with its reason. Numbers that a flag sets are its defaults.

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

/// Texts that end a passage for DRY: each is looked for in the whole vocabulary.
pub const BREAKERS_OF_A_REQUEST: usize = 16;

/// Unknown fields of requests that are named in the log.
pub const NAMED_FIELDS: usize = 100;

/// Bytes of a name that comes back in every event: of a model, of a function.
pub const NAME_BYTES: usize = 256;

/// Requests that may wait for models to be loaded.
pub const WAITING: usize = 256;

/// Models that are downloaded at a time.
pub const PULLS: usize = 4;

/// Between two lines about a download.
pub const PULL_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a request's id that a client gives; a longer one is replaced.
pub const REQUEST_ID_BYTES: usize = 200;

/// Characters of an error's text, which may quote what was sent.
pub const ERROR_CHARACTERS: usize = 1000;

/// Bytes of an answer for which a token with its log-probability counts, in the object that is sent.
pub const SCORE_BYTES: usize = 1536;

/// Bytes that a client may leave unread before its answer is cut off.
pub const UNHEARD_BYTES: usize = 16 << 20;

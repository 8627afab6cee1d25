//! What a grammar may take: every number in one place, with its reason.

use std::time::Duration;

/// Bytes of a grammar or a schema: published ones are of some 100s of kB at most.
pub const SOURCE_BYTES: usize = 1 << 20;

/// Bytes of the Lark text that a grammar or tools become: escapes make classes of characters up to eight times as long.
pub const LARK_BYTES: usize = 4 << 20;

/// Rules of a GBNF grammar: those of whole programming languages have some 300.
pub const RULES: usize = 2000;

/// Bytes of the name of a rule: errors repeat it.
pub const RULE_NAME_BYTES: usize = 200;

/// Groups within groups. Reading, printing and dropping recurse once for each: 2 MiB of stack hold 20 times as many.
pub const GROUP_DEPTH: usize = 100;

/// Counts (`{2,3}`) behind one part, one after the other. All other repeats behind each other become one.
pub const STACKED_COUNTS: usize = 8;

/// Values within values of a schema: what `serde_json` reads (128) without what goes around a schema.
pub const SCHEMA_DEPTH: usize = 100;

/// Processor time of a compile: a schema of 700 kB takes 0.6 s, what people write takes milliseconds.
pub const COMPILE_TIME: Duration = Duration::from_secs(5);

/// Time of a compile by the clock: it has the lowest priority, and a busy machine may leave it little.
pub const COMPILE_WAIT: Duration = Duration::from_secs(60);

/// Memory of a compile beside the vocabulary: a chain of 9,000 objects (half a megabyte) takes 140 MiB.
pub const COMPILE_MEMORY: u64 = 512 << 20;

/// Memory of one text under a grammar beside what it shares with the grammar: states of the lexer, some 1.5 kB each.
pub const TEXT_MEMORY: u64 = 128 << 20;

/// Stack of a compile, which recurses for each reference of a chain: 10,000 of them fit. Only what is used becomes memory.
pub const STACK: usize = 256 << 20;

/// Compiles at a time: one that takes its time must not keep all others waiting, and the processor has other work.
pub const COMPILING: usize = 2;

/// Compiles that wait for their turn. Each is a request and its source.
pub const WAITING: usize = 64;

/// Compiled grammars, in use or kept.
pub const COMPILED: usize = 24;

/// MiB that compiled grammars have together beside the vocabulary, in use or kept. Most have a few; two may be as large as
/// [`COMPILE_MEMORY`] allows.
pub const COMPILED_MIB: u32 = 1024;

/// Compiled grammars that are kept for the next request with the same source.
pub const KEPT: usize = 8;

/// MiB of a compiled grammar that is kept at most: what people write has one or two, and memory comes back after the rest.
pub const KEPT_MIB: u32 = 4;

/// Time of a mask, by the clock: what `llguidance` may do in a step takes some 20 ms, and the text waits beside others.
pub const MASK_WAIT: Duration = Duration::from_secs(1);

/// Time until the process that compiles has read the vocabulary: 150,000 tokens take 0.4 s.
pub const START_WAIT: Duration = Duration::from_secs(60);

/// Bytes of an error's text.
pub const ERROR_BYTES: usize = 300;

/// Work of `llguidance` for the first state of the lexer: its default, twice what the FHIR schema takes.
pub const LEXER_FUEL: u64 = 1_000_000;

/// Work of `llguidance` for the lexer of one mask: some 14 ms.
pub const STEP_FUEL: u64 = 200_000;

/// Items of `llguidance`'s parser for one mask: some 3 ms.
pub const STEP_ITEMS: usize = 50_000;

/// States of the lexer of one text: at 1 to 2 kB each they fit into [`TEXT_MEMORY`].
pub const LEXER_STATES: usize = 50_000;

/// Symbols of a grammar, as `llguidance` has it by default: the FHIR schema has 200,000.
pub const SYMBOLS: usize = 500_000;

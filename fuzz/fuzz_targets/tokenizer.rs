//! Any bytes as a vocabulary and a text.

#![no_main]

#[path = "../../crates/text/tests/exercise_tokenizer/mod.rs"]
mod exercise_tokenizer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = exercise_tokenizer::exercise(bytes);
});

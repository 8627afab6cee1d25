//! Any bytes as a chat template and messages.

#![no_main]

#[path = "../../crates/model/tests/exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = exercise::exercise(bytes);
});

//! Any bytes as a chat template and messages.

#![no_main]

#[path = "../../crates/text/tests/exercise_template/mod.rs"]
mod exercise_template;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = exercise_template::exercise(bytes);
});

//! Any bytes as a GGUF file: reading it must end in a typed error or in a file whose every part can be used.

#![no_main]

#[path = "../../crates/gguf/tests/exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = exercise::exercise(bytes.to_vec());
});

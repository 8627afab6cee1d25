//! Any bytes as the body of a request.

#![no_main]

#[path = "../../crates/server/tests/exercise/mod.rs"]
mod exercise;

use server::grammar::Isolation;
use std::sync::OnceLock;

static SERVER: OnceLock<exercise::Exercise> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = SERVER.get_or_init(|| exercise::Exercise::new(Isolation::Here)).ask(bytes);
});

//! Any bytes as a grammar or a schema, as they are or made into one that nests, chains and repeats. The first half of a
//! run is ours and is seen by the fuzzer; `llguidance` compiles, masks and drops in processes with limits, which are this
//! program again.

#![no_main]

#[path = "../../crates/server/tests/exercise/mod.rs"]
mod exercise;

use exercise::Exercise;
use server::grammar::{Isolation, Program, fork_server};
use std::sync::OnceLock;

static SERVER: OnceLock<Exercise> = OnceLock::new();

/// Parts of what is made at most: some 64 KiB of source.
const SCALE: usize = 16_000;

fn init() {
    if std::env::args().nth(1).is_some_and(|word| word == fork_server::COMMAND) {
        let _ = fork_server::main();
        std::process::exit(0);
    }
}

libfuzzer_sys::fuzz_target!(init: init(), |bytes: &[u8]| {
    let isolated = || Exercise::isolated(Exercise::everything(), Isolation::Processes(Program::this().expect("this program")));
    let status = SERVER.get_or_init(isolated).ask_grammar(bytes, SCALE);
    assert!(matches!(status, None | Some(200 | 400 | 413)), "{status:?}");
});

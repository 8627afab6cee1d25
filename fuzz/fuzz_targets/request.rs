//! Any bytes as the body of a request, or as choices of what a request is made of. Grammars have processes of their own,
//! which are this program again.

#![no_main]

#[path = "../../crates/server/tests/exercise/mod.rs"]
mod exercise;

use exercise::Exercise;
use server::grammar::{Isolation, Program, fork_server};
use std::sync::OnceLock;

static SERVER: OnceLock<Exercise> = OnceLock::new();

fn init() {
    if std::env::args().nth(1).is_some_and(|word| word == fork_server::COMMAND) {
        let _ = fork_server::main();
        std::process::exit(0);
    }
}

libfuzzer_sys::fuzz_target!(init: init(), |bytes: &[u8]| {
    let isolated = || Exercise::isolated(Exercise::everything(), Isolation::Processes(Program::this().expect("this program")));
    let _ = SERVER.get_or_init(isolated).ask(bytes);
});

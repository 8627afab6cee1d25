//! All tests of this crate but those that count allocations of the whole program, measure time or need another atomic.

#[path = "../../compiler/tests/support/mod.rs"]
mod cases;
#[path = "support/run.rs"]
mod run;
mod standalone;
mod support;

mod examples;
mod functions;
mod graphs;
mod interpreter;
mod levels;
mod objects;
mod stop;

//! All tests of this crate but those that count allocations of the whole program, measure time or need another atomic.

#[path = "support/run.rs"]
mod run;
mod support;

mod every_device;
mod examples;
mod functions;
mod graphs;
mod interpreter;
mod levels;
mod objects;
mod stop;

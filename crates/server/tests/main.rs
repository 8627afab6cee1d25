//! All tests of this crate but those that count allocations of the whole program, and those that are started again for
//! grammars.

mod exercise;

mod corpus;
mod ollama;
mod page;
mod requests;
mod rerank;
mod shelf;
mod text;

//! All tests of this crate.

use testkit::cases as support;

mod choice;
mod formats;
mod fuzz_graphs;
mod gpu;
mod interpreter;
mod invented_model;
mod prefetches;
mod product;
mod random_plans;
mod streams;

/// A compiler allocates much, and these tests compile for minutes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

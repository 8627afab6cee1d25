//! All tests of this crate but those that count allocations of the whole program.

mod support;

mod batching;
mod choice;
mod context;
mod expert_tiles;
mod families;
mod features;
mod fuse;
mod gpu;
mod gpu_shapes;
mod hostile_metadata;
mod importance;
mod index;
mod kernels;
mod long_context;
mod nvrtc;
mod paths;
mod poison;
mod positions;
mod prefill_attention;
mod program_cache;
mod published;
mod quantize;
mod ragged;
mod random_steps;
mod recurrence;
mod sampling;
mod sass;
mod small_types;
mod snapshots;
mod spill;
mod stages;
mod stand_in;
mod switches;
mod synth;
mod threads;
mod tune;
mod window;
mod window_pages;

/// A compiler allocates much, and these tests compile for minutes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

//! The model room: configuration, layers, the engine that runs sequences.

pub mod batch;
pub mod cache;
pub mod config;
pub mod engine;
pub mod error;
mod expert_tiles;
pub mod generate;
pub mod kernel_marks;
pub mod median;
pub mod memory_plan;
mod mix;
pub mod pages;
pub mod perplexity;
mod prefault;
pub mod prefill_attention;
mod program_cache;
pub mod quantize;
pub mod random;
pub mod sampling;
pub mod scheduler;
pub mod sequence;
pub mod step;
pub mod steps;
pub mod synth;
pub mod tune;
pub mod unused_tensors;
pub mod weights;

//! The model room: configuration, layers, the engine that runs sequences.

pub mod batch;
pub mod cache;
pub mod config;
pub mod engine;
pub mod generate;
mod kept;
pub mod kernel_marks;
pub mod median;
mod mix;
pub mod pages;
pub mod perplexity;
pub mod plan;
pub mod quantize;
pub mod random;
pub mod runs;
pub mod scheduler;
pub mod step;
pub mod steps;
pub mod synth;
mod tiles;
pub mod tune;
pub mod unread;
mod warm;
pub mod weights;

//! The model room: configuration, text in and out, layers, the engine that runs sequences.

pub mod config;
pub mod engine;
pub mod step;
pub mod synth;
pub mod weights;

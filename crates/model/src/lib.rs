//! The model room: configuration, text in and out, layers, the engine that runs sequences.

pub mod chat;
pub mod config;
pub mod engine;
pub mod sampler;
pub mod step;
pub mod synth;
pub mod tokenizer;
pub mod weights;

//! The model room: configuration, text in and out, layers, the engine that runs sequences.

pub mod chat;
pub mod sampler;
pub mod tokenizer;

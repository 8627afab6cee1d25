//! The model room: configuration, text in and out, layers, the engine that runs sequences.

pub mod chat;
pub mod config;
pub mod engine;
pub mod generate;
pub mod interpreter;
pub mod perplexity;
pub mod plan;
pub mod sampler;
pub mod step;
pub mod steps;
pub mod synth;
pub mod tokenizer;
pub mod vocabulary;
pub mod weights;

//! The model room: configuration, text in and out, layers, the engine that runs sequences.

pub mod batch;
pub mod cache;
pub mod chat;
pub mod config;
pub mod engine;
pub mod generate;
mod kept;
pub mod median;
mod mix;
pub mod pages;
pub mod perplexity;
pub mod plan;
pub mod quantize;
pub mod random;
pub mod runs;
pub mod sampler;
pub mod scheduler;
pub mod step;
pub mod steps;
pub mod synth;
mod tiles;
pub mod tokenizer;
pub mod tune;
pub mod unread;
pub mod vocabulary;
mod warm;
pub mod weights;

//! Text in and out of a model: conversations to prompts, prompts to tokens, logits to tokens, tokens to text and messages.
//!
//! Nothing here knows how logits come about: neither graphs nor devices.

pub mod chat;
pub mod fill;
pub mod rank;
pub mod sampler;
pub mod synth;
pub mod tokenizer;
pub mod vocabulary;

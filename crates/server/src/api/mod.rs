//! The routes, one file or folder an API.

pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod generation_settings;
pub mod info;
pub mod messages;
pub mod native;
pub mod ollama;
pub mod prompt;
pub mod rerank;
pub mod responses;
pub mod usage;

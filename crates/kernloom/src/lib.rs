//! Runs quantised language models from GGUF files, with kernels that are generated for each of them.
//!
//! ```no_run
//! use kernloom::Engine;
//!
//! fn main() -> Result<(), kernloom::Error> {
//!     let mut engine = Engine::builder("model.gguf").context(4096).build()?;
//!     let mut chat = engine.chat().system("You are a storyteller.");
//!     for text in chat.say("Tell me a story about a fox.")? {
//!         print!("{}", text?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! - [`Engine`]: an open model; made by a [`Builder`].
//! - [`Chat`]: a conversation in the model's own format, with tools and reasoning.
//! - [`Reply`]: what the model says, as an iterator over pieces of text.
//! - [`Engine::embed`]: vectors of texts, and [`Engine::rank`]: how well documents fit a query.
//!
//! One engine runs one sequence at a time and remembers what it computed, so that the next turn of a conversation costs
//! only what is new. For many sequences at once, `kernloom serve` and the crates below.
//!
//! An NVIDIA card runs the model if there is one that it fits on, else the processor ([`Builder::device`]). Kernels are
//! compiled when they are first needed, by the system's C compiler or by NVRTC, and kept on disk.
//!
//! What is here is a thin layer. [`model`] has the parts: engines, schedulers, samplers, tokenizers, chat templates;
//! [`gguf`] reads and writes files; [`compiler`] turns tensor code into kernels, which [`device`] runs.

#![forbid(unsafe_code)]

mod builder;
mod chat;
mod engine;
mod error;
mod reply;

pub use builder::Builder;
pub use chat::Chat;
pub use engine::Engine;
pub use error::Error;
pub use reply::Reply;

pub use compiler::{self, Numerics};
pub use device;
pub use devices::{self, Choice as Device};
pub use gguf;
pub use ir;
pub use model;
pub use model::cache::CacheKind;
pub use model::config::Pooling;
pub use model::generate::Timing;
pub use model::sequence::Finish;
pub use text::chat::{ChatTemplate, ToolCall};
pub use text::sampler::SamplerConfig;
pub use text::tokenizer::Tokenizer;

/// Code in the guides is compiled and run as tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/write-a-model.md")]
    struct WriteAModel;
    #[doc = include_str!("../../../docs/add-a-format.md")]
    struct AddAFormat;
    #[doc = include_str!("../../../docs/add-a-device.md")]
    struct AddADevice;
}

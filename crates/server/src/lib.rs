//! The HTTP API: what OpenAI's, Anthropic's, Ollama's and llama-server's clients expect, over the scheduler of `model`.
//!
//! A request goes through [`router`] (ids, keys, and with [`origin`] who may ask), its [`body`] arrives ([`arrival`]) within
//! a [`budget`] and is charged to the [`memory`] of all, is understood on threads of the [`background`] by a file of [`api`]
//! with the help of [`settings`] and [`fields`], becomes one or more sequences ([`speech`]), and is answered as an object or
//! as a stream ([`stream`]); its [`account`] says what it did. [`page`] is the chat page. The models that are loaded lie on a
//! [`shelf`], which a [`loader`] fills; files of models come and go through a [`library`], in [`pulls`]. [`run()`] is a whole server with
//! signals; [`router::router`] is for whoever has a server already.
//!
//! Nothing here knows of tensors, and the engine knows nothing of HTTP: between them are tokens and a sink for events.

pub mod account;
pub mod api;
pub mod app;
pub mod arrival;
pub mod background;
pub mod body;
pub mod budget;
pub mod early;
pub mod error;
pub mod facts;
pub mod fields;
pub mod gbnf;
pub mod grammar;
pub mod library;
pub mod loader;
pub mod memory;
pub mod metrics;
pub mod origin;
pub mod page;
pub mod pulls;
pub mod router;
pub mod run;
pub mod schema;
pub mod served;
pub mod settings;
pub mod shelf;
pub mod speech;
pub mod stream;
mod system;
pub mod tool_schema;
pub mod tools;
pub mod trace;
pub mod unread;

pub use app::{App, Options};
pub use facts::Facts;
pub use library::Library;
pub use loader::Loader;
pub use metrics::Compat;
pub use run::{ServeError, check, run};
pub use served::{Defaults, Model};
pub use shelf::{Bounds, Stay};

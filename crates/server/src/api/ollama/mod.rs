//! Ollama's API: `/api/*`, streams of JSON lines, errors as `{"error": "..."}`.
//!
//! Requests of [`chat`] and [`generate`] are read with [`options`], [`mod@format`], [`think`] and [`keep_alive`], and answered by
//! [`reply`]; [`embed`] makes vectors; [`models`] says what there is, and [`manage`] lets models come and go.

pub mod chat;
pub mod embed;
pub mod format;
pub mod generate;
pub mod keep_alive;
mod line;
pub mod manage;
pub mod models;
pub mod options;
pub mod reply;
pub mod think;

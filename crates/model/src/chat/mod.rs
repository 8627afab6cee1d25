//! Chat.
mod jinja;

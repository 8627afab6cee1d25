//! Source text of kernels.
//!
//! `family` is what languages that look like C share; a language is a file beside it.

pub mod c;
pub mod cuda;
pub(crate) mod family;
mod invariant;
mod rounds;
pub mod wgsl;

pub use family::Unwritable;

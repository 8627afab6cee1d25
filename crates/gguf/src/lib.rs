//! GGUF files and the quantised formats in them.
//!
//! - [`format`](mod@format): quantised block formats as data, with their reference [`dequant`]iser.
//! - [`GgmlType`]: the element types that a file can name.

pub mod dequant;
pub mod format;
mod ggml_type;

pub use ggml_type::{GgmlType, REMOVED_IDS};

//! GGUF files and the quantised formats in them.
//!
//! - [`Gguf`]: an open model (one file or a split set), mapped and checked: metadata, tensors, data.
//! - [`Writer`]: writes such files, streaming, by way of a [`Partial`] file.
//! - [`format`](mod@format): quantised block formats as data, with their reference [`dequant`]iser
//!   and [`quantise`]rs; [`ternary`] is one that no row describes.
//! - [`GgmlType`]: the element types that a file can name.
//! - [`plain`]: what makes text of files, and any other from outside, safe to repeat.

#![deny(unsafe_code)]

mod cursor;
pub mod dequant;
mod error;
pub mod format;
mod ggml_type;
mod metadata;
#[allow(unsafe_code)]
mod mmap;
mod partial;
pub mod plain;
pub mod quantise;
mod reader;
mod shard;
mod split;
pub mod ternary;
mod value;
mod value_buf;
mod writer;

pub use error::Error;
pub use ggml_type::{GgmlType, REMOVED_IDS};
pub use metadata::{FromValue, Metadata};
pub use mmap::SLACK;
pub use partial::Partial;
pub use reader::{Gguf, OpenOptions};
pub use shard::{DEFAULT_ALIGNMENT, Tensor};
pub use value::{Array, Strings, Value, ValueType};
pub use value_buf::{Element, ValueBuf};
pub use writer::{WriteError, Writer};

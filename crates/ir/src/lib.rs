//! The one intermediate representation of Kernloom.
//!
//! A [`Graph`] holds immutable, hash-consed nodes: two nodes with the same
//! operation, type, shape and sources are the same [`Id`], so equality of
//! programs is equality of ids. Three vocabularies share it (see [`Op`]):
//! tensors (what a model is written in), kernels (loops, loads, stores and
//! accumulators), and the index algebra that both use.
//!
//! What this crate cannot do: it knows nothing of models or devices, and
//! decides nothing about fusion or tiling. That is `compiler`.

mod custom;
mod dtype;
mod fold;
mod graph;
pub mod index;
pub mod interp;
mod op;
pub mod owners;
pub mod print;
pub mod rewrite;
pub mod spec;
pub mod walk;

pub use custom::{CustomSource, Language};
pub use dtype::{DType, Type};
pub use fold::Recurrence;
pub use graph::{FormatId, Graph, Id, Node, Scope};
pub use op::{Axis, BinOp, Const, FRAGMENT_LANES, Op, PRODUCT, Part, ReduceOp, Space, UnOp};

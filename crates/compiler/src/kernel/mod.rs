//! What kernels of every target are made with.
//!
//! `emitter` writes statements, `sums` loops that sum up, `expression` asks and answers about expressions,
//! [`superword`] makes vectors of equal expressions in a `lane_order`, `transpose` turns squares of them,
//! `dot_pattern` finds what block formats come to, `places` says where scratch lies, and a [`body`] is what comes out.

pub mod body;
pub(crate) mod dot_pattern;
pub(crate) mod emitter;
pub(crate) mod expression;
pub(crate) mod lane_order;
pub(crate) mod places;
mod sums;
pub mod superword;
pub(crate) mod transpose;

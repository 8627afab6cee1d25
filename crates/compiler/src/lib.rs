//! The compiler: from tensor code to a program of fused kernels.
//!
//! [`tensor`] records what to compute; [`mod@compile`] lists the passes in order;
//! [`rules`] are the rewrites; [`classify`], [`axes`] and [`schedule`] decide
//! what is computed together; [`lower`] turns each kernel into loops over the
//! index algebra; [`tile`], [`slp`] and [`dot`] choose lanes and accumulators;
//! [`render_c`] writes C; [`memory`] lays out buffers; [`program`] is the result.

pub mod axes;
pub mod classify;
pub mod compile;
pub mod dot;
pub mod lower;
pub mod memory;
pub mod program;
pub mod render_c;
pub mod rules;
pub mod schedule;
pub mod slp;
pub mod tensor;
pub mod tile;

pub use compile::{CompileError, Compiled, Numerics, Options, compile};
pub use tensor::{Builder, Dim, Tensor};

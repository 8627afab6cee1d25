//! The compiler: from tensor code to a program of fused kernels.
//!
//! [`tensor`] records what to compute; [`mod@compile`] lists the passes in order;
//! [`mod@choice`] takes one of several alternatives; [`rules`] are the rewrites; [`classify`], [`axes`] and [`schedule`] decide
//! what is computed together; [`lower`] turns each kernel into loops over the
//! index algebra; [`tile`], [`slp`], [`dot`] and `matmul` choose lanes and
//! accumulators; [`gpu`] does the same for blocks of threads; [`render_c`] writes
//! C and [`render_cuda`] CUDA; [`tuned`] holds plans that a search has found; [`memory`] lays out buffers; [`products`]
//! says which path each matrix product took; [`program`] is the result, and `reads` says what it reads for reports.
//! [`mod@switches`] lists what can be left out by name.

pub mod axes;
mod check;
pub mod choice;
pub mod classify;
pub mod compile;
pub mod dot;
mod exchange;
mod fours;
pub mod gpu;
mod halves;
pub mod lower;
mod matmul;
pub mod memory;
mod price;
mod product;
pub mod products;
pub mod program;
mod reads;
pub mod render_c;
pub mod render_cuda;
pub mod rules;
pub mod schedule;
mod shared;
pub mod slp;
pub mod switches;
pub mod tensor;
pub mod tile;
mod transpose;
pub mod tuned;

pub use compile::{CompileError, Compiled, Cuts, Numerics, Options, compile};
pub use switches::{Switch, groups, pass_names, switches};
pub use tensor::{Builder, Dim, Tensor};
pub use tuned::{KernelKey, Setting, Tuned};

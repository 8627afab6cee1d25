//! The compiler: from tensor code to a program of fused kernels.
//!
//! | room | what lives there |
//! |---|---|
//! | [`tensor`] | records what to compute |
//! | [`mod@compile`] | the passes, in order: the page to read first |
//! | [`rewrite`] | rules, and which of several alternatives is taken, by price |
//! | [`schedule`] | what is computed together: roles, axes, groups, stages |
//! | [`lower`] | each kernel as loops over the index algebra |
//! | [`kernel`] | what kernels of all targets are made with: statements, expressions, vectors of equal expressions |
//! | [`cpu`] | lanes and accumulators of a core, with a path for each kind of sum |
//! | [`gpu`] | the same for blocks of threads |
//! | [`render`] | C, CUDA and WGSL |
//! | [`program`] | the result: kernels, launches, stages, the memory that they share, and what reports say of them |
//!
//! [`mod@switches`] lists what can be left out by name, and [`tuned`] has the plans of single kernels that a search has found.

mod check;
pub mod compile;
pub mod cpu;
pub mod error;
pub mod gpu;
pub mod kernel;
pub mod log;
pub mod lower;
mod machine;
pub mod options;
mod placement;
pub mod program;
pub mod render;
pub mod rewrite;
pub mod schedule;
pub mod switches;
mod target;
pub mod tensor;
pub mod tuned;

pub use compile::{Compiled, compile};
pub use error::CompileError;
pub use log::Log;
pub use options::{Cuts, Machine, Numerics, Options};
pub use switches::{Switch, groups, pass_names, switches};
pub use tensor::{Builder, Dim, Tensor};
pub use tuned::{KernelKey, Setting, Tuned};

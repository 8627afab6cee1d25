//! The interpreter: the oracle of every kernel and every rewrite.
//!
//! - [`tensor`] evaluates a tensor graph, operation by operation, on whole arrays.
//! - [`kernel`] runs a kernel, task by task, as bytecode on vectors of lanes.
//!
//! Both compute through one table of elementwise arithmetic (`lanes`), in the
//! type of each node: singles in single precision, integers wrapped. What it
//! cannot do: it knows no devices and no time, and runs on one thread.

mod array;
mod axis;
mod dequant;
mod expression;
pub mod kernel;
mod lanes;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod speed;
pub mod tensor;
#[cfg(test)]
mod tensor_tests;
mod vars;

pub use lanes::Fault;
pub(crate) use lanes::const_binary;
pub use tensor::{Bindings, EvalError, Tensor, evaluate};
pub use vars::{VarError, Vars};

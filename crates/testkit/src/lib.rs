//! What tests of several crates share. No program has any of it.
//!
//! - [`cases`]: programs with their data, run by the interpreters and compared; random graphs, plans for them.
//! - [`devices!`](crate::devices): the same cases as tests of every device.
//! - [`golden`]: tiny models beside the logits of a reference.
//! - [`local_hub`]: a hub of models on this machine, which can be told to misbehave.
//! - [`quick_compiler`]: the C compiler for tests of the program.
//! - [`standalone`]: compiled programs as one C program without a device.
#![allow(missing_docs)]

pub mod cases;
pub mod every_device;
pub mod golden;
pub mod local_hub;
pub mod quick_compiler;
pub mod standalone;

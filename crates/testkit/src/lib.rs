//! What tests of several crates share. No program has any of it.
//!
//! - [`cases`]: programs with their data, run by the interpreters and compared; random graphs, plans for them.
//! - [`standalone`]: compiled programs as one C program without a device.
#![allow(missing_docs)]

pub mod cases;
pub mod standalone;

//! All tests of this crate.

mod exercise;

mod container;
mod corpus;
mod formulas;
mod golden;
mod hostile;
mod planes;
mod quantise;

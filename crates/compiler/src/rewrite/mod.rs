//! Rewriting of tensors: rules that keep the meaning, and the choice among alternatives of equal meaning.

pub mod choice;
pub(crate) mod passes;
mod price;
pub mod rules;

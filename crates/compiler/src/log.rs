//! What a compilation decided, for people.

use crate::program::products::Product;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Decisions of a compilation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Log {
    /// Rewrites by rule.
    pub rules: Vec<(Cow<'static, str>, usize)>,
    /// Which alternatives were taken, and the prices of all.
    pub choices: Vec<String>,
    /// Why values were not fused.
    pub fusion: Vec<String>,
    /// The matrix products, in the order in which they run, and the paths that they took.
    pub products: Vec<Product>,
    /// Launches whose kernel was compiled before.
    pub hits: usize,
    /// Kernels that were compiled.
    pub misses: usize,
    /// Kernels that have a plan of their own.
    pub tuned: usize,
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, n) in &self.rules {
            writeln!(f, "rule {name}: {n}")?;
        }
        for note in self.choices.iter().chain(&self.fusion) {
            writeln!(f, "{note}")?;
        }
        for product in &self.products {
            writeln!(f, "{product}")?;
        }
        write!(f, "schedule cache: {} hits, {} misses; {} kernels tuned", self.hits, self.misses, self.tuned)
    }
}

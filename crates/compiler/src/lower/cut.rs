//! How the tasks of a kernel are cut out of its axes.

use std::hash::{DefaultHasher, Hash, Hasher};

/// How many steps of each axis a task takes, and how loops lie in each other.
pub struct Cut {
    /// Steps for each axis of the group.
    pub steps: Vec<i64>,
    /// Loops over tasks and over the elements of an item lie in each other as axes and dimensions follow; with a seed,
    /// by chance.
    pub order: Option<u64>,
}

/// A number by chance, from a seed and what it is for.
pub(crate) fn chance(seed: u64, what: impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    (seed, what).hash(&mut hash);
    hash.finish()
}

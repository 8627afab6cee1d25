//! A kernel after tiling.

use ir::Id;

/// A kernel ready for a renderer or the interpreter.
#[derive(Clone, Debug)]
pub struct Body {
    /// A block of statements, run once for each task.
    pub root: Id,
    /// Scratch buffers.
    pub stashes: Vec<Id>,
    /// Number of tasks.
    pub tasks: Id,
    /// How each item was computed, and what was made for it before.
    pub paths: Vec<&'static str>,
    /// The same, one for each item of the nest, in its order.
    pub ways: Vec<Way>,
}

/// How an item was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The path that it took.
    pub path: &'static str,
    /// Why it is no integer dot, where that was tried.
    pub no_dot: Option<&'static str>,
}

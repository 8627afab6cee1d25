//! A kernel after tiling.

use ir::{Graph, Id, Op, Space};

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

impl Body {
    /// Bytes of its scratch in a space, where each buffer begins at a multiple of `align`.
    pub(crate) fn bytes_in(&self, g: &Graph, space: Space, align: usize) -> usize {
        let bytes = |&stash: &Id| match *g.op(stash) {
            Op::Buffer { space: of, len, .. } if of == space => (len * g.dtype(stash).bytes()).next_multiple_of(align),
            _ => 0,
        };
        self.stashes.iter().map(bytes).sum()
    }
}

/// How an item was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The path that it took.
    pub path: &'static str,
    /// Why it is no integer dot, where that was tried.
    pub no_dot: Option<&'static str>,
}

//! Loops, loads and stores of a kernel before it is tiled, still scalar.

use ir::{Const, DType, Id, ReduceOp};

/// One value that is computed into memory: scratch or a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// Loops over its elements, outermost first.
    pub dims: Vec<Id>,
    /// What each element is; a `Reduce` at the root has its ranges as sources.
    pub value: Id,
    /// Where it goes.
    pub buffer: Id,
    /// At which element of the buffer.
    pub index: Id,
}

/// Items that run in order, perhaps inside a serial loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// The loop around them.
    pub serial: Option<Id>,
    /// In order.
    pub items: Vec<Item>,
}

/// A kernel before tiling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nest {
    /// In order.
    pub phases: Vec<Phase>,
    /// Number of tasks, an index expression.
    pub tasks: Id,
    /// Scratch buffers.
    pub stashes: Vec<Id>,
    /// Numbers below this are taken by ranges.
    pub ranges: u32,
    /// Whether anything that a task computes is read, where that is data; a task of which nothing is may do nothing.
    pub wanted: Option<Id>,
}

/// Identity of a reduction.
pub fn identity(op: ReduceOp, ty: DType) -> Const {
    match (op, ty.is_float()) {
        (ReduceOp::Sum, true) => Const::f32(0.0),
        (ReduceOp::Sum, false) => Const::Int(0),
        (ReduceOp::Max, true) => Const::f32(f32::NEG_INFINITY),
        (ReduceOp::Max, false) => Const::Int(ty.int_range().map_or(i64::MIN / 4, |r| r.0)),
    }
}

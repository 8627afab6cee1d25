//! Statements of a kernel, and the ranges, accumulators and scratch that they use: what tilers of all targets write with.

use crate::lower::{Item, Nest};
use ir::index::bounds;
use ir::{Axis, BinOp, DType, Graph, Id, Op, Space, Type};

/// Makes the parts of one kernel. `T` is what the paths of a target need to know while they write.
pub(crate) struct Emitter<T> {
    pub(crate) target: T,
    ranges: u32,
    accs: u32,
    stashes: Vec<Id>,
}

impl<T> Emitter<T> {
    /// For a kernel of this nest, with this scratch so far.
    pub(crate) fn new(target: T, nest: &Nest, stashes: Vec<Id>) -> Emitter<T> {
        Emitter { target, ranges: nest.ranges, accs: 0, stashes }
    }

    /// The same kernel, written with other knowledge.
    pub(crate) fn with<U>(self, target: U) -> Emitter<U> {
        Emitter { target, ranges: self.ranges, accs: self.accs, stashes: self.stashes }
    }

    /// The scratch of the kernel.
    pub(crate) fn into_stashes(self) -> Vec<Id> {
        self.stashes
    }

    /// A new range along an axis.
    pub(crate) fn range_of(&mut self, g: &mut Graph, axis: Axis, extent: Id) -> Id {
        self.ranges += 1;
        g.range(self.ranges - 1, axis, extent)
    }

    /// A new loop counter.
    pub(crate) fn range(&mut self, g: &mut Graph, extent: Id) -> Id {
        self.range_of(g, Axis::Loop, extent)
    }

    /// A new counter of `n` rounds.
    pub(crate) fn counted(&mut self, g: &mut Graph, n: i64) -> Id {
        let e = g.int(n);
        self.range(g, e)
    }

    /// A new counter of the rounds of `n` in an extent that is a multiple of it.
    pub(crate) fn rounds(&mut self, g: &mut Graph, extent: Id, n: i64) -> Id {
        let n = g.int(n);
        let count = g.binary(BinOp::Div, extent, n);
        self.range(g, count)
    }

    /// A new counter of the blocks of `n` that hold all of `extent`; the last may be partly empty.
    pub(crate) fn blocks_of(&mut self, g: &mut Graph, extent: Id, n: i64) -> Id {
        let (up, n) = (g.int(n - 1), g.int(n));
        let count = g.add(extent, up);
        let count = g.binary(BinOp::Div, count, n);
        self.range(g, count)
    }

    /// Rounds of a range at most.
    pub(crate) fn most(&self, g: &mut Graph, range: Id) -> i64 {
        let e = g.src(range)[0];
        bounds(g, e).1
    }

    /// A new accumulator.
    pub(crate) fn acc(&mut self, g: &mut Graph, ty: impl Into<Type>) -> Id {
        self.accs += 1;
        g.make(Op::Acc(self.accs - 1), ty, vec![], vec![])
    }

    /// New scratch of `len` elements.
    pub(crate) fn scratch(&mut self, g: &mut Graph, space: Space, ty: DType, len: usize) -> Id {
        let b = g.buffer(self.stashes.len() as u32, space, ty, len);
        self.stashes.push(b);
        b
    }

    /// What `f` makes; if it makes nothing, the scratch that it has reserved is given back.
    pub(crate) fn attempt<M>(&mut self, f: impl FnOnce(&mut Self) -> Option<M>) -> Option<M> {
        let reserved = self.stashes.len();
        let made = f(self);
        if made.is_none() {
            self.stashes.truncate(reserved);
        }
        made
    }

    /// Writes values to accumulators, all at once.
    pub(crate) fn set(&self, g: &mut Graph, pairs: Vec<(Id, Id)>) -> Id {
        let src = pairs.into_iter().flat_map(|(a, v)| [a, v]).collect();
        g.make(Op::Set, DType::Index, vec![], src)
    }

    /// A store, converted to what the buffer holds.
    pub(crate) fn store(&self, g: &mut Graph, buffer: Id, index: Id, value: Id) -> Id {
        self.store_if(g, buffer, index, value, None)
    }

    /// A store under a condition, or not.
    pub(crate) fn store_if(&self, g: &mut Graph, buffer: Id, index: Id, value: Id, condition: Option<Id>) -> Id {
        let want = g.dtype(buffer);
        let value = g.cast(value, want);
        let src = [buffer, index, value].into_iter().chain(condition).collect();
        g.make(Op::Store, DType::Index, vec![], src)
    }

    /// `body` inside loops over `dims`, the first one outermost.
    pub(crate) fn nest(&self, g: &mut Graph, dims: &[Id], body: Vec<Id>) -> Vec<Id> {
        dims.iter().rev().fold(body, |b, &d| vec![make_loop(g, d, b)])
    }

    /// `body` where a condition holds.
    pub(crate) fn only(&self, g: &mut Graph, condition: Option<Id>, body: Vec<Id>) -> Vec<Id> {
        let Some(c) = condition else { return body };
        vec![make_if(g, c, body)]
    }
}

/// The statements of all phases of a nest, where `next` writes those of the first of some items, or of several, and says of
/// how many.
pub(crate) fn phases(
    g: &mut Graph,
    nest: &Nest,
    mut next: impl FnMut(&mut Graph, &[Item], &mut Vec<Id>) -> usize,
) -> Vec<Id> {
    let mut all = vec![];
    for phase in &nest.phases {
        let (mut stmts, mut done) = (vec![], 0);
        while done < phase.items.len() {
            done += next(g, &phase.items[done..], &mut stmts);
        }
        match phase.serial {
            Some(r) => all.push(make_loop(g, r, stmts)),
            None => all.extend(stmts),
        }
    }
    all
}

/// `for range { .. }`.
pub(crate) fn make_loop(g: &mut Graph, range: Id, stmts: Vec<Id>) -> Id {
    g.make(Op::Loop, DType::Index, vec![], [vec![range], stmts].concat())
}

/// All threads of a block wait for each other, and all that they wrote is visible.
pub(crate) fn make_barrier(g: &mut Graph) -> Id {
    g.make(Op::Barrier { memory: true }, DType::Index, vec![], vec![])
}

/// Whether all threads of a block wait for each other in this statement.
pub(crate) fn is_barrier(g: &Graph, statement: Id) -> bool {
    matches!(g.op(statement), Op::Barrier { .. })
}

/// `if condition { .. }`.
pub(crate) fn make_if(g: &mut Graph, condition: Id, stmts: Vec<Id>) -> Id {
    g.make(Op::If, DType::Index, vec![], [vec![condition], stmts].concat())
}

/// Statements one after another.
pub(crate) fn block(g: &mut Graph, stmts: Vec<Id>) -> Id {
    g.make(Op::Block, DType::Index, vec![], stmts)
}

/// `plain` if there are fewer than `few` tokens, else `many`; nothing where there are no statements.
pub(crate) fn few_or_many(g: &mut Graph, tokens: Id, few: i64, plain: Vec<Id>, many: Vec<Id>) -> Vec<Id> {
    let (fewer, last) = (g.int(few), g.int(few - 1));
    [(tokens, fewer, plain), (last, tokens, many)]
        .into_iter()
        .filter(|(.., body)| !body.is_empty())
        .map(|(less, more, body)| {
            let condition = g.binary(BinOp::Lt, less, more);
            make_if(g, condition, body)
        })
        .collect()
}

//! Questions about expressions of a kernel, and small expressions that several paths need.

use crate::kernel::superword::splat;
use crate::lower::Item;
pub(crate) use ir::walk::terms;

use ir::index::Linear;
use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp, Type, walk};
use rustc_hash::FxHashMap;

/// `expr` with one range replaced.
pub(crate) fn replace(g: &mut Graph, expr: Id, range: Id, by: Id) -> Id {
    let mut m = FxHashMap::default();
    m.insert(range, by);
    g.substitute(expr, &mut m)
}

/// Whether an expression changes with a range.
pub(crate) fn depends(g: &Graph, expr: Id, range: Id) -> bool {
    // What is older than the range cannot need it.
    walk::any([expr], |e, more| {
        more.extend(g.src(e).iter().filter(|s| s.0 >= range.0));
        e == range
    })
}

pub(crate) fn collect_loads(g: &Graph, expr: Id, out: &mut Vec<Id>) {
    walk::reach([expr], |e, more| {
        if *g.op(e) == Op::Load {
            out.push(e);
        }
        more.extend(g.src(e));
    });
}

/// The loads of an expression that say no other's place.
pub(crate) fn outermost_loads(g: &Graph, expr: Id) -> Vec<Id> {
    let mut all = vec![];
    walk::reach([expr], |e, more| match g.op(e) {
        Op::Load => all.push(e),
        _ => more.extend(g.src(e)),
    });
    all
}

/// What an expression loads by itself, and not for the extents of the loops that it is in.
pub(crate) fn loads_in(g: &Graph, expr: Id) -> Vec<Id> {
    let mut all = vec![];
    walk::reach([expr], |e, more| {
        if matches!(g.op(e), Op::Range(..)) {
            return;
        }
        if *g.op(e) == Op::Load {
            all.push(e);
        }
        more.extend(g.src(e));
    });
    all
}

/// The loops that an expression is in, each as what stands for itself: what else is replaced leaves them alone.
pub(crate) fn loops_of(g: &Graph, expr: Id) -> FxHashMap<Id, Id> {
    g.toposort(&[expr]).into_iter().filter(|&e| matches!(g.op(e), Op::Range(..))).map(|e| (e, e)).collect()
}

/// What an item loads: for its value, its index and the extents of its dimensions.
pub(crate) fn loads_of(g: &Graph, item: &Item) -> Vec<Id> {
    let mut loads = vec![];
    [item.value, item.index].iter().chain(&item.dims).for_each(|&e| collect_loads(g, e, &mut loads));
    loads
}

/// Whether an item reads a buffer.
pub(crate) fn reads(g: &Graph, item: &Item, buffer: Id) -> bool {
    loads_of(g, item).iter().any(|&load| g.src(load)[0] == buffer)
}

pub(crate) fn find_reductions(g: &Graph, expr: Id, out: &mut Vec<Id>) {
    walk::reach([expr], |e, more| match g.op(e) {
        Op::Reduce(..) => out.push(e),
        _ => more.extend(g.src(e)),
    });
    out.sort_unstable();
}

pub(crate) fn has_reduction(g: &Graph, expr: Id) -> bool {
    let mut found = vec![];
    find_reductions(g, expr, &mut found);
    !found.is_empty()
}

pub(crate) fn combine(g: &mut Graph, op: ReduceOp, a: Id, b: Id) -> Id {
    g.binary(if op == ReduceOp::Sum { BinOp::Add } else { BinOp::Max }, a, b)
}

/// A zero of a type.
pub(crate) fn zero(g: &mut Graph, ty: Type) -> Id {
    let c = if ty.base.is_float() { Const::f32(0.0) } else { Const::Int(0) };
    let z = g.constant(c, ty.base);
    splat(g, z, ty.lanes as usize)
}

/// `at`, or the last index of a dimension if that is past its end.
pub(crate) fn or_last(g: &mut Graph, at: Id, dim: Id) -> Id {
    let one = g.int(1);
    let last = g.sub(g.src(dim)[0], one);
    g.binary(BinOp::Min, at, last)
}

/// An index at `range = r * n`, if it grows by one with the range.
pub(crate) fn first_lane(g: &mut Graph, index: Id, range: Id, r: Id, n: i64) -> Option<Id> {
    let lin = Linear::of(g, index);
    if lin.coefficient(range) != 1 || lin.terms.iter().any(|t| t.0 != range && depends(g, t.0, range)) {
        return None;
    }
    let k = g.int(n);
    let at = g.mul(r, k);
    Some(replace(g, index, range, at))
}

/// Whether an expression divides or takes the remainder of a loop counter, so
/// that its addresses are not steps of it.
pub(crate) fn divides(g: &Graph, e: Id, range: Id) -> bool {
    walk::any([e], |e, more| {
        let moves = depends(g, e, range);
        if moves {
            more.extend(g.src(e));
        }
        moves && matches!(g.op(e), Op::Binary(BinOp::Div | BinOp::Mod)) && g.dtype(e) == DType::Index
    })
}

/// All of `id` combined by `op`; `None` of nothing.
pub(crate) fn combined(g: &mut Graph, op: BinOp, all: &[Id]) -> Option<Id> {
    let (&first, others) = all.split_first()?;
    Some(others.iter().fold(first, |a, &b| g.binary(op, a, b)))
}

/// Whether a buffer is scratch.
pub(crate) fn is_scratch(g: &Graph, buffer: Id) -> bool {
    matches!(g.op(buffer), Op::Buffer { space, .. } if space.is_scratch())
}

/// Whether an expression reads scratch.
pub(crate) fn reads_scratch(g: &Graph, value: Id) -> bool {
    let mut loads = vec![];
    collect_loads(g, value, &mut loads);
    loads.iter().any(|&l| !outside(g, l))
}

/// Whether a load is not of scratch.
pub(crate) fn outside(g: &Graph, load: Id) -> bool {
    !is_scratch(g, g.src(load)[0])
}

/// `op(a, n)`.
pub(crate) fn by(g: &mut Graph, op: BinOp, a: Id, n: i64) -> Id {
    let n = g.int(n);
    g.binary(op, a, n)
}

//! Values under movement: reshapes, repetitions and gathers that keep the last dimension whole.

use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp};

/// The factors of a sum of products along the last dimension.
pub(super) fn products_along_last(g: &Graph, id: Id) -> Option<(Id, Id)> {
    let Op::Reduce(ReduceOp::Sum, axes) = g.op(id) else { return None };
    let body = g.src(id)[0];
    let along_last = axes[..] == [g.shape(body).len() - 1] && *g.op(body) == Op::Binary(BinOp::Mul);
    along_last.then(|| (g.src(body)[0], g.src(body)[1]))
}

/// The chain of reshapes and expansions above a value whose last dimension
/// stays the last one, and the value under it.
pub(super) fn under_movement(g: &Graph, id: Id) -> (Vec<Id>, Id) {
    let mut chain = vec![];
    let mut at = id;
    while matches!(g.op(at), Op::Reshape | Op::Expand | Op::Prefix(_) | Op::Gather) {
        let s = g.src(at)[0];
        if g.shape(s).len() < 2 {
            break;
        }
        match (g.shape(at).last(), g.shape(s).last()) {
            (Some(a), Some(b)) if a == b => {}
            _ => break,
        }
        chain.push(at);
        at = s;
    }
    (chain, at)
}

/// Repeats a chain of [`under_movement`] over a value with another last
/// dimension.
pub(super) fn replay(g: &mut Graph, chain: &[Id], leaf: Id) -> Id {
    let mut at = leaf;
    for &link in chain.iter().rev() {
        let mut shape = g.shape(link).to_vec();
        *shape.last_mut().unwrap() = *g.shape(at).last().unwrap();
        at = match g.op(link) {
            Op::Reshape => g.reshape(at, shape),
            Op::Gather => g.gather(at, g.src(link)[1]),
            Op::Prefix(_) => {
                let (ty, counts) = (g.ty(at), g.src(link)[1]);
                g.make(g.op(link).clone(), ty, shape, vec![at, counts])
            }
            _ => g.expand(at, shape),
        };
    }
    at
}

/// `u` with its last dimension of length 1, if `id` repeats it along the last.
pub(super) fn constant_along_last(g: &Graph, id: Id) -> Option<Id> {
    if *g.op(id) != Op::Expand {
        return None;
    }
    let s = g.src(id)[0];
    let last = *g.shape(s).last()?;
    let same_elsewhere = g.shape(s).iter().zip(g.shape(id)).rev().skip(1).all(|(a, b)| a == b);
    (g.as_int(last) == Some(1) && same_elsewhere).then_some(s)
}

/// Each element along the last dimension so many times.
pub(super) fn repeated_along_last(g: &mut Graph, t: Id, times: i64) -> Id {
    let mut shape = g.shape(t).to_vec();
    let last = shape.len() - 1;
    let length = g.as_int(shape[last]).expect("a known length");
    shape.push(g.int(1));
    let t = g.reshape(t, shape.clone());
    shape[last + 1] = g.int(times);
    let t = g.expand(t, shape.clone());
    shape.pop();
    shape[last] = g.int(length * times);
    g.reshape(t, shape)
}

/// A constant in this shape.
pub(super) fn fill(g: &mut Graph, value: Const, ty: DType, shape: &[Id]) -> Id {
    let c = g.constant(value, ty);
    let one = g.int(1);
    let c = g.reshape(c, vec![one; shape.len()]);
    g.expand(c, shape.to_vec())
}

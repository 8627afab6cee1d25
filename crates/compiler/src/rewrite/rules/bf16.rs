//! Weights of 16 bits and what they are multiplied with as bf16 numbers.

use crate::rewrite::rules::movement::{products_along_last, replay, under_movement};
use ir::rewrite::{Kind, Rule};
use ir::{DType, Graph, Id, Op, ReduceOp, walk};

/// Rounds weights of 16 bits, and their input, to bf16 for sums of products along rows: what a GPU multiplies at once where
/// there are many tokens. Weights of more bits are so on purpose: they choose experts.
pub const BF16: Rule = Rule { name: "bf16", kind: Kind::Reassociating, apply: bf16 };

/// Elements that are multiplied at once.
const WHOLE: i64 = 16;

fn bf16(g: &mut Graph, id: Id) -> Option<Id> {
    let (a, b) = products_along_last(g, id)?;
    let last = g.shape(a).len() - 1;
    let (w, x) = if is_weights(g, a) { (a, b) } else { (b, a) };
    let (chain, leaf) = under_movement(g, x);
    let whole = g.as_int(g.shape(a)[last])? % WHOLE == 0;
    if !whole || !is_weights(g, w) || chain.is_empty() || is_weights(g, leaf) || g.dtype(leaf) != DType::F32 {
        return None;
    }
    let mut rounded = g.cast(leaf, DType::BF16);
    // What is read by a sum where it lies is rounded there each time; what was computed is rounded once.
    if !is_computed(g, leaf) {
        let (ty, shape) = (g.ty(rounded), g.shape(rounded).to_vec());
        rounded = g.make(Op::Fence, ty, shape, vec![rounded]);
    }
    let (x, w) = (replay(g, &chain, rounded), rounded_below(g, w));
    let (w, x) = (g.cast(w, DType::F32), g.cast(x, DType::F32));
    let product = g.mul(w, x);
    Some(g.reduce(ReduceOp::Sum, product, vec![last]))
}

/// Whether a value is rows of weights of 16 bits, as floats.
fn is_weights(g: &Graph, id: Id) -> bool {
    match g.op(id) {
        Op::Cast => matches!(g.op(g.src(id)[0]), Op::Param { .. }) && g.dtype(g.src(id)[0]).bytes() == 2,
        // Rows stay whole.
        Op::Permute(p) if p.last() != Some(&(p.len() - 1)) => false,
        Op::Reshape | Op::Expand | Op::Slice { .. } | Op::Permute(_) | Op::Gather => is_weights(g, g.src(id)[0]),
        _ => false,
    }
}

/// Weights as bf16 numbers, below what moves them.
fn rounded_below(g: &mut Graph, id: Id) -> Id {
    let n = g.node(id).clone();
    match n.op {
        Op::Cast if g.dtype(n.src[0]) == DType::BF16 => n.src[0],
        Op::Cast => g.cast(n.src[0], DType::BF16),
        _ => {
            let mut src = n.src;
            src[0] = rounded_below(g, src[0]);
            g.make(n.op, DType::BF16, n.shape, src)
        }
    }
}

/// Whether a value is more than renamed, chosen and scaled elements of tensors and states.
fn is_computed(g: &Graph, id: Id) -> bool {
    let found = walk::try_reach([id], |id, more| match g.op(id) {
        Op::Reduce(..) | Op::Unary(_) | Op::Fold { .. } | Op::Scan(_) | Op::TopK(_) | Op::Fence => Err(()),
        Op::Scatter => Ok(()),
        Op::Gather => {
            more.push(g.src(id)[0]);
            Ok(())
        }
        _ => {
            more.extend(g.src(id));
            Ok(())
        }
    });
    found.is_err()
}

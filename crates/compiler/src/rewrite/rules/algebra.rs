//! Algebra of floats: neutral elements, factors of sums, and sums in parts.

use crate::rewrite::rules::Rule;
use crate::rewrite::rules::integer_dots::ACTIVATION_BLOCK;
use crate::rewrite::rules::movement::{constant_along_last, replay, under_movement};
use ir::rewrite::Kind;
use ir::walk::terms;
use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp};

/// Removes arithmetic with neutral elements.
pub const NEUTRAL: Rule = Rule { name: "neutral", kind: Kind::Exact, apply: |g, id, _| neutral(g, id) };

/// Moves factors that do not depend on the summed dimension out of the sum:
/// this is what turns RMSNorm into a scalar after the dot product.
pub const FACTOR: Rule = Rule { name: "factor", kind: Kind::Reassociating, apply: |g, id, _| factor(g, id) };

/// Splits the sum of a whole row into sums of 32 and a sum of those, so that
/// the first can be computed where the row is produced.
pub const SPLIT_SUM: Rule = Rule { name: "split-sum", kind: Kind::Reassociating, apply: |g, id, _| split_sum(g, id) };

/// The constant that a tensor is filled with.
fn filled(g: &Graph, id: Id) -> Option<Const> {
    match g.op(id) {
        Op::Const(c) => Some(*c),
        Op::Reshape | Op::Expand => filled(g, g.src(id)[0]),
        _ => None,
    }
}

fn neutral(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Binary(op) = *g.op(id) else { return None };
    if !g.dtype(id).is_float() {
        return None;
    }
    let (a, b) = (g.src(id)[0], g.src(id)[1]);
    let one = Some(Const::f32(1.0));
    match op {
        BinOp::Mul if filled(g, a) == one => Some(b),
        BinOp::Mul | BinOp::Div if filled(g, b) == one => Some(a),
        _ => None,
    }
}

fn product(g: &mut Graph, all: &[Id]) -> Option<Id> {
    let mut it = all.iter();
    let mut acc = *it.next()?;
    for &f in it {
        acc = g.mul(acc, f);
    }
    Some(acc)
}

fn factor(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Reduce(ReduceOp::Sum, axes) = g.op(id) else { return None };
    let x = g.src(id)[0];
    if axes[..] != [g.shape(x).len() - 1] || *g.op(x) != Op::Binary(BinOp::Mul) || g.dtype(x) != DType::F32 {
        return None;
    }
    let axes = axes.clone();
    let mut all = vec![];
    terms(g, BinOp::Mul, x, &mut all);
    for (i, &f) in all.iter().enumerate() {
        let (chain, leaf) = under_movement(g, f);
        if chain.is_empty() {
            continue;
        }
        let mut inner = vec![];
        terms(g, BinOp::Mul, leaf, &mut inner);
        let Some(at) = inner.iter().position(|&u| constant_along_last(g, u).is_some()) else { continue };
        if inner.len() == 1 {
            continue;
        }
        let scalar = constant_along_last(g, inner.remove(at)).unwrap();
        let rest = product(g, &inner)?;
        let moved = replay(g, &chain, rest);
        let mut others = all.clone();
        others[i] = moved;
        let body = product(g, &others)?;
        let sum = g.reduce(ReduceOp::Sum, body, axes);
        let outside = replay(g, &chain, scalar);
        // [.., 1] with the other dimensions already repeated: drop the last.
        let shape = g.shape(sum).to_vec();
        let outside = g.reshape(outside, shape);
        return Some(g.mul(sum, outside));
    }
    None
}

fn split_sum(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Reduce(ReduceOp::Sum, axes) = g.op(id) else { return None };
    let x = g.src(id)[0];
    let last = g.shape(x).len() - 1;
    let n = g.as_int(g.shape(x)[last])?;
    // A square of one value: a row that some producer writes.
    let square = *g.op(x) == Op::Binary(BinOp::Mul) && g.src(x)[0] == g.src(x)[1];
    if axes[..] != [last] || !square || n % ACTIVATION_BLOCK != 0 || n < 4 * ACTIVATION_BLOCK {
        return None;
    }
    let base = g.src(x)[0];
    let mut shape = g.shape(x).to_vec();
    shape[last] = g.int(n / ACTIVATION_BLOCK);
    shape.push(g.int(ACTIVATION_BLOCK));
    let split = g.reshape(base, shape);
    let split = g.mul(split, split);
    let partial = g.reduce(ReduceOp::Sum, split, vec![last + 1]);
    Some(g.reduce(ReduceOp::Sum, partial, vec![last]))
}

//! Short prefix sums as sums of pairs.

use crate::rewrite::rules::Rule;
use crate::rewrite::rules::movement::fill;
use ir::rewrite::Kind;
use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp};

/// Offers short prefix sums as sums over pairs of elements, beside the loop that they are otherwise.
pub const SCAN: Rule = Rule { name: "scan", kind: Kind::Reassociating, apply: |g, id, _| scan(g, id) };

/// Elements of a prefix sum that are worth a look at all pairs of them.
const PAIRS: i64 = 256;

/// `sum over j of (j <= i ? x[j] : 0)`: more additions, but a reduction like others, which may join another kernel.
fn scan(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Scan(axis) = *g.op(id) else { return None };
    let x = g.src(id)[0];
    let shape = g.shape(id).to_vec();
    let n = shape[axis];
    if g.as_int(n)? > PAIRS {
        return None;
    }
    let one = g.int(1);
    let mut pair = shape.clone();
    pair.insert(axis, n);
    let at = |g: &mut Graph, t: Id, shape: Vec<Id>| {
        let t = g.reshape(t, shape);
        g.expand(t, pair.clone())
    };
    let iota = g.make(Op::Iota, DType::I32, vec![n], vec![]);
    let ones = vec![one; pair.len()];
    let (mut column, mut row, mut each) = (ones.clone(), ones, shape.clone());
    (column[axis], row[axis + 1]) = (n, n);
    each.insert(axis, one);
    let (i, j, x) = (at(g, iota, column), at(g, iota, row), at(g, x, each));
    let later = g.binary(BinOp::Lt, i, j);
    let ty = g.dtype(id);
    let nothing = fill(g, if ty.is_float() { Const::f32(0.0) } else { Const::Int(0) }, ty, &pair);
    let counted = g.select(later, nothing, x);
    let pairs = g.reduce(ReduceOp::Sum, counted, vec![axis + 1]);
    let op = Op::Choice { name: "scan".into(), of: vec!["pairs".into(), "loop".into()] };
    Some(g.make(op, ty, shape, vec![pairs, id]))
}

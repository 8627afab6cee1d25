//! The largest elements, without a sort.

use crate::rewrite::rules::Rule;
use ir::rewrite::Kind;
use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp, UnOp};

/// Writes top-k as a rank by pairwise comparison and one-hot sums.
pub const TOPK: Rule = Rule { name: "topk", kind: Kind::Exact, apply: |g, id, _| topk(g, id) };

fn topk(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::TopK(k) = *g.op(id) else { return None };
    let s = g.src(id)[0];
    let shape = g.shape(s).to_vec();
    let n = *shape.last().unwrap();
    let last = shape.len() - 1;
    let one = g.int(1);
    let mut pair = shape.clone();
    pair.push(n);
    let (mut col, mut row) = (shape.clone(), shape.clone());
    col.push(one);
    row.insert(last, one);
    let pairs = |g: &mut Graph, t: Id, s: &[Id], pair: &[Id]| {
        let t = g.reshape(t, s.to_vec());
        g.expand(t, pair.to_vec())
    };
    let nan = {
        let same = g.binary(BinOp::Eq, s, s);
        g.unary(UnOp::Not, same)
    };
    let (si, sj) = (pairs(g, s, &col, &pair), pairs(g, s, &row, &pair));
    let (ni, nj) = (pairs(g, nan, &col, &pair), pairs(g, nan, &row, &pair));
    let iota = g.make(Op::Iota, DType::I32, vec![n], vec![]);
    let mut ones = vec![one; shape.len() + 1];
    ones[last] = n;
    let ii = pairs(g, iota, &ones, &pair);
    ones[last] = one;
    ones[last + 1] = n;
    let ij = pairs(g, iota, &ones, &pair);
    let less = g.binary(BinOp::Lt, si, sj);
    let not_nj = g.unary(UnOp::Not, nj);
    let nan_less = g.binary(BinOp::And, ni, not_nj);
    let greater = g.binary(BinOp::Or, less, nan_less);
    let same = g.binary(BinOp::Eq, si, sj);
    let both = g.binary(BinOp::And, ni, nj);
    let same = g.binary(BinOp::Or, same, both);
    let before = g.binary(BinOp::Lt, ij, ii);
    let tie = g.binary(BinOp::And, same, before);
    let better = g.binary(BinOp::Or, greater, tie);
    let better = g.cast(better, DType::I32);
    let rank = g.reduce(ReduceOp::Sum, better, vec![last + 1]);
    // ids[p] = sum over i of i where rank[i] = p
    let mut hot = shape.clone();
    hot[last] = g.int(k as i64);
    hot.push(n);
    let mut rank_row = shape.clone();
    rank_row.insert(last, one);
    let rank = pairs(g, rank, &rank_row, &hot);
    let kk = hot[last];
    let want = g.make(Op::Iota, DType::I32, vec![kk], vec![]);
    let mut ones = vec![one; shape.len() + 1];
    ones[last] = kk;
    let want = pairs(g, want, &ones, &hot);
    let mut ones = vec![one; shape.len() + 1];
    ones[last + 1] = n;
    let index = pairs(g, iota, &ones, &hot);
    let here = g.binary(BinOp::Eq, rank, want);
    let zero = g.constant(Const::Int(0), DType::I32);
    let zero = g.reshape(zero, vec![one; shape.len() + 1]);
    let zero = g.expand(zero, hot);
    let picked = g.select(here, index, zero);
    Some(g.reduce(ReduceOp::Sum, picked, vec![last + 1]))
}

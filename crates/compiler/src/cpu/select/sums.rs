//! Sums of products, and over lanes.

use super::inst::{Inst, call, type_name, value};
use ir::{Graph, Id, Op, ReduceOp};

/// Sums of four products of bytes each.
pub(super) fn dot4(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::Dot4).then(|| call(format!("kl_dot_{}", g.ty(id).lanes), operands(g, id)))
}

/// Sums of two products each.
pub(super) fn dot2(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::Dot2).then(|| call(format!("kl_dot2_{}", type_name(g.ty(id))), operands(g, id)))
}

/// All lanes as one scalar.
pub(super) fn across(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Across(op) = *g.op(id) else { return None };
    let name = if op == ReduceOp::Sum { "sum" } else { "most" };
    Some(call(format!("kl_{name}_{}", type_name(g.ty(g.src(id)[0]))), operands(g, id)))
}

fn operands(g: &Graph, id: Id) -> Vec<Inst> {
    g.src(id).iter().map(|&s| value(s)).collect()
}

//! What all rows read alike is computed once before them: values in the order of the lanes, and parts of factors.

use crate::cpu::dot::passes::Pass;
use crate::cpu::dot::stream::Block;
use crate::cpu::vectors::Tiler;
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::{depends, replace};
use ir::{DType, Graph, Id, Op};
use rustc_hash::FxHashMap;

/// Stores the values in lane order in scratch, where they are not already; those of the tokens of a block after each
/// other.
pub(super) fn arrange(t: &mut Tiler, g: &mut Graph, passes: &mut [Pass], tokens: Option<&Block>, before: &mut Vec<Id>) {
    for q in passes {
        if q.steps.iter().all(|s| *g.op(s.1) == Op::Load) {
            continue;
        }
        let n = q.steps.len();
        let len = q.passes * (n * q.bytes) as i64;
        let stash = t.stash(g, DType::I8, (len * tokens.map_or(1, |b| b.side)) as usize);
        let mut stmts = vec![];
        for (i, s) in q.steps.iter_mut().enumerate() {
            let (k, off) = (g.int((n * q.bytes) as i64), g.int((i * q.bytes) as i64));
            let at = g.mul(q.range, k);
            let mut at = g.add(at, off);
            let mut x = s.1;
            if let Some(b) = tokens {
                let whole = g.int(len);
                let first = g.mul(b.slot, whole);
                at = g.add(first, at);
                let token = b.token_at_slot(g);
                x = replace(g, x, b.token, token);
            }
            stmts.push(t.store(g, stash, at, x));
            s.1 = g.load(stash, at, q.bytes);
        }
        let pass = make_loop(g, q.range, stmts);
        before.push(match tokens {
            Some(b) => make_loop(g, b.slot, vec![pass]),
            None => pass,
        });
    }
}

/// Computes what factors and rests of all rows have in common once, and keeps it in scratch: scales of the values in the
/// order of the lanes, and their products with sums of the values.
pub(super) fn settle(t: &mut Tiler, g: &mut Graph, passes: &mut [Pass], rows: &[Id], before: &mut Vec<Id>) {
    for q in passes {
        let mut common = vec![];
        [q.factor, q.rest].into_iter().flatten().for_each(|e| in_common(g, e, rows, &mut common));
        let mut stmts = vec![];
        let mut known = FxHashMap::default();
        for e in common {
            let lanes = g.ty(e).lanes;
            let stash = t.stash(g, DType::F32, q.passes as usize * usize::from(lanes));
            let n = g.int(lanes.into());
            let at = g.mul(q.range, n);
            stmts.push(t.store(g, stash, at, e));
            known.insert(e, g.load(stash, at, lanes.into()));
        }
        if !stmts.is_empty() {
            before.push(make_loop(g, q.range, stmts));
            [&mut q.factor, &mut q.rest].into_iter().flatten().for_each(|e| *e = g.substitute(*e, &mut known.clone()));
        }
    }
}

/// The largest parts of an expression that are vectors of floats, computed, and the same for all rows.
fn in_common(g: &Graph, e: Id, rows: &[Id], found: &mut Vec<Id>) {
    let computed = matches!(g.op(e), Op::Binary(_) | Op::Unary(_) | Op::Shuffle(_) | Op::Cast);
    if !computed || g.dtype(e) != DType::F32 {
        return;
    }
    if g.ty(e).lanes == 1 || rows.iter().any(|&row| depends(g, e, row)) {
        g.src(e).iter().for_each(|&part| in_common(g, part, rows, found));
    } else if !found.contains(&e) {
        found.push(e);
    }
}

//! In which order elements become lanes, so that neighbours come from neighbouring bytes.

use ir::index::Linear;
use ir::{BinOp, Graph, Id, Op};

/// Orders lanes so that neighbours come from neighbouring bytes and the same
/// bits of them. `all` are copies of one expression; `width` is the number of
/// lanes that should agree; `None` if no load has the same bits for all of them.
pub fn lane_order(g: &Graph, all: &[Id], width: usize) -> Option<Vec<usize>> {
    let signatures: Vec<(Vec<i64>, i64)> = all.iter().map(|&e| signature(g, e)).collect();
    let loads = signatures.iter().map(|s| s.0.len()).max().unwrap_or(0);
    // The shifts of all loads should agree, else those of one load; the other
    // loads then take other bits in each lane.
    let everything: Vec<usize> = (0..loads).collect();
    let choices = std::iter::once(everything).chain((0..loads).map(|i| vec![i]));
    for choice in choices {
        let key =
            |u: usize| -> Vec<i64> { choice.iter().map(|&i| signatures[u].0.get(i).copied().unwrap_or(0)).collect() };
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_cached_key(|&u| (key(u), signatures[u].1, u));
        let mut run = 0;
        let mut full = true;
        for i in 0..order.len() {
            run += 1;
            if i + 1 == order.len() || key(order[i]) != key(order[i + 1]) {
                full &= run % width == 0;
                run = 0;
            }
        }
        if full {
            return Some(order);
        }
    }
    None
}

/// The shift of each packed load in order of appearance, and the address of the
/// first one.
pub(crate) fn signature(g: &Graph, e: Id) -> (Vec<i64>, i64) {
    fn walk(g: &Graph, e: Id, shift: i64, shifts: &mut Vec<i64>, first: &mut Option<i64>) {
        match g.op(e) {
            Op::Load if g.ty(e).bytes() == 1 => {
                shifts.push(shift);
                if first.is_none() {
                    *first = Some(Linear::of(g, g.src(e)[1]).constant);
                }
            }
            Op::Binary(BinOp::Shr) => {
                let s = g.as_int(g.src(e)[1]).unwrap_or(0);
                walk(g, g.src(e)[0], s, shifts, first);
            }
            Op::Load | Op::Const(_) | Op::Lanes(_) | Op::Buffer { .. } | Op::Range(..) => {}
            _ => {
                for &s in g.src(e) {
                    walk(g, s, 0, shifts, first);
                }
            }
        }
    }
    let (mut shifts, mut first) = (vec![], None);
    walk(g, e, 0, &mut shifts, &mut first);
    (shifts, first.unwrap_or(0))
}

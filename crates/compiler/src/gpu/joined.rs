//! Stores of less than a word, of which neighbouring lanes store one together.
//!
//! Where memory consists of words, a byte or a half is stored by changing its bits of a word, for which the word has to be
//! loaded first: at the end of a kernel, where nothing else is left to do in that time. If lane after lane stores a
//! neighbour, the first of as many as fill a word gets what the others have, and stores the word.

use crate::gpu::sync::varies;
use crate::gpu::threads::Tiler;
use crate::kernel::expression::by;
use crate::kernel::superword::join;
use ir::index::Linear;
use ir::{BinOp, DType, Graph, Id, Op, Space};

/// Bytes of a word.
pub(super) const WORD: usize = 4;

/// The statements with such stores.
pub(super) fn stores(t: &Tiler, g: &mut Graph, statements: Vec<Id>) -> Vec<Id> {
    statements.into_iter().map(|s| statement(t, g, s)).collect()
}

fn statement(t: &Tiler, g: &mut Graph, id: Id) -> Id {
    let src = g.src(id).to_vec();
    match g.op(id) {
        Op::Block => {
            let body = stores(t, g, src);
            g.with_src(id, body)
        }
        // All lanes of a warp are there, or none.
        Op::If | Op::Loop if !varies(g, src[0]).0 => {
            let body = [vec![src[0]], stores(t, g, src[1..].to_vec())].concat();
            g.with_src(id, body)
        }
        Op::Store => joined(t, g, &src).unwrap_or(id),
        _ => id,
    }
}

/// A store of this place, element and condition, if lanes store neighbours; of a whole word by the first of them.
fn joined(t: &Tiler, g: &mut Graph, src: &[Id]) -> Option<Id> {
    let (&[buffer, index, value], only) = (src.first_chunk()?, src.get(3));
    let (ty, lane) = (g.ty(value), t.target.lane);
    let n = WORD / ty.bytes();
    let near = !matches!(g.op(buffer), Op::Buffer { space: Space::Output, .. });
    if near || n < 2 || ty.lanes > 1 || ty.base == DType::Bool || t.target.plan.lanes % n as i64 != 0 {
        return None;
    }
    if only.is_some_and(|&c| varies(g, c).0) {
        return None;
    }
    let neighbours = Linear::of(g, index);
    let mut others = neighbours.terms.iter().filter(|(term, _)| *term != lane);
    let aligned = others.all(|&(term, k)| k % n as i64 == 0 && !varies(g, term).0);
    if !aligned || neighbours.coefficient(lane) != 1 || neighbours.constant % n as i64 != 0 {
        return None;
    }
    // What is rounded is exchanged before.
    let (of, exact) = match (g.op(value), g.src(value)) {
        (Op::Cast, &[exact]) if g.ty(exact).bytes() == WORD => (Some(ty.base), exact),
        _ => (None, value),
    };
    let parts = (0..n)
        .map(|i| {
            let from = if i == 0 { exact } else { g.make(Op::LaneXor(i as u16), g.ty(exact), vec![], vec![exact]) };
            of.map_or(from, |ty| g.cast(from, ty))
        })
        .collect();
    let word = join(g, parts);
    let (place, zero) = (by(g, BinOp::Mod, lane, n as i64), g.int(0));
    let first = g.binary(BinOp::Eq, place, zero);
    let condition = only.map_or(first, |&c| g.binary(BinOp::And, c, first));
    Some(g.make(Op::Store, DType::Index, vec![], vec![buffer, index, word, condition]))
}

//! Lanes of vectors and of warps.

use super::inst::{Inst, Piece};
use super::words::in_words;
use ir::{Graph, Id, Op};

/// Lanes that are known.
pub(super) fn constants(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Lanes(values) = g.op(id) else { return None };
    Some(Inst::Lanes(values.clone()))
}

/// A lane, a scalar in all lanes, and lanes in another order.
pub(super) fn moved(g: &mut Graph, id: Id) -> Option<Inst> {
    Some(match g.op(id) {
        Op::Extract(lane) => Inst::Lane(*lane),
        Op::Splat => Inst::Splat,
        Op::Shuffle(map) => Inst::LanesOf(map.clone()),
        _ => return None,
    })
}

/// Vectors one after another, by words where both are in words.
pub(super) fn joined(g: &mut Graph, id: Id) -> Option<Inst> {
    if *g.op(id) != Op::Join {
        return None;
    }
    let mut at = 0;
    let piece = |&part: &Id| {
        let (ty, first) = (g.ty(part), at);
        let lanes = usize::from(ty.lanes);
        at += lanes;
        match (in_words(g.ty(id)) && in_words(ty) && first % 4 == 0, lanes) {
            (true, _) => Piece::Words(first / 4, lanes / 4),
            (_, 1) => Piece::Scalar(first),
            _ => Piece::Lanes(first, lanes),
        }
    };
    Some(Inst::Joined(g.src(id).iter().map(piece).collect()))
}

/// What another lane of the warp has.
pub(super) fn exchanged(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::LaneXor(bits) = *g.op(id) else { return None };
    Some(Inst::Exchanged(bits))
}

/// A sum of lanes, or the greatest.
pub(super) fn across(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Across(op) = *g.op(id) else { return None };
    (g.ty(id).lanes == 1).then_some(Inst::Across(op))
}

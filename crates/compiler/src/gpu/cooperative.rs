//! What is shared by the paths of matrices that a warp multiplies as a whole: no lane knows which elements it has, so sums are
//! stored to a place of the warp in shared memory, tile by tile, and lanes take elements of that in turns.

use crate::gpu::places::Turn;
use crate::gpu::threads::Tiler;
use crate::kernel::expression::by;
use ir::{BinOp, DType, Graph, Id, Op, Type};

/// Rows and columns of a tile.
pub(super) const SIDE: i64 = 16;

/// Distance of the columns of a tile where its sums are stored, so that lanes that read several of them use different banks.
const PITCH: i64 = SIDE + 4;

/// Floats that a warp stores a tile to.
pub(super) const STORED: i64 = SIDE * PITCH;

/// The sums of a tile, as the lanes of a warp hold them together.
pub(super) fn sums() -> Type {
    Type::vector(DType::F32, SIDE as usize / 2)
}

/// Where the tile of a warp begins in memory with a place for each warp.
pub(super) fn own(t: &Tiler, g: &mut Graph) -> Id {
    by(g, BinOp::Mul, t.target.warp, STORED)
}

/// Stores sums to the place of the warp.
pub(super) fn stored(g: &mut Graph, through: Id, own: Id, sums: Id) -> Id {
    g.make(Op::StoreFragment { pitch: PITCH as u32 }, DType::Index, vec![], vec![through, own, sums])
}

/// Row, column and place in memory of the first element that a lane takes in a turn.
pub(super) fn elements(t: &Tiler, g: &mut Graph, own: Id, number: i64, turn: Turn) -> (Id, Id, Id) {
    let at = by(g, BinOp::Add, t.target.lane, number * t.target.plan.lanes);
    let (row, column) = match turn {
        Turn::DownColumns(neighbours) => {
            let row = by(g, BinOp::Mod, at, SIDE / neighbours);
            (by(g, BinOp::Mul, row, neighbours), by(g, BinOp::Div, at, SIDE / neighbours))
        }
        Turn::AlongRows => (by(g, BinOp::Div, at, SIDE), by(g, BinOp::Mod, at, SIDE)),
    };
    let from = by(g, BinOp::Mul, column, PITCH);
    let from = g.add(from, row);
    (row, column, g.add(own, from))
}

/// Turns in which the lanes of a warp take all elements of a tile, so many at once.
pub(super) fn turns(t: &Tiler, neighbours: i64) -> std::ops::Range<i64> {
    0..SIDE * SIDE / (neighbours * t.target.plan.lanes)
}

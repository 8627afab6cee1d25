//! Tiles of matrices that a warp multiplies as a whole: no lane knows which elements it has.
//!
//! Matrices of 16 by 16 numbers are loaded from shared memory, where rows and tokens lie as for other tiles. What they come to
//! is stored tile by tile to a place of the warp there, and its lanes take elements of that in turns.

use super::grid::Grid;
use super::panel::Panel;
use super::{Product, ROW};
use crate::gpu::cooperative::{SIDE, STORED, element, own, stored, sums, turns};
use crate::gpu::matrix;
use crate::gpu::threads::Tiler;
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::by;
use ir::{BinOp, DType, Graph, Id, Op};

/// Elements of the shortest panel.
const SHORTEST: i64 = 64;

/// Bytes of shared memory that so many rows and tokens need, if there are some.
pub(super) fn bytes(rows: i64, tokens: i64, warps: i64) -> usize {
    if rows == 0 {
        return 0;
    }
    let panel = (rows + tokens) * (SHORTEST + ROW / 2) * DType::F16.bytes() as i64;
    (panel + warps * STORED * DType::F32.bytes() as i64) as usize
}

impl Product {
    /// The sums of the tiles of a warp, with the groups of a panel added.
    pub(super) fn multiply_whole(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        grid: &Grid,
        place: &Panel,
        accs: &[Id],
    ) -> Vec<Id> {
        let group = t.counted(g, self.groups);
        let k = by(g, BinOp::Mul, group, self.width);
        let (pitch, lane) = (self.pitch(g), t.target.lane);
        let [upper, eights] = [16, 8].map(|n| by(g, BinOp::Div, lane, n));
        let [low16, low8] = [16, 8].map(|n| by(g, BinOp::Mod, lane, n));
        let half = by(g, BinOp::Mod, eights, 2);
        let fragment = |g: &mut Graph, buffer: Id, row: Id, part: Id| {
            let part = by(g, BinOp::Mul, part, self.row(g));
            let at = g.add(k, part);
            matrix::fragment(g, buffer, (row, at), pitch, 4, false)
        };
        let of_rows: Vec<Id> = (0..grid.down)
            .map(|i| {
                let first = self.tile_row(g, grid, i);
                let row = g.add(first, low16);
                fragment(g, place.codes, row, upper)
            })
            .collect();
        let beside = by(g, BinOp::Mul, upper, 8);
        let beside = g.add(beside, low8);
        let (mut body, mut pairs) = (vec![], vec![]);
        for j in 0..grid.across {
            let first = self.tile_token(g, grid, j);
            let token = g.add(first, beside);
            let tokens = fragment(g, place.values, token, half);
            for (i, &rows) in of_rows.iter().enumerate() {
                let acc = accs[i * grid.across as usize + j as usize];
                pairs.push((acc, g.make(Op::WarpProduct, sums(), vec![], vec![acc, rows, tokens])));
            }
            if grid.ragged {
                let set = t.set(g, std::mem::take(&mut pairs));
                body.extend(self.if_token(t, g, first, vec![set]));
            }
        }
        if !pairs.is_empty() {
            body.push(t.set(g, pairs));
        }
        vec![make_loop(g, group, body)]
    }

    /// Stores the sums of a warp, each tile through its place in this memory.
    pub(super) fn results_through(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        grid: &Grid,
        accs: &[Id],
        through: Id,
    ) -> Vec<Id> {
        let own = own(t, g);
        let mut all = vec![];
        for (number, &acc) in accs.iter().enumerate() {
            let (i, j) = (number as i64 / grid.across, number as i64 % grid.across);
            all.push(stored(g, through, own, acc));
            let (m, n) = (by(g, BinOp::Add, grid.m, i), by(g, BinOp::Add, grid.n, j));
            let first = by(g, BinOp::Mul, n, SIDE);
            for sum in &self.sums {
                let mut body = vec![];
                for turn in turns(t) {
                    let (row, token, from) = element(t, g, own, turn);
                    let value = g.load(through, from, 1);
                    let place = (sum.row_of(g, m, row), g.add(first, token));
                    body.extend(self.stored(t, g, sum, place, value));
                }
                all.extend(self.of_tile(t, g, sum, (m, n), body));
            }
        }
        all
    }
}

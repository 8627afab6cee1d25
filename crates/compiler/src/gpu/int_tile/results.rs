//! How the sums of a task are stored.

use super::grid::Grid;
use super::{M, N, Product, Sum};
use crate::gpu::threads::Tiler;
use crate::kernel::expression::{by, combined};
use ir::index::bounds;
use ir::{BinOp, DType, Graph, Id, Op};
use rustc_hash::FxHashMap;

impl Product {
    /// Puts together what several warps have of the same sums: each leaves its part, and threads take elements in turns.
    pub(super) fn results_of_parts(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        grid: &Grid,
        accs: &[Id],
        parts: Id,
    ) -> Vec<Id> {
        let (of_row, of_token) = self.own(t, g);
        let (pitch, mut all) = (self.parts_pitch(), vec![]);
        let own = by(g, BinOp::Mul, grid.part, self.tokens * pitch);
        for i in 0..grid.down {
            for j in 0..grid.across {
                let acc = accs[(i * grid.across + j) as usize];
                let (m, n) = (by(g, BinOp::Add, grid.m, i), by(g, BinOp::Add, grid.n, j));
                let (row, token) = (by(g, BinOp::Mul, m, M), by(g, BinOp::Mul, n, N));
                let (row, token) = (g.add(row, of_row), g.add(token, of_token));
                let mut body = vec![];
                for e in 0..4 {
                    let (row, token) = (by(g, BinOp::Add, row, e / 2 * 8), by(g, BinOp::Add, token, e % 2));
                    let at = by(g, BinOp::Mul, token, pitch);
                    let at = g.add(at, row);
                    let at = g.add(at, own);
                    let value = g.make(Op::Extract(e as u16), DType::F32, vec![], vec![acc]);
                    body.push(g.make(Op::Store, DType::Index, vec![], vec![parts, at, value]));
                }
                for (tile, end) in [(m, self.rows / M), (n, self.tokens / N)] {
                    let below = (bounds(g, tile).1 >= end).then(|| by(g, BinOp::Lt, tile, end));
                    body = t.only(g, below, body);
                }
                all.extend(body);
            }
        }
        for sum in &self.sums {
            let copies = t.in_turns(g, sum.rows * self.tokens, |t, g, at| {
                let (row, token) = (by(g, BinOp::Mod, at, sum.rows), by(g, BinOp::Div, at, sum.rows));
                let from = by(g, BinOp::Mul, token, pitch);
                let from = g.add(from, row);
                let from = by(g, BinOp::Add, from, sum.first);
                let each: Vec<Id> = (0..grid.apart)
                    .map(|part| {
                        let from = by(g, BinOp::Add, from, part * self.tokens * pitch);
                        g.load(parts, from, 1)
                    })
                    .collect();
                let total = combined(g, BinOp::Add, &each).unwrap_or(each[0]);
                (vec![], self.stored(t, g, sum, (row, token), total))
            });
            all.extend(copies.into_iter().flat_map(|(_, stores)| stores));
        }
        all
    }

    /// Stores an element of a sum, if there is such a token.
    pub(super) fn stored(&self, t: &Tiler, g: &mut Graph, sum: &Sum, (row, token): (Id, Id), value: Id) -> Vec<Id> {
        let mut names = FxHashMap::from_iter([(sum.row, row), (self.token, token)]);
        let index = g.substitute(sum.item.index, &mut names);
        let store = t.store(g, sum.item.buffer, index, value);
        self.if_token(t, g, token, vec![store])
    }

    /// Stores the sums of a thread.
    pub(super) fn results(&self, t: &Tiler, g: &mut Graph, grid: &Grid, accs: &[Id]) -> Vec<Id> {
        let (of_row, of_token) = self.own(t, g);
        let mut all = vec![];
        for i in 0..grid.down {
            for j in 0..grid.across {
                let acc = accs[(i * grid.across + j) as usize];
                // Tiles that repeat the last one are stored by none.
                let (m, n) = (by(g, BinOp::Add, grid.m, i), by(g, BinOp::Add, grid.n, j));
                let token = by(g, BinOp::Mul, n, N);
                let token = g.add(token, of_token);
                for sum in &self.sums {
                    let row = sum.row_of(g, m, of_row);
                    let mut body = vec![];
                    for e in 0..4 {
                        let (row, token) = (by(g, BinOp::Add, row, e / 2 * 8), by(g, BinOp::Add, token, e % 2));
                        let value = g.make(Op::Extract(e as u16), DType::F32, vec![], vec![acc]);
                        body.extend(self.stored(t, g, sum, (row, token), value));
                    }
                    all.extend(self.of_tile(t, g, sum, (m, n), body));
                }
            }
        }
        all
    }

    /// Statements for a tile of these numbers of rows and of tokens, if it is one of a sum.
    pub(super) fn of_tile(&self, t: &Tiler, g: &mut Graph, sum: &Sum, (m, n): (Id, Id), mut body: Vec<Id>) -> Vec<Id> {
        let (first, end) = (sum.first / M, (sum.first + sum.rows) / M);
        for (tile, first, end) in [(m, first, end), (n, 0, self.tokens / self.side)] {
            let (least, most) = bounds(g, tile);
            let below = (most >= end).then(|| by(g, BinOp::Lt, tile, end));
            body = t.only(g, below, body);
            let before = g.int(first - 1);
            let from = (least < first).then(|| g.binary(BinOp::Lt, before, tile));
            body = t.only(g, from, body);
        }
        body
    }
}

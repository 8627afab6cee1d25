//! Tiles of matrices that a warp multiplies as a whole: no lane knows which elements it has.
//!
//! Matrices of 16 by 16 numbers are loaded from shared memory, where rows and tokens lie as for other tiles. What they come to
//! is stored tile by tile to a place of the warp there, and its lanes take elements of that in turns.

use super::grid::Grid;
use super::panel::Panel;
use super::{Elements, Product, ROW};
use crate::gpu::align::{align, alignment};
use crate::gpu::cooperative::{SIDE, STORED, elements as elements_of, own, stored, sums, turns};
use crate::gpu::matrix;
use crate::gpu::places::Turn;
use crate::gpu::threads::Tiler;
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::{by, replace};
use crate::kernel::superword::Packer;
use crate::lower::Item;
use ir::index::Linear;
use ir::{BinOp, DType, Graph, Id, Op};
use rustc_hash::FxHashMap;

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
        let mut pairs = vec![];
        for j in 0..grid.across {
            let first = self.tile_token(g, grid, j);
            let token = g.add(first, beside);
            let tokens = fragment(g, place.values, token, half);
            for (i, &rows) in of_rows.iter().enumerate() {
                let acc = accs[i * grid.across as usize + j as usize];
                pairs.push((acc, g.make(Op::WarpProduct, sums(), vec![], vec![acc, rows, tokens])));
            }
        }
        let set = t.set(g, pairs);
        vec![make_loop(g, group, vec![set])]
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
                for turn in turns(t, 1) {
                    let (row, token, from) = elements_of(t, g, own, turn, Turn::DownColumns(1));
                    let value = g.load(through, from, 1);
                    let place = (sum.row_of(g, m, row), g.add(first, token));
                    body.extend(self.stored(t, g, sum, place, value));
                }
                all.extend(self.of_tile(t, g, sum, (m, n), body));
            }
        }
        all
    }

    /// Stores what is computed of the elements of a warp: those of each sum go through its place in this memory to registers.
    pub(super) fn elements_through(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        grid: &Grid,
        accs: &[Id],
        through: Id,
        elements: &Elements,
    ) -> Vec<Id> {
        let (own, of_layer, sum) = (own(t, g), grid.down / grid.layers, &self.sums[0]);
        let neighbours = self.neighbours(g, &elements.item, t.target.plan.widest);
        let mut all = vec![];
        for i in 0..of_layer {
            for j in 0..grid.across {
                let (m, n) = (by(g, BinOp::Add, grid.m, i), by(g, BinOp::Add, grid.n, j));
                let first = by(g, BinOp::Mul, n, SIDE);
                let mut of_turns: Vec<Vec<Id>> = turns(t, neighbours).map(|_| vec![]).collect();
                for layer in 0..grid.layers {
                    all.push(stored(g, through, own, accs[((layer * of_layer + i) * grid.across + j) as usize]));
                    let mut pairs = vec![];
                    for (turn, accs) in of_turns.iter_mut().enumerate() {
                        let (_, _, from) = elements_of(t, g, own, turn as i64, Turn::DownColumns(neighbours));
                        let loaded = g.load(through, from, neighbours as usize);
                        let loaded = align(g, loaded, t.target.plan.widest);
                        accs.push(t.acc(g, g.ty(loaded)));
                        pairs.push((*accs.last().expect("just pushed"), loaded));
                    }
                    all.push(t.set(g, pairs));
                }
                let mut body = vec![];
                for (turn, accs) in of_turns.iter().enumerate() {
                    let (row, token, _) = elements_of(t, g, own, turn as i64, Turn::DownColumns(neighbours));
                    let (row, token) = (sum.row_of(g, m, row), g.add(first, token));
                    let store = self.element(t, g, elements, accs, (row, token), neighbours);
                    body.extend(self.if_token(t, g, token, vec![store]));
                }
                all.extend(self.of_tile(t, g, sum, (m, n), body));
            }
        }
        all
    }

    /// How many neighbouring rows of an item are stored at once.
    fn neighbours(&self, g: &mut Graph, item: &Item, widest: usize) -> i64 {
        let row = self.sums[0].row;
        let none = g.int(0);
        let index = replace(g, item.index, row, none);
        let fits = |n: &i64| {
            let bytes = *n as usize * g.dtype(item.buffer).bytes();
            bytes <= widest && alignment(g, item.buffer, index) >= bytes
        };
        let beside = Linear::of(g, item.index).coefficient(row) == 1;
        [8, 4, 2].into_iter().find(fits).filter(|_| beside).unwrap_or(1)
    }

    /// Stores neighbours of an item, of whose sums these registers have the elements.
    fn element(
        &self,
        t: &Tiler,
        g: &mut Graph,
        Elements { item, reduces }: &Elements,
        accs: &[Id],
        (row, token): (Id, Id),
        neighbours: i64,
    ) -> Id {
        let names = |g: &mut Graph, i: i64| {
            let row = by(g, BinOp::Add, row, i);
            FxHashMap::from_iter([(self.sums[0].row, row), (self.token, token)])
        };
        let mut packer = Packer::shifting();
        let mut of_sums: Vec<Vec<Id>> = vec![];
        for &acc in accs {
            let lane = |i: i64| g.make(Op::Extract(i as u16), DType::F32, vec![], vec![acc]);
            let lanes: Vec<Id> = if neighbours == 1 { vec![acc] } else { (0..neighbours).map(lane).collect() };
            packer.know(lanes.clone(), acc);
            of_sums.push(lanes);
        }
        let lanes: Vec<Id> = (0..neighbours)
            .map(|i| {
                let mut names = names(g, i);
                names.extend(reduces.iter().copied().zip(of_sums.iter().map(|lanes| lanes[i as usize])));
                let value = g.substitute(item.value, &mut names);
                g.cast(value, g.dtype(item.buffer))
            })
            .collect();
        let value = matrix::joined_by(g, packer, lanes, t.target.plan.widest);
        let mut names = names(g, 0);
        let index = g.substitute(item.index, &mut names);
        g.make(Op::Store, DType::Index, vec![], vec![item.buffer, index, value])
    }
}

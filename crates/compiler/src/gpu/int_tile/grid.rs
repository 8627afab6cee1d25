//! Which tiles of a task a warp has.

use super::{M, MOST, Product, at_most};
use crate::gpu::threads::Tiler;
use crate::kernel::expression::{by, loads_in, loops_of};
use ir::index::usual;
use ir::{BinOp, DType, Graph, Id};
use rustc_hash::FxHashMap;

/// Which tiles a warp has: `m` by `n` of them, as many as `down` and `across` say to a warp.
pub(super) struct Grid {
    pub(super) m: Id,
    pub(super) n: Id,
    pub(super) down: i64,
    pub(super) across: i64,
    /// How many sums lie below each other of which a warp has the same tiles, those of the first one first.
    pub(super) layers: i64,
    /// Warps that have the same tiles, and which of them it is: each adds every so many-th group.
    pub(super) apart: i64,
    pub(super) part: Id,
    /// Whether a task usually has fewer tokens than places for them.
    pub(super) ragged: bool,
}

impl Product {
    /// The tiles of each warp: the division that has the least work in the end, and warps beside each other only for want
    /// of rows where tokens usually leave some of them without any.
    pub(super) fn grid(&self, t: &Tiler, g: &mut Graph) -> Option<Grid> {
        let layers = if self.elements.is_some() { self.sums.len() as i64 } else { 1 };
        let (tall, wide, warps) = (self.rows / M / layers, self.tokens / self.side, t.target.plan.warps);
        // Sums of a tile that a thread has.
        let each = self.side / 2;
        let shares = |n: i64, of: i64| (n + of - 1) / of;
        let of = |beside: i64| (layers * shares(tall, warps / beside), shares(wide, beside));
        let ragged = self.is_ragged(g);
        let beside = (0..=warps.ilog2()).map(|b| 1i64 << b).filter(|&beside| beside <= wide);
        let beside = beside.min_by_key(|&beside| {
            let (down, across) = of(beside);
            (down * across, if ragged { beside } else { down + across })
        })?;
        let (down, across) = of(beside);
        if each * down * across > MOST {
            return None;
        }
        // What warps read from shared memory, in bytes: a fragment serves all tiles of a warp beside or below each other.
        let read = |&(apart, _, down, across): &(i64, i64, i64, i64)| {
            let groups = self.panels * self.groups * warps / apart;
            groups * self.width * (down * M + across * self.side) + 2 * self.parts_bytes(apart)
        };
        let split = |apart: i64| {
            let share = warps / apart;
            let sides = (0..=share.ilog2()).map(|b| 1i64 << b).filter(|&beside| beside <= wide);
            let all = sides.map(|beside| (apart, beside, shares(tall, share / beside), shares(wide, beside)));
            all.filter(|&(_, _, down, across)| each * down * across <= MOST / 2).collect::<Vec<_>>()
        };
        let (room, panel) = (t.target.room() as i64, self.panel_bytes(g));
        let fits = |&apart: &i64| {
            !self.is_cooperative() && self.groups % apart == 0 && panel + self.parts_bytes(apart) <= room
        };
        let apart = (1..=warps.ilog2()).map(|b| 1i64 << b).filter(fits);
        let all = std::iter::once((1, beside, down, across)).chain(apart.flat_map(split));
        let (apart, beside, down, across) = all.min_by_key(read)?;
        let part = by(g, BinOp::Mod, t.target.warp, apart);
        let warp = by(g, BinOp::Div, t.target.warp, apart);
        let (m, n) = (by(g, BinOp::Div, warp, beside), by(g, BinOp::Mod, warp, beside));
        let (m, n) = (by(g, BinOp::Mul, m, down / layers), by(g, BinOp::Mul, n, across));
        Some(Grid { m, n, down, across, layers, apart, part, ragged })
    }

    /// Distance of tokens where warps leave their parts of sums: the rows of four tokens lie in different banks.
    pub(super) fn parts_pitch(&self) -> i64 {
        self.rows + 4
    }

    /// Floats that the parts of so many warps take.
    pub(super) fn parts(&self, apart: i64) -> i64 {
        if apart > 1 { apart * self.tokens * self.parts_pitch() } else { 0 }
    }

    fn parts_bytes(&self, apart: i64) -> i64 {
        self.parts(apart) * DType::F32.bytes() as i64
    }

    /// Bytes that a panel takes at most: codes, and a factor and an added term of each group.
    fn panel_bytes(&self, g: &Graph) -> i64 {
        let scales = if self.factor(g) == DType::I8 { 2 * self.groups * DType::F32.bytes() as i64 } else { 0 };
        (self.rows + self.tokens) * (self.pitch(g) * self.factor(g).bytes() as i64 + scales)
    }

    /// Whether a task usually has fewer tokens than places for them.
    fn is_ragged(&self, g: &mut Graph) -> bool {
        let count = g.src(self.token)[0];
        if !loads_in(g, count).is_empty() {
            return true;
        }
        // In the first task.
        let none = g.int(0);
        let mut first: FxHashMap<Id, Id> = loops_of(g, count).into_keys().map(|range| (range, none)).collect();
        let count = g.substitute(count, &mut first);
        usual(g, count) < self.tokens
    }

    /// First row of tile `i` of a warp; past the last one, the last one again.
    pub(super) fn tile_row(&self, g: &mut Graph, grid: &Grid, i: i64) -> Id {
        let (of_layer, tall) = (grid.down / grid.layers, self.rows / M / grid.layers);
        let tile = by(g, BinOp::Add, grid.m, i % of_layer);
        let tile = at_most(g, tile, tall - 1);
        let tile = by(g, BinOp::Add, tile, i / of_layer * tall);
        by(g, BinOp::Mul, tile, M)
    }

    /// First token of tile `i` of a warp, likewise.
    pub(super) fn tile_token(&self, g: &mut Graph, grid: &Grid, i: i64) -> Id {
        let i = g.int(i);
        self.first_token(g, grid, i)
    }

    pub(super) fn first_token(&self, g: &mut Graph, grid: &Grid, i: Id) -> Id {
        let tile = g.add(grid.n, i);
        let tile = at_most(g, tile, self.tokens / self.side - 1);
        by(g, BinOp::Mul, tile, self.side)
    }
}

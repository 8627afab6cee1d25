//! Sums of bf16 numbers by four warps together: each unpacks its rows in its registers, and tokens lie in shared memory.
//!
//! A fragment of 16 elements wants four of them from each of four lanes, at places that lie apart. A sum does not care for the
//! order of its elements, so a lane takes a run of neighbours, a quarter of a panel, and tokens are put in that order: element
//! `run * lane + 4 * step + 2 * half + e` of a panel lies at place `16 * step + 8 * half + 2 * lane + e`. What a lane has of
//! the next panel is on its way while it multiplies. Where there are more warps than tiles of rows, some have the same rows
//! and another part of each panel.

use super::panel::{deal, from_memory};
use super::{FEW, HALVES, M, N, Product, Sum, once_a_task};
use crate::gpu::align::align;
use crate::gpu::matrix;
use crate::gpu::places::Copies;
use crate::gpu::threads::Tiler;
use crate::kernel::emitter::{make_barrier, make_loop};
use crate::kernel::expression::{by, replace, zero};
use crate::kernel::superword::Packer;
use ir::index::gcd;
use ir::{BinOp, DType, Graph, Id, Op, Type};
use rustc_hash::FxHashMap;

/// Elements of a panel, the longest first.
const LENGTHS: [i64; 2] = [128, 64];

/// Columns that are multiplied at once.
const COLUMNS: [i64; 4] = [16, 32, 64, 128];

/// Sums that a lane keeps at most.
const MOST: i64 = 96;

/// Lanes that share a row of a fragment.
const LANES: i64 = 4;

/// Elements of a piece of a token, of 16 bytes, and of a vector of a run.
const PIECE: i64 = 8;

/// Warps that multiply together, and the rows of their tiles.
const TOGETHER: i64 = 4;
pub(in crate::gpu) const TOGETHER_ROWS: i64 = TOGETHER * M;

/// How a sum is cut into panels.
#[derive(Clone, Copy)]
struct Panels {
    panel: Id,
    /// Places for tokens.
    tokens: i64,
    /// Elements of a panel that a warp multiplies.
    length: i64,
    /// Tiles of rows beside each other.
    tiles: i64,
    /// Warps that have the same rows: each has another part of a panel.
    apart: i64,
    part: Id,
}

impl Panels {
    /// Elements that a lane has of a panel.
    fn run(self) -> i64 {
        self.length / LANES
    }

    /// Pieces of a token in a part of a panel.
    fn pieces(self) -> i64 {
        self.length / PIECE
    }

    /// The element of the sum at this place of a part of a panel.
    fn element(self, g: &mut Graph, part: Id, at: Id) -> Id {
        let first = by(g, BinOp::Mul, self.panel, self.apart);
        let first = g.add(first, part);
        let first = by(g, BinOp::Mul, first, self.length);
        g.add(first, at)
    }
}

/// What a lane has of two rows of a fragment: values of its runs, of what lies in registers.
struct Rows {
    halves: [Vec<Id>; 2],
}

impl Rows {
    /// The fragment of 16 elements.
    fn fragment(&self, g: &mut Graph, step: i64) -> Id {
        let [upper, lower] = [0, 1].map(|half| self.halves[half][step as usize / 2]);
        let both = g.make(Op::Join, Type::vector(DType::BF16, 2 * PIECE as usize), vec![], vec![upper, lower]);
        let (first, next) = (step as u16 % 2 * 4, PIECE as u16);
        let map = [0, 2].into_iter().flat_map(|pair| {
            let at = first + pair;
            [at, at + 1, at + next, at + next + 1]
        });
        g.make(Op::Shuffle(map.collect()), Type::vector(DType::BF16, PIECE as usize), vec![], vec![both])
    }
}

impl Product {
    /// Whether warps can multiply its tiles together.
    pub(super) fn together(&self, g: &Graph) -> bool {
        self.factor(g) == DType::BF16 && self.places().is_some() && self.rows % TOGETHER_ROWS == 0
    }

    /// Places for tokens, if there are so many that they are worth it.
    fn places(&self) -> Option<i64> {
        COLUMNS.into_iter().find(|&columns| self.tokens <= columns).filter(|_| self.tokens > FEW)
    }

    /// Statements of such sums, if the machine multiplies so and each warp has as many tiles of rows.
    pub(super) fn in_groups(&self, t: &mut Tiler, g: &mut Graph) -> Option<Vec<Id>> {
        let (warps, all) = (t.target.plan.warps, self.rows / M);
        let elements = self.groups * self.panels * self.width;
        let tiles = gcd(all, warps);
        let (down, apart) = (all / tiles, warps / tiles);
        let places = self.places()?;
        let able = t.target.plan.groups && self.together(g) && tiles % TOGETHER == 0;
        if !able || down * places / 2 > MOST {
            return None;
        }
        let length = LENGTHS.into_iter().find(|length| elements % (apart * length) == 0)?;
        let number = elements / (apart * length);
        let some = self.at_least(g, g.src(self.token)[0]);
        let count = by(g, BinOp::Mul, some, number);
        let part = by(g, BinOp::Div, t.target.warp, tiles);
        let panels = Panels { panel: t.range(g, count), tokens: places, length, tiles, apart, part };
        let tokens = t.near(g, DType::BF16, apart * panels.pieces() * (places + 1) * PIECE)?;
        let (mut loads, mut stores) = (vec![], vec![]);
        for (load, store) in self.tokens_in_order(t, g, panels, tokens)? {
            loads.extend(load);
            stores.extend(store);
        }
        let mut rows = vec![];
        let mut moved: Vec<(Id, Id)> = vec![];
        for i in 0..down {
            rows.push(self.own_rows(t, g, panels, i, (&mut loads, &mut moved))?);
        }
        stores.push(t.set(g, moved));
        let around = self.sums[0].around(self.token);
        let ty = Type::vector(DType::F32, places as usize / 2);
        let accs: Vec<Id> = (0..down).map(|_| t.acc(g, ty)).collect();
        let none = zero(g, ty);
        let mut all = vec![t.set(g, accs.iter().map(|&acc| (acc, none)).collect())];
        all.extend(once_a_task(t, g, (&around, panels.panel), vec![&mut loads, &mut stores]));
        let mut products = vec![];
        for step in 0..length / HALVES {
            let columns = self.columns(t, g, panels, tokens, step);
            for (rows, &acc) in rows.iter().zip(&accs) {
                let rows = rows.fragment(g, step);
                let product = g.make(Op::WarpProduct, ty, vec![], vec![acc, rows, columns]);
                products.push(t.set(g, vec![(acc, product)]));
            }
        }
        let first = g.int(0);
        all.extend(loads.iter().map(|&s| replace(g, s, panels.panel, first)));
        let mut body = stores;
        // What orders stores before products waits for loads that are on their way, too: these come after it.
        body.push(make_barrier(g));
        if number > 1 {
            let next = by(g, BinOp::Add, panels.panel, 1);
            let more = by(g, BinOp::Lt, next, number);
            let loads = loads.iter().map(|&s| replace(g, s, panels.panel, next)).collect();
            body.extend(t.only(g, Some(more), loads));
        }
        body.extend(products);
        all.push(make_loop(g, panels.panel, body));
        if apart > 1 {
            all.extend(self.of_all_parts(t, g, panels, &accs)?);
        }
        for (i, acc) in accs.into_iter().enumerate() {
            all.extend(self.own_results(t, g, panels, i as i64, acc));
        }
        Some(t.nest(g, &around, all))
    }

    /// Adds what all parts have of the same sums, in the registers of the first one.
    fn of_all_parts(&self, t: &mut Tiler, g: &mut Graph, panels: Panels, accs: &[Id]) -> Option<Vec<Id>> {
        let (lanes, each) = (t.target.plan.lanes, panels.tokens / 2);
        let of_part = accs.len() as i64 * panels.tiles * each * lanes;
        let buffer = t.near(g, DType::F32, (panels.apart - 1) * of_part)?;
        let place = |g: &mut Graph, t: &Tiler, part: Id, i: usize, e: i64| {
            let tile = self.own_tile(t, g, panels, i as i64);
            let at = by(g, BinOp::Mul, part, accs.len() as i64 * panels.tiles);
            let at = g.add(at, tile);
            let at = by(g, BinOp::Mul, at, each);
            let at = by(g, BinOp::Add, at, e);
            let at = by(g, BinOp::Mul, at, lanes);
            g.add(at, t.target.lane)
        };
        let (mut stores, mut sums) = (vec![], vec![]);
        for (i, &acc) in accs.iter().enumerate() {
            for e in 0..each {
                let own = by(g, BinOp::Sub, panels.part, 1);
                let at = place(g, t, own, i, e);
                let value = g.make(Op::Extract(e as u16), DType::F32, vec![], vec![acc]);
                stores.push(g.make(Op::Store, DType::Index, vec![], vec![buffer, at, value]));
            }
            let mut total = acc;
            for part in 0..panels.apart - 1 {
                let part = g.int(part);
                let values: Vec<Id> = (0..each)
                    .map(|e| {
                        let at = place(g, t, part, i, e);
                        g.load(buffer, at, 1)
                    })
                    .collect();
                let values = g.make(Op::Join, g.ty(acc), vec![], values);
                total = g.add(total, values);
            }
            sums.push((acc, total));
        }
        let none = g.int(0);
        let others = g.binary(BinOp::Lt, none, panels.part);
        let mut all = t.only(g, Some(others), stores);
        let first = by(g, BinOp::Lt, panels.part, 1);
        let set = t.set(g, sums);
        all.extend(t.only(g, Some(first), vec![set]));
        Some(all)
    }

    /// The tokens of a panel, in the order in which lanes have elements of rows.
    fn tokens_in_order(&self, t: &mut Tiler, g: &mut Graph, panels: Panels, buffer: Id) -> Option<Copies> {
        let (p, pieces) = (&self.sums[0].p, panels.apart * panels.pieces());
        let piece = t.counted(g, pieces);
        let (part, of_part) = (by(g, BinOp::Div, piece, panels.pieces()), by(g, BinOp::Mod, piece, panels.pieces()));
        let mut parts = vec![];
        for lane in 0..LANES {
            let pair: Vec<Id> = (0..2)
                .map(|e| {
                    let at = by(g, BinOp::Mul, of_part, 2);
                    let at = by(g, BinOp::Add, at, lane * panels.run() + e);
                    let element = panels.element(g, part, at);
                    replace(g, p.x, p.group, element)
                })
                .collect();
            let mut packer = Packer::shifting();
            let v = packer.pack_vector(g, &pair).filter(|_| packer.gathered == 0)?;
            parts.push(align(g, v, t.target.plan.widest));
        }
        let whole = g.make(Op::Join, Type::vector(DType::BF16, PIECE as usize), vec![], parts);
        let mut all = vec![];
        deal(t, g, panels.tokens * pieces, &mut all, |g, at| {
            let (token, number) = (by(g, BinOp::Div, at, pieces), by(g, BinOp::Mod, at, pieces));
            let to = by(g, BinOp::Mul, number, panels.tokens + 1);
            let to = g.add(to, token);
            let to = by(g, BinOp::Mul, to, PIECE);
            let last = self.token_at(g, token);
            let mut names = FxHashMap::from_iter([(self.token, last), (piece, number)]);
            vec![(buffer, to, g.substitute(whole, &mut names))]
        });
        Some(all)
    }

    /// Tile `i` of a warp among those of all sums.
    fn own_tile(&self, t: &Tiler, g: &mut Graph, panels: Panels, i: i64) -> Id {
        let first = by(g, BinOp::Mod, t.target.warp, panels.tiles);
        by(g, BinOp::Add, first, i * panels.tiles)
    }

    /// The sums that have tile `i` of some warp, and what says which warps these are, if not all.
    fn of_warps<'s>(&'s self, t: &Tiler, g: &mut Graph, panels: Panels, i: i64) -> Vec<(&'s Sum, Vec<Id>)> {
        let tile = self.own_tile(t, g, panels, i);
        let (first, end) = (i * panels.tiles, (i + 1) * panels.tiles);
        let mut all = vec![];
        for sum in &self.sums {
            let (from, to) = (sum.first / M, (sum.first + sum.rows) / M);
            if from < end && first < to {
                let before = g.int(from - 1);
                let above = (first < from).then(|| g.binary(BinOp::Lt, before, tile));
                let below = (to < end).then(|| by(g, BinOp::Lt, tile, to));
                all.push((sum, above.into_iter().chain(below).collect()));
            }
        }
        all
    }

    /// What a lane has of the rows of tile `i`, of registers that are set from others at the beginning of a panel; these are
    /// loaded before.
    fn own_rows(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        panels: Panels,
        i: i64,
        (loads, moved): (&mut Vec<Id>, &mut Vec<(Id, Id)>),
    ) -> Option<Rows> {
        let [lane, of_row] = [by(g, BinOp::Mod, t.target.lane, LANES), by(g, BinOp::Div, t.target.lane, LANES)];
        let tile = self.own_tile(t, g, panels, i);
        let place = t.counted(g, LANES);
        let mut halves: [Vec<Id>; 2] = Default::default();
        // Of this panel, and of the next one.
        let mut registers: [Vec<(Id, Id)>; 2] = Default::default();
        for (sum, conditions) in self.of_warps(t, g, panels, i) {
            let run = self.run(g, sum, panels, place, t.target.plan.widest)?;
            for (half, values) in halves.iter_mut().enumerate() {
                let row = sum.row_of(g, tile, of_row);
                let row = by(g, BinOp::Add, row, half as i64 * N);
                let mut names = FxHashMap::from_iter([(sum.row, row), (place, lane)]);
                let own: Vec<Id> = run.iter().map(|&v| g.substitute(v, &mut names)).collect();
                let mut from: Vec<Id> = vec![];
                for load in own.iter().flat_map(|&v| from_memory(g, v)) {
                    if !from.contains(&load) {
                        from.push(load);
                    }
                }
                let registers = &mut registers[half];
                if registers.is_empty() {
                    registers.extend(from.iter().map(|&load| (t.acc(g, g.ty(load)), t.acc(g, g.ty(load)))));
                }
                let same = registers.len() == from.len()
                    && registers.iter().zip(&from).all(|((_, next), &load)| g.ty(*next) == g.ty(load));
                if !same {
                    return None;
                }
                let sets = registers.iter().zip(&from).map(|(&(_, next), &load)| (next, load)).collect();
                let mut statements = vec![t.set(g, sets)];
                for &condition in &conditions {
                    statements = t.only(g, Some(condition), statements);
                }
                loads.extend(statements);
                let mut known = registers.iter().zip(&from).map(|(&(now, _), &load)| (load, now)).collect();
                let own: Vec<Id> = own.into_iter().map(|v| g.substitute(v, &mut known)).collect();
                // Rows of all sums are unpacked in the same way.
                if values.is_empty() {
                    *values = own;
                } else if *values != own {
                    return None;
                }
            }
        }
        moved.extend(registers.into_iter().flatten());
        Some(Rows { halves })
    }

    /// The run of a lane of a row, as vectors; `place` stands for the number of the lane.
    fn run(&self, g: &mut Graph, sum: &Sum, panels: Panels, place: Id, widest: usize) -> Option<Vec<Id>> {
        let mut packer = Packer::shifting();
        let mut all = vec![];
        for first in (0..panels.run()).step_by(PIECE as usize) {
            let lanes: Vec<Id> = (first..first + PIECE)
                .map(|e| {
                    let at = by(g, BinOp::Mul, place, panels.run());
                    let at = by(g, BinOp::Add, at, e);
                    let element = panels.element(g, panels.part, at);
                    replace(g, sum.p.code, sum.p.group, element)
                })
                .collect();
            let v = packer.pack_vector(g, &lanes)?;
            all.push(align(g, v, widest));
        }
        (packer.gathered == 0).then_some(all)
    }

    /// The columns of all tokens, as four warps read them.
    fn columns(&self, t: &Tiler, g: &mut Graph, panels: Panels, tokens: Id, step: i64) -> Id {
        let (row, half) = (by(g, BinOp::Mod, t.target.lane, N), by(g, BinOp::Div, t.target.lane, N));
        let half = by(g, BinOp::Mod, half, 2);
        let own = by(g, BinOp::Mul, panels.part, panels.pieces());
        let piece = by(g, BinOp::Add, half, 2 * step);
        let piece = g.add(own, piece);
        let parts = (0..panels.tokens / N)
            .map(|tile| {
                let row = by(g, BinOp::Add, row, tile * N);
                let first = by(g, BinOp::Mul, piece, panels.tokens + 1);
                let row = g.add(row, first);
                let none = g.int(0);
                matrix::fragment(g, tokens, (row, none), PIECE, 2, false)
            })
            .collect();
        g.make(Op::Join, Type::vector(DType::BF16, panels.tokens as usize / 2), vec![], parts)
    }

    /// Stores the sums of tile `i`.
    fn own_results(&self, t: &Tiler, g: &mut Graph, panels: Panels, i: i64, acc: Id) -> Vec<Id> {
        let (of_row, of_token) = self.own(t, g);
        let tile = self.own_tile(t, g, panels, i);
        let mut all = vec![];
        for (sum, conditions) in self.of_warps(t, g, panels, i) {
            let row = sum.row_of(g, tile, of_row);
            let mut body = vec![];
            for e in 0..panels.tokens / 2 {
                let (row, token) =
                    (by(g, BinOp::Add, row, e % 4 / 2 * N), by(g, BinOp::Add, of_token, e / 4 * N + e % 2));
                let value = g.make(Op::Extract(e as u16), DType::F32, vec![], vec![acc]);
                body.extend(self.stored(t, g, sum, (row, token), value));
            }
            let first = by(g, BinOp::Lt, panels.part, 1);
            let first = (panels.apart > 1).then_some(first);
            for condition in conditions.into_iter().chain(first) {
                body = t.only(g, Some(condition), body);
            }
            all.extend(body);
        }
        all
    }
}

//! Products of matrices by the tensor cores of a warp: sums over rows of halves that lie in memory, or are computed of what
//! lies there, which several columns of floats share.
//!
//! The rows are those of a tile that all threads copy to shared memory, 16 bytes each, or compute on the way there; they
//! are the long side (`m`), of 16, and columns the short one (`n`), of 8. A tile serves sums along its rows and, transposed
//! as it is read, sums across them: scores of a page of cached rows, and weighted sums of the same rows. Columns are rounded
//! to halves. Elements of the result are computed from the fragments that a lane holds. What this path cannot do: more than
//! one product of two factors in a sum, rows that are not halves, lengths that are not known or no multiples of 16, and an
//! item that reads what it writes, unless each element only reads itself and lies in a fragment.

use crate::gpu::align::{align, alignment};
use crate::gpu::fold::same_index;
use crate::gpu::places::{Copies, Layout, Rows, Source, Staged};
use crate::gpu::threads::Tiler;
use crate::kernel::expression::{
    by, collect_loads, depends, find_reductions, has_reduction, outermost_loads, outside, replace, zero,
};
use crate::kernel::superword::Packer;
use crate::lower::Item;
use ir::index::Linear;
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, Type};
use rustc_hash::FxHashMap;

/// Rows, columns and elements of the sum that one product of a warp has.
pub(super) const M: i64 = 16;
pub(super) const N: i64 = 8;
pub(super) const K: i64 = 16;

/// Halves that a thread copies at once, and by which rows in shared memory are longer, so that eight of them lie in
/// different banks.
pub(super) const WIDE: i64 = 8;

/// Copies of a thread that are in flight together.
const BATCH: usize = 20;

/// A sum of products.
pub(super) struct Sum {
    pub(super) reduce: Id,
    pub(super) k: Id,
    pub(super) rows: Rows,
    /// Whether the sum runs across the rows.
    pub(super) across: bool,
    /// The other factor.
    pub(super) column: Id,
}

impl Sum {
    /// Elements of the sum.
    pub(super) fn length(&self) -> i64 {
        if self.across { self.rows.rows } else { self.rows.columns }
    }
}

/// All sums of an item, and its dimensions.
pub(super) struct Product {
    pub(super) m: Id,
    pub(super) n: Id,
    pub(super) sums: Vec<Sum>,
}

impl Staged {
    /// Nothing, for a phase with this loop.
    pub(super) fn of(serial: Option<Id>) -> Staged {
        Staged { serial, ..Staged::default() }
    }

    /// Statements before the loop.
    pub(super) fn before(&mut self) -> Vec<Id> {
        in_batches(std::mem::take(&mut self.before))
    }
}

/// Whether an item is made of products that this path takes; `updates` says whether it may read the elements that it
/// writes.
pub(super) fn is_product(g: &mut Graph, item: &Item, updates: bool) -> bool {
    product(g, item, updates).is_some()
}

pub(super) fn extent(g: &Graph, range: Id) -> Option<i64> {
    g.as_int(g.src(range)[0])
}

/// The products of an item, if this path takes them.
pub(super) fn product(g: &mut Graph, item: &Item, updates: bool) -> Option<Product> {
    let [a, b] = item.dims[..] else { return None };
    let mut reduces = vec![];
    find_reductions(g, item.value, &mut reduces);
    if reduces.is_empty() {
        return None;
    }
    // A lane has several elements, and writes one before it comes to the next.
    let mut loads = vec![];
    collect_loads(g, item.value, &mut loads);
    loads.retain(|&l| g.src(l)[0] == item.buffer);
    if loads.iter().any(|&l| !updates || !same_index(g, g.src(l)[1], item.index)) {
        return None;
    }
    [(a, b), (b, a)].into_iter().find_map(|(m, n)| {
        extent(g, m).filter(|m| m % M == 0)?;
        extent(g, n)?;
        let sums = reduces.iter().map(|&r| sum(g, r, m, n)).collect::<Option<Vec<Sum>>>()?;
        Some(Product { m, n, sums })
    })
}

/// A sum as rows times columns.
fn sum(g: &mut Graph, reduce: Id, m: Id, n: Id) -> Option<Sum> {
    let (Op::Reduce(ReduceOp::Sum, _), &[body, k]) = (g.op(reduce).clone(), g.src(reduce)) else { return None };
    let (Op::Binary(BinOp::Mul), &[x, y]) = (g.op(body).clone(), g.src(body)) else { return None };
    let length = extent(g, k).filter(|k| k % K == 0)?;
    if g.dtype(reduce) != DType::F32 {
        return None;
    }
    [(x, y), (y, x)].into_iter().find_map(|(row, column)| {
        let fits = depends(g, column, n) && !depends(g, column, m) && !has_reduction(g, column);
        if !fits || depends(g, row, n) || *g.op(row) != Op::Cast {
            return None;
        }
        let half = g.src(row)[0];
        if g.ty(half) != Type::from(DType::F16) {
            return None;
        }
        let long = extent(g, m)?;
        let source = lying(g, half, m, k).or_else(|| computed(g, half, (m, long), (k, length)));
        let (from, across) = source?;
        let (rows, columns) = if across { (length, long) } else { (long, length) };
        (columns % WIDE == 0).then_some(Sum { reduce, k, rows: Rows { from, rows, columns }, across, column })
    })
}

/// Where halves lie that are loaded from memory, and whether a sum over `k` runs across their rows.
fn lying(g: &mut Graph, load: Id, m: Id, k: Id) -> Option<(Source, bool)> {
    if *g.op(load) != Op::Load || !outside(g, load) {
        return None;
    }
    let (buffer, index) = (g.src(load)[0], g.src(load)[1]);
    let linear = Linear::of(g, index);
    let (by_m, by_k) = (linear.coefficient(m), linear.coefficient(k));
    let hidden = |r: Id| linear.terms.iter().any(|t| t.0 != r && depends(g, t.0, r));
    if g.dtype(buffer) != DType::F16 || hidden(m) || hidden(k) {
        return None;
    }
    let (across, stride) = match (by_m, by_k) {
        (stride, 1) => (false, stride),
        (1, stride) => (true, stride),
        _ => return None,
    };
    let zero = g.int(0);
    let first = replace(g, index, m, zero);
    let first = replace(g, first, k, zero);
    let aligned = alignment(g, buffer, first) >= 16 && stride % WIDE == 0 && stride > 0;
    aligned.then_some((Source::Memory { buffer, first, stride }, across))
}

/// Halves that are computed of what lies in memory, of neighbours that are loaded together; and whether a sum over `k` runs
/// across their rows.
fn computed(g: &mut Graph, half: Id, (m, long): (Id, i64), (k, length): (Id, i64)) -> Option<(Source, bool)> {
    let mut loads = vec![];
    collect_loads(g, half, &mut loads);
    if *g.op(half) != Op::Cast || has_reduction(g, half) || loads.is_empty() || !loads.iter().all(|&l| outside(g, l)) {
        return None;
    }
    [false, true].into_iter().find_map(|across| {
        let (row, column, rows, columns) = if across { (k, m, length, long) } else { (m, k, long, length) };
        let [at_row, at_column] = Source::place(g, rows, columns);
        let mut map = FxHashMap::from_iter([(row, at_row), (column, at_column)]);
        let value = g.substitute(half, &mut map);
        let first = by(g, BinOp::Div, at_column, WIDE);
        let first = by(g, BinOp::Mul, first, WIDE);
        let lanes = neighbours(g, value, [at_row, at_column], [at_row, first]);
        packed(g, Packer::shifting(), &lanes).map(|_| (Source::Computed(value), across))
    })
}

/// The halves of a row from a column on, of one that is said of this place.
pub(super) fn neighbours(g: &mut Graph, value: Id, place: [Id; 2], [row, column]: [Id; 2]) -> Vec<Id> {
    let lane = |i: i64| {
        let column = by(g, BinOp::Add, column, i);
        g.substitute(value, &mut FxHashMap::from_iter([(place[0], row), (place[1], column)]))
    };
    (0..WIDE).map(lane).collect()
}

/// A vector of these lanes, if what they are made of is loaded at once.
fn packed(g: &mut Graph, mut packer: Packer, lanes: &[Id]) -> Option<Id> {
    packer.pack_vector(g, lanes).filter(|_| packer.gathered == 0)
}

/// A vector of these lanes.
pub(super) fn joined(g: &mut Graph, lanes: Vec<Id>, widest: usize) -> Id {
    joined_by(g, Packer::shifting(), lanes, widest)
}

/// The same by a packer that may know some already.
pub(super) fn joined_by(g: &mut Graph, packer: Packer, lanes: Vec<Id>, widest: usize) -> Id {
    match packed(g, packer, &lanes) {
        Some(packed) => align(g, packed, widest),
        None => g.make(Op::Join, Type::vector(g.dtype(lanes[0]), lanes.len()), vec![], lanes),
    }
}

/// Bytes of shared memory that are needed beyond what is staged, if a sum has so many columns there.
pub(super) fn needed(t: &Tiler, p: &Product, columns: impl Fn(&Sum) -> i64) -> usize {
    let mut halves = 0;
    for s in &p.sums {
        if !t.target.staged.tiles.contains_key(&s.rows) {
            halves += s.rows.rows * (s.rows.columns + WIDE);
        }
        let length = s.length();
        halves += columns(s) * (length + WIDE);
    }
    halves as usize * DType::F16.bytes()
}

/// Statements of an item that is made of products, if it is and there is room.
pub(super) fn products(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let updates = t.target.carried.contains_key(&item.buffer);
    let p = product(g, item, updates).filter(|_| t.target.plan.multiplies)?;
    let (long, short) = (extent(g, p.m)?, extent(g, p.n)?);
    let columns = (short + N - 1) / N * N;
    if needed(t, &p, |_| columns) > t.target.room() {
        t.target.crowded = true;
        return None;
    }
    let mut copies = vec![];
    let staged: Vec<(Id, Id)> = p
        .sums
        .iter()
        .map(|s| {
            let tile = staged_rows(t, g, &s.rows, &mut copies);
            (tile, staged_columns(t, g, s, p.n, columns, &mut copies))
        })
        .collect();
    let mut all = in_batches(copies);
    let layout = Layout::of(t, long, short);
    let work = Work { item, p: &p, staged: &staged };
    if let Some(accs) = t.target.carried.get(&item.buffer).map(|c| c.accs.clone()) {
        for (round, accs) in accs.chunks(layout.elements()).enumerate() {
            let round = g.int(round as i64);
            all.extend(one_round(t, g, &work, &layout, round, accs));
        }
        return Some(all);
    }
    let r = (layout.rounds > 1).then(|| t.counted(g, layout.rounds));
    let round = r.unwrap_or_else(|| g.int(0));
    let body = one_round(t, g, &work, &layout, round, &[]);
    all.extend(t.nest(g, r.as_slice(), body));
    Some(all)
}

/// An item that is to be computed, and where its factors lie.
struct Work<'w> {
    item: &'w Item,
    p: &'w Product,
    staged: &'w [(Id, Id)],
}

/// One of the elements that a lane has of a tile.
struct Spot {
    m: Id,
    n: Id,
    /// Whether there is such a column, if some are too many.
    has: Option<Id>,
}

impl Layout {
    /// For so many rows and columns.
    pub(super) fn of(t: &Tiler, long: i64, short: i64) -> Layout {
        let (tiles_m, tiles_n) = (long / M, (short + N - 1) / N);
        let warps = t.target.plan.warps;
        let side = (1..=tiles_n).rev().find(|s| tiles_n % s == 0 && tiles_m * tiles_n / s >= warps).unwrap_or(1);
        let units = tiles_m * tiles_n / side;
        Layout { short, side, across: tiles_n / side, units, rounds: (units + warps - 1) / warps }
    }

    /// Elements that a lane has in a round.
    fn elements(&self) -> usize {
        4 * self.side as usize
    }

    /// Elements that a lane has in all.
    pub(super) fn all_elements(&self) -> usize {
        self.rounds as usize * self.elements()
    }

    /// First row and column of what a warp has in a round, and whether it has something, if some have nothing.
    fn place(&self, t: &Tiler, g: &mut Graph, round: Id) -> (Id, Id, Option<Id>) {
        let warps = t.target.plan.warps;
        let first = by(g, BinOp::Mul, round, warps);
        let unit = g.add(first, t.target.warp);
        let some = (self.units % warps != 0).then(|| by(g, BinOp::Lt, unit, self.units));
        let m = by(g, BinOp::Div, unit, self.across);
        let n = by(g, BinOp::Mod, unit, self.across);
        (by(g, BinOp::Mul, m, M), by(g, BinOp::Mul, n, self.side * N), some)
    }

    /// The elements that a lane has of the tiles that begin there.
    fn spots(&self, t: &Tiler, g: &mut Graph, m: Id, n: Id) -> Vec<Spot> {
        let (row, column) = in_tile(t, g);
        let (m, n) = (g.add(m, row), g.add(n, column));
        let spot = |i: i64| {
            let (m, n) = (by(g, BinOp::Add, m, i % 4 / 2 * 8), by(g, BinOp::Add, n, i / 4 * N + i % 2));
            Spot { m, n, has: (self.short % N != 0).then(|| by(g, BinOp::Lt, n, self.short)) }
        };
        (0..4 * self.side).map(spot).collect()
    }

    /// Statements for each element of a lane, in the order of the registers that keep them.
    pub(super) fn each(
        &self,
        t: &Tiler,
        g: &mut Graph,
        mut statement: impl FnMut(&mut Graph, Id, Id, usize) -> Id,
    ) -> Vec<Id> {
        let (mut all, mut number) = (vec![], 0);
        for round in 0..self.rounds {
            let round = g.int(round);
            let (m, n, some) = self.place(t, g, round);
            let mut body = vec![];
            for spot in self.spots(t, g, m, n) {
                let one = statement(g, spot.m, spot.n, number);
                body.extend(t.only(g, spot.has, vec![one]));
                number += 1;
            }
            all.extend(t.only(g, some, body));
        }
        all
    }
}

/// Whether an item is a product into its own elements: the dimensions of its rows and columns.
pub(super) fn updates(g: &mut Graph, item: &Item) -> Option<(Id, Id)> {
    let p = product(g, item, true)?;
    let mut loads = vec![];
    collect_loads(g, item.value, &mut loads);
    loads.iter().any(|&l| g.src(l)[0] == item.buffer).then_some((p.m, p.n))
}

/// Statements for the tiles that a warp has in a round; the elements go to registers, if there are some for them.
fn one_round(t: &mut Tiler, g: &mut Graph, w: &Work, layout: &Layout, round: Id, accs: &[Id]) -> Vec<Id> {
    let (m, n, some) = layout.place(t, g, round);
    let mut body = vec![];
    let mut results = vec![];
    for (s, &(tile, column)) in w.p.sums.iter().zip(w.staged) {
        results.push(summed(t, g, s, tile, column, (m, n, layout.side), &mut body));
    }
    for (i, spot) in layout.spots(t, g, m, n).into_iter().enumerate() {
        let sums: Vec<&[Id]> = results.iter().map(|r| &r[i / 4][..]).collect();
        let one = element(t, g, w, &sums, i % 4, &spot, accs.get(i).copied());
        body.extend(t.only(g, spot.has, vec![one]));
    }
    t.only(g, some, body)
}

/// Row and column of the first element that a lane has of a tile.
pub(super) fn in_tile(t: &Tiler, g: &mut Graph) -> (Id, Id) {
    let (row, column) = (by(g, BinOp::Div, t.target.lane, 4), by(g, BinOp::Mod, t.target.lane, 4));
    (row, by(g, BinOp::Mul, column, 2))
}

/// Distance of rows in shared memory.
pub(super) fn pitch(columns: i64) -> i64 {
    columns + WIDE
}

/// The tile of some rows in shared memory; the statements that copy it, unless it is there.
fn staged_rows(t: &mut Tiler, g: &mut Graph, rows: &Rows, all: &mut Copies) -> Id {
    if let Some(&tile) = t.target.staged.tiles.get(rows) {
        return tile;
    }
    let tile = tile_of(t, g, rows);
    // What is computed of loads is computed when they have come.
    let copies = t.in_turns(g, rows.rows * rows.columns / WIDE, |t, g, at| {
        let (value, place) = of_row(g, rows, at, t.target.plan.widest);
        let accs: Vec<(Id, Id)> =
            outermost_loads(g, value).into_iter().map(|load| (t.acc(g, g.ty(load)), load)).collect();
        let mut map = accs.iter().map(|&(acc, load)| (load, acc)).collect();
        let value = g.substitute(value, &mut map);
        let set = t.set(g, accs);
        (vec![set], vec![g.make(Op::Store, DType::Index, vec![], vec![tile, place, value])])
    });
    all.extend(copies);
    tile
}

/// The tile of some rows in shared memory.
pub(super) fn tile_of(t: &mut Tiler, g: &mut Graph, rows: &Rows) -> Id {
    if let Some(&tile) = t.target.staged.tiles.get(rows) {
        return tile;
    }
    let tile = t.stash(g, DType::F16, (rows.rows * pitch(rows.columns)) as usize);
    t.target.staged.tiles.insert(rows.clone(), tile);
    tile
}

/// Statements that copy rows to their tile as they lie, with no value in between: on their way until the next barrier.
pub(super) fn sent(t: &mut Tiler, g: &mut Graph, rows: &Rows, tile: Id) -> Vec<Id> {
    let copies = t.in_turns(g, rows.rows * rows.columns / WIDE, |t, g, at| {
        let (value, place) = of_row(g, rows, at, t.target.plan.widest);
        (vec![], vec![g.make(Op::Store, DType::Index, vec![], vec![tile, place, value])])
    });
    copies.into_iter().flat_map(|(_, stores)| stores).collect()
}

/// The wide value of some rows of this number, and its place in their tile.
fn of_row(g: &mut Graph, rows: &Rows, at: Id, widest: usize) -> (Id, Id) {
    let across = rows.columns / WIDE;
    let (row, column) = (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across));
    let column = by(g, BinOp::Mul, column, WIDE);
    let to = by(g, BinOp::Mul, row, pitch(rows.columns));
    let value = wide_value(g, rows, [row, column], widest);
    (value, g.add(to, column))
}

/// The halves of a row from a column on.
pub(super) fn wide_value(g: &mut Graph, rows: &Rows, [row, column]: [Id; 2], widest: usize) -> Id {
    match rows.from {
        Source::Memory { buffer, first, stride } => {
            let from = by(g, BinOp::Mul, row, stride);
            let from = g.add(from, column);
            let from = g.add(first, from);
            g.load(buffer, from, WIDE as usize)
        }
        Source::Computed(value) => {
            let place = Source::place(g, rows.rows, rows.columns);
            let lanes = neighbours(g, value, place, [row, column]);
            joined(g, lanes, widest)
        }
    }
}

/// The columns of a sum as halves in shared memory, and the statements that write them: before the loop of the phase
/// where that changes nothing.
pub(super) fn staged_columns(t: &mut Tiler, g: &mut Graph, s: &Sum, n: Id, columns: i64, all: &mut Copies) -> Id {
    let length = s.length();
    let place = t.stash(g, DType::F16, (columns * pitch(length)) as usize);
    let short = extent(g, n).unwrap_or(columns);
    let (across, widest) = (length / WIDE, t.target.plan.widest);
    let halves = g.cast(s.column, DType::F16);
    let mut loads = vec![];
    collect_loads(g, s.column, &mut loads);
    // Neighbouring lanes read what lies side by side.
    let beside = loads.iter().any(|&l| Linear::of(g, g.src(l)[1]).coefficient(n) == 1);
    let copies = copied(t, g, short * across, place, |g, at| {
        let (column, part) = match beside {
            true => (by(g, BinOp::Mod, at, short), by(g, BinOp::Div, at, short)),
            false => (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across)),
        };
        let part = by(g, BinOp::Mul, part, WIDE);
        let to = by(g, BinOp::Mul, column, pitch(length));
        let lanes = neighbours(g, halves, [n, s.k], [column, part]);
        (joined(g, lanes, widest), g.add(to, part))
    });
    let early = loads.iter().all(|&l| outside(g, l));
    match t.target.staged.serial {
        Some(r) if early && !depends(g, s.column, r) => t.target.staged.before.extend(copies),
        _ => all.extend(copies),
    }
    place
}

/// What threads copy if they take `count` wide values in turns; `each` gives a value and its place.
pub(super) fn copied(
    t: &mut Tiler,
    g: &mut Graph,
    count: i64,
    to: Id,
    mut each: impl FnMut(&mut Graph, Id) -> (Id, Id),
) -> Copies {
    t.in_turns(g, count, |t, g, at| {
        let (value, place) = each(g, at);
        let acc = t.acc(g, g.ty(value));
        let set = t.set(g, vec![(acc, value)]);
        (vec![set], vec![g.make(Op::Store, DType::Index, vec![], vec![to, place, acc])])
    })
}

/// Statements that copy: the loads of a batch before its stores.
pub(super) fn in_batches(copies: Copies) -> Vec<Id> {
    let mut all = vec![];
    for batch in copies.chunks(BATCH) {
        all.extend(batch.iter().flat_map(|c| &c.0));
        all.extend(batch.iter().flat_map(|c| &c.1));
    }
    all
}

/// The sums of some tiles of the result: for each, fragments to be added.
fn summed(
    t: &mut Tiler,
    g: &mut Graph,
    s: &Sum,
    tile: Id,
    column: Id,
    (m, n, side): (Id, Id, i64),
    body: &mut Vec<Id>,
) -> Vec<Vec<Id>> {
    let length = s.length();
    let steps = length / K;
    // Two chains of products hide what one waits for; tiles side by side are chains as well.
    let chains = if side == 1 && steps % 2 == 0 { 2 } else { 1 };
    let ty = Type::vector(DType::F32, 4);
    let none = zero(g, ty);
    let accs: Vec<Vec<Id>> = (0..side).map(|_| (0..chains).map(|_| t.acc(g, ty)).collect()).collect();
    let begin = accs.iter().flatten().map(|&a| (a, none)).collect();
    body.push(t.set(g, begin));
    let r = (steps > chains).then(|| t.counted(g, steps / chains));
    let step = match r {
        Some(r) => by(g, BinOp::Mul, r, chains * K),
        None => g.int(0),
    };
    let lane = t.target.lane;
    let (upper, half) = (by(g, BinOp::Div, lane, 16), by(g, BinOp::Div, lane, 8));
    let (low8, low16) = (by(g, BinOp::Mod, lane, 8), by(g, BinOp::Mod, lane, 16));
    let (upper, half) = (by(g, BinOp::Mul, upper, WIDE), by(g, BinOp::Mod, half, 2));
    let half = by(g, BinOp::Mul, half, WIDE);
    let mut pairs = vec![];
    for chain in 0..chains {
        let k = by(g, BinOp::Add, step, chain * K);
        let (row, at) = match s.across {
            false => (g.add(m, low16), g.add(k, upper)),
            true => {
                let row = g.add(k, low8);
                (g.add(row, upper), g.add(m, half))
            }
        };
        let rows = fragment(g, tile, (row, at), pitch(s.rows.columns), 4, s.across);
        for part in 0..side {
            let first = by(g, BinOp::Add, n, part * N);
            let (row, at) = (g.add(first, low8), g.add(k, half));
            let columns = fragment(g, column, (row, at), pitch(length), 2, false);
            let acc = accs[part as usize][chain as usize];
            pairs.push((acc, g.make(Op::WarpProduct, ty, vec![], vec![acc, rows, columns])));
        }
    }
    let round = t.set(g, pairs);
    body.extend(t.nest(g, r.as_slice(), vec![round]));
    accs
}

/// Bytes of a row of a matrix that a warp loads.
const ROW_BYTES: usize = 16;

/// A fragment of so many matrices in shared memory: this row, from element `at` on.
pub(super) fn fragment(
    g: &mut Graph,
    buffer: Id,
    (row, at): (Id, Id),
    pitch: i64,
    matrices: i64,
    transposed: bool,
) -> Id {
    let row = by(g, BinOp::Mul, row, pitch);
    let (index, ty) = (g.add(row, at), g.dtype(buffer));
    let load = g.load(buffer, index, ROW_BYTES / ty.bytes());
    // Four bytes of each for a lane.
    let lanes = matrices as usize * 4 / ty.bytes();
    g.make(Op::Fragment { transposed }, Type::vector(ty, lanes), vec![], vec![load])
}

/// A statement that computes an element of a tile that a lane has sums of: the one of this number.
fn element(t: &mut Tiler, g: &mut Graph, w: &Work, sums: &[&[Id]], number: usize, spot: &Spot, acc: Option<Id>) -> Id {
    let (item, p) = (w.item, w.p);
    let mut map = FxHashMap::from_iter([(p.m, spot.m), (p.n, spot.n)]);
    for (s, chains) in p.sums.iter().zip(sums) {
        let each: Vec<Id> =
            chains.iter().map(|&acc| g.make(Op::Extract(number as u16), DType::F32, vec![], vec![acc])).collect();
        if let Some(total) = each.into_iter().reduce(|a, b| g.add(a, b)) {
            map.insert(s.reduce, total);
        }
    }
    if let Some(acc) = acc {
        return set_element(t, g, item, acc, map);
    }
    let (value, index) = (g.substitute(item.value, &mut map), g.substitute(item.index, &mut map));
    t.store(g, item.buffer, index, value)
}

/// A statement that leaves an element of an item in a register, which stands for what the item reads of it.
pub(super) fn set_element(t: &Tiler, g: &mut Graph, item: &Item, acc: Id, mut map: FxHashMap<Id, Id>) -> Id {
    let mut loads = vec![];
    collect_loads(g, item.value, &mut loads);
    map.extend(loads.into_iter().filter(|&l| g.src(l)[0] == item.buffer).map(|l| (l, acc)));
    let value = g.substitute(item.value, &mut map);
    t.set(g, vec![(acc, value)])
}

//! Products of matrices that a warp multiplies as a whole: the sums of [`matrix`] where no lane
//! knows which elements it has.
//!
//! Rows of halves and columns are copied to shared memory, as many elements of the sum at once as there is room for, and each
//! warp adds to some tiles of 16 by 16. Rows that only one tile of columns reads are multiplied from where they lie: the heads
//! of one token need a page of the cache only once. What they come to is stored through shared memory, tile by tile, and lanes
//! compute the elements of the item from there, or add them to registers ([`carried`](crate::gpu::carried)). Sums that are only
//! added to each other are one. What this path cannot do: few columns, for which a tile takes as long as for 16.

use crate::gpu::batch::Batch;
use crate::gpu::cooperative::{SIDE, STORED, elements, own, stored, sums, turns};
use crate::gpu::int_tile::MOST;
use crate::gpu::matrix::{self, Product, Sum, WIDE, extent, pitch};
use crate::gpu::places::{Copies, Source, Tiles, Turn};
use crate::gpu::plan::GpuPlan;
use crate::gpu::threads::Tiler;
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::{by, zero};
use crate::lower::{Item, Nest};
use ir::index::Linear;
use ir::{BinOp, DType, Graph, Id, Op};
use rustc_hash::FxHashMap;

/// Elements of a sum that lie in shared memory at once at most: more of them leave no room for scores, or for a second sum.
const LONGEST: i64 = 32;

/// Columns at least: a tile takes as long however few of them there are.
const LEAST: i64 = 4;

/// Halves of columns that lie in shared memory at once at most, where rows are multiplied from where they lie: three eighths of
/// it, as scores and tiles need the rest.
fn most_columns(plan: &GpuPlan) -> i64 {
    plan.shared as i64 * 3 / 8 / DType::F16.bytes() as i64
}

/// Whether an item is made of products that this path takes.
pub(super) fn is_product(g: &mut Graph, item: &Item, plan: &GpuPlan) -> bool {
    product(g, item, plan).is_some()
}

/// The products of an item.
struct Products {
    p: Product,
    /// Rows and columns.
    long: i64,
    short: i64,
    totals: Vec<Total>,
}

/// A sum of products, or several that are only added to each other.
struct Total {
    /// What it is in the value of the item.
    value: Id,
    /// Which of the sums it is made of.
    sums: Vec<usize>,
}

/// The products of an item, if this path takes them.
fn product(g: &mut Graph, item: &Item, plan: &GpuPlan) -> Option<Products> {
    if !plan.cooperative {
        return None;
    }
    let p = matrix::product(g, item, true)?;
    let (long, short) = (extent(g, p.m)?, extent(g, p.n)?);
    let tiles = long * filled(short) / (SIDE * SIDE);
    let each = (tiles + plan.product_warps - 1) / plan.product_warps;
    let totals = totals(g, item.value, &p);
    let fits = short >= LEAST && each * (SIDE / 2) * totals.len() as i64 <= MOST;
    fits.then_some(Products { p, long, short, totals })
}

/// The sums of a value, those together that are only added to each other.
fn totals(g: &Graph, value: Id, p: &Product) -> Vec<Total> {
    let one = |(i, sum): (usize, &Sum)| Total { value: sum.reduce, sums: vec![i] };
    let mut all: Vec<Total> = p.sums.iter().enumerate().map(one).collect();
    let order = g.toposort(&[value]);
    let users = |id: Id| order.iter().filter(|&&user| g.src(user).contains(&id)).count();
    for &id in order.iter().filter(|&&id| *g.op(id) == Op::Binary(BinOp::Add)) {
        let place = |value: Id| all.iter().position(|total| total.value == value && users(value) == 1);
        if let [a, b] = *g.src(id)
            && let (Some(a), Some(b)) = (place(a), place(b))
            && a != b
        {
            let sums = [a, b].iter().flat_map(|&i| all[i].sums.clone()).collect();
            all[a.min(b)] = Total { value: id, sums };
            all.remove(a.max(b));
        }
    }
    all
}

/// A number of columns, with those that fill up the last tile.
fn filled(short: i64) -> i64 {
    (short + SIDE - 1) / SIDE * SIDE
}

/// Whether a kernel only reads a buffer.
fn read_only(g: &Graph, buffer: Id) -> bool {
    matches!(*g.op(buffer), Op::Buffer { space, .. } if space.is_read_only())
}

/// Rows that are multiplied from where they lie: one tile of columns needs each of them only once.
struct Lying {
    buffer: Id,
    first: Id,
    stride: i64,
}

impl Lying {
    fn of(g: &Graph, s: &Sum, short: i64) -> Option<Lying> {
        match s.rows.from {
            Source::Memory { buffer, first, stride } if filled(short) == SIDE && read_only(g, buffer) => {
                Some(Lying { buffer, first, stride })
            }
            _ => None,
        }
    }
}

/// Elements of a sum that lie in shared memory at once.
fn part(g: &Graph, s: &Sum, short: i64, plan: &GpuPlan) -> i64 {
    let length = s.length();
    let fits = |part: i64| match Lying::of(g, s, short) {
        Some(_) => filled(short) * pitch(part) <= most_columns(plan),
        None => part <= LONGEST,
    };
    (1..=length / matrix::K)
        .map(|n| n * matrix::K)
        .rev()
        .find(|&part| length % part == 0 && fits(part))
        .unwrap_or(length)
}

/// Halves that the rows and the columns of a sum take at most, which follow each other.
fn halves(g: &Graph, p: &Product, [long, short]: [i64; 2], plan: &GpuPlan) -> [i64; 2] {
    let of_rows = |s: &Sum| match Lying::of(g, s, short) {
        Some(_) => 0,
        None if s.across => part(g, s, short, plan) * pitch(long),
        None => long * pitch(part(g, s, short, plan)),
    };
    let most = |of: &dyn Fn(&Sum) -> i64| p.sums.iter().map(of).max().unwrap_or(0);
    [most(&of_rows), most(&|s| filled(short) * pitch(part(g, s, short, plan)))]
}

/// Bytes of a thread for its parts of a greatest number and of a sum: two f32 numbers.
const PARTS: usize = 8;

/// Shared memory that the products of a nest take turns with.
#[derive(Default)]
pub(super) struct Room {
    /// Totals of an item at most, of each of which a warp stores a tile.
    totals: usize,
    /// Halves of rows and of columns at most.
    pub(super) halves: [i64; 2],
}

/// What the products of a nest need.
pub(super) fn needed(g: &mut Graph, nest: &Nest, plan: &GpuPlan) -> Room {
    let mut most = Room::default();
    for item in nest.phases.iter().flat_map(|phase| &phase.items) {
        let Some(Products { p, long, short, totals }) = product(g, item, plan) else { continue };
        most.totals = most.totals.max(totals.len());
        let [rows, columns] = halves(g, &p, [long, short], plan);
        most.halves = [most.halves[0].max(rows), most.halves[1].max(columns)];
    }
    most
}

impl Room {
    /// Bytes of it, with those for parts of sums over what is multiplied next, which threads share out.
    pub(super) fn bytes(&self, plan: &GpuPlan) -> usize {
        if self.totals == 0 {
            return 0;
        }
        let parts = PARTS * plan.threads() as usize;
        let floats = self.totals * (plan.warps * STORED) as usize * DType::F32.bytes();
        let halves: i64 = self.halves.iter().sum();
        floats + halves as usize * DType::F16.bytes() + parts
    }
}

/// Statements of an item that is made of products, if it is and there is room.
pub(super) fn products(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let Products { p, long, short, totals } = product(g, item, &t.target.plan)?;
    t.attempt_near(|t| {
        let tiles = Tiles::of(t, g, item, &p, (long, short));
        let carried = t.target.carried.get(&item.buffer).map(|c| c.accs.clone());
        let floats = t.target.plan.warps * STORED;
        // Items take turns with what they ask for in the same place.
        let [rows, columns] = t.target.halves.map(|n| t.near(g, DType::F16, n));
        let places = [rows?, columns?];
        let through = totals.iter().map(|_| t.near(g, DType::F32, floats)).collect::<Option<Vec<Id>>>()?;
        let mut all = vec![];
        let mut stored = vec![];
        for (total, through) in totals.iter().zip(through) {
            let accs = tiles.accs(t, g, &mut all);
            for &i in &total.sums {
                all.extend(tiles.added(t, g, &p.sums[i], p.n, places, &accs));
            }
            stored.push((total.value, through, accs));
        }
        let to = Elements { item, p: &p, sums: &stored, carried: carried.as_deref() };
        tiles.elements(t, g, &to, &mut all);
        Some(all)
    })
}

/// Where rows are multiplied from.
struct RowsAt {
    buffer: Id,
    /// Where the first of them begins, and which element of the sum is multiplied first, unless they were copied.
    first: Option<(Id, Id)>,
    pitch: i64,
}

/// The tiles of what an item is made of, if this path takes it.
pub(super) fn tiles(t: &Tiler, g: &mut Graph, item: &Item) -> Option<Tiles> {
    let Products { p, long, short, .. } = product(g, item, &t.target.plan)?;
    Some(Tiles::of(t, g, item, &p, (long, short)))
}

/// What becomes of the sums of an item.
struct Elements<'e> {
    item: &'e Item,
    p: &'e Product,
    /// A total, where a warp stores a tile of it, and its sums.
    sums: &'e [(Id, Id, Vec<Id>)],
    /// The registers that keep the elements, if they stay there.
    carried: Option<&'e [Id]>,
}

impl Tiles {
    fn of(t: &Tiler, g: &Graph, item: &Item, p: &Product, (long, short): (i64, i64)) -> Tiles {
        let (across, warps) = (filled(short) / SIDE, t.target.plan.warps);
        let all = long / SIDE * across;
        // Lanes store neighbours.
        let along = Linear::of(g, item.index).coefficient(p.n) == 1;
        let turn = if along { Turn::AlongRows } else { Turn::DownColumns(1) };
        Tiles { long, short, across, each: (all + warps - 1) / warps, all, turn }
    }

    /// Elements that a lane takes in all.
    pub(super) fn all_elements(&self, t: &Tiler) -> usize {
        self.each as usize * turns(t, 1).count()
    }

    /// Statements for each element that a lane takes, in the order of the registers that keep them.
    pub(super) fn each(
        &self,
        t: &Tiler,
        g: &mut Graph,
        mut statement: impl FnMut(&mut Graph, Id, Id, usize) -> Id,
    ) -> Vec<Id> {
        let (own, mut all, mut element) = (own(t, g), vec![], 0);
        for number in 0..self.each {
            let (m, n, some) = self.place(t, g, number);
            let mut body = vec![];
            for of_lane in turns(t, 1) {
                let (row, column, _) = elements(t, g, own, of_lane, self.turn);
                let (row, column) = (g.add(m, row), g.add(n, column));
                let one = statement(g, row, column, element);
                let has = self.has(g, column);
                body.extend(t.only(g, has, vec![one]));
                element += 1;
            }
            all.extend(t.only(g, some, body));
        }
        all
    }

    /// Whether there is such a column, if some fill up the last tile.
    fn has(&self, g: &mut Graph, column: Id) -> Option<Id> {
        (self.short % SIDE != 0).then(|| by(g, BinOp::Lt, column, self.short))
    }

    /// First row and first column of the tile of this number of a warp, and whether there is one, if some have none.
    fn place(&self, t: &Tiler, g: &mut Graph, number: i64) -> (Id, Id, Option<Id>) {
        let first = by(g, BinOp::Mul, t.target.warp, self.each);
        let tile = by(g, BinOp::Add, first, number);
        let ragged = self.each * t.target.plan.warps != self.all;
        let some = ragged.then(|| by(g, BinOp::Lt, tile, self.all));
        // Tiles of a warp in one row share what they read of it.
        let in_row = self.across % self.each == 0;
        let at = if in_row { first } else { tile };
        let (m, n) = (by(g, BinOp::Div, at, self.across), by(g, BinOp::Mod, at, self.across));
        let n = if in_row { by(g, BinOp::Add, n, number) } else { n };
        (by(g, BinOp::Mul, m, SIDE), by(g, BinOp::Mul, n, SIDE), some)
    }

    /// Sums of the tiles of a warp, which begin with nothing.
    fn accs(&self, t: &mut Tiler, g: &mut Graph, all: &mut Vec<Id>) -> Vec<Id> {
        let accs: Vec<Id> = (0..self.each).map(|_| t.acc(g, sums())).collect();
        let none = zero(g, sums());
        all.push(t.set(g, accs.iter().map(|&acc| (acc, none)).collect()));
        accs
    }

    /// Adds a sum to those of the tiles of a warp; its rows and columns are copied to these places.
    fn added(&self, t: &mut Tiler, g: &mut Graph, s: &Sum, n: Id, [rows, columns]: [Id; 2], accs: &[Id]) -> Vec<Id> {
        let (length, part) = (s.length(), part(g, s, self.short, &t.target.plan));
        let lying = Lying::of(g, s, self.short);
        let r = (length > part).then(|| t.counted(g, length / part));
        let first = match r {
            Some(r) => by(g, BinOp::Mul, r, part),
            None => g.int(0),
        };
        let mut copies = if lying.is_some() { Copies::default() } else { self.copied_rows(t, g, s, rows, first) };
        copies.extend(self.copied_columns(t, g, s, n, columns, first));
        let mut body = matrix::in_batches(copies);
        let rows = match lying {
            Some(lying) => RowsAt { buffer: lying.buffer, first: Some((lying.first, first)), pitch: lying.stride },
            None => RowsAt { buffer: rows, first: None, pitch: pitch(if s.across { self.long } else { part }) },
        };
        body.extend(self.multiplied(t, g, s, &rows, columns, accs));
        t.nest(g, r.as_slice(), body)
    }

    /// Copies of the rows of a sum, from this element of it on.
    fn copied_rows(&self, t: &mut Tiler, g: &mut Graph, s: &Sum, to: Id, first: Id) -> Copies {
        let part = part(g, s, self.short, &t.target.plan);
        let (rows, columns) = if s.across { (part, self.long) } else { (self.long, part) };
        let widest = t.target.plan.widest;
        matrix::copied(t, g, rows * columns / WIDE, to, |g, at| {
            let across = columns / WIDE;
            let (row, column) = (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across));
            let column = by(g, BinOp::Mul, column, WIDE);
            let place = by(g, BinOp::Mul, row, pitch(columns));
            let place = g.add(place, column);
            let (row, column) = if s.across { (g.add(row, first), column) } else { (row, g.add(column, first)) };
            (matrix::wide_value(g, &s.rows, [row, column], widest), place)
        })
    }

    /// Copies of the columns of a sum as halves, likewise.
    fn copied_columns(&self, t: &mut Tiler, g: &mut Graph, s: &Sum, n: Id, to: Id, first: Id) -> Copies {
        let (part, widest) = (part(g, s, self.short, &t.target.plan), t.target.plan.widest);
        let halves = g.cast(s.column, DType::F16);
        matrix::copied(t, g, self.short * part / WIDE, to, |g, at| {
            let across = part / WIDE;
            let (column, k) = (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across));
            let k = by(g, BinOp::Mul, k, WIDE);
            let place = by(g, BinOp::Mul, column, pitch(part));
            let place = g.add(place, k);
            let k = g.add(k, first);
            let lanes = matrix::neighbours(g, halves, [n, s.k], [column, k]);
            (matrix::joined(g, lanes, widest), place)
        })
    }

    /// What is in shared memory, multiplied and added.
    fn multiplied(&self, t: &mut Tiler, g: &mut Graph, s: &Sum, rows: &RowsAt, columns: Id, accs: &[Id]) -> Vec<Id> {
        let part = part(g, s, self.short, &t.target.plan);
        let step = t.counted(g, part / matrix::K);
        let k = by(g, BinOp::Mul, step, matrix::K);
        let lane = t.target.lane;
        let [upper, eights] = [16, 8].map(|n| by(g, BinOp::Div, lane, n));
        let [low16, low8] = [16, 8].map(|n| by(g, BinOp::Mod, lane, n));
        let half = by(g, BinOp::Mod, eights, 2);
        let [upper, half] = [upper, half].map(|eights| by(g, BinOp::Mul, eights, 8));
        let mut body = vec![];
        // Loads of several rounds are on their way at once where no round has a condition of its own.
        let alone = if let [_] = accs { self.place(t, g, 0).2 } else { None };
        for (number, &acc) in accs.iter().enumerate() {
            let (m, n, some) = self.place(t, g, number as i64);
            let (mut row, mut at) = match s.across {
                false => (g.add(m, low16), g.add(k, upper)),
                true => {
                    let row = g.add(k, low8);
                    (g.add(row, upper), g.add(m, half))
                }
            };
            if let Some((begin, element)) = rows.first {
                let along = if s.across { &mut row } else { &mut at };
                *along = g.add(*along, element);
                at = g.add(at, begin);
            }
            let left = matrix::fragment(g, rows.buffer, (row, at), rows.pitch, 4, s.across);
            let column = g.add(n, upper);
            let at = (g.add(column, low8), g.add(k, half));
            let right = matrix::fragment(g, columns, at, pitch(part), 4, false);
            let product = g.make(Op::WarpProduct, sums(), vec![], vec![acc, left, right]);
            let set = t.set(g, vec![(acc, product)]);
            body.extend(t.only(g, some.filter(|_| alone.is_none()), vec![set]));
        }
        let rounds = make_loop(g, step, body);
        t.only(g, alone, vec![rounds])
    }

    /// The elements of an item, of whose sums each has a place that a warp stores a tile to.
    fn elements(&self, t: &mut Tiler, g: &mut Graph, to: &Elements, all: &mut Vec<Id>) {
        let Elements { item, p, sums, carried } = *to;
        let (own, mut element) = (own(t, g), 0);
        for number in 0..self.each {
            let (m, n, some) = self.place(t, g, number);
            let stores =
                sums.iter().map(|(_, through, accs)| stored(g, *through, own, accs[number as usize])).collect();
            all.extend(t.only(g, some, stores));
            let (mut batch, mut kept) = (Batch::default(), vec![]);
            for of_lane in turns(t, 1) {
                let (row, column, from) = elements(t, g, own, of_lane, self.turn);
                let (row, column) = (g.add(m, row), g.add(n, column));
                let has = self.has(g, column);
                let mut map = FxHashMap::from_iter([(p.m, row), (p.n, column)]);
                map.extend(sums.iter().map(|&(total, through, _)| (total, g.load(through, from, 1))));
                match carried {
                    Some(accs) => {
                        let one = matrix::set_element(t, g, item, accs[element], map);
                        kept.extend(t.only(g, has, vec![one]));
                    }
                    None => {
                        let (value, index) = (g.substitute(item.value, &mut map), g.substitute(item.index, &mut map));
                        batch.store_if(t, g, has, (item.buffer, index, value));
                    }
                }
                element += 1;
            }
            kept.extend(batch.statements());
            all.extend(t.only(g, some, kept));
        }
    }
}

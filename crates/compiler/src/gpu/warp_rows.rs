//! Loops that go row by row: each warp has 16 rows of all that a round computes.
//!
//! Attention of several tokens is such a loop: scores of a page of positions, their greatest, exponentials, their sum, and
//! weighted sums of values are matrices and columns with a row for each token. What a product of a warp leaves in a
//! fragment is kept there: four lanes have a row, two elements of each tile of 8 columns. Elements are computed where they
//! lie, sums along a row are made by those four lanes, and a result becomes the first factor of the next product as it
//! lies in the registers (FlashAttention-2, arXiv 2307.08691, section 3.3). So threads wait for each other only for the
//! second factors, which they copy to shared memory together.
//!
//! What this cannot do: rows of no known number or no multiple of 16, items that combine rows, and more elements than a
//! thread has registers for.

use crate::gpu::carried::follows;
use crate::gpu::fold::same_index;
use crate::gpu::matrix::{self, K, M, N, Product, Sum};
use crate::gpu::places::{Carrier, Copies, Fragments, RowLayout, Rows, Source};
use crate::gpu::threads::Tiler;
use crate::kernel::expression::{by, combine, has_reduction, is_scratch, loads_of, reads, reads_scratch, zero};
use crate::lower::{Item, identity};
use ir::index::Linear;
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, Type};
use rustc_hash::FxHashMap;

/// Elements of carriers that a lane keeps at most, and tiles of sums beside them.
const MOST: i64 = 128;
const TILES: usize = 8;

/// How an item is computed.
enum Form {
    /// Sums of products, perhaps with something done to them.
    Product(Product),
    /// Something along rows, by a range.
    Along(ReduceOp, Id),
    /// Each element for itself.
    Map,
}

/// An item whose results lie in registers.
struct RowsStep {
    item: Item,
    row: Id,
    column: Option<Id>,
    form: Form,
}

/// Scratch that lies in registers: by how much its index grows with a row and a column, and the registers. Of a column of
/// one element a row, those of two rows; of a matrix, four for each tile.
struct Stash {
    by_row: i64,
    by_column: Option<i64>,
    accs: Vec<Id>,
    columns: i64,
}

/// A loop that goes row by row.
pub(super) struct RowsPlan {
    rows: i64,
    steps: Vec<RowsStep>,
    stashes: FxHashMap<Id, Stash>,
    /// Columns of one element a row that are read before they are written, or that others read: they lie in shared memory
    /// before and after the loop.
    outside: Vec<Id>,
}

/// The rows of a loop that goes row by row, if it may be one.
pub(super) fn rows_of(g: &mut Graph, items: &[Item]) -> Option<i64> {
    items.iter().find_map(|item| {
        let p = matrix::product(g, item, true)?;
        let chained = p.sums.iter().any(|s| reads_scratch(g, s.column));
        let rows = matrix::extent(g, p.n)?;
        (chained && rows % M == 0 && rows / M >= LEAST).then_some(rows)
    })
}

/// Warps of a block at least.
const LEAST: i64 = 4;

/// Plans a phase of a nest, and lets what it carries lie in fragments, if it is such a loop.
pub(super) fn plan(
    t: &mut Tiler,
    g: &mut Graph,
    phases: &[(Option<Id>, Vec<Item>)],
    number: usize,
) -> Option<RowsPlan> {
    let (Some(_), items) = &phases[number] else { return None };
    let rows = rows_of(g, items)?;
    if rows / M > t.target.plan.warps {
        return None;
    }
    let mut plan = RowsPlan { rows, steps: vec![], stashes: FxHashMap::default(), outside: vec![] };
    for item in items {
        let step = plan.step(g, item)?;
        plan.keep(t, g, &step)?;
        plan.steps.push(step);
    }
    let others: Vec<&Item> =
        phases.iter().enumerate().filter(|(n, _)| *n != number).flat_map(|(_, phase)| &phase.1).collect();
    let mut carried = 0;
    let mut kept: Vec<Id> = plan.stashes.keys().copied().collect();
    kept.sort_unstable();
    for buffer in kept {
        let touched = others.iter().any(|o| o.buffer == buffer || reads(g, o, buffer));
        let stash = &plan.stashes[&buffer];
        let before = plan.is_read_before(g, buffer);
        if !touched && before {
            return None;
        }
        if !touched {
            t.in_registers(g, buffer);
            continue;
        }
        let Some(_) = stash.by_column else {
            plan.outside.push(buffer);
            continue;
        };
        let update = plan.steps.iter().find(|s| s.item.buffer == buffer)?;
        let touching = others.iter().filter(|o| o.buffer == buffer || reads(g, o, buffer)).copied();
        let touching: Vec<&Item> = touching.collect();
        let alone = |o: &&Item| {
            loads_of(g, o).iter().all(|&l| {
                let read = g.src(l)[0];
                read == buffer || plan.stashes.get(&read).is_none_or(|s| s.by_column.is_none())
            })
        };
        if !touching.iter().all(alone) || !touching.iter().all(|o| follows(g, o, &update.item)) {
            return None;
        }
        carried += stash.accs.len() as i64;
        let layout = RowLayout { rows, columns: stash.columns };
        let rows_first = update.item.dims[0] == update.row;
        let carrier = Carrier { accs: stash.accs.clone(), layout: Fragments::Rows(layout), rows_first };
        t.carry(g, buffer, carrier);
    }
    (carried <= MOST).then_some(plan)
}

impl RowsPlan {
    /// The path of each item.
    pub(super) fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.steps.iter().map(|s| if let Form::Product(_) = s.form { "warp product" } else { "warp rows" })
    }

    /// How an item is computed, if it goes row by row.
    fn step(&self, g: &mut Graph, item: &Item) -> Option<RowsStep> {
        let has = |g: &Graph, d: Id| g.as_int(g.src(d)[0]) == Some(self.rows);
        let step = |row, column, form| RowsStep { item: item.clone(), row, column, form };
        if !is_scratch(g, item.buffer) || !g.dtype(item.buffer).is_float() {
            return None;
        }
        let candidates = match item.dims[..] {
            [row] => match (g.op(item.value).clone(), g.src(item.value)) {
                (Op::Reduce(op, _), &[body, range]) if !has_reduction(g, body) => {
                    let whole = matrix::extent(g, range).is_some_and(|n| n % N == 0);
                    if whole { vec![step(row, None, Form::Along(op, range))] } else { vec![] }
                }
                _ if has_reduction(g, item.value) => vec![],
                _ => vec![step(row, None, Form::Map)],
            },
            [a, b] if has_reduction(g, item.value) => {
                let p = matrix::product(g, item, true)?;
                let (row, column) = (p.n, p.m);
                debug_assert!([a, b].contains(&row));
                vec![step(row, Some(column), Form::Product(p))]
            }
            [a, b] => vec![step(a, Some(b), Form::Map), step(b, Some(a), Form::Map)],
            _ => vec![],
        };
        let mut fitting = candidates.into_iter().filter(|s| has(g, s.row) && self.finds_all(g, s));
        let (Some(one), None) = (fitting.next(), fitting.next()) else { return None };
        Some(one)
    }

    /// Whether all scratch that a step reads is that of its own row, where it lies.
    fn finds_all(&self, g: &Graph, step: &RowsStep) -> bool {
        let along = match &step.form {
            Form::Product(p) => {
                // Rows of the next round are copied in this one, so what is computed cannot say where they lie.
                let known = |s: &Sum| matches!(s.rows.from, Source::Memory { first, .. } if !reads_scratch(g, first));
                let factors = p.sums.iter().all(|s| known(s) && self.all_own(g, step, s.column, Some(s.k), &[]));
                // What lies beside the sums.
                let sums: Vec<Id> = p.sums.iter().map(|s| s.reduce).collect();
                return factors && self.all_own(g, step, step.item.value, step.column, &sums);
            }
            Form::Along(_, range) => Some(*range),
            Form::Map => step.column,
        };
        self.all_own(g, step, step.item.value, along, &[])
    }

    /// The same of a value along these columns, but for what is within others.
    fn all_own(&self, g: &Graph, step: &RowsStep, value: Id, column: Option<Id>, but: &[Id]) -> bool {
        scratch_loads(g, value, but).iter().all(|&l| {
            let (buffer, index) = (g.src(l)[0], g.src(l)[1]);
            let at = Linear::of(g, index);
            match self.stashes.get(&buffer) {
                Some(s) => at_own(&at, step.row, column, s.by_row, s.by_column),
                None if buffer == step.item.buffer => same_index(g, index, step.item.index),
                // One element a row, of which nothing is known yet.
                None => at_own(&at, step.row, column, 1, None),
            }
        })
    }

    /// Notes what a step reads and writes.
    fn keep(&mut self, t: &mut Tiler, g: &mut Graph, step: &RowsStep) -> Option<()> {
        let loads = scratch_loads(g, step.item.value, &[]);
        let read = loads.into_iter().map(|l| g.src(l)[0]).filter(|b| *b != step.item.buffer);
        for buffer in read.collect::<Vec<_>>() {
            self.stashes.entry(buffer).or_insert_with(|| {
                let accs = (0..2).map(|_| t.acc(g, g.dtype(buffer))).collect();
                Stash { by_row: 1, by_column: None, accs, columns: 1 }
            });
        }
        let at = Linear::of(g, step.item.index);
        let by_row = at.coefficient(step.row);
        let by_column = step.column.map(|c| at.coefficient(c));
        if !at_own(&at, step.row, step.column, by_row, by_column) {
            return None;
        }
        if let Some(s) = self.stashes.get(&step.item.buffer) {
            return ((s.by_row, s.by_column) == (by_row, by_column)).then_some(());
        }
        let columns = step.column.map_or(Some(1), |c| matrix::extent(g, c).filter(|c| c % N == 0))?;
        let count = step.column.map_or(2, |_| 4 * columns / N);
        let accs = (0..count).map(|_| t.acc(g, g.dtype(step.item.buffer))).collect();
        self.stashes.insert(step.item.buffer, Stash { by_row, by_column, accs, columns });
        Some(())
    }

    /// Whether a round reads scratch before it writes it.
    fn is_read_before(&self, g: &Graph, buffer: Id) -> bool {
        let first = self.steps.iter().find(|s| s.item.buffer == buffer || reads(g, &s.item, buffer));
        first.is_some_and(|s| reads(g, &s.item, buffer))
    }

    /// The registers in place of loads of scratch by an element: of this half of a warp's rows, and of this tile and pair.
    fn loaded(&self, g: &Graph, value: Id, but: &[Id], (half, tile, pair): (usize, usize, usize)) -> FxHashMap<Id, Id> {
        let of = |l: Id| {
            let s = &self.stashes[&g.src(l)[0]];
            s.accs[if s.by_column.is_some() { 4 * tile + 2 * half + pair } else { half }]
        };
        scratch_loads(g, value, but).into_iter().map(|l| (l, of(l))).collect()
    }
}

/// Loads of scratch in an expression, but for those within others.
fn scratch_loads(g: &Graph, value: Id, but: &[Id]) -> Vec<Id> {
    let mut all = vec![];
    ir::walk::reach([value], |e, more| {
        if but.contains(&e) {
            return;
        }
        if *g.op(e) == Op::Load && is_scratch(g, g.src(e)[0]) {
            all.push(e);
        }
        more.extend(g.src(e));
    });
    all
}

/// Whether an index is that of an element of a row and column, or of the only one of a row.
fn at_own(at: &Linear, row: Id, column: Option<Id>, by_row: i64, by_column: Option<i64>) -> bool {
    let fits = at.constant == 0 && at.coefficient(row) == by_row && by_row > 0;
    match by_column {
        None => fits && at.terms.len() == 1,
        Some(by) => fits && by > 0 && at.terms.len() == 2 && column.is_some_and(|c| at.coefficient(c) == by),
    }
}

impl RowLayout {
    /// The row of a half of a warp's rows, and the column of an element of a tile.
    fn place(t: &Tiler, g: &mut Graph, half: usize, tile: usize, pair: usize) -> (Id, Id) {
        let first = by(g, BinOp::Mul, t.target.warp, M);
        let (row, column) = matrix::in_tile(t, g);
        let row = g.add(first, row);
        let at = tile as i64 * N + pair as i64;
        (by(g, BinOp::Add, row, half as i64 * N), by(g, BinOp::Add, column, at))
    }

    /// Statements for each element of a lane, in the order of the registers that keep them.
    pub(super) fn each(
        &self,
        t: &Tiler,
        g: &mut Graph,
        mut statement: impl FnMut(&mut Graph, Id, Id, usize) -> Id,
    ) -> Vec<Id> {
        let mut all = vec![];
        for number in 0..(4 * self.columns / N) as usize {
            let (row, column) = RowLayout::place(t, g, number % 4 / 2, number / 4, number % 2);
            all.push(statement(g, row, column, number));
        }
        let some = has_rows(t, g, self.rows);
        t.only(g, some, all)
    }
}

/// Whether a warp has rows, if some have none.
fn has_rows(t: &Tiler, g: &mut Graph, rows: i64) -> Option<Id> {
    (rows / M < t.target.plan.warps).then(|| by(g, BinOp::Lt, t.target.warp, rows / M))
}

/// The statements of a planned loop: those before it, those of a round, and those after it; if there is room for what it
/// copies.
pub(super) fn statements(t: &mut Tiler, g: &mut Graph, plan: &RowsPlan, serial: Id) -> Option<[Vec<Id>; 3]> {
    let products = || plan.steps.iter().filter_map(|s| if let Form::Product(p) = &s.form { Some(p) } else { None });
    // First factors that no other step computes.
    let given = |g: &Graph, s: &Sum| !reads_scratch(g, s.column);
    let needed: usize = products().map(|p| matrix::needed(t, p, |s| if given(g, s) { plan.rows } else { 0 })).sum();
    if needed > t.target.room() {
        t.target.crowded = true;
        return None;
    }
    let mut columns: Copies = vec![];
    let mut staged: FxHashMap<Id, (Id, Option<Id>)> = FxHashMap::default();
    for p in products() {
        for s in &p.sums {
            let tile = matrix::tile_of(t, g, &s.rows);
            let column = given(g, s).then(|| matrix::staged_columns(t, g, s, p.n, plan.rows, &mut columns));
            staged.insert(s.reduce, (tile, column));
        }
    }
    let some = has_rows(t, g, plan.rows);
    // What only the first product needs is copied during the others, for the next round; the rest during the first one.
    let (first, rest) = tiles(products());
    let next = {
        let (after, last) = (by(g, BinOp::Add, serial, 1), by(g, BinOp::Sub, g.src(serial)[0], 1));
        g.binary(BinOp::Min, after, last)
    };
    let send = |t: &mut Tiler, g: &mut Graph, all: &[Rows], round: Id| -> Vec<Id> {
        let each = |rows: &Rows| {
            let (tile, from) = (matrix::tile_of(t, g, rows), rows.from.replaced(g, serial, round));
            matrix::sent(t, g, &Rows { from, ..rows.clone() }, tile)
        };
        all.iter().flat_map(each).collect()
    };
    let mut body = matrix::in_batches(columns);
    body.extend(send(t, g, &rest, serial));
    let mut all = vec![];
    let mut ahead = Some(send(t, g, &first, next));
    for step in &plan.steps {
        match &step.form {
            Form::Product(p) => {
                product(t, g, plan, step, p, &staged, &mut all);
                if let Some(ahead) = ahead.take() {
                    body.extend(t.only(g, some, std::mem::take(&mut all)));
                    body.extend(ahead);
                }
            }
            Form::Along(op, range) => along(t, g, plan, step, (*op, *range), &mut all),
            Form::Map => map(t, g, plan, step, &mut all),
        }
    }
    body.extend(t.only(g, some, all));
    let zero = g.int(0);
    let any = g.binary(BinOp::Lt, zero, g.src(serial)[0]);
    let begin = send(t, g, &first, zero);
    let begin = t.only(g, Some(any).filter(|&any| g.as_int(any) != Some(1)), begin);
    let (mut before, mut after) = (vec![], vec![]);
    for &buffer in &plan.outside {
        let stash = &plan.stashes[&buffer];
        for (half, &acc) in stash.accs.iter().enumerate() {
            let (row, _) = RowLayout::place(t, g, half, 0, 0);
            let at = by(g, BinOp::Mul, row, stash.by_row);
            let load = g.load(buffer, at, 1);
            before.push(t.set(g, vec![(acc, load)]));
            let lane = by(g, BinOp::Mod, t.target.lane, 4);
            let first = by(g, BinOp::Eq, lane, 0);
            after.push(t.store_if(g, buffer, at, acc, Some(first)));
        }
    }
    let before = begin.into_iter().chain(t.only(g, some, before)).collect();
    Some([before, body, t.only(g, some, after)])
}

/// The rows that only the first of some products reads, if there are others, and those of the others.
fn tiles<'p>(products: impl Iterator<Item = &'p Product>) -> (Vec<Rows>, Vec<Rows>) {
    let each: Vec<Vec<&Rows>> = products.map(|p| p.sums.iter().map(|s| &s.rows).collect()).collect();
    let Some((of_first, others)) = each.split_first() else { return (vec![], vec![]) };
    let others: Vec<&Rows> = others.concat();
    let (mut first, mut rest): (Vec<Rows>, Vec<Rows>) = (vec![], vec![]);
    for &rows in of_first.iter().chain(&others) {
        let to = if others.is_empty() || others.contains(&rows) { &mut rest } else { &mut first };
        if !to.contains(rows) {
            to.push(rows.clone());
        }
    }
    (first, rest)
}

/// A value at an element of a step.
fn at(
    t: &Tiler,
    g: &mut Graph,
    plan: &RowsPlan,
    value: Id,
    (row, column): (Id, Option<Id>),
    place: (usize, usize, usize),
    mut map: FxHashMap<Id, Id>,
) -> Id {
    let but: Vec<Id> = map.keys().copied().collect();
    let (at_row, at_column) = RowLayout::place(t, g, place.0, place.1, place.2);
    map.insert(row, at_row);
    map.extend(column.map(|c| (c, at_column)));
    map.extend(plan.loaded(g, value, &but, place));
    g.substitute(value, &mut map)
}

/// Each element for itself.
fn map(t: &mut Tiler, g: &mut Graph, plan: &RowsPlan, step: &RowsStep, all: &mut Vec<Id>) {
    let accs = &plan.stashes[&step.item.buffer].accs;
    for (number, &acc) in accs.iter().enumerate() {
        let place = match step.column {
            Some(_) => (number % 4 / 2, number / 4, number % 2),
            None => (number, 0, 0),
        };
        let value = at(t, g, plan, step.item.value, (step.row, step.column), place, FxHashMap::default());
        let value = g.cast(value, g.dtype(step.item.buffer));
        all.push(t.set(g, vec![(acc, value)]));
    }
}

/// What four lanes make of their rows.
fn along(
    t: &mut Tiler,
    g: &mut Graph,
    plan: &RowsPlan,
    step: &RowsStep,
    (op, range): (ReduceOp, Id),
    all: &mut Vec<Id>,
) {
    let body = g.src(step.item.value)[0];
    let tiles = matrix::extent(g, range).unwrap_or(0) / N;
    let (ty, accs) = (g.dtype(step.item.buffer), plan.stashes[&step.item.buffer].accs.clone());
    for (half, acc) in accs.into_iter().enumerate() {
        let start = g.constant(identity(op, ty), ty);
        let mut total = None;
        for number in 0..2 * tiles as usize {
            let place = (half, number / 2, number % 2);
            let value = at(t, g, plan, body, (step.row, Some(range)), place, FxHashMap::default());
            total = Some(total.map_or(value, |so_far| combine(g, op, so_far, value)));
        }
        all.push(t.set(g, vec![(acc, total.unwrap_or(start))]));
        for mask in [1, 2] {
            let other = g.make(Op::LaneXor(mask), ty, vec![], vec![acc]);
            let both = combine(g, op, acc, other);
            all.push(t.set(g, vec![(acc, both)]));
        }
    }
}

/// Sums that are added to each other as soon as they are made, and what stands for all of them.
fn joined(g: &Graph, value: Id, p: &Product) -> Vec<(Id, Vec<usize>)> {
    let mut groups: Vec<(Id, Vec<usize>)> = p.sums.iter().enumerate().map(|(i, s)| (s.reduce, vec![i])).collect();
    for node in g.toposort(&[value]) {
        if *g.op(node) != Op::Binary(BinOp::Add) {
            continue;
        }
        let src = g.src(node);
        let find = |of: Id| groups.iter().position(|group| group.0 == of);
        if let (Some(a), Some(b)) = (find(src[0]), find(src[1]))
            && a != b
        {
            let more = groups[b].1.clone();
            groups[a].1.extend(more);
            groups[a].0 = node;
            groups.remove(b);
        }
    }
    groups
}

/// Sums of products, some tiles of columns at a time.
fn product(
    t: &mut Tiler,
    g: &mut Graph,
    plan: &RowsPlan,
    step: &RowsStep,
    p: &Product,
    staged: &FxHashMap<Id, (Id, Option<Id>)>,
    all: &mut Vec<Id>,
) {
    let accs = plan.stashes[&step.item.buffer].accs.clone();
    let groups = joined(g, step.item.value, p);
    // First factors that lie in registers, a fragment for each 16 of the sum.
    let mut rows: FxHashMap<Id, Vec<Id>> = FxHashMap::default();
    for s in p.sums.iter().filter(|s| staged[&s.reduce].1.is_none()) {
        let own = (0..s.length() / K).map(|k| registers(t, g, plan, s, step.row, k as usize, all)).collect();
        rows.insert(s.reduce, own);
    }
    let tiles: Vec<usize> = (0..accs.len() / 4).collect();
    for chunk in tiles.chunks(TILES) {
        let ty = Type::vector(DType::F32, 4);
        let none = zero(g, ty);
        let mut sums: Vec<Vec<Id>> = vec![];
        for (_, members) in &groups {
            let parts: Vec<Id> = chunk.iter().map(|_| t.acc(g, ty)).collect();
            let begin = parts.iter().map(|&acc| (acc, none)).collect();
            all.push(t.set(g, begin));
            for s in members.iter().map(|&i| &p.sums[i]) {
                let (tile, given) = staged[&s.reduce];
                multiply(t, g, s, tile, given.ok_or_else(|| &rows[&s.reduce][..]), (chunk, &parts), all);
            }
            sums.push(parts);
        }
        for (n, &tile) in chunk.iter().enumerate() {
            for i in 0..4 {
                let mut map = FxHashMap::default();
                for (group, parts) in groups.iter().zip(&sums) {
                    map.insert(group.0, g.make(Op::Extract(i as u16), DType::F32, vec![], vec![parts[n]]));
                }
                let place = (i / 2, tile, i % 2);
                let value = at(t, g, plan, step.item.value, (step.row, step.column), place, map);
                let value = g.cast(value, g.dtype(step.item.buffer));
                all.push(t.set(g, vec![(accs[4 * tile + i], value)]));
            }
        }
    }
}

/// The first factor of a product as it lies in registers: a fragment of 16 elements of the sum.
fn registers(t: &mut Tiler, g: &mut Graph, plan: &RowsPlan, s: &Sum, row: Id, k: usize, all: &mut Vec<Id>) -> Id {
    let halves = (0..8).map(|i| {
        let place = (i / 2 % 2, 2 * k + i / 4, i % 2);
        let value = at(t, g, plan, s.column, (row, Some(s.k)), place, FxHashMap::default());
        g.cast(value, DType::F16)
    });
    let halves: Vec<Id> = halves.collect();
    let ty = Type::vector(DType::F16, 8);
    let (acc, value) = (t.acc(g, ty), g.make(Op::Join, ty, vec![], halves));
    all.push(t.set(g, vec![(acc, value)]));
    acc
}

/// Adds the products of a sum to tiles: rows lie in shared memory, or in registers for each 16 elements.
fn multiply(
    t: &mut Tiler,
    g: &mut Graph,
    s: &Sum,
    tile: Id,
    rows: Result<Id, &[Id]>,
    (chunk, parts): (&[usize], &[Id]),
    all: &mut Vec<Id>,
) {
    match rows {
        Ok(place) => {
            let r = t.counted(g, s.length() / K);
            let k = by(g, BinOp::Mul, r, K);
            let own = first_factor(t, g, place, k, s.length());
            let pairs = multiplied(t, g, s, tile, own, k, (chunk, parts));
            let round = t.set(g, pairs);
            all.extend(t.nest(g, &[r], vec![round]));
        }
        Err(registers) => {
            for (step, &own) in registers.iter().enumerate() {
                let k = g.int(step as i64 * K);
                let pairs = multiplied(t, g, s, tile, own, k, (chunk, parts));
                all.push(t.set(g, pairs));
            }
        }
    }
}

/// A fragment of the 16 rows of a warp in shared memory, from an element of the sum on.
fn first_factor(t: &Tiler, g: &mut Graph, place: Id, k: Id, length: i64) -> Id {
    let lane = t.target.lane;
    let first = by(g, BinOp::Mul, t.target.warp, M);
    let (row, upper) = (by(g, BinOp::Mod, lane, 16), by(g, BinOp::Div, lane, 16));
    let upper = by(g, BinOp::Mul, upper, 8);
    let (row, at) = (g.add(first, row), g.add(k, upper));
    matrix::fragment(g, place, (row, at), matrix::pitch(length), 4, false)
}

/// The sums of some tiles, plus 16 products; two tiles are loaded together.
fn multiplied(
    t: &Tiler,
    g: &mut Graph,
    s: &Sum,
    tile: Id,
    own: Id,
    k: Id,
    (chunk, parts): (&[usize], &[Id]),
) -> Vec<(Id, Id)> {
    let lane = t.target.lane;
    let low = by(g, BinOp::Mod, lane, 8);
    let (second, upper) = (by(g, BinOp::Div, lane, 8), by(g, BinOp::Div, lane, 16));
    let second = by(g, BinOp::Mod, second, 2);
    let (second, upper) = (by(g, BinOp::Mul, second, 8), by(g, BinOp::Mul, upper, 8));
    let ty = Type::vector(DType::F32, 4);
    let mut pairs = vec![];
    for (two, parts) in chunk.chunks(2).zip(parts.chunks(2)) {
        let first = g.int(two[0] as i64 * N);
        // Columns of the product, and elements of the sum: matrices go along the sum first.
        let (column, along) = (g.add(first, upper), g.add(k, second));
        let (row, at) = match s.across {
            false => (g.add(column, low), along),
            true => (g.add(along, low), column),
        };
        let matrices = 2 * two.len() as i64;
        let both = matrix::fragment(g, tile, (row, at), matrix::pitch(s.rows.columns), matrices, s.across);
        for (n, &acc) in parts.iter().enumerate() {
            let of = |n: u16| (4 * n..4 * n + 4).collect();
            let columns = match two.len() {
                1 => both,
                _ => g.make(Op::Shuffle(of(n as u16)), Type::vector(DType::F16, 4), vec![], vec![both]),
            };
            pairs.push((acc, g.make(Op::WarpProduct, ty, vec![], vec![acc, own, columns])));
        }
    }
    pairs
}

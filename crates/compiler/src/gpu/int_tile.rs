//! Sums over blocks of weights for several tokens: tiles of rows and tokens by the tensor cores of a warp.
//!
//! What the integer tile of a CPU does ([`crate::cpu`]), for a block of threads. A sum is cut into panels of a few groups.
//! The codes of a panel are unpacked once, to bytes in shared memory, and those of the tokens copied beside them; factors
//! and added terms lie there group by group. A warp has some tiles of 16 rows by 8 tokens: for each group it multiplies
//! codes to integers, which are scaled into sums that stay in its registers for all panels. What the next panel loads is
//! on its way meanwhile. Nothing is known of a format: what a row says of its bits is packed as for other paths.
//!
//! Sums of the same tokens, as those of a gate and of what it gates, are one tile: the rows of all lie below each other,
//! and the tokens are copied once.
//!
//! Where there are few tiles, warps have the same ones and take the groups of a panel in turns, so that what is read from
//! shared memory serves more products; what they have is put together in the end.
//!
//! Tokens past the last one repeat it, and are not stored. What this path cannot do: groups of other lengths than 16 and
//! 32, rows that are no multiple of 16, and more sums than a thread has registers for.

use crate::gpu::align::align;
use crate::gpu::matrix;
use crate::gpu::places::Copies;
use crate::gpu::threads::Tiler;
use crate::kernel::dot_pattern::{Parts, Pattern, Scales, matches};
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::{by, combined, divides, loads_in, loops_of, or_last, outside, replace, zero};
use crate::kernel::superword::{Packer, join};
use crate::lower::Item;
use ir::index::{bounds, usual};
use ir::{Axis, BinOp, DType, Graph, Id, Op, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rows and columns of a tile, and bytes of a row of a fragment.
pub(super) const M: i64 = 16;
const N: i64 = 8;
const ROW: i64 = 16;

/// Sums that a thread keeps at most.
const MOST: i64 = 64;

/// Tokens of a task at most that are multiplied as they come, unless it has so many rows.
pub(super) const FEW: i64 = 8;
pub(super) const ROWS_OF_FEW: i64 = 128;

/// Elements of a panel at most, by how many blocks there are: of few tokens, a thread has registers for longer panels, and
/// waits less often in them. A block that has a multiprocessor for itself has nothing else to do meanwhile.
fn longest_panel(tokens: i64, alone: bool) -> i64 {
    match tokens {
        ..=32 if alone => 512,
        ..=32 => 256,
        _ => 128,
    }
}

/// Sums for several tokens and rows, of the same tokens.
struct Product {
    sums: Vec<Sum>,
    token: Id,
    /// Rows of all sums.
    rows: i64,
    /// Tokens at most, rounded up to whole tiles.
    tokens: i64,
    /// Elements of a group.
    width: i64,
    /// Groups of a panel, and the number of panels.
    groups: i64,
    panels: i64,
}

/// One of them.
struct Sum {
    item: Item,
    p: Pattern,
    row: Id,
    rows: i64,
    /// Its first row among those of all.
    first: i64,
    scales: Scales,
}

/// What a float is read along: `count` rows or tokens, from `first` on, of `all`.
#[derive(Clone, Copy)]
struct Along {
    dim: Id,
    first: i64,
    count: i64,
    all: i64,
}

/// What lies in shared memory of a panel.
struct Panel {
    codes: Id,
    values: Id,
    factor: [Option<Id>; 2],
    rest: [Option<Id>; 2],
}

/// Which tiles a warp has: `m` by `n` of them, as many as `down` and `across` say to a warp.
struct Grid {
    m: Id,
    n: Id,
    down: i64,
    across: i64,
    /// Warps that have the same tiles, and which of them it is: each adds every so many-th group.
    apart: i64,
    part: Id,
    /// Whether a task usually has fewer tokens than places for them.
    ragged: bool,
}

/// The codes of a row in stretches whose bits lie alike.
struct Stretches {
    step: Id,
    span: i64,
    /// Vectors of neighbours, with the first element of each.
    chunks: Vec<(i64, Id)>,
}

/// Statements of items that are integer dots for several tokens, if their tiles fit into a block: of as many of them, from
/// the first on, as are one tile.
pub(super) fn int_tile(t: &mut Tiler, g: &mut Graph, items: &[&Item]) -> Option<(usize, Vec<Id>)> {
    let mut product = product(g, items.first()?, t.target.alone).filter(|_| t.target.plan.multiplies)?;
    for &item in &items[1..] {
        let Some(next) = product.beside(g, item, t.target.alone) else { break };
        product.rows += next.rows;
        product.sums.push(next);
    }
    while !product.sums.is_empty() {
        if let Some(all) = t.attempt_near(|t| product.statements(t, g)) {
            return Some((product.sums.len(), all));
        }
        product.rows -= product.sums.pop().map_or(0, |sum| sum.rows);
    }
    None
}

/// Whether an item is made of such tiles.
pub(super) fn is_tile(g: &mut Graph, item: &Item) -> bool {
    product(g, item, false).is_some()
}

fn product(g: &mut Graph, item: &Item, alone: bool) -> Option<Product> {
    let p = matches(g, item.value)?;
    let (groups, width) = (g.as_int(g.src(p.group)[0])?, g.as_int(g.src(p.element)[0])?);
    if !matches!(width, 16 | 32) || g.dtype(item.buffer) != DType::F32 {
        return None;
    }
    let (token, row) = p.token_and_row(g, &item.dims)?;
    let (rows, tokens) = (g.as_int(g.src(row)[0])?, bounds(g, g.src(token)[0]).1);
    if rows % M != 0 || tokens < 2 || tokens <= FEW && rows < ROWS_OF_FEW {
        return None;
    }
    let scales = p.scales(g, token, row)?;
    let tokens = (tokens + N - 1) / N * N;
    let most = longest_panel(tokens, alone);
    let of_panel = (1..=most / width).rev().find(|n| groups % n == 0)?;
    let sums = vec![Sum { item: item.clone(), p, row, rows, first: 0, scales }];
    Some(Product { sums, token, rows, tokens, width, groups: of_panel, panels: groups / of_panel })
}

/// `a`, or `most` where it is greater.
fn at_most(g: &mut Graph, a: Id, most: i64) -> Id {
    if bounds(g, a).1 <= most { a } else { by(g, BinOp::Min, a, most) }
}

/// Lets threads take units in turns; `each` says what is stored of one, as buffers, indices and values. What is loaded
/// from memory goes to registers first.
fn deal(
    t: &mut Tiler,
    g: &mut Graph,
    count: i64,
    all: &mut Copies,
    mut each: impl FnMut(&mut Graph, Id) -> Vec<(Id, Id, Id)>,
) {
    let copies = t.in_turns(g, count, |t, g, at| {
        let stored = each(g, at);
        let mut loaded: FxHashMap<Id, Id> = stored.iter().flat_map(|s| loops_of(g, s.2)).collect();
        let mut loads: Vec<Id> = stored.iter().flat_map(|s| from_memory(g, s.2)).collect();
        loads.sort_unstable();
        loads.dedup();
        let pairs: Vec<(Id, Id)> = loads.into_iter().map(|load| (t.acc(g, g.ty(load)), load)).collect();
        loaded.extend(pairs.iter().map(|&(acc, load)| (load, acc)));
        let sets = pairs.into_iter().map(|pair| t.set(g, vec![pair])).collect();
        let stores = stored
            .into_iter()
            .map(|(buffer, index, value)| {
                let value = g.substitute(value, &mut loaded);
                g.make(Op::Store, DType::Index, vec![], vec![buffer, index, value])
            })
            .collect();
        (sets, stores)
    });
    all.extend(copies);
}

/// What an expression loads from memory, without what addresses are made of.
fn from_memory(g: &Graph, value: Id) -> Vec<Id> {
    let all: Vec<Id> = loads_in(g, value).into_iter().filter(|&l| outside(g, l)).collect();
    let inner: FxHashSet<Id> = all.iter().flat_map(|&l| loads_in(g, g.src(l)[1])).collect();
    all.into_iter().filter(|l| !inner.contains(l)).collect()
}

/// Takes integers from memory that are the same for all threads and panels, as the number of an expert and that of its
/// tokens, out of statements: they are loaded before, as no compiler knows that nothing else is stored there meanwhile.
fn once_a_task(t: &mut Tiler, g: &mut Graph, (around, panel): (&[Id], Id), of: [&mut Vec<Id>; 2]) -> Option<Id> {
    let of_task = |g: &Graph, range: &Id| matches!(g.op(*range), Op::Range(_, Axis::Task)) || around.contains(range);
    let all: Vec<Id> = of.iter().flat_map(|statements| statements.iter().copied()).collect();
    let mut loads: Vec<Id> = g.toposort(&all).into_iter().filter(|&l| *g.op(l) == Op::Load).collect();
    loads.retain(|&l| {
        let same = |g: &Graph| loops_of(g, g.src(l)[1]).keys().all(|range| of_task(g, range));
        outside(g, l) && g.ty(l) == DType::I32.into() && loads_in(g, g.src(l)[1]).is_empty() && same(g)
    });
    let pairs: Vec<(Id, Id)> = loads.into_iter().map(|load| (t.acc(g, g.ty(load)), load)).collect();
    // The number of panels stays as it is.
    let mut known: FxHashMap<Id, Id> = pairs.iter().map(|&(acc, load)| (load, acc)).chain([(panel, panel)]).collect();
    for statement in of.into_iter().flatten() {
        *statement = g.substitute(*statement, &mut known);
    }
    (!pairs.is_empty()).then(|| t.set(g, pairs))
}

impl Sum {
    /// The loops around a tile: over what is neither a row nor a token.
    fn around(&self, token: Id) -> Vec<Id> {
        self.item.dims.iter().copied().filter(|&d| d != token && d != self.row).collect()
    }
}

impl Product {
    /// Another item as a sum below the others, if it is of the same tokens.
    fn beside(&self, g: &mut Graph, item: &Item, alone: bool) -> Option<Sum> {
        let first = &self.sums[0];
        let other = product(g, item, alone)?;
        let [sum] = &other.sums[..] else { return None };
        // By the names of the first one.
        let (ours, theirs) = (first.around(self.token), sum.around(other.token));
        let pairs = [(other.token, self.token), (sum.p.group, first.p.group), (sum.p.element, first.p.element)];
        let names: Vec<(Id, Id)> = pairs.into_iter().chain(theirs.iter().copied().zip(ours.iter().copied())).collect();
        if ours.len() != theirs.len() || names.iter().any(|&(a, b)| g.src(a)[0] != g.src(b)[0]) {
            return None;
        }
        let mut names: FxHashMap<Id, Id> = names.into_iter().collect();
        let mut named = |g: &mut Graph, e: Id| g.substitute(e, &mut names);
        let renamed = Item {
            value: named(g, item.value),
            index: named(g, item.index),
            dims: item.dims.iter().map(|&d| named(g, d)).collect(),
            ..item.clone()
        };
        let mut sum = product(g, &renamed, alone)?.sums.pop()?;
        sum.first = self.rows;
        let of_token = |scales: &Scales| (scales.factor.token, scales.rest.as_ref().map(|rest| rest.token));
        let of_row = |scales: &Scales| (scales.factor.row.is_some(), scales.rest.as_ref().map(|r| r.row.is_some()));
        let same = sum.p.x == first.p.x
            && g.dtype(sum.p.code) == g.dtype(first.p.code)
            && (sum.p.group, sum.p.element) == (first.p.group, first.p.element)
            && of_token(&sum.scales) == of_token(&first.scales)
            && of_row(&sum.scales) == of_row(&first.scales);
        same.then_some(sum)
    }

    /// Elements of a panel.
    fn length(&self) -> i64 {
        self.groups * self.width
    }

    /// Distance of rows in shared memory, so that eight of them lie in different banks.
    fn pitch(&self) -> i64 {
        self.length() + ROW
    }

    fn statements(&self, t: &mut Tiler, g: &mut Graph) -> Option<Vec<Id>> {
        let grid = self.grid(t, g)?;
        let parts = match grid.apart {
            1 => None,
            apart => Some(t.near(g, DType::F32, self.parts(apart))?),
        };
        // A task without tokens has no panels: all threads have to agree on what they wait in.
        let some = self.at_least(g, g.src(self.token)[0]);
        let count = by(g, BinOp::Mul, some, self.panels);
        let panel = t.range(g, count);
        let (place, copies) = self.copies(t, g, panel)?;
        let around = self.sums[0].around(self.token);
        let ty = Type::vector(DType::F32, 4);
        let accs: Vec<Id> = (0..grid.down * grid.across).map(|_| t.acc(g, ty)).collect();
        let none = zero(g, ty);
        let mut all = vec![t.set(g, accs.iter().map(|&acc| (acc, none)).collect())];
        let (mut loads, mut stores) = (vec![], vec![]);
        for (load, store) in copies {
            loads.extend(load);
            stores.extend(store);
        }
        all.extend(once_a_task(t, g, (&around, panel), [&mut loads, &mut stores]));
        let first = self.tile_token(g, &grid, 0);
        let any = g.binary(BinOp::Lt, first, g.src(self.token)[0]);
        let products = self.multiply(t, g, &grid, &place, &accs);
        let products = t.only(g, (g.as_int(any) != Some(1)).then_some(any), products);
        let first = g.int(0);
        all.extend(loads.iter().map(|&s| replace(g, s, panel, first)));
        let mut body = stores;
        if self.panels > 1 {
            let next = by(g, BinOp::Add, panel, 1);
            let some = by(g, BinOp::Lt, next, self.panels);
            let loads = loads.iter().map(|&s| replace(g, s, panel, next)).collect();
            body.extend(t.only(g, Some(some), loads));
        }
        body.extend(products);
        all.push(make_loop(g, panel, body));
        match parts {
            Some(parts) => all.extend(self.results_of_parts(t, g, &grid, &accs, parts)),
            None => all.extend(self.results(t, g, &grid, &accs)),
        }
        Some(t.nest(g, &around, all))
    }

    /// The tiles of each warp: the division that has the least work in the end, and warps beside each other only for want
    /// of rows where tokens usually leave some of them without any.
    fn grid(&self, t: &Tiler, g: &mut Graph) -> Option<Grid> {
        let (tall, wide, warps) = (self.rows / M, self.tokens / N, t.target.plan.warps);
        let shares = |n: i64, of: i64| (n + of - 1) / of;
        let of = |beside: i64| (shares(tall, warps / beside), shares(wide, beside));
        let ragged = self.is_ragged(g);
        let beside = (0..=warps.ilog2()).map(|b| 1i64 << b).filter(|&beside| beside <= wide);
        let beside = beside.min_by_key(|&beside| {
            let (down, across) = of(beside);
            (down * across, if ragged { beside } else { down + across })
        })?;
        let (down, across) = of(beside);
        if 4 * down * across > MOST {
            return None;
        }
        // What warps read from shared memory, in bytes: a fragment serves all tiles of a warp beside or below each other.
        let read = |&(apart, _, down, across): &(i64, i64, i64, i64)| {
            let groups = self.panels * self.groups * warps / apart;
            groups * self.width * (down * M + across * N) + 2 * self.parts_bytes(apart)
        };
        let split = |apart: i64| {
            let share = warps / apart;
            let each = (0..=share.ilog2()).map(|b| 1i64 << b).filter(|&beside| beside <= wide);
            let each = each.map(|beside| (apart, beside, shares(tall, share / beside), shares(wide, beside)));
            each.filter(|&(_, _, down, across)| 4 * down * across <= MOST / 2).collect::<Vec<_>>()
        };
        let room = t.target.room() as i64;
        let fits = |&apart: &i64| self.groups % apart == 0 && self.panel_bytes() + self.parts_bytes(apart) <= room;
        let apart = (1..=warps.ilog2()).map(|b| 1i64 << b).filter(fits);
        let all = std::iter::once((1, beside, down, across)).chain(apart.flat_map(split));
        let (apart, beside, down, across) = all.min_by_key(read)?;
        let part = by(g, BinOp::Mod, t.target.warp, apart);
        let warp = by(g, BinOp::Div, t.target.warp, apart);
        let (m, n) = (by(g, BinOp::Div, warp, beside), by(g, BinOp::Mod, warp, beside));
        Some(Grid { m: by(g, BinOp::Mul, m, down), n: by(g, BinOp::Mul, n, across), down, across, apart, part, ragged })
    }

    /// Distance of tokens where warps leave their parts of sums: the rows of four tokens lie in different banks.
    fn parts_pitch(&self) -> i64 {
        self.rows + 4
    }

    /// Floats that the parts of so many warps take.
    fn parts(&self, apart: i64) -> i64 {
        if apart > 1 { apart * self.tokens * self.parts_pitch() } else { 0 }
    }

    fn parts_bytes(&self, apart: i64) -> i64 {
        self.parts(apart) * DType::F32.bytes() as i64
    }

    /// Bytes that a panel takes at most: codes, and a factor and an added term of each group.
    fn panel_bytes(&self) -> i64 {
        (self.rows + self.tokens) * (self.pitch() + 2 * self.groups * DType::F32.bytes() as i64)
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

    /// One, or nothing where a number is zero.
    fn at_least(&self, g: &mut Graph, number: Id) -> Id {
        if bounds(g, number).0 > 0 { g.int(1) } else { by(g, BinOp::Min, number, 1) }
    }

    /// A token; past the last one, the last one, and the first where there is none.
    fn token_at(&self, g: &mut Graph, token: Id) -> Id {
        let last = or_last(g, token, self.token);
        by(g, BinOp::Max, last, 0)
    }

    /// `e` for the group and element of this offset in a stretch of `span` of the panel.
    fn at_element(&self, g: &mut Graph, e: Id, (panel, stretch): (Id, Id), span: i64, offset: i64) -> Id {
        let group = self.group_at(g, panel, stretch, span / self.width, offset / self.width);
        let element = g.int(offset % self.width);
        let p = &self.sums[0].p;
        let mut m = FxHashMap::from_iter([(p.group, group), (p.element, element)]);
        g.substitute(e, &mut m)
    }

    /// Group `step * n + i` of a panel.
    fn group_at(&self, g: &mut Graph, panel: Id, step: Id, n: i64, i: i64) -> Id {
        let first = by(g, BinOp::Mul, panel, self.groups);
        let at = by(g, BinOp::Mul, step, n);
        let at = by(g, BinOp::Add, at, i);
        g.add(first, at)
    }

    /// Shared memory for a panel, and what is copied to it.
    fn copies(&self, t: &mut Tiler, g: &mut Graph, panel: Id) -> Option<(Panel, Copies)> {
        let mut all = vec![];
        let codes = t.near(g, g.dtype(self.sums[0].p.code), self.rows * self.pitch())?;
        for sum in &self.sums {
            self.unpack(t, g, panel, sum, codes, &mut all)?;
        }
        let values = self.copy_values(t, g, panel, &mut all)?;
        let factor = self.copy_scales(t, g, panel, |scales| Some(&scales.factor), &mut all)?;
        let rest = self.copy_scales(t, g, panel, |scales| scales.rest.as_ref(), &mut all)?;
        Some((Panel { codes, values, factor, rest }, all))
    }

    /// A part of the scales, of rows and of tokens.
    fn copy_scales(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        panel: Id,
        part: impl Fn(&Scales) -> Option<&Parts>,
        all: &mut Copies,
    ) -> Option<[Option<Id>; 2]> {
        let parts = part(&self.sums[0].scales);
        let rows = match parts.and_then(|parts| parts.row) {
            Some(_) => Some(t.near(g, DType::F32, self.rows * self.groups)?),
            None => None,
        };
        let tokens = match parts.and_then(|parts| parts.token) {
            Some(_) => Some(t.near(g, DType::F32, self.tokens * self.groups)?),
            None => None,
        };
        for sum in &self.sums {
            let Some(parts) = part(&sum.scales) else { continue };
            if let (Some(buffer), Some(e)) = (rows, parts.row) {
                let along = Along { dim: sum.row, first: sum.first, count: sum.rows, all: self.rows };
                self.copy_floats(t, g, panel, (buffer, e), along, all);
            }
            if let (Some(buffer), Some(e), 0) = (tokens, parts.token, sum.first) {
                let along = Along { dim: self.token, first: 0, count: self.tokens, all: self.tokens };
                self.copy_floats(t, g, panel, (buffer, e), along, all);
            }
        }
        Some([rows, tokens])
    }

    /// Codes of the rows of a sum as bytes.
    fn unpack(&self, t: &mut Tiler, g: &mut Graph, panel: Id, sum: &Sum, buffer: Id, all: &mut Copies) -> Option<()> {
        let Stretches { step, span, chunks } = self.stretches(t, g, panel, sum)?;
        let across = self.length() / span;
        deal(t, g, sum.rows * across, all, |g, at| {
            let (row, stretch) = (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across));
            let (to, from) = (by(g, BinOp::Mul, row, self.pitch()), by(g, BinOp::Mul, stretch, span));
            let to = g.add(to, from);
            let to = by(g, BinOp::Add, to, sum.first * self.pitch());
            let mut m = FxHashMap::from_iter([(sum.row, row), (step, stretch)]);
            let stored = |&(first, v): &(i64, Id)| {
                let v = g.substitute(v, &mut m);
                (buffer, by(g, BinOp::Add, to, first), v)
            };
            chunks.iter().map(stored).collect()
        });
        Some(())
    }

    /// The codes of a row as vectors of neighbours.
    fn stretches(&self, t: &mut Tiler, g: &mut Graph, panel: Id, sum: &Sum) -> Option<Stretches> {
        for groups in [1, 2, 4, 8] {
            let span = groups * self.width;
            if self.groups % groups != 0 || span % ROW != 0 {
                continue;
            }
            let step = t.counted(g, self.groups / groups);
            let all: Vec<Id> = (0..span).map(|e| self.at_element(g, sum.p.code, (panel, step), span, e)).collect();
            let (mut chunks, mut packer) = (vec![], Packer::shifting());
            for (i, lanes) in all.chunks(ROW as usize).enumerate() {
                let v = packer.pack_vector(g, lanes);
                chunks.extend(v.map(|v| (i as i64 * ROW, align(g, v, t.target.plan.widest))));
            }
            let whole = chunks.len() as i64 * ROW == span && packer.gathered == 0;
            if whole && !chunks.iter().any(|c| divides(g, c.1, step)) {
                return Some(Stretches { step, span, chunks });
            }
        }
        None
    }

    /// Codes of the tokens.
    fn copy_values(&self, t: &mut Tiler, g: &mut Graph, panel: Id, all: &mut Copies) -> Option<Id> {
        let p = &self.sums[0].p;
        let across = self.length() / ROW;
        let step = t.counted(g, across);
        let lanes: Vec<Id> = (0..ROW)
            .map(|e| {
                let at = by(g, BinOp::Mul, step, ROW);
                let at = by(g, BinOp::Add, at, e);
                let group = by(g, BinOp::Div, at, self.width);
                let first = by(g, BinOp::Mul, panel, self.groups);
                let (group, element) = (g.add(first, group), by(g, BinOp::Mod, at, self.width));
                let mut m = FxHashMap::from_iter([(p.group, group), (p.element, element)]);
                g.substitute(p.x, &mut m)
            })
            .collect();
        let mut packer = Packer::shifting();
        let v = packer.pack_vector(g, &lanes).filter(|_| packer.gathered == 0)?;
        let v = align(g, v, t.target.plan.widest);
        let buffer = t.near(g, DType::I8, self.tokens * self.pitch())?;
        deal(t, g, self.tokens * across, all, |g, at| {
            let (token, part) = (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across));
            let (to, from) = (by(g, BinOp::Mul, token, self.pitch()), by(g, BinOp::Mul, part, ROW));
            let last = self.token_at(g, token);
            let mut m = FxHashMap::from_iter([(self.token, last), (step, part)]);
            vec![(buffer, g.add(to, from), g.substitute(v, &mut m))]
        });
        Some(buffer)
    }

    /// A float of each row or token and group, those of a group beside each other.
    fn copy_floats(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        panel: Id,
        (buffer, e): (Id, Id),
        along: Along,
        all: &mut Copies,
    ) {
        let Along { dim, first: offset, count, all: pitch } = along;
        let n = [4, 2, 1].into_iter().find(|n| self.groups % n == 0).unwrap_or(1);
        let step = t.counted(g, self.groups / n);
        let lanes: Vec<Id> = (0..n)
            .map(|i| {
                let at = self.group_at(g, panel, step, n, i);
                replace(g, e, self.sums[0].p.group, at)
            })
            .collect();
        let mut packer = Packer::shifting();
        let packed = packer.pack_vector(g, &lanes).filter(|_| packer.gathered == 0 && n > 1);
        let packed = packed.map(|v| align(g, v, t.target.plan.widest));
        deal(t, g, count * (self.groups / n), all, |g, at| {
            let (of, part) = (by(g, BinOp::Mod, at, count), by(g, BinOp::Div, at, count));
            let source = if dim == self.token { self.token_at(g, of) } else { of };
            let mut m = FxHashMap::from_iter([(dim, source), (step, part)]);
            let first = by(g, BinOp::Mul, part, n * pitch);
            let first = g.add(first, of);
            let first = by(g, BinOp::Add, first, offset);
            let packed = packed.map(|v| g.substitute(v, &mut m));
            (0..n)
                .map(|i| {
                    let value = match packed {
                        Some(v) => g.make(Op::Extract(i as u16), DType::F32, vec![], vec![v]),
                        None => g.substitute(lanes[i as usize], &mut m),
                    };
                    (buffer, by(g, BinOp::Add, first, i * pitch), value)
                })
                .collect()
        });
    }

    /// The sums of the tiles of a warp, with the groups of a panel added.
    fn multiply(&self, t: &mut Tiler, g: &mut Graph, grid: &Grid, place: &Panel, accs: &[Id]) -> Vec<Id> {
        let turn = t.counted(g, self.groups / grid.apart);
        let group = by(g, BinOp::Mul, turn, grid.apart);
        let group = g.add(group, grid.part);
        let lane = t.target.lane;
        let (upper, half) = (by(g, BinOp::Div, lane, 16), by(g, BinOp::Div, lane, 8));
        let (low8, low16) = (by(g, BinOp::Mod, lane, 8), by(g, BinOp::Mod, lane, 16));
        let half = by(g, BinOp::Mod, half, 2);
        let k = by(g, BinOp::Mul, group, self.width);
        let parts = self.width / ROW;
        let fragment = |g: &mut Graph, buffer: Id, row: Id, part: Id, matrices: i64| {
            let part = by(g, BinOp::Mul, part, ROW);
            let at = g.add(k, part);
            matrix::fragment(g, buffer, (row, at), self.pitch(), matrices, false)
        };
        let none = g.int(0);
        let rows: Vec<Id> = (0..grid.down)
            .map(|i| {
                let first = self.tile_row(g, grid, i);
                let row = g.add(first, low16);
                fragment(g, place.codes, row, if parts == 2 { upper } else { none }, 2 * parts)
            })
            .collect();
        let mut columns = vec![];
        // As many tiles as a fragment has matrices for.
        let (mut i, mut units) = (0, vec![]);
        while i < grid.across {
            let beside = [4 / parts, 2 / parts, 1].into_iter().find(|&n| n > 0 && i + n <= grid.across).unwrap_or(1);
            let (tile, part) = match parts {
                2 => (upper, half),
                _ => (by(g, BinOp::Div, lane, 8), none),
            };
            // Lanes whose rows are not wanted give those of the last tile.
            let tile = at_most(g, tile, beside - 1);
            let tile = by(g, BinOp::Add, tile, i);
            let first = self.first_token(g, grid, tile);
            let row = g.add(first, low8);
            let all = fragment(g, place.values, row, part, beside * parts);
            for b in 0..beside {
                let lanes = (4 * parts) as u16;
                let map = (0..lanes).map(|l| b as u16 * lanes + l).collect();
                let ty = Type::vector(DType::I8, lanes as usize);
                columns.push(if beside == 1 { all } else { g.make(Op::Shuffle(map), ty, vec![], vec![all]) });
            }
            units.push(i..i + beside);
            i += beside;
        }
        let (of_row, of_token) = self.own(t, g);
        // Two rows and two tokens of each tile.
        let row_floats = |g: &mut Graph, buffer: Option<Id>, i: i64| {
            let buffer = buffer?;
            let tile = self.tile_row(g, grid, i);
            let at = by(g, BinOp::Mul, group, self.rows);
            let at = g.add(at, tile);
            let at = g.add(at, of_row);
            let next = by(g, BinOp::Add, at, N);
            let (a, b) = (g.load(buffer, at, 1), g.load(buffer, next, 1));
            Some(join(g, vec![a, a, b, b]))
        };
        let token_floats = |g: &mut Graph, buffer: Option<Id>, i: i64| {
            let buffer = buffer?;
            let tile = self.tile_token(g, grid, i);
            let at = by(g, BinOp::Mul, group, self.tokens);
            let at = g.add(at, tile);
            let at = g.add(at, of_token);
            let both = g.load(buffer, at, 2);
            Some(g.make(Op::Shuffle(vec![0, 1, 0, 1]), Type::vector(DType::F32, 4), vec![], vec![both]))
        };
        let both = |g: &mut Graph, a: Option<Id>, b: Option<Id>| {
            let all: Vec<Id> = a.into_iter().chain(b).collect();
            combined(g, BinOp::Mul, &all)
        };
        let start = zero(g, Type::vector(DType::I32, 4));
        let mut common = vec![];
        let mut keep = |t: &mut Tiler, g: &mut Graph, value: Id| {
            let acc = t.acc(g, g.ty(value));
            common.push((acc, value));
            acc
        };
        let of_rows: Vec<(Id, Option<Id>, Option<Id>)> = (0..grid.down)
            .map(|i| {
                let [factor, rest] =
                    [place.factor[0], place.rest[0]].map(|b| row_floats(g, b, i).map(|value| keep(t, g, value)));
                (keep(t, g, rows[i as usize]), factor, rest)
            })
            .collect();
        let mut body = vec![t.set(g, common)];
        let mut pairs = vec![];
        for unit in units {
            let first = self.tile_token(g, grid, unit.start);
            for j in unit {
                for (i, &(rows, row_factor, row_rest)) in of_rows.iter().enumerate() {
                    let acc = accs[i * grid.across as usize + j as usize];
                    let columns = columns[j as usize];
                    let dots = g.make(Op::WarpProduct, Type::vector(DType::I32, 4), vec![], vec![start, rows, columns]);
                    let mut value = g.make(Op::Cast, Type::vector(DType::F32, 4), vec![], vec![dots]);
                    let token_factor = token_floats(g, place.factor[1], j);
                    if let Some(f) = both(g, row_factor, token_factor) {
                        value = g.mul(value, f);
                    }
                    let mut next = g.add(acc, value);
                    let token_rest = token_floats(g, place.rest[1], j);
                    if let Some(r) = both(g, row_rest, token_rest) {
                        next = g.add(next, r);
                    }
                    pairs.push((acc, next));
                }
            }
            if grid.ragged {
                let some = g.binary(BinOp::Lt, first, g.src(self.token)[0]);
                let set = t.set(g, std::mem::take(&mut pairs));
                body.extend(t.only(g, (g.as_int(some) != Some(1)).then_some(some), vec![set]));
            }
        }
        if !pairs.is_empty() {
            body.push(t.set(g, pairs));
        }
        vec![make_loop(g, turn, body)]
    }

    /// First row of tile `i` of a warp; past the last one, the last one again.
    fn tile_row(&self, g: &mut Graph, grid: &Grid, i: i64) -> Id {
        let tile = by(g, BinOp::Add, grid.m, i);
        let tile = at_most(g, tile, self.rows / M - 1);
        by(g, BinOp::Mul, tile, M)
    }

    /// First token of tile `i` of a warp, likewise.
    fn tile_token(&self, g: &mut Graph, grid: &Grid, i: i64) -> Id {
        let i = g.int(i);
        self.first_token(g, grid, i)
    }

    fn first_token(&self, g: &mut Graph, grid: &Grid, i: Id) -> Id {
        let tile = g.add(grid.n, i);
        let tile = at_most(g, tile, self.tokens / N - 1);
        by(g, BinOp::Mul, tile, N)
    }

    /// First row and first token of a tile that a lane has sums of.
    fn own(&self, t: &Tiler, g: &mut Graph) -> (Id, Id) {
        let token = by(g, BinOp::Mod, t.target.lane, 4);
        (by(g, BinOp::Div, t.target.lane, 4), by(g, BinOp::Mul, token, 2))
    }

    /// Puts together what several warps have of the same sums: each leaves its part, and threads take elements in turns.
    fn results_of_parts(&self, t: &mut Tiler, g: &mut Graph, grid: &Grid, accs: &[Id], parts: Id) -> Vec<Id> {
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
                let mut names = FxHashMap::from_iter([(sum.row, row), (self.token, token)]);
                let index = g.substitute(sum.item.index, &mut names);
                let store = t.store(g, sum.item.buffer, index, total);
                let there = g.binary(BinOp::Lt, token, g.src(self.token)[0]);
                (vec![], t.only(g, (g.as_int(there) != Some(1)).then_some(there), vec![store]))
            });
            all.extend(copies.into_iter().flat_map(|(_, stores)| stores));
        }
        all
    }

    /// Stores the sums of a thread.
    fn results(&self, t: &Tiler, g: &mut Graph, grid: &Grid, accs: &[Id]) -> Vec<Id> {
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
                    let row = by(g, BinOp::Sub, m, sum.first / M);
                    let row = by(g, BinOp::Mul, row, M);
                    let row = g.add(row, of_row);
                    let mut body = vec![];
                    for e in 0..4 {
                        let (row, token) = (by(g, BinOp::Add, row, e / 2 * 8), by(g, BinOp::Add, token, e % 2));
                        let mut names = FxHashMap::from_iter([(sum.row, row), (self.token, token)]);
                        let index = g.substitute(sum.item.index, &mut names);
                        let value = g.make(Op::Extract(e as u16), DType::F32, vec![], vec![acc]);
                        let store = t.store(g, sum.item.buffer, index, value);
                        let there = g.binary(BinOp::Lt, token, g.src(self.token)[0]);
                        body.extend(t.only(g, (g.as_int(there) != Some(1)).then_some(there), vec![store]));
                    }
                    let (first, end) = (sum.first / M, (sum.first + sum.rows) / M);
                    for (tile, first, end) in [(m, first, end), (n, 0, self.tokens / N)] {
                        let (least, most) = bounds(g, tile);
                        let below = (most >= end).then(|| by(g, BinOp::Lt, tile, end));
                        body = t.only(g, below, body);
                        let before = g.int(first - 1);
                        let from = (least < first).then(|| g.binary(BinOp::Lt, before, tile));
                        body = t.only(g, from, body);
                    }
                    all.extend(body);
                }
            }
        }
        all
    }
}

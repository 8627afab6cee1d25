//! Sums over rows of weights for several tokens: tiles of rows and tokens by the tensor cores of a warp.
//!
//! What the integer tile of a CPU does ([`crate::cpu`]), for a block of threads. A sum is cut into panels of a few groups.
//! The codes of a panel are unpacked once, to bytes in shared memory, and those of the tokens copied beside them; factors
//! and added terms lie there group by group. A warp has some tiles of 16 rows by 8 tokens: for each group it multiplies
//! codes to integers, which are scaled into sums that stay in its registers for all panels. What the next panel loads is
//! on its way meanwhile. Nothing is known of a format: what a row says of its bits is packed as for other paths.
//!
//! Sums of bf16 numbers are the same without factors: numbers are copied, or made of codes and factors on the way, and products
//! of 16 elements added to floats.
//!
//! Where a warp multiplies matrices as a whole (cooperative matrices), numbers are f16 and tiles 16 by 16, and what is in them
//! is stored through shared memory (`cooperative`). An item that has such sums in its value is computed as their elements come:
//! then a warp has the same tiles of each of them.
//!
//! Sums of the same tokens, as those of a gate and of what it gates, are one tile: the rows of all lie below each other,
//! and the tokens are copied once.
//!
//! Where there are few tiles, warps have the same ones and take the groups of a panel in turns, so that what is read from
//! shared memory serves more products; what they have is put together in the end.
//!
//! Tokens past the last one repeat it, and are not stored. What this path cannot do: groups of other lengths than 16 and
//! 32, rows that are no multiple of 16, and more sums than a thread has registers for.

mod cooperative;
mod grid;
mod in_groups;
mod panel;
mod results;

pub(super) use self::in_groups::TOGETHER_ROWS;

use self::grid::Grid;
use self::panel::Panel;
use crate::gpu::cooperative::{SIDE, STORED};
use crate::gpu::fold::same_index;
use crate::gpu::matrix;
use crate::gpu::plan::GpuPlan;
use crate::gpu::threads::Tiler;
use crate::kernel::dot_pattern::{Pattern, Scales, halves, matches};
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::{by, combined, find_reductions, loads_in, loads_of, loops_of, outside, replace, zero};
use crate::kernel::superword::join;
use crate::lower::{Item, Nest};
use ir::index::{bounds, gcd};
use ir::{Axis, BinOp, DType, Graph, Id, Op, Type};
use rustc_hash::FxHashMap;

/// Rows and columns of a tile, and bytes of a row of a fragment.
pub(super) const M: i64 = 16;
const N: i64 = 8;
const ROW: i64 = 16;

/// Elements that are multiplied at once where they are halves.
const HALVES: i64 = 16;

/// Sums that a thread keeps at most.
pub(super) const MOST: i64 = 64;

/// Tokens of a task at most that are multiplied by integer dots as they come, unless it has so many rows.
pub(super) const FEW: i64 = 8;
pub(super) const ROWS_OF_FEW: i64 = 128;

/// Sums for several tokens and rows, of the same tokens.
struct Product {
    sums: Vec<Sum>,
    token: Id,
    /// Rows of all sums.
    rows: i64,
    /// Tokens at most, rounded up to whole tiles.
    tokens: i64,
    /// Tokens of a tile.
    side: i64,
    /// Elements of a group.
    width: i64,
    /// Groups of a panel, and the number of panels.
    groups: i64,
    panels: i64,
    /// What is computed of an element of each of the sums, which nothing else reads.
    elements: Option<Elements>,
}

/// An item with sums in its value.
struct Elements {
    item: Item,
    /// The sums as they are in it.
    reduces: Vec<Id>,
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

/// The path and the statements of items that are sums for several tokens, if their tiles fit into a block: of as many of
/// them, from the first on, as are one tile.
pub(super) fn int_tile(t: &mut Tiler, g: &mut Graph, items: &[&Item]) -> Option<(&'static str, usize, Vec<Id>)> {
    let mut product = product(g, items.first()?, &t.target.plan).filter(|p| p.is_multiplied(&t.target.plan))?;
    if product.elements.is_some() {
        return product.in_some_panels(t, g).map(|all| ("block product", 1, all));
    }
    for &item in &items[1..] {
        let Some(next) = product.beside(g, item, &t.target.plan) else { break };
        product.rows += next.rows;
        product.sums.push(next);
    }
    while !product.sums.is_empty() {
        if let Some(all) = t.attempt_near(|t| product.in_groups(t, g)) {
            return Some(("block product", product.sums.len(), all));
        }
        if let Some(all) = product.in_some_panels(t, g) {
            let path = if product.factor(g) == DType::I8 { "integer tile" } else { "block product" };
            return Some((path, product.sums.len(), all));
        }
        product.rows -= product.sums.pop().map_or(0, |sum| sum.rows);
    }
    None
}

/// Whether an item is made of such tiles.
pub(super) fn is_tile(g: &mut Graph, item: &Item, plan: &GpuPlan) -> bool {
    product(g, item, plan).is_some()
}

/// Bytes of shared memory that the tiles of a nest need that lie nowhere else: cooperative matrices.
pub(super) fn needed(g: &mut Graph, nest: &Nest, plan: &GpuPlan) -> usize {
    let mut bytes = 0;
    for phase in &nest.phases {
        let all = phase.items.iter().filter_map(|item| product(g, item, plan));
        let all: Vec<Product> = all.filter(Product::is_cooperative).collect();
        let (rows, tokens): (i64, i64) =
            (all.iter().map(|p| p.rows).sum(), all.iter().map(|p| p.tokens).max().unwrap_or(0));
        bytes = bytes.max(cooperative::bytes(rows.min(plan.tile_rows), tokens, plan.warps));
    }
    bytes
}

/// Warps that the tiles of a nest have work for, if it has any. Those that multiply together have the same tiles only for want
/// of others.
pub(super) fn warps<'i>(g: &mut Graph, items: impl Iterator<Item = &'i Item>, plan: &GpuPlan) -> Option<i64> {
    let products = items.filter_map(|item| product(g, item, plan).filter(|p| p.is_multiplied(plan)));
    let products: Vec<Product> = products.collect();
    let together = plan.groups && products.iter().all(|product| product.together(g));
    let tiles: i64 = products.iter().map(|product| product.rows / M).sum();
    (tiles > 0).then(|| if together { gcd(tiles, plan.product_warps) } else { plan.product_warps })
}

/// Whether an item is computed of the elements of tiles of cooperative matrices, or is one.
pub(super) fn is_of_tiles(g: &mut Graph, item: &Item, plan: &GpuPlan) -> bool {
    plan.multiplies_whole() && product(g, item, plan).is_some_and(|p| p.is_cooperative())
}

fn product(g: &mut Graph, item: &Item, plan: &GpuPlan) -> Option<Product> {
    match g.op(item.value) {
        Op::Reduce(..) if g.dtype(item.buffer) == DType::F32 => one_sum(g, item, plan),
        Op::Reduce(..) => None,
        _ => of_elements(g, item, plan),
    }
}

/// The sums that an item has in its value, if they are of the same rows and tokens and cooperative matrices.
fn of_elements(g: &mut Graph, item: &Item, plan: &GpuPlan) -> Option<Product> {
    if !plan.multiplies_whole() {
        return None;
    }
    let mut reduces = vec![];
    find_reductions(g, item.value, &mut reduces);
    let other = |g: &Graph, l: Id| g.src(l)[0] == item.buffer && !same_index(g, g.src(l)[1], item.index);
    if reduces.is_empty() || loads_of(g, item).into_iter().any(|l| other(g, l)) {
        return None;
    }
    let mut product: Option<Product> = None;
    for &value in &reduces {
        let one = Item { value, ..item.clone() };
        match &mut product {
            None => product = Some(one_sum(g, &one, plan).filter(Product::is_cooperative)?),
            Some(product) => {
                let next = product.beside(g, &one, plan)?;
                if next.row != product.sums[0].row {
                    return None;
                }
                product.rows += next.rows;
                product.sums.push(next);
            }
        }
    }
    let elements = Some(Elements { item: item.clone(), reduces });
    product.map(|product| Product { elements, ..product })
}

fn one_sum(g: &mut Graph, item: &Item, plan: &GpuPlan) -> Option<Product> {
    let p = matches(g, item.value).or_else(|| halves(g, item.value))?;
    let (groups, width) = (g.as_int(g.src(p.group)[0])?, g.as_int(g.src(p.element)[0])?);
    let (groups, width, side) = match g.dtype(p.x) {
        DType::F16 if plan.cooperative && width % HALVES == 0 => (width / HALVES, HALVES, SIDE),
        DType::BF16 if width % HALVES == 0 => (width / HALVES, HALVES, N),
        DType::I8 if matches!(width, 16 | 32) => (groups, width, N),
        _ => return None,
    };
    let (token, row) = p.token_and_row(g, &item.dims)?;
    let (rows, tokens) = (g.as_int(g.src(row)[0])?, bounds(g, g.src(token)[0]).1);
    let few = tokens <= FEW && rows < ROWS_OF_FEW && g.dtype(p.x) == DType::I8;
    if rows % M != 0 || tokens < 2 || few {
        return None;
    }
    let scales = p.scales(g, token, row)?;
    let tokens = (tokens + side - 1) / side * side;
    let sums = vec![Sum { item: item.clone(), p, row, rows, first: 0, scales }];
    Some(Product { sums, token, rows, tokens, side, width, groups, panels: 1, elements: None })
}

/// `a`, or `most` where it is greater.
fn at_most(g: &mut Graph, a: Id, most: i64) -> Id {
    if bounds(g, a).1 <= most { a } else { by(g, BinOp::Min, a, most) }
}

/// Takes integers from memory that are the same for all threads and panels, as the number of an expert and that of its
/// tokens, out of statements: they are loaded before, as no compiler knows that nothing else is stored there meanwhile.
fn once_a_task(t: &mut Tiler, g: &mut Graph, (around, panel): (&[Id], Id), of: Vec<&mut Vec<Id>>) -> Option<Id> {
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
    /// A row of its matrix: the one of this number in a tile of the rows of all sums.
    fn row_of(&self, g: &mut Graph, tile: Id, number: Id) -> Id {
        let tile = by(g, BinOp::Sub, tile, self.first / M);
        let first = by(g, BinOp::Mul, tile, M);
        g.add(first, number)
    }

    /// The loops around a tile: over what is neither a row nor a token.
    fn around(&self, token: Id) -> Vec<Id> {
        self.item.dims.iter().copied().filter(|&d| d != token && d != self.row).collect()
    }
}

impl Product {
    /// The same in panels of as many groups as divide the sum, of so many elements at most.
    fn in_panels(&mut self, most: i64) -> &Product {
        let all = self.groups * self.panels;
        self.groups = (1..=most / self.width).rev().find(|n| all % n == 0).unwrap_or(1);
        self.panels = all / self.groups;
        self
    }

    /// Its statements in the longest panels that there is room for.
    fn in_some_panels(&mut self, t: &mut Tiler, g: &mut Graph) -> Option<Vec<Id>> {
        let bytes = self.factor(g).bytes() as i64;
        let mut lengths = panel::lengths(self.tokens, t.target.alone, bytes);
        lengths.find_map(|most| t.attempt_near(|t| self.in_panels(most).statements(t, g)))
    }

    /// Another item as a sum below the others, if it is of the same tokens.
    fn beside(&self, g: &mut Graph, item: &Item, plan: &GpuPlan) -> Option<Sum> {
        let first = &self.sums[0];
        let other = one_sum(g, item, plan)?;
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
        let mut sum = one_sum(g, &renamed, plan)?.sums.pop()?;
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

    /// Whether tiles are matrices that no lane has elements of.
    fn is_cooperative(&self) -> bool {
        self.side == SIDE
    }

    /// Whether a warp multiplies such tiles.
    fn is_multiplied(&self, plan: &GpuPlan) -> bool {
        plan.multiplies || self.is_cooperative()
    }

    /// What is multiplied.
    fn factor(&self, g: &Graph) -> DType {
        g.dtype(self.sums[0].p.x)
    }

    /// Elements of a row of a fragment.
    fn row(&self, g: &Graph) -> i64 {
        ROW / self.factor(g).bytes() as i64
    }

    /// Distance of rows in shared memory, so that eight of them lie in different banks.
    fn pitch(&self, g: &Graph) -> i64 {
        self.length() + self.row(g)
    }

    fn statements(&self, t: &mut Tiler, g: &mut Graph) -> Option<Vec<Id>> {
        let grid = self.grid(t, g)?;
        let parts = match grid.apart {
            1 => None,
            apart => Some(t.near(g, DType::F32, self.parts(apart))?),
        };
        let through = match self.is_cooperative() {
            true => Some(t.near(g, DType::F32, t.target.plan.warps * STORED)?),
            false => None,
        };
        // A task without tokens has no panels: all threads have to agree on what they wait in.
        let some = self.at_least(g, g.src(self.token)[0]);
        let count = by(g, BinOp::Mul, some, self.panels);
        let panel = t.range(g, count);
        let (place, copies) = self.copies(t, g, panel)?;
        let around = self.sums[0].around(self.token);
        let ty = Type::vector(DType::F32, self.side as usize / 2);
        let accs: Vec<Id> = (0..grid.down * grid.across).map(|_| t.acc(g, ty)).collect();
        let none = zero(g, ty);
        let mut all = vec![t.set(g, accs.iter().map(|&acc| (acc, none)).collect())];
        let (mut loads, mut stores) = (vec![], vec![]);
        for (load, store) in copies {
            loads.extend(load);
            stores.extend(store);
        }
        let first = self.tile_token(g, &grid, 0);
        let products = match through {
            Some(_) => self.multiply_whole(t, g, &grid, &place, &accs),
            None => self.multiply(t, g, &grid, &place, &accs),
        };
        let mut products = self.if_token(t, g, first, products);
        let mut results = match (parts, through) {
            (Some(parts), _) => self.results_of_parts(t, g, &grid, &accs, parts),
            (_, Some(through)) => match &self.elements {
                Some(elements) => self.elements_through(t, g, &grid, &accs, through, elements),
                None => self.results_through(t, g, &grid, &accs, through),
            },
            _ => self.results(t, g, &grid, &accs),
        };
        // Whether it pays where lanes have elements of their own was not measured.
        let mut each = vec![&mut loads, &mut stores];
        if through.is_some() {
            each.extend([&mut products, &mut results]);
        }
        all.extend(once_a_task(t, g, (&around, panel), each));
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
        all.extend(results);
        Some(t.nest(g, &around, all))
    }

    /// Statements that run if there is such a token.
    fn if_token(&self, t: &Tiler, g: &mut Graph, token: Id, body: Vec<Id>) -> Vec<Id> {
        let there = g.binary(BinOp::Lt, token, g.src(self.token)[0]);
        t.only(g, (g.as_int(there) != Some(1)).then_some(there), body)
    }

    /// One, or nothing where a number is zero.
    fn at_least(&self, g: &mut Graph, number: Id) -> Id {
        if bounds(g, number).0 > 0 { g.int(1) } else { by(g, BinOp::Min, number, 1) }
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
        let (each, pitch) = (self.row(g), self.pitch(g));
        let parts = self.width / each;
        let fragment = |g: &mut Graph, buffer: Id, row: Id, part: Id, matrices: i64| {
            let part = by(g, BinOp::Mul, part, each);
            let at = g.add(k, part);
            matrix::fragment(g, buffer, (row, at), pitch, matrices, false)
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
        // As many tiles as a fragment has matrices for; one, where there is usually no second one.
        let most = if grid.ragged && self.tokens <= 2 * N { 1 } else { 4 };
        let (mut i, mut units) = (0, vec![]);
        while i < grid.across {
            let beside =
                [4 / parts, 2 / parts, 1].into_iter().find(|&n| (1..=most).contains(&n) && i + n <= grid.across);
            let beside = beside.unwrap_or(1);
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
                let lanes = (self.width / 4) as u16;
                let map = (0..lanes).map(|l| b as u16 * lanes + l).collect();
                let ty = Type::vector(self.factor(g), lanes as usize);
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
        let integers = self.factor(g) == DType::I8;
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
                    if !integers {
                        let ty = Type::vector(DType::F32, 4);
                        pairs.push((acc, g.make(Op::WarpProduct, ty, vec![], vec![acc, rows, columns])));
                        continue;
                    }
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
                let set = t.set(g, std::mem::take(&mut pairs));
                body.extend(self.if_token(t, g, first, vec![set]));
            }
        }
        if !pairs.is_empty() {
            body.push(t.set(g, pairs));
        }
        vec![make_loop(g, turn, body)]
    }

    /// First row and first token of a tile that a lane has sums of.
    fn own(&self, t: &Tiler, g: &mut Graph) -> (Id, Id) {
        let token = by(g, BinOp::Mod, t.target.lane, 4);
        (by(g, BinOp::Div, t.target.lane, 4), by(g, BinOp::Mul, token, 2))
    }
}

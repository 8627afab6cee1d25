//! Loops that go row by row: neighbouring lanes have a row of what is carried from round to round.
//!
//! A recurrence is such a loop: its matrices have the rows of what it carries, and each is made of what lies at its own place,
//! of sums along its row, and of memory. So all of it stays in registers, the lanes of a row exchange their sums by shuffles,
//! and no thread waits for another. What a round reads is on its way during the round before it ([`ahead`]).
//!
//! What this cannot do: items that combine rows, more rows than threads, and more elements than a thread has registers for.

use crate::gpu::ahead;
use crate::gpu::align::{align, alignment};
use crate::gpu::early;
use crate::gpu::fold::same_index;
use crate::gpu::plan::GpuPlan;
use crate::gpu::threads::Tiler;
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::{
    by, collect_loads, combine, depends, has_reduction, is_scratch, outermost_loads, outside, reads, zero,
};
use crate::kernel::superword::Packer;
use crate::lower::Item;
use ir::index::{Linear, bounds, unflatten};
use ir::{BinOp, Graph, Id, Op, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// Elements of a row that a lane should have: the more of them, the fewer shuffles; the fewer, the more warps.
pub(super) const EACH: i64 = 8;

/// Elements of a row that a lane has at most.
const MOST: i64 = 32;

/// Neighbours in a row that are a vector.
const WIDTHS: [i64; 3] = [4, 2, 1];

/// Rows of what a loop carries.
pub(super) struct Rows {
    rows: i64,
    columns: i64,
}

impl Rows {
    /// Those of scratch that a round with these items may set, and then replaces element by element.
    pub(super) fn of(g: &Graph, items: &[Item]) -> Option<Rows> {
        let mut replaced =
            items.iter().enumerate().filter(|(_, item)| is_scratch(g, item.buffer) && reads(g, item, item.buffer));
        let (number, next) = replaced.next()?;
        let set = items[..number].iter().any(|item| item.buffer == next.buffer);
        let lens: Vec<i64> = next.dims.iter().map(|&d| g.as_int(g.src(d)[0])).collect::<Option<_>>()?;
        let (&columns, rows) = lens.split_last().filter(|(_, rows)| set && !rows.is_empty())?;
        Some(Rows { rows: rows.iter().product(), columns })
    }

    /// Warps of a block whose lanes have as much as they should, if it has so many.
    pub(super) fn warps(&self, plan: &GpuPlan) -> i64 {
        let lanes = (self.columns / EACH).clamp(1, plan.lanes);
        let warps = ((self.rows * lanes + plan.lanes - 1) / plan.lanes) as u64;
        plan.able(warps.next_power_of_two() as i64).max(plan.able(plan.warps))
    }
}

/// Scratch in registers.
struct Kept {
    /// The item that writes it: what its elements are counted by, and where they are.
    dims: Vec<Id>,
    index: Id,
    /// Of a matrix, vectors of neighbours; of what has one element a row, that element, in all lanes of the row.
    accs: Vec<Id>,
    /// Of a matrix, what stands for each element of these vectors until they are known to be vectors.
    elements: Vec<Id>,
}

/// An element of a thread: of its row, or the one of this number in its part of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Row,
    Element(i64),
}

impl At {
    /// The first element of a matrix, or the one of a row.
    fn first(matrix: bool) -> At {
        if matrix { At::Element(0) } else { At::Row }
    }
}

struct Loop<'t> {
    t: &'t mut Tiler,
    rows: i64,
    columns: i64,
    /// Lanes of a row, and neighbours in a vector.
    lanes: i64,
    width: i64,
    /// The row of this thread, and the number of its lane in that row.
    row: Id,
    lane: Id,
    /// Whether it is the first of several threads that have the same.
    first: Option<Id>,
    kept: FxHashMap<Id, Kept>,
    /// Slots of parameters that a round writes.
    written: FxHashSet<u32>,
    /// Loads of a round, and the registers that stand for them.
    loaded: Vec<(Id, Id)>,
}

/// The statements of a loop, if it goes row by row.
pub(super) fn statements(
    t: &mut Tiler,
    g: &mut Graph,
    phases: &[(Option<Id>, Vec<Item>)],
    number: usize,
) -> Option<Vec<Id>> {
    let (serial, items) = &phases[number];
    let (serial, of) = ((*serial)?, Rows::of(g, items)?);
    let others = || phases.iter().enumerate().filter(|(n, _)| *n != number).flat_map(|(_, phase)| &phase.1);
    let elsewhere = |buffer: Id| is_scratch(g, buffer) && others().any(|o| o.buffer == buffer || reads(g, o, buffer));
    if items.iter().any(|item| elsewhere(item.buffer)) {
        return None;
    }
    WIDTHS.into_iter().find_map(|width| t.attempt(|t| of_width(t, g, serial, items, &of, width)))
}

fn of_width(t: &mut Tiler, g: &mut Graph, serial: Id, items: &[Item], of: &Rows, width: i64) -> Option<Vec<Id>> {
    let &Rows { rows, columns } = of;
    let (threads, of_warp, warps) = (t.target.plan.threads(), t.target.plan.lanes, t.target.plan.warps);
    let most = (threads / rows).min(of_warp).min(columns / width);
    let powers = (0..=u64::try_from(most).ok()?.checked_ilog2()?).rev().map(|b| 1i64 << b);
    let lanes = powers.filter(|l| columns % (l * width) == 0 && columns / l <= MOST).max()?;
    let (active, number) = (rows * lanes, t.target.number(g));
    // All lanes of a warp exchange sums: those that no row is left for have one of others.
    let spare = active % of_warp != 0;
    let row = by(g, BinOp::Div, number, lanes);
    let row = if spare { by(g, BinOp::Mod, row, rows) } else { row };
    let first = spare.then(|| by(g, BinOp::Lt, number, active));
    let lane = by(g, BinOp::Mod, t.target.lane, lanes);
    let written = early::written(g, &items.iter().map(|i| i.buffer).collect::<Vec<_>>());
    let (kept, loaded) = Default::default();
    let mut all = Loop { t, rows, columns, lanes, width, row, lane, first, kept, written, loaded };
    let mut round = vec![];
    for item in items {
        round.extend(all.item(g, item)?);
    }
    let Loop { t, kept, loaded, .. } = all;
    let mut begin: Vec<(Id, Id)> = kept.values().flat_map(|k| &k.accs).map(|&acc| (acc, zero(g, g.ty(acc)))).collect();
    begin.sort_unstable();
    // What is the same in each round is loaded before them; the rest a round ahead, into registers that take turns.
    let (each, once): (Vec<_>, Vec<_>) = loaded.into_iter().partition(|&(load, _)| depends(g, load, serial));
    begin.extend(once.into_iter().map(|(load, acc)| (acc, load)));
    let mut before = vec![t.set(g, begin)];
    if !each.is_empty() {
        let next: Vec<Id> = each.iter().map(|&(_, acc)| t.acc(g, g.ty(acc))).collect();
        let sent = each.iter().zip(&next).map(|(&(load, _), &next)| (next, load)).collect();
        let taken = each.iter().zip(&next).map(|(&(_, acc), &next)| (acc, next)).collect();
        let both = [sent, taken].map(|pairs| t.set(g, pairs));
        round.splice(0..0, both);
    }
    let (sent, round) = ahead::loads_ahead(t, g, serial, round);
    before.extend(sent);
    before.push(make_loop(g, serial, round));
    let warps_with_rows = (active + of_warp - 1) / of_warp;
    let has = (warps_with_rows < warps).then(|| by(g, BinOp::Lt, t.target.warp, warps_with_rows));
    Some(t.only(g, has, before))
}

impl Loop<'_> {
    /// Elements of a row that a lane has.
    fn each(&self) -> i64 {
        self.columns / self.lanes
    }

    /// Statements of an item.
    fn item(&mut self, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
        let lens: Vec<i64> = item.dims.iter().map(|&d| bounds(g, g.src(d)[0]).1).collect();
        let all: i64 = lens.iter().product();
        let sum = match *g.op(item.value) {
            Op::Reduce(op, _) => Some(op),
            _ if has_reduction(g, item.value) => return None,
            _ => None,
        };
        let matrix = all == self.rows * self.columns && lens.last() == Some(&self.columns);
        if all != self.rows && !matrix || sum.is_some() && matrix {
            return None;
        }
        let condition = self.condition(g, &item.dims, matrix)?;
        let always = condition.is_none();
        // All lanes of a row have to be there to exchange sums.
        if sum.is_some() && !always {
            return None;
        }
        let values = match (sum, matrix) {
            (Some(op), _) => {
                let &[body, range] = g.src(item.value) else { return None };
                if g.as_int(g.src(range)[0]) != Some(self.columns) || has_reduction(g, body) {
                    return None;
                }
                let parts = self.vectors(g, &item.dims, Some(range), body, always)?;
                let mut parts = parts.into_iter();
                let first = parts.next()?;
                let mut sum = parts.fold(first, |sum, part| combine(g, op, sum, part));
                let scalar = Type::from(g.dtype(sum));
                if g.ty(sum).lanes > 1 {
                    sum = g.make(Op::Across(op), scalar, vec![], vec![sum]);
                }
                for bit in (0..self.lanes.ilog2()).rev() {
                    let other = g.make(Op::LaneXor(1 << bit), scalar, vec![], vec![sum]);
                    sum = combine(g, op, sum, other);
                }
                vec![sum]
            }
            (None, true) => self.vectors(g, &item.dims, None, item.value, always)?,
            (None, false) => {
                let value = self.resolved(g, &item.dims, None, item.value, At::Row)?;
                vec![self.hoisted(g, value, always)]
            }
        };
        let body = match is_scratch(g, item.buffer) {
            true => vec![self.keep(g, item, matrix, &values)?],
            false => self.stores(g, item, matrix, &values)?,
        };
        Some(self.t.only(g, condition, body))
    }

    /// Whether a thread has an element of dimensions of which some may be shorter than they are long at most; the columns are
    /// not.
    fn condition(&mut self, g: &mut Graph, dims: &[Id], matrix: bool) -> Option<Option<Id>> {
        let at = self.places(g, dims, None, At::first(matrix))?;
        let mut all = None;
        for (n, &d) in dims.iter().enumerate() {
            let extent = g.src(d)[0];
            if g.as_int(extent).is_some() {
                continue;
            }
            if matrix && n + 1 == dims.len() {
                return None;
            }
            let extent = self.hoisted(g, extent, true);
            let has = g.binary(BinOp::Lt, at[&d], extent);
            all = Some(all.map_or(has, |all| g.binary(BinOp::And, all, has)));
        }
        Some(all)
    }

    /// What stands for dimensions, of which the last is the column if the element is not that of a row, and for the range of a
    /// sum along it.
    fn places(&self, g: &mut Graph, dims: &[Id], along: Option<Id>, at: At) -> Option<FxHashMap<Id, Id>> {
        let mut map = FxHashMap::default();
        let mut rows = dims;
        if let At::Element(number) = at {
            let (vector, element) = (number / self.width, number % self.width);
            let first = by(g, BinOp::Mul, self.lane, self.width);
            let column = by(g, BinOp::Add, first, vector * self.lanes * self.width + element);
            match along {
                Some(range) => map.insert(range, column),
                None => {
                    let (&last, others) = dims.split_last()?;
                    rows = others;
                    map.insert(last, column)
                }
            };
        }
        let lens: Vec<Id> = rows
            .iter()
            .map(|&d| {
                let most = bounds(g, g.src(d)[0]).1;
                g.int(most)
            })
            .collect();
        map.extend(rows.iter().copied().zip(unflatten(g, &lens, self.row)));
        Some(map)
    }

    /// A value at an element, with what lies in registers.
    fn resolved(&self, g: &mut Graph, dims: &[Id], along: Option<Id>, value: Id, at: At) -> Option<Id> {
        let value = {
            let mut map = self.places(g, dims, along, at)?;
            g.substitute(value, &mut map)
        };
        let mut loads = vec![];
        collect_loads(g, value, &mut loads);
        let mut map = FxHashMap::default();
        for load in loads {
            let (buffer, index) = (g.src(load)[0], g.src(load)[1]);
            if !is_scratch(g, buffer) {
                continue;
            }
            let kept = self.kept.get(&buffer)?;
            let (own, register) = match (at, kept.elements.is_empty()) {
                (_, true) => (At::Row, kept.accs[0]),
                (At::Element(number), false) => (at, kept.elements[number as usize]),
                (At::Row, false) => return None,
            };
            if !self.is_at(g, kept, own, index)? {
                return None;
            }
            map.insert(load, register);
        }
        Some(g.substitute(value, &mut map))
    }

    /// Whether an index is that of an element.
    fn is_at(&self, g: &mut Graph, kept: &Kept, at: At, index: Id) -> Option<bool> {
        let mut map = self.places(g, &kept.dims, None, at)?;
        let own = g.substitute(kept.index, &mut map);
        Some(same_index(g, own, index))
    }

    /// A value at the elements of a thread, as vectors.
    fn vectors(&mut self, g: &mut Graph, dims: &[Id], along: Option<Id>, value: Id, always: bool) -> Option<Vec<Id>> {
        let (each, width) = (self.each(), self.width as usize);
        let mut packer = Packer::shifting();
        for kept in self.kept.values() {
            kept.elements.chunks(width).zip(&kept.accs).for_each(|(of, &acc)| packer.know(of.to_vec(), acc));
        }
        let elements: Vec<Id> =
            (0..each).map(|n| self.resolved(g, dims, along, value, At::Element(n))).collect::<Option<_>>()?;
        let mut all = vec![];
        for lanes in elements.chunks(width) {
            let packed = packer.pack_vector(g, lanes)?;
            let packed = align(g, packed, self.t.target.plan.widest);
            all.push(self.hoisted(g, packed, always));
        }
        (packer.gathered == 0).then_some(all)
    }

    /// A value with registers in place of what it loads in any case, where nothing changes that.
    fn hoisted(&mut self, g: &mut Graph, value: Id, always: bool) -> Id {
        let mut map = FxHashMap::default();
        for load in outermost_loads(g, value) {
            let mut inner = vec![];
            collect_loads(g, load, &mut inner);
            let stays = inner.iter().all(|&l| outside(g, l) && early::stays(g, l, &self.written));
            let computed = g.toposort(&[load]).iter().any(|&n| matches!(g.op(n), Op::Acc(_)));
            if !always || !stays || computed {
                continue;
            }
            let known = self.loaded.iter().find(|l| l.0 == load).map(|l| l.1);
            let acc = known.unwrap_or_else(|| {
                let acc = self.t.acc(g, g.ty(load));
                self.loaded.push((load, acc));
                acc
            });
            map.insert(load, acc);
        }
        g.substitute(value, &mut map)
    }

    /// Puts values into the registers of scratch.
    fn keep(&mut self, g: &mut Graph, item: &Item, matrix: bool, values: &[Id]) -> Option<Id> {
        let ty = g.dtype(item.buffer);
        if !self.kept.contains_key(&item.buffer) {
            let of = if matrix { Type::vector(ty, self.width as usize) } else { ty.into() };
            let accs: Vec<Id> = values.iter().map(|_| self.t.acc(g, of)).collect();
            let elements = match (matrix, self.width) {
                (false, _) => vec![],
                (true, 1) => accs.clone(),
                (true, _) => (0..self.each()).map(|_| self.t.acc(g, ty)).collect(),
            };
            self.kept.insert(item.buffer, Kept { dims: item.dims.clone(), index: item.index, accs, elements });
        }
        let kept = &self.kept[&item.buffer];
        if kept.elements.is_empty() == matrix {
            return None;
        }
        let last = if matrix { At::Element(self.each() - 1) } else { At::Row };
        for at in [At::first(matrix), last] {
            let mut map = self.places(g, &item.dims, None, at)?;
            let index = g.substitute(item.index, &mut map);
            if !self.is_at(g, kept, at, index)? {
                return None;
            }
        }
        let pairs = kept.accs.clone().into_iter().zip(values).map(|(acc, &value)| (acc, g.cast(value, ty))).collect();
        Some(self.t.set(g, pairs))
    }

    /// Stores of values: of a row by its first lane, and of a matrix by vectors.
    fn stores(&mut self, g: &mut Graph, item: &Item, matrix: bool, values: &[Id]) -> Option<Vec<Id>> {
        let ty = g.dtype(item.buffer);
        if !matrix {
            let index = self.resolved(g, &item.dims, None, item.index, At::Row)?;
            let leads = by(g, BinOp::Eq, self.lane, 0);
            let leads = self.first.map_or(leads, |first| g.binary(BinOp::And, first, leads));
            let leads = (g.as_int(leads) != Some(1)).then_some(leads);
            return Some(vec![self.t.store_if(g, item.buffer, index, values[0], leads)]);
        }
        let last = *item.dims.last()?;
        let next_to = Linear::of(g, item.index).coefficient(last) == 1 || self.width == 1;
        let mut all = vec![];
        for (vector, &value) in values.iter().enumerate() {
            let index = self.resolved(g, &item.dims, None, item.index, At::Element(vector as i64 * self.width))?;
            let value = g.cast(value, ty);
            let bytes = g.ty(value).bytes();
            if !next_to || bytes > self.t.target.plan.widest || alignment(g, item.buffer, index) < bytes {
                return None;
            }
            all.push(g.make(Op::Store, g.dtype(index), vec![], vec![item.buffer, index, value]));
        }
        Some(self.t.only(g, self.first, all))
    }
}

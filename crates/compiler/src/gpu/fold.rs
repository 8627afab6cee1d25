//! Folds whose loop only merges what lies in memory: the carriers are kept in registers.
//!
//! A step of such a loop reads the next part, and each element of the widest carrier needs nothing of the others but
//! what narrower carriers hold for all of them. So one thread has an element of the widest carrier, and its own copy of
//! the narrower ones; nothing is exchanged while the loop runs. Where a block has a few elements for each thread, it has them
//! side by side, with one copy of what is narrower. Where a block has more threads than elements, groups of
//! threads share the steps out, and what they have is merged in their order by the merge of the fold itself. What the
//! carriers are before the loop are constants, which are not in memory either: several threads would read there what one
//! of them writes.

use crate::gpu::threads::Tiler;
use crate::kernel::expression::{collect_loads, depends, has_reduction, is_scratch, outside, reads};
use crate::lower::Item;
use ir::index::{self, Linear};
use ir::{BinOp, Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// Steps of a thread whose loads are in flight together.
const SIDE: i64 = 16;

/// Of so few steps each is merged after the one before; of more, pairs.
const FEW: i64 = 2;

/// Elements of the widest carrier that a thread has side by side at most; more come one after the other.
const COPIES: i64 = 4;

/// What a stash holds, by the dimensions of the item that wrote it.
pub(super) struct Kept {
    pub(super) dims: Vec<Id>,
    pub(super) index: Id,
    pub(super) value: Id,
}

/// A value that goes from round to round.
struct Carrier {
    buffer: Id,
    /// Its element that a thread has, by the dimensions of the widest carrier.
    at: Id,
    /// What it becomes, by loads of carriers and of the next part.
    next: Id,
    /// The load of its own next part.
    part: Id,
    /// What it is before the loop.
    first: Id,
}

/// A serial phase with its carriers in registers.
pub(super) struct FoldPlan {
    serial: Id,
    /// Those of the widest carrier.
    dims: Vec<Id>,
    carriers: Vec<Carrier>,
    /// Whether a part is what carriers are, so that carriers merge with each other, too.
    alike: bool,
}

impl FoldPlan {
    /// Whether a stash is a carrier, which nothing needs to set before the loop.
    pub(super) fn begins(&self, buffer: Id) -> bool {
        self.carriers.iter().any(|c| c.buffer == buffer)
    }
}

/// The phase of this number with its carriers in registers, if it can have them there.
pub(super) fn plan(g: &mut Graph, phases: &[(Option<Id>, Vec<Item>)], number: usize) -> Option<FoldPlan> {
    let (Some(serial), items) = &phases[number] else { return None };
    if items.iter().any(|i| has_reduction(g, i.value)) {
        return None;
    }
    let kept = after_a_round(g, items)?;
    let elsewhere = read_outside(g, phases, number);
    let widest = items.iter().filter(|i| elsewhere.contains(&i.buffer)).max_by_key(|i| length(g, &i.dims))?;
    let mut wanted: Vec<Id> = kept.keys().copied().filter(|b| elsewhere.contains(b)).collect();
    wanted.sort_unstable();
    let carriers = carriers(g, &kept, widest, &wanted, *serial, &phases[..number])?;
    let alike = alike(g, &carriers);
    Some(FoldPlan { serial: *serial, dims: widest.dims.clone(), carriers, alike })
}

/// The scratch that all phases but one read.
fn read_outside(g: &Graph, phases: &[(Option<Id>, Vec<Item>)], phase: usize) -> FxHashSet<Id> {
    let others = phases.iter().enumerate().filter(|(n, _)| *n != phase).flat_map(|(_, (_, items))| items);
    let mut loads = vec![];
    others.for_each(|i| collect_loads(g, i.value, &mut loads));
    loads.into_iter().map(|l| g.src(l)[0]).collect()
}

/// What phases leave in a stash, if it is one constant that they do not read.
fn constant(g: &Graph, phases: &[(Option<Id>, Vec<Item>)], buffer: Id) -> Option<Id> {
    let items = phases.iter().flat_map(|(serial, items)| items.iter().map(move |i| (serial, i)));
    let mut writers = items.clone().filter(|(_, i)| i.buffer == buffer);
    let (Some((None, item)), None) = (writers.next(), writers.next()) else { return None };
    let read = items.clone().any(|(_, i)| reads(g, i, buffer));
    (!read && matches!(g.op(item.value), Op::Const(_))).then_some(item.value)
}

/// Number of elements, 0 if it is not known.
fn length(g: &Graph, dims: &[Id]) -> i64 {
    dims.iter().map(|&d| g.as_int(g.src(d)[0]).unwrap_or(0)).product()
}

/// What each stash that the items write holds at the end, in terms of what it held before.
fn after_a_round(g: &mut Graph, items: &[Item]) -> Option<FxHashMap<Id, Kept>> {
    let mut kept: FxHashMap<Id, Kept> = FxHashMap::default();
    for item in items {
        if !is_scratch(g, item.buffer) {
            return None;
        }
        let value = resolved(g, &kept, item.value, &item.dims)?;
        kept.insert(item.buffer, Kept { dims: item.dims.clone(), index: item.index, value });
    }
    Some(kept)
}

/// An expression with what stashes hold in place of loads of them.
fn resolved(g: &mut Graph, kept: &FxHashMap<Id, Kept>, value: Id, dims: &[Id]) -> Option<Id> {
    let mut loads = vec![];
    collect_loads(g, value, &mut loads);
    let mut map = FxHashMap::default();
    for load in loads {
        let (buffer, at) = (g.src(load)[0], g.src(load)[1]);
        if let Some(k) = kept.get(&buffer) {
            map.insert(load, held(g, k, at, dims)?);
        }
    }
    Some(g.substitute(value, &mut map))
}

/// What a stash holds at an index, which is an expression of `dims`.
pub(super) fn held(g: &mut Graph, kept: &Kept, at: Id, dims: &[Id]) -> Option<Id> {
    let mut map: FxHashMap<Id, Id> = match kept.dims[..] {
        [] => return Some(kept.value),
        [one] if one == kept.index => FxHashMap::from_iter([(one, at)]),
        _ if kept.dims.len() == dims.len() => kept.dims.iter().copied().zip(dims.iter().copied()).collect(),
        _ => return None,
    };
    let index = g.substitute(kept.index, &mut map);
    same_index(g, index, at).then(|| g.substitute(kept.value, &mut map))
}

pub(super) fn same_index(g: &Graph, a: Id, b: Id) -> bool {
    let sorted = |id: Id| {
        let Linear { mut terms, constant } = Linear::of(g, id);
        terms.sort_unstable();
        (terms, constant)
    };
    sorted(a) == sorted(b)
}

/// The carriers that are wanted and those that they need, the widest first: every one at one index, and each with a part
/// of its own.
fn carriers(
    g: &mut Graph,
    kept: &FxHashMap<Id, Kept>,
    widest: &Item,
    wanted: &[Id],
    serial: Id,
    before: &[(Option<Id>, Vec<Item>)],
) -> Option<Vec<Carrier>> {
    let mut found: Vec<(Id, Id, Id)> = vec![(widest.buffer, widest.index, kept[&widest.buffer].value)];
    for &buffer in wanted.iter().filter(|&&b| b != widest.buffer) {
        let k = &kept[&buffer];
        let at = match k.dims[..] {
            [] => k.index,
            [one] => widest.dims.iter().copied().find(|&d| g.src(d)[0] == g.src(one)[0])?,
            _ => return None,
        };
        let value = held(g, k, at, &widest.dims)?;
        found.push((buffer, at, value));
    }
    let mut next = 0;
    while next < found.len() {
        let mut loads = vec![];
        collect_loads(g, found[next].2, &mut loads);
        next += 1;
        for load in loads {
            let (buffer, at) = (g.src(load)[0], g.src(load)[1]);
            let Some(k) = kept.get(&buffer) else { continue };
            match found.iter().find(|f| f.0 == buffer) {
                Some(f) if same_index(g, f.1, at) => {}
                Some(_) => return None,
                None => {
                    if !covers(g, k, at, &widest.dims) {
                        return None;
                    }
                    let value = held(g, k, at, &widest.dims)?;
                    found.push((buffer, at, value));
                }
            }
        }
    }
    // The part of a carrier is the one that it alone adds to those of carriers that it needs.
    let parts_of = |g: &Graph, value: Id| {
        let mut loads = vec![];
        collect_loads(g, value, &mut loads);
        loads.retain(|&l| outside(g, l) && depends(g, l, serial));
        loads
    };
    let mut left: Vec<(usize, Vec<Id>)> = (0..found.len()).map(|i| (i, parts_of(g, found[i].2))).collect();
    let mut part: FxHashMap<usize, Id> = FxHashMap::default();
    while !left.is_empty() {
        let known: Vec<Id> = part.values().copied().collect();
        let own = |parts: &[Id]| parts.iter().copied().filter(|p| !known.contains(p)).collect::<Vec<_>>();
        let at = left.iter().position(|(_, parts)| own(parts).len() == 1)?;
        let (carrier, parts) = left.remove(at);
        part.insert(carrier, own(&parts)[0]);
    }
    let carriers = found.into_iter().enumerate().map(|(i, (buffer, at, next))| {
        Some(Carrier { buffer, at, next, part: part[&i], first: constant(g, before, buffer)? })
    });
    carriers.collect()
}

/// Whether carriers become the same if they and their parts change places. Of a part that is computed from what is loaded they do
/// not.
fn alike(g: &mut Graph, carriers: &[Carrier]) -> bool {
    let mut changed: FxHashMap<Id, Id> = FxHashMap::default();
    for c in carriers {
        let own = c.loads(g, carriers);
        let Some(&first) = own.first() else { return false };
        changed.extend(own.into_iter().map(|load| (load, c.part)));
        changed.insert(c.part, first);
    }
    carriers.iter().all(|c| {
        let other = g.substitute(c.next, &mut changed.clone());
        same_value(g, c.next, other)
    })
}

/// Whether two expressions are the same up to the order of what is added, multiplied or compared.
fn same_value(g: &Graph, a: Id, b: Id) -> bool {
    if a == b {
        return true;
    }
    let (of_a, of_b) = (g.src(a), g.src(b));
    if g.op(a) != g.op(b) || g.ty(a) != g.ty(b) || of_a.len() != of_b.len() || of_a.is_empty() {
        return false;
    }
    let either = matches!(g.op(a), Op::Binary(BinOp::Add | BinOp::Mul | BinOp::Max | BinOp::Min));
    let in_order = of_a.iter().zip(of_b).all(|(&a, &b)| same_value(g, a, b));
    in_order || either && same_value(g, of_a[0], of_b[1]) && same_value(g, of_a[1], of_b[0])
}

/// Whether the elements at this index are all of what a stash holds.
fn covers(g: &Graph, kept: &Kept, at: Id, dims: &[Id]) -> bool {
    match kept.dims[..] {
        [] => true,
        [one] => dims.contains(&at) && g.src(one)[0] == g.src(at)[0],
        _ => false,
    }
}

/// The statements of a phase.
pub(super) fn statements(t: &mut Tiler, g: &mut Graph, plan: &FoldPlan) -> Vec<Id> {
    let FoldPlan { dims, carriers, .. } = plan;
    let elements = length(g, dims);
    let threads = t.target.plan.threads();
    let whole = |n: i64, of: i64| if n > 0 && n % of == 0 { n / of } else { 1 };
    let groups = if plan.alike { whole(threads, elements.max(1)) } else { 1 };
    let copies = whole(elements, threads);
    if groups == 1 && !(2..=COPIES).contains(&copies) {
        let shares = t.share(g, dims);
        let here = std::slice::from_ref(&shares.at);
        let (accs, mut body) = merged(t, g, plan, here, None);
        body.extend(kept_again(t, g, dims, carriers, here, &accs));
        let body = t.only(g, shares.has, body);
        return t.nest(g, &shares.outer, body);
    }
    let number = t.target.number(g);
    let extents: Vec<Id> = dims.iter().map(|&d| g.src(d)[0]).collect();
    let place = |g: &mut Graph, element: Id| -> FxHashMap<Id, Id> {
        dims.iter().copied().zip(index::unflatten(g, &extents, element)).collect()
    };
    if groups == 1 {
        let element = |g: &mut Graph, copy: i64| {
            let before = g.int(copy * threads);
            let element = g.add(number, before);
            place(g, element)
        };
        let at: Vec<_> = (0..copies).map(|copy| element(g, copy)).collect();
        let (accs, mut all) = merged(t, g, plan, &at, None);
        all.extend(kept_again(t, g, dims, carriers, &at, &accs));
        return all;
    }
    let (n, count) = (g.int(elements), g.int(groups));
    let (element, group) = (g.binary(BinOp::Mod, number, n), g.binary(BinOp::Div, number, n));
    let at = [place(g, element)];
    let (accs, mut all) = merged(t, g, plan, &at, Some((group, count)));
    // What the groups have, one after the other.
    let mut parts = vec![];
    for (c, acc) in carriers.iter().zip(&accs) {
        let part = t.stash(g, g.dtype(c.buffer), (elements * groups) as usize);
        let store = t.store(g, part, number, acc[0]);
        all.push(store);
        parts.push(part);
    }
    let at = [place(g, number)];
    let load = |g: &mut Graph, part: Id, group: i64| {
        let first = g.int(group * elements);
        let i = g.add(first, number);
        g.load(part, i, 1)
    };
    let begin = accs.iter().zip(&parts).map(|(acc, &part)| (acc[0], load(g, part, 0))).collect();
    let mut last = vec![t.set(g, begin)];
    for group in 1..groups {
        let next: Vec<Vec<Id>> = parts.iter().map(|&part| vec![load(g, part, group)]).collect();
        last.push(step(t, g, carriers, &at, &accs, &next));
    }
    last.extend(kept_again(t, g, dims, carriers, &at, &accs));
    let few = g.binary(BinOp::Lt, number, n);
    all.extend(t.only(g, Some(few), last));
    all
}

impl Carrier {
    /// How many a thread has of it, for elements of the widest carrier at these places: one each, or one for all.
    fn copies(&self, g: &Graph, at: &[FxHashMap<Id, Id>]) -> usize {
        if at[0].keys().any(|&dim| depends(g, self.at, dim)) { at.len() } else { 1 }
    }

    /// The loads of it in what it and the others become.
    fn loads(&self, g: &Graph, carriers: &[Carrier]) -> Vec<Id> {
        let mut loads = vec![];
        carriers.iter().for_each(|other| collect_loads(g, other.next, &mut loads));
        loads.retain(|&load| g.src(load)[0] == self.buffer);
        loads
    }
}

/// The loop with its carriers in registers: those, for each of the elements that a thread has, and its statements. Of several
/// groups of threads, one takes every so many steps.
fn merged(
    t: &mut Tiler,
    g: &mut Graph,
    &FoldPlan { serial, ref carriers, alike, .. }: &FoldPlan,
    at: &[FxHashMap<Id, Id>],
    group: Option<(Id, Id)>,
) -> (Vec<Vec<Id>>, Vec<Id>) {
    let accs: Vec<Vec<Id>> =
        carriers.iter().map(|c| (0..c.copies(g, at)).map(|_| t.acc(g, g.ty(c.next))).collect()).collect();
    let begin = carriers.iter().zip(&accs).flat_map(|(c, accs)| accs.iter().map(|&acc| (acc, c.first))).collect();
    let mut all = vec![t.set(g, begin)];
    let steps = g.src(serial)[0];
    let (group, groups) = group.unwrap_or_else(|| (g.int(0), g.int(1)));
    let own = {
        let last = g.sub(groups, group);
        let one = g.int(1);
        let up = g.sub(last, one);
        let n = g.add(steps, up);
        g.binary(BinOp::Div, n, groups)
    };
    let side = g.as_int(own).map_or(SIDE, |n| n.clamp(1, SIDE));
    let of = g.int(side);
    let range = {
        let up = g.int(side - 1);
        let n = g.add(own, up);
        let n = g.binary(BinOp::Div, n, of);
        t.range(g, n)
    };
    let first = g.mul(range, of);
    let round = Round { carriers, at, serial, group, groups, first, steps };
    let left = g.sub(own, first);
    let body = match side {
        _ if !alike || side <= FEW => round.one_by_one(t, g, &accs, side),
        _ => {
            let few = g.int(FEW);
            let many = g.binary(BinOp::Lt, few, left);
            let few = g.int(FEW + 1);
            let few = g.binary(BinOp::Lt, left, few);
            let together = round.together(t, g, &accs, side);
            let mut body = t.only(g, Some(many), together);
            let one_by_one = round.one_by_one(t, g, &accs, FEW);
            body.extend(t.only(g, Some(few), one_by_one));
            body
        }
    };
    all.extend(t.nest(g, &[range], body));
    (accs, all)
}

/// Steps of a loop whose parts are loaded before any of them is merged.
struct Round<'a> {
    carriers: &'a [Carrier],
    at: &'a [FxHashMap<Id, Id>],
    serial: Id,
    /// Which of so many groups of threads.
    group: Id,
    groups: Id,
    /// The number of its first step among those of this group.
    first: Id,
    /// Steps of all groups.
    steps: Id,
}

impl Round<'_> {
    /// The part of a step, in registers; there only if the step is one of the loop. Of what must be there anyhow, that is not asked.
    fn part(&self, t: &mut Tiler, g: &mut Graph, accs: &[Vec<Id>], step: i64) -> (Vec<Vec<Id>>, Id, Option<Id>) {
        let number = g.int(step);
        let number = g.add(self.first, number);
        let here = g.mul(number, self.groups);
        let here = g.add(here, self.group);
        let there = (step > 0).then(|| g.binary(BinOp::Lt, here, self.steps));
        let (mut parts, mut sets) = (vec![], vec![]);
        for (c, accs) in self.carriers.iter().zip(accs) {
            let of = self.at[..accs.len()].iter().map(|at| {
                let mut map = at.clone();
                map.insert(self.serial, here);
                let part = g.substitute(c.part, &mut map);
                (t.acc(g, g.ty(part)), part)
            });
            let of: Vec<(Id, Id)> = of.collect();
            parts.push(of.iter().map(|p| p.0).collect());
            sets.extend(of);
        }
        (parts, t.set(g, sets), there)
    }

    /// Each step after the one before.
    fn one_by_one(&self, t: &mut Tiler, g: &mut Graph, accs: &[Vec<Id>], steps: i64) -> Vec<Id> {
        let (mut loads, mut merges) = (vec![], vec![]);
        for number in 0..steps {
            let (parts, set, there) = self.part(t, g, accs, number);
            loads.extend(t.only(g, there, vec![set]));
            let merge = step(t, g, self.carriers, self.at, accs, &parts);
            merges.extend(t.only(g, there, vec![merge]));
        }
        loads.extend(merges);
        loads
    }

    /// Pairs of neighbours, and pairs of these, so that few merges wait for others; a step that is not there is as the carriers
    /// before the loop, which change nothing.
    fn together(&self, t: &mut Tiler, g: &mut Graph, accs: &[Vec<Id>], steps: i64) -> Vec<Id> {
        let (mut all, mut parts) = (vec![], vec![]);
        for number in 0..steps {
            let (part, set, there) = self.part(t, g, accs, number);
            let there = there.filter(|_| number > FEW);
            if there.is_some() {
                let none = self.carriers.iter().zip(&part);
                let none = none.flat_map(|(c, part)| part.iter().map(|&acc| (acc, c.first))).collect();
                all.push(t.set(g, none));
            }
            all.extend(t.only(g, there, vec![set]));
            parts.push(part);
        }
        while parts.len() > 1 {
            let mut pairs = parts.into_iter();
            parts = vec![];
            while let Some(left) = pairs.next() {
                if let Some(right) = pairs.next() {
                    all.push(step(t, g, self.carriers, self.at, &left, &right));
                }
                parts.push(left);
            }
        }
        all.push(step(t, g, self.carriers, self.at, accs, &parts[0]));
        all
    }
}

/// Merges parts into the carriers; of what is the same for all elements of a thread there is one.
fn step(
    t: &mut Tiler,
    g: &mut Graph,
    carriers: &[Carrier],
    at: &[FxHashMap<Id, Id>],
    accs: &[Vec<Id>],
    parts: &[Vec<Id>],
) -> Id {
    let mut pairs = vec![];
    for (element, at) in at.iter().enumerate() {
        let of = |copies: &[Id]| copies[element.min(copies.len() - 1)];
        let mut map: FxHashMap<Id, Id> = FxHashMap::default();
        for (i, c) in carriers.iter().enumerate() {
            map.insert(c.part, of(&parts[i]));
            map.extend(c.loads(g, carriers).into_iter().map(|load| (load, of(&accs[i]))));
        }
        for (c, accs) in carriers.iter().zip(accs).filter(|(_, accs)| element < accs.len()) {
            let next = g.substitute(c.next, &mut map);
            pairs.push((accs[element], g.substitute(next, &mut at.clone())));
        }
    }
    t.set(g, pairs)
}

/// Stores of the carriers to where later phases read them: by the first of the threads that have the same.
fn kept_again(
    t: &mut Tiler,
    g: &mut Graph,
    dims: &[Id],
    carriers: &[Carrier],
    at: &[FxHashMap<Id, Id>],
    accs: &[Vec<Id>],
) -> Vec<Id> {
    let zero = g.int(0);
    let mut stores = vec![];
    for (c, accs) in carriers.iter().zip(accs) {
        for (&acc, at) in accs.iter().zip(at) {
            let first = dims.iter().filter(|&&d| !depends(g, c.at, d)).map(|d| at[d]).collect::<Vec<_>>();
            let first = first.into_iter().map(|i| g.binary(BinOp::Eq, i, zero)).collect::<Vec<_>>();
            let first = first.into_iter().reduce(|a, b| g.binary(BinOp::And, a, b));
            let i = g.substitute(c.at, &mut at.clone());
            stores.push(t.store_if(g, c.buffer, i, acc, first));
        }
    }
    stores
}

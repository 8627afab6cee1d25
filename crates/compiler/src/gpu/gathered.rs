//! Items that take in those whose results they alone read: a product of matrices goes into the item that computes with
//! its elements, and a copy into what it copies. What is left has no scratch between a product and what follows it.

use crate::gpu::fold::{Kept, held, same_index};
use crate::gpu::places::InFragments;
use crate::gpu::plan::GpuPlan;
use crate::gpu::{int_tile, matrix, whole_product};
use crate::kernel::expression::{is_scratch, loads_of, outside};
use crate::lower::{Item, Nest};
use ir::index::Linear;
use ir::{Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// A nest with fewer items.
pub(super) struct Gathered {
    pub(super) nest: Nest,
    /// For each item of the nest before, which item has it now.
    pub(super) into: Vec<usize>,
    /// Whether there are tiles whose elements may be kept.
    pub(super) tiles: bool,
}

/// An item, the phase that it is in, and the items before that it has taken in.
struct Entry {
    phase: usize,
    item: Item,
    of: Vec<usize>,
}

/// Which products there are paths for.
struct Takes<'p> {
    plan: &'p GpuPlan,
    kept: InFragments,
}

/// What an item is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// Products of halves.
    OfProducts,
    /// Tiles of sums over weights.
    OfTiles,
}

impl Takes<'_> {
    fn product(&self, g: &mut Graph, item: &Item) -> bool {
        let updates = matches!(self.kept, InFragments::Carriers | InFragments::Rows);
        self.plan.multiplies && matrix::is_product(g, item, updates) || whole_product::is_product(g, item, self.plan)
    }

    fn made(&self, g: &mut Graph, item: &Item) -> Option<Made> {
        if self.product(g, item) {
            return Some(Made::OfProducts);
        }
        (self.kept == InFragments::Elements && int_tile::is_of_tiles(g, item, self.plan)).then_some(Made::OfTiles)
    }
}

/// Gathers the items of a nest for what is kept in fragments: a product whose lanes have several elements goes into an item that
/// reads what it writes only where it stays there from round to round.
pub(super) fn gathered(g: &mut Graph, nest: &Nest, plan: &GpuPlan, kept: InFragments) -> Gathered {
    let mut all: Vec<Entry> = vec![];
    for (phase, p) in nest.phases.iter().enumerate() {
        all.extend(p.items.iter().map(|i| Entry { phase, item: i.clone(), of: vec![] }));
    }
    let count = all.len();
    all.iter_mut().enumerate().for_each(|(i, e)| e.of.push(i));
    let takes = Takes { plan, kept };
    if plan.multiplies || plan.cooperative {
        while let Some((at, with, item)) = cast_of(g, &all, &takes) {
            all[at].item = item;
            let buffer = all[with].item.buffer;
            if !all.iter().any(|e| read_by(g, &e.item).contains(&buffer)) {
                let taken = all.remove(with).of;
                all[at - 1].of.extend(taken);
            }
        }
    }
    let tiles = all.iter().any(|e| takes.made(g, &e.item) == Some(Made::OfTiles));
    if tiles || all.iter().any(|e| takes.product(g, &e.item)) {
        while let Some((at, with, item)) = copy_of(g, &all).or_else(|| product_of(g, &all, &takes)) {
            let taken = all[with].of.clone();
            all[at].of.extend(taken);
            all[at].item = item;
            all.remove(with);
        }
    }
    let mut into = vec![0; count];
    for (now, e) in all.iter().enumerate() {
        e.of.iter().for_each(|&before| into[before] = now);
    }
    let mut nest = nest.clone();
    nest.phases.iter_mut().for_each(|p| p.items.clear());
    let mut used = FxHashSet::default();
    for e in all {
        used.insert(e.item.buffer);
        used.extend(read_by(g, &e.item));
        nest.phases[e.phase].items.push(e.item);
    }
    nest.stashes.retain(|s| used.contains(s));
    Gathered { nest, into, tiles }
}

/// The scratch and parameters that an item reads.
fn read_by(g: &Graph, item: &Item) -> FxHashSet<Id> {
    loads_of(g, item).into_iter().map(|l| g.src(l)[0]).collect()
}

/// The only item that reads what another one writes, where no other one writes it.
fn reader(g: &Graph, all: &[Entry], writer: usize) -> Option<usize> {
    let buffer = all[writer].item.buffer;
    if !is_scratch(g, buffer) {
        return None;
    }
    let alone = all.iter().filter(|e| e.item.buffer == buffer).count() == 1;
    let mut readers = (0..all.len()).filter(|&i| read_by(g, &all[i].item).contains(&buffer));
    let (one, None) = (readers.next()?, readers.next()) else { return None };
    (alone && one > writer && all[one].phase == all[writer].phase).then_some(one)
}

/// A product of halves that another item converts for it, or copies, that item, and the product with the halves as they lie in
/// memory.
fn cast_of(g: &mut Graph, all: &[Entry], takes: &Takes) -> Option<(usize, usize, Item)> {
    (0..all.len()).find_map(|i| {
        let cast = &all[i].item;
        let (value, buffer) = (cast.value, cast.buffer);
        let read = if *g.op(value) == Op::Cast { g.src(value)[0] } else { value };
        let halves = *g.op(read) == Op::Load && outside(g, read);
        let alone = all.iter().filter(|e| e.item.buffer == buffer).count() == 1;
        if !halves || !alone || !is_scratch(g, buffer) {
            return None;
        }
        (i + 1..all.len()).find_map(|j| {
            let user = all[j].item.clone();
            let kept = Kept { dims: cast.dims.clone(), index: cast.index, value };
            let mut loads = loads_of(g, &user);
            loads.retain(|&l| g.src(l)[0] == buffer);
            if loads.is_empty() || all[j].phase != all[i].phase {
                return None;
            }
            let mut map = FxHashMap::default();
            for load in loads {
                map.insert(load, held_anywhere(g, &kept, g.src(load)[1])?);
            }
            let item = Item { value: g.substitute(user.value, &mut map), ..user };
            takes.product(g, &item).then_some((j, i, item))
        })
    })
}

/// What a stash holds at an index whose loops run along its dimensions, in any order.
fn held_anywhere(g: &mut Graph, kept: &Kept, at: Id) -> Option<Id> {
    let (index, at) = (Linear::of(g, kept.index), Linear::of(g, at));
    if index.constant != at.constant || index.terms.len() != kept.dims.len() || at.terms.len() != kept.dims.len() {
        return None;
    }
    let mut map = FxHashMap::default();
    for &dim in &kept.dims {
        let stride = index.coefficient(dim);
        let mut along = at.terms.iter().filter(|t| t.1 == stride);
        let (Some(&(range, _)), None) = (along.next(), along.next()) else { return None };
        if !matches!(g.op(range), Op::Range(..)) || g.src(range)[0] != g.src(dim)[0] {
            return None;
        }
        map.insert(dim, range);
    }
    Some(g.substitute(kept.value, &mut map))
}

/// An item whose result is copied, the item that copies it, and the first writing where the second does.
fn copy_of(g: &mut Graph, all: &[Entry]) -> Option<(usize, usize, Item)> {
    (0..all.len()).find_map(|i| {
        let j = reader(g, all, i)?;
        let (from, copy) = (&all[i].item, &all[j].item);
        let to = copy.buffer;
        if *g.op(copy.value) != Op::Load || from.dims.len() != copy.dims.len() {
            return None;
        }
        let touches = |e: &Entry| e.item.buffer == to || read_by(g, &e.item).contains(&to);
        if g.dtype(to) != g.dtype(from.buffer) || all[i + 1..j].iter().any(touches) {
            return None;
        }
        let same_extents = from.dims.iter().zip(&copy.dims).all(|(&a, &b)| g.src(a)[0] == g.src(b)[0]);
        let mut map: FxHashMap<Id, Id> = copy.dims.iter().copied().zip(from.dims.iter().copied()).collect();
        let read = g.substitute(g.src(copy.value)[1], &mut map);
        let index = g.substitute(copy.index, &mut map);
        let own = loads_of(g, from).into_iter().all(|l| g.src(l)[0] != to || same_index(g, g.src(l)[1], index));
        let fits = same_extents && own && same_index(g, read, from.index);
        fits.then(|| (i, j, Item { buffer: to, index, ..from.clone() }))
    })
}

/// An item that reads elements of a product, the product, and the first with the product in it.
fn product_of(g: &mut Graph, all: &[Entry], takes: &Takes) -> Option<(usize, usize, Item)> {
    (0..all.len()).find_map(|i| {
        let j = reader(g, all, i)?;
        let (product, user) = (all[i].item.clone(), all[j].item.clone());
        let made = takes.made(g, &product)?;
        let reads = read_by(g, &product);
        if all[i + 1..j].iter().any(|e| reads.contains(&e.item.buffer)) {
            return None;
        }
        let kept = Kept { dims: product.dims, index: product.index, value: product.value };
        let mut map = FxHashMap::default();
        let mut loads = loads_of(g, &user);
        loads.retain(|&l| g.src(l)[0] == product.buffer);
        for load in loads {
            map.insert(load, held(g, &kept, g.src(load)[1], &user.dims)?);
        }
        let item = Item { value: g.substitute(user.value, &mut map), ..user };
        (takes.made(g, &item) == Some(made)).then_some((j, i, item))
    })
}

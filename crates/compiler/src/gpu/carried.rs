//! Carriers in fragments: what a loop adds products of matrices to stays in the registers of the lanes that compute them.
//!
//! Where the same item updates a stash in each round, and what is outside of the loop only sets the stash or reads it
//! element by element, all of them go by the fragments of that product, so each lane finds its elements in its own
//! registers and nothing of the stash lies in shared memory. What this cannot do: more than one item that reads the stash
//! in the loop, readers that combine its elements, and more elements than a thread has registers for.

use crate::gpu::fold::same_index;
use crate::gpu::matrix;
use crate::gpu::places::{Carrier, Fragments, Layout};
use crate::gpu::threads::Tiler;
use crate::gpu::whole_product;
use crate::kernel::expression::{has_reduction, is_scratch, loads_of, reads};
use crate::lower::Item;
use ir::{DType, Graph, Id, Op};
use rustc_hash::FxHashMap;

/// Registers of a thread that may be carriers.
const MOST: usize = 64;

/// Puts what products update into fragments; whether that is possible.
pub(super) fn plan(t: &mut Tiler, g: &mut Graph, phases: &[(Option<Id>, Vec<Item>)]) -> bool {
    for (serial, items) in phases {
        for item in items {
            if matrix::updates(g, item).is_none() {
                continue;
            }
            let Some(carrier) = carrier(t, g, phases, item).filter(|_| serial.is_some()) else { return false };
            t.carry(g, item.buffer, carrier);
        }
    }
    true
}

fn carrier(t: &mut Tiler, g: &mut Graph, phases: &[(Option<Id>, Vec<Item>)], item: &Item) -> Option<Carrier> {
    let stash = item.buffer;
    if !is_scratch(g, stash) || g.dtype(stash) != DType::F32 {
        return None;
    }
    let (m, n) = matrix::updates(g, item)?;
    let others = phases.iter().flat_map(|(serial, items)| items.iter().map(move |i| (serial.is_none(), i)));
    let others: Vec<(bool, &Item)> = others.filter(|(_, i)| touches(g, i, stash)).collect();
    let alone = others.iter().filter(|(plain, _)| !plain).count() == 1;
    let whole = others.iter().all(|(_, other)| {
        let loads = loads_of(g, other);
        loads.iter().all(|&l| g.src(l)[0] == stash || !t.target.carried.contains_key(&g.src(l)[0]))
    });
    let by_element = others.iter().filter(|(plain, _)| *plain).all(|(_, other)| follows(g, other, item));
    let [long, short] = [m, n].map(|d| g.as_int(g.src(d)[0]));
    let (layout, count) = match t.target.plan.multiplies {
        true => {
            let layout = Layout::of(t, long?, short?);
            let count = layout.all_elements();
            (Fragments::Tiles(layout), count)
        }
        false => {
            let tiles = whole_product::tiles(t, g, item)?;
            let count = tiles.all_elements(t);
            (Fragments::Whole(tiles), count)
        }
    };
    (alone && whole && by_element && count <= MOST).then(|| {
        let accs = (0..count).map(|_| t.acc(g, DType::F32)).collect();
        Carrier { accs, layout, rows_first: item.dims[0] == m }
    })
}

fn touches(g: &Graph, item: &Item, stash: Id) -> bool {
    item.buffer == stash || reads(g, item, stash)
}

/// Whether an item needs of the stash that another one updates only the element of its own.
pub(super) fn follows(g: &mut Graph, item: &Item, update: &Item) -> bool {
    let stash = update.buffer;
    let same_extents = item.dims.iter().map(|&d| g.src(d)[0]).eq(update.dims.iter().map(|&d| g.src(d)[0]));
    if !same_extents || has_reduction(g, item.value) {
        return false;
    }
    let mut map: FxHashMap<Id, Id> = item.dims.iter().copied().zip(update.dims.iter().copied()).collect();
    let mut own = |g: &mut Graph, index: Id| {
        let index = g.substitute(index, &mut map);
        same_index(g, index, update.index)
    };
    let loads = loads_of(g, item);
    let reads = loads.into_iter().all(|l| match g.src(l)[0] == stash {
        true => own(g, g.src(l)[1]),
        false => true,
    });
    reads && (item.buffer != stash || own(g, item.index))
}

impl Tiler {
    pub(super) fn carry(&mut self, g: &Graph, stash: Id, carrier: Carrier) {
        self.in_registers(g, stash);
        self.target.carried.insert(stash, carrier);
    }

    /// Notes that nothing of a stash lies in shared memory.
    pub(super) fn in_registers(&mut self, g: &Graph, stash: Id) {
        if let Op::Buffer { len, .. } = *g.op(stash) {
            self.target.give_back(g, stash, len);
        }
    }

    /// Statements of an item outside of loops that sets or reads a stash in fragments.
    pub(super) fn by_fragments(&self, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
        let loads = loads_of(g, item);
        let carried = |buffer: &Id| self.target.carried.get(buffer).map(|c| (*buffer, c));
        let (stash, c) =
            std::iter::once(item.buffer).chain(loads.iter().map(|&l| g.src(l)[0])).find_map(|b| carried(&b))?;
        let loads: Vec<Id> = loads.into_iter().filter(|&l| g.src(l)[0] == stash).collect();
        let [a, b] = item.dims[..] else { return None };
        let element = |g: &mut Graph, m: Id, n: Id, number: usize| {
            let (at_a, at_b) = if c.rows_first { (m, n) } else { (n, m) };
            let mut map = FxHashMap::from_iter([(a, at_a), (b, at_b)]);
            map.extend(loads.iter().map(|&l| (l, c.accs[number])));
            let value = g.substitute(item.value, &mut map);
            if item.buffer == stash {
                return self.set(g, vec![(c.accs[number], value)]);
            }
            let index = g.substitute(item.index, &mut map);
            self.store(g, item.buffer, index, value)
        };
        Some(match &c.layout {
            Fragments::Tiles(layout) => layout.each(self, g, element),
            Fragments::Rows(layout) => layout.each(self, g, element),
            Fragments::Whole(tiles) => tiles.each(self, g, element),
        })
    }
}

//! Elements that a thread computes after each other, whose loads come before all stores.
//!
//! Memory that is loaded from and stored to in turns keeps a compiler from loading the next element before the last one is
//! stored, and a thread waits for memory as often as it has elements.

use crate::gpu::threads::{Shares, Tiler};
use crate::kernel::expression::{by, collect_loads, has_reduction, loads_in, loops_of, outermost_loads, replace};
use crate::lower::Item;
use ir::{BinOp, Graph, Id, Op, Space};
use rustc_hash::FxHashMap;

/// Elements of a batch at most.
const MOST: i64 = 8;

/// Puts registers in place of these loads in values, whose loops stay as they are; each register, and what it is to hold.
pub(super) fn held<'v>(
    t: &mut Tiler,
    g: &mut Graph,
    loads: Vec<Id>,
    values: impl IntoIterator<Item = &'v mut Id>,
) -> Vec<(Id, Id)> {
    let pairs: Vec<(Id, Id)> = loads.into_iter().map(|load| (t.acc(g, g.ty(load)), load)).collect();
    for value in values {
        let mut known: FxHashMap<Id, Id> = loops_of(g, *value);
        known.extend(pairs.iter().map(|&(acc, load)| (load, acc)));
        *value = g.substitute(*value, &mut known);
    }
    pairs
}

/// Loads into registers, and stores of what is computed of them.
#[derive(Default)]
pub(super) struct Batch {
    loads: Vec<Id>,
    stores: Vec<Id>,
}

impl Batch {
    /// Stores a value; what it loads from memory of the device, or from where it is stored, is in a register by then.
    pub(super) fn store(&mut self, t: &mut Tiler, g: &mut Graph, buffer: Id, index: Id, value: Id) {
        self.store_if(t, g, None, (buffer, index, value));
    }

    /// The same under a condition, if there is one.
    pub(super) fn store_if(
        &mut self,
        t: &mut Tiler,
        g: &mut Graph,
        condition: Option<Id>,
        (buffer, index, value): (Id, Id, Id),
    ) {
        let near = |g: &Graph, l: Id| matches!(g.op(g.src(l)[0]), Op::Buffer { space: Space::Shared, .. });
        let inner = loads_in(g, value);
        let mut loads = outermost_loads(g, value);
        loads.retain(|&l| inner.contains(&l) && (g.src(l)[0] == buffer || !near(g, l)));
        let mut value = value;
        let pairs = held(t, g, loads, [&mut value]);
        if !pairs.is_empty() {
            let load = t.set(g, pairs);
            self.loads.extend(t.only(g, condition, vec![load]));
        }
        let store = t.store(g, buffer, index, value);
        self.stores.extend(t.only(g, condition, vec![store]));
    }

    /// All statements.
    pub(super) fn statements(self) -> Vec<Id> {
        self.loads.into_iter().chain(self.stores).collect()
    }
}

/// An item without a sum whose elements were shared out, several rounds of a thread as one, if it reads or writes memory for
/// which there was no room in a block.
pub(super) fn rounds(t: &mut Tiler, g: &mut Graph, item: &Item, shares: &Shares) -> Option<Vec<Id>> {
    let mut buffers = vec![];
    collect_loads(g, item.value, &mut buffers);
    buffers.iter_mut().for_each(|load| *load = g.src(*load)[0]);
    buffers.push(item.buffer);
    let far = |&buffer: &Id| matches!(g.op(buffer), Op::Buffer { space: Space::Task, .. });
    if shares.has.is_some() || has_reduction(g, item.value) || !buffers.iter().any(far) {
        return None;
    }
    let (&round, outer) = shares.outer.split_last()?;
    let rounds = g.as_int(g.src(round)[0])?;
    let together = (2..=MOST).rev().find(|n| rounds % n == 0)?;
    let r = (rounds > together).then(|| t.counted(g, rounds / together));
    let mut batch = Batch::default();
    for i in 0..together {
        let at = match r {
            Some(r) => {
                let first = by(g, BinOp::Mul, r, together);
                by(g, BinOp::Add, first, i)
            }
            None => g.int(i),
        };
        let [value, index] = [item.value, item.index].map(|e| {
            let e = g.substitute(e, &mut shares.at.clone());
            replace(g, e, round, at)
        });
        batch.store(t, g, item.buffer, index, value);
    }
    let body = t.nest(g, r.as_slice(), batch.statements());
    Some(t.nest(g, outer, body))
}

//! Items: what is computed into scratch and into buffers.

use super::Lowering;
use super::nest::Item;
use super::value::clamp;
use ir::{DType, Graph, Id, Op, Space, index};

impl Lowering<'_> {
    pub(super) fn emit(&mut self, g: &mut Graph, m: Id, items: &mut Vec<Item>) {
        let stored = self.s.stores(self.group, m);
        let keep = self.keep.contains(&m);
        if !keep && !stored {
            return;
        }
        let map = self.map(m).unwrap().clone();
        let shape = self.shape_of(g, m);
        if *g.op(m) == Op::Scatter {
            let (dims, at) = self.loops(g, Some(m), &shape, &map);
            let (index, rows) = (g.src(m)[1], g.src(m)[2]);
            let n = g.shape(index).len();
            let row = self.value(g, index, &at[..n]);
            let row = g.cast(row, DType::Index);
            let state = self.memory_of(g, m);
            let table = g.shape(state).to_vec();
            let row = clamp(g, row, table[0]);
            let mut full = vec![row];
            full.extend_from_slice(&at[n..]);
            let value = self.value(g, rows, &at);
            let flat = index::flatten(g, &table, &full);
            let buffer = self.slot(g, state, true);
            items.push(Item { dims, value, buffer, index: flat });
            return;
        }
        if let Op::Concat(axis) = *g.op(m) {
            let parts = g.src(m).to_vec();
            let mut start = 0;
            let stash = keep.then(|| self.stash_for(g, m));
            for p in parts {
                let len = g.as_int(g.shape(p)[axis]).expect("constant extent");
                let mut pshape = shape.clone();
                pshape[axis] = g.shape(p)[axis];
                let (dims, at) = self.loops(g, Some(m), &pshape, &map);
                let value = self.value(g, p, &at);
                let mut whole = at.clone();
                let off = g.int(start);
                whole[axis] = g.add(whole[axis], off);
                self.put(g, m, stash, stored, dims, value, &whole, items);
                start += len;
            }
            if let Some(s) = stash {
                self.stash.insert(m, s);
            }
            return;
        }
        let (dims, at) = self.loops(g, Some(m), &shape, &map);
        if let Op::Scan(_) = g.op(m) {
            let sums = self.carriers[&(vec![m], 0)];
            let here = self.scratch_index(g, m, &at);
            let so_far = g.load(sums, here, 1);
            let next = self.value(g, g.src(m)[0], &at);
            let value = g.add(so_far, next);
            self.put(g, m, Some(sums), stored, dims, value, &at, items);
            self.stash.insert(m, sums);
            return;
        }
        let value = self.define(g, m, &at);
        let stash = keep.then(|| self.stash_for(g, m));
        self.put(g, m, stash, stored, dims, value, &at, items);
        if let Some(s) = stash {
            self.stash.insert(m, s);
            self.memo.retain(|k, _| k.0 != m);
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn put(
        &mut self,
        g: &mut Graph,
        m: Id,
        stash: Option<Id>,
        stored: bool,
        dims: Vec<Id>,
        value: Id,
        at: &[Id],
        items: &mut Vec<Item>,
    ) {
        let shape = self.shape_of(g, m);
        let mut value = value;
        if let Some(buffer) = stash {
            let index = self.scratch_index(g, m, at);
            items.push(Item { dims: dims.clone(), value, buffer, index });
            value = g.load(buffer, index, 1);
        }
        if stored {
            let buffer = self.slot(g, m, true);
            let index = index::flatten(g, &shape, at);
            items.push(Item { dims, value, buffer, index });
        }
    }

    pub(super) fn stash_for(&mut self, g: &mut Graph, m: Id) -> Id {
        let map = self.map(m).unwrap().clone();
        let shape = self.shape_of(g, m);
        let len = self.local(g, &shape, &map).iter().map(|l| l.0).product();
        self.new_stash(g, g.dtype(m), len)
    }

    pub(super) fn new_stash(&mut self, g: &mut Graph, ty: DType, len: i64) -> Id {
        let b = g.buffer(self.stashes.len() as u32, Space::Task, ty, len as usize);
        self.stashes.push(b);
        b
    }

    pub(super) fn slot(&mut self, g: &mut Graph, tensor: Id, write: bool) -> Id {
        let i = match self.slots.iter().position(|&t| t == tensor) {
            Some(i) => i,
            None => {
                self.slots.push(tensor);
                self.written.push(false);
                self.slots.len() - 1
            }
        };
        self.written[i] |= write;
        let space = match write {
            true => Space::Output,
            false if self.weights.contains(&tensor) => Space::Weight,
            false => Space::Input,
        };
        g.buffer(i as u32, space, g.dtype(tensor), 0)
    }

    /// The tensor whose memory a stored value lives in.
    pub(super) fn memory_of(&self, g: &Graph, id: Id) -> Id {
        let mut id = id;
        while *g.op(id) == Op::Scatter {
            id = g.src(id)[0];
        }
        id
    }
}

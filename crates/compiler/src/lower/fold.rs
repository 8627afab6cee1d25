//! Serial loops: the parts of a fold and the sums of a scan, which are carried from step to step.

use super::Lowering;
use super::nest::{Item, Phase, identity};
use crate::schedule::axes::Along;
use ir::{Axis, BinOp, DType, Graph, Id, Op, ReduceOp, index};

impl Lowering<'_> {
    /// Scratch for the parts of a fold, and their identities.
    pub(super) fn open_fold(
        &mut self,
        g: &mut Graph,
        fold: Id,
        axis: usize,
        parts: usize,
        phases: &mut [Phase],
        p: usize,
    ) {
        let key = g.src(fold).to_vec();
        let count = key[3 * parts];
        let n = g.shape(count).len();
        // Where the parts are counted: the leading dimensions of the fold.
        let lead = self.map(fold).unwrap()[..axis.min(n)].to_vec();
        let at: Vec<Id> = lead.iter().map(|&m| self.origin(g, m)).collect();
        let extent = self.value(g, count, &at);
        let extent = g.cast(extent, DType::Index);
        let part0 = key[0];
        let cap = g.shape(part0)[axis];
        let zero = g.int(0);
        let extent = g.binary(BinOp::Max, extent, zero);
        let extent = g.binary(BinOp::Min, extent, cap);
        let r = self.range(g, Axis::Loop, extent);
        phases[p].serial = Some(r);
        let axis_of_loop = self.serial_axis().expect("a fold has a serial axis");
        self.serial.insert(axis_of_loop, r);
        for part in 0..parts {
            let mut shape = g.shape(key[part]).to_vec();
            shape.remove(axis);
            let Some(map) = self.fold_map(g, fold, shape.len()) else { continue };
            let len = self.local(g, &shape, &map).iter().map(|l| l.0).product();
            let buffer = self.new_stash(g, DType::F32, len);
            self.carriers.insert((key.clone(), part), buffer);
            let (dims, at) = self.loops(g, None, &shape, &map);
            let index = self.local_index(g, &shape, &map, &at);
            let value = key[2 * parts + part];
            phases[p - 1].items.push(Item { dims, value, buffer, index });
        }
    }

    /// The loop of a scan, and the sums that it carries, zero at first.
    pub(super) fn open_scan(&mut self, g: &mut Graph, scan: Id, along: usize, phases: &mut [Phase], p: usize) {
        let map = self.map(scan).unwrap().clone();
        let Along::Axis { axis, .. } = map[along] else { unreachable!("a scan runs along its serial axis") };
        let r = self.range(g, Axis::Loop, self.s.groups[self.group].axes[axis].count);
        phases[p].serial = Some(r);
        self.serial.insert(axis, r);
        let sums = self.stash_for(g, scan);
        self.carriers.insert((vec![scan], 0), sums);
        let shape = g.shape(scan).to_vec();
        let (dims, at) = self.loops(g, None, &shape, &map);
        let index = self.scratch_index(g, scan, &at);
        let ty = g.dtype(scan);
        let value = g.constant(identity(ReduceOp::Sum, ty), ty);
        phases[p - 1].items.push(Item { dims, value, buffer: sums, index });
    }

    /// The map of a part of a fold, without the folded dimension.
    pub(super) fn fold_map(&self, g: &Graph, fold: Id, rank: usize) -> Option<Vec<Along>> {
        let key = g.src(fold);
        let widest = self.s.groups[self.group]
            .members
            .iter()
            .filter(|&&m| matches!(g.op(m), Op::Fold { .. }) && g.src(m) == key)
            .max_by_key(|&&m| self.map(m).unwrap().len())?;
        let m = self.map(*widest)?;
        (rank <= m.len()).then(|| m[..rank].to_vec())
    }

    /// The update of the parts at the end of the loop body. Values that several
    /// parts need were kept before; the largest part is written first.
    pub(super) fn close_fold(&mut self, g: &mut Graph, key: &[Id], parts: usize, items: &mut Vec<Item>) {
        let fold = self.s.groups[self.group]
            .members
            .iter()
            .copied()
            .find(|&m| matches!(g.op(m), Op::Fold { .. }) && g.src(m) == key)
            .unwrap();
        for part in (0..parts).rev() {
            let Some(&buffer) = self.carriers.get(&(key.to_vec(), part)) else { continue };
            let merged = key[parts + part];
            let shape = g.shape(merged).to_vec();
            let map = self.fold_map(g, fold, shape.len()).unwrap();
            let (dims, at) = self.loops(g, None, &shape, &map);
            let value = self.value(g, merged, &at);
            let index = self.local_index(g, &shape, &map, &at);
            items.push(Item { dims, value, buffer, index });
        }
    }

    pub(super) fn fold_result(&mut self, g: &mut Graph, m: Id, items: &mut Vec<Item>) {
        let Op::Fold { part, .. } = *g.op(m) else { unreachable!() };
        let buffer = self.carriers[&(g.src(m).to_vec(), part)];
        self.stash.insert(m, buffer);
        self.memo.retain(|k, _| k.0 != m);
        if self.s.stores(self.group, m) {
            let map = self.map(m).unwrap().clone();
            let shape = g.shape(m).to_vec();
            let (dims, at) = self.loops(g, None, &shape, &map);
            let from = self.scratch_index(g, m, &at);
            let value = g.load(buffer, from, 1);
            let out = self.slot(g, m, true);
            let index = index::flatten(g, &shape, &at);
            items.push(Item { dims, value, buffer: out, index });
        }
    }

    /// A placeholder of a merge: the value so far, or the next part.
    pub(super) fn arg(&mut self, g: &mut Graph, k: usize, at: &[Id]) -> Id {
        let members = &self.s.groups[self.group].members;
        if let Some(&part) = members.iter().find(|&&m| matches!(g.op(m), Op::Recur { .. })) {
            return self.arg_of_recurrence(g, part, k, at);
        }
        // Folds of one kernel are told apart by the loop that is open.
        let fold = members.iter().copied().rfind(|&m| matches!(g.op(m), Op::Fold { .. })).unwrap();
        let Op::Fold { axis, parts, .. } = *g.op(fold) else { unreachable!() };
        let key = g.src(fold).to_vec();
        if k < parts {
            let mut shape = g.shape(key[k]).to_vec();
            shape.remove(axis);
            let map = self.fold_map(g, fold, shape.len()).unwrap();
            let i = self.local_index(g, &shape, &map, at);
            let b = self.carriers[&(key, k)];
            return g.load(b, i, 1);
        }
        let part = key[k - parts];
        let mut open = self.serial.values();
        let (Some(&serial), None) = (open.next(), open.next()) else {
            panic!("a part of a fold outside of its one loop")
        };
        let mut i = at.to_vec();
        i.insert(axis, serial);
        self.value(g, part, &i)
    }
}

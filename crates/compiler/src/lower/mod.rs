//! From a scheduled group to a nest: loops, loads and stores over the index
//! algebra, still scalar, one [`Item`] for each value that is kept.
//!
//! Movement operations vanish here. A value that is kept for the length of a
//! task (a Stash) has one element for each index inside the task; every other
//! value is an expression that its readers repeat.

use crate::schedule::Schedule;
use crate::schedule::axes::Along;
use crate::schedule::roles::is_view;
use ir::{Axis, BinOp, Const, DType, Graph, Id, Op, ReduceOp, Space, index};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

mod limits;
mod unpack;
mod wanted;

pub(crate) use limits::{Limit, limits};

/// One value that is computed into memory: scratch or a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// Loops over its elements, outermost first.
    pub dims: Vec<Id>,
    /// What each element is; a `Reduce` at the root has its ranges as sources.
    pub value: Id,
    /// Where it goes.
    pub buffer: Id,
    /// At which element of the buffer.
    pub index: Id,
}

/// Items that run in order, perhaps inside a serial loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// The loop around them.
    pub serial: Option<Id>,
    /// In order.
    pub items: Vec<Item>,
}

/// A kernel before tiling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nest {
    /// In order.
    pub phases: Vec<Phase>,
    /// Number of tasks, an index expression.
    pub tasks: Id,
    /// Scratch buffers.
    pub stashes: Vec<Id>,
    /// Numbers below this are taken by ranges.
    pub ranges: u32,
    /// Whether anything that a task computes is read, where that is data; a task of which nothing is may do nothing.
    pub wanted: Option<Id>,
}

/// A nest and the tensors that its buffer slots stand for.
pub struct Lowered {
    /// The kernel.
    pub nest: Nest,
    /// The tensor that each item of the nest computes or merges, in its order.
    pub made: Vec<Id>,
    /// Tensor of each slot (for a scatter, the state that it replaces).
    pub slots: Vec<Id>,
    /// Which slots are written.
    pub written: Vec<bool>,
}

/// How many steps of each axis a task takes, and how loops lie in each other.
pub struct Cut {
    /// Steps for each axis of the group.
    pub steps: Vec<i64>,
    /// Loops over tasks and over the elements of an item lie in each other as axes and dimensions follow; with a seed,
    /// by chance.
    pub order: Option<u64>,
}

/// A number by chance, from a seed and what it is for.
pub(crate) fn chance(seed: u64, what: impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    (seed, what).hash(&mut hash);
    hash.finish()
}

/// Lowers one group. `weights` are tensors that are known not to change while a step runs.
pub fn lower(g: &mut Graph, s: &Schedule, group: usize, cut: &Cut, weights: &FxHashSet<Id>) -> Lowered {
    let l = Lowering {
        s,
        weights,
        group,
        steps: cut.steps.clone(),
        order: cut.order,
        base: vec![],
        serial: FxHashMap::default(),
        slots: vec![],
        written: vec![],
        stash: FxHashMap::default(),
        carriers: FxHashMap::default(),
        stashes: vec![],
        ranges: 0,
        memo: FxHashMap::default(),
        keep: FxHashSet::default(),
        limits: limits(g, s, group),
    };
    l.run(g)
}

struct Lowering<'a> {
    s: &'a Schedule,
    weights: &'a FxHashSet<Id>,
    group: usize,
    steps: Vec<i64>,
    order: Option<u64>,
    /// First step of this task along each axis.
    base: Vec<Id>,
    /// Loop counter of each serial axis.
    serial: FxHashMap<usize, Id>,
    slots: Vec<Id>,
    written: Vec<bool>,
    stash: FxHashMap<Id, Id>,
    /// Scratch of each part of the folds, by sources of the fold and part; of each scan, by itself and 0.
    carriers: FxHashMap<(Vec<Id>, usize), Id>,
    stashes: Vec<Id>,
    ranges: u32,
    memo: FxHashMap<(Id, Vec<Id>), Id>,
    keep: FxHashSet<Id>,
    /// Members of which only a prefix is wanted.
    limits: FxHashMap<Id, Limit>,
}

impl Lowering<'_> {
    fn run(mut self, g: &mut Graph) -> Lowered {
        let axes = self.s.groups[self.group].axes.clone();
        let members = self.s.groups[self.group].members.clone();
        // Tasks: row-major over the task axes, the first of `nested` outermost.
        let mut tasks = g.int(1);
        let mut tiles = vec![];
        for (i, a) in axes.iter().enumerate() {
            let n = if a.serial || a.inner { g.int(1) } else { tiles_of(g, a.count, self.steps[i]) };
            tiles.push(n);
            tasks = g.mul(tasks, n);
        }
        let task = self.range(g, Axis::Task, tasks);
        let mut nested: Vec<usize> = (0..axes.len()).collect();
        self.reorder(&mut nested);
        let extents: Vec<Id> = nested.iter().map(|&i| tiles[i]).collect();
        let at: FxHashMap<usize, Id> = nested.into_iter().zip(index::unflatten(g, &extents, task)).collect();
        for (i, a) in axes.iter().enumerate() {
            let m = g.int(self.steps[i]);
            let b = if a.serial || a.inner { g.int(0) } else { g.mul(at[&i], m) };
            self.base.push(b);
        }
        self.choose_kept(g, &members);
        let phase = self.phases(g, &members);
        let last = phase.values().copied().max().unwrap_or(0);
        let mut phases: Vec<Phase> = (0..=last + 1).map(|_| Phase { serial: None, items: vec![] }).collect();
        let mut made: Vec<Vec<Id>> = vec![vec![]; phases.len()];
        let mut note = |m: Id, phases: &[Phase]| {
            made.iter_mut().zip(phases).for_each(|(made, phase)| made.resize(phase.items.len(), m));
        };
        // Serial loops first get their counters, in phase order.
        for &m in &members {
            if let Op::Fold { axis, parts, .. } = *g.op(m) {
                let p = phase[&m];
                if phases[p].serial.is_none() {
                    self.open_fold(g, m, axis, parts, &mut phases, p);
                    note(m, &phases);
                }
            } else if let Op::Scan(along) = *g.op(m) {
                self.open_scan(g, m, along, &mut phases, phase[&m]);
            }
        }
        let mut folds_done: FxHashSet<Vec<Id>> = FxHashSet::default();
        let mut order = members.clone();
        // The merge of a fold comes after the parts that it merges.
        order.sort_by_key(|m| (phase[m], self.s.roles.merge.contains(m) || matches!(g.op(*m), Op::Fold { .. }), *m));
        for m in order {
            if let Op::Fold { parts, .. } = *g.op(m) {
                let key = g.src(m).to_vec();
                if folds_done.insert(key.clone()) {
                    self.close_fold(g, &key, parts, &mut phases[phase[&m]].items);
                }
                self.fold_result(g, m, &mut phases[phase[&m] + 1].items);
            } else {
                self.emit(g, m, &mut phases[phase[&m]].items);
            }
            note(m, &phases);
        }
        phases.retain(|p| !p.items.is_empty());
        let wanted = self.wanted(g, &members);
        let nest = Nest { phases, tasks, stashes: self.stashes.clone(), ranges: self.ranges, wanted };
        Lowered { nest, made: made.concat(), slots: self.slots, written: self.written }
    }

    fn range(&mut self, g: &mut Graph, axis: Axis, extent: Id) -> Id {
        self.ranges += 1;
        g.range(self.ranges - 1, axis, extent)
    }

    /// Orders loops as the cut says.
    fn reorder<T>(&self, loops: &mut [T]) {
        let Some(seed) = self.order else { return };
        for i in (1..loops.len()).rev() {
            let other = chance(seed, (self.group, self.ranges, i)) % (i as u64 + 1);
            loops.swap(i, other as usize);
        }
    }

    fn map(&self, id: Id) -> Option<&Vec<Along>> {
        self.s.maps.get(&(self.group, id))
    }

    fn is_member(&self, id: Id) -> bool {
        self.s.maps.contains_key(&(self.group, id))
    }

    /// Odd phases are serial loops, even ones what comes between.
    fn phases(&self, g: &Graph, members: &[Id]) -> FxHashMap<Id, usize> {
        let axes = &self.s.groups[self.group].axes;
        let loops: Vec<usize> = (0..axes.len()).filter(|&i| axes[i].serial).collect();
        let mut phase: FxHashMap<Id, usize> = FxHashMap::default();
        let mut order = members.to_vec();
        order.sort_unstable();
        for &m in &order {
            let map = self.map(m).unwrap();
            let on = map.iter().find_map(|a| match a {
                Along::Axis { axis, .. } => loops.iter().position(|l| l == axis),
                _ => None,
            });
            let mut p = on.map_or(0, |k| 2 * k + 1);
            if let Op::Fold { axis, .. } = *g.op(m) {
                let part = g.src(m)[0];
                // The loop of a fold is the serial axis of its parts.
                let k = self.fold_loop(g, m, part, axis, &loops);
                p = 2 * k + 1;
            } else if self.uses_arg(g, m) {
                p = 2 * self.arg_loop(g, m, members, &loops) + 1;
            } else {
                for r in self.s.reads(g, m) {
                    if let Some(&q) = phase.get(&r) {
                        let after = matches!(g.op(r), Op::Fold { .. }) || (q % 2 == 1 && on.is_none());
                        p = p.max(if after { q + 1 } else { q });
                    }
                }
            }
            phase.insert(m, p);
        }
        phase
    }

    fn fold_loop(&self, _g: &Graph, _m: Id, part: Id, axis: usize, loops: &[usize]) -> usize {
        if let Some(map) = self.map(part)
            && let Some(Along::Axis { axis: a, .. }) = map.get(axis)
        {
            return loops.iter().position(|l| l == a).unwrap_or(0);
        }
        loops.len() - 1
    }

    fn arg_loop(&self, g: &Graph, m: Id, members: &[Id], loops: &[usize]) -> usize {
        for &f in members {
            if let Op::Fold { axis, parts, .. } = *g.op(f)
                && g.toposort(&g.src(f)[parts..2 * parts]).contains(&m)
            {
                return self.fold_loop(g, f, g.src(f)[0], axis, loops);
            }
        }
        0
    }

    fn uses_arg(&self, g: &Graph, id: Id) -> bool {
        match g.op(id) {
            Op::Arg(_) => true,
            Op::Fold { .. } | Op::Reduce(..) => false,
            op if op.is_elementwise() || is_view(g, id) => g.src(id).iter().any(|&s| self.uses_arg(g, s)),
            _ => false,
        }
    }

    /// Decides which members get scratch: reductions that are read here, and
    /// values that would be computed more than once.
    fn choose_kept(&mut self, g: &Graph, members: &[Id]) {
        let mut uses: FxHashMap<Id, usize> = FxHashMap::default();
        for &m in members {
            let mut stack: Vec<(Id, bool)> = g.src(m).iter().map(|&s| (s, false)).collect();
            let mut seen = FxHashSet::default();
            while let Some((s, grown)) = stack.pop() {
                if !seen.insert((s, grown)) {
                    continue;
                }
                if self.is_member(s) {
                    *uses.entry(s).or_default() += if grown { 2 } else { 1 };
                } else if !self.s.home.contains_key(&s) && !self.s.roles.free.contains(&s) {
                    let grows = *g.op(s) == Op::Expand;
                    stack.extend(g.src(s).iter().map(|&t| (t, grown || grows)));
                }
            }
        }
        for &m in members {
            let n = uses.get(&m).copied().unwrap_or(0);
            let stored = self.s.stored.contains(&m);
            let keep = match g.op(m) {
                Op::Fold { .. } => false,
                Op::Reduce(..) | Op::Scan(_) | Op::Concat(_) => n > 0,
                Op::Scatter => false,
                _ => n >= 2 || (stored && n > 0),
            };
            if keep {
                self.keep.insert(m);
            }
        }
    }

    /// Extent inside a task along each dimension of a member: known maximum and
    /// the actual number.
    fn local(&mut self, g: &mut Graph, shape: &[Id], map: &[Along]) -> Vec<(i64, Id)> {
        let axes = &self.s.groups[self.group].axes;
        let mut out = vec![];
        for (&d, m) in shape.iter().zip(map) {
            out.push(match *m {
                Along::Axis { axis, unit } if !axes[axis].serial => {
                    let steps = self.steps[axis];
                    let count = axes[axis].count;
                    let full = g.int(steps);
                    let n = match g.as_int(count) {
                        Some(c) if c % steps == 0 => full,
                        _ => {
                            let left = g.sub(count, self.base[axis]);
                            g.binary(BinOp::Min, full, left)
                        }
                    };
                    let u = g.int(unit);
                    (steps * unit, g.mul(n, u))
                }
                Along::Axis { unit, .. } => (unit, g.int(unit)),
                _ => (index::bounds(g, d).1, d),
            });
        }
        out
    }

    /// First index of this task along a dimension.
    fn origin(&mut self, g: &mut Graph, m: Along) -> Id {
        match m {
            Along::Axis { axis, unit } => {
                let b = match self.serial.get(&axis) {
                    Some(&r) => r,
                    None => self.base[axis],
                };
                let u = g.int(unit);
                g.mul(b, u)
            }
            _ => g.int(0),
        }
    }

    /// The number of steps of an axis that this task has of a member, where it
    /// is data.
    fn limit(&mut self, g: &mut Graph, member: Id) -> Option<(usize, Id)> {
        let Limit { axis, counts, lead } = self.limits.get(&member)?.clone();
        let mut at = vec![];
        for m in lead {
            match m {
                Along::Free => at.push(g.int(0)),
                Along::Axis { axis, unit: 1 } if self.steps[axis] == 1 => at.push(self.base[axis]),
                _ => return None,
            }
        }
        // A task may have counted its own; those of others it reads where they are stored.
        if self.is_member(counts) && !self.stash.contains_key(&counts) {
            return None;
        }
        let count = self.value(g, counts, &at);
        let count = g.cast(count, DType::Index);
        Some((axis, g.sub(count, self.base[axis])))
    }

    /// Loops over the elements of a member: ranges and global indices.
    fn loops(&mut self, g: &mut Graph, member: Option<Id>, shape: &[Id], map: &[Along]) -> (Vec<Id>, Vec<Id>) {
        let mut local = self.local(g, shape, map);
        if let Some((limited, count)) = member.and_then(|m| self.limit(g, m)) {
            for (n, m) in local.iter_mut().zip(map) {
                if matches!(m, Along::Axis { axis, unit: 1 } if *axis == limited) && n.0 > 1 {
                    let zero = g.int(0);
                    let fewer = g.binary(BinOp::Min, n.1, count);
                    n.1 = g.binary(BinOp::Max, fewer, zero);
                }
            }
        }
        let (mut dims, mut at) = (vec![], vec![]);
        for (i, (most, n)) in local.into_iter().enumerate() {
            let o = self.origin(g, map[i]);
            if most == 1 {
                at.push(o);
                continue;
            }
            let r = self.range(g, Axis::Loop, n);
            dims.push(r);
            at.push(g.add(o, r));
        }
        // No extent refers to another of these ranges, so any order is legal.
        self.reorder(&mut dims);
        (dims, at)
    }

    /// The scratch element of a member at a global index.
    fn scratch_index(&mut self, g: &mut Graph, id: Id, at: &[Id]) -> Id {
        let map = self.map(id).unwrap().clone();
        let shape = self.shape_of(g, id);
        self.local_index(g, &shape, &map, at)
    }

    /// The element of scratch laid out by a map, at a global index.
    fn local_index(&mut self, g: &mut Graph, shape: &[Id], map: &[Along], at: &[Id]) -> Id {
        let local = self.local(g, shape, map);
        let mut flat = g.int(0);
        for (i, (most, _)) in local.into_iter().enumerate() {
            let o = self.origin(g, map[i]);
            let here = g.sub(at[i], o);
            let m = g.int(most);
            flat = g.mul(flat, m);
            flat = g.add(flat, here);
        }
        flat
    }

    fn shape_of(&self, g: &Graph, id: Id) -> Vec<Id> {
        let id = if matches!(g.op(id), Op::Scatter) { g.src(id)[2] } else { id };
        g.shape(id).to_vec()
    }

    fn new_stash(&mut self, g: &mut Graph, ty: DType, len: i64) -> Id {
        let b = g.buffer(self.stashes.len() as u32, Space::Task, ty, len as usize);
        self.stashes.push(b);
        b
    }

    fn slot(&mut self, g: &mut Graph, tensor: Id, write: bool) -> Id {
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
    fn memory_of(&self, g: &Graph, id: Id) -> Id {
        let mut id = id;
        while *g.op(id) == Op::Scatter {
            id = g.src(id)[0];
        }
        id
    }

    fn emit(&mut self, g: &mut Graph, m: Id, items: &mut Vec<Item>) {
        let stored = self.s.stored.contains(&m);
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

    fn stash_for(&mut self, g: &mut Graph, m: Id) -> Id {
        let map = self.map(m).unwrap().clone();
        let shape = self.shape_of(g, m);
        let len = self.local(g, &shape, &map).iter().map(|l| l.0).product();
        self.new_stash(g, g.dtype(m), len)
    }

    #[allow(clippy::too_many_arguments)]
    fn put(
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

    /// Scratch for the parts of a fold, and their identities.
    fn open_fold(&mut self, g: &mut Graph, fold: Id, axis: usize, parts: usize, phases: &mut [Phase], p: usize) {
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
        let loops: Vec<usize> = (0..self.steps.len()).filter(|&i| self.s.groups[self.group].axes[i].serial).collect();
        self.serial.insert(loops[(p - 1) / 2], r);
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
    fn open_scan(&mut self, g: &mut Graph, scan: Id, along: usize, phases: &mut [Phase], p: usize) {
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
    fn fold_map(&self, g: &Graph, fold: Id, rank: usize) -> Option<Vec<Along>> {
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
    fn close_fold(&mut self, g: &mut Graph, key: &[Id], parts: usize, items: &mut Vec<Item>) {
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

    fn fold_result(&mut self, g: &mut Graph, m: Id, items: &mut Vec<Item>) {
        let Op::Fold { part, .. } = *g.op(m) else { unreachable!() };
        let buffer = self.carriers[&(g.src(m).to_vec(), part)];
        self.stash.insert(m, buffer);
        self.memo.retain(|k, _| k.0 != m);
        if self.s.stored.contains(&m) {
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

    /// The element of a tensor at a global index, as a kernel expression.
    fn value(&mut self, g: &mut Graph, id: Id, at: &[Id]) -> Id {
        if let Some(&s) = self.stash.get(&id) {
            let i = self.scratch_index(g, id, at);
            return g.load(s, i, 1);
        }
        let key = (id, at.to_vec());
        if let Some(&v) = self.memo.get(&key) {
            return v;
        }
        let elsewhere = self.s.home.contains_key(&id) && !self.is_member(id);
        let v = if elsewhere {
            let memory = self.memory_of(g, id);
            let buffer = self.slot(g, memory, false);
            let shape = g.shape(id).to_vec();
            let i = index::flatten(g, &shape, at);
            g.load(buffer, i, 1)
        } else {
            self.define(g, id, at)
        };
        self.memo.insert(key, v);
        v
    }

    /// The defining expression of a tensor at a global index.
    fn define(&mut self, g: &mut Graph, id: Id, at: &[Id]) -> Id {
        let n = g.node(id).clone();
        match n.op {
            Op::Const(c) => g.constant(c, n.ty.base),
            Op::Var { .. } => id,
            Op::Iota => g.cast(at[0], DType::I32),
            Op::Param { .. } | Op::State { .. } => {
                let b = self.slot(g, id, false);
                let i = index::flatten(g, &n.shape, at);
                g.load(b, i, 1)
            }
            Op::Unary(op) => {
                let a = self.value(g, n.src[0], at);
                g.unary(op, a)
            }
            Op::Binary(op) => {
                let a = self.value(g, n.src[0], at);
                let b = self.value(g, n.src[1], at);
                g.binary(op, a, b)
            }
            Op::Where => {
                let c = self.value(g, n.src[0], at);
                let a = self.value(g, n.src[1], at);
                let b = self.value(g, n.src[2], at);
                g.select(c, a, b)
            }
            Op::Fence | Op::Prefix(_) => self.value(g, n.src[0], at),
            Op::Cast => {
                let a = self.value(g, n.src[0], at);
                g.cast(a, n.ty.base)
            }
            Op::Reshape => {
                let from = g.shape(n.src[0]).to_vec();
                let i = index::reshape(g, &from, &n.shape, at);
                self.value(g, n.src[0], &i)
            }
            Op::Permute(p) => {
                let mut i = at.to_vec();
                for (d, &s) in p.iter().enumerate() {
                    i[s] = at[d];
                }
                self.value(g, n.src[0], &i)
            }
            Op::Expand => {
                let from = g.shape(n.src[0]).to_vec();
                let zero = g.int(0);
                let i: Vec<Id> = (0..at.len()).map(|d| if from[d] == n.shape[d] { at[d] } else { zero }).collect();
                self.value(g, n.src[0], &i)
            }
            Op::Slice { axis, start } => {
                let mut i = at.to_vec();
                let s = g.int(start);
                i[axis] = g.add(i[axis], s);
                self.value(g, n.src[0], &i)
            }
            Op::Concat(axis) => {
                let mut start = g.int(0);
                let mut acc: Option<Id> = None;
                for &p in &n.src {
                    let extent = g.shape(p)[axis];
                    let mut i = at.to_vec();
                    let inner = g.sub(at[axis], start);
                    i[axis] = clamp(g, inner, extent);
                    let v = self.value(g, p, &i);
                    let from_here = g.binary(BinOp::Lt, at[axis], start);
                    acc = Some(match acc {
                        None => v,
                        Some(a) => g.select(from_here, a, v),
                    });
                    start = g.add(start, extent);
                }
                acc.unwrap()
            }
            Op::Gather => {
                let (table, idx) = (n.src[0], n.src[1]);
                let r = g.shape(idx).len();
                let row = self.value(g, idx, &at[..r]);
                let row = g.cast(row, DType::Index);
                let extent = g.shape(table)[0];
                let row = clamp(g, row, extent);
                let mut i = vec![row];
                i.extend_from_slice(&at[r..]);
                self.value(g, table, &i)
            }
            Op::Dequant(f, part) => self.dequant(g, n.src[0], f, part, at),
            Op::Reduce(op, axes) => {
                let src = n.src[0];
                let shape = g.shape(src).to_vec();
                let mut ranges = vec![];
                let mut it = at.iter();
                let i: Vec<Id> = (0..shape.len())
                    .map(|d| {
                        if axes.contains(&d) {
                            // A product is a sum, even of one term: a row of one block.
                            if g.as_int(shape[d]) == Some(1) && !(axes.len() == 1 && self.s.roles.heavy.contains(&id)) {
                                return g.int(0);
                            }
                            let r = self.range(g, Axis::Loop, shape[d]);
                            ranges.push(r);
                            r
                        } else {
                            *it.next().unwrap()
                        }
                    })
                    .collect();
                let body = self.value(g, src, &i);
                if ranges.is_empty() {
                    return body;
                }
                let mut s = vec![body];
                s.extend(ranges);
                g.make(Op::Reduce(op, vec![]), n.ty, vec![], s)
            }
            Op::Arg(k) => self.arg(g, k, at),
            op => panic!("{op:?} is lowered by its own pass"),
        }
    }

    /// A placeholder of a merge: the value so far, or the next part.
    fn arg(&mut self, g: &mut Graph, k: usize, at: &[Id]) -> Id {
        let members = &self.s.groups[self.group].members;
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

/// An index held inside `0 .. extent`.
fn clamp(g: &mut Graph, i: Id, extent: Id) -> Id {
    let one = g.int(1);
    let top = g.sub(extent, one);
    let zero = g.int(0);
    let i = g.binary(BinOp::Min, i, top);
    g.binary(BinOp::Max, i, zero)
}

fn tiles_of(g: &mut Graph, count: Id, steps: i64) -> Id {
    let up = g.int(steps - 1);
    let n = g.add(count, up);
    let d = g.int(steps);
    g.binary(BinOp::Div, n, d)
}

/// Identity of a reduction.
pub fn identity(op: ReduceOp, ty: DType) -> Const {
    match (op, ty.is_float()) {
        (ReduceOp::Sum, true) => Const::f32(0.0),
        (ReduceOp::Sum, false) => Const::Int(0),
        (ReduceOp::Max, true) => Const::f32(f32::NEG_INFINITY),
        (ReduceOp::Max, false) => Const::Int(ty.int_range().map_or(i64::MIN / 4, |r| r.0)),
    }
}

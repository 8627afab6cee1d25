//! From a scheduled group to a nest: loops, loads and stores over the index
//! algebra, still scalar, one [`Item`] for each value that is kept.
//!
//! Movement operations vanish here. A value that is kept for the length of a
//! task (a Stash) has one element for each index inside the task; every other
//! value is an expression that its readers repeat.
//!
//! This page has the order in which that happens; `phases` says which serial loop a member belongs to, `elements` what a
//! task has of it, `value` what each element is, `items` where it goes, and `fold` what loops carry.

use crate::schedule::Schedule;
use crate::schedule::axes::Along;
use crate::schedule::limits::{Limit, limits};
use ir::{Axis, BinOp, Graph, Id, Op, Recurrence, index};
use rustc_hash::{FxHashMap, FxHashSet};

mod cut;
mod elements;
mod fold;
mod items;
mod nest;
mod phases;
mod recurrence;
mod unpack;
mod value;
mod wanted;

pub use cut::Cut;
pub(crate) use cut::chance;

pub use nest::{Item, Nest, Phase, identity};

/// A nest and the tensors that its buffer slots stand for.
#[derive(Clone)]
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
    /// Scratch of each part of the folds, by sources of the fold and part; of each scan, by itself and 0; of what a recurrence
    /// carries, by its sources and 0.
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
            } else if let Some(r) = Recurrence::of(g, m) {
                let steps = g.shape(r.begins)[0];
                let serial = &mut phases[phase[&m]].serial;
                if serial.is_none() {
                    *serial = Some(self.open_recurrence(g, steps));
                }
            }
        }
        let mut loops_done: FxHashSet<Vec<Id>> = FxHashSet::default();
        let mut order = members.clone();
        // The merge of a fold comes after the parts that it merges.
        order.sort_by_key(|m| (phase[m], self.s.roles.merge.contains(m) || matches!(g.op(*m), Op::Fold { .. }), *m));
        for m in order {
            if let Op::Fold { parts, .. } = *g.op(m) {
                let key = g.src(m).to_vec();
                if loops_done.insert(key.clone()) {
                    self.close_fold(g, &key, parts, &mut phases[phase[&m]].items);
                }
                self.fold_result(g, m, &mut phases[phase[&m] + 1].items);
            } else if matches!(g.op(m), Op::Recur { .. }) {
                // All parts of one are made in turns.
                if loops_done.insert(g.src(m).to_vec()) {
                    self.recurrence(g, m, &mut phases[phase[&m]].items);
                }
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
}

fn tiles_of(g: &mut Graph, count: Id, steps: i64) -> Id {
    let up = g.int(steps - 1);
    let n = g.add(count, up);
    let d = g.int(steps);
    g.binary(BinOp::Div, n, d)
}

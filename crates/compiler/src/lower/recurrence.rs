//! Recurrences: what a task carries lies in its scratch, and each step is a list of items over it.

use super::Lowering;
use super::nest::Item;
use super::value::clamp;
use crate::schedule::axes::Along;
use ir::{Axis, DType, Graph, Id, Op, Recurrence, index, walk};

impl Lowering<'_> {
    /// The counter of the steps of a recurrence.
    pub(super) fn open_recurrence(&mut self, g: &mut Graph, steps: Id) -> Id {
        let r = self.range(g, Axis::Loop, steps);
        let axis = self.serial_axis().expect("a recurrence has a serial axis");
        self.serial.insert(axis, r);
        r
    }

    /// The items of a step: what a run begins with, at its first; sums over what is carried, and what is given of them; what is
    /// carried on, in its place; sums over that, and what is given of them; and what a run leaves, at its last.
    pub(super) fn recurrence(&mut self, g: &mut Graph, part: Id, items: &mut Vec<Item>) {
        let sources = g.src(part).to_vec();
        let r = Recurrence::of(g, part).expect("a part of a recurrence");
        let (begins, ends, run, start, next, given) = (r.begins, r.ends, r.run, r.start, r.next, r.given.to_vec());
        let last = r.inputs.len() + 1;
        let members = self.s.groups[self.group].members.clone();
        let parts: Vec<Id> = members.into_iter().filter(|&m| g.src(m) == sources).collect();
        let node = |g: &Graph, wanted: usize| {
            parts.iter().copied().find(|&m| matches!(*g.op(m), Op::Recur { part, .. } if part == wanted))
        };
        let carried = self.map(next).expect("what is carried has a map").clone();
        let shape = g.shape(next).to_vec();
        let len = self.local(g, &shape, &carried).iter().map(|l| l.0).product();
        let scratch = self.new_stash(g, g.dtype(next), len);
        self.carriers.insert((sources, 0), scratch);
        let step = self.step_of_recurrence();

        let begins = self.value(g, begins, &[step]);
        let (dims, at) = self.loops_if(g, begins, &shape, &carried);
        let mut row = at.clone();
        row.insert(0, step);
        let value = self.value(g, start, &row);
        let index = self.local_index(g, &shape, &carried, &at);
        items.push(Item { dims, value, buffer: scratch, index });

        let (after, before): (Vec<usize>, Vec<usize>) = (0..given.len()).partition(|&i| reads(g, given[i], last));
        for &i in &before {
            self.give(g, given[i], node(g, i + 1), step, items);
        }
        let roots: Vec<Id> = after.iter().map(|&i| given[i]).chain([next]).collect();
        self.sums_of_step(g, &roots, &|g, sum| !reads(g, sum, last), items);
        let (dims, at) = self.loops(g, None, &shape, &carried);
        let value = self.value(g, next, &at);
        let index = self.local_index(g, &shape, &carried, &at);
        items.push(Item { dims, value, buffer: scratch, index });
        for &i in &after {
            self.give(g, given[i], node(g, i + 1), step, items);
        }

        if let Some(left) = node(g, 0).filter(|&left| self.s.stores(self.group, left)) {
            let ends = self.value(g, ends, &[step]);
            let (dims, at) = self.loops_if(g, ends, &shape, &carried);
            let from = self.local_index(g, &shape, &carried, &at);
            let value = g.load(scratch, from, 1);
            let whole = g.shape(left).to_vec();
            let run = self.value(g, run, &[step]);
            let run = g.cast(run, DType::Index);
            let mut row = vec![clamp(g, run, whole[0])];
            row.extend(at);
            let buffer = self.slot(g, left, true);
            let index = index::flatten(g, &whole, &row);
            items.push(Item { dims, value, buffer, index });
        }
    }

    /// One of the values that a step gives, and the sums that it is made of.
    fn give(&mut self, g: &mut Graph, given: Id, node: Option<Id>, step: Id, items: &mut Vec<Item>) {
        let Some(node) = node.filter(|&node| self.s.stores(self.group, node)) else { return };
        let whole_is_sum = matches!(g.op(given), Op::Reduce(..));
        if !whole_is_sum {
            self.sums_of_step(g, &[given], &|_, _| true, items);
        }
        let shape = g.shape(given).to_vec();
        let map = self.map(node).unwrap()[1..].to_vec();
        let (dims, at) = self.loops(g, None, &shape, &map);
        let value = if whole_is_sum { self.define(g, given, &at) } else { self.value(g, given, &at) };
        let mut row = vec![step];
        row.extend(at);
        let whole = g.shape(node).to_vec();
        let buffer = self.slot(g, node, true);
        let index = index::flatten(g, &whole, &row);
        items.push(Item { dims, value, buffer, index });
    }

    /// Scratch for the sums that expressions of placeholders are made of, of those that are wanted now, and those that others
    /// need first.
    fn sums_of_step(&mut self, g: &mut Graph, of: &[Id], wanted: &dyn Fn(&Graph, Id) -> bool, items: &mut Vec<Item>) {
        for sum in g.toposort(of) {
            let is_sum = matches!(g.op(sum), Op::Reduce(..)) && self.s.roles.merge.contains(&sum);
            if !is_sum || !wanted(g, sum) || self.stash.contains_key(&sum) {
                continue;
            }
            let map = self.map(sum).expect("it has a map").clone();
            let shape = g.shape(sum).to_vec();
            let (dims, at) = self.loops(g, None, &shape, &map);
            let value = self.define(g, sum, &at);
            let buffer = self.stash_for(g, sum);
            let index = self.scratch_index(g, sum, &at);
            items.push(Item { dims, value, buffer, index });
            self.stash.insert(sum, buffer);
            self.memo.clear();
        }
    }

    /// A placeholder: what is carried, or an input of the step.
    pub(super) fn arg_of_recurrence(&mut self, g: &mut Graph, part: Id, k: usize, at: &[Id]) -> Id {
        let r = Recurrence::of(g, part).expect("a part of a recurrence");
        let (next, input) = (r.next, k.checked_sub(1).and_then(|k| r.inputs.get(k)).copied());
        if let Some(input) = input {
            let mut row = vec![self.step_of_recurrence()];
            row.extend_from_slice(at);
            return self.value(g, input, &row);
        }
        let (shape, map) = (g.shape(next).to_vec(), self.map(next).expect("what is carried has a map").clone());
        let i = self.local_index(g, &shape, &map, at);
        let scratch = self.carriers[&(g.src(part).to_vec(), 0)];
        g.load(scratch, i, 1)
    }

    fn step_of_recurrence(&self) -> Id {
        *self.serial.values().next().expect("the loop is open")
    }

    /// Loops over the elements of what is carried, of which there are none unless a condition holds.
    fn loops_if(&mut self, g: &mut Graph, condition: Id, shape: &[Id], map: &[Along]) -> (Vec<Id>, Vec<Id>) {
        let mut local = self.local(g, shape, map);
        let times = g.cast(condition, DType::Index);
        match local.iter_mut().find(|(most, _)| *most > 1) {
            Some(outermost) => outermost.1 = g.mul(outermost.1, times),
            None => {
                let once = self.range(g, Axis::Loop, times);
                return (vec![once], self.loops_over(g, local, map).1);
            }
        }
        self.loops_over(g, local, map)
    }
}

/// Whether an expression reads a placeholder.
fn reads(g: &Graph, id: Id, placeholder: usize) -> bool {
    walk::any([id], |x, more| {
        more.extend(g.src(x));
        *g.op(x) == Op::Arg(placeholder)
    })
}

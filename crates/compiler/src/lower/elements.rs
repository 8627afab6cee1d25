//! The elements that a task has of a member: loops over them, and where they lie in its scratch.

use super::Lowering;
use crate::schedule::axes::Along;
use crate::schedule::limits::Limit;
use ir::{Axis, BinOp, DType, Graph, Id, Op, index};

impl Lowering<'_> {
    /// Extent inside a task along each dimension of a member: known maximum and
    /// the actual number.
    pub(super) fn local(&mut self, g: &mut Graph, shape: &[Id], map: &[Along]) -> Vec<(i64, Id)> {
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
                        // In what both are multiples of: the last rows of a matrix fill vectors if all do.
                        Some(c) => {
                            let each = index::gcd(c, steps);
                            let [least, all, whole] = [steps / each, c / each, each].map(|n| g.int(n));
                            let before = g.binary(BinOp::Div, self.base[axis], whole);
                            let left = g.sub(all, before);
                            let n = g.binary(BinOp::Min, least, left);
                            g.mul(n, whole)
                        }
                        None if index::is_multiple(g, count, steps) => full,
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
    pub(super) fn origin(&mut self, g: &mut Graph, m: Along) -> Id {
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
    pub(super) fn limit(&mut self, g: &mut Graph, member: Id) -> Option<(usize, Id)> {
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
    pub(super) fn loops(
        &mut self,
        g: &mut Graph,
        member: Option<Id>,
        shape: &[Id],
        map: &[Along],
    ) -> (Vec<Id>, Vec<Id>) {
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
        self.loops_over(g, local, map)
    }

    /// Loops over so many elements, at most and here, along each dimension.
    pub(super) fn loops_over(&mut self, g: &mut Graph, local: Vec<(i64, Id)>, map: &[Along]) -> (Vec<Id>, Vec<Id>) {
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
    pub(super) fn scratch_index(&mut self, g: &mut Graph, id: Id, at: &[Id]) -> Id {
        let map = self.map(id).unwrap().clone();
        let shape = self.shape_of(g, id);
        self.local_index(g, &shape, &map, at)
    }

    /// The element of scratch laid out by a map, at a global index.
    pub(super) fn local_index(&mut self, g: &mut Graph, shape: &[Id], map: &[Along], at: &[Id]) -> Id {
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

    pub(super) fn shape_of(&self, g: &Graph, id: Id) -> Vec<Id> {
        let id = if matches!(g.op(id), Op::Scatter) { g.src(id)[2] } else { id };
        g.shape(id).to_vec()
    }
}

//! Recurrences: each is a kernel of its own with a serial loop over its steps, in which a task carries its share of the values.

use super::Scheduler;
use crate::schedule::axes::{Along, backward};
use ir::{Graph, Id, Op, Recurrence};
use rustc_hash::FxHashSet;

impl Scheduler {
    /// Every recurrence. Along the leading dimensions of what it carries, which all that it gives has, there may be tasks; of the
    /// others each task has all.
    pub(super) fn place_recurrences(&mut self, g: &mut Graph, live: &[Id]) {
        for &id in live {
            let Some(r) = Recurrence::of(g, id).filter(|_| !self.out.home.contains_key(&id)) else { continue };
            let (steps, next, given) = (g.shape(r.begins)[0], r.next, r.given.to_vec());
            let lead = given.iter().map(|&given| g.shape(given).len()).min().unwrap_or(0);
            let group = self.new_group(false);
            let serial = Along::Axis { axis: self.add_axis(group, steps, true), unit: 1 };
            let mut carried = vec![];
            for (i, d) in g.shape(next).to_vec().into_iter().enumerate() {
                carried.push(match g.as_int(d) {
                    Some(1) => Along::Free,
                    _ if i < lead => Along::Axis { axis: self.add_axis(group, d, false), unit: 1 },
                    _ => Along::Inner,
                });
            }
            let of_given = |g: &Graph, given: Id| carried[..g.shape(given).len()].to_vec();
            let roots: Vec<_> =
                given.iter().map(|&id| (id, of_given(g, id))).chain([(next, carried.clone())]).collect();
            self.map_sums(g, group, roots);
            self.out.maps.insert((group, next), carried.clone());
            for &other in live {
                let Op::Recur { part, .. } = *g.op(other) else { continue };
                if g.src(other) == g.src(id) {
                    let mut map = match part {
                        0 => carried.clone(),
                        part => of_given(g, given[part - 1]),
                    };
                    map.insert(0, if part == 0 { Along::Inner } else { serial });
                    self.assign(other, group, map);
                }
            }
        }
    }

    /// Maps of the sums of expressions of placeholders, which a task keeps for a step.
    fn map_sums(&mut self, g: &mut Graph, group: usize, mut open: Vec<(Id, Vec<Along>)>) {
        let mut seen = FxHashSet::default();
        while let Some((id, map)) = open.pop() {
            if !self.out.roles.merge.contains(&id) || !seen.insert(id) {
                continue;
            }
            for operand in 0..g.src(id).len() {
                open.extend(backward(g, id, operand, &map).map(|map| (g.src(id)[operand], map)));
            }
            if matches!(g.op(id), Op::Reduce(..)) {
                self.out.maps.insert((group, id), map);
            }
        }
    }
}

//! Tasks of which nothing is read: a fold takes only as many of its parts as there are, which is data.

use super::Lowering;
use crate::schedule::axes::Along;
use ir::{BinOp, DType, Graph, Id, Op};
use rustc_hash::FxHashSet;

/// Only so many indices of a dimension of a value are read.
struct Taken {
    axis: usize,
    /// By the dimensions before it.
    count: Id,
}

impl Lowering<'_> {
    /// Whether anything that this task stores is read, if all readers are folds that count their parts along one of its
    /// axes.
    pub(super) fn wanted(&mut self, g: &mut Graph, members: &[Id]) -> Option<Id> {
        let stored: Vec<Id> = members.iter().copied().filter(|m| self.s.stores(self.group, *m)).collect();
        let mut wanted = FxHashSet::default();
        for &m in &stored {
            let Taken { axis, count } = self.taken(g, m)?;
            let map = self.map(m)?.clone();
            let here = self.only_index(g, map[axis])?;
            let lead: Vec<Id> = map[..axis].iter().map(|&a| self.only_index(g, a)).collect::<Option<_>>()?;
            // Known before this task runs.
            if self.is_member(count) {
                return None;
            }
            let count = self.value(g, count, &lead);
            let count = g.cast(count, DType::Index);
            wanted.insert(g.binary(BinOp::Lt, here, count));
        }
        let mut wanted = wanted.into_iter();
        let (one, None) = (wanted.next()?, wanted.next()) else { return None };
        Some(one)
    }

    /// What folds take of a value, if nothing else reads it and all of them take the same.
    fn taken(&self, g: &Graph, value: Id) -> Option<Taken> {
        let roles = &self.s.roles;
        if roles.outputs.contains(&value) {
            return None;
        }
        let mut taken: Option<Taken> = None;
        for &user in roles.users.get(&value)? {
            let Op::Fold { axis, parts, .. } = *g.op(user) else { return None };
            let count = g.src(user)[3 * parts];
            // Of anything but its parts it takes all.
            if g.src(user)[parts..].contains(&value) {
                return None;
            }
            if taken.as_ref().is_some_and(|t| (t.axis, t.count) != (axis, count)) {
                return None;
            }
            taken = Some(Taken { axis, count });
        }
        taken
    }

    /// The index of this task along a dimension of which it has one element.
    fn only_index(&self, g: &mut Graph, along: Along) -> Option<Id> {
        match along {
            Along::Free => Some(g.int(0)),
            Along::Axis { axis, unit: 1 } if self.steps[axis] == 1 => Some(self.base[axis]),
            _ => None,
        }
    }
}

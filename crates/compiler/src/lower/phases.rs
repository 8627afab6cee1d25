//! Which loop of a task a member belongs to, and which members are kept for the length of a task.

use super::Lowering;
use crate::schedule::axes::Along;
use crate::schedule::roles::is_view;
use ir::{Graph, Id, Op, walk};
use rustc_hash::FxHashMap;

impl Lowering<'_> {
    /// When each member is computed: before the serial loop of the group (0), in it (1), or after it (2).
    pub(super) fn phases(&self, g: &Graph, members: &[Id]) -> FxHashMap<Id, usize> {
        let serial = self.serial_axis();
        let mut phase: FxHashMap<Id, usize> = FxHashMap::default();
        let mut order = members.to_vec();
        order.sort_unstable();
        for &m in &order {
            let map = self.map(m).unwrap();
            let on = map.iter().any(|a| matches!(a, Along::Axis { axis, .. } if Some(*axis) == serial));
            let mut p = usize::from(on);
            if matches!(g.op(m), Op::Fold { .. } | Op::Recur { .. }) || self.uses_arg(g, m) {
                p = 1;
            } else {
                for r in self.s.reads(g, m) {
                    if let Some(&q) = phase.get(&r) {
                        let after = matches!(g.op(r), Op::Fold { .. }) || (q == 1 && !on);
                        p = p.max(if after { q + 1 } else { q });
                    }
                }
            }
            phase.insert(m, p);
        }
        phase
    }

    /// The serial axis of the group: the scheduler makes one at most.
    pub(super) fn serial_axis(&self) -> Option<usize> {
        let axes = &self.s.groups[self.group].axes;
        let mut serial = (0..axes.len()).filter(|&i| axes[i].serial);
        let first = serial.next();
        assert!(serial.next().is_none(), "a group has two serial axes");
        first
    }

    pub(super) fn uses_arg(&self, g: &Graph, id: Id) -> bool {
        match g.op(id) {
            Op::Arg(_) => true,
            Op::Fold { .. } | Op::Reduce(..) => false,
            op if op.is_elementwise() || is_view(g, id) => g.src(id).iter().any(|&s| self.uses_arg(g, s)),
            _ => false,
        }
    }

    /// Decides which members get scratch: reductions that are read here, and
    /// values that would be computed more than once.
    pub(super) fn choose_kept(&mut self, g: &Graph, members: &[Id]) {
        let mut uses: FxHashMap<Id, usize> = FxHashMap::default();
        for &m in members {
            walk::reach(g.src(m).iter().map(|&s| (s, false)), |(s, grown), more| {
                if self.is_member(s) {
                    *uses.entry(s).or_default() += if grown { 2 } else { 1 };
                } else if !self.s.home.contains_key(&s) && !self.s.roles.free.contains(&s) {
                    let grows = *g.op(s) == Op::Expand;
                    more.extend(g.src(s).iter().map(|&t| (t, grown || grows)));
                }
            });
        }
        for &m in members {
            let n = uses.get(&m).copied().unwrap_or(0);
            let stored = self.s.stores(self.group, m);
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
}

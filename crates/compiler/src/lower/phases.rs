//! Which loop of a task a member belongs to, and which members are kept for the length of a task.

use super::Lowering;
use crate::schedule::axes::Along;
use crate::schedule::roles::is_view;
use ir::{Graph, Id, Op, walk};
use rustc_hash::FxHashMap;

impl Lowering<'_> {
    /// Odd phases are serial loops, even ones what comes between.
    pub(super) fn phases(&self, g: &Graph, members: &[Id]) -> FxHashMap<Id, usize> {
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
                let k = self.fold_loop(part, axis, &loops);
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

    pub(super) fn fold_loop(&self, part: Id, axis: usize, loops: &[usize]) -> usize {
        if let Some(map) = self.map(part)
            && let Some(Along::Axis { axis: a, .. }) = map.get(axis)
        {
            return loops.iter().position(|l| l == a).unwrap_or(0);
        }
        loops.len() - 1
    }

    pub(super) fn arg_loop(&self, g: &Graph, m: Id, members: &[Id], loops: &[usize]) -> usize {
        for &f in members {
            if let Op::Fold { axis, parts, .. } = *g.op(f)
                && g.toposort(&g.src(f)[parts..2 * parts]).contains(&m)
            {
                return self.fold_loop(g.src(f)[0], axis, loops);
            }
        }
        0
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
}

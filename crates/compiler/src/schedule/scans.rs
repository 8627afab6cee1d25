//! Prefix sums: each is a kernel of its own with a serial loop along the summed dimension, in which a task carries the
//! sums so far.

use super::Scheduler;
use crate::schedule::axes::{Along, backward};
use ir::{Graph, Id, Op};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

impl Scheduler {
    /// Every scan, and the elementwise values that nothing else reads: they are computed inside its loop.
    pub(super) fn place_scans(&mut self, g: &mut Graph, live: &[Id]) {
        for &id in live {
            let Op::Scan(along) = *g.op(id) else { continue };
            let group = self.new_group(false);
            let mut map = vec![];
            for (i, d) in g.shape(id).to_vec().into_iter().enumerate() {
                map.push(match g.as_int(d) {
                    Some(1) if i != along => Along::Free,
                    _ => Along::Axis { axis: self.add_axis(group, d, i == along), unit: 1 },
                });
            }
            if !self.prices.unfused && self.prices.fusions.epilogue {
                for (node, map) in self.scan_body(g, id, &map) {
                    self.assign(node, group, map);
                }
            }
            self.assign(id, group, map);
        }
    }

    /// What only a scan reads, with maps, in topological order.
    fn scan_body(&mut self, g: &mut Graph, scan: Id, map: &[Along]) -> Vec<(Id, Vec<Along>)> {
        let mut inside = FxHashSet::from_iter([scan]);
        let mut body = vec![];
        // Users come before what they use. A scan reads its source as it is cut itself.
        let mut open = BTreeMap::from([(g.src(scan)[0], map.to_vec())]);
        while let Some((id, map)) = open.pop_last() {
            let roles = &self.out.roles;
            let only_here = roles.users[&id].iter().all(|user| inside.contains(user));
            let fits =
                g.op(id).is_elementwise() || crate::schedule::roles::is_view(g, id) && !roles.inline.contains(&id);
            if !only_here || !fits || roles.free.contains(&id) || self.out.home.contains_key(&id) {
                continue;
            }
            let sources = g.src(id).to_vec();
            let maps: Option<Vec<_>> = (0..sources.len()).map(|operand| backward(g, id, operand, &map)).collect();
            let Some(maps) = maps else { continue };
            if sources.iter().zip(&maps).any(|(source, map)| open.get(source).is_some_and(|other| other != map)) {
                continue;
            }
            inside.insert(id);
            open.extend(sources.into_iter().zip(maps));
            if !self.is_transparent(g, id) {
                body.push((id, map));
            }
        }
        body.reverse();
        body
    }
}

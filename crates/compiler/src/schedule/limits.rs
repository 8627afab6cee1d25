//! How much of an axis a task really has: extents that are data.

use super::Schedule;
use super::axes::{Along, backward};
use super::roles::usual_volume;
use ir::{Graph, Id, Op, walk};
use rustc_hash::FxHashMap;

/// Only the first steps of an axis are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The axis of the group.
    pub axis: usize,
    /// How many steps, by the dimensions before it.
    pub counts: Id,
    /// Where those dimensions lie.
    pub lead: Vec<Along>,
}

/// The limit of each member of a group that has one: it reads a prefix along
/// one of its own axes, or another member that does.
pub fn limits(g: &mut Graph, s: &Schedule, group: usize) -> FxHashMap<Id, Limit> {
    let mut found: FxHashMap<Id, Limit> = FxHashMap::default();
    let mut members = s.groups[group].members.clone();
    members.sort_unstable();
    for m in members {
        let own = s.maps[&(group, m)].clone();
        let has = |axis: usize| own.iter().any(|a| matches!(a, Along::Axis { axis: x, .. } if *x == axis));
        let first = below(g, m, &own);
        walk::reach_by(
            first,
            |at| (at.0, at.1),
            |(src, _, map), more| {
                if s.maps.contains_key(&(group, src)) {
                    if let Some(limit) = found.get(&src).filter(|l| has(l.axis)).cloned() {
                        found.insert(m, limit);
                    }
                    return;
                }
                if s.home.contains_key(&src) {
                    return;
                }
                if let Op::Prefix(d) = *g.op(src)
                    && let Along::Axis { axis, unit: 1 } = map[d]
                    && has(axis)
                {
                    found.insert(m, Limit { axis, counts: g.src(src)[1], lead: map[..d].to_vec() });
                    return;
                }
                more.extend(below(g, src, &map));
            },
        );
    }
    found
}

/// What a node reads, as which of its operands, and where the dimensions of that lie; not what has no such place.
fn below(g: &mut Graph, id: Id, map: &[Along]) -> Vec<(Id, usize, Vec<Along>)> {
    let operands = 0..g.src(id).len();
    operands.filter_map(|i| Some((g.src(id)[i], i, backward(g, id, i, map)?))).collect()
}

/// The index by which readers gather most from prefixes of these counts: what lies past a count is unspecified, so nobody
/// reads it.
pub fn wanted(g: &mut Graph, s: &Schedule) -> FxHashMap<Id, Id> {
    let mut of: FxHashMap<Id, Id> = FxHashMap::default();
    let mut wanted: FxHashMap<Id, Id> = FxHashMap::default();
    for &id in &s.roles.live {
        let counts = match *g.op(id) {
            Op::Prefix(_) => Some(g.src(id)[1]),
            Op::Gather => {
                let (table, index) = (g.src(id)[0], g.src(id)[1]);
                if let Some(&counts) = of.get(&table) {
                    let most = wanted.entry(counts).or_insert(index);
                    if usual_volume(g, index) > usual_volume(g, *most) {
                        *most = index;
                    }
                }
                None
            }
            _ => g.src(id).iter().find_map(|source| of.get(source)).copied(),
        };
        if let Some(counts) = counts {
            of.insert(id, counts);
        }
    }
    wanted
}

//! What a cut of a group into tasks has to respect.

use super::Schedule;
use super::axes::Along;
use ir::{Graph, Op};

/// Whether a fold counts its steps anew for each step of this axis.
pub(crate) fn before_fold(g: &Graph, s: &Schedule, group: usize, axis: usize) -> bool {
    s.groups[group].members.iter().any(|&m| match *g.op(m) {
        Op::Fold { axis: folded, .. } => {
            s.maps[&(group, m)][..folded].iter().any(|a| matches!(a, Along::Axis { axis: x, .. } if *x == axis))
        }
        _ => false,
    })
}

pub(crate) fn widest_unit(s: &Schedule, group: usize, axis: usize) -> i64 {
    s.groups[group]
        .members
        .iter()
        .filter_map(|&m| s.maps.get(&(group, m)))
        .flatten()
        .filter_map(|a| match a {
            Along::Axis { axis: x, unit } if *x == axis => Some(*unit),
            _ => None,
        })
        .max()
        .unwrap_or(1)
}

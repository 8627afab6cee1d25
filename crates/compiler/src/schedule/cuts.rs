//! What a cut of a group into tasks has to respect.

use super::Schedule;
use super::axes::Along;
use ir::{Graph, Id, Op, Recurrence};

/// Whether a fold counts its steps anew for each step of this axis.
pub(crate) fn before_fold(g: &Graph, s: &Schedule, group: usize, axis: usize) -> bool {
    s.groups[group].members.iter().any(|&m| match *g.op(m) {
        Op::Fold { axis: folded, .. } => {
            s.maps[&(group, m)][..folded].iter().any(|a| matches!(a, Along::Axis { axis: x, .. } if *x == axis))
        }
        _ => false,
    })
}

/// Whether a fold has a count of its own for each step of this axis. A task has one count.
pub(super) fn counted_anew(g: &Graph, s: &Schedule, group: usize, axis: usize) -> bool {
    s.groups[group].members.iter().any(|&m| {
        let Op::Fold { axis: folded, parts, .. } = *g.op(m) else { return false };
        let count = g.src(m)[3 * parts];
        let dims = s.maps[&(group, m)][..folded].iter().enumerate().take(g.shape(count).len());
        let mut along = dims.filter(|(_, a)| matches!(a, Along::Axis { axis: x, .. } if *x == axis));
        along.any(|(dim, _)| differs(g, count, dim))
    })
}

/// Whether a value may differ along a dimension: it is not repeated there.
fn differs(g: &Graph, id: Id, dim: usize) -> bool {
    let from = g.src(id);
    match g.op(id) {
        Op::Expand => g.shape(id)[dim] == g.shape(from[0])[dim] && differs(g, from[0], dim),
        op if op.is_elementwise() => from.iter().any(|&s| differs(g, s, dim)),
        _ => g.as_int(g.shape(id)[dim]) != Some(1),
    }
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

/// Values that a task of a recurrence has for each step of its axes.
pub(crate) fn carried_by_step(g: &mut Graph, s: &Schedule, group: usize) -> Option<i64> {
    let next = s.groups[group].members.iter().find_map(|&m| Recurrence::of(g, m).map(|r| r.next))?;
    let inner = g.shape(next).iter().zip(&s.maps[&(group, next)]).filter(|(_, along)| **along == Along::Inner);
    Some(inner.filter_map(|(&d, _)| g.as_int(d)).product())
}

//! How much a kernel multiplies in sums over weights, by what it multiplies.

use crate::kernel::dot_pattern::half_factors;
use crate::program::{Count, Multiplied, Variable};
use crate::schedule::Schedule;
use crate::schedule::limits::limits;
use crate::schedule::roles::dot_under;
use ir::{Graph, Id, Op};
use rustc_hash::FxHashMap;

/// What a group multiplies. Of a prefix as much counts as its readers gather, by the indices of [`wanted`].
///
/// [`wanted`]: crate::schedule::limits::wanted
pub(crate) fn of(
    g: &mut Graph,
    s: &Schedule,
    group: usize,
    wanted: &FxHashMap<Id, Id>,
    vars: &[Variable],
) -> Multiplied {
    let limits = limits(g, s, group);
    let mut all = Multiplied::default();
    'sums: for &sum in s.groups[group].members.iter().filter(|m| s.roles.heavy.contains(m)) {
        let Op::Reduce(..) = g.op(sum) else { continue };
        let body = g.src(sum)[0];
        let halves = half_factors(g, body).is_some();
        let Some(products) = (if halves { Some(body) } else { dot_under(g, &s.home, body).0 }) else { continue };
        let mut shape = g.shape(products).to_vec();
        if let Some(limit) = limits.get(&sum)
            && let Some(&index) = wanted.get(&limit.counts)
        {
            // Dimensions of the tiles give way to those of the index; they are known by their extents.
            let places = s.groups[group].axes[limit.axis].count;
            for of_tiles in g.shape(limit.counts).iter().chain([&places]) {
                let Some(at) = shape.iter().position(|extent| extent == of_tiles) else { continue 'sums };
                shape.remove(at);
            }
            shape.extend(g.shape(index));
        }
        let extents: Option<Vec<Count>> = shape.iter().map(|&extent| Count::of(g, extent, vars)).collect();
        let Some(count) = extents.and_then(|all| all.into_iter().reduce(|a, b| a * b)) else { continue };
        *(if halves { &mut all.halves } else { &mut all.codes }) += count;
    }
    all
}

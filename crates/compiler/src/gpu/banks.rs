//! Which banks of shared memory rows of scratch lie in.
//!
//! What products of matrices leave in a fragment are elements of eight rows for the lanes of a warp. Where a row is a whole
//! turn around the banks, all of them lie in the same ones, and stores wait for each other; so such rows are put apart.

use crate::gpu::matrix;
use crate::kernel::expression::is_scratch;
use crate::lower::Nest;
use ir::index::Linear;
use ir::{Graph, Id};
use rustc_hash::FxHashMap;

/// Bytes of all banks.
const ALL: i64 = 128;

/// The stashes that products of matrices are stored to whose rows should be apart, and elements of a row.
pub(super) fn rows_apart(g: &mut Graph, nest: &Nest) -> FxHashMap<Id, i64> {
    let mut rows = FxHashMap::default();
    for item in nest.phases.iter().flat_map(|phase| &phase.items) {
        if !is_scratch(g, item.buffer) || !matrix::is_product(g, item, false) {
            continue;
        }
        let linear = Linear::of(g, item.index);
        let mut steps: Vec<i64> = item.dims.iter().map(|&d| linear.coefficient(d)).collect();
        steps.sort_unstable();
        if let [1, row] = steps[..]
            && linear.terms.len() == 2
            && row * g.dtype(item.buffer).bytes() as i64 % ALL == 0
        {
            rows.insert(item.buffer, row);
        }
    }
    rows
}

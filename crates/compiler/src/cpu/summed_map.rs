//! A map and the sums of what it makes, in one pass: each vector is stored, and added as it comes.
//!
//! What a recurrence carries goes on and is read in each of its steps, which are loads and stores of a near cache and little else;
//! apart, each of its values is loaded twice. The map may read what it replaces, element by element. Not here: sums over other
//! rows than the last dimension of the map has, and rows of which it is not known how many a task has, since the last ones of
//! these may be computed twice.

use crate::cpu::vectors::Tiler;
use crate::kernel::expression::collect_loads;
use crate::lower::Item;
use ir::{Graph, Id, Op};
use rustc_hash::FxHashMap;

/// Statements of two items that follow each other, if the second one is of sums over the rows that the first one writes.
pub(super) fn summed_map(t: &mut Tiler, g: &mut Graph, map: &Item, sum: &Item) -> Option<Vec<Id>> {
    let Op::Reduce(op, _) = *g.op(sum.value) else { return None };
    let &[body, k] = g.src(sum.value) else { return None };
    let (&along, rows) = map.dims.split_last()?;
    let extents = |dims: &[Id]| -> Vec<Option<i64>> { dims.iter().map(|&d| g.as_int(g.src(d)[0])).collect() };
    let (of_map, of_sum) = (extents(&map.dims), extents(&[&sum.dims[..], &[k]].concat()));
    if of_map != of_sum || of_map.contains(&None) || g.dtype(map.value) != g.dtype(map.buffer) {
        return None;
    }
    let reads = |g: &Graph, e: Id, buffer: Id| -> Vec<Id> {
        let mut loads = vec![];
        collect_loads(g, e, &mut loads);
        loads.into_iter().filter(|&l| g.src(l)[0] == buffer).collect()
    };
    let in_place = reads(g, map.value, map.buffer).iter().all(|&l| g.src(l)[1] == map.index);
    let waits = [map.value, body].iter().any(|&e| !reads(g, e, sum.buffer).is_empty());
    if !in_place || waits || map.buffer == sum.buffer {
        return None;
    }
    // The same elements by the counters of the sums.
    let mut same: FxHashMap<Id, Id> = rows.iter().copied().zip(sum.dims.iter().copied()).chain([(along, k)]).collect();
    let (value, index) = (g.substitute(map.value, &mut same.clone()), g.substitute(map.index, &mut same));
    let read = reads(g, body, map.buffer);
    if read.is_empty() || read.iter().any(|&l| g.src(l)[1] != index) {
        return None;
    }
    let body = g.substitute(body, &mut read.into_iter().map(|load| (load, value)).collect());
    let (ty, shape) = (g.ty(sum.value), g.shape(sum.value).to_vec());
    let total = g.make(g.op(sum.value).clone(), ty, shape, vec![body, k]);
    let made = Item { dims: sum.dims.clone(), value, buffer: map.buffer, index };
    t.lanes_along_reduction(g, &Item { value: total, ..sum.clone() }, op, Some(&made))
}

//! Maps whose values lie along another dimension than their results: transposition in registers.
//!
//! Lanes must follow the last dimension of the output, as stores of neighbours do, while loads are neighbours along an
//! outer one. So a square is loaded along the outer dimension, a vector for each index of the last, and its rows become
//! columns by shuffles ([`crate::kernel::transpose`]).

use crate::cpu::vectors::Tiler;
use crate::kernel::expression::{depends, first_lane, replace};
use crate::kernel::transpose::transpose;
use crate::lower::Item;
use ir::{Graph, Id};

/// The statements of a map that is exchanged in squares, if its loads are neighbours along an outer dimension.
pub(crate) fn squares(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let n = t.lanes();
    let (&last, outer) = item.dims.split_last()?;
    let length = g.as_int(g.src(last)[0]).filter(|e| n >= 4 && e % n == 0)?;
    if g.dtype(item.value).bytes() != 4 {
        return None;
    }
    let across = t.counted(g, length / n);
    let start = first_lane(g, item.index, last, across, n)?;
    let (position, along) = outer.iter().enumerate().rev().find_map(|(position, &d)| {
        let extent = g.as_int(g.src(d)[0]).filter(|e| e % n == 0 && depends(g, item.value, d))?;
        let along = t.counted(g, extent / n);
        t.pack_along(g, d, along, n, item.value, None, 1).map(|_| (position, along))
    })?;
    let d = outer[position];
    let values = t.copies(g, item.value, last, across, n).into_iter();
    let rows: Option<Vec<Id>> = values.map(|value| Some(t.pack_along(g, d, along, n, value, None, 1)?.0)).collect();
    let columns = transpose(g, &rows?, 1, n as usize);
    let width = g.int(n);
    let stores = columns.into_iter().enumerate().map(|(j, column)| {
        let (at, j) = (g.mul(along, width), g.int(j as i64));
        let at = g.add(at, j);
        let index = replace(g, start, d, at);
        t.store(g, item.buffer, index, column)
    });
    let stores = stores.collect();
    let mut dims = outer.to_vec();
    dims[position] = along;
    dims.push(across);
    Some(t.nest(g, &dims, stores))
}

//! Maps whose values lie along another dimension than their results: transposition in registers.
//!
//! Lanes must follow the last dimension of the output, as stores of neighbours do, while loads are neighbours along an
//! outer one. So a square is loaded along the outer dimension, a vector for each index of the last, and its rows become
//! columns by shuffles ([`crate::transpose`]).

use crate::lower::Item;
use crate::slp::Packer;
use crate::tile::{Tiler, depends, replace};
use crate::transpose::transpose;
use ir::index::Linear;
use ir::{Graph, Id};

/// The statements of a map that is exchanged in squares, if its loads are neighbours along an outer dimension.
pub(crate) fn squares(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let n = t.lanes();
    let (&last, outer) = item.dims.split_last()?;
    let length = g.as_int(g.src(last)[0]).filter(|e| n >= 4 && e % n == 0)?;
    let index = Linear::of(g, item.index);
    let affine = index.coefficient(last) == 1 && !index.terms.iter().any(|i| i.0 != last && depends(g, i.0, last));
    if !affine || g.dtype(item.value).bytes() != 4 {
        return None;
    }
    let (position, along) = outer.iter().enumerate().rev().find_map(|(position, &d)| {
        let extent = g.as_int(g.src(d)[0]).filter(|e| e % n == 0 && depends(g, item.value, d))?;
        let along = t.counted(g, extent / n);
        row(t, g, item, (last, None), (d, along)).map(|_| (position, along))
    })?;
    let across = t.counted(g, length / n);
    let d = outer[position];
    let rows: Option<Vec<Id>> = (0..n).map(|i| row(t, g, item, (last, Some((across, i))), (d, along))).collect();
    let columns = transpose(g, &rows?, 1, n as usize);
    let width = g.int(n);
    let at = g.mul(across, width);
    let start = replace(g, item.index, last, at);
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

/// The values at one index of the last dimension (of any, if none is given), a vector along an outer one.
fn row(
    t: &mut Tiler,
    g: &mut Graph,
    item: &Item,
    (last, at): (Id, Option<(Id, i64)>),
    (d, along): (Id, Id),
) -> Option<Id> {
    let n = t.lanes();
    let value = match at {
        None => item.value,
        Some((across, i)) => {
            let (width, i) = (g.int(n), g.int(i));
            let at = g.mul(across, width);
            let at = g.add(at, i);
            replace(g, item.value, last, at)
        }
    };
    let lanes = t.copies(g, value, d, along, n);
    let mut packer = Packer::default();
    packer.pack_vector(g, &lanes).filter(|_| packer.gathered == 0)
}

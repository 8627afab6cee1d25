//! Codes that several sums read are converted once.
//!
//! In a sum of products some factors may not move along a dimension of the
//! output: the rows of a cache, which all heads read. Where such factors are
//! codes times scales, each sum would convert them anew; here their product is
//! written to scratch before, as floats. Packed weights have paths of their own.

use crate::cpu::vectors::Tiler;
use crate::kernel::expression::{collect_loads, combined, depends, terms};
use crate::lower::Item;
use ir::index::flatten;
use ir::{BinOp, DType, Graph, Id, Op};
use rustc_hash::FxHashMap;

/// Sums that must read a product for it to be kept.
const READERS: i64 = 4;

/// Elements that are kept at most: 256 KiB, a part of a near cache.
const MOST: i64 = 1 << 16;

/// Statements that write the product that sums share, and the item that reads it; `None` if there is nothing to share.
pub(crate) fn converted_once(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<(Vec<Id>, Item)> {
    let Op::Reduce(..) = g.op(item.value) else { return None };
    let source = g.src(item.value).to_vec();
    let (body, sums) = (source[0], &source[1..]);
    let mut factors = vec![];
    terms(g, BinOp::Mul, body, &mut factors);
    let converted = factors.iter().copied().find(|&f| converts_codes(g, f))?;
    let readers = |g: &Graph, d: Id| if depends(g, converted, d) { None } else { g.as_int(g.src(d)[0]) };
    let along = item.dims.iter().copied().max_by_key(|&d| readers(g, d))?;
    if readers(g, along)? < READERS {
        return None;
    }
    let (own, shared): (Vec<Id>, Vec<Id>) = factors.iter().partition(|&&f| depends(g, f, along));
    if own.is_empty() || shared.len() < 2 {
        return None;
    }
    let value = combined(g, BinOp::Mul, &shared)?;
    let dims: Vec<Id> = item.dims.iter().chain(sums).copied().filter(|&d| depends(g, value, d)).collect();
    let extents = dims.iter().map(|&d| g.as_int(g.src(d)[0])).collect::<Option<Vec<i64>>>()?;
    let len = extents.iter().try_fold(1i64, |n, &e| n.checked_mul(e)).filter(|&n| n <= MOST)?;
    let buffer = t.stash(g, DType::F32, len as usize);
    // Lanes lie along whichever dimension has neighbours in memory.
    let (write, index) = (0..dims.len()).rev().find_map(|innermost| {
        let mut dims = dims.clone();
        let last = dims.remove(innermost);
        dims.push(last);
        let shape: Vec<Id> = dims.iter().map(|&d| g.src(d)[0]).collect();
        let fresh: Vec<Id> = shape.iter().map(|&n| t.range(g, n)).collect();
        let index = flatten(g, &shape, &fresh);
        let mut renamed: FxHashMap<Id, Id> = dims.iter().copied().zip(fresh.iter().copied()).collect();
        let value = g.substitute(value, &mut renamed);
        let write = t.vector_map(g, &Item { dims: fresh, value, buffer, index })?;
        Some((write, flatten(g, &shape, &dims)))
    })?;
    let read = g.load(buffer, index, 1);
    let body = own.iter().fold(read, |product, &f| g.mul(f, product));
    let (op, ty) = (g.op(item.value).clone(), g.ty(item.value));
    let value = g.make(op, ty, vec![], [&[body], sums].concat());
    Some((write, Item { value, ..item.clone() }))
}

/// Whether an expression converts 8-bit codes to floats.
fn converts_codes(g: &Graph, value: Id) -> bool {
    let mut loads = vec![];
    collect_loads(g, value, &mut loads);
    g.dtype(value) == DType::F32 && loads.iter().any(|&l| g.dtype(l) == DType::I8)
}

//! Loads as a thread of a GPU can do them: no wider than its machine has them, at a multiple of their size.
//!
//! The alignment of an address is what its index expression proves: the greatest power of two that divides every
//! coefficient. Wider loads are split, and loads of which only the first lanes are used become narrower.

use crate::kernel::expression::{collect_loads, outside};
use crate::kernel::superword::{join, splat};
use ir::index::Linear;
use ir::{Graph, Id, Op, Type};
use rustc_hash::FxHashMap;

/// `expr` with loads that are aligned, and have at most `widest` bytes.
pub fn align(g: &mut Graph, expr: Id, widest: usize) -> Id {
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    for id in g.toposort(&[expr]) {
        let src: Vec<Id> = g.src(id).iter().map(|s| map.get(s).copied().unwrap_or(*s)).collect();
        let new = match g.op(id).clone() {
            Op::Load if g.ty(id).lanes > 1 => split(g, id, widest),
            Op::Shuffle(lanes) if *g.op(g.src(id)[0]) == Op::Load => {
                narrow(g, id, &lanes, widest).unwrap_or_else(|| {
                    let src = src.clone();
                    g.with_src(id, src)
                })
            }
            _ if src == g.src(id) => id,
            _ => g.rebuild(id, src),
        };
        map.insert(id, new);
    }
    map[&expr]
}

/// Bytes that divide the address of an element, as far as its index tells.
pub fn alignment(g: &Graph, buffer: Id, index: Id) -> usize {
    let l = Linear::of(g, index);
    let all = l.terms.iter().map(|t| t.1).chain([l.constant]);
    let zeros = all.filter(|&k| k != 0).map(i64::trailing_zeros).min().unwrap_or(16);
    g.dtype(buffer).bytes() << zeros.min(16)
}

fn split(g: &mut Graph, load: Id, widest: usize) -> Id {
    let (buffer, index, ty) = (g.src(load)[0], g.src(load)[1], g.ty(load));
    let most = alignment(g, buffer, index).min(widest);
    if ty.bytes() <= most {
        return load;
    }
    let lanes = (most / ty.base.bytes()).max(1);
    let step = if g.dtype(buffer) == ty.base { lanes } else { lanes * ty.base.bytes() };
    let parts = (0..ty.lanes as usize / lanes)
        .map(|i| {
            let by = g.int((i * step) as i64);
            let at = g.add(index, by);
            g.make(Op::Load, Type::vector(ty.base, lanes), vec![], vec![buffer, at])
        })
        .collect();
    join(g, parts)
}

/// A shuffle that takes only the first lanes of a load.
fn narrow(g: &mut Graph, shuffle: Id, lanes: &[u16], widest: usize) -> Option<Id> {
    let load = g.src(shuffle)[0];
    let (src, ty) = (g.src(load).to_vec(), g.ty(load));
    let need = (lanes.iter().max().copied().unwrap_or(0) + 1).next_power_of_two();
    let few = if need < ty.lanes { g.make(Op::Load, Type::vector(ty.base, need.into()), vec![], src) } else { load };
    if need == 1 {
        return Some(splat(g, few, lanes.len()));
    }
    let few = split(g, few, widest);
    Some(g.with_src(shuffle, vec![few]))
}

/// The widest load of an expression that is not scratch, in bytes; and whether some load is of a single byte.
pub fn widths(g: &Graph, expr: Id) -> (usize, bool) {
    let mut loads = vec![];
    collect_loads(g, expr, &mut loads);
    let bytes: Vec<usize> = loads.iter().filter(|&&l| outside(g, l)).map(|&l| g.ty(l).bytes()).collect();
    (bytes.iter().copied().max().unwrap_or(0), bytes.contains(&1))
}

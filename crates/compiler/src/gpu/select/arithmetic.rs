//! Products, and operations of one element or of each lane.

use super::inst::Inst;
use ir::{Axis, BinOp, DType, Graph, Id, Op, index};
use rustc_hash::FxHashMap;

/// Products of bytes from nothing on that become floats: no conversion is needed.
pub(super) fn product_as_float(g: &mut Graph, id: Id) -> Option<Inst> {
    let product = g.src(id).first().copied().filter(|_| *g.op(id) == Op::Cast && g.dtype(id) == DType::F32)?;
    let (Op::WarpProduct, &[sums, rows, columns]) = (g.op(product), g.src(product)) else { return None };
    let none = matches!(g.op(sums), Op::Lanes(all) if all.iter().all(|c| c.as_int() == 0));
    (none && g.dtype(product) == DType::I32).then_some(Inst::ProductAsFloat { rows, columns })
}

/// A product of matrices with many columns that lie in shared memory as four warps read them together.
pub(super) fn group_product(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::WarpProduct, &[_, rows, columns]) = (g.op(id), g.src(id)) else { return None };
    let beside = g.ty(id).lanes / 4;
    if *g.op(columns) != Op::Join || g.dtype(rows) != DType::BF16 || !matches!(beside, 2 | 4 | 8 | 16) {
        return None;
    }
    let parts: Vec<(Id, Id)> =
        g.src(columns).to_vec().into_iter().map(|part| shared_row(g, part)).collect::<Option<_>>()?;
    let (buffer, first) = *parts.first()?;
    let lane = g.toposort(&[first]).into_iter().find(|&r| matches!(g.op(r), Op::Range(_, Axis::Lane)))?;
    let of_lane = |g: &mut Graph, index: Id, lanes: i64| {
        let number = g.int(lanes);
        let mut names = FxHashMap::from_iter([(lane, number)]);
        g.substitute(index, &mut names)
    };
    let at = of_lane(g, first, 0);
    let distance = |g: &mut Graph, index: Id| {
        let distance = g.binary(BinOp::Sub, index, at);
        g.as_int(distance)
    };
    let next = of_lane(g, first, 8);
    let apart = distance(g, next)?;
    for (j, &(of, index)) in parts.iter().enumerate() {
        for lanes in 0..16 {
            let here = of_lane(g, index, lanes);
            let expected = (j as i64 * 8 + lanes % 8) * 8 + lanes / 8 * apart;
            if of != buffer || distance(g, here) != Some(expected) {
                return None;
            }
        }
    }
    Some(Inst::GroupProduct { buffer, at, apart })
}

/// Where a fragment of two matrices is loaded from.
fn shared_row(g: &Graph, fragment: Id) -> Option<(Id, Id)> {
    let load = g.src(fragment).first().copied()?;
    let two = *g.op(fragment) == Op::Fragment { transposed: false } && g.ty(fragment).lanes == 4;
    (two && *g.op(load) == Op::Load).then(|| (g.src(load)[0], g.src(load)[1]))
}

/// A product of matrices that a warp holds.
pub(super) fn product(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::WarpProduct).then_some(Inst::Product)
}

/// Four products of bytes.
pub(super) fn dot4(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::Dot4).then_some(Inst::Dot4)
}

/// Whether an index fits 32 bits.
pub(crate) fn is_narrow(g: &mut Graph, id: Id) -> bool {
    let (lo, hi) = index::bounds(g, id);
    lo >= i64::from(i32::MIN) && hi <= i64::from(i32::MAX)
}

/// What is done to each lane alone. An index has 64 bits only if its bounds need them.
pub(crate) fn elementwise(g: &mut Graph, id: Id) -> Option<Inst> {
    let n = g.node(id).clone();
    if !matches!(n.op, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast) {
        return None;
    }
    if n.ty.lanes > 1 {
        return Some(Inst::Elementwise { wide: false, natural: false });
    }
    // Of two ends one may be wide where the result is not.
    let ends = matches!(n.op, Op::Binary(BinOp::Min | BinOp::Max));
    let mut fits = || is_narrow(g, id) && (!ends || n.src.iter().all(|&s| is_narrow(g, s)));
    let wide = n.ty.base == DType::Index && !fits();
    let natural = n.ty.base.is_int() && index::bounds(g, n.src[0]).0 >= 0;
    Some(Inst::Elementwise { wide, natural })
}

//! Packed integer dots: a step of a lane is the widest load of codes.
//!
//! The pattern is that of the CPU ([`crate::cpu::dot`]). A step covers as many groups as fill the widest load of weights; its
//! codes and inputs are packed to vectors in the order in which their bits lie, multiplied by fours, summed as integers
//! within each group, and scaled by the factor of the group.

use crate::gpu::align::{align, widths};
use crate::gpu::reduce::{Steps, across_lanes};
use crate::gpu::threads::Tiler;
use crate::kernel::dot_pattern::{Pattern, matches};
use crate::kernel::expression::{combined, replace, zero};
use crate::kernel::lane_order::lane_order;
use crate::kernel::superword::{Packer, join};
use crate::lower::Item;
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, Type};
use rustc_hash::FxHashMap;

/// Elements that a step may have, the best first.
const STEPS: [i64; 5] = [32, 64, 128, 16, 4];

/// Statements of an item that is an integer dot, if it is one.
pub(super) fn integer_dot(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let p = matches(g, item.value)?;
    let total = g.as_int(g.src(p.group)[0])?;
    let width = g.as_int(g.src(p.element)[0])?;
    if width % 4 != 0 {
        return None;
    }
    let most = t.target.plan.widest;
    let mut best: Option<(usize, Steps)> = None;
    for elements in STEPS.iter().map(|&e| if e < width { width } else { e }) {
        if elements % width != 0 || total % (elements / width) != 0 {
            continue;
        }
        let groups = elements / width;
        let step = t.counted(g, total / groups);
        let Some((value, bytes)) = step_value(g, &p, step, (groups, width), most) else { continue };
        if best.as_ref().is_none_or(|b| b.0 < bytes) {
            best = Some((bytes, Steps { step, count: total / groups, value, op: ReduceOp::Sum }));
        }
        if bytes == most {
            break;
        }
    }
    let (_, steps) = best?;
    Some(across_lanes(t, g, item, &steps, false))
}

/// What a step of so many groups of this width adds, with a lane for each group; and the widest load of its codes.
fn step_value(g: &mut Graph, p: &Pattern, step: Id, (groups, width): (i64, i64), most: usize) -> Option<(Id, usize)> {
    let group_at = |g: &mut Graph, i: i64| {
        let (k, i) = (g.int(groups), g.int(i));
        let at = g.mul(step, k);
        g.add(at, i)
    };
    let (mut codes, mut xs) = (vec![], vec![]);
    for u in 0..groups * width {
        let (at, e) = (group_at(g, u / width), g.int(u % width));
        let mut m: FxHashMap<Id, Id> = FxHashMap::from_iter([(p.group, at), (p.element, e)]);
        codes.push(g.substitute(p.code, &mut m));
        xs.push(g.substitute(p.x, &mut m));
    }
    let bytes = [16, 8, 4].into_iter().find(|b| codes.len() % b == 0)?;
    let mut packer = Packer::shifting();
    let mut sums: Vec<Vec<Id>> = vec![vec![]; groups as usize];
    // Dots of whole vectors, by the group that they belong to.
    let mut whole: FxHashMap<usize, Id> = FxHashMap::default();
    let ity = Type::vector(DType::I32, bytes / 4);
    let mut widest = 0;
    let order = lane_order(g, &codes, bytes).unwrap_or_else(|| (0..codes.len()).collect());
    for chunk in order.chunks(bytes) {
        let of: Vec<usize> = chunk.chunks(4).map(|quad| quad[0] / width as usize).collect();
        if chunk.chunks(4).zip(&of).any(|(quad, &n)| quad.iter().any(|&u| u / width as usize != n)) {
            return None;
        }
        let lanes: Vec<Id> = chunk.iter().map(|&u| codes[u]).collect();
        let code = packer.pack_vector(g, &lanes)?;
        let lanes: Vec<Id> = chunk.iter().map(|&u| xs[u]).collect();
        let x = packer.pack_vector(g, &lanes)?;
        let (code, x) = (align(g, code, most), align(g, x, most));
        widest = widest.max(widths(g, code).0);
        let one = of.iter().all(|&n| n == of[0]);
        let none = zero(g, ity);
        let start = if one { whole.get(&of[0]).copied().unwrap_or(none) } else { none };
        let dots = g.make(Op::Dot4, ity, vec![], vec![start, code, x]);
        if one {
            whole.insert(of[0], dots);
        } else {
            for (lane, &n) in of.iter().enumerate() {
                let each = g.make(Op::Extract(lane as u16), DType::I32, vec![], vec![dots]);
                sums[n].push(each);
            }
        }
    }
    if packer.gathered > 0 {
        return None;
    }
    let mut each = vec![];
    for (n, mut parts) in sums.into_iter().enumerate() {
        if let Some(&dots) = whole.get(&n) {
            let one = ity.lanes == 1;
            parts.push(if one { dots } else { g.make(Op::Across(ReduceOp::Sum), DType::I32, vec![], vec![dots]) });
        }
        let sum = parts.into_iter().reduce(|a, b| g.add(a, b))?;
        each.push(g.cast(sum, DType::F32));
    }
    let mut value = vector(g, each);
    let by_group = |g: &mut Graph, e: Id| {
        let lanes: Vec<Id> = (0..groups)
            .map(|i| {
                let at = group_at(g, i);
                replace(g, e, p.group, at)
            })
            .collect();
        let mut packer = Packer::shifting();
        let packed = packer.pack_vector(g, &lanes).filter(|_| packer.gathered == 0);
        let packed = packed.unwrap_or_else(|| vector(g, lanes));
        align(g, packed, most)
    };
    if let Some(f) = combined(g, BinOp::Mul, &p.factors) {
        let f = by_group(g, f);
        value = g.mul(value, f);
    }
    if let Some(r) = combined(g, BinOp::Add, &p.rests) {
        let r = by_group(g, r);
        value = g.add(value, r);
    }
    Some((value, widest))
}

fn vector(g: &mut Graph, lanes: Vec<Id>) -> Id {
    if lanes.len() == 1 { lanes[0] } else { join(g, lanes) }
}

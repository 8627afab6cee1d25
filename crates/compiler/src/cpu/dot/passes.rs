//! The loop over groups: a pass covers a few of them, their codes in byte lanes and their factors in one vector.

use crate::cpu::dot::interleave;
use crate::cpu::dot::packed_dots::PackedStep;
use crate::cpu::dot::packed_scales;
use crate::cpu::vectors::Tiler;
use crate::kernel::dot_pattern::Pattern;
use crate::kernel::expression::{combined, replace};
use crate::kernel::lane_order::lane_order;
use crate::kernel::superword::{Packer, of_two, splat};
use ir::{BinOp, Graph, Id, Op, Type};

/// Vector code of one pass over a stretch.
pub(super) struct Pass {
    pub(super) range: Id,
    pub(super) passes: i64,
    pub(super) steps: Vec<PackedStep>,
    pub(super) bytes: usize,
    pub(super) factor: Option<Id>,
    pub(super) rest: Option<Id>,
    pub(super) groups: i64,
}

/// One stretch of the groups, a few of them in each pass.
struct Segment {
    first: i64,
    passes: i64,
    groups: i64,
    /// It takes one pass of this many.
    every: i64,
}

fn segments(total: i64, widest: i64) -> Vec<Segment> {
    let mut out = vec![];
    let (mut at, mut n) = (0, widest);
    while at < total {
        let passes = (total - at) / n;
        if passes > 0 {
            out.push(Segment { first: at, passes, groups: n, every: 1 });
            at += passes * n;
        }
        n /= 2;
    }
    out
}

/// The passes that cover `total` groups of `width` elements; `None` where codes do not lie in memory in an order that fills
/// vectors.
pub(super) fn passes(t: &mut Tiler, g: &mut Graph, p: &Pattern, total: i64, width: i64) -> Option<Vec<Pass>> {
    let mut passes = vec![];
    for s in segments(total, t.lanes()) {
        // Blocks that are longer than a pass repeat their layout only after a few.
        let all = (1..=8).filter(|k| s.passes % k == 0).find_map(|every| {
            let one = |turn: i64| Segment {
                first: s.first + turn * s.groups,
                passes: s.passes / every,
                groups: s.groups,
                every,
            };
            (0..every).map(|turn| pass(t, g, p, &one(turn), width)).collect::<Option<Vec<Pass>>>()
        });
        passes.extend(all?);
    }
    Some(passes)
}

/// Lane `i` of the result is the factor of group `map[i]`.
pub(super) fn spread(g: &mut Graph, f: Id, map: &[u16]) -> Id {
    let ty = g.ty(f);
    if ty.lanes == 1 {
        return splat(g, f, map.len());
    }
    if map.len() == ty.lanes as usize && map.iter().enumerate().all(|(i, &m)| i == m as usize) {
        return f;
    }
    g.make(Op::Shuffle(map.to_vec()), Type::vector(ty.base, map.len()), vec![], vec![f])
}

/// Pairs of code and value vectors of `bytes` lanes, with the group of each i32
/// lane.
fn byte_lanes(
    g: &mut Graph,
    codes: &[Id],
    xs: &[Id],
    bytes: usize,
    width: i64,
    packer: &mut Packer,
) -> Option<Vec<PackedStep>> {
    let order = lane_order(g, codes, bytes).unwrap_or_else(|| (0..codes.len()).collect());
    let mut steps = vec![];
    for chunk in order.chunks(bytes) {
        let mut map = vec![];
        for quad in chunk.chunks(4) {
            let group = quad[0] as i64 / width;
            if quad.iter().any(|&u| u as i64 / width != group) {
                return None;
            }
            map.push(group as u16);
        }
        let c: Vec<Id> = chunk.iter().map(|&u| codes[u]).collect();
        let x = values(g, xs, chunk, packer)?;
        steps.push((packer.pack_vector(g, &c)?, x, map));
    }
    Some(steps)
}

/// The values with these numbers as a vector. Those of codes that share a byte with their neighbours are two, four or eight
/// apart: lanes of as many vectors of neighbours.
fn values(g: &mut Graph, xs: &[Id], numbers: &[usize], packer: &mut Packer) -> Option<Id> {
    let (apart, lanes) = (numbers[1].abs_diff(numbers[0]), numbers.len());
    let from = numbers[0] % (apart * lanes);
    if ![2, 4, 8].contains(&apart) || from >= apart || numbers.windows(2).any(|two| two[0] + apart != two[1]) {
        let x: Vec<Id> = numbers.iter().map(|&u| xs[u]).collect();
        return packer.pack_vector(g, &x);
    }
    let near = xs[numbers[0] - from..].chunks(lanes).take(apart);
    let near = near.map(|x| packer.pack_vector(g, x)).collect::<Option<_>>()?;
    Some(every(g, near, from))
}

/// Every lane of number `from`, modulo how many these vectors are, of all of them after each other: half of the lanes at
/// a time.
fn every(g: &mut Graph, vectors: Vec<Id>, from: usize) -> Id {
    if let [one] = vectors[..] {
        return one;
    }
    let lanes: Vec<u16> = (from as u16 % 2..2 * g.ty(vectors[0]).lanes).step_by(2).collect();
    let half = vectors.chunks(2).map(|two| of_two(g, two[0], two[1], lanes.clone())).collect();
    every(g, half, from / 2)
}

fn pass(t: &mut Tiler, g: &mut Graph, p: &Pattern, s: &Segment, width: i64) -> Option<Pass> {
    let range = t.counted(g, s.passes);
    let group_at = |g: &mut Graph, i: i64| {
        let (k, c) = (g.int(s.groups * s.every), g.int(s.first + i));
        let at = g.mul(range, k);
        g.add(at, c)
    };
    let elements: Vec<Id> = (0..width).map(|e| g.int(e)).collect();
    let (mut codes, mut xs) = (vec![], vec![]);
    for i in 0..s.groups {
        let at = group_at(g, i);
        for (all, e) in [(&mut codes, p.code), (&mut xs, p.x)] {
            let of_group = replace(g, e, p.group, at);
            all.extend(g.substitute_each(of_group, p.element, &elements));
        }
    }
    let most = (s.groups * width).min(t.target.vector_bytes as i64) as usize;
    // The widest vectors whose lanes take the same bits of their bytes.
    let (bytes, steps) = [most, most / 2, most / 4]
        .into_iter()
        .filter(|&b| b >= 16 && b.is_power_of_two() && codes.len() % b == 0)
        .find_map(|bytes| {
            let mut fresh = Packer::default();
            let steps = byte_lanes(g, &codes, &xs, bytes, width, &mut fresh)?;
            (fresh.gathered == 0).then_some((bytes, steps))
        })?;
    let steps = if t.target.interleave && !t.target.pairs { interleave::exchanged(g, steps) } else { steps };
    let by_group = |g: &mut Graph, e: Option<Id>| -> Vec<Id> {
        let Some(e) = e else { return vec![] };
        let lane = |i| {
            let at = group_at(g, i);
            replace(g, e, p.group, at)
        };
        (0..s.groups).map(lane).collect()
    };
    let (factor, rest) = (combined(g, BinOp::Mul, &p.factors), combined(g, BinOp::Add, &p.rests));
    let (factor, rest) = (by_group(g, factor), by_group(g, rest));
    let mut packer = Packer::with_windows(if t.target.blends && t.target.vector_bytes == 64 { 64 } else { 0 });
    let lists: Vec<&[Id]> = [&factor[..], &rest[..]].into_iter().filter(|lanes| !lanes.is_empty()).collect();
    if t.target.packed_scales {
        packed_scales::words(g, &lists, t.target.vector_bytes).into_iter().for_each(|(lanes, v)| packer.know(lanes, v));
    }
    let mut packed = |g: &mut Graph, lanes: &[Id]| match lanes {
        [] => Some(None),
        lanes => packer.pack_vector(g, lanes).map(Some),
    };
    let (factor, rest) = (packed(g, &factor)?, packed(g, &rest)?);
    Some(Pass { range, passes: s.passes, steps, bytes, factor, rest, groups: s.groups })
}

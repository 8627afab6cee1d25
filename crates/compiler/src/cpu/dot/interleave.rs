//! Dots of two vectors of codes in the lanes of one.
//!
//! A vector of codes holds a few groups, each in lanes of its own, and each vector of dots is converted and scaled by
//! the factors of its groups. Where two vectors exchange halves of their groups, both hold half of all these groups, in the
//! same lanes: their dots sum up as integers, and there is one conversion and one product for two. The exchange is a
//! shuffle of bytes as they are loaded, before bits are taken apart, so it serves all codes that share these bytes.

use crate::cpu::dot::packed_dots::PackedStep;
use crate::kernel::superword::of_two;
use ir::{Graph, Id, Op};
use rustc_hash::FxHashSet;

/// Shuffles that a pair may take; it saves a conversion, a shuffle of factors and a multiply-add.
const MOST: usize = 2;

/// The steps, two by two with halves exchanged where that is less work. Lanes of groups lie beside each other.
pub(crate) fn exchanged(g: &mut Graph, steps: Vec<PackedStep>) -> Vec<PackedStep> {
    let own = |step: &PackedStep| steps.iter().filter(|other| other.2 == step.2).count() == 1;
    if steps.len() < 2 || !steps.len().is_multiple_of(2) || !steps.iter().all(own) {
        return steps;
    }
    let (mut out, mut shuffles) = (vec![], FxHashSet::default());
    for two in steps.chunks(2) {
        let Some(lanes) = halves(&two[0].2, &two[1].2) else { return steps };
        let both = [two[0].2.as_slice(), &two[1].2].concat();
        for lanes in lanes {
            let bytes: Vec<u16> = lanes.iter().flat_map(|lane| 4 * lane..4 * lane + 4).collect();
            let code = below(g, two[0].0, two[1].0, &bytes, &mut shuffles);
            let value = shuffled(g, two[0].1, two[1].1, &bytes);
            out.push((code, value, lanes.iter().map(|&lane| both[usize::from(lane)]).collect()));
        }
    }
    if shuffles.len() <= MOST * steps.len() / 2 { out } else { steps }
}

/// The first and the second halves of the lanes of each group, in lanes of two vectors after each other.
fn halves(a: &[u16], b: &[u16]) -> Option<[Vec<u16>; 2]> {
    let run = a.iter().take_while(|&group| *group == a[0]).count();
    let whole =
        |map: &[u16]| map.len().is_multiple_of(run) && map.chunks(run).all(|c| c.iter().all(|group| *group == c[0]));
    let apart = a.len() == b.len() && a.iter().all(|group| !b.contains(group));
    if !apart || run < 4 || run % 2 != 0 || !whole(a) || !whole(b) {
        return None;
    }
    let firsts = (0..2 * a.len() as u16).step_by(run);
    let half = |at: u16| firsts.clone().flat_map(|first| first + at..first + at + run as u16 / 2).collect();
    Some([half(0), half(run as u16 / 2)])
}

/// These lanes of `a` and then `b`, as an expression of shuffled loads where both are the same of other loads.
fn below(g: &mut Graph, a: Id, b: Id, lanes: &[u16], shuffles: &mut FxHashSet<Id>) -> Id {
    let (x, y) = (g.node(a).clone(), g.node(b).clone());
    if let (Op::Lanes(x), Op::Lanes(y)) = (&x.op, &y.op) {
        let both = [x.as_slice(), y].concat();
        let values = lanes.iter().map(|&lane| both[usize::from(lane)]).collect();
        return g.make(Op::Lanes(values), g.ty(a), vec![], vec![]);
    }
    let alike = x.op == y.op && x.ty == y.ty && x.src.len() == y.src.len();
    let by_lanes = matches!(x.op, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast);
    let wide = |g: &Graph, id: &Id| usize::from(g.ty(*id).lanes) == lanes.len();
    if alike && by_lanes && x.src.iter().chain(&y.src).all(|s| wide(g, s)) {
        let src = x.src.iter().zip(&y.src).map(|(&x, &y)| below(g, x, y, lanes, shuffles)).collect();
        return g.make(x.op, x.ty, vec![], src);
    }
    if alike && x.op == Op::Lookup && x.src[0] == y.src[0] {
        let at = below(g, x.src[1], y.src[1], lanes, shuffles);
        return g.make(x.op, x.ty, vec![], vec![x.src[0], at]);
    }
    let v = shuffled(g, a, b, lanes);
    shuffles.insert(v);
    v
}

/// These lanes of `a` and then `b`.
fn shuffled(g: &mut Graph, a: Id, b: Id, lanes: &[u16]) -> Id {
    if a != b {
        return of_two(g, a, b, lanes.to_vec());
    }
    let ty = g.ty(a);
    let map = lanes.iter().map(|lane| lane % ty.lanes).collect();
    g.make(Op::Shuffle(map), ty, vec![], vec![a])
}

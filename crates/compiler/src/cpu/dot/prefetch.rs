//! Asking for weights ahead of their use.
//!
//! Weights stream past once, so every line is asked for twice: 9216 bytes ahead into the second cache, which takes many
//! requests at a time, and 2304 bytes ahead into the first, which takes few. The lines of a pass are those from the first
//! to the last byte that any of its loads touches. With one in nine left out, a kernel of Q4_K that asks for the second
//! cache alone reads 18 instead of 29 GB/s.

use ir::index::Linear;
use ir::{DType, Graph, Id, Op};

/// Bytes of a cache line.
const LINE: i64 = 64;

/// Asks for every line that the loads will touch, for each cache that is `asked`: into the one of this level, so many bytes
/// ahead. `range` counts the rounds of the loop around them.
pub(super) fn prefetches(g: &mut Graph, loads: &[Id], range: Id, asked: &[(u8, i64)]) -> Vec<Id> {
    let Some(&first) = loads.first() else { return vec![] };
    let buffer = g.src(first)[0];
    let base = Linear::of(g, g.src(first)[1]);
    // From the first to the last byte of each: where rows begin within a line, what is left out would be missed.
    let mut lines: Vec<i64> = vec![];
    let mut end = i64::MIN;
    for &load in loads.iter().filter(|&&l| g.src(l)[0] == buffer) {
        let at = Linear::of(g, g.src(load)[1]);
        if at.terms == base.terms {
            let last = at.constant + g.ty(load).bytes() as i64 - 1;
            lines.extend((at.constant.div_euclid(LINE)..=last.div_euclid(LINE)).map(|line| line * LINE));
            end = end.max(last);
        }
    }
    lines.sort_unstable();
    lines.dedup();
    // The last byte lies in a line after these, unless the next round begins before that.
    if lines[0] + base.coefficient(range) > lines[lines.len() - 1] + LINE {
        lines.push(end);
    }
    let all = asked.iter().flat_map(|&(level, ahead)| lines.iter().map(move |line| (level, line + ahead)));
    all.map(|(level, constant)| {
        let at = Linear { terms: base.terms.clone(), constant }.build(g);
        g.make(Op::Prefetch(level), DType::Index, vec![], vec![buffer, at])
    })
    .collect()
}

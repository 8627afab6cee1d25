//! Weights are asked for ahead of their use, all of them.

use crate::support::{Case, Random, programs};
use compiler::Options;
use compiler::{Compiled, Numerics};
use ir::index::Linear;
use ir::{Id, Op};
use std::collections::BTreeMap;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// Of each loop that asks for lines: how far it moves in a round, and where the lines lie, by the level of the cache.
fn asked(c: &Compiled) -> Vec<(i64, BTreeMap<u8, Vec<i64>>)> {
    let g = &c.graph;
    let mut found = vec![];
    for root in c.bodies.iter().map(|body| body.root) {
        for id in g.toposort(&[root]).into_iter().filter(|id| *g.op(*id) == Op::Loop) {
            let (range, body) = g.src(id).split_first().expect("a range");
            let mut lines: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
            let mut stride = 0;
            for &at in body {
                let Op::Prefetch(level) = *g.op(at) else { continue };
                let index: Id = g.src(at)[1];
                let index = Linear::of(g, index);
                stride = index.coefficient(*range);
                lines.entry(level).or_default().push(index.constant);
            }
            if !lines.is_empty() && g.as_int(g.src(*range)[0]) != Some(1) {
                found.push((stride, lines));
            }
        }
    }
    found
}

#[test]
fn no_line_of_a_row_is_left_out() {
    for format in gguf::format::rows().iter().filter(|f| f.as_blocks().is_some()) {
        for vector_bytes in [16, 32, 64] {
            let mut case = Case::default();
            let mut random = Random(3);
            let x = programs::input(&mut case, "x", 1, 2048, &mut random);
            let w = programs::weights(&mut case, "w", format, &[256, 2048], &mut random);
            case.output("y", &x.silu().linear(&w));
            let options = Options::cpu(Numerics::Int8, vector_bytes);
            let c = case.compile(&options).expect("a program");
            let name = format!("{}, {vector_bytes} bytes", format.name);
            let loops = asked(&c);
            // Bytes at the end of a block that no product reads: sums of its codes.
            let unread = if format.name == "Q8_K" { 32 } else { 0 };
            // Passes of fewer than 128 elements ask for nothing: four groups of 16 in the narrowest vectors.
            assert!(!loops.is_empty() || vector_bytes == 16, "{name}: nothing is asked for");
            for (stride, mut levels) in loops {
                assert_eq!(levels.keys().copied().collect::<Vec<_>>(), [1, 2], "{name}: both caches");
                for (level, lines) in &mut levels {
                    lines.sort_unstable();
                    // The next round begins after the last byte of this, which may be one that nothing reads.
                    let (first, last) = (lines[0], lines[lines.len() - 1]);
                    assert!(
                        last + LINE + unread >= first + stride,
                        "{name}: {lines:?} of {stride} bytes, cache {level}"
                    );
                    let gaps = lines.windows(2).map(|two| two[1] - two[0]);
                    assert!(gaps.clone().all(|gap| gap <= LINE), "{name}: {lines:?} of cache {level}");
                }
            }
        }
    }
}

//! Random tensor graphs, compiled and run through the kernel interpreter,
//! against the definition of each operation.

use crate::support::graphs::{MOST, graph, seeds, show, targets};
use crate::support::nmse;
use compiler::Options;
use ir::{BinOp, Graph, Id, Op, ReduceOp, UnOp};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Graphs that a run tries.
const CASES: u64 = 200;

/// NMSE of one kernel per operation against fused kernels.
const FUSED: f64 = 1e-12;

/// Kinds of operations that graphs have to hold; the first [`ALWAYS`] of them in every run.
const KINDS: [&str; 16] = [
    "elementwise",
    "permute",
    "reshape",
    "expand",
    "slice",
    "sum",
    "max",
    "softmax",
    "top-k",
    "comparison",
    "scan",
    "recurrence",
    "fold",
    "concat",
    "gather",
    "scatter",
];

const ALWAYS: usize = 13;

/// Fewer graphs with a kind of operation are too few.
const RARE: usize = 8;

/// The kind of an operation, if it is counted.
fn kind(g: &Graph, id: Id) -> Option<&'static str> {
    Some(match g.op(id) {
        // Of a difference from the largest.
        Op::Unary(UnOp::Exp) if *g.op(g.src(id)[0]) == Op::Binary(BinOp::Sub) => "softmax",
        Op::Where => "comparison",
        Op::Unary(_) | Op::Binary(_) | Op::Cast => "elementwise",
        Op::Reshape => "reshape",
        Op::Permute(_) => "permute",
        Op::Expand => "expand",
        Op::Slice { .. } => "slice",
        Op::Concat(_) => "concat",
        Op::Reduce(ReduceOp::Sum, _) => "sum",
        Op::Reduce(ReduceOp::Max, _) => "max",
        Op::Gather => "gather",
        Op::Scatter => "scatter",
        Op::TopK(_) => "top-k",
        Op::Scan(_) => "scan",
        Op::Recur { .. } => "recurrence",
        Op::Fold { .. } => "fold",
        _ => return None,
    })
}

fn message(e: Box<dyn std::any::Any + Send>) -> String {
    let text = e.downcast_ref::<String>().cloned().or(e.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("panicked: {}", text.unwrap_or_default())
}

/// What is wrong with the graph of a seed, or the kinds of its operations.
fn problem(seed: u64, all: bool) -> Result<BTreeSet<&'static str>, String> {
    let case = catch_unwind(|| graph(seed, all)).map_err(message);
    let case = case.map_err(|e| format!("building: {e}"))?;
    let run = || {
        let mut kinds = BTreeSet::new();
        let mut fused: Option<Vec<Vec<f32>>> = None;
        let same = |first: &Vec<Vec<f32>>, values: &[Vec<f32>]| {
            let worst = first.iter().zip(values).map(|(a, b)| nmse(a, b)).find(|e| *e > FUSED);
            worst.map_or(Ok(()), |e| Err(format!("another result than fused for the cpu: nmse {e:.2e}")))
        };
        let [cpu, gpu] = targets(seed);
        let unfused = Options { without: vec!["fuse".into()], ..cpu.clone() };
        for (name, options) in [("cpu", cpu), ("gpu", gpu), ("cpu without fuse", unfused)] {
            let c = case.check(&options, MOST).map_err(|e| format!("{name}: {e}"))?;
            let values = case.values(&c)?;
            same(fused.get_or_insert_with(|| values.clone()), &values).map_err(|e| format!("{name}: {e}"))?;
            let roots: Vec<_> = case.outs.iter().chain(&case.effects).map(|o| o.1.id()).collect();
            kinds.extend(c.graph.toposort(&roots).into_iter().filter_map(|id| kind(&c.graph, id)));
        }
        Ok(kinds)
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|e| Err(message(e)))
}

/// Runs all seeds, or the one in `SEED`, of which it prints the graph.
fn run(cases: u64, all: bool) {
    let seeds = seeds(cases);
    let one = seeds.len() == 1;
    if one {
        println!("{}", show(&graph(seeds[0], all), &targets(seeds[0])[0]));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut problems: Vec<(u64, String)> = vec![];
    for &seed in &seeds {
        match problem(seed, all) {
            Ok(kinds) => kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1),
            Err(e) => problems.push((seed, e)),
        }
    }
    println!("fuzzer: {} graphs; graphs with {counts:?}", seeds.len());
    let kinds = if all { &KINDS[..] } else { &KINDS[..ALWAYS] };
    let rare: Vec<&&str> = kinds.iter().filter(|kind| counts.get(**kind).is_none_or(|n| *n < RARE)).collect();
    assert!(one || !problems.is_empty() || rare.is_empty(), "fewer than {RARE} graphs with {rare:?}");
    let line = |(s, p): &(u64, String)| format!("seed {s}: {}", if one { p } else { p.lines().next().unwrap_or("") });
    let lines: Vec<String> = problems.iter().map(line).collect();
    assert!(problems.is_empty(), "{} of {} graphs failed:\n{}", lines.len(), seeds.len(), lines.join("\n"));
}

#[test]
fn random_graphs_agree_with_their_definition() {
    run(2 * CASES, false);
}

#[test]
fn random_graphs_with_concat_and_gather_agree_with_their_definition() {
    run(CASES, true);
}

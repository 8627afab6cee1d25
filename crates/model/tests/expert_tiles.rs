//! Tokens that are grouped by their experts, however their places are found: whole chunks of choices and parts of one,
//! more than one tile of an expert, and experts that nobody chose.

use crate::support::{self, cpu, synth, tokens, worst_row};
use compiler::Numerics;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::sync::Arc;

/// Lengths of steps, of two choices a token; chunks and tiles have 64.
const STEPS: [usize; 5] = [128, 32, 33, 9, 150];

/// NMSE of a row of logits: sums over experts are in another order where each token reads its own.
const MOST: f64 = 1e-10;

fn logits(file: &Arc<Gguf>, without: &[&str], in_chunks: bool) -> Vec<f32> {
    let mut compiler = support::options(Numerics::Exact);
    compiler.prices.counts_in_chunks = in_chunks;
    compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
    let options = EngineOptions { compiler, context: 384, chunk: 192, cache: CacheKind::F32 };
    let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
    let ids = tokens(STEPS.iter().sum(), engine.config().vocab as u32, 5);
    let (mut out, mut at) = (vec![], 0);
    for count in STEPS {
        out.extend_from_slice(engine.step(&ids[at..at + count], at, 0..count).expect("a step"));
        at += count;
    }
    out
}

#[test]
fn places_are_found_in_either_way() {
    let file = synth("tiny-mla-moe", "q4_0", Some(2));
    let want = logits(&file, &["by-expert"], false);
    for in_chunks in [true, false] {
        let got = logits(&file, &["slots"], in_chunks);
        let error = worst_row(&got, &want, 512);
        assert!(error <= MOST, "in chunks: {in_chunks}, NMSE {error:e}");
    }
}

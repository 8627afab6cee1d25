//! The same bits whatever the number of workers.

mod support;

use compiler::{Numerics, Options};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use support::{cpu, synth, tokens};

/// Lengths of the steps: prefill, a few tokens, decoding.
const STEPS: [usize; 6] = [40, 5, 1, 1, 1, 9];

fn logits(shape: &str, numerics: Numerics, threads: usize) -> Vec<u32> {
    let cache = CacheKind::of(numerics);
    let options = EngineOptions { compiler: Options::cpu(numerics, 64), context: 256, chunk: 64, cache };
    let mut engine = Engine::new(synth(shape, "q4_0", None), cpu(threads), options).expect("an engine");
    let ids = tokens(STEPS.iter().sum(), 512, 5);
    let mut out = vec![];
    let mut at = 0;
    for count in STEPS {
        let logits = engine.step(&ids[at..at + count], at, 0..count).expect("a step");
        out.extend(logits.iter().map(|v| v.to_bits()));
        at += count;
    }
    out
}

fn check(shape: &str) {
    for numerics in [Numerics::Exact, Numerics::Int8] {
        let one = logits(shape, numerics, 1);
        assert!(one.iter().all(|&bits| f32::from_bits(bits).is_finite()));
        for threads in [2, 3] {
            let differ = logits(shape, numerics, threads).iter().zip(&one).filter(|(a, b)| a != b).count();
            assert_eq!(differ, 0, "{shape} {numerics:?}: logits differ on {threads} workers");
        }
    }
}

#[test]
fn grouped_attention() {
    check("tiny-llama");
}

#[test]
fn latent_attention_and_experts() {
    check("tiny-mla-moe");
}

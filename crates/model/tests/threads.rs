//! The same bits whatever the number of workers.

use crate::support::{self, cpu, synth, tokens};
use compiler::Numerics;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;

/// Lengths of the steps, and what runs them.
const STEPS: [(usize, Class); 7] = [
    (128, Class::Prompt),
    (20, Class::Many),
    (5, Class::Few),
    (1, Class::One),
    (1, Class::One),
    (1, Class::One),
    (9, Class::Many),
];

fn logits(shape: &str, numerics: Numerics, cache: CacheKind, threads: usize) -> Vec<u32> {
    let options = EngineOptions { compiler: support::options(numerics), context: 256, chunk: 192, cache };
    let mut engine = Engine::new(synth(shape, "q4_0", None), cpu(threads), options).expect("an engine");
    let ids = tokens(STEPS.iter().map(|step| step.0).sum(), 512, 5);
    let mut out = vec![];
    let mut at = 0;
    for (count, class) in STEPS {
        assert_eq!(engine.class_of(count, at), class, "{shape}: {count} tokens from {at} on");
        let logits = engine.step(&ids[at..at + count], at, 0..count).expect("a step");
        out.extend(logits.iter().map(|v| v.to_bits()));
        at += count;
    }
    out
}

fn check(shape: &str) {
    let kinds =
        [(Numerics::Exact, CacheKind::F32), (Numerics::Int8, CacheKind::F16), (Numerics::Int8, CacheKind::Q8_0)];
    for (numerics, cache) in kinds {
        let one = logits(shape, numerics, cache, 1);
        assert!(one.iter().all(|&bits| f32::from_bits(bits).is_finite()));
        for threads in [2, 3] {
            let many = logits(shape, numerics, cache, threads);
            let differ = many.iter().zip(&one).filter(|(a, b)| a != b).count();
            assert_eq!(differ, 0, "{shape} {numerics:?}, cache of {cache}: logits differ on {threads} workers");
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

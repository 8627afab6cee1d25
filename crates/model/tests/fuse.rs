//! A kernel for each tensor operation computes what the fused program computes.

use crate::support::{self, cpu, synth, tokens, worst_row};
use compiler::Numerics;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use std::sync::Arc;

/// NMSE of a row of logits.
const MOST: f64 = 1e-12;

/// Lengths of the steps: of all classes, where it pays to read a prompt by runs.
const STEPS: [usize; 5] = [128, 9, 3, 1, 1];

/// Logits of all tokens, and the class and the launches of each step.
fn logits(file: &Arc<Gguf>, without: &[&str]) -> (Vec<f32>, Vec<(Class, usize)>) {
    let mut compiler = support::options(Numerics::Exact);
    compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
    let options = EngineOptions { compiler, context: 256, chunk: 192, cache: CacheKind::F32 };
    let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
    let ids = tokens(STEPS.iter().sum(), engine.config().vocab as u32, 11);
    let (mut out, mut launches, mut at) = (vec![], vec![], 0);
    for count in STEPS {
        let class = engine.class_of(count, at);
        out.extend_from_slice(engine.step(&ids[at..at + count], at, 0..count).expect("a step"));
        launches.push((class, engine.program(class).expect("it ran").0.launches()));
        at += count;
    }
    (out, launches)
}

fn check(shape: &str, quant: &str) {
    let file = synth(shape, quant, Some(2));
    let vocab = 512;
    let (fused, few) = logits(&file, &[]);
    let (unfused, many) = logits(&file, &["fuse"]);
    let error = worst_row(&unfused, &fused, vocab);
    println!("{shape} {quant}: NMSE {error:.1e} in the worst row, {few:?} and {many:?}");
    // Heads of this shape are too few for runs.
    let first = if shape == "tiny-mla-softmax" { Class::Many } else { Class::Prompt };
    let classes = [first, Class::Many, Class::Few, Class::One, Class::One];
    for ((few, many), class) in few.into_iter().zip(many).zip(classes) {
        assert!(many.0 == class && few.0 == class && many.1 > 2 * few.1, "{shape} {quant}: {few:?}, {many:?}");
    }
    assert!(error <= MOST, "{shape} {quant}: NMSE {error:e}");
}

#[test]
fn llama() {
    check("tiny-llama", "q4_0");
    check("tiny-llama", "f32");
}

#[test]
fn qwen2() {
    check("tiny-qwen2", "q8_0");
}

#[test]
fn qwen3() {
    check("tiny-qwen3", "q6_k");
}

#[test]
fn qwen3moe() {
    check("tiny-qwen3moe", "q4_0");
}

#[test]
fn glm4() {
    check("tiny-glm4", "q4_k_m");
}

#[test]
fn deepseek2() {
    check("tiny-mla-moe", "q4_0");
    check("tiny-mla-dense", "q4_k_m");
    check("tiny-mla-softmax", "q4_0");
}

//! Layers that remember: whatever steps a text comes in, and whatever lay in its place, its logits are the same.

use crate::support::served::served;
use crate::support::{self, cpu, synth, tokens, worst_row};
use compiler::Numerics;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions, Sharing};
use model::error::EngineError;
use model::scheduler;
use proptest::prelude::*;
use std::sync::Arc;

/// Shapes of each kind.
const SHAPES: [&str; 14] = [
    "tiny-lfm2",
    "tiny-mamba",
    "tiny-mamba2",
    "tiny-jamba",
    "tiny-plamo2",
    "tiny-qwen3.5",
    "tiny-qwen3-next",
    "tiny-kimi-linear",
    "tiny-bailingmoe3",
    "tiny-minimax-01",
    "tiny-rwkv6",
    "tiny-rwkv6qwen2",
    "tiny-rwkv7",
    "tiny-arwkv7",
];

/// NMSE between steps of one token and of several.
const BOUND: f64 = 1e-9;

const VOCAB: usize = 512;

fn engine(file: &Arc<Gguf>, numerics: Numerics) -> Engine {
    let cache = CacheKind::of(numerics);
    let options = EngineOptions { compiler: support::options(numerics), context: 512, chunk: 512, cache };
    Engine::new(file.clone(), cpu(2), options).expect("an engine")
}

/// Logits of a text in steps of these sizes, over and over.
fn logits(engine: &mut Engine, text: &[u32], steps: &[usize]) -> Vec<f32> {
    let (mut out, mut at) = (vec![], 0);
    for &n in steps.iter().cycle() {
        let n = n.min(text.len() - at);
        if n == 0 {
            return out;
        }
        out.extend_from_slice(engine.step(&text[at..at + n], at, 0..n).expect("a step"));
        at += n;
    }
    out
}

#[test]
fn a_text_that_is_remembered_is_not_rewound() {
    for shape in SHAPES {
        assert!(!engine(&synth(shape, "f32", None), Numerics::Exact).rewinds(), "{shape}");
    }
    assert!(engine(&synth("tiny-llama", "f32", None), Numerics::Exact).rewinds());
}

/// Steps are as long as those of other models.
#[test]
fn long_texts_agree_token_by_token() {
    for shape in SHAPES {
        let file = synth(shape, "f32", None);
        let text = tokens(300, VOCAB as u32, 3);
        let each = logits(&mut engine(&file, Numerics::Exact), &text, &[1]);
        let mut whole = engine(&file, Numerics::Exact);
        assert_eq!(whole.limits().tokens, 512);
        let whole = logits(&mut whole, &text, &[257, 43]);
        let error = worst_row(&whole, &each, VOCAB);
        println!("{shape}: NMSE {error:.1e}");
        assert!(error <= BOUND, "{shape}: NMSE {error:e}");
    }
}

#[test]
fn a_text_begins_anew_whatever_lies_in_its_place() {
    for shape in SHAPES {
        let file = synth(shape, "f32", None);
        let (text, other) = (tokens(20, VOCAB as u32, 1), tokens(33, VOCAB as u32, 2));
        let mut used = engine(&file, Numerics::Exact);
        for steps in [&[1][..], &[5], &[20]] {
            logits(&mut used, &other, &[7, 1]);
            let again = logits(&mut used, &text, steps);
            assert_eq!(
                again,
                logits(&mut engine(&file, Numerics::Exact), &text, steps),
                "{shape} in steps of {steps:?}"
            );
        }
    }
}

#[test]
fn a_text_goes_on_from_where_it_is_and_nowhere_else() {
    let file = synth("tiny-mamba2", "q8_0", None);
    let text = tokens(12, VOCAB as u32, 1);
    let mut engine = engine(&file, Numerics::Int8);
    engine.step(&text[..8], 0, 7..8).expect("a step");
    for start in [3, 9] {
        let error = engine.step(&text[start..start + 1], start, 0..1).expect_err("it is elsewhere");
        assert!(matches!(error, EngineError::Remembered { position, .. } if position == start), "{error}");
        engine.step(&text[..8], 0, 7..8).expect("it begins anew");
    }
    engine.step(&text[8..], 8, 0..1).expect("it goes on");
}

#[test]
fn a_text_goes_on_from_a_snapshot_as_if_nothing_had_been_between() {
    for shape in SHAPES {
        let file = synth(shape, "q8_0", None);
        let (text, other) = (tokens(40, VOCAB as u32, 1), tokens(40, VOCAB as u32, 2));
        let mut engine = engine(&file, Numerics::Int8);
        engine.step(&text[..30], 0, 29..30).expect("a step");
        let snapshot = engine.remember(0).expect("a device").expect("it remembers");
        assert_eq!(snapshot.position(), 30);
        let on = |engine: &mut Engine| engine.step(&text[30..], 30, 0..10).map(<[f32]>::to_vec);
        let expected = on(&mut engine).expect("a step");
        // Another text that has what the cache holds of this one, but nothing of what layers remember.
        engine.recall(0, &snapshot).expect("a device");
        engine.step(&other[..7], 30, 6..7).expect("a step");
        assert!(on(&mut engine).is_err(), "it is elsewhere");
        engine.recall(0, &snapshot).expect("a device");
        assert_eq!(on(&mut engine).expect("a step"), expected, "{shape}");
    }
    let mut engine = engine(&synth("tiny-llama", "q8_0", None), Numerics::Int8);
    engine.step(&[1, 2], 0, 1..2).expect("a step");
    assert_eq!(engine.remember(0).expect("a device"), None, "nothing is remembered");
}

#[test]
fn a_served_chat_goes_on_and_says_what_it_would_anew() {
    for shape in SHAPES {
        let file = synth(shape, "f32", None);
        // Each text with what came before it in the cache: the answer to it, and how much of it was there.
        let said = |reuse: bool, texts: &[&[u32]]| -> Vec<(Vec<u32>, usize)> {
            let options = EngineOptions {
                compiler: support::options(Numerics::Exact),
                context: 512,
                chunk: 128,
                cache: CacheKind::F32,
            };
            let sharing = Sharing::of_texts(2, 1024);
            let engine = Engine::shared(file.clone(), cpu(2), options, sharing).expect("an engine");
            served(engine, scheduler::Options { reuse, ..scheduler::Options::default() }, texts).0
        };
        let (first, more) = (tokens(150, VOCAB as u32, 1), tokens(40, VOCAB as u32, 2));
        let answer = &said(true, &[&first])[0].0;
        let turn = [&first, &answer[..], &more].concat();
        let otherwise = [&first, &more[..]].concat();
        let texts: [&[u32]; 4] = [&first, &turn, &otherwise, &more];
        let (with, without) = (said(true, &texts), said(false, &texts));
        let found: Vec<usize> = with.iter().map(|(_, cached)| *cached).collect();
        assert_eq!(found, [0, 155, 128, 0], "{shape}");
        for (number, (with, without)) in with.iter().zip(&without).enumerate() {
            assert_eq!((&with.0, without.1), (&without.0, 0), "{shape}, text {number}");
        }
    }
}

/// The interpreter finds races and what is read too early.
#[test]
fn the_same_in_blocks_of_threads() {
    for shape in SHAPES {
        let file = synth(shape, "f32", None);
        let text = tokens(13, VOCAB as u32, 4);
        let compiler = compiler::Options::gpu(Numerics::Exact);
        let options = EngineOptions { compiler, context: 64, chunk: 16, cache: CacheKind::F32 };
        let blocks = Arc::new(device::Interpreter::of_blocks().apart());
        let mut blocks = Engine::new(file.clone(), blocks, options).expect("an engine");
        let steps = [3, 1, 9];
        let got = logits(&mut blocks, &text, &steps);
        let error = worst_row(&got, &logits(&mut engine(&file, Numerics::Exact), &text, &steps), VOCAB);
        println!("{shape}: NMSE {error:.1e}");
        assert!(error <= BOUND, "{shape}: NMSE {error:e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_give_the_same(shape in 0..SHAPES.len(), steps in prop::collection::vec(1usize..40, 1..6), seed in 0u32..100) {
        let file = synth(SHAPES[shape], "f32", None);
        let text = tokens(60, VOCAB as u32, seed);
        let each = logits(&mut engine(&file, Numerics::Exact), &text, &[1]);
        let got = logits(&mut engine(&file, Numerics::Exact), &text, &steps);
        let error = worst_row(&got, &each, VOCAB);
        prop_assert!(error <= BOUND, "{} in steps of {steps:?}: NMSE {error:e}", SHAPES[shape]);
    }
}

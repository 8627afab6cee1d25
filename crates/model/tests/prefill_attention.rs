//! Prompts that are read by runs of tokens have the logits of prompts that are read token by token: of every family, in
//! every kind of cache, in pieces, beside each other, on the device and through the interpreter.

use crate::support::hollow::Hollow;
use crate::support::{self, cpu, nmse, synth, tokens};
use compiler::{Numerics, Options};
use device::Interpreter;
use model::batch::Batch;
use model::cache::{CacheKind, PAGE};
use model::engine::{Engine, EngineOptions, Sharing};
use model::prefill_attention::{RUN, Reach};
use model::step::Class;
use std::iter::once;
use std::sync::Arc;

const CONTEXT: i64 = 320;

fn options(cache: CacheKind, without: &[&str]) -> EngineOptions {
    let mut compiler = support::options(Numerics::Exact);
    compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
    EngineOptions { compiler, context: CONTEXT, chunk: 192, cache }
}

fn engine(file: &Arc<gguf::Gguf>, cache: CacheKind, sequences: i64, without: &[&str]) -> Engine {
    let sharing = Sharing { sequences, positions: sequences * CONTEXT, rows: None, whole_windows: false };
    Engine::shared(file.clone(), cpu(2), options(cache, without), sharing).expect("a model")
}

/// Logits of a prompt that is taken in steps of these lengths.
fn logits(engine: &mut Engine, all: &[u32], steps: &[usize]) -> Vec<f32> {
    let mut out = vec![];
    let mut at = 0;
    for &n in steps {
        out.extend_from_slice(engine.step(&all[at..at + n], at, 0..n).expect("a step"));
        at += n;
    }
    out
}

#[test]
fn prompts_by_runs_equal_prompts_by_token() {
    // The last run of the first step has places that no token takes; the other steps are read token by token.
    let steps = [3 * RUN as usize - 12, 70, 1, 40];
    for shape in ["tiny-mla-moe", "tiny-mla-dense", "tiny-llama", "tiny-qwen2", "tiny-qwen3moe", "tiny-glm4"] {
        let file = synth(shape, "q4_0", Some(2));
        for cache in [CacheKind::F32, CacheKind::F16, CacheKind::Q8_0] {
            let mut by_runs = engine(&file, cache, 1, &[]);
            let mut by_token = engine(&file, cache, 1, &["runs"]);
            let all = tokens(steps.iter().sum(), by_runs.config().vocab as u32, 11);
            let (got, want) = (logits(&mut by_runs, &all, &steps), logits(&mut by_token, &all, &steps));
            assert!(by_runs.program(Class::Prompt).is_some(), "{shape}: no step was read by runs");
            assert!(by_token.program(Class::Prompt).is_none(), "{shape}: left out, and there");
            // Keys and values that are made of latents are rounded as a cache of them would be.
            let most = if cache == CacheKind::F32 { 1e-10 } else { 1e-5 };
            let error = nmse(&got, &want);
            assert!(error <= most, "{shape} {cache}: NMSE {error:.2e}");
        }
    }
}

#[test]
fn prompts_beside_each_other_know_nothing_of_each_other() {
    for shape in ["tiny-mla-moe", "tiny-llama"] {
        let file = synth(shape, "q4_0", Some(2));
        let mut shared = engine(&file, CacheKind::F32, 3, &[]);
        let vocab = shared.config().vocab as u32;
        let texts: Vec<Vec<u32>> = [128, 64, 56].iter().enumerate().map(|(i, &n)| tokens(n, vocab, i as u32)).collect();
        // Pages in no order, and a first part that is in the cache already.
        let pages = |i: usize| (0..3).map(|p| (12 - 4 * p + i) as u32).collect::<Vec<u32>>();
        let first = RUN as usize;
        let mut batch = Batch::new(shared.limits());
        batch.add(&texts[0][..first], 0, &pages(0)).expect("room");
        batch.want_last();
        shared.run(&batch).expect("a step");
        batch.clear();
        let starts = [first, 0, 0];
        for (i, text) in texts.iter().enumerate() {
            batch.add(&text[starts[i]..], starts[i], &pages(i)).expect("room");
            batch.want_last();
        }
        assert_eq!(batch.variant().class, Class::Prompt, "{shape}");
        let got = shared.run(&batch).expect("a step").to_vec();
        let width = vocab as usize;
        for (i, text) in texts.iter().enumerate() {
            let mut alone = engine(&file, CacheKind::F32, 1, &["runs"]);
            let want = alone.step(text, 0, text.len() - 1..text.len()).expect("a step").to_vec();
            let error = nmse(&got[i * width..][..width], &want);
            assert!(error <= 1e-10, "{shape}, text {i}: NMSE {error:.2e}");
        }
    }
}

#[test]
fn the_interpreter_agrees() {
    let file = synth("tiny-mla-dense", "q4_0", Some(1));
    let interpreter = Arc::new(Interpreter::default());
    let mut interpreter = Engine::new(file.clone(), interpreter, options(CacheKind::F32, &[])).expect("a model");
    let mut engine = engine(&file, CacheKind::F32, 1, &[]);
    let all = tokens(3 * RUN as usize, engine.config().vocab as u32, 5);
    let limits = interpreter.limits();
    let mut batch = Batch::new(limits);
    batch.add(&all, 0, &(0..limits.row_pages() as u32).collect::<Vec<_>>()).expect("room");
    batch.want_last();
    assert_eq!(batch.variant().class, Class::Prompt);
    let want = interpreter.run(&batch).expect("a step").to_vec();
    let error = nmse(engine.run(&batch).expect("a step"), &want);
    assert!(error <= 1e-10, "NMSE {error:.2e}");
}

#[test]
fn what_is_short_or_has_a_long_past_is_read_by_token() {
    let file = synth("tiny-mla-dense", "q4_0", Some(1));
    let limits = engine(&file, CacheKind::F16, 64, &[]).limits();
    let class = |segments: &[(usize, usize)]| limits.class(segments.iter().map(|&(start, end)| start..end));
    assert_eq!(class(&[(0, 1)]), Class::One);
    assert_eq!(class(&[(0, 8)]), Class::Few);
    assert_eq!(class(&[(0, 9)]), Class::Many);
    assert_eq!(class(&[(0, 192)]), Class::Prompt);
    // One token each of many sequences, alone and beside a short prompt.
    let mut decoding: Vec<(usize, usize)> = (0..40).map(|i| (200 + i, 201 + i)).collect();
    assert_eq!(class(&decoding), Class::Many);
    decoding.push((0, 10));
    assert_eq!(class(&decoding), Class::Many);
    // More pages than can be decompressed.
    let past = (Options::cpu(Numerics::Int8, 64).prices.latents.pages * PAGE) as usize;
    assert_eq!(class(&[(past - 500, past)]), Class::Prompt);
    assert_eq!(class(&[(past - 500, past + 1)]), Class::Many);
}

/// What was faster on an H100, of prompts and depths that were measured both ways.
#[test]
fn a_gpu_reads_by_runs_what_is_faster_so() {
    let options = Options::gpu(Numerics::Int8);
    for (shape, past, tokens, by_runs) in [
        ("glm-4.7-flash", 0, 512, true),
        ("glm-4.7-flash", 30_000, 64, false),
        ("glm-4.7-flash", 30_000, 512, true),
        ("glm-4.7-flash", 30_000, 2048, true),
        ("youtu-llm-2b", 0, 512, true),
        ("youtu-llm-2b", 30_000, 512, true),
        ("youtu-llm-2b", 30_000, 2048, true),
    ] {
        let reach = Reach::of(&Hollow::new(shape, 1).config(), &options);
        let segment = past..past + tokens;
        assert_eq!(reach.by_runs([segment].into_iter()), by_runs, "{tokens} tokens of {shape} behind {past}");
    }
}

/// Sequences that decode behind long texts have steps of their own, as prompts are read by runs and they are not; behind
/// short ones it would cost more to read the weights again.
#[test]
fn prompts_beside_long_texts_have_steps_of_their_own() {
    let [gpu, cpu] = [Options::gpu(Numerics::Int8), Options::cpu(Numerics::Int8, 64)];
    let apart = |options: &Options, past: usize, tokens: usize| {
        let reach = Reach::of(&Hollow::new("glm-4.7-flash", 1).config(), options);
        let reach = reach.beside_weights(360 << 20, &options.prices);
        reach.apart((0..16).map(|_| past..past + 1), once(0..tokens))
    };
    assert_eq!([100, 1000, 4000, 30_000].map(|past| apart(&gpu, past, 2048)), [false, true, true, true]);
    assert_eq!([100, 4000].map(|past| apart(&gpu, past, 64)), [false; 2]);
    assert!(!apart(&cpu, 4000, 64));
    let one_way = Reach::NOTHING;
    assert!(!one_way.apart(once(4000..4001), once(0..2048)));
}

/// On a GPU a token of a model with one latent for all heads has a program for few pages, which is faster there.
#[test]
fn few_pages_of_latents_have_a_program_of_their_own() {
    let [gpu, cpu] = [Options::gpu(Numerics::Int8), Options::cpu(Numerics::Int8, 64)];
    let without = Options { without: vec!["short".into()], ..gpu.clone() };
    let short = gpu.prices.short.as_ref().expect("few pages").pages as usize * PAGE as usize;
    let is_short =
        |shape, options: &Options, at: usize| Reach::of(&Hollow::new(shape, 1).config(), options).is_short(at);
    for shape in ["glm-4.7-flash", "youtu-llm-2b", "deepseek-v2-lite"] {
        let at = [1, short, short + 1, 100_000].map(|positions| is_short(shape, &gpu, positions));
        assert_eq!(at, [true, true, false, false], "{shape}");
        assert_eq!([&cpu, &without].map(|options| is_short(shape, options, 1)), [false; 2], "{shape}");
    }
    assert!(!is_short("qwen3-30b-a3b", &gpu, 1));
    // What the engine of such a model takes.
    let limits = |options: &Options| {
        let options = EngineOptions { compiler: options.clone(), context: 4096, chunk: 64, cache: CacheKind::F16 };
        let device = Arc::new(Interpreter::of_blocks().apart());
        Engine::new(synth("tiny-mla-dense", "q4_0", Some(1)), device, options).expect("a model").limits()
    };
    let classes =
        [&gpu, &without].map(|o| [0, short - 1, short].map(|at| limits(o).class(std::iter::once(at..at + 1))));
    assert_eq!(classes, [[Class::Short, Class::Short, Class::One], [Class::One; 3]]);
    assert_eq!(limits(&gpu).class([5..6, 0..1].into_iter()), Class::Few);
}

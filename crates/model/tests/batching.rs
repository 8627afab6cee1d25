//! Sequences in a batch against each of them alone, on tiny models with random weights.

use crate::support::{self, cpu, weights};
use compiler::Numerics;
use compiler::program::BufferKind;
use device::Cpu;
use gguf::Gguf;
use model::batch::Batch;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions, Sharing};
use model::error::EngineError;
use model::step::{Class, Output};
use model::synth::{SynthOptions, SynthPlan};
use std::sync::Arc;

/// NMSE that batch mates may make under `exact`.
const EXACT_NMSE: f64 = 1e-9;

/// The same where it may move a few inputs, and what the cache keeps of them, by a code of 8 bits.
const INT8_NMSE: f64 = 1e-3;

fn file(shape: &str, quant: &str) -> Arc<Gguf> {
    let plan = SynthPlan::new(shape, quant, &SynthOptions::default()).expect("a shape");
    Arc::new(Gguf::parse(plan.to_vec().expect("a file")).expect("a file"))
}

fn options(numerics: Numerics, cache: CacheKind) -> EngineOptions {
    EngineOptions { compiler: support::options(numerics), context: 200, chunk: 48, cache }
}

/// Tokens that differ from sequence to sequence.
fn tokens(seed: u32, count: usize, vocab: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (seed * 7919 + i * i * 31 + i * 17 + 3) % vocab).collect()
}

/// Logits of every token of a sequence alone, in steps of these sizes.
fn alone(file: &Arc<Gguf>, cpu: &Arc<Cpu>, options: &EngineOptions, tokens: &[u32], steps: &[usize]) -> Vec<f32> {
    let mut engine = Engine::new(file.clone(), cpu.clone(), options.clone()).expect("an engine");
    let (mut out, mut at) = (vec![], 0);
    for &n in steps {
        out.extend_from_slice(engine.step(&tokens[at..at + n], at, 0..n).expect("a step"));
        at += n;
    }
    out
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error: f64 = got.iter().zip(want).map(|(a, b)| (*a as f64 - *b as f64).powi(2)).sum();
    error / want.iter().map(|b| (*b as f64).powi(2)).sum::<f64>()
}

/// Three sequences with pages all over the cache; each step takes so many tokens of each.
fn together(
    file: &Arc<Gguf>,
    cpu: &Arc<Cpu>,
    options: &EngineOptions,
    texts: &[Vec<u32>],
    steps: &[[usize; 3]],
) -> Vec<Vec<f32>> {
    let sharing = Sharing { sequences: 3, positions: 64 * 9, rows: None, whole_windows: false };
    let mut engine = Engine::shared(file.clone(), cpu.clone(), options.clone(), sharing).expect("an engine");
    together_in(&mut engine, texts, steps)
}

fn together_in(engine: &mut Engine, texts: &[Vec<u32>], steps: &[[usize; 3]]) -> Vec<Vec<f32>> {
    let vocab = engine.limits().vocab;
    let pages = [[7, 0, 4], [2, 8, 5], [1, 6, 3]];
    let mut batch = Batch::new(engine.limits());
    let (mut out, mut at) = (vec![vec![]; 3], [0; 3]);
    for step in steps {
        batch.clear();
        for (s, &n) in step.iter().enumerate().filter(|(_, n)| **n > 0) {
            batch.add(&texts[s][at[s]..at[s] + n], at[s], &pages[s]).expect("it fits");
            batch.set_place(s);
            batch.want(batch.tokens() - n..batch.tokens());
        }
        let mut rows = engine.run(&batch).expect("a step").chunks_exact(vocab);
        for (s, &n) in step.iter().enumerate() {
            rows.by_ref().take(n).for_each(|row| out[s].extend_from_slice(row));
            at[s] += n;
        }
    }
    out
}

/// Prompts beside prompts, beside decoding, decoding together, joining and leaving.
const STEPS: [[usize; 3]; 9] =
    [[30, 0, 0], [1, 40, 0], [1, 40, 5], [1, 1, 1], [1, 1, 1], [0, 1, 40], [20, 1, 1], [16, 1, 1], [0, 1, 0]];

fn check(shape: &str, quant: &str, options: &EngineOptions) -> Vec<f64> {
    let (cpu, file) = (cpu(2), file(shape, quant));
    let vocab = model::config::Config::read(&file).expect("a model").vocab as u32;
    let lengths = [0, 1, 2].map(|s| STEPS.iter().map(|step| step[s]).sum::<usize>());
    let texts: Vec<Vec<u32>> = lengths.iter().zip(1..).map(|(&n, seed)| tokens(seed, n, vocab)).collect();
    let batched = together(&file, &cpu, options, &texts, &STEPS);
    let one = |s: usize| {
        let steps: Vec<usize> = STEPS.iter().map(|step| step[s]).filter(|&n| n > 0).collect();
        nmse(&batched[s], &alone(&file, &cpu, options, &texts[s], &steps))
    };
    (0..3).map(one).collect()
}

fn agrees(shape: &str, quant: &str) {
    for (s, nmse) in check(shape, quant, &options(Numerics::Exact, CacheKind::F32)).into_iter().enumerate() {
        // Written so that NaN fails.
        assert!(nmse <= EXACT_NMSE, "{shape} {quant}, sequence {s}: nmse {nmse:.2e}");
    }
}

#[test]
fn batch_mates_make_no_difference_with_grouped_attention() {
    agrees("tiny-llama", "q4_0");
}

#[test]
fn batch_mates_make_no_difference_with_latent_attention_and_experts() {
    agrees("tiny-mla-moe", "q4_k_m");
}

#[test]
fn batch_mates_make_no_difference_to_what_is_remembered() {
    for shape in ["tiny-lfm2", "tiny-mamba2", "tiny-nemotron-h", "tiny-qwen3.5", "tiny-qwen3-next"] {
        agrees(shape, "q4_0");
    }
}

#[test]
fn batch_mates_make_little_difference_with_integers() {
    for (numerics, cache) in
        [(Numerics::Int8, CacheKind::F16), (Numerics::Int8, CacheKind::Q8_0), (Numerics::Exact, CacheKind::Q8_0)]
    {
        for (s, nmse) in check("tiny-qwen3", "q4_0", &options(numerics, cache)).into_iter().enumerate() {
            println!("{numerics:?}, cache of {cache}, sequence {s}: nmse {nmse:.2e}");
            assert!(nmse <= INT8_NMSE, "{numerics:?}, cache of {cache}, sequence {s}: nmse {nmse:.2e}");
        }
    }
}

/// Where it is promised, not a bit differs, be a token computed alone, in a prompt or beside others.
#[test]
fn batch_mates_make_no_difference_at_all_if_that_is_asked_for() {
    let (f16, q8_0) = (CacheKind::F16, CacheKind::Q8_0);
    for (shape, quant, cache) in [
        ("tiny-qwen3", "q4_0", f16),
        ("tiny-qwen3", "q4_0", q8_0),
        ("tiny-mla-moe", "q4_k_m", f16),
        ("tiny-mla-dense", "q4_0", q8_0),
    ] {
        let (cpu, file) = (cpu(2), file(shape, quant));
        let vocab = model::config::Config::read(&file).expect("a model").vocab as u32;
        let lengths = [0, 1, 2].map(|s| STEPS.iter().map(|step| step[s]).sum::<usize>());
        let texts: Vec<Vec<u32>> = lengths.iter().zip(1..).map(|(&n, seed)| tokens(seed, n, vocab)).collect();
        let sharing = Sharing { sequences: 3, positions: 64 * 9, rows: None, whole_windows: false };
        let engine = || {
            let made = Engine::shared(file.clone(), cpu.clone(), options(Numerics::Int8, cache), sharing);
            let mut engine = made.expect("an engine");
            engine.make_batch_invariant();
            engine
        };
        let batched = together_in(&mut engine(), &texts, &STEPS);
        for (s, text) in texts.iter().enumerate() {
            for n in [1, 7, 40] {
                let (mut engine, mut out, mut at) = (engine(), vec![], 0);
                while at < text.len() {
                    let count = n.min(text.len() - at);
                    let mut batch = Batch::new(engine.limits());
                    batch.add(&text[at..at + count], at, &[3, 1, 5]).expect("it fits");
                    batch.want(0..count);
                    out.extend_from_slice(engine.run(&batch).expect("a step"));
                    at += count;
                }
                let differ = out.iter().zip(&batched[s]).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
                assert_eq!(
                    differ,
                    0,
                    "{shape}, cache of {cache}, sequence {s} in steps of {n}: {differ} of {}",
                    out.len()
                );
            }
        }
    }
}

/// The hidden state is what the head reads: its product with the head's rows is the logits.
#[test]
fn hidden_states_times_the_head_are_the_logits() {
    let (cpu, file) = (cpu(2), file("tiny-llama", "q8_0"));
    let config = model::config::Config::read(&file).expect("a model");
    let (vocab, hidden) = (config.vocab as usize, config.hidden as usize);
    let name = if file.tensor("output.weight").is_some() { "output.weight" } else { "token_embd.weight" };
    let head = weights::values(&file, file.tensor(name).expect("a head"));
    let exact = options(Numerics::Exact, CacheKind::F32);
    for count in [1, 5, 30] {
        let text = tokens(4, count, vocab as u32);
        let logits = alone(&file, &cpu, &exact, &text, &[count]);
        let mut engine = Engine::new(file.clone(), cpu.clone(), exact.clone()).expect("an engine");
        let mut batch = Batch::new(engine.limits());
        batch.add(&text, 0, &[0, 1, 2, 3]).expect("it fits");
        batch.want(0..count);
        batch.set_output(Output::Hidden);
        let rows = engine.run(&batch).expect("a step");
        assert_eq!(rows.len(), count * hidden);
        let row = |x: &[f32]| {
            let dot = |w: &[f32]| x.iter().zip(w).map(|(a, b)| f64::from(a * b)).sum::<f64>() as f32;
            head.chunks_exact(hidden).map(dot).collect::<Vec<f32>>()
        };
        let product: Vec<f32> = rows.chunks_exact(hidden).flat_map(row).collect();
        let nmse = nmse(&product, &logits);
        assert!(nmse <= EXACT_NMSE, "{count} tokens: nmse {nmse:.2e}");
    }
}

/// A page goes from one sequence to the next; what was in it must not matter, whatever it was.
#[test]
fn what_another_sequence_left_is_not_read() {
    let cpu = cpu(2);
    let plain = file("tiny-llama", "q4_0");
    let victim = 7u32;
    // A token whose embedding is infinite leaves NaN in the cache.
    let poisoned = weights::edited(
        &plain,
        |_| (),
        |tensor, values| {
            if tensor.name == "token_embd.weight" {
                let n = tensor.dims[0] as usize;
                values[victim as usize * n..][..n].fill(f32::INFINITY);
            }
        },
    );
    let text: Vec<u32> = tokens(3, 40, 200).into_iter().map(|t| if t == victim { t + 1 } else { t }).collect();
    for cache in [CacheKind::F32, CacheKind::Q8_0] {
        let options = options(Numerics::Exact, cache);
        let mut engine = Engine::new(poisoned.clone(), cpu.clone(), options.clone()).expect("an engine");
        for steps in [vec![12, 1, 1], vec![5, 35]] {
            engine.step(&[victim; 40], 0, 0..1).expect("a step");
            let mut at = 0;
            let mut got = vec![];
            for &n in &steps {
                got.extend_from_slice(engine.step(&text[at..at + n], at, 0..n).expect("a step"));
                at += n;
            }
            // In the same steps: in others a code may fall to either side.
            let want = alone(&poisoned, &cpu, &options, &text[..at], &steps);
            assert!(nmse(&got, &want) < EXACT_NMSE, "cache of {cache}, {at} tokens after another text");
        }
    }
}

#[test]
fn more_rows_than_there_is_room_for_are_refused() {
    let (cpu, file) = (cpu(2), file("tiny-llama", "q4_0"));
    let exact = options(Numerics::Exact, CacheKind::F32);
    let sharing = Sharing { sequences: 3, positions: 200, rows: Some(3), whole_windows: false };
    let mut engine = Engine::shared(file.clone(), cpu.clone(), exact.clone(), sharing).expect("an engine");
    let vocab = engine.limits().vocab;
    assert_eq!((engine.limits().tokens, engine.limits().rows), (48, 3));
    let text = tokens(6, 30, vocab as u32);
    let refused = |error: EngineError| {
        assert_eq!(error.to_string(), "a step cannot give 4 rows of logits (at most 3)");
        assert!(matches!(error, EngineError::Rows { wanted: 4, most: 3 }));
    };
    let mut batch = Batch::new(engine.limits());
    for n in [30, 5] {
        refused(engine.step(&text[..n], 0, 1..5).expect_err("four rows"));
        batch.clear();
        batch.add(&text[..n], 0, &[0]).expect("it fits");
        batch.want(1..5);
        refused(engine.run(&batch).expect_err("four rows"));
        // What it has room for is what it would be without a bound.
        let all = alone(&file, &cpu, &exact, &text[..n], &[n]);
        let got = engine.step(&text[..n], 0, 2..5).expect("three rows");
        let nmse = nmse(got, &all[2 * vocab..5 * vocab]);
        assert!(nmse <= EXACT_NMSE, "{n} tokens: nmse {nmse:.2e}");
    }
    // Rows of another output are as short as the model is wide.
    batch.set_output(Output::Hidden);
    assert!(engine.run(&batch).is_ok());
    // Past the tokens of a step there is nothing to ask for.
    assert_eq!(engine.step(&text[..2], 0, 0..9).expect("two rows").len(), 2 * vocab);
    let (program, _) = engine.program(Class::Many).expect("it has run");
    let is_logits = |kind: &BufferKind| *kind == BufferKind::Output("logits".into());
    let logits = program.buffers.iter().find(|buffer| is_logits(&buffer.kind)).expect("an output");
    assert_eq!(logits.bytes, 3 * 4 * vocab);
}

//! Layers with a window read the pages of the cache in which it lies, and no others. That they see what llama.cpp has them see
//! is in `families.rs`.

use crate::support::{self, cpu, synth, tokens, weights, worst_row};
use compiler::{Numerics, Options};
use device::{Device, Interpreter};
use gguf::{Gguf, Tensor};
use model::cache::{CacheKind, PAGE};
use model::config::{self, Config};
use model::engine::{Engine, EngineOptions};
use model::prefill_attention::RUN;
use model::window::Window;
use std::sync::Arc;

const VOCAB: usize = 512;

/// Tokens of a text.
const TEXT: usize = 300;

/// What a token alone costs if nothing is read so where it need not be.
const BY_RUNS: f64 = f64::INFINITY;

/// A model, where each layer but the sixth has a window of 24 positions.
fn windowed(layers: u32) -> Arc<Gguf> {
    synth("tiny-gemma3", "f32", Some(layers))
}

/// An engine, which reads what follows each other by runs if a token alone costs so much more.
fn engine(
    file: &Arc<Gguf>,
    device: Arc<dyn Device>,
    mut compiler: Options,
    without: Option<&str>,
    alone: f64,
) -> Engine {
    compiler.prices.alone = alone;
    compiler.without.extend(without.map(str::to_owned));
    let options = EngineOptions { compiler, context: 320, chunk: 256, cache: CacheKind::F32 };
    Engine::new(file.clone(), device, options).expect("an engine")
}

/// Logits of all tokens, in steps of so many.
fn logits(mut engine: Engine, ids: &[u32], steps: &[usize]) -> Vec<f32> {
    let (mut out, mut at) = (vec![], 0);
    for &count in steps.iter().cycle() {
        let next = &ids[at..ids.len().min(at + count)];
        if next.is_empty() {
            break;
        }
        out.extend_from_slice(engine.step(next, at, 0..next.len()).expect("a step"));
        at += next.len();
    }
    out
}

#[test]
fn pages_that_are_left_out_change_nothing() {
    let (file, ids) = (windowed(7), tokens(TEXT, VOCAB as u32, 3));
    let target = || support::options(Numerics::Exact);
    let all = logits(engine(&file, cpu(2), target(), Some("window"), 1.0), &ids, &[1]);
    // One, few, and many that begin within a page; and runs of a prompt.
    for (steps, alone) in [(&[1][..], 1.0), (&[7], 1.0), (&[30, 11], 0.0), (&[200, 100], BY_RUNS)] {
        let error = worst_row(&logits(engine(&file, cpu(2), target(), None, alone), &ids, steps), &all, VOCAB);
        assert!(error < 1e-9, "steps of {steps:?}: {error:e}");
    }
}

/// What is not seen weighs nothing, but nothing times what is not a number is no number: so it shows which pages are read.
#[test]
fn no_page_before_a_window_is_read() {
    let file = windowed(1);
    let width = Config::read(&file).expect("a model").window_of(0).expect("a window").width as usize;
    let bad = VOCAB - 1;
    let poison = |tensor: &Tensor, values: &mut Vec<f32>| {
        if tensor.name == "token_embd.weight" {
            values[bad * tensor.dims[0] as usize..].fill(f32::NAN);
        }
    };
    let file = weights::edited(&file, |_| (), poison);
    let ids = [vec![bad as u32], tokens(180, bad as u32, 3)].concat();
    let finite = |target: &Options, without, steps: &[usize], alone| -> Vec<bool> {
        let engine = engine(&file, Arc::new(Interpreter::default()), target.clone(), without, alone);
        let logits = logits(engine, &ids, steps);
        // Its own logit is none in any row, as the head is its embedding.
        logits.chunks(VOCAB).map(|row| row[..bad].iter().all(|logit| logit.is_finite())).collect()
    };
    let page = PAGE as usize;
    // A token's window, or that of the first token of its run, begins with the second page.
    let (of_token, of_run) = (page + width - 1, page + RUN as usize);
    let (cpu, gpu) = (support::options(Numerics::Exact), Options::gpu(Numerics::Exact));
    for (target, steps, alone, first) in [
        (&cpu, &[1][..], 1.0, of_token),
        (&cpu, &[7], 1.0, of_token),
        (&cpu, &[64, 117], 0.0, of_token),
        (&cpu, &[64, 117], BY_RUNS, of_run),
        (&gpu, &[80, 7, 1, 1, 1], 0.0, of_token),
        (&gpu, &[64, 117], BY_RUNS, of_run),
    ] {
        let with = finite(target, None, steps, alone);
        assert_eq!(with.iter().position(|&finite| finite), Some(first), "{steps:?}");
        assert!(with[first..].iter().all(|&finite| finite), "{steps:?}: {with:?}");
        assert!(
            finite(target, Some("window"), steps, alone).iter().all(|finite| !finite),
            "{steps:?}: all pages are read"
        );
    }
}

#[test]
fn pages_of_a_window() {
    let options = support::options(Numerics::Exact);
    let window = |width| config::Window {
        width,
        ahead: 0,
        chunks: false,
        layers: vec![],
        heads: None,
        attention: None,
        rope: None,
    };
    let most = |width, tokens| Window::new(&window(width), &options).most_pages(tokens).expect("a bound");
    for width in [1, 2, 24, 64, 65, 66, 512] {
        for tokens in [1, 2, 64] {
            let pages = |end: i64| (end - 1) / PAGE - (end - tokens - width + 1).max(0) / PAGE + 1;
            let read = (width + tokens..width + tokens + 2 * PAGE).map(pages).max();
            assert_eq!(Some(most(width, tokens)), read, "{tokens} tokens that see {width}");
        }
    }
    let mut all = options.clone();
    all.without.push("window".into());
    assert_eq!(Window::new(&window(24), &all).most_pages(1), None);
}

/// Three layers of four see their chunk alone. Without the fourth, nothing of a text is seen behind the end of one.
#[test]
fn a_chunk_is_read_as_if_nothing_were_before_it() {
    const CHUNK: usize = 8192;
    let file = synth("tiny-llama4", "q4_0", Some(3));
    let logits = |seed: u32| {
        let compiler = support::options(Numerics::Exact);
        let options = EngineOptions { compiler, context: CHUNK as i64 + 128, chunk: 512, cache: CacheKind::F32 };
        let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
        let mut ids = tokens(CHUNK, engine.config().vocab as u32, seed);
        ids.extend(tokens(65, engine.config().vocab as u32, 7));
        let read = |engine: &mut Engine, from: usize, to: usize| {
            engine.step(&ids[from..to], from, 0..to - from).expect("a step").to_vec()
        };
        (0..CHUNK - 512).step_by(512).for_each(|at| drop(read(&mut engine, at, at + 512)));
        let last = read(&mut engine, CHUNK - 512, CHUNK);
        let mut behind = read(&mut engine, CHUNK, CHUNK + 64);
        behind.extend(read(&mut engine, CHUNK + 64, CHUNK + 65));
        (last, behind)
    };
    let ((before, behind), (other, same)) = (logits(1), logits(2));
    assert!(before != other && behind == same);
}

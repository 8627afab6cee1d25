//! Layers with a window keep what it sees, and a model says the same as if they kept all.

use crate::support::served::served_together;
use crate::support::{self, cpu, synth, tokens};
use compiler::Numerics;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions, Sharing};
use model::generate::Generator;
use model::scheduler;
use model::sequence::Request;
use model::step::Class;
use std::ops::ControlFlow;
use std::sync::Arc;
use text::sampler::SamplerConfig;

const VOCAB: u32 = 512;

fn engine(shape: &str, numerics: Numerics, cache: CacheKind, sequences: i64, whole_windows: bool) -> Engine {
    let (context, chunk) = (64 * 64, 128);
    let options = EngineOptions { compiler: support::options(numerics), context, chunk, cache };
    let sharing = Sharing { whole_windows, ..Sharing::of_texts(sequences, context) };
    Engine::shared(synth(shape, "q4_0", None), cpu(2), options, sharing).expect("an engine")
}

/// An engine whose layers with a window keep all, with a program.
fn engine_with_program(shape: &str, sequences: i64) -> Engine {
    let mut engine = engine(shape, Numerics::Exact, CacheKind::F32, sequences, true);
    engine.prepare(Class::One).expect("a program");
    engine
}

/// Bytes of the states of an engine.
fn states(engine: &Engine) -> usize {
    engine.memory_plan(|_| 1).states
}

#[test]
fn what_is_forgotten_changes_nothing() {
    // Layers with a window that have heads of their own and whose keys others read; and some with sinks.
    for (shape, cache) in [("tiny-gemma4", CacheKind::F16), ("tiny-gpt-oss", CacheKind::Q8_0)] {
        let mut engines = [false, true].map(|whole| engine(shape, Numerics::Int8, cache, 1, whole));
        let ids = tokens(2700, VOCAB, 3);
        let mut at = 0;
        // Runs of a prompt, few tokens and one, from within pages and from their beginning.
        for count in [128, 128, 128, 100, 28, 7, 1, 1].into_iter().cycle() {
            let next = &ids[at..ids.len().min(at + count)];
            if next.is_empty() {
                break;
            }
            let [kept, whole] = &mut engines;
            let last = next.len() - 1..next.len();
            let (own, other) = (kept.step(next, at, last.clone()), whole.step(next, at, last));
            assert!(own.expect("a step") == other.expect("a step"), "{shape}: {} tokens from {at} on", next.len());
            at += next.len();
        }
        let [kept, whole] = engines.map(|engine| states(&engine));
        println!("{shape}: {kept} bytes of {whole}");
        assert!(kept < whole * 9 / 10, "{shape}: {kept} and {whole}");
        assert!(kept > whole / 10, "{shape}: layers without a window keep all");
    }
}

#[test]
fn a_chat_goes_on_from_where_it_can() {
    for turn_of in [120, 3000] {
        let said = |whole: bool| {
            let mut engine = engine("tiny-gemma3", Numerics::Exact, CacheKind::F32, 1, whole);
            let (mut generator, mut reused) = (Generator::new(), vec![]);
            let mut said: Vec<u32> = vec![];
            let first = tokens(turn_of, VOCAB, 5);
            // An answer, what follows it, the same prompt again, and one that changes within the first page.
            let changed = [&first[..30], &tokens(100, VOCAB, 6)[..]].concat();
            for prompt in [first.clone(), [&first[..], &tokens(40, VOCAB, 7)[..]].concat(), first.clone(), changed] {
                let mut timing = Default::default();
                let request =
                    Request { prompt, sampling: SamplerConfig::greedy(), limit: Some(90), ends: Arc::from([]) };
                let on = |event: model::sequence::Event<'_>| {
                    if let model::sequence::Event::Token { sampled, .. } = event {
                        said.push(sampled.id);
                    }
                    ControlFlow::Continue(())
                };
                generator.generate(&mut engine, request, &mut timing, on).expect("an answer");
                reused.push(timing.reused);
            }
            (said, reused)
        };
        let (whole, kept) = (said(true), said(false));
        assert_eq!(whole.0, kept.0, "a text of {turn_of}");
        assert_eq!(whole.1, [0, turn_of, turn_of - 1, 30]);
        // The beginning of a long text is read again, and nothing else.
        let last = if turn_of == 120 { 30 } else { 0 };
        assert_eq!(kept.1, [0, turn_of, turn_of - 1, last], "a text of {turn_of}");
    }
}

#[test]
fn sequences_that_begin_alike_say_the_same() {
    let shared = tokens(320, VOCAB, 1);
    let texts: Vec<Vec<u32>> =
        (0..9).map(|seed| [&shared[..], &tokens(900, VOCAB, 2 + seed % 5)[..]].concat()).collect();
    let page_bytes = states(&engine_with_program("tiny-gpt-oss", 3)) as u64 / 64;
    let said = |whole: bool, beside_bytes: u64| {
        let mut engine = engine("tiny-gpt-oss", Numerics::Exact, CacheKind::F32, 3, whole);
        engine.prepare(Class::One).expect("a program");
        while beside_bytes > 0 && engine.room_beside(beside_bytes, 0).expect("a device").pages == 0 {
            std::thread::yield_now();
        }
        let options = scheduler::Options { beside_bytes, ..scheduler::Options::default() };
        let (answers, stats) =
            served_together(engine, options, &texts.iter().map(|text| &text[..]).collect::<Vec<_>>());
        let (answers, found): (Vec<_>, Vec<usize>) = answers.into_iter().unzip();
        (answers, found, stats.moved_in)
    };
    let (whole, kept, beside) = (said(true, 0), said(false, 0), said(false, 1 << 30));
    assert_eq!(whole.0, kept.0);
    assert_eq!(whole.0, beside.0);
    // So little room that what comes back makes what it follows go.
    let little = said(false, 9 * page_bytes);
    assert_eq!(whole.0, little.0);
    println!("with little room beside {:?}, {} pages in", little.1, little.2);
    println!("found {:?}, of windows {:?}, with room beside {:?}, {} pages in", whole.1, kept.1, beside.1, beside.2);
    assert!(kept.1.iter().zip(&whole.1).all(|(kept, whole)| kept <= whole));
    assert!(kept.1.iter().filter(|&&found| found >= 320).count() >= 4, "{:?}", kept.1);
}

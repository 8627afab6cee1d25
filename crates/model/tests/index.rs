//! Attention that reads the positions that an index chooses, in contexts of more than it chooses.
//!
//! The references are of llama.cpp, as those of [`crate::families`], from the same files with a smaller `top_k`. The index of these
//! models has 16 heads, so that hardly a position scores nothing in all of them: llama.cpp chooses among equal scores as its
//! sort has them.

use crate::families::{PROMPT, VOCAB, last_logits, prompt, reference};
use crate::support::{self, cpu, nmse, synth, weights, worst_row};
use compiler::gpu::GpuPlan;
use compiler::schedule::Short;
use compiler::{Numerics, Options};
use device::{Device, Interpreter};
use gguf::Gguf;
use model::batch::Batch;
use model::cache::CacheKind;
use model::config::Config;
use model::engine::{Engine, EngineOptions, Sharing};
use model::step::Class;
use std::sync::Arc;

/// NMSE against llama.cpp at most.
const BOUND: f64 = 1e-6;

/// The same of one engine against another, which sums in another order.
const SAME: f64 = 1e-9;

/// How steps of many tokens read the cache.
const WAYS: [Class; 2] = [Class::Many, Class::Prompt];

/// A model whose index chooses so many positions.
fn choosing(shape: &str, most: u32) -> Arc<Gguf> {
    let file = synth(shape, "f32", None);
    let key = format!("{}.attention.indexer.top_k", Config::read(&file).expect("a model").arch);
    weights::edited(&file, |writer| _ = writer.set(&key, most), |_, _| ())
}

/// Options of an engine whose steps of many tokens read the cache so.
fn options(way: Class, cache: CacheKind) -> EngineOptions {
    let mut compiler = support::options(Numerics::Exact);
    match way {
        Class::Prompt => compiler.prices.latents.token = f64::INFINITY,
        _ => compiler.without.extend(["runs".to_owned()]),
    }
    EngineOptions { compiler, context: 128, chunk: PROMPT as i64, cache }
}

fn engine(file: &Arc<Gguf>, way: Class, cache: CacheKind) -> Engine {
    Engine::new(file.clone(), cpu(2), options(way, cache)).expect("an engine")
}

fn check(shape: &str, most: u32) {
    let (file, width) = (choosing(shape, most), VOCAB as usize);
    let want = reference(&format!("{shape}-best-{most}"), width);
    for (batch, way) in [(1, Class::Many), (7, Class::Many), (PROMPT, Class::Many), (PROMPT, Class::Prompt)] {
        let mut engine = engine(&file, way, CacheKind::F32);
        assert!(batch < PROMPT || engine.class_of(batch, 0) == way, "{shape}");
        let error = worst_row(&last_logits(&mut engine, batch), &want, width);
        println!("{shape}, {most} of {PROMPT} in steps of {batch}, {}: NMSE {error:.1e}", way.words());
        assert!(error <= BOUND, "{shape}, {most} of {PROMPT} in steps of {batch}, {way:?}: NMSE {error:e}");
    }
}

macro_rules! chosen {
    ($($test:ident $shape:literal $most:literal;)*) => {$(
        #[test]
        fn $test() {
            check($shape, $most);
        }
    )*};
}

chosen! {
    fewer_than_a_page "tiny-deepseek32" 24;
    more_than_a_page "tiny-deepseek32" 70;
    fewer_than_a_page_by_an_index_rotated_in_neighbours "tiny-glm-dsa" 24;
    more_than_a_page_by_an_index_rotated_in_neighbours "tiny-glm-dsa" 70;
}

/// Positions that are all chosen are those of a model without a choice.
#[test]
fn who_chooses_all_reads_all() {
    let all = last_logits(&mut engine(&choosing("tiny-glm-dsa", 512), Class::Many, CacheKind::F32), 7);
    // There is an index, as the context has more.
    let chosen = last_logits(&mut engine(&choosing("tiny-glm-dsa", PROMPT as u32), Class::Many, CacheKind::F32), 7);
    assert!(nmse(&chosen, &all) <= SAME, "{:e}", nmse(&chosen, &all));
}

#[test]
fn tokens_choose_alike_whatever_is_beside_them() {
    let file = choosing("tiny-glm-dsa", 24);
    let mut engine = engine(&file, Class::Many, CacheKind::F32);
    engine.make_batch_invariant();
    let one = last_logits(&mut engine, 1);
    assert_eq!(last_logits(&mut engine, 7), one);
    let error = worst_row(&one, &reference("tiny-glm-dsa-best-24", VOCAB as usize), VOCAB as usize);
    assert!(error <= BOUND, "{error:e}");
}

/// Latents as halves and codes; the index has halves in both, so it may choose otherwise than one of floats.
#[test]
fn caches_of_halves_and_codes() {
    let file = choosing("tiny-deepseek32", 24);
    let want = last_logits(&mut engine(&file, Class::Many, CacheKind::F32), PROMPT);
    for (cache, most) in [(CacheKind::F16, 1e-2), (CacheKind::Q8_0, 1e-2)] {
        for (batch, way) in [(1, Class::Many), (7, Class::Many), (PROMPT, Class::Many), (PROMPT, Class::Prompt)] {
            let error = nmse(&last_logits(&mut engine(&file, way, cache), batch), &want);
            println!("cache of {cache} in steps of {batch}, {}: NMSE {error:.1e}", way.words());
            assert!(error <= most, "cache of {cache} in steps of {batch}, {way:?}: NMSE {error:e}");
        }
    }
}

/// The two texts of a step with several sequences, of which the second ends before the first.
fn texts() -> [Vec<u32>; 2] {
    [prompt(), prompt().into_iter().rev().take(60).collect()]
}

/// Logits of the last token of both texts after steps that end at these positions of them, on these pages.
fn together(file: &Arc<Gguf>, way: Class, ends: &[[usize; 2]], pages: [[u32; 2]; 2]) -> [Vec<f32>; 2] {
    let sharing = Sharing { sequences: 2, positions: 64 * 5, rows: None, whole_windows: false };
    let mut engine = Engine::shared(file.clone(), cpu(2), options(way, CacheKind::F32), sharing).expect("an engine");
    let (texts, mut at, mut out) = (texts(), ends[0], [vec![], vec![]]);
    let mut batch = Batch::new(engine.limits());
    for end in &ends[1..] {
        batch.clear();
        let steps: Vec<usize> = (0..2).filter(|&s| end[s] > at[s]).collect();
        for &s in &steps {
            batch.add(&texts[s][at[s]..end[s]], at[s], &pages[s]).expect("a text");
            batch.want_last();
        }
        assert!(batch.tokens() < 9 || batch.variant().class == way, "{:?}", batch.variant().class);
        let rows = engine.run(&batch).expect("a step").chunks_exact(VOCAB as usize);
        steps.iter().zip(rows).for_each(|(&s, row)| out[s] = row.to_vec());
        at = *end;
    }
    out
}

#[test]
fn several_sequences_choose_for_themselves() {
    let file = choosing("tiny-deepseek32", 24);
    for way in WAYS {
        let alone = |s: usize| {
            let ids = &texts()[s];
            let mut engine = engine(&file, way, CacheKind::F32);
            model::steps::Steps::step(&mut engine, ids, 0, ids.len() - 1..ids.len()).expect("a step").to_vec()
        };
        let got = together(&file, way, &[[0, 0], [50, 20], [87, 57], [89, 58], [90, 59], [90, 60]], [[4, 1], [2, 3]]);
        for (s, got) in got.iter().enumerate() {
            let error = nmse(got, &alone(s));
            println!("sequence {s}, {}: NMSE {error:.1e}", way.words());
            assert!(error <= SAME, "sequence {s}, {way:?}: NMSE {error:e}");
        }
    }
}

/// A page has the keys of the index beside the latents, so who goes on from one reads nothing again.
#[test]
fn shared_pages_have_the_keys_of_the_index() {
    let file = choosing("tiny-glm-dsa", 24);
    let sharing = Sharing { sequences: 2, positions: 64 * 5, rows: None, whole_windows: false };
    let mut engine = Engine::shared(file, cpu(2), options(Class::Many, CacheKind::F32), sharing).expect("an engine");
    let mut batch = Batch::new(engine.limits());
    let mut last = |start: usize, pages: [u32; 2]| {
        batch.clear();
        batch.add(&prompt()[start..], start, &pages).expect("a text");
        batch.want_last();
        engine.run(&batch).expect("a step").to_vec()
    };
    let whole = last(0, [3, 1]);
    let from_page = last(64, [3, 2]);
    assert!(nmse(&from_page, &whole) <= SAME, "{:e}", nmse(&from_page, &whole));
}

/// As blocks of threads, and as adapters do that know matrices as a whole only, against the processor.
#[test]
fn an_index_in_blocks_of_threads() {
    let file = choosing("tiny-deepseek32", 9);
    let cooperative = GpuPlan { shared: 48 << 10, ..GpuPlan::portable(32, 256) }.with_cooperative_matrices();
    let targets = [
        Options::gpu(Numerics::Exact),
        Options::wgsl_on(Numerics::Exact, GpuPlan::portable(32, 256)),
        Options::wgsl_on(Numerics::Exact, cooperative),
    ];
    let steps = [24, 2, 1];
    let run = |device: Arc<dyn Device>, compiler: Options, cache| {
        let options = EngineOptions { compiler, context: 65, chunk: 64, cache };
        let mut engine = Engine::new(file.clone(), device, options).expect("an engine");
        let (ids, mut out, mut at) = (prompt(), vec![], 0);
        for n in steps {
            out.extend_from_slice(engine.step(&ids[at..at + n], at, 0..n).expect("a step"));
            at += n;
        }
        out
    };
    let want = run(cpu(2), support::options(Numerics::Exact), CacheKind::F32);
    for compiler in targets {
        let got = run(Arc::new(Interpreter::of_blocks().apart()), compiler, CacheKind::F32);
        let error = worst_row(&got, &want, VOCAB as usize);
        println!("NMSE {error:.1e}");
        assert!(error <= SAME, "NMSE {error:e}");
    }
}

#[test]
fn a_layer_without_an_index_reads_what_the_one_before_chose() {
    let file = choosing("tiny-glm-dsa", 24);
    let all = engine(&file, Class::Many, CacheKind::F32).config().index.clone().expect("an index").own;
    assert_eq!(all, [true; 3]);
    let types = vec![1u32, 0, 1];
    let other = weights::edited(&file, |writer| _ = writer.set("glm-dsa.attention.indexer.types", types), |_, _| ());
    let mut some = engine(&other, Class::Many, CacheKind::F32);
    assert_eq!(some.config().index.as_ref().expect("an index").own, [true, false, true]);
    let few = last_logits(&mut some, 7);
    assert!(nmse(&few, &reference("tiny-glm-dsa-best-24", VOCAB as usize)) > 1e-4, "it is another model");
    for way in WAYS {
        let error = nmse(&last_logits(&mut engine(&other, way, CacheKind::F32), PROMPT), &few);
        assert!(error <= SAME, "{way:?}: {error:e}");
    }
}

/// A step of one token has another program while its past is short, which does not choose, but keeps the keys of the index.
#[test]
fn a_text_that_grows_from_where_all_is_chosen() {
    let (file, text) = (choosing("tiny-glm-dsa", 128), [prompt(), prompt()].concat());
    let run = |short: Option<Short>| {
        let mut options = EngineOptions { context: 192, ..options(Class::Many, CacheKind::F32) };
        options.compiler.prices.short = short;
        let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
        let classes = [0, 127, 128].map(|start| engine.class_of(1, start));
        let step = |at: usize| engine.step(&text[at..=at], at, 0..1).expect("a step").to_vec();
        ((0..text.len()).flat_map(step).collect::<Vec<f32>>(), classes)
    };
    let (want, always) = run(None);
    let (got, classes) = run(Some(Short { pages: 2, heads: 4 }));
    assert_eq!([always, classes], [[Class::One; 3], [Class::Short, Class::Short, Class::One]]);
    let error = worst_row(&got, &want, VOCAB as usize);
    assert!(error <= SAME, "NMSE {error:e}");
}

/// Whether an engine of a context of 128 takes a file with one more tensor.
fn takes(file: &Gguf, name: &str) -> Result<(), String> {
    let more = weights::with_more(file, &[(name, vec![0.5; 32])]);
    let engine = Engine::new(more, cpu(1), options(Class::Many, CacheKind::F32));
    engine.map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn all_of_an_index_that_chooses_is_read() {
    let (some, all) = (choosing("tiny-glm-dsa", 24), choosing("tiny-glm-dsa", 512));
    let name = "blk.1.indexer.attn_k.bias";
    let error = takes(&some, name).expect_err("nothing reads it");
    assert!(error.contains(&format!("tensor '{name}' is read by nothing")), "{error}");
    takes(&all, name).expect("there is no index");
    let types = vec![1u32, 0, 1];
    let other = weights::edited(&some, |writer| _ = writer.set("glm-dsa.attention.indexer.types", types), |_, _| ());
    takes(&other, name).expect("the layer has no index");
}

/// Positive ones leave the order of what is scored as it is, others turn it round.
#[test]
fn matrices_of_an_index_have_scales() {
    let file = choosing("tiny-deepseek32", 24);
    let want = last_logits(&mut engine(&file, Class::Many, CacheKind::F32), 7);
    for (part, scale, same) in [("proj", 2.0, true), ("attn_q_b", 2.0, true), ("proj", -1.0, false)] {
        let scaled = weights::with_more(&file, &[(&format!("blk.0.indexer.{part}.scale"), vec![scale])]);
        let error = nmse(&last_logits(&mut engine(&scaled, Class::Many, CacheKind::F32), 7), &want);
        assert_eq!(error <= SAME, same, "{part} times {scale}: NMSE {error:e}");
    }
}

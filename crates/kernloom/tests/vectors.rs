//! Embeddings and scores by the library.

mod support;

use kernloom::{Engine, Error, Numerics, Pooling, SamplerConfig};
use model::synth::{SynthOptions, SynthPlan};
use std::path::PathBuf;
use support::builder;

fn alike(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A small model of this shape, in a file.
fn small(shape: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{shape}-{}.gguf", std::process::id()));
    let plan = SynthPlan::new(shape, "f32", &SynthOptions { seed: 7, ..Default::default() }).expect("a known shape");
    std::fs::write(&path, plan.to_vec().expect("a file")).expect("a file");
    path
}

fn open(shape: &str) -> Engine {
    builder(small(shape)).context(256).numerics(Numerics::Exact).build().expect("a model")
}

#[test]
fn texts_become_vectors_beside_conversations() {
    let mut engine = builder("kernloom-demo")
        .context(512)
        .sampling(SamplerConfig::greedy())
        .wait_for_kernels(true)
        .build()
        .expect("the demo model");
    let said = |engine: &mut Engine| {
        engine.chat().say("What is the capital of Norway?").and_then(|reply| reply.text()).expect("an answer")
    };
    let before = said(&mut engine);
    let texts = ["What is the capital of France?", "What is the capital of Spain?", "A story about a fox."];
    let vectors = engine.embed(&texts).expect("vectors");
    assert_eq!(vectors.len(), 3);
    for vector in &vectors {
        assert_eq!(vector.len(), engine.config().hidden as usize);
        assert!((alike(vector, vector) - 1.0).abs() < 1e-5);
    }
    assert!(alike(&vectors[0], &vectors[1]) > alike(&vectors[0], &vectors[2]));
    assert_eq!(
        engine.embed(&texts[..1]).expect("a vector")[0],
        vectors[0],
        "a text does not depend on those before it"
    );
    assert_eq!(said(&mut engine), before);
    let none: [&str; 0] = [];
    assert!(engine.embed(&none).expect("nothing").is_empty());
    let long = engine.embed(&["a fox ".repeat(600)]).expect_err("too long").to_string();
    assert!(long.contains("the context holds 512"), "{long}");
}

#[test]
fn long_texts_are_pooled_over_several_steps() {
    let mut engine = builder("kernloom-demo").context(2048).wait_for_kernels(true).build().expect("a model");
    let text = "A fox runs. ".repeat(150);
    let whole = engine.embed(&[&text]).expect("a vector");
    assert!((alike(&whole[0], &whole[0]) - 1.0).abs() < 1e-5);
}

#[test]
fn models_that_see_ahead_make_vectors_as_their_file_says() {
    let mut engine = open("tiny-bert");
    assert_eq!(engine.config().pooling, Some(Pooling::Mean));
    let mean = engine.embed(&["some text"]).expect("a vector").remove(0);
    let path = small("tiny-bert");
    let first = builder(path).context(256).numerics(Numerics::Exact).pooling(Pooling::First).build();
    let first = first.expect("a model").embed(&["some text"]).expect("a vector").remove(0);
    assert!(alike(&mean, &first) < 0.999);
    let text = engine.complete("some", Some(1)).err().expect("no text").to_string();
    assert!(text.contains("makes embeddings and writes no text"), "{text}");
    let ranks = engine.rank("q", &["d"]).expect_err("no head").to_string();
    assert!(ranks.contains("'bert' ranks no texts here"), "{ranks}");
}

#[test]
fn models_that_make_text_of_masks_do_not_go_on() {
    let mut engine = open("tiny-llada");
    let text = engine.complete("some", Some(1)).err().expect("no text").to_string();
    assert!(text.starts_with("'llada' makes text of masks"), "{text}");
}

#[test]
fn what_makes_no_vector_is_refused_at_once() {
    for pooling in [Pooling::Rank, Pooling::Each] {
        let refused = builder("no file").pooling(pooling).build().err().expect("no vector").to_string();
        assert!(refused.starts_with(&format!("Builder::pooling takes Mean, First or Last, and not {pooling:?}")));
    }
}

#[test]
fn models_that_rank_give_scores() {
    for shape in ["tiny-bert-rank", "tiny-qwen3-rank", "tiny-modern-bert-rank"] {
        let mut engine = open(shape);
        let scores = engine.rank("what", &["one", "another text", "one"]).expect("scores");
        assert!(scores.iter().all(|score| score.is_finite()), "{shape}: {scores:?}");
        assert_eq!(scores[0], scores[2], "{shape}");
        assert_ne!(scores[0], scores[1], "{shape}");
        let refused = engine.embed(&["text"]).expect_err("it ranks");
        assert!(matches!(refused, Error::Pooling(Pooling::Rank)) && refused.to_string().contains("Engine::rank"));
    }
}

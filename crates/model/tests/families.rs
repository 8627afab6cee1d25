//! Logits of small models of many families against those of llama.cpp.
//!
//! Files are made from seeds; the references are in `families/`: logits of the last tokens of a prompt that is longer than any
//! window, hidden states of models of embeddings, or scores of models that rank, little-endian f32, one row a token. They were computed by llama.cpp as
//! llama-cpp-python 0.3.36 carries it, on one thread of a CPU in f32, from the same files (`kernloom synth SHAPE -q f32 -s 7`).

use crate::support::{self, cpu, synth, weights, worst_row};
use compiler::Numerics;
use model::batch::Batch;
use model::cache::CacheKind;
use model::config::{Attention, Config, Pooling, Reads};
use model::engine::{Engine, EngineOptions, Sharing};
use model::family::Norm;
use model::step::{Class, Output};
use model::steps::Steps;
use std::path::Path;

/// Tokens of the prompt.
pub const PROMPT: usize = 90;

/// Tokens that have a reference.
const COMPARED: usize = 3;

pub const VOCAB: u32 = 512;

/// NMSE at most. That of families with a GELU is an error of the reference, which takes it from a table of halves; those of
/// gemma4, whose scores are not scaled, were computed without the table.
const BOUND: f64 = 1e-6;

/// What a score may be off at most.
const SCORE_BOUND: f32 = 1e-5;

/// A prompt, as the reference has it: a linear congruential generator.
pub fn prompt() -> Vec<u32> {
    let mut state = 12345u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % (VOCAB - 1)
    };
    (0..PROMPT).map(|_| next()).collect()
}

/// Logits of the last tokens, in steps of so many.
pub fn last_logits(steps: &mut dyn Steps, batch: usize) -> Vec<f32> {
    let (ids, mut out) = (prompt(), vec![]);
    for (number, chunk) in ids.chunks(batch).enumerate() {
        let logits = steps.step(chunk, number * batch, 0..chunk.len()).expect("a step");
        out.extend_from_slice(logits);
    }
    out.split_off((PROMPT - COMPARED) * VOCAB as usize)
}

/// The reference of a model, in rows of so many values.
pub fn reference(shape: &str, width: usize) -> Vec<f32> {
    let want = values_of(shape);
    assert_eq!(want.len(), COMPARED * width, "{shape}");
    want
}

/// The values of a reference.
fn values_of(shape: &str) -> Vec<f32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/families").join(format!("{shape}.f32"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn check(shape: &str) {
    let want = reference(shape, VOCAB as usize);
    let file = synth(shape, "f32", None);
    // Token by token, few, and a prompt that is read by runs.
    for batch in [1, 7, PROMPT] {
        let mut compiler = support::options(Numerics::Exact);
        if batch == PROMPT {
            compiler.prices.alone = f64::INFINITY;
        }
        let options = EngineOptions { compiler, context: 128, chunk: PROMPT as i64, cache: CacheKind::F32 };
        let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
        // Some models have few tokens in a step.
        let batch = batch.min(engine.chunk());
        let by_runs = matches!(engine.config().attention, Attention::Grouped { .. }) && batch == PROMPT;
        assert!(!by_runs || engine.class_of(batch, 0) == Class::Prompt, "{shape}");
        let error = worst_row(&last_logits(&mut engine, batch), &want, VOCAB as usize);
        println!("{shape} in steps of {batch}: NMSE {error:.1e}");
        assert!(error <= BOUND, "{shape} in steps of {batch}: NMSE {error:e}");
    }
}

/// As [`check`] for a model of embeddings, whose reference is hidden states: all tokens of a text come in one step, beside
/// another text.
fn check_embeddings(shape: &str) {
    let file = synth(shape, "f32", None);
    let other = &prompt()[3..8];
    for (class, alone) in [(Class::Many, 0.0), (Class::Prompt, f64::INFINITY)] {
        let mut compiler = support::options(Numerics::Exact);
        compiler.prices.alone = alone;
        let options = EngineOptions { compiler, context: 128, chunk: 8, cache: CacheKind::F32 };
        let sharing = Sharing { sequences: 2, positions: 256, rows: None, whole_windows: false };
        let mut engine = Engine::shared(file.clone(), cpu(2), options, sharing).expect("an engine");
        let mut batch = Batch::new(engine.limits());
        batch.set_output(Output::Hidden);
        batch.add(other, 0, &[2]).expect("a text");
        batch.add(&prompt(), 0, &[3, 1]).expect("a text");
        batch.want(other.len() + PROMPT - COMPARED..other.len() + PROMPT);
        assert_eq!(batch.variant().class, class, "{shape}");
        let width = engine.config().hidden as usize;
        let error = worst_row(engine.run(&batch).expect("a step"), &reference(shape, width), width);
        println!("{shape} as {}: NMSE {error:.1e}", class.words());
        assert!(error <= BOUND, "{shape} as {}: NMSE {error:e}", class.words());
    }
}

/// As [`check`] for a model that makes text of masks: all tokens of a text come in one step, and it goes on with none.
fn check_denoiser(shape: &str) {
    let (file, want) = (synth(shape, "f32", None), reference(shape, VOCAB as usize));
    for (class, alone) in [(Class::Many, 0.0), (Class::Prompt, f64::INFINITY)] {
        let mut compiler = support::options(Numerics::Exact);
        compiler.prices.alone = alone;
        let options = EngineOptions { compiler, context: 128, chunk: 8, cache: CacheKind::F32 };
        let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
        assert_eq!(engine.class_of(PROMPT, 0), class, "{shape}");
        let error = worst_row(&last_logits(&mut engine, PROMPT), &want, VOCAB as usize);
        println!("{shape} as {}: NMSE {error:.1e}", class.words());
        assert!(error <= BOUND, "{shape} as {}: NMSE {error:e}", class.words());
        let error = engine.step(&[1], PROMPT, 0..1).expect_err("a part of a text").to_string();
        assert!(error.contains("read as a whole"), "{error}");
    }
    let config = Config::read(&file).expect("a model");
    let error = config.check_goes_on().expect_err("no next token").to_string();
    assert!(error.starts_with(&format!("'{}' makes text of masks", config.arch)), "{error}");
}

/// As [`check_embeddings`] for a model that ranks, whose reference is the scores of the prompt.
fn check_scores(shape: &str) {
    let file = synth(shape, "f32", None);
    let other = &prompt()[3..8];
    for (class, alone) in [(Class::Many, 0.0), (Class::Prompt, f64::INFINITY)] {
        let mut compiler = support::options(Numerics::Exact);
        compiler.prices.alone = alone;
        let options = EngineOptions { compiler, context: 128, chunk: 128, cache: CacheKind::F32 };
        let sharing = Sharing { sequences: 2, positions: 256, rows: None, whole_windows: false };
        let mut engine = Engine::shared(file.clone(), cpu(2), options, sharing).expect("an engine");
        let ranking = engine.config().ranking.expect("a head");
        assert_eq!(engine.config().pooling, Some(Pooling::Rank));
        let row = |first: usize, len: usize| match ranking.reads {
            Reads::First => first..first + 1,
            _ => first + len - 1..first + len,
        };
        let mut batch = Batch::new(engine.limits());
        batch.set_output(Output::Scores);
        batch.add(other, 0, &[2]).expect("a text");
        batch.want(row(0, other.len()));
        batch.add(&prompt(), 0, &[3, 1]).expect("a text");
        batch.want(row(other.len(), PROMPT));
        assert_eq!(batch.variant().class, class, "{shape}");
        let scores = engine.run(&batch).expect("a step").to_vec();
        let want = values_of(shape);
        let labels = ranking.labels as usize;
        assert_eq!((scores.len(), want.len()), (2 * labels, labels), "{shape}");
        let worst = scores[labels..].iter().zip(&want).map(|(is, want)| (is - want).abs()).fold(0.0, f32::max);
        println!("{shape} as {}: {:?}, off by {worst:.1e}", class.words(), &scores[labels..]);
        assert!(worst <= SCORE_BOUND, "{shape} as {}: {scores:?} instead of {want:?}", class.words());
        assert!((scores[0] - scores[labels]).abs() > 10.0 * SCORE_BOUND, "{shape}: texts differ");
        batch.clear();
        batch.set_output(Output::Scores);
        batch.add(other, 0, &[2]).expect("a text");
        batch.want(row(0, other.len()));
        let alone = engine.run(&batch).expect("a step");
        assert!((alone[0] - scores[0]).abs() <= 1e-5, "{shape}: {alone:?} alone, {scores:?} beside another");
        if ranking.reads == Reads::Last {
            batch.clear();
            batch.set_output(Output::Scores);
            batch.add(&[other[0]], 0, &[2]).expect("a text");
            batch.want_last();
            assert_eq!(engine.run(&batch).expect("a step").len(), labels, "{shape}: one token");
        }
    }
}

macro_rules! rankings {
    ($($test:ident $shape:literal;)*) => {$(
        #[test]
        fn $test() {
            check_scores($shape);
        }
    )*};
}

rankings! {
    scores_of_first_tokens "tiny-bert-rank";
    scores_of_one_matrix "tiny-jina-rank";
    scores_of_means "tiny-modern-bert-rank";
    scores_of_answers "tiny-qwen3-rank";
}

#[test]
fn who_has_no_head_gives_no_scores() {
    let options =
        EngineOptions { compiler: support::options(Numerics::Exact), context: 128, chunk: 8, cache: CacheKind::F32 };
    let mut engine = Engine::new(synth("tiny-bert", "f32", None), cpu(2), options).expect("an engine");
    let mut batch = Batch::new(engine.limits());
    batch.set_output(Output::Scores);
    batch.add(&[1, 2], 0, &[0]).expect("a text");
    batch.want_last();
    let error = engine.run(&batch).expect_err("no scores").to_string();
    assert!(error.starts_with("'bert' ranks no texts here: its file has no head"), "{error}");
}

#[test]
fn who_sees_what_follows_writes_no_text() {
    let options =
        EngineOptions { compiler: support::options(Numerics::Exact), context: 128, chunk: 8, cache: CacheKind::F32 };
    let mut engine = Engine::new(synth("tiny-bert", "f32", None), cpu(2), options).expect("an engine");
    let error = engine.step(&[1, 2], 0, 1..2).expect_err("no logits");
    assert_eq!(
        error.to_string(),
        "'bert' makes embeddings and writes no text: kernloom serve has them at /v1/embeddings and /embedding"
    );
}

macro_rules! embeddings {
    ($($test:ident $shape:literal;)*) => {$(
        #[test]
        fn $test() {
            check_embeddings($shape);
        }
    )*};
}

embeddings! {
    norms_of_sums_and_learned_positions "tiny-bert";
    rotations_of_encoders "tiny-nomic-bert";
    experts_of_encoders "tiny-nomic-bert-moe";
    biases_of_distance_in_both_directions "tiny-jina-bert-v2";
    a_stream_that_is_added_twice "tiny-jina-code";
    rotations_and_biases_of_encoders "tiny-jina-bert-v3";
    windows_around_tokens_and_a_block_without_a_norm "tiny-modern-bert";
    one_matrix_of_queries_keys_and_values_of_an_encoder "tiny-neo-bert";
    root_mean_squares_of_an_encoder "tiny-eurobert";
    a_llama_that_sees_what_follows "tiny-llama-embed";
    biases_of_distances_in_buckets "tiny-t5encoder";
    biases_of_distances_in_buckets_and_no_gates "tiny-t5encoder-ungated";
    windows_around_tokens_and_matrices_behind "tiny-gemma-embedding";
}

macro_rules! denoisers {
    ($($test:ident $shape:literal;)*) => {$(
        #[test]
        fn $test() {
            check_denoiser($shape);
        }
    )*};
}

denoisers! {
    masks_of_a_llama "tiny-llada";
    masks_of_experts_with_norms_of_heads "tiny-llada-moe";
    masks_of_halves_rotated "tiny-dream";
    masks_of_normalised_experts "tiny-rnd1";
}

macro_rules! families {
    ($($test:ident $shape:literal;)*) => {$(
        #[test]
        fn $test() {
            check($shape);
        }
    )*};
}

families! {
    experts_of_llamas "tiny-mixtral";
    a_shared_expert_with_a_gate "tiny-qwen2moe";
    a_dense_lead_and_sigmoids "tiny-glm4moe";
    sinks_windows_and_experts_with_biases "tiny-gpt-oss";
    caps_windows_and_norms_on_both_sides "tiny-gemma2";
    windows_with_a_rotation_of_their_own "tiny-gemma3";
    several_residual_streams_and_sparse_gates "tiny-gemma3n";
    windows_with_heads_of_their_own_shared_caches_and_inputs_of_layers "tiny-gemma4";
    values_of_keys_and_experts_beside_a_feed_forward "tiny-gemma4moe";
    sinks_in_windows_and_scales_of_values "tiny-mimo2";
    gates_by_softplus_and_windows_without_scaling "tiny-laguna";
    query_heads_and_limits_by_layer_and_half_rotations "tiny-step3.5";
    experts_that_weigh_what_they_read "tiny-llama4";
    routers_that_read_before_attention "tiny-smallthinker";
    layers_without_positions "tiny-smollm3";
    norms_after_and_over_all_heads "tiny-olmo2";
    rotations_in_windows_only "tiny-exaone-moe";
    scales_of_embedding_residuals_and_logits "tiny-granite";
    a_feed_forward_beside_attention "tiny-cohere2";
    a_mean_of_routed_and_shared_experts "tiny-cohere2moe";
    layer_norms_and_biases "tiny-starcoder2";
    squares_and_half_a_rotation "tiny-nemotron";
    short_convolutions "tiny-lfm2";
    state_spaces "tiny-mamba2";
    states_that_each_channel_forgets_at_its_own_pace "tiny-mamba";
    such_states_attention_and_experts_as_routers_say "tiny-jamba";
    state_spaces_of_what_a_convolution_gives "tiny-plamo2";
    state_spaces_attention_and_feed_forwards_apart "tiny-nemotron-h";
    experts_without_gates_behind_a_latent "tiny-nemotron-h-moe";
    delta_rules_with_a_pace_for_each_value_and_latents_without_positions "tiny-kimi-linear";
    delta_rules_with_a_bound_and_gates_of_latents "tiny-bailingmoe3";
    delta_rules_of_two_keys_beside_the_token_before "tiny-rwkv7";
    delta_rules_of_two_keys_without_gates "tiny-arwkv7";
    decays_that_a_token_says_and_a_stream_that_is_halved "tiny-rwkv6";
    decays_that_a_token_says_and_heads_that_share_keys "tiny-rwkv6qwen2";
    heads_that_forget_at_a_pace_of_their_layer "tiny-minimax-01";
    experts_that_groups_share "tiny-grovemoe";
    one_matrix_of_queries_keys_and_values_beside_that_of_pictures "tiny-cogvlm";
    limits_of_gates_before_their_activation "tiny-maple";
    bare_norms_of_the_embedding_and_another_epsilon_after "tiny-muse-glimmer";
    bare_norms_and_embeddings_in_every_block "tiny-talkie";
    delta_rules "tiny-qwen3.5";
    delta_rules_by_heads_of_keys_and_experts "tiny-qwen3-next";
    biases_of_distance_and_one_matrix_of_queries_keys_and_values "tiny-bloom";
    latents_rotated_by_halves_and_scales_of_the_family "tiny-minicpm3";
    latents_and_squares "tiny-plm";
    latents_with_queries_that_grow "tiny-mistral4";
    latents_beside_an_index "tiny-deepseek32";
    latents_beside_an_index_and_sigmoids "tiny-glm-dsa";
    heads_by_layer_and_layers_without "tiny-deci";
    activations_with_parameters_by_layer "tiny-apertus";
    rotations_by_the_number_of_layers "tiny-baichuan";
    biases_of_distance_by_the_number_of_layers "tiny-baichuan-13b";
    experts_that_read_before_attention_beside_a_feed_forward "tiny-arctic";
    experts_and_a_feed_forward_by_the_root_of_a_half "tiny-grok";
}

#[test]
fn the_kind_of_norms_may_be_told_by_the_key_of_their_epsilon() {
    let file = synth("tiny-cohere2moe", "f32", None);
    assert_eq!(Config::read(&file).expect("a model").norm, Norm::Layer);
    let key = "cohere2moe.attention.layer_norm_rms_epsilon";
    let other = weights::edited(&file, |writer| _ = writer.set(key, 1e-4f32), |_, _| ());
    let config = Config::read(&other).expect("a model");
    assert_eq!((config.norm, config.eps), (Norm::Rms, 1e-4));
}

//! Metadata and tensors that make no sense: each is one clear error of a type, whatever the value. Nothing panics, and
//! nothing is allocated by what a file claims.

use crate::support::hollow::Hollow;
use crate::support::{self, synth, weights};
use compiler::Numerics;
use device::Null;
use gguf::{GgmlType, Gguf, ValueBuf, Writer};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::error::EngineError;
use model::step::Class;
use model::synth::{SynthOptions, SynthPlan, shapes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn engine(file: &Arc<Gguf>) -> Result<Engine, EngineError> {
    let options =
        EngineOptions { compiler: support::options(Numerics::Int8), context: 128, chunk: 64, cache: CacheKind::F16 };
    Engine::new(file.clone(), Arc::new(Null), options)
}

/// Everything that happens to a file before it runs.
fn open(file: &Arc<Gguf>) -> Result<(), EngineError> {
    let mut engine = engine(file)?;
    Class::ALL.into_iter().try_for_each(|class| engine.compile(class).map(|_| ()))
}

/// What a file says that must not run: one line.
fn refused(file: &Arc<Gguf>, what: &str) -> String {
    let opened = catch_unwind(AssertUnwindSafe(|| open(file))).unwrap_or_else(|_| panic!("{what} panics"));
    let error = opened.err().unwrap_or_else(|| panic!("{what} is taken")).to_string();
    assert!(!error.contains('\n') && error.len() < 200, "{what}: {error}");
    assert!(!error.contains("a bug of the compiler"), "{what}: {error}");
    error
}

/// A file with other metadata; `None` takes a key away.
fn changed(file: &Gguf, changes: &[(String, Option<ValueBuf>)]) -> Arc<Gguf> {
    let mut writer = Writer::new();
    writer.copy_metadata(file.metadata());
    for (key, value) in changes {
        match value {
            Some(value) => writer.set(key.clone(), value.clone()),
            None => writer.remove(key),
        };
    }
    written(file, writer, |_, ty, shape| Some((ty, shape.to_vec())))
}

/// A file with other tensors: of each its type and shape, or nothing. Weights are zero but for those that are the same.
fn written(
    file: &Gguf,
    mut writer: Writer,
    tensor: impl Fn(&str, GgmlType, &[u64]) -> Option<(GgmlType, Vec<u64>)>,
) -> Arc<Gguf> {
    for t in file.tensors() {
        if let Some((ty, shape)) = tensor(&t.name, t.ty, t.shape()) {
            writer.tensor(&t.name, ty, &shape).expect("a legal tensor");
        }
    }
    let data = |t: &gguf::Tensor| -> Vec<u8> {
        let old = file.tensor(&t.name).expect("a tensor of the file");
        match (t.ty, t.dims) == (old.ty, old.dims) {
            true => file.data(old).to_vec(),
            false => vec![0; (t.rows() * t.ty.row_bytes(t.dims[0]).expect("whole blocks")) as usize],
        }
    };
    let bytes = writer.to_vec(|t, out| out.write_all(&data(t))).expect("a file");
    Arc::new(Gguf::parse(bytes).expect("a file that reads back"))
}

/// Shape, key below the name of the architecture, value, and what the error says.
fn values() -> Vec<(&'static str, &'static str, ValueBuf, &'static str)> {
    let (llama, latent, dense, gemma) = ("tiny-llama", "tiny-mla-moe", "tiny-mla-dense", "tiny-gemma4");
    let floats = |all: &[f32]| ValueBuf::from(all);
    let ints = |all: &[i32]| ValueBuf::from(all);
    let mut cases = vec![
        // Counts.
        (llama, "block_count", 0u32.into(), "expected 1 to 512"),
        (llama, "block_count", u32::MAX.into(), "expected 1 to 512"),
        (llama, "block_count", (-1i32).into(), "llama.block_count"),
        (llama, "block_count", i64::MIN.into(), "llama.block_count"),
        (llama, "block_count", u64::MAX.into(), "llama.block_count"),
        (llama, "block_count", 9u32.into(), "is missing"),
        (llama, "block_count", "four".into(), "llama.block_count"),
        (llama, "embedding_length", 0u32.into(), "expected 1 to"),
        (llama, "embedding_length", u32::MAX.into(), "expected 1 to"),
        (llama, "embedding_length", 96u32.into(), "has shape"),
        (llama, "attention.head_count", 0u32.into(), "expected 1 to 4096"),
        (llama, "attention.head_count", u32::MAX.into(), "expected 1 to 4096"),
        (llama, "attention.head_count", 3u32.into(), "a divisor of the query heads"),
        (llama, "attention.head_count_kv", 0u32.into(), "a divisor of the query heads"),
        (llama, "attention.head_count_kv", (1u64 << 41).into(), "expected a count"),
        (llama, "attention.head_count_kv", 1u32.into(), "has shape"),
        (llama, "attention.key_length", 0u32.into(), "a head of 2 to 4096"),
        (llama, "attention.key_length", u32::MAX.into(), "a head of 2 to 4096"),
        (llama, "attention.key_length", 4096u32.into(), "has shape"),
        (llama, "attention.value_length", 0u32.into(), "llama.attention.value_length = 0"),
        (llama, "attention.value_length", 5000u32.into(), "llama.attention.value_length = 5000"),
        (llama, "rope.dimension_count", 0u32.into(), "even, at most the head"),
        (llama, "rope.dimension_count", 7u32.into(), "even, at most the head"),
        (llama, "rope.dimension_count", 1000u32.into(), "even, at most the head"),
        (llama, "feed_forward_length", 0u32.into(), "expected 1 to"),
        (llama, "feed_forward_length", u64::MAX.into(), "llama.feed_forward_length"),
        (llama, "context_length", 0u32.into(), "expected 1 to 2147483647"),
        (llama, "context_length", u32::MAX.into(), "expected 1 to 2147483647"),
        (llama, "nextn_predict_layers", 99u32.into(), "fewer than the blocks"),
        // Arrays of a value for each block.
        (llama, "attention.head_count", ints(&[]), "an array of 0 values"),
        (llama, "attention.head_count", ints(&[4]), "a value for each of"),
        (llama, "attention.head_count", ints(&[4; 1000]), "an array of 1000 values"),
        (llama, "feed_forward_length", ints(&[512, 256]), "has shape"),
        (llama, "attention.head_count", ints(&[4, 2]), "blocks that differ"),
        (llama, "attention.head_count_kv", ints(&[2, 1]), "blocks that differ"),
        (llama, "attention.head_count", floats(&[4.0]), "llama.attention.head_count"),
        (llama, "block_count", ints(&[2, 2]), "llama.block_count"),
        // Numbers.
        (llama, "attention.layer_norm_rms_epsilon", f32::NAN.into(), "expected a number from"),
        (llama, "attention.layer_norm_rms_epsilon", (-1e-5f32).into(), "expected a number from"),
        (llama, "attention.layer_norm_rms_epsilon", 0f32.into(), "expected a number from"),
        (llama, "attention.layer_norm_rms_epsilon", f64::MAX.into(), "expected a number from"),
        ("tiny-cohere2moe", "attention.layer_norm_rms_epsilon", f32::NAN.into(), "expected a number from"),
        (llama, "attention.scale", f32::INFINITY.into(), "expected a number from"),
        (llama, "attention.scale", (-1f32).into(), "expected a number from"),
        (llama, "rope.freq_base", 0f32.into(), "expected a number from"),
        (llama, "rope.freq_base", 1f32.into(), "expected a number from"),
        (llama, "rope.freq_base", (-10000f32).into(), "expected a number from"),
        (llama, "rope.freq_base", f32::NAN.into(), "expected a number from"),
        (llama, "rope.freq_base", f64::MAX.into(), "expected a number from"),
        (llama, "rope.scaling.type", "longrope".into(), "none, linear, yarn, or longrope"),
        (llama, "rope.scaling.type", 3u32.into(), "llama.rope.scaling.type"),
        // What other families have a use for.
        (llama, "logit_scale", 0.5f32.into(), "this would be another model"),
        (llama, "attention.clamp_kqv", 8.0f32.into(), "this would be another model"),
        (gemma, "attention.causal", false.into(), "sees what is before it only"),
        ("tiny-apertus", "expert_count", 4u32.into(), "the activation has parameters by layer"),
        (llama, "interleave_moe_layer_step", 1000u32.into(), "expected 0 to"),
        (llama, "swiglu_clamp_exp", 7.0f32.into(), "this would be another model"),
        (llama, "attention.shared_kv_layers", 1u32.into(), "this would be another model"),
        // What layers have of their own.
        (gemma, "attention.shared_kv_layers", 2u32.into(), "expected 0 to 1"),
        (gemma, "attention.key_length_swa", 1u32.into(), "a head of 2 to 4096"),
        (gemma, "rope.dimension_count_swa", 7u32.into(), "even, at most the head"),
        ("tiny-step3.5", "swiglu_clamp_exp", f32::NAN.into(), "expected a number from"),
        ("tiny-step3.5", "swiglu_clamp_exp", floats(&[7.0]), "a value for each of"),
        ("tiny-step3.5", "swiglu_clamp_shexp", floats(&[0.0, -1.0]), "expected a number from"),
        ("tiny-step3.5", "attention.head_count", ints(&[6, 5]), "blocks that differ"),
        ("tiny-step3.5", "attention.head_count", 4u32.into(), "a divisor of the query heads"),
        ("tiny-mimo2", "attention.value_scale", f32::NAN.into(), "expected a number from"),
        (gemma, "embedding_length_per_layer_input", 32u32.into(), "has shape"),
        // Latent attention.
        (latent, "rope.dimension_count", 0u32.into(), "expected 1 to"),
        (latent, "rope.dimension_count", 31u32.into(), "even, and less than the key length"),
        (latent, "rope.dimension_count", 4000u32.into(), "even, and less than the key length"),
        (latent, "attention.kv_lora_rank", 0u32.into(), "expected 1 to"),
        (latent, "attention.kv_lora_rank", u32::MAX.into(), "expected 1 to"),
        (latent, "attention.q_lora_rank", u32::MAX.into(), "expected 0 to"),
        (latent, "attention.key_length_mla", u64::MAX.into(), "deepseek2.attention.key_length_mla"),
        (latent, "attention.key_length_mla", (1u64 << 39).into(), "expected 1 to 4096"),
        (latent, "attention.key_length_mla", 1u32.into(), "even, and less than the key length of 1"),
        (latent, "attention.value_length_mla", 0u32.into(), "expected 1 to 4096"),
        (latent, "attention.value_length_mla", (1u64 << 39).into(), "expected 1 to 4096"),
        ("tiny-kimi-linear", "kda.head_dim", 0u32.into(), "expected 1 to 4096"),
        ("tiny-kimi-linear", "kda.head_dim", 32u32.into(), "has shape"),
        ("tiny-bailingmoe3", "kda.gate_lower_bound", f32::NAN.into(), "expected a number from"),
        ("tiny-bailingmoe3", "kda.gate_lower_bound", 1.0f32.into(), "expected a number from"),
        ("tiny-bailingmoe3", "kda.safe_gate", false.into(), "expected a bound"),
        ("tiny-glm-dsa", "attention.indexer.top_k", 0u32.into(), "expected 1 to"),
        ("tiny-glm-dsa", "attention.indexer.key_length", 16u32.into(), "at least the 32 values that are rotated"),
        (
            "tiny-glm-dsa",
            "attention.indexer.types",
            vec![0u32, 1].into(),
            "it has none before it whose choice it reads",
        ),
        ("tiny-grovemoe", "experts_per_group", 3u32.into(), "a divisor of 8 experts"),
        ("tiny-grovemoe", "experts_per_group", 0u32.into(), "expected 1 to"),
        ("tiny-grovemoe", "expert_group_scale", f32::NAN.into(), "expected a number from"),
        ("tiny-llada", "attention.causal", true.into(), "a token sees what follows"),
        ("tiny-maple", "swiglu_clamp_exp", floats(&[7.0]), "a value for each of"),
        ("tiny-mamba", "ssm.time_step_rank", 8u32.into(), "has shape"),
        ("tiny-mamba", "ssm.state_size", 0u32.into(), "expected 1 to"),
        ("tiny-minimax-01", "attention.recurrent_layers", ints(&[1]), "a value for each of"),
        ("tiny-rwkv7", "wkv.head_size", 0u32.into(), "expected 1 to 4096"),
        ("tiny-rwkv7", "wkv.head_size", 48u32.into(), "a divisor of 256"),
        ("tiny-rwkv7", "attention.decay_lora_rank", 33u32.into(), "has shape"),
        ("tiny-rwkv7", "attention.gate_lora_rank", 0u32.into(), "has shape"),
        ("tiny-rwkv7", "token_shift_count", 1u32.into(), "expected 2"),
        ("tiny-rwkv7", "rescale_every_n_layers", 6u32.into(), "has no use for it here"),
        ("tiny-arwkv7", "token_shift_count", 2u32.into(), "expected 1"),
        ("tiny-rwkv6", "time_mix_extra_dim", 0u32.into(), "expected 1 to"),
        ("tiny-rwkv6", "rescale_every_n_layers", u32::MAX.into(), "expected 0 to 512"),
        ("tiny-rwkv6qwen2", "attention.head_count_kv", 3u32.into(), "a divisor of 4"),
        ("tiny-rwkv6qwen2", "attention.head_count_kv", 1u32.into(), "has shape"),
        ("tiny-t5encoder", "attention.relative_buckets_count", 0u32.into(), "expected 1 to 508"),
        ("tiny-t5encoder", "attention.relative_buckets_count", 512u32.into(), "expected 1 to 508"),
        ("tiny-t5encoder", "attention.relative_buckets_count", 30u32.into(), "a multiple of 4"),
        ("tiny-t5encoder", "attention.relative_buckets_count", 16u32.into(), "has shape"),
        ("tiny-llama", "attention.relative_buckets_count", 32u32.into(), "has no use for it here"),
        ("tiny-plamo2", "ssm.time_step_rank", 7u32.into(), "a divisor of"),
        // Heads that rank.
        ("tiny-bert-rank", "classifier.pooling_type", 0u32.into(), "expected 1 (mean) or 2"),
        ("tiny-bert-rank", "classifier.pooling_type", (1u64 << 40).into(), "expected 1 (mean) or 2"),
        ("tiny-qwen3-rank", "classifier.pooling_type", 1u32.into(), "a token sees what is before it only"),
        // Experts.
        (latent, "expert_count", u32::MAX.into(), "at most 1024 experts"),
        (latent, "expert_count", 0u32.into(), "is missing"),
        (latent, "expert_count", 1u32.into(), "expected 1 to 1"),
        (latent, "expert_used_count", 0u32.into(), "expert_used_count = 0"),
        (latent, "expert_used_count", 1000u32.into(), "expert_used_count = 1000"),
        (latent, "expert_shared_count", u32::MAX.into(), "expected 0 to 1024"),
        (latent, "expert_shared_count", (1u64 << 39).into(), "expected 0 to 1024"),
        (latent, "expert_shared_count", 1000u32.into(), "has shape"),
        (latent, "expert_feed_forward_length", (1u64 << 39).into(), "expected 0 to"),
        (latent, "expert_group_count", 4u32.into(), "groups of equal size"),
        (latent, "expert_group_count", 1_000_000u32.into(), "groups of equal size"),
        (latent, "moe_latent_size", u32::MAX.into(), "expected 0 to"),
        (latent, "moe_latent_size", 64u32.into(), "is missing"),
        (latent, "expert_gating_func", 7u32.into(), "softmax (1), sigmoid (2) or"),
        (latent, "expert_weights_scale", f32::NAN.into(), "expected a number from"),
        (latent, "expert_weights_scale", (-1f32).into(), "expected a number from"),
        (latent, "expert_weights_scale", f64::MAX.into(), "expected a number from"),
        (latent, "expert_weights_norm", 1u32.into(), "deepseek2.expert_weights_norm"),
        (latent, "leading_dense_block_count", 1_000_000u32.into(), "expected 0 to"),
        (latent, "leading_dense_block_count", 0u32.into(), "is missing"),
        (dense, "leading_dense_block_count", u64::MAX.into(), "deepseek2.leading_dense_block_count"),
    ];
    for yarn in [
        ("yarn_beta_fast", 0f32, "expected a number from"),
        ("yarn_beta_fast", f32::NAN, "expected a number from"),
        ("yarn_beta_slow", -1.0, "expected a number from"),
        ("yarn_beta_slow", f32::INFINITY, "expected a number from"),
        ("yarn_log_multiplier", f32::NAN, "expected a number from"),
        ("yarn_log_multiplier", f32::MAX, "expected a number from"),
        ("factor", f32::NAN, "expected a number from"),
        ("factor", -4.0, "expected a number from"),
        ("factor", f32::MAX, "expected a number from"),
    ] {
        cases.push(("tiny-mla-softmax", yarn.0, yarn.1.into(), yarn.2));
    }
    cases.push(("tiny-mla-softmax", "original_context_length", 0u32.into(), "expected 1 to"));
    cases
}

#[test]
fn values_that_make_no_sense() {
    let mut files: std::collections::HashMap<&str, Arc<Gguf>> = Default::default();
    for (shape, key, value, says) in values() {
        let file = files.entry(shape).or_insert_with(|| synth(shape, "q4_0", Some(2)));
        let arch = file.architecture().expect("an architecture").to_owned();
        let of_scaling =
            ["yarn_beta_fast", "yarn_beta_slow", "yarn_log_multiplier", "factor", "original_context_length"];
        let key = if of_scaling.contains(&key) { format!("rope.scaling.{key}") } else { key.to_owned() };
        let what = format!("{arch}.{key} = {value:?}");
        let error = refused(&changed(file, &[(format!("{arch}.{key}"), Some(value))]), &what);
        assert!(error.contains(says), "{what}: {error}, expected '{says}'");
    }
}

#[test]
fn groups_of_experts_that_make_no_sense() {
    let file = synth("tiny-mla-moe", "q4_0", Some(2));
    let count: i64 = file.metadata().require("deepseek2.expert_count").expect("a count");
    let groups = |groups: i64, used: i64| {
        let set = |key: &str, v: i64| (format!("deepseek2.{key}"), Some(ValueBuf::from(v as u32)));
        let of_experts = set("expert_used_count", 3);
        changed(&file, &[set("expert_group_count", groups), set("expert_group_used_count", used), of_experts])
    };
    // Three experts are not in one pair.
    for (all, some) in [(count / 2, 1), (2, 2), (2, 3), (count, 1), (count + 1, 1)] {
        let error = refused(&groups(all, some), &format!("{some} of {all} groups"));
        assert!(error.contains("groups of equal size"), "{error}");
    }
    open(&groups(2, 1)).expect("half of the experts");
}

#[test]
fn heads_of_linear_attention_that_make_no_sense() {
    let file = synth("tiny-minimax-01", "q4_0", Some(2));
    let key = |name: &str| format!("minimax-01.{name}");
    for (head, hidden, heads) in [(None, 256, 4096), (None, 1 << 20, 1), (Some(0), 256, 4), (Some(5000), 256, 4)] {
        let changes = [
            (key("attention.key_length"), head.map(|head: u32| head.into())),
            (key("embedding_length"), Some(ValueBuf::from(hidden as u32))),
            (key("attention.head_count"), Some(ValueBuf::from(heads as u32))),
        ];
        let error = refused(&changed(&file, &changes), &format!("{heads} heads of {hidden} values, {head:?}"));
        assert!(error.contains("attention.key_length = ") && error.contains("a head of 1 to 4096"), "{error}");
    }
}

#[test]
fn labels_that_make_no_sense() {
    let file = synth("tiny-qwen3-rank", "q4_0", Some(1));
    let width = file.tensor("cls.output.weight").expect("a head").shape()[0];
    for (rows, says) in [(5000, "expected 1 to 4096 labels"), (0, "expected 1 to 4096 labels")] {
        let mut writer = Writer::new();
        writer.copy_metadata(file.metadata());
        let more = written(&file, writer, |name, ty, shape| match name {
            "cls.output.weight" => Some((ty, vec![width, rows])),
            _ => Some((ty, shape.to_vec())),
        });
        let error = refused(&more, &format!("{rows} labels"));
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn tensors_that_make_no_sense() {
    let file = synth("tiny-llama", "q4_0", Some(2));
    let same = || {
        let mut writer = Writer::new();
        writer.copy_metadata(file.metadata());
        writer
    };
    let with = |name: &str, ty: Option<GgmlType>, shape: &[u64]| {
        written(&file, same(), |n, old, dims| match n == name {
            true if shape.is_empty() => None,
            true => Some((ty.unwrap_or(old), shape.to_vec())),
            false => Some((old, dims.to_vec())),
        })
    };
    let embed = file.tensor("token_embd.weight").expect("an embedding").shape().to_vec();
    let (hidden, vocab) = (embed[0], embed[1]);
    for (name, ty, shape, says) in [
        ("token_embd.weight", None, vec![], "'token_embd.weight' is missing"),
        ("token_embd.weight", None, vec![hidden, 0], "expected 1 to 16777216 tokens"),
        ("token_embd.weight", None, vec![hidden], "token_embd.weight has rows for 1 tokens only"),
        ("token_embd.weight", None, vec![hidden, vocab - 1], "token_embd.weight has rows for"),
        ("token_embd.weight", None, vec![hidden, vocab + 1], "has shape"),
        ("token_embd.weight", None, vec![2 * hidden, vocab], "has shape"),
        ("token_embd.weight", None, vec![hidden, vocab, 2], "has shape"),
        ("output_norm.weight", None, vec![], "'output_norm.weight' is missing"),
        ("output_norm.weight", None, vec![hidden, 2], "has shape"),
        ("blk.1.attn_q.weight", None, vec![], "'blk.1.attn_q.weight' is missing"),
        ("blk.1.attn_q.weight", None, vec![hidden, 32], "has shape"),
        ("blk.0.ffn_down.weight", None, vec![], "'blk.0.ffn_down.weight' is missing"),
        ("blk.0.ffn_norm.weight", Some(GgmlType::I32), vec![hidden], "type I32, which is not supported"),
        ("blk.0.ffn_norm.weight", Some(GgmlType::F64), vec![hidden], "type F64, which is not supported"),
    ] {
        let what = format!("{name} {shape:?}");
        let error = refused(&with(name, ty, &shape), &what);
        assert!(error.contains(says), "{what}: {error}, expected '{says}'");
    }
}

/// A file whose keys and name of the architecture are those of another.
fn relabelled(file: &Gguf, arch: &str) -> Arc<Gguf> {
    let mut writer = Writer::new();
    let old = file.architecture().expect("an architecture");
    writer.copy_metadata(file.metadata());
    for (key, value) in file.metadata().iter() {
        if let Some(name) = key.strip_prefix(&format!("{old}.")) {
            writer.remove(key).set(format!("{arch}.{name}"), value);
        }
    }
    writer.set("general.architecture", arch);
    written(file, writer, |_, ty, shape| Some((ty, shape.to_vec())))
}

/// A file with one more tensor, of 32 zeros.
fn with_one_more(file: &Gguf, name: &str) -> Arc<Gguf> {
    weights::with_more(file, &[(name, vec![0.0; 32])])
}

#[test]
fn tensors_that_nothing_reads() {
    let says = |name: &str, arch: &str, blocks: i64| {
        format!(
            "tensor '{name}' is read by nothing in '{arch}' with a block_count of {blocks}: without it this would be \
             another model (correct the metadata, or convert the file again)"
        )
    };
    let llama = synth("tiny-llama", "q4_0", Some(2));
    let normed = relabelled(&synth("tiny-qwen3", "q4_0", Some(2)), "llama");
    assert_eq!(refused(&normed, "qwen3 as llama"), says("blk.0.attn_q_norm.weight", "llama", 2));
    let biased = relabelled(&synth("tiny-qwen2", "q4_0", Some(2)), "deepseek2");
    assert!(refused(&biased, "qwen2 as deepseek2").contains("deepseek2.attention.kv_lora_rank"));
    let plain = relabelled(&llama, "qwen3");
    let missing = "tensor 'blk.0.attn_q_norm.weight' is missing from the file";
    assert!(refused(&plain, "llama as qwen3").starts_with(missing));
    let shorter = changed(&llama, &[("llama.block_count".into(), Some(1u32.into()))]);
    assert_eq!(refused(&shorter, "one block of two"), says("blk.1.attn_norm.weight", "llama", 1));
    for name in [
        "blk.0.attn_sinks.weight",
        "blk.1.post_ffw_norm.weight",
        "blk.0.attn_gate.weight",
        "blk.7.attn_norm.weight",
        "blk.0.vis_gate.weight",
        "blk.0.time_mix_v0.weight",
        "blk.0.indexer.k_norm.weight",
        "attn_kv_b.weight",
    ] {
        assert_eq!(refused(&with_one_more(&llama, name), name), says(name, "llama", 2));
    }
    // By the names that they have in the file.
    let encoder = synth("tiny-t5encoder", "q4_0", Some(2));
    let name = "enc.blk.0.attn_sinks.weight";
    assert_eq!(refused(&with_one_more(&encoder, name), name), says(name, "t5encoder", 2));
    let mut writer = Writer::new();
    writer.copy_metadata(encoder.metadata());
    let name = "enc.blk.1.attn_o.weight";
    let less = written(&encoder, writer, |n, ty, shape| (n != name).then(|| (ty, shape.to_vec())));
    assert!(refused(&less, name).starts_with(&format!("tensor '{name}' is missing")));
    // What has a use in all families is looked at.
    for name in ["blk.0.attn_q.scale", "blk.1.ffn_norm.bias", "output.bias", "blk.0.attn_output.bias"] {
        let error = refused(&with_one_more(&llama, name), name);
        assert!(error.contains(&format!("tensor '{name}' has shape [32]")), "{error}");
    }
}

#[test]
fn tensors_that_may_lie_beside_a_model() {
    let (llama, latent) = (synth("tiny-llama", "q4_0", Some(2)), synth("tiny-mla-dense", "q4_0", Some(2)));
    let shared = synth("tiny-gemma4", "q4_0", None);
    for (file, name) in [
        // Of a layer that reads the keys of another.
        (&shared, "blk.4.attn_k.weight"),
        (&shared, "blk.5.attn_k_norm.weight"),
        (&llama, "rope_factors_long.weight"),
        (&llama, "rope_factors_short.weight"),
        (&llama, "blk.1.attn_rot_embd.weight"),
        (&llama, "blk.0.attn_rot_embd"),
        (&latent, "blk.1.attn_kv_b.weight"),
        (&latent, "rope_freqs.weight"),
    ] {
        open(&with_one_more(file, name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let encoder = synth("tiny-t5encoder", "q4_0", Some(2));
    engine(&with_one_more(&encoder, "enc.blk.1.attn_q.input_scale")).expect("a scale of what goes into a matrix");
    // There are llamas with biases, and they are added.
    open(&relabelled(&synth("tiny-qwen2", "q4_0", Some(2)), "llama")).expect("a llama with biases");
    // A head beside tied embeddings is the one that is read.
    let tied = latent.tensor("output.weight").is_none();
    let error = refused(&with_one_more(&latent, "output.weight"), "a head of another shape");
    assert!(tied && error.contains("'output.weight' has shape [32]"), "{error}");
    // Blocks that predict later tokens are known to the metadata, or are refused.
    let three = synth("tiny-mla-moe", "q4_0", Some(3));
    let set = |key: &str, value: u32| changed(&three, &[(format!("deepseek2.{key}"), Some(value.into()))]);
    open(&set("nextn_predict_layers", 1)).expect("two blocks and a predictor");
    let error = refused(&set("block_count", 2), "two blocks of three");
    assert!(error.contains("'blk.2.attn_norm.weight' is read by nothing in 'deepseek2'"), "{error}");
    // A predictor that the file leaves out.
    let says_more = [("block_count", 4u32), ("nextn_predict_layers", 1)];
    let says_more = says_more.map(|(key, value)| (format!("deepseek2.{key}"), Some(value.into())));
    open(&changed(&three, &says_more)).expect("three blocks");
}

#[test]
fn every_golden_file_and_shape_opens() {
    let folders = support::golden_folders();
    for path in folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| support::golden_in(folder)) {
        let file = Arc::new(Gguf::open(&path).expect("a golden file"));
        engine(&file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    // Those that remember have their files in `families.rs`.
    for shape in shapes().iter().filter(|shape| shape.recurrence.is_none()) {
        let (checked, took) = Hollow::new(shape.name, shape.layers).check_all_read();
        println!("{} of {} blocks: {took:.1?}", shape.name, shape.layers);
        checked.unwrap_or_else(|e| panic!("{}: {e}", shape.name));
    }
    let legacy = SynthOptions { layers: Some(2), legacy_kv_b: true, ..Default::default() };
    let legacy = SynthPlan::new("tiny-mla-moe", "q4_0", &legacy).and_then(|plan| plan.to_vec()).expect("a file");
    engine(&Arc::new(Gguf::parse(legacy).expect("a file that reads back"))).expect("keys and values as one matrix");
}

#[test]
fn divisors_of_rotations_that_make_no_sense() {
    let file = synth("tiny-llama", "q4_0", Some(1));
    let pairs: i64 = file.metadata().require("llama.rope.dimension_count").expect("a count");
    let pairs = pairs as u64 / 2;
    let with = |ty: GgmlType, count: u64, value: f32| {
        let mut writer = Writer::new();
        writer.copy_metadata(file.metadata());
        for t in file.tensors().iter().filter(|t| t.name != "rope_freqs.weight") {
            writer.tensor(&t.name, t.ty, t.shape()).expect("a legal tensor");
        }
        writer.tensor("rope_freqs.weight", ty, &[count]).expect("a legal tensor");
        let bytes = writer.to_vec(|t, out| match file.tensor(&t.name).filter(|_| t.name != "rope_freqs.weight") {
            Some(old) => out.write_all(file.data(old)),
            None if ty == GgmlType::F32 => (0..count).try_for_each(|_| out.write_all(&value.to_le_bytes())),
            None => out.write_all(&vec![0; ty.row_bytes(count).expect("whole blocks") as usize]),
        });
        Arc::new(Gguf::parse(bytes.expect("a file")).expect("a file that reads back"))
    };
    open(&with(GgmlType::F32, pairs, 2.0)).expect("all by two");
    for (ty, count, value, says) in [
        (GgmlType::F16, pairs, 1.0, "type F16, which is not supported"),
        (GgmlType::F32, pairs - 1, 1.0, "has shape"),
        (GgmlType::F32, 2 * pairs, 1.0, "has shape"),
        (GgmlType::F32, pairs, 0.0, "expected a divisor"),
        (GgmlType::F32, pairs, -1e-9, "expected a divisor"),
        (GgmlType::F32, pairs, 2e38, "expected a divisor"),
        (GgmlType::F32, pairs, f32::NAN, "expected a divisor"),
        (GgmlType::F32, pairs, f32::INFINITY, "expected a divisor"),
    ] {
        let what = format!("{count} divisors {value} of type {ty:?}");
        let error = refused(&with(ty, count, value), &what);
        assert!(error.contains(says) && error.contains("rope_freqs"), "{what}: {error}, expected '{says}'");
    }
}

#[test]
fn a_vocabulary_that_does_not_fit_the_embedding() {
    let file = synth("tiny-llama", "q4_0", Some(1));
    let tokens = |n: usize| {
        let all: Vec<String> = (0..n).map(|i| format!("t{i}")).collect();
        changed(&file, &[("tokenizer.ggml.tokens".into(), Some(ValueBuf::from(&all[..])))])
    };
    let error = refused(&tokens(100_000), "more tokens than rows");
    assert!(error.contains("tokenizer.ggml.tokens = an array of 100000 values"), "{error}");
    // Rows are padded to round numbers.
    open(&tokens(500)).expect("fewer tokens than rows");
    open(&changed(&file, &[("tokenizer.ggml.tokens".into(), None)])).expect("no vocabulary");
}

//! Writes what `demo/train.py` left in a folder as a GGUF file with BF16 matrices:
//! `cargo run --release -p kernloom-demo --example pack -- FOLDER OUT.gguf`. Then `kernloom quantize OUT.gguf
//! crates/demo/demo.gguf q8_0` makes the file that ships.

use anyhow::{Context, bail, ensure};
use gguf::{GgmlType, Writer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A tensor of a safetensors file.
struct Tensor {
    bf16: bool,
    /// Rows first, as the format has it.
    shape: Vec<usize>,
    data: Vec<u8>,
}

impl Tensor {
    /// Its elements as bytes.
    fn elements(&self) -> std::slice::ChunksExact<'_, u8> {
        self.data.chunks_exact(if self.bf16 { 2 } else { 4 })
    }
}

/// All tensors of the shards in a folder.
fn tensors(folder: &Path) -> anyhow::Result<BTreeMap<String, Tensor>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "safetensors") {
            continue;
        }
        let bytes = std::fs::read(&path)?;
        read_shard(&bytes, &mut all).with_context(|| path.display().to_string())?;
    }
    Ok(all)
}

fn read_shard(bytes: &[u8], all: &mut BTreeMap<String, Tensor>) -> anyhow::Result<()> {
    let (len, rest) = bytes.split_first_chunk::<8>().context("no header")?;
    let len = usize::try_from(u64::from_le_bytes(*len))?;
    let header: Value = serde_json::from_slice(rest.get(..len).context("a cut header")?)?;
    let data = &rest[len..];
    for (name, entry) in header.as_object().context("a header that is no object")? {
        let number = |v: &Value| v.as_u64().map(|n| n as usize).context("a number expected");
        let bf16 = match entry["dtype"].as_str() {
            Some("BF16") => true,
            Some("F32") => false,
            other => bail!("{name}: type {other:?}"),
        };
        let shape = entry["shape"].as_array().context("no shape")?.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let (start, end) = (number(&entry["data_offsets"][0])?, number(&entry["data_offsets"][1])?);
        let data = data.get(start..end).with_context(|| format!("{name} lies outside the file"))?.to_vec();
        let size = if bf16 { 2 } else { 4 };
        ensure!(data.len() == shape.iter().product::<usize>() * size, "{name} has another size than its shape");
        all.insert(name.clone(), Tensor { bf16, shape, data });
    }
    Ok(())
}

/// Rows `rows` of each head of a matrix `[heads * per_head, columns]`.
fn of_heads(matrix: &Tensor, per_head: usize, rows: std::ops::Range<usize>) -> Vec<&[u8]> {
    let rows_of = matrix.data.chunks_exact(matrix.shape[1] * 2).collect::<Vec<_>>();
    rows_of.chunks_exact(per_head).flat_map(|head| head[rows.clone()].iter().copied()).collect()
}

/// Each head's matrix `[rows, columns]` with rows and columns exchanged.
fn transposed(rows: &[&[u8]], per_head: usize) -> Vec<u8> {
    let columns = rows[0].len() / 2;
    let element = |head: &[&[u8]], row: usize, column: usize| [head[row][2 * column], head[row][2 * column + 1]];
    let heads = rows.chunks_exact(per_head);
    heads
        .flat_map(|head| (0..columns).flat_map(move |c| (0..per_head).flat_map(move |r| element(head, r, c))))
        .collect()
}

/// A GGUF file to be: metadata, and tensors with their data.
struct File {
    writer: Writer,
    data: Vec<Vec<u8>>,
}

impl File {
    /// Adds a tensor; `shape` has the contiguous dimension first.
    fn add(&mut self, name: &str, shape: &[usize], bf16: bool, data: Vec<u8>) -> anyhow::Result<()> {
        let ty = if bf16 { GgmlType::BF16 } else { GgmlType::F32 };
        self.writer.tensor(name, ty, &shape.iter().map(|&n| n as u64).collect::<Vec<_>>())?;
        self.data.push(data);
        Ok(())
    }

    /// Adds a tensor as it is.
    fn copy(&mut self, name: &str, tensor: &Tensor) -> anyhow::Result<()> {
        let shape: Vec<usize> = tensor.shape.iter().rev().copied().collect();
        self.add(name, &shape, tensor.bf16, tensor.elements().flatten().copied().collect())
    }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, out] = &arguments[..] else { bail!("usage: pack FOLDER OUT.gguf") };
    let folder = Path::new(folder);
    let json = |name: &str| -> anyhow::Result<Value> {
        let path = folder.join(name);
        Ok(serde_json::from_slice(&std::fs::read(&path).with_context(|| path.display().to_string())?)?)
    };
    let (config, tokenizer) = (json("config.json")?, json("tokenizer.json")?);
    let size = |key: &str| config[key].as_u64().map(|n| n as usize).with_context(|| format!("config.json: {key}"));
    let weights = tensors(folder)?;
    let get = |name: String| weights.get(&name).with_context(|| format!("tensor {name} is missing"));
    let mut file = File { writer: Writer::new(), data: vec![] };
    set_metadata(&mut file.writer, &config)?;
    set_tokenizer(&mut file.writer, &tokenizer)?;
    file.copy("token_embd.weight", get("model.embed_tokens.weight".into())?)?;
    let (heads, nope, value) = (size("num_attention_heads")?, size("qk_nope_head_dim")?, size("v_head_dim")?);
    let (rank, experts) = (size("kv_lora_rank")?, size("n_routed_experts")?);
    for layer in 0..size("num_hidden_layers")? {
        let of = |name: &str| get(format!("model.layers.{layer}.{name}"));
        for (name, theirs) in [
            ("attn_norm", "input_layernorm"),
            ("attn_q_a", "self_attn.q_a_proj"),
            ("attn_q_a_norm", "self_attn.q_a_layernorm"),
            ("attn_q_b", "self_attn.q_b_proj"),
            ("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"),
            ("attn_kv_a_norm", "self_attn.kv_a_layernorm"),
            ("attn_output", "self_attn.o_proj"),
            ("ffn_norm", "post_attention_layernorm"),
        ] {
            file.copy(&format!("blk.{layer}.{name}.weight"), of(&format!("{theirs}.weight"))?)?;
        }
        let kv_b = of("self_attn.kv_b_proj.weight")?;
        ensure!(
            kv_b.bf16 && kv_b.shape == [heads * (nope + value), rank],
            "layer {layer}: kv_b_proj has another shape"
        );
        let keys = transposed(&of_heads(kv_b, nope + value, 0..nope), nope);
        file.add(&format!("blk.{layer}.attn_k_b.weight"), &[nope, rank, heads], true, keys)?;
        let values = of_heads(kv_b, nope + value, nope..nope + value).concat();
        file.add(&format!("blk.{layer}.attn_v_b.weight"), &[rank, value, heads], true, values)?;
        if layer < size("first_k_dense_replace")? {
            for part in ["gate", "up", "down"] {
                file.copy(&format!("blk.{layer}.ffn_{part}.weight"), of(&format!("mlp.{part}_proj.weight"))?)?;
            }
            continue;
        }
        file.copy(&format!("blk.{layer}.ffn_gate_inp.weight"), of("mlp.gate.weight")?)?;
        file.copy(&format!("blk.{layer}.exp_probs_b.bias"), of("mlp.gate.e_score_correction_bias")?)?;
        for part in ["gate", "up", "down"] {
            let all = (0..experts).map(|e| of(&format!("mlp.experts.{e}.{part}_proj.weight")));
            let all = all.collect::<anyhow::Result<Vec<_>>>()?;
            let data = all.iter().flat_map(|t| t.data.iter().copied()).collect();
            let shape = [all[0].shape[1], all[0].shape[0], experts];
            file.add(&format!("blk.{layer}.ffn_{part}_exps.weight"), &shape, true, data)?;
            file.copy(
                &format!("blk.{layer}.ffn_{part}_shexp.weight"),
                of(&format!("mlp.shared_experts.{part}_proj.weight"))?,
            )?;
        }
    }
    file.copy("output_norm.weight", get("model.norm.weight".into())?)?;
    file.copy("output.weight", get("lm_head.weight".into())?)?;
    let mut data = file.data.iter();
    file.writer.write(out, |_, sink| data.next().map_or(Ok(()), |bytes| sink.write_all(bytes)))?;
    println!("{out}: {} tensors", file.data.len());
    Ok(())
}

/// What the model is and how it is shaped.
fn set_metadata(writer: &mut Writer, config: &Value) -> anyhow::Result<()> {
    let size = |key: &str| config[key].as_u64().map(|n| n as u32).with_context(|| format!("config.json: {key}"));
    let float = |key: &str| config[key].as_f64().map(|n| n as f32).with_context(|| format!("config.json: {key}"));
    writer.set("general.architecture", "deepseek2").set("general.type", "model").set("general.name", "Kernloom Demo");
    writer.set("general.description", "A very small model that comes with Kernloom: stories and simple questions");
    writer.set("general.size_label", "8.8M").set("general.license", "MIT OR Apache-2.0");
    writer.set("general.file_type", 32u32).set("general.quantization_version", 2u32);
    let (rank, rope) = (size("kv_lora_rank")?, size("qk_rope_head_dim")?);
    let sizes = [
        ("block_count", size("num_hidden_layers")?),
        ("context_length", size("max_position_embeddings")?),
        ("embedding_length", size("hidden_size")?),
        ("feed_forward_length", size("intermediate_size")?),
        ("vocab_size", size("vocab_size")?),
        ("attention.head_count", size("num_attention_heads")?),
        ("attention.head_count_kv", 1),
        ("attention.q_lora_rank", size("q_lora_rank")?),
        ("attention.kv_lora_rank", rank),
        // The cache as one key head; the true lengths have keys of their own.
        ("attention.key_length", rank + rope),
        ("attention.value_length", rank),
        ("attention.key_length_mla", size("qk_nope_head_dim")? + rope),
        ("attention.value_length_mla", size("v_head_dim")?),
        ("rope.dimension_count", rope),
        ("leading_dense_block_count", size("first_k_dense_replace")?),
        ("expert_count", size("n_routed_experts")?),
        ("expert_used_count", size("num_experts_per_tok")?),
        ("expert_feed_forward_length", size("moe_intermediate_size")?),
        ("expert_shared_count", size("n_shared_experts")?),
        ("expert_gating_func", 2),
        ("expert_group_count", 1),
        ("expert_group_used_count", 1),
    ];
    for (key, value) in sizes {
        writer.set(format!("deepseek2.{key}"), value);
    }
    for (key, value) in [
        ("attention.layer_norm_rms_epsilon", float("rms_norm_eps")?),
        ("rope.freq_base", float("rope_theta")?),
        ("expert_weights_scale", float("routed_scaling_factor")?),
    ] {
        writer.set(format!("deepseek2.{key}"), value);
    }
    writer.set("deepseek2.expert_weights_norm", true);
    Ok(())
}

/// The vocabulary and the chat template.
fn set_tokenizer(writer: &mut Writer, tokenizer: &Value) -> anyhow::Result<()> {
    let strings = |key: &str| -> anyhow::Result<Vec<String>> {
        let list = tokenizer[key].as_array().with_context(|| format!("tokenizer.json: {key}"))?;
        list.iter().map(|v| Ok(v.as_str().context("a string expected")?.to_owned())).collect()
    };
    let tokens = strings("tokens")?;
    let id = |text: &str| tokens.iter().position(|t| t == text).map(|i| i as u32).with_context(|| text.to_owned());
    let types = tokenizer["types"].as_array().context("tokenizer.json: types")?;
    let types: Vec<i32> = types.iter().map(|v| v.as_i64().unwrap_or(1) as i32).collect();
    writer.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "glm4");
    for (key, token) in [
        ("bos", "[gMASK]"),
        ("eos", "<|endoftext|>"),
        ("eot", "<|user|>"),
        ("eom", "<|observation|>"),
        ("unknown", "<|endoftext|>"),
        ("padding", "<|endoftext|>"),
    ] {
        writer.set(format!("tokenizer.ggml.{key}_token_id"), id(token)?);
    }
    // The template writes what a text begins with.
    writer.set("tokenizer.ggml.add_bos_token", false);
    writer.set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.token_type", types);
    writer.set("tokenizer.ggml.merges", strings("merges")?);
    writer.set("tokenizer.chat_template", include_str!("../../../demo/template.jinja").trim_end());
    Ok(())
}

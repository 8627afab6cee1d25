//! What a model is, from the metadata of its file.

use gguf::plain::name;
use gguf::{Error as GgufError, Gguf};

/// Blocks of a model at most.
const MOST_BLOCKS: i64 = 512;

/// Query heads at most.
const MOST_HEADS: i64 = 1 << 12;

/// Values of a head at most.
const MOST_HEAD: i64 = 1 << 12;

/// Values of a hidden state, a bottleneck or a feed-forward at most.
const MOST_WIDTH: i64 = 1 << 20;

/// Tokens of a vocabulary at most.
const MOST_TOKENS: i64 = 1 << 24;

/// Architectures that this crate builds.
pub const ARCHITECTURES: &[&str] = &["deepseek2", "llama", "qwen2", "qwen3", "qwen3moe", "glm4"];

/// Why a file is no model that we can run.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The container or a key of it.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// An architecture that is not supported.
    #[error("architecture '{}' is not supported (supported: deepseek2, llama, qwen2, qwen3, qwen3moe, glm4)", name(.0))]
    Architecture(String),
    /// A value that makes no sense.
    #[error("{} = {} is out of range: {why}", name(key), name(value))]
    Value {
        /// Metadata key.
        key: String,
        /// Its value.
        value: String,
        /// What was expected.
        why: String,
    },
    /// A tensor that the architecture needs.
    #[error("tensor '{0}' is missing from the file; it is incomplete or of another kind of model, fetch it again")]
    Missing(String),
    /// A tensor of another shape.
    #[error(
        "tensor '{name}' has shape {found:?}, expected {expected:?}; the file is damaged or of another kind of model, \
         fetch it again"
    )]
    Shape {
        /// Name.
        name: String,
        /// Shape in the file, contiguous dimension first.
        found: Vec<u64>,
        /// Shape that the metadata implies.
        expected: Vec<u64>,
    },
    /// A tensor type without kernels.
    #[error("tensor '{name}' has type {ty}, which is not supported; take the model in another quantisation")]
    Type {
        /// Name.
        name: String,
        /// Type.
        ty: String,
    },
    /// A tensor that the architecture has no use for.
    #[error(
        "tensor '{name}' is read by nothing in '{arch}' with a block_count of {blocks}: without it this would be another \
         model (correct the metadata, or convert the file again)"
    )]
    Unread {
        /// Name.
        name: String,
        /// The architecture that the file claims.
        arch: String,
        /// The blocks that it claims.
        blocks: i64,
    },
}

/// How attention is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Attention {
    /// Grouped queries over cached keys and values.
    Grouped {
        /// Key and value heads.
        kv_heads: i64,
        /// Length of a query or key head.
        head: i64,
        /// Length of a value head.
        value: i64,
    },
    /// Multi-head latent attention: one cached latent row for all heads
    /// (DeepSeek-V2, arXiv 2405.04434), in the absorbed form.
    Latent {
        /// Rank of the query bottleneck; `None` for a single matrix.
        q_rank: Option<i64>,
        /// Length of the latent.
        kv_rank: i64,
        /// Part of a query head without position.
        nope: i64,
        /// Part of a query head that is rotated.
        rope: i64,
        /// Length of a value head.
        value: i64,
    },
}

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Rotated values of a head.
    pub dims: i64,
    /// Radians a position for each pair.
    pub theta: Vec<f64>,
    /// Factor of sines and cosines.
    pub amplitude: f64,
    /// Pairs are `(i, i + dims/2)` rather than `(2i, 2i+1)`.
    pub halves: bool,
}

/// How router scores become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each score.
    Sigmoid,
}

/// A mixture of experts.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// Routed experts.
    pub count: i64,
    /// Routed experts that a token uses.
    pub used: i64,
    /// Shared experts, as multiples of the width of one.
    pub shared: i64,
    /// Width of one expert.
    pub width: i64,
    /// Scores to weights.
    pub gating: Gating,
    /// Whether weights are divided by their sum.
    pub normalise: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// Groups that experts are chosen from, and how many of them.
    pub groups: (i64, i64),
}

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Architecture name of the file.
    pub arch: String,
    /// `general.name`.
    pub name: String,
    /// Transformer blocks that run.
    pub layers: i64,
    /// Blocks behind them that predict later tokens, and do not run.
    pub predictors: i64,
    /// Residual width.
    pub hidden: i64,
    /// Query heads.
    pub heads: i64,
    /// Tokens of the vocabulary.
    pub vocab: i64,
    /// Positions that the model was made for.
    pub context: i64,
    /// Epsilon of the norms.
    pub eps: f32,
    /// Attention.
    pub attention: Attention,
    /// Factor of the scores.
    pub scale: f32,
    /// Positions.
    pub rope: Rope,
    /// Width of the dense feed-forward.
    pub ffn: i64,
    /// Leading blocks with a dense feed-forward.
    pub dense_lead: i64,
    /// Experts of the other blocks.
    pub experts: Option<Experts>,
    /// Whether each head of queries and keys has a norm.
    pub head_norms: bool,
    /// Whether what attention and feed-forward give has a norm before it is added to their input.
    pub norms_after: bool,
}

fn out_of_range(key: &str, value: impl ToString, why: &str) -> ConfigError {
    ConfigError::Value { key: key.into(), value: value.to_string(), why: why.into() }
}

/// Keys of one architecture.
struct Keys<'a> {
    file: &'a Gguf,
    arch: &'a str,
    /// Blocks of the file, for arrays of a value each.
    blocks: i64,
}

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    /// An integer, or that of an array with an equal one for each block.
    fn int(&self, name: &str) -> Result<Option<i64>, ConfigError> {
        let key = self.key(name);
        let meta = self.file.metadata();
        let v = match meta.get(&key) {
            None => return Ok(None),
            Some(gguf::Value::Array(_)) => {
                let all: Vec<i64> = meta.require(&key)?;
                let values = || format!("an array of {} values", all.len());
                match all.first() {
                    _ if all.len() as i64 != self.blocks => {
                        return Err(out_of_range(
                            &key,
                            values(),
                            &format!("a value for each of {} blocks", self.blocks),
                        ));
                    }
                    Some(&v) if all.iter().all(|&x| x == v) => v,
                    _ => return Err(out_of_range(&key, values(), "blocks that differ are not supported")),
                }
            }
            Some(_) => meta.require::<i64>(&key)?,
        };
        if !(0..=1 << 40).contains(&v) {
            return Err(out_of_range(&key, v, "expected a count"));
        }
        Ok(Some(v))
    }

    fn positive(&self, name: &str, most: i64) -> Result<i64, ConfigError> {
        let v = self.within(name, 1, most)?;
        Ok(v.ok_or_else(|| GgufError::MissingKey { key: self.key(name) })?)
    }

    /// As [`Keys::int`], from `least` to `most`.
    fn within(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, ConfigError> {
        match self.int(name)? {
            Some(v) if v < least || v > most => {
                Err(out_of_range(&self.key(name), v, &format!("expected {least} to {most}")))
            }
            v => Ok(v),
        }
    }

    /// A number from `least` to `most`, and not NaN.
    fn float(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, ConfigError> {
        let key = self.key(name);
        match self.file.metadata().find::<f64>(&key)? {
            Some(v) if !(least..=most).contains(&v) => {
                Err(out_of_range(&key, format!("{v:e}"), &format!("expected a number from {least:e} to {most:e}")))
            }
            v => Ok(v),
        }
    }

    /// As [`Keys::float`], where 0 is as good as no value.
    fn float_or_none(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, ConfigError> {
        match self.file.metadata().find::<f64>(&self.key(name))? {
            Some(0.0) => Ok(None),
            _ => self.float(name, least, most),
        }
    }
}

impl Config {
    /// Whether a tensor belongs to a block that predicts later tokens, and does not run.
    pub fn predicts(&self, tensor: &str) -> bool {
        let block = tensor.strip_prefix("blk.").and_then(|rest| rest.split_once('.')?.0.parse::<i64>().ok());
        block.is_some_and(|block| (self.layers..self.layers + self.predictors).contains(&block))
    }

    /// Reads and checks the metadata.
    pub fn read(file: &Gguf) -> Result<Config, ConfigError> {
        let arch = file.architecture()?.to_string();
        if !ARCHITECTURES.contains(&arch.as_str()) {
            return Err(ConfigError::Architecture(arch));
        }
        let blocks = Keys { file, arch: &arch, blocks: 1 }.positive("block_count", MOST_BLOCKS)?;
        let k = Keys { file, arch: &arch, blocks };
        let hidden = k.positive("embedding_length", MOST_WIDTH)?;
        let heads = k.positive("attention.head_count", MOST_HEADS)?;
        let mtp = k.int("nextn_predict_layers")?.unwrap_or(0);
        if mtp >= blocks {
            return Err(out_of_range(&k.key("nextn_predict_layers"), mtp, "fewer than the blocks"));
        }
        let embed = file.tensor("token_embd.weight").ok_or_else(|| ConfigError::Missing("token_embd.weight".into()))?;
        let vocab = embed.dims[1] as i64;
        if !(1..=MOST_TOKENS).contains(&vocab) {
            return Err(out_of_range(
                "rows of token_embd.weight",
                vocab,
                &format!("expected 1 to {MOST_TOKENS} tokens"),
            ));
        }
        if let Some(tokens) = file.metadata().find::<gguf::Strings<'_>>("tokenizer.ggml.tokens")?
            && tokens.len() as i64 > vocab
        {
            let why = format!("token_embd.weight has rows for {vocab} tokens only");
            return Err(out_of_range("tokenizer.ggml.tokens", format!("an array of {} values", tokens.len()), &why));
        }
        let experts = Self::experts(&k, file)?;
        let ffn = match &experts {
            Some(e) if k.int("feed_forward_length")?.is_none() => e.width,
            _ => k.positive("feed_forward_length", MOST_WIDTH)?,
        };
        let dense_lead = k.within("leading_dense_block_count", 0, blocks)?.unwrap_or(0);
        let eps = k.float("attention.layer_norm_rms_epsilon", 1e-30, 1.0)?.unwrap_or(1e-5) as f32;
        let (attention, scale, rope) =
            if arch == "deepseek2" { Self::latent(&k)? } else { Self::grouped(&k, file, hidden, heads)? };
        Ok(Config {
            name: file.metadata().find::<&str>("general.name").ok().flatten().unwrap_or("").to_string(),
            layers: blocks - mtp,
            predictors: mtp,
            hidden,
            heads,
            vocab,
            context: k.within("context_length", 1, i64::from(i32::MAX))?.unwrap_or(4096),
            eps,
            attention,
            scale,
            rope,
            ffn,
            dense_lead: if experts.is_some() { dense_lead } else { blocks },
            experts,
            head_norms: arch.starts_with("qwen3"),
            norms_after: arch == "glm4",
            arch: arch.clone(),
        })
    }

    fn experts(k: &Keys<'_>, file: &Gguf) -> Result<Option<Experts>, ConfigError> {
        let count = k.int("expert_count")?.unwrap_or(0);
        let used = k.int("expert_used_count")?.unwrap_or(0);
        if count == 0 {
            return Ok(None);
        }
        if count > 1024 || used < 1 || used > count {
            return Err(out_of_range(
                &k.key("expert_used_count"),
                used,
                &format!("expected 1 to {count} (at most 1024 experts)"),
            ));
        }
        let groups =
            (k.int("expert_group_count")?.unwrap_or(1).max(1), k.int("expert_group_used_count")?.unwrap_or(1).max(1));
        let (size, even) = (count / groups.0, count % groups.0 == 0);
        if groups.0 > 1 && (!even || size < 2 || groups.1 >= groups.0 || groups.1 * size < used) {
            return Err(out_of_range(
                &k.key("expert_group_count"),
                format!("{}, {} of them used", groups.0, groups.1),
                &format!("groups of equal size, of which fewer are used, with {used} of the {count} experts in them"),
            ));
        }
        let has_bias = file.tensors().iter().any(|t| t.name.ends_with("exp_probs_b.bias"));
        let gating = match k.int("expert_gating_func")?.unwrap_or(0) {
            0 if has_bias => Gating::Sigmoid,
            0 | 1 => Gating::Softmax,
            2 => Gating::Sigmoid,
            v => return Err(out_of_range(&k.key("expert_gating_func"), v, "softmax (1) or sigmoid (2)")),
        };
        let scale = k.float_or_none("expert_weights_scale", 1e-6, 1e6)?.unwrap_or(1.0) as f32;
        let normalise = match file.metadata().find::<bool>(&k.key("expert_weights_norm"))? {
            Some(v) => v,
            None => k.arch != "deepseek2",
        };
        let width = match k.within("expert_feed_forward_length", 0, MOST_WIDTH)? {
            Some(w) if w > 0 => w,
            _ => k.positive("feed_forward_length", MOST_WIDTH)?,
        };
        Ok(Some(Experts {
            count,
            used,
            shared: k.within("expert_shared_count", 0, 1024)?.unwrap_or(0),
            width,
            gating,
            normalise,
            scale,
            groups,
        }))
    }

    fn latent(k: &Keys<'_>) -> Result<(Attention, f32, Rope), ConfigError> {
        let rope = k.positive("rope.dimension_count", MOST_HEAD)?;
        let kv_rank = k.positive("attention.kv_lora_rank", MOST_WIDTH)?;
        let own = |name: &str| k.within(name, 1, MOST_HEAD);
        let (key, value) = match (own("attention.key_length_mla")?, own("attention.value_length_mla")?) {
            (Some(a), Some(b)) => (a, b),
            _ => (k.positive("attention.key_length", MOST_HEAD)?, k.positive("attention.value_length", MOST_HEAD)?),
        };
        if rope >= key || rope % 2 != 0 {
            return Err(out_of_range(
                &k.key("rope.dimension_count"),
                rope,
                &format!("even, and less than the key length of {key}"),
            ));
        }
        let q_rank = k.within("attention.q_lora_rank", 0, MOST_WIDTH)?.filter(|&r| r > 0);
        // YaRN scales the scores by mscale squared (transformers, modeling_deepseek_v2).
        let (table, factor) = rope_table(k, rope)?;
        let log_mul = k.float("rope.scaling.yarn_log_multiplier", 0.0, 100.0)?.unwrap_or(0.0) / 0.1;
        let mscale = if factor > 1.0 { 1.0 + 0.1 * log_mul * factor.ln() } else { 1.0 };
        let scale = (mscale * mscale / (key as f64).sqrt()) as f32;
        let attention = Attention::Latent { q_rank, kv_rank, nope: key - rope, rope, value };
        Ok((attention, scale, Rope { dims: rope, theta: table, amplitude: 1.0, halves: false }))
    }

    fn grouped(k: &Keys<'_>, file: &Gguf, hidden: i64, heads: i64) -> Result<(Attention, f32, Rope), ConfigError> {
        let kv_heads = k.int("attention.head_count_kv")?.unwrap_or(heads);
        if kv_heads < 1 || heads % kv_heads != 0 {
            return Err(out_of_range(&k.key("attention.head_count_kv"), kv_heads, "a divisor of the query heads"));
        }
        let head = k.int("attention.key_length")?.unwrap_or(hidden / heads);
        if !(2..=MOST_HEAD).contains(&head) {
            let why = format!("a head of 2 to {MOST_HEAD} values");
            return Err(out_of_range(&k.key("attention.key_length"), head, &why));
        }
        let value = k.within("attention.value_length", 1, MOST_HEAD)?.unwrap_or(head);
        let dims = k.int("rope.dimension_count")?.unwrap_or(head);
        if dims < 2 || dims > head || dims % 2 != 0 {
            return Err(out_of_range(&k.key("rope.dimension_count"), dims, "even, at most the head length"));
        }
        let (mut theta, factor) = rope_table(k, dims)?;
        for (theta, divisor) in theta.iter_mut().zip(rope_divisors(file, dims / 2)?) {
            *theta /= divisor;
        }
        let yarn = file.metadata().find::<&str>(&k.key("rope.scaling.type"))? == Some("yarn") && factor > 1.0;
        let amplitude = if yarn {
            k.float("rope.scaling.attn_factor", 1e-3, 1e3)?.unwrap_or(1.0) * (1.0 + 0.1 * factor.ln())
        } else {
            1.0
        };
        let scale = k.float_or_none("attention.scale", 1e-6, 1e3)?.unwrap_or(1.0 / (head as f64).sqrt()) as f32;
        let halves = k.arch.starts_with("qwen");
        Ok((Attention::Grouped { kv_heads, head, value }, scale, Rope { dims, theta, amplitude, halves }))
    }
}

/// What `rope_freqs.weight` divides the angle of each pair by; nothing if the file has no such tensor.
fn rope_divisors(file: &Gguf, pairs: i64) -> Result<Vec<f64>, ConfigError> {
    const NAME: &str = "rope_freqs.weight";
    let Some(t) = file.tensor(NAME) else { return Ok(vec![]) };
    if t.ty != gguf::GgmlType::F32 {
        return Err(ConfigError::Type { name: NAME.into(), ty: t.ty.name().into() });
    }
    if t.dims != [pairs as u64, 1, 1, 1] {
        let (found, expected) = (t.shape().to_vec(), vec![pairs as u64]);
        return Err(ConfigError::Shape { name: NAME.into(), found, expected });
    }
    let values = file.data(t).chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
    let all: Vec<f64> = values.collect();
    match all.iter().find(|v| !(1e-6..=1e9).contains(*v)) {
        Some(v) => Err(out_of_range("a value of rope_freqs.weight", v, "expected a divisor from 1e-6 to 1e9")),
        None => Ok(all),
    }
}

/// Radians a position of each pair, with linear or YaRN scaling
/// (arXiv 2309.00071), and the scaling factor.
fn rope_table(k: &Keys<'_>, dims: i64) -> Result<(Vec<f64>, f64), ConfigError> {
    // Of 1, all pairs would turn alike, and the bounds of YaRN have no logarithm.
    let base = k.float("rope.freq_base", 1.0 + f64::from(f32::EPSILON), 1e15)?.unwrap_or(10000.0);
    let kind = k.file.metadata().find::<&str>(&k.key("rope.scaling.type"))?.unwrap_or("none").to_string();
    let factor = k.float_or_none("rope.scaling.factor", 1e-3, 1e6)?.unwrap_or(1.0);
    let n = dims as f64;
    let plain: Vec<f64> = (0..dims / 2).map(|i| base.powf(-2.0 * i as f64 / n)).collect();
    let theta = match kind.as_str() {
        "none" => return Ok((plain, 1.0)),
        "linear" => plain.iter().map(|t| t / factor).collect(),
        "yarn" if factor > 1.0 => {
            let original =
                k.within("rope.scaling.original_context_length", 1, i64::from(i32::MAX))?.unwrap_or(4096) as f64;
            let fast = k.float("rope.scaling.yarn_beta_fast", 1e-3, 1e6)?.unwrap_or(32.0);
            let slow = k.float("rope.scaling.yarn_beta_slow", 1e-3, 1e6)?.unwrap_or(1.0);
            let at = |turns: f64| n * (original / (2.0 * std::f64::consts::PI * turns)).ln() / (2.0 * base.ln());
            let low = at(fast).floor().clamp(0.0, n - 1.0);
            let high = at(slow).ceil().clamp(0.0, n - 1.0);
            let blend = |i: f64| 1.0 - ((i - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            plain.iter().enumerate().map(|(i, t)| t * (blend(i as f64) + (1.0 - blend(i as f64)) / factor)).collect()
        }
        "yarn" => plain,
        other => return Err(out_of_range(&k.key("rope.scaling.type"), other, "none, linear or yarn")),
    };
    Ok((theta, factor))
}

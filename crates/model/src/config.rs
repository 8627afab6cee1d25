//! What a model is, from the metadata of its file and the row of its family.

mod experts;
mod keys;
mod recurrence;
mod rope;

pub use crate::family::Gating;
use crate::family::{
    Alibi, AttentionGate, Cap, FAMILIES, Factor, Family, Growth, Norm, Pairs, Parallel, Rotated, Routed, ScoreScale,
    WindowRotation, Windows, missing,
};
pub use experts::Experts;
use gguf::plain::name;
use gguf::{Error as GgufError, Gguf};
use keys::{Keys, out_of_range};
pub use recurrence::{Mixer, Recurrence};
use serde::{Deserialize, Serialize};

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

/// Values that a head may be bounded to, and factors of a file, at most.
const MOST_FACTOR: f64 = 1e6;

fn unsupported(arch: &str) -> String {
    let why = match missing(arch) {
        Some(kind) => format!("it needs {kind}, which is not built yet"),
        None => "nothing is known of it".into(),
    };
    let (arch, others) = (name(arch), FAMILIES.len());
    format!("architecture '{arch}' is not supported: {why} ({others} others are, see docs/models.md)")
}

/// Why a file is no model that we can run.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The container or a key of it.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// An architecture that is not supported.
    #[error("{}", unsupported(.0))]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
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
    /// None: no layer has any.
    None,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rope {
    /// Rotated values of a head.
    #[serde(rename = "dimensions")]
    pub dims: i64,
    /// Radians a position for each pair.
    #[serde(rename = "radians")]
    pub theta: Vec<f64>,
    /// Factor of sines and cosines.
    pub amplitude: f64,
    /// Pairs are `(i, i + dims/2)` rather than `(2i, 2i+1)`.
    pub halves: bool,
    /// What takes their place in long contexts.
    pub long: Option<LongRope>,
}

impl Rope {
    /// That of a model without attention.
    fn none() -> Rope {
        Rope { dims: 0, theta: vec![], amplitude: 1.0, halves: false, long: None }
    }
}

/// The angles of contexts that are longer than those of the training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongRope {
    /// Radians a position for each pair.
    #[serde(rename = "radians")]
    pub theta: Vec<f64>,
    /// Contexts of more positions have them.
    pub beyond: i64,
}

/// Layers that see a stretch of the past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Positions that a token sees, its own included.
    pub width: i64,
    /// Whether it sees those of its chunk of so many positions, instead of the last so many.
    pub chunks: bool,
    /// For each layer whether it has the window.
    pub layers: Vec<bool>,
    /// Their query heads, if they have another number than the other layers.
    pub heads: Option<i64>,
    /// Their heads of keys, if they are others than those of the other layers.
    pub attention: Option<Attention>,
    /// Their rotation, if it is another than that of the other layers.
    pub rope: Option<Rope>,
}

/// Queries that grow with the position: by `1 + scale * ln(1 + floor((position + from) / every))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// Factor of the logarithm.
    pub scale: f64,
    /// Positions that have the same.
    pub every: i64,
    /// What the first position counts as.
    pub from: i64,
    /// Whether only layers have it that are not rotated.
    pub unrotated: bool,
}

/// A model. As JSON it is what `kernloom show --json` prints of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Architecture name of the file.
    #[serde(rename = "architecture")]
    pub arch: String,
    /// `general.name`.
    pub name: String,
    /// Transformer blocks that run.
    pub layers: i64,
    /// Blocks behind them that predict later tokens, and do not run.
    pub predictors: i64,
    /// Residual width.
    pub hidden: i64,
    /// Query heads of layers without a window, or of all; [`Config::heads_of`] has those of a layer.
    pub heads: i64,
    /// Tokens of the vocabulary.
    #[serde(rename = "vocabulary")]
    pub vocab: i64,
    /// Positions that the model was made for.
    pub context: i64,
    /// Kind of the norms.
    pub norm: Norm,
    /// Epsilon of the norms.
    #[serde(rename = "norm_epsilon")]
    pub eps: f32,
    /// Attention.
    pub attention: Attention,
    /// What layers remember that have a state.
    pub recurrence: Option<Recurrence>,
    /// For each layer by what its tokens come together.
    pub mixers: Vec<Mixer>,
    /// For each layer the one whose keys and values it reads: itself, unless it has none of its own.
    pub keys_of: Vec<i64>,
    /// Factor of the scores.
    #[serde(rename = "attention_scale")]
    pub scale: f32,
    /// Factor of values.
    pub value_scale: f32,
    /// Positions.
    pub rope: Rope,
    /// For each layer the width of its dense feed-forward; 0 for one that has no feed-forward at all.
    #[serde(rename = "feed_forward")]
    pub ffn: Vec<i64>,
    /// For each layer where gates and ups of its experts end, 0 for nowhere; empty if no layer has such limits.
    pub expert_limits: Vec<f32>,
    /// The same of its other feed-forward, and of the shared expert.
    pub feed_forward_limits: Vec<f32>,
    /// Width of what each layer reads of a token beside the residual, if it does.
    pub layer_input: Option<i64>,
    /// Leading blocks with a dense feed-forward.
    pub dense_lead: i64,
    /// Experts of the other blocks.
    pub experts: Option<Experts>,
    /// Of so many blocks behind the lead, the last has experts.
    pub experts_every: i64,
    /// Width of the shared expert, if the metadata imply one; otherwise it is that of its matrix.
    pub shared_width: Option<i64>,
    /// For each layer whether it is rotated.
    pub rotated: Vec<bool>,
    /// Layers that see a stretch of the past.
    pub window: Option<Window>,
    /// Whether the feed-forward reads what attention reads.
    pub parallel: bool,
    /// What the scores of each head lose for each position of distance; empty for none.
    pub slopes: Vec<f32>,
    /// Bound of scores.
    pub score_cap: Option<f32>,
    /// Bound of queries, keys and values.
    pub clamp: Option<f32>,
    /// Growth of queries.
    pub temperature: Option<Temperature>,
    /// Factor of the embedding.
    pub embedding_scale: f32,
    /// Factor of what attention and feed-forward add to their input.
    pub residual_scale: f32,
    /// Factor of logits.
    pub logit_scale: f32,
    /// Bound of logits.
    pub logit_cap: Option<f32>,
}

impl Config {
    /// The row of its family.
    ///
    /// # Panics
    /// If there is none, which [`Config::read`] would have refused.
    pub fn family(&self) -> &'static Family {
        Family::named(&self.arch).expect("a family with a row")
    }

    /// Whether a tensor belongs to a block that predicts later tokens, and does not run.
    pub fn predicts(&self, tensor: &str) -> bool {
        let block = tensor.strip_prefix("blk.").and_then(|rest| rest.split_once('.')?.0.parse::<i64>().ok());
        block.is_some_and(|block| (self.layers..self.layers + self.predictors).contains(&block))
    }

    /// The window of a layer.
    pub fn window_of(&self, layer: i64) -> Option<&Window> {
        self.window.as_ref().filter(|window| window.layers[layer as usize])
    }

    /// The attention of a layer, if it has any.
    pub fn attention_of(&self, layer: i64) -> &Attention {
        self.window_of(layer).and_then(|window| window.attention.as_ref()).unwrap_or(&self.attention)
    }

    /// The query heads of a layer, if it has attention.
    pub fn heads_of(&self, layer: i64) -> i64 {
        self.window_of(layer).and_then(|window| window.heads).unwrap_or(self.heads)
    }

    /// Whether a layer has a cache of its own.
    pub fn has_cache(&self, layer: i64) -> bool {
        self.mixers[layer as usize].attends() && self.keys_of[layer as usize] == layer
    }

    /// Positions that tokens see together in a layer, if they are the last so many until position `end`.
    pub fn seen(&self, layer: i64, tokens: usize, end: usize) -> usize {
        self.window_of(layer).map_or(end, |window| end.min(window.width as usize + tokens - 1))
    }

    /// The experts of a layer.
    pub fn experts_of(&self, layer: i64) -> Option<&Experts> {
        let routes = layer >= self.dense_lead && (layer + 1) % self.experts_every == 0;
        self.experts.as_ref().filter(|_| routes && self.ffn[layer as usize] > 0)
    }

    /// Reads and checks the metadata.
    pub fn read(file: &Gguf) -> Result<Config, ConfigError> {
        let arch = file.architecture()?.to_string();
        let Some(family) = Family::named(&arch) else { return Err(ConfigError::Architecture(arch)) };
        let blocks = Keys::new(file, &arch, 1).positive("block_count", MOST_BLOCKS)?;
        let k = Keys::new(file, &arch, blocks).with_gaps(family.recurrence.is_some());
        let hidden = k.positive("embedding_length", MOST_WIDTH)?;
        let mtp = k.int("nextn_predict_layers")?.unwrap_or(0);
        if mtp >= blocks {
            return Err(out_of_range(&k.key("nextn_predict_layers"), mtp, "fewer than the blocks"));
        }
        let layers = blocks - mtp;
        let recurrence::Kinds { recurrence, mixers, feeds } = recurrence::kinds(&k, family, layers)?;
        let attends = mixers.iter().any(|mixer| mixer.attends());
        let windows = Self::windows(&k, family.windows, layers)?;
        let with_window = windows.as_ref().map_or(vec![false; layers as usize], |(_, layers)| layers.clone());
        let heads_of_kinds = match attends {
            true => Self::query_heads(&k, &mixers, &with_window)?,
            false => [None; 2],
        };
        let heads = heads_of_kinds[0].or(heads_of_kinds[1]).unwrap_or(0);
        let vocab = Self::vocab(file)?;
        let experts = experts::of(&k, family)?;
        let of_file = k.within("expert_shared_feed_forward_length", 0, MOST_WIDTH)?.filter(|&width| width > 0);
        let shared_width = match &experts {
            Some(e) if of_file.is_none() && e.shared > 0 => Some(e.shared * e.width),
            _ => None,
        };
        let ffn = Self::feed_forwards(&k, family, &feeds, experts.as_ref())?;
        let lead = k.within("leading_dense_block_count", 0, blocks)?.unwrap_or(0);
        let dense_lead = match family.routed {
            _ if experts.is_none() => blocks,
            Routed::BehindLead => lead,
            Routed::BehindRouterless => {
                let routed = |layer: &i64| file.tensor(&format!("blk.{layer}.ffn_gate_inp.weight")).is_some();
                (0..layers).find(routed).unwrap_or(layers)
            }
            Routed::All | Routed::Beside => 0,
            Routed::None => blocks,
        };
        let experts_every = k.within("interleave_moe_layer_step", 0, blocks)?.unwrap_or(1).max(1);
        let (norm, eps) = Self::norm(&k, family)?;
        let (attention, scale, rope, in_windows) = match family.latent {
            _ if !attends => (Attention::None, 1.0, Rope::none(), None),
            true => Self::latent(&k, family, hidden / heads)?,
            false => Self::grouped(&k, family, hidden, heads_of_kinds, &mixers, &with_window)?,
        };
        let keys_of = match family.shares_keys {
            true => Self::keys_of(&k, &with_window)?,
            false => (0..layers).collect(),
        };
        let rotation = family.windows.map_or(WindowRotation::Same, |windows| windows.rotation);
        let chunks = family.windows.is_some_and(|windows| windows.chunk.is_some());
        let window = match windows {
            None => None,
            Some((width, layers)) => {
                let dims = in_windows.as_ref().map_or(rope.dims, |&(_, dims)| dims);
                let rope = rope::of_windows(&k, rotation, &rope, dims)?;
                let attention = in_windows.map(|(own, _)| own).filter(|own| *own != attention);
                let heads = heads_of_kinds[1].filter(|&own| own != heads);
                Some(Window { width, chunks, layers, heads, attention, rope })
            }
        };
        let rotated = Self::rotated(&k, family.rotated, layers, window.as_ref(), lead)?;
        let temperature = Self::temperature(&k, family.temperature, window.is_some())?;
        let limits = |key| match family.limits {
            true => {
                let all = k.floats_or_none(key, 1e-6, MOST_FACTOR)?;
                Ok(all.into_iter().take(layers as usize).map(|limit| limit as f32).collect())
            }
            false => Ok::<Vec<f32>, ConfigError>(vec![]),
        };
        let factor = |rule, key| Self::factor(&k, rule, key, hidden, layers);
        let cap = |rule, key: &str| match rule {
            Cap::None => Ok(None),
            Cap::Key => k.float_or_none(key, 1e-3, MOST_FACTOR),
            Cap::KeyOr(v) => match k.float(key, 0.0, MOST_FACTOR)? {
                None => Ok(Some(v)),
                Some(v) => Ok(Some(v).filter(|&v| v > 0.0)),
            },
        };
        let config = Config {
            name: file.metadata().find::<&str>("general.name").ok().flatten().unwrap_or("").to_string(),
            layers,
            predictors: mtp,
            hidden,
            heads,
            vocab,
            context: k.within("context_length", 1, i64::from(i32::MAX))?.unwrap_or(4096),
            norm,
            eps,
            attention,
            recurrence,
            mixers,
            keys_of,
            scale,
            value_scale: factor(family.value_scale, "attention.value_scale")?,
            rope,
            ffn,
            expert_limits: limits("swiglu_clamp_exp")?,
            feed_forward_limits: limits("swiglu_clamp_shexp")?,
            layer_input: k.within("embedding_length_per_layer_input", 0, MOST_WIDTH)?.filter(|&width| width > 0),
            dense_lead,
            experts,
            experts_every,
            shared_width,
            rotated,
            window,
            parallel: match family.parallel {
                Parallel::No => false,
                Parallel::Yes => true,
                Parallel::Key(key) => k.flag(key)?.unwrap_or(true),
                Parallel::WithoutNorm => file.tensor("blk.0.ffn_norm.weight").is_none(),
            },
            slopes: match Self::alibi(&k, family.alibi)? {
                Some(bias) => slopes(heads, bias),
                None => vec![],
            },
            score_cap: cap(family.score_cap, "attn_logit_softcapping")?.map(|v| v as f32),
            clamp: match family.clamps {
                true => k.float_or_none("attention.clamp_kqv", 1e-6, MOST_FACTOR)?.map(|v| v as f32),
                false => None,
            },
            temperature,
            embedding_scale: factor(family.embedding_scale, "embedding_scale")?,
            residual_scale: factor(family.residual_scale, "residual_scale")?,
            logit_scale: factor(family.logit_scale, "logit_scale")?,
            logit_cap: cap(family.logit_cap, "final_logit_softcapping")?.map(|v| v as f32),
            arch: arch.clone(),
        };
        k.check_unread()?;
        Ok(config)
    }

    /// The kind of the norms, and their epsilon.
    fn norm(k: &Keys<'_>, family: &Family) -> Result<(Norm, f32), ConfigError> {
        let of_rms = "attention.layer_norm_rms_epsilon";
        let norm = match family.rms_by_key && k.float_or_none(of_rms, 1e-30, 1.0)?.is_some() {
            true => Norm::Rms,
            false => family.norm,
        };
        let key = if norm == Norm::Rms { of_rms } else { "attention.layer_norm_epsilon" };
        Ok((norm, k.float(key, 1e-30, 1.0)?.unwrap_or(1e-5) as f32))
    }

    /// Tokens, which the embedding has rows for.
    fn vocab(file: &Gguf) -> Result<i64, ConfigError> {
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
        Ok(vocab)
    }

    fn factor(k: &Keys<'_>, rule: Factor, key: &str, hidden: i64, layers: i64) -> Result<f32, ConfigError> {
        let of_file = || k.float_or_none(key, 1e-6, MOST_FACTOR);
        Ok(match rule {
            Factor::One => 1.0,
            Factor::RootOfWidth => (hidden as f32).sqrt(),
            Factor::Key => of_file()?.unwrap_or(1.0) as f32,
            Factor::OneOverKey => (1.0 / of_file()?.unwrap_or(1.0)) as f32,
            Factor::KeyOr(v) => of_file()?.unwrap_or(v) as f32,
            Factor::KeyOrOverRootOfLayers(v) => of_file()?.unwrap_or(v / (layers as f64).sqrt()) as f32,
            Factor::OneOverKeyOrWidthOver(v) => of_file()?.map_or(hidden as f64 / v, |of_file| 1.0 / of_file) as f32,
            Factor::OverWidth(v) => (v / hidden as f64) as f32,
        })
    }

    /// Positions that layers with a window see, and for each layer whether it has one, if any has.
    fn windows(k: &Keys<'_>, windows: Option<Windows>, layers: i64) -> Result<Option<(i64, Vec<bool>)>, ConfigError> {
        let Some(windows) = windows.filter(|w| w.layers.is_empty() || w.layers.contains(&layers)) else {
            return Ok(None);
        };
        let of_file = k.within("attention.sliding_window", 0, i64::from(i32::MAX))?;
        let width = match windows.chunk {
            Some(chunk) if of_file != Some(0) => chunk,
            _ => of_file.or(windows.width).unwrap_or(0),
        };
        if width == 0 {
            return Ok(None);
        }
        let pattern = "attention.sliding_window_pattern";
        let of_layers = match k.flags(pattern)? {
            Some(flags) => flags[..layers as usize].to_vec(),
            None => {
                let every = match k.within(pattern, 0, MOST_BLOCKS)? {
                    Some(every) => every,
                    None => windows.every,
                };
                let sees_all = if windows.first { 0 } else { every - 1 };
                (0..layers).map(|layer| every == 0 || layer % every != sees_all).collect()
            }
        };
        Ok(Some((width, of_layers)).filter(|(_, layers)| layers.contains(&true)))
    }

    /// For each layer the one whose keys and values it reads. The last ones may have none of their own: they read those of the
    /// last before them that has the same window, or none as they.
    fn keys_of(k: &Keys<'_>, with_window: &[bool]) -> Result<Vec<i64>, ConfigError> {
        let layers = with_window.len();
        let key = "attention.shared_kv_layers";
        let own = layers - k.within(key, 0, layers as i64 - 1)?.unwrap_or(0) as usize;
        let reads = |layer: usize| match layer < own {
            true => Some(layer as i64),
            false => (0..own).rev().find(|&of| with_window[of] == with_window[layer]).map(|of| of as i64),
        };
        (0..layers).map(reads).collect::<Option<_>>().ok_or_else(|| {
            let why = "a layer before them of each kind, with a window and without, whose keys they read";
            out_of_range(&k.key(key), layers - own, why)
        })
    }

    /// For each layer the width of its dense feed-forward.
    fn feed_forwards(
        k: &Keys<'_>,
        family: &Family,
        feeds: &[bool],
        experts: Option<&Experts>,
    ) -> Result<Vec<i64>, ConfigError> {
        let key = "feed_forward_length";
        let of_file = k.counts(key)?;
        let width = |(layer, &feeds): (usize, &bool)| match (&of_file, experts) {
            _ if !feeds => Ok(0),
            (Some(widths), _) if (1..=MOST_WIDTH).contains(&widths[layer]) => Ok(widths[layer]),
            (Some(widths), _) => Err(out_of_range(&k.key(key), widths[layer], &format!("expected 1 to {MOST_WIDTH}"))),
            (None, Some(e)) => Ok(e.width),
            (None, None) => k.positive(key, MOST_WIDTH),
        };
        let all: Vec<i64> = feeds.iter().enumerate().map(width).collect::<Result<_, _>>()?;
        Ok(if family.counts_gate { all.into_iter().map(|width| width / 2).collect() } else { all })
    }

    fn rotated(
        k: &Keys<'_>,
        rule: Rotated,
        layers: i64,
        window: Option<&Window>,
        lead: i64,
    ) -> Result<Vec<bool>, ConfigError> {
        let all = |v| vec![v; layers as usize];
        Ok(match (rule, window) {
            (Rotated::All, _) | (Rotated::Windowed | Rotated::WindowedAndLead, None) => all(true),
            (Rotated::None, _) => all(false),
            (Rotated::AllBut(n), _) => (0..layers).map(|layer| (layer + 1) % n != 0).collect(),
            (Rotated::Windowed, Some(window)) => window.layers.clone(),
            (Rotated::WindowedAndLead, Some(window)) => {
                (0..layers).map(|layer| layer < lead || window.layers[layer as usize]).collect()
            }
            (Rotated::Pattern, _) => match k.flags("attention.rope_pattern")? {
                Some(of_file) => of_file[..layers as usize].to_vec(),
                None => all(true),
            },
            (Rotated::UnlessUntrained, _) => all(k.flag("rope.scaling.finetuned")?.unwrap_or(true)),
        })
    }

    fn alibi(k: &Keys<'_>, rule: Alibi) -> Result<Option<f64>, ConfigError> {
        let of_file = || k.float_or_none("attention.max_alibi_bias", 1e-3, 1e3);
        Ok(match rule {
            Alibi::None => None,
            Alibi::Always(bias) => of_file()?.or(Some(bias)),
            Alibi::Key => of_file()?,
        })
    }

    fn temperature(k: &Keys<'_>, rule: Growth, windows: bool) -> Result<Option<Temperature>, ConfigError> {
        let most = i64::from(i32::MAX);
        let of_file = || k.float_or_none("attention.temperature_scale", 1e-6, 1e3);
        let own = |least| k.within("attention.temperature_length", least, most);
        Ok(match rule {
            Growth::None => None,
            Growth::Unrotated => {
                let scale = of_file()?.unwrap_or(0.1);
                let every = own(0)?.filter(|&every| every > 0).unwrap_or(8192);
                Some(Temperature { scale, every, from: 1, unrotated: true }).filter(|_| windows)
            }
            Growth::Key => match of_file()? {
                None => None,
                Some(scale) => {
                    let original = own(1)?.or(k.within("rope.scaling.original_context_length", 1, most)?);
                    let every = original.or(k.within("context_length", 1, most)?).unwrap_or(4096);
                    Some(Temperature { scale, every, from: 0, unrotated: false })
                }
            },
        })
    }

    fn latent(k: &Keys<'_>, family: &Family, width: i64) -> Result<Heads, ConfigError> {
        let rope = k.positive("rope.dimension_count", MOST_HEAD)?;
        let kv_rank = k.positive("attention.kv_lora_rank", MOST_WIDTH)?;
        let own = |name: &str| k.within(name, 1, MOST_HEAD);
        let (key, value) = match (own("attention.key_length_mla")?, own("attention.value_length_mla")?) {
            (Some(a), Some(b)) => (a, b),
            _ => (k.positive("attention.key_length", MOST_HEAD)?, own("attention.value_length")?.unwrap_or(width)),
        };
        if rope >= key || rope % 2 != 0 {
            return Err(out_of_range(
                &k.key("rope.dimension_count"),
                rope,
                &format!("even, and less than the key length of {key}"),
            ));
        }
        let q_rank = k.within("attention.q_lora_rank", 0, MOST_WIDTH)?.filter(|&r| r > 0);
        let (rotation, factor) = rope::of_latents(k, family, rope, Self::pairs(k, family)?)?;
        // YaRN scales the scores by mscale squared (transformers, modeling_deepseek_v2).
        let log_mul = k.float("rope.scaling.yarn_log_multiplier", 0.0, 100.0)?.unwrap_or(0.0) / 0.1;
        let mscale = if factor > 1.0 { 1.0 + 0.1 * log_mul * factor.ln() } else { 1.0 };
        let scale = (mscale * mscale / (key as f64).sqrt()) as f32;
        let attention = Attention::Latent { q_rank, kv_rank, nope: key - rope, rope, value };
        Ok((attention, scale, rotation, None))
    }

    /// Of an array with a count for each layer, that of the layers with attention and without a window, and that of those
    /// with both, as far as there are such layers and such a key.
    fn of_kinds(
        k: &Keys<'_>,
        key: &str,
        mixers: &[Mixer],
        with_window: &[bool],
    ) -> Result<[Option<i64>; 2], ConfigError> {
        let Some(counts) = k.counts(key)? else { return Ok([None; 2]) };
        let of = |windowed: bool| {
            let kinds = mixers.iter().zip(with_window).map(|(mixer, &window)| mixer.attends() && window == windowed);
            let mut of_kind = kinds.zip(&counts).filter(|(is, _)| *is).map(|(_, &count)| count);
            let first = of_kind.next();
            match of_kind.all(|count| Some(count) == first) {
                true => Ok(first),
                false => Err(k.differing(key)),
            }
        };
        Ok([of(false)?, of(true)?])
    }

    /// Query heads of layers without a window, and of those with one.
    fn query_heads(k: &Keys<'_>, mixers: &[Mixer], with_window: &[bool]) -> Result<[Option<i64>; 2], ConfigError> {
        let key = "attention.head_count";
        let heads = Self::of_kinds(k, key, mixers, with_window)?;
        if heads == [None; 2] {
            return Err(GgufError::MissingKey { key: k.key(key) }.into());
        }
        match heads.iter().flatten().find(|heads| !(1..=MOST_HEADS).contains(*heads)) {
            Some(heads) => Err(out_of_range(&k.key(key), heads, &format!("expected 1 to {MOST_HEADS}"))),
            None => Ok(heads),
        }
    }

    fn grouped(
        k: &Keys<'_>,
        family: &Family,
        hidden: i64,
        heads_of_kinds: [Option<i64>; 2],
        mixers: &[Mixer],
        with_window: &[bool],
    ) -> Result<Heads, ConfigError> {
        let key = "attention.head_count_kv";
        let mut kv_heads = Self::of_kinds(k, key, mixers, with_window)?;
        for (kv_heads, heads) in kv_heads.iter_mut().zip(heads_of_kinds) {
            *kv_heads = kv_heads.or(heads);
            if let (Some(kv_heads), Some(heads)) = (*kv_heads, heads)
                && (kv_heads < 1 || heads % kv_heads != 0)
            {
                return Err(out_of_range(&k.key(key), kv_heads, "a divisor of the query heads"));
            }
        }
        let [of_others, of_windows] = kv_heads;
        let heads = heads_of_kinds[0].or(heads_of_kinds[1]).unwrap_or(1);
        // Heads, and how many of their values are rotated, by keys of these layers, which may be those of all.
        let kind = |suffix: &str, kv_heads: i64, all: [Option<i64>; 3]| -> Result<(Attention, i64), ConfigError> {
            let [key, value, dims] = ["attention.key_length", "attention.value_length", "rope.dimension_count"]
                .map(|name| format!("{name}{suffix}"));
            let head = k.int(&key)?.or(all[0]).unwrap_or(hidden / heads);
            if !(2..=MOST_HEAD).contains(&head) {
                let why = format!("a head of 2 to {MOST_HEAD} values");
                return Err(out_of_range(&k.key(&key), head, &why));
            }
            let length = k.within(&value, 1, MOST_HEAD)?.or(all[1]).unwrap_or(head);
            if family.attention_gate == AttentionGate::Query && length != head {
                let why = format!("that of queries, {head}, which their gates have");
                return Err(out_of_range(&k.key(&value), length, &why));
            }
            let rotated = k.int(&dims)?.or(all[2]).unwrap_or(head);
            if rotated < 2 || rotated > head || rotated % 2 != 0 {
                return Err(out_of_range(&k.key(&dims), rotated, "even, at most the head length"));
            }
            Ok((Attention::Grouped { kv_heads, head, value: length }, rotated))
        };
        let (attention, mut dims) = kind("", of_others.or(of_windows).unwrap_or(heads), [None; 3])?;
        let Attention::Grouped { head, value, .. } = attention else { unreachable!() };
        let of_all = [Some(head), Some(value), Some(dims)];
        let in_windows = of_windows.map(|kv_heads| kind("_swa", kv_heads, of_all)).transpose()?;
        if family.halves_rotation {
            dims /= 2;
            if dims % 2 != 0 {
                let why = "a multiple of four, as some layers rotate half of it";
                return Err(out_of_range(&k.key("rope.dimension_count"), 2 * dims, why));
            }
        }
        let rope = rope::rotation(k, family, dims, Self::pairs(k, family)?)?;
        let over_root = |n: i64| 1.0 / (n as f64).sqrt();
        let of_file = || k.float_or_none("attention.scale", 1e-6, 1e3);
        let scale = match family.score_scale {
            ScoreScale::ImpliedAtLayers(n) => {
                of_file()?;
                over_root(if mixers.len() as i64 == n { hidden / heads } else { head })
            }
            ScoreScale::RootOfHead => of_file()?.unwrap_or(over_root(head)),
            ScoreScale::Head => of_file()?.unwrap_or(1.0 / head as f64),
            ScoreScale::One => of_file()?.unwrap_or(1.0),
        };
        Ok((attention, scale as f32, rope, in_windows))
    }

    /// Which values of a head are rotated together.
    fn pairs(k: &Keys<'_>, family: &Family) -> Result<Pairs, ConfigError> {
        let Some(pairs) = family.pairs_with_sections else { return Ok(family.pairs) };
        let key = k.key("rope.dimension_sections");
        let sections = k.file.metadata().find::<Vec<i64>>(&key)?.unwrap_or_default();
        Ok(if sections.len() > 1 && sections[..2].iter().all(|&v| v > 0) { pairs } else { family.pairs })
    }
}

/// How attention is computed, the factor of its scores, and its rotation; of layers with a window, their own heads and how many
/// values of one are rotated, if the file may say so.
type Heads = (Attention, f32, Rope, Option<(Attention, i64)>);

/// What the scores of each head lose for each position of distance: falling powers of two, and those between if heads are
/// no power of two (arXiv 2108.12409).
fn slopes(heads: i64, bias: f64) -> Vec<f32> {
    let whole = 1i64 << heads.ilog2();
    let power = |of: f64, times: i64| (-bias / of * times as f64).exp2() as f32;
    let slope = |head: i64| match head < whole {
        true => power(whole as f64, head + 1),
        false => power(2.0 * whole as f64, 2 * (head - whole) + 1),
    };
    (0..heads).map(slope).collect()
}

//! What a model is, from the metadata of its file and the row of its family.

mod activation;
pub(crate) mod distance_bias;
mod embedding;
mod experts;
mod heads;
mod index;
mod keys;
pub(crate) mod ranking;
mod recurrence;
mod rope;
mod streams;
mod window;

pub use crate::family::Gating;
use crate::family::{
    Activation, Alibi, Cap, FAMILIES, Factor, Family, Growth, Limits, Norm, Parallel, Rotated, Routed, WindowRotation,
    missing,
};
pub use activation::Xielu;
pub use embedding::Pooling;
pub use experts::{Adjugates, Experts};
use gguf::plain::name;
use gguf::{Error as GgufError, Gguf};
pub use index::Index;
use keys::{Keys, out_of_range};
pub use ranking::{Ranking, Reads};
pub use recurrence::{Mixer, Recurrence};
use serde::{Deserialize, Serialize};
pub use streams::Streams;
pub use window::Window;

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
    /// A model whose tokens see what follows them, and which is asked for text.
    #[error(
        "'{}' makes embeddings and writes no text: kernloom serve has them at /v1/embeddings and /embedding",
        name(.0)
    )]
    MakesEmbeddings(String),
    /// A model that makes text of masks, and which is asked to go on with one.
    #[error(
        "'{}' makes text of masks in steps of diffusion, which are not built: kernloom logits has its logits",
        name(.0)
    )]
    Denoises(String),
    /// A model without the head of a classifier, and which is asked for scores.
    #[error(
        "'{}' ranks no texts here: its file has no head that a model of this architecture ranks with (cls.weight or \
         cls.output.weight)",
        name(.0)
    )]
    NoRanking(String),
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The residual streams, if there are several.
    pub streams: Option<Streams>,
    /// Positions that the model was made for.
    pub context: i64,
    /// The index that chooses the positions that attention reads, if there is one.
    pub index: Option<Index>,
    /// Whether a token sees what is before it only. Otherwise all tokens of a text come in one step, whose hidden states are
    /// embeddings, and there are logits only if it [denoises](Config::denoises).
    pub causal: bool,
    /// Whether such a model has logits, and makes text of masks.
    pub denoises: bool,
    /// How hidden states become the embedding of a text, if the file says it.
    pub pooling: Option<Pooling>,
    /// What the head of a classifier makes scores of, if the file has one.
    pub ranking: Option<Ranking>,
    /// Kind of the norms.
    pub norm: Norm,
    /// Epsilon of the norms.
    #[serde(rename = "norm_epsilon")]
    pub eps: f32,
    /// Attention.
    pub attention: Attention,
    /// For each layer its heads of keys, where they differ otherwise than by windows; empty where they do not.
    pub kv_heads: Vec<i64>,
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
    /// What values of the feed-forward go through.
    pub activation: Activation,
    /// For each layer the parameters of that, if it has any.
    pub xielu: Vec<Xielu>,
    /// For each layer by how many standard deviations gates are above their mean of which anything is left, if not all are;
    /// empty if all are in all layers.
    pub sparsity: Vec<Option<f32>>,
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
    /// Buckets of distances that have biases of scores, if they have: one half behind a token, the other ahead of it.
    pub distance_buckets: Option<i64>,
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
    /// After each so many layers the stream is halved, if it is.
    pub halved_every: Option<i64>,
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
    pub fn attention_of(&self, layer: i64) -> Attention {
        let attention = self.window_of(layer).and_then(|window| window.attention).unwrap_or(self.attention);
        match (attention, self.kv_heads.get(layer as usize)) {
            (Attention::Grouped { head, value, .. }, Some(&kv_heads)) => Attention::Grouped { kv_heads, head, value },
            _ => attention,
        }
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

    /// Checks that the model goes on with a text, token by token.
    ///
    /// # Errors
    /// [`ConfigError::Denoises`] and [`ConfigError::MakesEmbeddings`].
    pub fn check_goes_on(&self) -> Result<(), ConfigError> {
        match (self.causal, self.denoises) {
            (true, _) => Ok(()),
            (false, true) => Err(ConfigError::Denoises(self.arch.clone())),
            (false, false) => Err(ConfigError::MakesEmbeddings(self.arch.clone())),
        }
    }

    /// The index, if it chooses among so many positions; of as many as it would choose it has no say.
    pub fn index_among(&self, positions: i64) -> Option<&Index> {
        self.index.as_ref().filter(|index| positions > index.top_k)
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
        let k = Keys::new(file, &arch, blocks).with_gaps(family.recurrence.is_some() || family.layers_differ);
        let hidden = k.positive("embedding_length", MOST_WIDTH)?;
        let mtp = k.int("nextn_predict_layers")?.unwrap_or(0);
        if mtp >= blocks {
            return Err(out_of_range(&k.key("nextn_predict_layers"), mtp, "fewer than the blocks"));
        }
        let layers = blocks - mtp;
        let recurrence::Kinds { recurrence, mixers, feeds } = recurrence::kinds(&k, family, layers)?;
        let attends = mixers.iter().any(|mixer| mixer.attends());
        let causal = embedding::causal(&k, family)?;
        let ranking = ranking::ranking(&k, family, causal)?;
        let windows = window::stretches(&k, family.windows, layers)?;
        let with_window = windows.as_ref().map_or(vec![false; layers as usize], |(_, layers)| layers.clone());
        let heads_of_kinds = match attends {
            true => heads::query_heads(&k, &mixers, &with_window)?,
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
        let ffn = match family.routed {
            Routed::Before => vec![hidden; layers as usize],
            _ => Self::feed_forwards(&k, family, &feeds, experts.as_ref())?,
        };
        let lead = k.within("leading_dense_block_count", 0, blocks)?.unwrap_or(0);
        let dense_lead = match family.routed {
            _ if experts.is_none() => blocks,
            Routed::BehindLead => lead,
            Routed::BehindRouterless => {
                let routed = |layer: &i64| file.tensor(&format!("blk.{layer}.ffn_gate_inp.weight")).is_some();
                (0..layers).find(routed).unwrap_or(layers)
            }
            Routed::EveryRouter | Routed::All | Routed::Beside | Routed::Before | Routed::BesideMaybe => 0,
            Routed::None => blocks,
        };
        let every = match k.within("interleave_moe_layer_step", 0, blocks)? {
            None => k.within("moe_every_n_layers", 0, 2)?,
            every => every,
        };
        let every = match family.routed {
            Routed::EveryRouter if experts.is_some() => Some(experts::every(&k, layers)?),
            _ => every,
        };
        let experts_every = every.unwrap_or(1).max(1);
        let (norm, eps) = Self::norm(&k, family)?;
        let (attention, scale, rope, in_windows) = match family.latent {
            _ if !attends => (Attention::None, 1.0, Rope::none(), None),
            true => heads::latent(&k, family, hidden / heads)?,
            false => heads::grouped(&k, family, hidden, heads_of_kinds, &mixers, &with_window)?,
        };
        let keys_of = match family.shares_keys {
            true => window::keys_of(&k, &with_window)?,
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
                // Where what follows is seen, the window lies around the token.
                let (width, ahead) = if causal { (width, 0) } else { (width / 2 + 1, width / 2) };
                Some(Window { width, ahead, chunks, layers, heads, attention, rope })
            }
        };
        let rotated = Self::rotated(&k, family.rotated, layers, window.as_ref(), lead)?;
        let temperature = Self::temperature(&k, family.temperature, window.is_some())?;
        let limits = |key| match family.limits != Limits::None {
            true => {
                let all = k.floats_or_none(key, 1e-6, MOST_FACTOR)?;
                Ok(all.into_iter().take(layers as usize).map(|limit| limit as f32).collect())
            }
            false => Ok::<Vec<f32>, ConfigError>(vec![]),
        };
        let context = k.within("context_length", 1, i64::from(i32::MAX))?.unwrap_or(4096);
        let index = index::index(&k, family, layers, (attention, &rope))?;
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
            context,
            index,
            streams: streams::streams(&k, family)?,
            causal,
            denoises: family.denoises,
            pooling: embedding::pooling(&k, ranking.is_some())?,
            ranking,
            norm,
            eps,
            attention,
            kv_heads: heads::of_layers(&k, family, layers)?,
            recurrence,
            mixers,
            keys_of,
            scale,
            value_scale: factor(family.value_scale, "attention.value_scale")?,
            rope,
            ffn,
            sparsity: streams::sparsity(&k, family, layers)?,
            activation: activation::activation(&k, family)?,
            xielu: activation::parameters(&k, family, layers)?,
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
            slopes: match Self::alibi(&k, family.alibi, layers)? {
                Some(bias) => slopes(heads, bias),
                None => vec![],
            },
            distance_buckets: match family.distance_buckets {
                true => Some(distance_bias::buckets(&k)?),
                false => None,
            },
            score_cap: cap(family.score_cap, "attn_logit_softcapping")?.map(|v| v as f32),
            clamp: match family.clamps {
                true => k.float_or_none("attention.clamp_kqv", 1e-6, MOST_FACTOR)?.map(|v| v as f32),
                false => None,
            },
            temperature,
            embedding_scale: factor(family.embedding_scale, "embedding_scale")?,
            residual_scale: factor(family.residual_scale, "residual_scale")?,
            halved_every: match family.halves_stream {
                true => k.within("rescale_every_n_layers", 0, MOST_BLOCKS)?.filter(|&every| every > 0),
                false => None,
            },
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
        let key = if matches!(norm, Norm::Rms | Norm::BareRms) { of_rms } else { "attention.layer_norm_epsilon" };
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
            (Rotated::AtLayers(n), _) => all(layers == n),
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

    fn alibi(k: &Keys<'_>, rule: Alibi, layers: i64) -> Result<Option<f64>, ConfigError> {
        let of_file = || k.float_or_none("attention.max_alibi_bias", 1e-3, 1e3);
        Ok(match rule {
            Alibi::None => None,
            Alibi::AtLayers(n, bias) => Some(bias).filter(|_| layers == n),
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
}

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

//! The models: everything about them that is not weights or text.
//!
//! Numbers of `published` are those of the models; those of `tiny`, with the same graphs, are small.

mod published;
mod tiny;

use super::{SynthError, join};
use crate::config::{Attention, Experts, Gating, Mixer, Recurrence};
use crate::family::Remembering;
use std::sync::LazyLock;
use text::synth::{Family, LLAMA3};

/// A model of which files can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Name of the shape.
    pub name: &'static str,
    /// `general.architecture`.
    pub arch: &'static str,
    /// Transformer blocks.
    pub layers: u32,
    /// Residual width.
    pub hidden: i64,
    /// Query heads.
    pub heads: i64,
    /// Attention.
    pub attention: Attention,
    /// Heads of keys of the layers, over and over, if they differ otherwise than by windows.
    pub kv_heads: &'static [i64],
    /// What layers remember.
    pub recurrence: Option<Recurrence>,
    /// By what the tokens of the layers come together, over and over.
    pub mixers: &'static [Mixer],
    /// Whether one matrix holds queries, keys and values.
    pub fused_qkv: bool,
    /// Whether the matrices of a block lie there a second time, for pictures.
    pub pictures: bool,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Whether all other matrices, and norms that may have one, have a bias too.
    pub biases: bool,
    /// Whether norms have a bias even where matrices have none.
    pub norm_biases: bool,
    /// Types of tokens, if they have rows that are added to the embedding.
    pub token_types: i64,
    /// Whether positions have such rows.
    pub learned_positions: bool,
    /// Width between the two matrices behind the last norm, in a model of embeddings that has them.
    pub projection: Option<i64>,
    /// The head of a classifier, in a model that ranks.
    pub head: Option<Head>,
    /// Whether the stream before attention is added once more, and has a norm then.
    pub sums_again: bool,
    /// Residual streams, and the rank of the matrices beside attention, in a model that has several.
    pub streams: Option<(i64, i64)>,
    /// The index beside latents, if there is one.
    pub index: Option<Index>,
    /// Whether queries and keys have a norm over all heads, where the family has one for each.
    pub qk_norm_of_all: bool,
    /// Whether queries and keys have a norm of each head with weights of its own.
    pub qk_norm_by_head: bool,
    /// Whether steps, keys and queries of a state space have norms.
    pub selection_norms: bool,
    /// Whether norms behind the halves of a block and of a state space are named without `.weight`, and its convolution has no
    /// bias.
    pub bare_names: bool,
    /// Positions that layers with a window see.
    pub window: Option<u32>,
    /// How layers differ from each other, if they do.
    pub kinds: Option<Kinds>,
    /// Rotated values of a head.
    pub rope_dims: i64,
    /// Base of the rotations.
    pub rope_base: f32,
    /// How the rotations are stretched.
    pub rope_scaling: RopeScaling,
    /// By how much of a logarithm queries grow, after each so many positions.
    pub temperature: Option<(f32, u32)>,
    /// Whether keys and values of latent attention are one `attn_kv_b` in all files.
    pub whole_kv_b: bool,
    /// Width of the dense feed-forward.
    pub ffn: i64,
    /// Whether one matrix holds gate and up.
    pub fused_up: bool,
    /// Whether the feed-forward has no gate, where files of the family may have one.
    pub ungated: bool,
    /// Buckets of distances that have biases of scores, if they have.
    pub distance_buckets: Option<i64>,
    /// Leading blocks with a dense feed-forward, if the others have experts.
    pub dense_lead: u32,
    /// Of so many layers, the last has experts.
    pub experts_every: u32,
    /// Experts.
    pub experts: Option<Experts>,
    /// Whether the choice of experts has a bias.
    pub router_bias: bool,
    /// Whether the shared expert has a gate.
    pub shared_gate: bool,
    /// Epsilon of the norms.
    pub eps: f32,
    /// Whether the embedding is the output matrix too.
    pub tied: bool,
    /// Positions that the model is made for.
    pub context: u32,
    /// Tokens of the vocabulary.
    pub vocab: u32,
    /// The kind of vocabulary and chat.
    pub family: &'static Family,
}

/// What chooses the positions that attention reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its heads.
    pub heads: i64,
    /// Length of a key.
    pub key: i64,
    /// Positions that it chooses.
    pub top_k: i64,
}

/// How layers differ from each other, in their heads and in what they read.
#[derive(Clone, Debug, PartialEq)]
pub struct Kinds {
    /// Of so many layers one has no window.
    pub every: u32,
    /// Whether that is the first of them, and not the last.
    pub first: bool,
    /// Query heads of the layers that have one, if they have another number.
    pub heads: Option<i64>,
    /// Attention of the layers that have one, and how many values of a head are rotated there.
    pub in_windows: (Attention, i64),
    /// Whether the layers without a window take their values from the matrix of keys.
    pub values_of_keys: bool,
    /// Layers at the end that read the caches of others.
    pub shared_caches: u32,
    /// Whether their feed-forward is twice as wide.
    pub wide_readers: bool,
    /// Whether they have matrices of keys and values all the same.
    pub unread_keys: bool,
    /// Width of what each layer reads of a token beside the residual.
    pub layer_input: Option<i64>,
    /// Whether what a layer gives has a scale.
    pub output_scale: bool,
}

impl Kinds {
    /// Whether a layer has a window.
    pub fn windowed(&self, layer: u32) -> bool {
        layer % self.every != if self.first { 0 } else { self.every - 1 }
    }

    /// The first of so many layers that reads the cache of another; there is one of each kind before it.
    pub fn own_caches(&self, layers: u32) -> u32 {
        layers - self.shared_caches.min(layers.saturating_sub(self.every))
    }
}

/// The head of a classifier, with so many labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A matrix and one with a row for each label, both with biases.
    Dense(i64),
    /// The same with a norm between, and a bias of the labels only.
    Normed(i64),
    /// One matrix with a bias.
    Single(i64),
    /// Rows of labels alone.
    Labels(i64),
}

impl Head {
    /// Scores of a text.
    pub fn labels(self) -> i64 {
        let (Head::Dense(labels) | Head::Normed(labels) | Head::Single(labels) | Head::Labels(labels)) = self;
        labels
    }
}

/// How rotations are stretched beyond the context of the training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// YaRN (arXiv 2309.00071).
    Yarn {
        /// Contexts that fit.
        factor: f32,
        /// Context of the training.
        original: u32,
        /// 0.1 times the `mscale_all_dim` of DeepSeek-V2.
        log_multiplier: f32,
    },
    /// Llama 3.1: slow rotations are divided by the factor, fast ones kept, those between blended. Files hold a
    /// divisor for each pair.
    Llama3 {
        /// The factor.
        factor: f32,
        /// Turns within the original context up to which a rotation is slow.
        low: f32,
        /// Turns within the original context from which a rotation is fast.
        high: f32,
        /// Context of the training.
        original: u32,
    },
    /// Not at all, but only the first of so many pairs turn. Files hold a divisor for each pair.
    OneOf(i64),
}

impl Shape {
    /// The shape of this name.
    ///
    /// # Errors
    /// [`SynthError::UnknownShape`] with the names there are.
    pub fn named(name: &str) -> Result<&'static Shape, SynthError> {
        let found = shapes().iter().find(|s| s.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| SynthError::UnknownShape {
            name: name.to_owned(),
            known: join(shapes().iter().map(|shape| shape.name)),
        })
    }

    /// The row of its family.
    pub(super) fn row(&self) -> &'static crate::family::Family {
        crate::family::Family::named(self.arch).expect("shapes are of families")
    }

    /// By what the tokens of a layer come together.
    pub(super) fn mixer(&self, layer: u32) -> Mixer {
        self.mixers[layer as usize % self.mixers.len()]
    }

    /// The heads of keys of a layer, of which all others have so many.
    pub(super) fn kv_heads_of(&self, layer: u32, others: i64) -> i64 {
        match self.kv_heads {
            [] => others,
            all => all[layer as usize % all.len()],
        }
    }

    /// The experts of a layer.
    pub(super) fn experts_of(&self, layer: u32) -> Option<&Experts> {
        let has = layer >= self.dense_lead && (layer + 1).is_multiple_of(self.experts_every);
        self.experts.as_ref().filter(|_| has)
    }

    /// Whether a layer has a feed-forward.
    pub(super) fn feeds(&self, layer: u32) -> bool {
        match self.row().recurrence {
            Some((_, Remembering::All)) => false,
            Some((_, Remembering::Alone)) => self.mixer(layer) == Mixer::None,
            _ => true,
        }
    }

    pub(super) fn is_latent(&self) -> bool {
        matches!(self.attention, Attention::Latent { .. })
    }
}

/// All shapes.
pub fn shapes() -> &'static [Shape] {
    static ALL: LazyLock<Vec<Shape>> = LazyLock::new(|| [published::SHAPES, tiny::SHAPES].concat());
    &ALL
}

/// A dense model of the standard architecture, to be varied.
const PLAIN: Shape = Shape {
    name: "",
    arch: "llama",
    layers: 2,
    hidden: 256,
    heads: 4,
    attention: Attention::Grouped { kv_heads: 2, head: 64, value: 64 },
    kv_heads: &[],
    recurrence: None,
    mixers: &[Mixer::Attention],
    fused_qkv: false,
    pictures: false,
    qkv_bias: false,
    biases: false,
    norm_biases: false,
    token_types: 0,
    learned_positions: false,
    projection: None,
    head: None,
    sums_again: false,
    streams: None,
    index: None,
    qk_norm_of_all: false,
    qk_norm_by_head: false,
    selection_norms: false,
    bare_names: false,
    window: None,
    kinds: None,
    rope_dims: 64,
    rope_base: 5e5,
    rope_scaling: RopeScaling::None,
    temperature: None,
    whole_kv_b: false,
    ffn: 512,
    fused_up: false,
    ungated: false,
    distance_buckets: None,
    dense_lead: 0,
    experts_every: 1,
    experts: None,
    router_bias: false,
    shared_gate: false,
    eps: 1e-5,
    tied: false,
    context: 4096,
    vocab: 512,
    family: &LLAMA3,
};

/// The rule of DeepSeek-V2-Lite: a softmax, used as it is.
const SOFTMAX: Experts = Experts {
    count: 64,
    used: 6,
    shared: 2,
    width: 1408,
    latent: None,
    gating: Gating::Softmax,
    normalise: false,
    scale: 1.0,
    groups: (1, 1),
    adjugates: None,
};

/// The rule of GLM-4.7-Flash: sigmoids, normalised, times 1.8.
const SIGMOID: Experts = Experts {
    count: 64,
    used: 4,
    shared: 1,
    width: 1536,
    latent: None,
    gating: Gating::Sigmoid,
    normalise: true,
    scale: 1.8,
    groups: (1, 1),
    adjugates: None,
};

/// The rule of Qwen3-MoE: a softmax, normalised, and no shared expert.
const NORMALISED: Experts = Experts {
    count: 128,
    used: 8,
    shared: 0,
    width: 768,
    latent: None,
    gating: Gating::Softmax,
    normalise: true,
    scale: 1.0,
    groups: (1, 1),
    adjugates: None,
};

/// Attention in every fourth layer.
const THREE_OF_FOUR: &[Mixer] = &[Mixer::Recurrence, Mixer::Recurrence, Mixer::Recurrence, Mixer::Attention];

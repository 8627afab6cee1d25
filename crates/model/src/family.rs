//! What a family of models is, as far as its files do not say it themselves.
//!
//! A [`Family`] is a row of data. Everything that most models share is [`Family::LLAMA`], and a row says what differs, so
//! a newcomer is usually a few words ([`FAMILIES`]). What a file can say is not in a row: biases, scales of single matrices,
//! gate and up as one matrix, shared experts, and a head of its own are used where they are there. What is in a row is
//! what a tensor means: a norm that is there is read only where the row has a place for it.

mod rows;

pub use rows::{FAMILIES, missing};

use serde::{Deserialize, Serialize};

/// Names of the bias of the choice of experts.
pub const EXPERT_CHOICE_BIAS: [&str; 2] = ["exp_probs_b.bias", "exp_probs_b"];

/// How a row of values is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// By the root of its mean square (arXiv 1910.07467).
    Rms,
    /// By its mean and variance (arXiv 1607.06450).
    Layer,
    /// As [`Norm::Layer`], without weights.
    Bare,
    /// As [`Norm::Rms`], without weights.
    BareRms,
}

impl Norm {
    /// Whether it has no weights.
    pub fn is_bare(self) -> bool {
        matches!(self, Norm::Bare | Norm::BareRms)
    }
}

/// The norm of the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingNorm {
    /// None.
    None,
    /// That of the family (`token_embd_norm`).
    Weighted,
    /// By the root of its mean square, without weights.
    BareRms,
}

/// Names of the norms of a block, without `.weight`; of several, the first that the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Norms {
    /// Of what attention reads; nothing if it reads the residual stream itself.
    pub attention: &'static [&'static str],
    /// Of what attention gives, before it is added to the stream.
    pub after_attention: &'static [&'static str],
    /// Of what the feed-forward reads.
    pub feed_forward: &'static [&'static str],
    /// Of what the feed-forward gives.
    pub after_feed_forward: &'static [&'static str],
    /// Of the stream to which attention was added (arXiv 1706.03762).
    pub attention_sum: &'static [&'static str],
    /// Of that and the stream before attention, which is added once more, in layers that have this norm.
    pub attention_sum_again: &'static [&'static str],
    /// Of the stream to which the feed-forward was added.
    pub feed_forward_sum: &'static [&'static str],
}

/// What the feed-forward reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// What attention has added to the stream.
    No,
    /// What attention reads.
    Yes,
    /// As a key of the file says.
    Key(&'static str),
    /// What attention reads, in files without a norm of the feed-forward, which then shares that of attention.
    WithoutNorm,
}

/// Where queries and keys have norms. Over a head or over all of them, and with weights of how many heads, is what their
/// shapes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorms {
    /// Nowhere.
    None,
    /// Before the rotation.
    Before,
    /// Before the rotation, in files that have them.
    MaybeBefore,
    /// After the rotation.
    After,
    /// After the rotation, of queries with one weight for each head, and of keys without any.
    AfterByHead,
    /// After the rotation, without weights, in layers that are rotated; not in models of so many experts.
    BareUnlessExperts(i64),
}

/// Which values of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// `(2i, 2i + 1)`.
    Neighbours,
    /// `(i, i + n / 2)`.
    Halves,
}

/// Which layers know positions by rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// All of them.
    All,
    /// None.
    None,
    /// All in models of so many layers, and none in others.
    AtLayers(i64),
    /// All but every n-th.
    AllBut(i64),
    /// Those with a window, if any has one.
    Windowed,
    /// The same and the dense lead.
    WindowedAndLead,
    /// All, unless the file says that it was trained without (`rope.scaling.finetuned`).
    UnlessUntrained,
    /// Those that the file says (`attention.rope_pattern`), or all.
    Pattern,
}

/// Whether queries grow with the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// No.
    None,
    /// As the file says (`attention.temperature_scale`).
    Key,
    /// In layers that are not rotated, in models with windows, where the first position counts as 1: as the file says, or by a
    /// tenth of a logarithm for each 8192 positions.
    Unrotated,
}

/// Which layers see a stretch of the past only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Of so many layers one sees all, unless the file says which.
    pub every: i64,
    /// Whether that is the first of them, and not the last.
    pub first: bool,
    /// Positions that the others see, unless the file says so; `None` if only a file that says so has windows.
    pub width: Option<i64>,
    /// Positions of a chunk, if a token sees those before it in its own instead of the last so many; a file can only say that
    /// there are no windows.
    pub chunk: Option<i64>,
    /// Numbers of layers that models with windows have; empty for any.
    pub layers: &'static [i64],
    /// Their rotation.
    pub rotation: WindowRotation,
}

/// How layers with a window are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRotation {
    /// As the others.
    Same,
    /// As the others, with a base of their own if the file has one.
    SameOrBase,
    /// Without any scaling, and with a base of their own: that of the file or 10000.
    Base,
    /// As the others, but without any scaling.
    Unscaled,
    /// As [`WindowRotation::Unscaled`], with a base of their own if the file has one.
    UnscaledOrBase,
}

/// What a value of the feed-forward goes through. Of gate and up, it is the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// x * sigmoid(x).
    Silu,
    /// x * Phi(x), by a tangent (arXiv 1606.08415).
    Gelu,
    /// max(x, 0).
    Relu,
    /// max(x, 0) squared.
    ReluSquared,
    /// With parameters of the file for each layer (xIELU, arXiv 2411.13010).
    Xielu,
    /// `min(x, 7) * sigmoid(1.702 * x)` times up, bounded to 7, and one (gpt-oss).
    ClampedSwiglu,
}

/// What attention gives is multiplied with a function of what it reads, a sigmoid if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionGate {
    /// No.
    None,
    /// Each value with one of its own.
    Each,
    /// Each head with one.
    Head,
    /// Each head with a softplus, or each value with one of its own, as the shape of the matrix says.
    Softplus,
    /// Each value with one of its own, which the matrix of queries gives: behind the query of each head its gate.
    Query,
}

/// Scores that belong to no position, one for each head (`attn_sinks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sinks {
    /// No layer has them.
    None,
    /// All layers have them.
    All,
    /// Those have them that have the tensor.
    Maybe,
}

/// How router scores become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gating {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each score.
    Sigmoid,
    /// Softmax over those that are chosen.
    Chosen,
}

/// Which layers have experts, if a file has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// Those behind the dense lead, or every n-th of them, as the file says.
    BehindLead,
    /// Every n-th, as the first router says (Jamba).
    EveryRouter,
    /// Those behind a lead of layers without a router, of which the file says nothing else.
    BehindRouterless,
    /// All.
    All,
    /// All, beside a dense feed-forward. Both have norms of their own, and the router one whose weights are its scale
    /// (`ffn_gate_inp.scale`).
    Beside,
    /// All, beside a dense feed-forward as wide as the stream. They read what the block reads, by a norm of their own
    /// (`ffn_norm_exps`).
    Before,
    /// All, beside a dense feed-forward of the same input in files that have it; both count by the root of a half.
    BesideMaybe,
    /// None.
    None,
}

/// Whether the weights of the chosen experts are divided by their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalise {
    /// Always.
    Always,
    /// Never.
    Never,
    /// As `expert_weights_norm` says, or not.
    Key,
}

/// Where gates and ups end, in families whose files say it by layer: those of experts (`swiglu_clamp_exp`) and those of all other
/// feed-forwards (`swiglu_clamp_shexp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Nowhere.
    None,
    /// A gate ends after its activation.
    Activation,
    /// A gate ends before its activation.
    Gate,
}

/// Which matrices have scales of their own, in files that have them. Converters write scales for all matrices of a type of
/// four bits, and families differ in what they do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Scales {
    /// None.
    None,
    /// The output of attention.
    Output,
    /// All of attention but a gate.
    Attention,
    /// The last of the feed-forward, too.
    Down,
    /// All of the feed-forward too, and those around a state.
    All,
}

/// A factor that a family has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// None.
    One,
    /// The root of the residual width.
    RootOfWidth,
    /// That of the file, or none.
    Key,
    /// One over that of the file.
    OneOverKey,
    /// That of the file, or this.
    KeyOr(f64),
    /// That of the file, or this over the root of the number of layers.
    KeyOrOverRootOfLayers(f64),
    /// One over that of the file, or the residual width over this.
    OneOverKeyOrWidthOver(f64),
    /// This over the residual width.
    OverWidth(f64),
}

/// What the scores of a head are multiplied with, unless the file says it (`attention.scale`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreScale {
    /// One over the root of the length of a head.
    RootOfHead,
    /// One over the length of a head.
    Head,
    /// Nothing.
    One,
    /// Another key of the file (`attention.output_scale`), or this.
    OutputKeyOr(f64),
    /// As [`ScoreScale::RootOfHead`]; in models of so many layers, of the length that the residual width implies. The
    /// file has no say.
    ImpliedAtLayers(i64),
}

/// A bound of values, by a hyperbolic tangent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cap {
    /// None.
    None,
    /// That of the file, if any.
    Key,
    /// That of the file, or this.
    KeyOr(f64),
}

/// What some layers have that remember in a state of constant size, however long the sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// A convolution over the last few tokens between two gates (LFM2, arXiv 2511.23404).
    Convolution,
    /// A state space in which each head has one decay (Mamba2, arXiv 2405.21060).
    StateSpace,
    /// A state space in which each value of a key has a decay of its own in each channel (Mamba, arXiv 2312.00752).
    SelectiveScan,
    /// A state space in which each head has one decay, with keys, queries and steps as in [`Recurrence::SelectiveScan`]
    /// (PLaMo 2).
    SelectiveHeads,
    /// Linear attention in which each head has one decay, whatever it reads (Lightning Attention, arXiv 2501.08313).
    LinearAttention,
    /// The gated delta rule (arXiv 2412.06464).
    DeltaRule,
    /// The same, but each value of a key is forgotten at its own pace (Kimi Linear, arXiv 2510.26692).
    KeyedDeltaRule,
    /// The same, with a bound of how much is forgotten (`kda.gate_lower_bound`; Ling 3).
    BoundedDeltaRule,
    /// Time mixing: each value of a key is forgotten as the token says, and what is read of a token lies between it and the one
    /// before it, as the token says too (RWKV-6, arXiv 2404.05892).
    TimeMixing,
    /// The same with a delta rule that takes out by one key and puts in by another (RWKV-7, arXiv 2503.14456).
    DeltaTimeMixing,
}

/// Which layers remember, in families that have such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembering {
    /// All of them; none has attention, and none a feed-forward.
    All,
    /// All of them; none has attention, and all have a feed-forward.
    AllFed,
    /// All of them, beside attention.
    Beside,
    /// Those without heads of keys.
    WithoutKeys,
    /// Those without heads of keys and without a feed-forward; of the others, those with a feed-forward have no attention.
    Alone,
    /// All but every n-th, unless the file says which.
    AllBut(i64),
}

/// Linear biases of scores (arXiv 2108.12409).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alibi {
    /// None.
    None,
    /// With this exponent.
    Always(f64),
    /// With this exponent in models of so many layers.
    AtLayers(i64, f64),
    /// With that of the file, if any.
    Key,
}

/// What the first matrix of a classifier makes goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// The hyperbolic tangent.
    Tanh,
    /// The activation of this name.
    Gelu,
}

/// The hidden state that the head of a classifier reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// That of the first token.
    First,
    /// That of the last token.
    Last,
    /// The mean of all.
    Mean,
}

/// The head of a classifier, where a file has one (`cls.weight`, `cls.output.weight`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classifier {
    /// What it reads, unless the file says it (`classifier.pooling_type`).
    pub reads: Reads,
    /// What its first matrix makes goes through.
    pub squash: Squash,
    /// Whether scores go through a softmax, so that they add up to 1.
    pub adds_up: bool,
}

impl Classifier {
    /// That of encoders (arXiv 1907.11692).
    pub const OF_FIRST: Classifier = Classifier { reads: Reads::First, squash: Squash::Tanh, adds_up: false };
    /// That of ModernBERT (arXiv 2412.13663).
    pub const OF_MEAN: Classifier = Classifier { reads: Reads::Mean, squash: Squash::Gelu, adds_up: false };
    /// Rows of the head of a language model, for the tokens of two answers.
    pub const OF_LAST: Classifier = Classifier { reads: Reads::Last, squash: Squash::Tanh, adds_up: true };
}

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// `general.architecture`.
    pub arch: &'static str,
    /// Kind of all norms.
    pub norm: Norm,
    /// Whether norms are [`Norm::Rms`] all the same in files that have an epsilon of such.
    pub rms_by_key: bool,
    /// That of the embedding.
    pub embedding_norm: EmbeddingNorm,
    /// Epsilon of the norms of what attention and feed-forward give, if it is another than that of the file.
    pub eps_after: Option<f32>,
    /// What parts of the names of tensors are in files, if they are others: ours, and theirs.
    pub names: &'static [(&'static str, &'static str)],
    /// Name of the norm of what the last block gives, if it has one.
    pub output_norm: Option<&'static str>,
    /// Whether a token sees what is before it only. Otherwise it sees its whole text, and the model makes embeddings; a file
    /// may say so of any family (`attention.causal`).
    pub causal: bool,
    /// Whether a model whose tokens see what follows has logits of what stands in each place, and makes text of masks in several
    /// steps (LLaDA, arXiv 2502.09992).
    pub denoises: bool,
    /// Norms of a block.
    pub norms: Norms,
    /// Whether the first block must have the norm of what attention reads, as all others do.
    pub first_norm: bool,
    /// Whether a half of a block adds to what it reads, which is the norm of the stream and times `residual_scale`, instead of
    /// the stream (MiniMax-01).
    pub normed_residual: bool,
    /// Whether each block adds the embedding, times a scale of its own (`layer_output_scale`).
    pub adds_embedding: bool,
    /// Whether there are several residual streams, of which a layer works on one.
    pub streams: bool,
    /// Layers that remember, and how.
    pub recurrence: Option<(Recurrence, Remembering)>,
    /// Whether the delta rule has one matrix for how much is learned and how much is forgotten (`ssm_ba`), in which, as
    /// everywhere, the heads of values of one head of keys lie together, and reads its matrices without scales. Otherwise
    /// there are two, and every so many-th head of values belongs to one of keys.
    pub gates_by_key: bool,
    /// What the feed-forward reads.
    pub parallel: Parallel,
    /// Whether keys and values are made of a latent (DeepSeek-V2, arXiv 2405.04434).
    pub latent: bool,
    /// Whether an index chooses the positions that attention reads, and which of its values are rotated together. How many it
    /// chooses at most is a key of the file (`attention.indexer.top_k`; DeepSeek-V3.2): within a context of so many all are
    /// chosen, and the index has no say.
    pub indexed: Option<Pairs>,
    /// Whether blocks have matrices for pictures beside the same ones for text; they are not read.
    pub pictures_beside: bool,
    /// Whether a layer may have heads of keys of its own, a matrix or nothing in place of attention, and no feed-forward, as
    /// counts by layer say.
    pub layers_differ: bool,
    /// Norms of queries and keys.
    pub head_norms: HeadNorms,
    /// Whether values have a norm without weights; in layers without a matrix of values, they are the keys before theirs.
    pub value_norm: bool,
    /// Whether the last layers may read the keys and values of layers before them (`attention.shared_kv_layers`).
    pub shares_keys: bool,
    /// Which values are rotated together.
    pub pairs: Pairs,
    /// The same in files with `rope.dimension_sections`, which are for pictures: text has one position for all sections.
    pub pairs_with_sections: Option<Pairs>,
    /// Whether angles are divided by factors for short and for long contexts where the file has them, whatever it says of
    /// scaling.
    pub long_factors: bool,
    /// Which layers are rotated.
    pub rotated: Rotated,
    /// Whether layers without a window rotate half of the values that the file says.
    pub halves_rotation: bool,
    /// Which layers see a stretch of the past.
    pub windows: Option<Windows>,
    /// Biases of scores by distance.
    pub alibi: Alibi,
    /// Whether scores have biases that are learned for each head, for distances in buckets, behind and ahead
    /// (`attention.relative_buckets_count`; T5, arXiv 1910.10683, section 2.1).
    pub distance_buckets: bool,
    /// Bound of scores.
    pub score_cap: Cap,
    /// Factor of scores.
    pub score_scale: ScoreScale,
    /// Scores that belong to no position.
    pub sinks: Sinks,
    /// Factor of values.
    pub value_scale: Factor,
    /// Gate of what attention gives.
    pub attention_gate: AttentionGate,
    /// Whether queries, keys and values are bounded by `attention.clamp_kqv`.
    pub clamps: bool,
    /// Whether queries grow with the position.
    pub temperature: Growth,
    /// Whether what enters the last matrix of attention and feed-forward has a norm (`attn_sub_norm`, `ffn_sub_norm`).
    pub inner_norms: bool,
    /// Activation of the feed-forward.
    pub activation: Activation,
    /// Whether a file may name another (`hidden_activation`).
    pub activation_by_key: bool,
    /// Whether the feed-forward has a gate.
    pub gated: bool,
    /// That of one without a gate, if files of a family with gates may have such.
    pub ungated: Option<Activation>,
    /// Whether the feed-forward mixes channels: what it reads of a token lies between it and the one before it (RWKV, arXiv
    /// 2404.05892).
    pub mixes_channels: bool,
    /// Whether the stream is halved after each so many layers, if the file says so (`rescale_every_n_layers`).
    pub halves_stream: bool,
    /// Whether the file says by layer how few gates are left (`activation_sparsity_scale`).
    pub sparse_gates: bool,
    /// Where gates and ups end.
    pub limits: Limits,
    /// Whether `feed_forward_length` counts gate and up.
    pub counts_gate: bool,
    /// Which matrices are multiplied with a scale where the file has one.
    pub scales: Scales,
    /// Which layers have experts.
    pub routed: Routed,
    /// How scores of a router become weights, if the file does not say it; `None`: by sigmoids if there is a bias of the
    /// choice.
    pub gating: Option<Gating>,
    /// Whether weights of experts are normalised.
    pub normalise: Normalise,
    /// Whether groups of experts share one beside them (`experts_per_group`; GroveMoE, arXiv 2508.07785).
    pub groups_share: bool,
    /// Whether routed and shared experts count by half each.
    pub halves_experts: bool,
    /// Whether the router reads the residual stream before attention.
    pub routes_early: bool,
    /// Whether what an expert reads is multiplied with its weight, instead of what it gives.
    pub weighs_inputs: bool,
    /// Factor of the embedding.
    pub embedding_scale: Factor,
    /// Factor of what a half of a block adds.
    pub residual_scale: Factor,
    /// Factor of logits.
    pub logit_scale: Factor,
    /// Bound of logits.
    pub logit_cap: Cap,
    /// The head of a classifier, in families that may have one.
    pub classifier: Option<Classifier>,
}

impl Family {
    /// The row of an architecture.
    pub fn named(arch: &str) -> Option<&'static Family> {
        FAMILIES.iter().find(|family| family.arch == arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rows_are_unique_and_documented() {
        let documented = include_str!("../../../docs/models.md");
        let mut seen = HashSet::new();
        for family in FAMILIES {
            assert!(seen.insert(family.arch), "two rows of {}", family.arch);
            assert_eq!(Family::named(family.arch), Some(family));
            assert!(documented.contains(&format!("`{}`", family.arch)), "docs/models.md has no {}", family.arch);
            assert_eq!(missing(family.arch), None, "{} is there", family.arch);
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(missing("kimi-k3"), Some("a state space or linear attention"));
        assert_eq!(missing("no such thing"), None);
    }
}

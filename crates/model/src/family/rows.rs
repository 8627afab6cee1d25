//! The families. A row says how it differs from [`Family::LLAMA`], or from another row.
//!
//! What is said here was read in the definitions of the models in llama.cpp and compared with its logits.

use super::{
    Activation, Alibi, AttentionGate, Cap, Classifier, EmbeddingNorm, Factor, Family, Gating, Growth, HeadNorms,
    Limits, Norm, Normalise, Norms, Pairs, Parallel, Recurrence, Remembering, Rotated, Routed, Scales, ScoreScale,
    Sinks, WindowRotation, Windows,
};

/// Norms before attention and feed-forward.
const BEFORE: Norms = Norms {
    attention: &["attn_norm"],
    after_attention: &[],
    feed_forward: &["ffn_norm"],
    after_feed_forward: &[],
    attention_sum: &[],
    attention_sum_again: &[],
    feed_forward_sum: &[],
};

/// The second norm has a name that says where it was in other models.
const POST_IS_SECOND: Norms = Norms { feed_forward: &["post_attention_norm"], ..BEFORE };

/// Norms before and after both halves.
const SANDWICH: Norms =
    Norms { after_attention: &["post_attention_norm"], after_feed_forward: &["post_ffw_norm"], ..BEFORE };

/// Norms after both halves only.
const AFTER: Norms = Norms { attention: &[], feed_forward: &[], ..SANDWICH };

/// One norm, for attention and a feed-forward beside it.
const SHARED: Norms = Norms { feed_forward: &["attn_norm"], ..BEFORE };

/// Norms of the stream behind both halves, as in the first transformers.
const OF_SUMS: Norms = Norms {
    attention: &[],
    feed_forward: &[],
    attention_sum: &["attn_output_norm"],
    feed_forward_sum: &["layer_output_norm"],
    ..BEFORE
};

/// Windows of every layer, in files that have any.
const ALL_WINDOWS: Windows =
    Windows { every: 0, first: false, width: None, chunk: None, layers: &[], rotation: WindowRotation::Same };

/// Windows of every layer but one of four.
const OF_FOUR: Windows = Windows { every: 4, ..ALL_WINDOWS };

impl Family {
    /// What most have in common.
    pub const LLAMA: Family = Family {
        arch: "llama",
        norm: Norm::Rms,
        rms_by_key: false,
        embedding_norm: EmbeddingNorm::None,
        eps_after: None,
        names: &[],
        output_norm: Some("output_norm"),
        causal: true,
        denoises: false,
        norms: BEFORE,
        first_norm: true,
        normed_residual: false,
        adds_embedding: false,
        streams: false,
        recurrence: None,
        gates_by_key: false,
        parallel: Parallel::No,
        latent: false,
        indexed: None,
        pictures_beside: false,
        layers_differ: false,
        head_norms: HeadNorms::None,
        value_norm: false,
        shares_keys: false,
        pairs: Pairs::Neighbours,
        pairs_with_sections: None,
        long_factors: false,
        rotated: Rotated::All,
        halves_rotation: false,
        windows: None,
        alibi: Alibi::None,
        distance_buckets: false,
        score_cap: Cap::None,
        score_scale: ScoreScale::RootOfHead,
        sinks: Sinks::None,
        value_scale: Factor::One,
        attention_gate: AttentionGate::None,
        clamps: false,
        temperature: Growth::None,
        inner_norms: false,
        activation: Activation::Silu,
        activation_by_key: false,
        gated: true,
        ungated: None,
        mixes_channels: false,
        halves_stream: false,
        sparse_gates: false,
        limits: Limits::None,
        counts_gate: false,
        scales: Scales::Attention,
        routed: Routed::BehindLead,
        gating: Some(Gating::Softmax),
        normalise: Normalise::Always,
        groups_share: false,
        halves_experts: false,
        routes_early: false,
        weighs_inputs: false,
        embedding_scale: Factor::One,
        residual_scale: Factor::One,
        logit_scale: Factor::One,
        logit_cap: Cap::None,
        classifier: None,
    };

    /// Rotated by halves.
    const QWEN2: Family = Family { arch: "qwen2", pairs: Pairs::Halves, ..Family::LLAMA };

    /// With norms of queries and keys.
    const QWEN3: Family = Family { arch: "qwen3", head_norms: HeadNorms::Before, ..Family::QWEN2 };

    /// Layer norms and a feed-forward without a gate.
    const GPTNEOX: Family = Family {
        arch: "gptneox",
        norm: Norm::Layer,
        parallel: Parallel::Key("use_parallel_residual"),
        activation: Activation::Gelu,
        gated: false,
        ..Family::QWEN2
    };

    /// With learned positions instead of rotations.
    const GPT2: Family = Family { arch: "gpt2", parallel: Parallel::No, rotated: Rotated::None, ..Family::GPTNEOX };

    const GEMMA: Family =
        Family { arch: "gemma", activation: Activation::Gelu, embedding_scale: Factor::RootOfWidth, ..Family::QWEN2 };

    /// Encoders: tokens see what follows, and norms are of the stream.
    const BERT: Family = Family {
        arch: "bert",
        norm: Norm::Layer,
        embedding_norm: EmbeddingNorm::Weighted,
        output_norm: None,
        causal: false,
        norms: OF_SUMS,
        rotated: Rotated::None,
        activation: Activation::Gelu,
        gated: false,
        ..Family::QWEN2
    };

    const GEMMA3: Family = Family {
        arch: "gemma3",
        norms: SANDWICH,
        head_norms: HeadNorms::Before,
        windows: Some(Windows { every: 6, rotation: WindowRotation::Base, ..ALL_WINDOWS }),
        score_scale: ScoreScale::ImpliedAtLayers(62),
        logit_cap: Cap::Key,
        ..Family::GEMMA
    };

    const GRANITE: Family = Family {
        arch: "granite",
        embedding_scale: Factor::Key,
        residual_scale: Factor::Key,
        logit_scale: Factor::OneOverKey,
        ..Family::LLAMA
    };

    const COMMAND_R: Family = Family {
        arch: "command-r",
        norm: Norm::Layer,
        norms: SHARED,
        parallel: Parallel::Yes,
        head_norms: HeadNorms::MaybeBefore,
        logit_scale: Factor::Key,
        ..Family::LLAMA
    };

    const LFM2: Family = Family {
        arch: "lfm2",
        output_norm: Some("token_embd_norm"),
        recurrence: Some((Recurrence::Convolution, Remembering::WithoutKeys)),
        ..Family::QWEN3
    };

    /// With keys and values of one latent.
    const DEEPSEEK2: Family = Family {
        arch: "deepseek2",
        latent: true,
        temperature: Growth::Key,
        gating: None,
        normalise: Normalise::Key,
        ..Family::LLAMA
    };

    /// With an index beside latents.
    const DEEPSEEK32: Family = Family {
        arch: "deepseek32",
        indexed: Some(Pairs::Halves),
        temperature: Growth::None,
        scales: Scales::All,
        ..Family::DEEPSEEK2
    };

    const MINICPM: Family = Family {
        arch: "minicpm",
        embedding_scale: Factor::KeyOr(12.0),
        residual_scale: Factor::KeyOrOverRootOfLayers(1.4),
        logit_scale: Factor::OneOverKeyOrWidthOver(256.0),
        ..Family::LLAMA
    };

    /// Without attention and without a feed-forward.
    const MAMBA2: Family = Family {
        arch: "mamba2",
        recurrence: Some((Recurrence::StateSpace, Remembering::All)),
        scales: Scales::All,
        ..Family::LLAMA
    };

    /// State spaces, attention and feed-forwards in layers of their own.
    const NEMOTRON_H: Family = Family {
        arch: "nemotron_h",
        norms: Norms { feed_forward: &["attn_norm"], ..BEFORE },
        recurrence: Some((Recurrence::StateSpace, Remembering::Alone)),
        rotated: Rotated::None,
        activation: Activation::ReluSquared,
        gated: false,
        ..Family::MAMBA2
    };

    /// Three layers with the delta rule for one with attention.
    const QWEN35: Family = Family {
        arch: "qwen35",
        norms: POST_IS_SECOND,
        recurrence: Some((Recurrence::DeltaRule, Remembering::AllBut(4))),
        attention_gate: AttentionGate::Query,
        scales: Scales::All,
        ..Family::QWEN3
    };

    /// Time mixing and channel mixing.
    const RWKV7: Family = Family {
        arch: "rwkv7",
        norm: Norm::Layer,
        embedding_norm: EmbeddingNorm::Weighted,
        norms: Norms { feed_forward: &["attn_norm_2"], ..BEFORE },
        recurrence: Some((Recurrence::DeltaTimeMixing, Remembering::AllFed)),
        mixes_channels: true,
        scales: Scales::None,
        ..Family::LLAMA
    };

    const OLMO2: Family = Family {
        arch: "olmo2",
        norms: AFTER,
        windows: Some(Windows { rotation: WindowRotation::Unscaled, ..OF_FOUR }),
        ..Family::QWEN3
    };
}

/// All families.
pub const FAMILIES: &[Family] = &[
    Family { scales: Scales::All, ..Family::LLAMA },
    Family::QWEN2,
    Family { arch: "qwen2moe", normalise: Normalise::Never, ..Family::QWEN2 },
    Family { arch: "qwen2vl", ..Family::QWEN2 },
    Family { scales: Scales::All, classifier: Some(Classifier::OF_LAST), ..Family::QWEN3 },
    Family { arch: "qwen3moe", scales: Scales::All, ..Family::QWEN3 },
    Family {
        arch: "plamo3",
        norms: SANDWICH,
        windows: Some(Windows { every: 8, rotation: WindowRotation::Base, ..ALL_WINDOWS }),
        scales: Scales::Output,
        ..Family::QWEN3
    },
    Family { arch: "qwen3vl", classifier: Some(Classifier::OF_LAST), ..Family::QWEN3 },
    Family { arch: "qwen3vlmoe", ..Family::QWEN3 },
    Family { arch: "qwen", counts_gate: true, ..Family::QWEN2 },
    Family::DEEPSEEK2,
    Family { arch: "mistral4", ..Family::DEEPSEEK2 },
    Family::DEEPSEEK32,
    Family { arch: "glm-dsa", indexed: Some(Pairs::Neighbours), gating: Some(Gating::Sigmoid), ..Family::DEEPSEEK32 },
    Family { arch: "deepseek2-ocr", normalise: Normalise::Key, ..Family::QWEN2 },
    Family { arch: "plm", latent: true, activation: Activation::ReluSquared, gated: false, ..Family::LLAMA },
    Family { arch: "deepseek", normalise: Normalise::Never, ..Family::LLAMA },
    Family { arch: "dots1", gating: None, normalise: Normalise::Key, ..Family::QWEN3 },
    Family { arch: "chatglm", ..Family::LLAMA },
    Family { arch: "glm4", norms: SANDWICH, pairs_with_sections: Some(Pairs::Halves), ..Family::LLAMA },
    Family {
        arch: "glm4moe",
        norms: POST_IS_SECOND,
        head_norms: HeadNorms::MaybeBefore,
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Key,
        ..Family::QWEN2
    },
    Family::GEMMA,
    Family {
        arch: "gemma2",
        norms: SANDWICH,
        windows: Some(Windows { every: 2, width: Some(4096), rotation: WindowRotation::SameOrBase, ..ALL_WINDOWS }),
        score_cap: Cap::KeyOr(50.0),
        score_scale: ScoreScale::ImpliedAtLayers(46),
        logit_cap: Cap::KeyOr(30.0),
        ..Family::GEMMA
    },
    Family::GEMMA3,
    Family {
        arch: "gemma3n",
        norms: SANDWICH,
        streams: true,
        head_norms: HeadNorms::Before,
        value_norm: true,
        shares_keys: true,
        windows: Some(Windows { every: 5, rotation: WindowRotation::Base, ..ALL_WINDOWS }),
        score_scale: ScoreScale::One,
        sparse_gates: true,
        logit_cap: Cap::KeyOr(30.0),
        ..Family::GEMMA
    },
    Family {
        arch: "gemma4",
        norms: SANDWICH,
        head_norms: HeadNorms::Before,
        value_norm: true,
        shares_keys: true,
        windows: Some(Windows { every: 6, rotation: WindowRotation::Base, ..ALL_WINDOWS }),
        score_scale: ScoreScale::One,
        scales: Scales::All,
        routed: Routed::Beside,
        logit_cap: Cap::KeyOr(30.0),
        ..Family::GEMMA
    },
    Family {
        arch: "llama4",
        head_norms: HeadNorms::BareUnlessExperts(128),
        rotated: Rotated::Windowed,
        windows: Some(Windows { chunk: Some(8192), ..OF_FOUR }),
        temperature: Growth::Unrotated,
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Never,
        weighs_inputs: true,
        ..Family::LLAMA
    },
    Family { arch: "mistral3", temperature: Growth::Key, scales: Scales::All, ..Family::LLAMA },
    Family { arch: "phi2", norms: SHARED, parallel: Parallel::Yes, ..Family::GPTNEOX },
    Family { arch: "phi3", long_factors: true, ..Family::QWEN2 },
    Family { arch: "phimoe", long_factors: true, ..Family::QWEN2 },
    Family { arch: "smollm3", rotated: Rotated::AllBut(4), ..Family::LLAMA },
    Family { arch: "olmo", norm: Norm::Bare, clamps: true, ..Family::LLAMA },
    Family::OLMO2,
    Family { arch: "olmoe", normalise: Normalise::Never, ..Family::QWEN3 },
    Family { rotated: Rotated::UnlessUntrained, ..Family::GRANITE },
    Family { arch: "granitemoe", ..Family::GRANITE },
    Family::MINICPM,
    Family {
        arch: "minicpm3",
        latent: true,
        pairs: Pairs::Halves,
        long_factors: true,
        logit_scale: Factor::OverWidth(256.0),
        ..Family::MINICPM
    },
    Family {
        arch: "gpt-oss",
        norms: POST_IS_SECOND,
        windows: Some(Windows { every: 2, rotation: WindowRotation::SameOrBase, ..ALL_WINDOWS }),
        sinks: Sinks::All,
        activation: Activation::ClampedSwiglu,
        gating: Some(Gating::Chosen),
        normalise: Normalise::Never,
        ..Family::QWEN2
    },
    Family::GPT2,
    Family { arch: "starcoder", ..Family::GPT2 },
    Family { arch: "starcoder2", parallel: Parallel::No, ..Family::GPTNEOX },
    Family { arch: "codeshell", parallel: Parallel::No, ..Family::GPTNEOX },
    Family::GPTNEOX,
    Family {
        arch: "falcon",
        norms: Norms { attention: &["attn_norm_2", "attn_norm"], ..SHARED },
        parallel: Parallel::Yes,
        ..Family::GPTNEOX
    },
    Family { arch: "bloom", embedding_norm: EmbeddingNorm::Weighted, alibi: Alibi::Always(8.0), ..Family::GPT2 },
    Family { arch: "mpt", alibi: Alibi::Key, clamps: true, head_norms: HeadNorms::MaybeBefore, ..Family::GPT2 },
    Family {
        arch: "jais",
        alibi: Alibi::Key,
        score_scale: ScoreScale::Head,
        activation: Activation::Silu,
        gated: true,
        ..Family::GPT2
    },
    Family { arch: "jais2", parallel: Parallel::No, activation: Activation::ReluSquared, ..Family::GPTNEOX },
    Family { arch: "nemotron", parallel: Parallel::No, activation: Activation::ReluSquared, ..Family::GPTNEOX },
    Family { arch: "arcee", activation: Activation::ReluSquared, gated: false, ..Family::LLAMA },
    Family { arch: "refact", routed: Routed::None, alibi: Alibi::Always(8.0), rotated: Rotated::None, ..Family::LLAMA },
    Family {
        arch: "stablelm",
        norm: Norm::Layer,
        norms: Norms { feed_forward: &["ffn_norm", "attn_norm"], ..BEFORE },
        parallel: Parallel::WithoutNorm,
        head_norms: HeadNorms::MaybeBefore,
        ..Family::QWEN2
    },
    Family { arch: "orion", norm: Norm::Layer, ..Family::QWEN2 },
    Family { arch: "plamo", norms: SHARED, parallel: Parallel::Yes, ..Family::QWEN2 },
    Family::COMMAND_R,
    Family {
        arch: "cohere2",
        head_norms: HeadNorms::None,
        rotated: Rotated::Windowed,
        windows: Some(OF_FOUR),
        scales: Scales::All,
        ..Family::COMMAND_R
    },
    Family {
        arch: "cohere2moe",
        rms_by_key: true,
        head_norms: HeadNorms::None,
        rotated: Rotated::WindowedAndLead,
        windows: Some(Windows { first: true, ..OF_FOUR }),
        scales: Scales::All,
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Key,
        halves_experts: true,
        ..Family::COMMAND_R
    },
    Family {
        arch: "dbrx",
        norm: Norm::Layer,
        norms: Norms { feed_forward: &["attn_output_norm"], ..BEFORE },
        clamps: true,
        ..Family::QWEN2
    },
    Family { arch: "cogvlm", pairs: Pairs::Halves, scales: Scales::Output, pictures_beside: true, ..Family::LLAMA },
    Family { arch: "xverse", ..Family::LLAMA },
    Family { arch: "internlm2", ..Family::LLAMA },
    Family { arch: "exaone", ..Family::QWEN2 },
    Family {
        arch: "exaone4",
        norms: AFTER,
        rotated: Rotated::Windowed,
        windows: Some(Windows { width: Some(4096), layers: &[64], ..OF_FOUR }),
        ..Family::QWEN3
    },
    Family {
        arch: "exaone-moe",
        rotated: Rotated::Windowed,
        windows: Some(Windows { width: Some(128), ..OF_FOUR }),
        normalise: Normalise::Key,
        ..Family::QWEN3
    },
    Family { arch: "seed_oss", norms: POST_IS_SECOND, ..Family::QWEN2 },
    Family { arch: "ernie4_5", routed: Routed::None, ..Family::LLAMA },
    Family { arch: "ernie4_5-moe", ..Family::LLAMA },
    Family { arch: "paddleocr", routed: Routed::None, pairs_with_sections: Some(Pairs::Halves), ..Family::LLAMA },
    Family { arch: "hunyuan-dense", head_norms: HeadNorms::After, ..Family::QWEN2 },
    Family { arch: "hunyuan_vl", head_norms: HeadNorms::After, ..Family::QWEN2 },
    Family { arch: "hunyuan-moe", head_norms: HeadNorms::After, ..Family::QWEN2 },
    Family {
        arch: "hy_v3",
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Key,
        scales: Scales::All,
        ..Family::QWEN3
    },
    Family { arch: "maincoder", head_norms: HeadNorms::After, ..Family::LLAMA },
    Family { arch: "nanbeige", scales: Scales::All, ..Family::LLAMA },
    Family { arch: "bailingmoe", routed: Routed::All, normalise: Normalise::Key, ..Family::LLAMA },
    Family { arch: "bailingmoe2", normalise: Normalise::Key, ..Family::QWEN3 },
    Family { arch: "minimax-m2", gating: Some(Gating::Sigmoid), ..Family::QWEN3 },
    Family {
        arch: "mimo2",
        windows: Some(Windows { rotation: WindowRotation::Base, ..ALL_WINDOWS }),
        sinks: Sinks::Maybe,
        value_scale: Factor::Key,
        scales: Scales::Output,
        routed: Routed::BehindRouterless,
        gating: Some(Gating::Sigmoid),
        ..Family::QWEN2
    },
    Family {
        arch: "laguna",
        windows: Some(Windows { first: true, rotation: WindowRotation::UnscaledOrBase, ..OF_FOUR }),
        attention_gate: AttentionGate::Softplus,
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Key,
        ..Family::QWEN3
    },
    Family {
        arch: "step35",
        halves_rotation: true,
        windows: Some(Windows { rotation: WindowRotation::Base, ..ALL_WINDOWS }),
        attention_gate: AttentionGate::Head,
        limits: Limits::Activation,
        routed: Routed::BehindRouterless,
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Key,
        ..Family::QWEN3
    },
    Family { arch: "pangu-embedded", ..Family::QWEN2 },
    Family {
        arch: "mellum",
        windows: Some(Windows { rotation: WindowRotation::Unscaled, ..OF_FOUR }),
        scales: Scales::All,
        ..Family::QWEN3
    },
    Family {
        arch: "afmoe",
        norms: SANDWICH,
        rotated: Rotated::AllBut(4),
        windows: Some(Windows { rotation: WindowRotation::SameOrBase, ..OF_FOUR }),
        attention_gate: AttentionGate::Each,
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Key,
        embedding_scale: Factor::RootOfWidth,
        ..Family::QWEN3
    },
    Family {
        arch: "spark2_5",
        windows: Some(Windows { rotation: WindowRotation::SameOrBase, ..OF_FOUR }),
        attention_gate: AttentionGate::Head,
        activation: Activation::Gelu,
        ..Family::QWEN2
    },
    Family {
        arch: "smallthinker",
        rotated: Rotated::Windowed,
        windows: Some(Windows { first: true, rotation: WindowRotation::SameOrBase, ..OF_FOUR }),
        activation: Activation::Relu,
        routed: Routed::All,
        gating: Some(Gating::Sigmoid),
        routes_early: true,
        ..Family::QWEN2
    },
    Family { arch: "bitnet", inner_norms: true, scales: Scales::All, ..Family::QWEN2 },
    Family { arch: "openelm", scales: Scales::Output, ..Family::QWEN3 },
    Family { windows: Some(ALL_WINDOWS), ..Family::LFM2 },
    Family { arch: "lfm2moe", ..Family::LFM2 },
    Family::MAMBA2,
    Family { arch: "mamba", recurrence: Some((Recurrence::SelectiveScan, Remembering::All)), ..Family::MAMBA2 },
    Family {
        arch: "jamba",
        recurrence: Some((Recurrence::SelectiveScan, Remembering::WithoutKeys)),
        rotated: Rotated::None,
        routed: Routed::EveryRouter,
        normalise: Normalise::Never,
        ..Family::LLAMA
    },
    Family {
        arch: "plamo2",
        norms: SANDWICH,
        recurrence: Some((Recurrence::SelectiveHeads, Remembering::WithoutKeys)),
        scales: Scales::Output,
        ..Family::QWEN3
    },
    Family::NEMOTRON_H,
    Family {
        arch: "nemotron_h_moe",
        routed: Routed::All,
        gating: Some(Gating::Sigmoid),
        normalise: Normalise::Key,
        ..Family::NEMOTRON_H
    },
    Family {
        arch: "granite_swa",
        rotated: Rotated::Pattern,
        windows: Some(ALL_WINDOWS),
        sinks: Sinks::All,
        ..Family::GRANITE
    },
    Family {
        arch: "granitehybrid",
        recurrence: Some((Recurrence::StateSpace, Remembering::WithoutKeys)),
        scales: Scales::Attention,
        rotated: Rotated::UnlessUntrained,
        ..Family::GRANITE
    },
    Family {
        arch: "falcon-h1",
        recurrence: Some((Recurrence::StateSpace, Remembering::Beside)),
        scales: Scales::Attention,
        ..Family::QWEN2
    },
    Family {
        arch: "kimi-linear",
        recurrence: Some((Recurrence::KeyedDeltaRule, Remembering::WithoutKeys)),
        latent: true,
        rotated: Rotated::None,
        scales: Scales::Output,
        gating: None,
        ..Family::LLAMA
    },
    Family::RWKV7,
    Family {
        arch: "arwkv7",
        recurrence: Some((Recurrence::DeltaTimeMixing, Remembering::AllFed)),
        scales: Scales::None,
        ..Family::LLAMA
    },
    Family {
        arch: "rwkv6",
        recurrence: Some((Recurrence::TimeMixing, Remembering::AllFed)),
        halves_stream: true,
        ..Family::RWKV7
    },
    Family {
        arch: "rwkv6qwen2",
        recurrence: Some((Recurrence::TimeMixing, Remembering::AllFed)),
        scales: Scales::None,
        ..Family::LLAMA
    },
    Family::QWEN35,
    Family { arch: "qwen35moe", ..Family::QWEN35 },
    Family { arch: "qwen3next", gates_by_key: true, ..Family::QWEN35 },
    Family {
        arch: "apertus",
        head_norms: HeadNorms::Before,
        activation: Activation::Xielu,
        gated: false,
        ..Family::QWEN2
    },
    Family { arch: "baichuan", rotated: Rotated::AtLayers(32), alibi: Alibi::AtLayers(40, 8.0), ..Family::LLAMA },
    Family { arch: "deci", layers_differ: true, ..Family::LLAMA },
    Family { arch: "arctic", routed: Routed::Before, ..Family::LLAMA },
    Family {
        arch: "grok",
        norms: Norms {
            after_attention: &["attn_output_norm"],
            after_feed_forward: &["layer_output_norm", "post_ffw_norm"],
            ..BEFORE
        },
        score_cap: Cap::KeyOr(30.0),
        score_scale: ScoreScale::OutputKeyOr(0.088_388_347_648_318_45),
        activation: Activation::Gelu,
        routed: Routed::BesideMaybe,
        embedding_scale: Factor::KeyOr(78.383_671_769_061_69),
        logit_scale: Factor::KeyOr(0.577_350_269_189_625_7),
        logit_cap: Cap::Key,
        ..Family::QWEN2
    },
    Family { arch: "grovemoe", groups_share: true, ..Family::QWEN3 },
    Family {
        arch: "maple",
        rotated: Rotated::Windowed,
        windows: Some(Windows { rotation: WindowRotation::SameOrBase, ..ALL_WINDOWS }),
        limits: Limits::Gate,
        ..Family::QWEN3
    },
    Family {
        arch: "muse-glimmer",
        embedding_norm: EmbeddingNorm::BareRms,
        eps_after: Some(1e-8),
        norms: SANDWICH,
        head_norms: HeadNorms::Before,
        rotated: Rotated::Windowed,
        windows: Some(Windows { rotation: WindowRotation::SameOrBase, ..OF_FOUR }),
        attention_gate: AttentionGate::Each,
        logit_scale: Factor::Key,
        logit_cap: Cap::KeyOr(30.0),
        ..Family::LLAMA
    },
    Family {
        arch: "talkie",
        norm: Norm::BareRms,
        embedding_norm: EmbeddingNorm::BareRms,
        adds_embedding: true,
        head_norms: HeadNorms::AfterByHead,
        scales: Scales::Down,
        logit_scale: Factor::Key,
        ..Family::QWEN2
    },
    Family {
        arch: "minimax-01",
        normed_residual: true,
        recurrence: Some((Recurrence::LinearAttention, Remembering::AllBut(8))),
        residual_scale: Factor::Key,
        ..Family::QWEN2
    },
    Family {
        arch: "bailingmoe3",
        recurrence: Some((Recurrence::BoundedDeltaRule, Remembering::WithoutKeys)),
        latent: true,
        pairs_with_sections: Some(Pairs::Halves),
        attention_gate: AttentionGate::Head,
        limits: Limits::Activation,
        scales: Scales::None,
        gating: None,
        normalise: Normalise::Key,
        ..Family::LLAMA
    },
    Family { arch: "llada", causal: false, denoises: true, ..Family::LLAMA },
    Family { arch: "llada-moe", causal: false, denoises: true, normalise: Normalise::Never, ..Family::QWEN3 },
    Family { arch: "dream", causal: false, denoises: true, ..Family::QWEN2 },
    Family { arch: "rnd1", causal: false, denoises: true, ..Family::QWEN3 },
    Family { classifier: Some(Classifier::OF_FIRST), ..Family::BERT },
    Family { arch: "nomic-bert", rotated: Rotated::All, activation: Activation::Silu, gated: true, ..Family::BERT },
    Family { arch: "nomic-bert-moe", rotated: Rotated::All, normalise: Normalise::Never, ..Family::BERT },
    Family {
        arch: "jina-bert-v2",
        head_norms: HeadNorms::MaybeBefore,
        alibi: Alibi::Always(8.0),
        gated: true,
        classifier: Some(Classifier::OF_FIRST),
        norms: Norms { attention_sum_again: &["attn_norm_2"], ..OF_SUMS },
        ..Family::BERT
    },
    Family { arch: "jina-bert-v3", rotated: Rotated::All, ..Family::BERT },
    Family {
        arch: "modern-bert",
        norm: Norm::Layer,
        embedding_norm: EmbeddingNorm::Weighted,
        causal: false,
        first_norm: false,
        windows: Some(Windows { every: 3, first: true, rotation: WindowRotation::Base, ..ALL_WINDOWS }),
        activation: Activation::Gelu,
        activation_by_key: true,
        classifier: Some(Classifier::OF_MEAN),
        ..Family::QWEN2
    },
    Family {
        arch: "neo-bert",
        output_norm: Some("enc.output_norm"),
        causal: false,
        classifier: Some(Classifier::OF_FIRST),
        ..Family::LLAMA
    },
    Family {
        arch: "t5encoder",
        names: &[("blk.", "enc.blk."), ("attn_output", "attn_o")],
        output_norm: Some("enc.output_norm"),
        causal: false,
        rotated: Rotated::None,
        distance_buckets: true,
        score_scale: ScoreScale::One,
        activation: Activation::Gelu,
        ungated: Some(Activation::Relu),
        scales: Scales::None,
        ..Family::LLAMA
    },
    Family { arch: "eurobert", causal: false, ..Family::QWEN2 },
    Family { arch: "llama-embed", causal: false, ..Family::LLAMA },
    Family {
        arch: "gemma-embedding",
        causal: false,
        score_scale: ScoreScale::RootOfHead,
        logit_cap: Cap::None,
        ..Family::GEMMA3
    },
];

/// Architectures of the field that have no row, by what they have that this crate has not.
const MISSING: &[(&str, &[&str])] = &[
    ("a state space or linear attention", &["qwen4exp", "kimi-k3", "glm5-next"]),
    ("an encoder beside a decoder", &["t5"]),
    ("attention to positions that an index chooses", &["dots3note", "hy_v4", "minimax-m3"]),
    ("several residual streams", &["deepseek4", "hrm_text"]),
    ("layers that differ in their heads otherwise than by windows", &["gemma4-assistant"]),
    ("the hidden states of another model", &["eagle3", "dflash"]),
    ("sound or pictures", &["wavtokenizer-dec", "qwen3tts", "pockettts", "clip", "chameleon"]),
];

/// What an architecture needs that is not there, if it is known.
pub fn missing(arch: &str) -> Option<&'static str> {
    MISSING.iter().find(|(_, archs)| archs.contains(&arch)).map(|(kind, _)| *kind)
}

//! Small models with the graphs of real ones: what tests run.

use super::{Head, Index, Kinds, NORMALISED, PLAIN, RopeScaling, SIGMOID, SOFTMAX, Shape, THREE_OF_FOUR};
use crate::config::{Adjugates, Attention, Experts, Gating, Mixer, Recurrence};
use text::synth::{CHATML, DEEPSEEK, GLM, YOUTU};

/// A few small experts, normalised.
const TINY: Experts = Experts { count: 5, used: 2, width: 256, ..NORMALISED };

/// A small state space.
const STATE_SPACE: Recurrence = Recurrence::StateSpace { heads: 8, head: 64, groups: 2, state: 64, taps: 4 };

/// A small state space whose keys, queries and steps are made of what its convolution gives.
const SELECTIVE: Recurrence = Recurrence::SelectiveScan { inner: 512, state: 16, rank: 16, taps: 4, bare_norms: false };

/// A small delta rule, in which two heads of values have one of keys.
const DELTA_RULE: Recurrence = Recurrence::DeltaRule { heads: 4, key_heads: 2, key: 64, value: 64, taps: 4 };

/// A small index.
const INDEX: Index = Index { heads: 16, key: 64, top_k: 512 };

/// Windows in two layers of three, and nothing else that differs.
const TWO_OF_THREE: Kinds = Kinds {
    every: 3,
    first: false,
    heads: None,
    in_windows: (PLAIN.attention, 64),
    values_of_keys: false,
    shared_caches: 0,
    wide_readers: false,
    unread_keys: false,
    layer_input: None,
    output_scale: false,
};

/// Small time mixing with so many heads of keys, which keeps so many inputs of the token before.
const fn time_mixing(kv_heads: i64, shifts: i64) -> Recurrence {
    Recurrence::TimeMixing { heads: 4, kv_heads, head: 64, mix_rank: 32, decay_rank: 64, shifts }
}

/// The same with a delta rule, and with gates if these have a rank.
const fn delta_time_mixing(gate_rank: i64, shifts: i64) -> Recurrence {
    Recurrence::DeltaTimeMixing { heads: 4, head: 64, decay_rank: 32, rate_rank: 32, value_rank: 16, gate_rank, shifts }
}

/// Time mixing in every layer.
const MIXING: Shape = Shape { layers: 3, heads: 0, attention: Attention::None, mixers: &[Mixer::Recurrence], ..PLAIN };

/// As many heads of keys as of queries.
const HEADS_ALONE: Attention = Attention::Grouped { kv_heads: 4, head: 64, value: 64 };

/// A model of embeddings.
const ENCODER: Shape = Shape { norm_biases: true, token_types: 2, rope_base: 1e4, ..PLAIN };

/// All of them.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "tiny-mla-moe",
        arch: "deepseek2",
        layers: 3,
        heads: 5,
        attention: Attention::Latent { q_rank: Some(256), kv_rank: 256, nope: 48, rope: 32, value: 64 },
        rope_dims: 32,
        rope_base: 1e6,
        dense_lead: 1,
        experts: Some(Experts { count: 6, used: 2, width: 128, ..SIGMOID }),
        router_bias: true,
        family: &GLM,
        ..PLAIN
    },
    Shape {
        name: "tiny-mla-dense",
        arch: "deepseek2",
        attention: Attention::Latent { q_rank: Some(256), kv_rank: 256, nope: 64, rope: 32, value: 64 },
        rope_dims: 32,
        rope_base: 1.6e6,
        eps: 1e-6,
        tied: true,
        family: &YOUTU,
        ..PLAIN
    },
    Shape {
        name: "tiny-mla-softmax",
        arch: "deepseek2",
        // llama.cpp expects no query bottleneck in 26 or 27 blocks, and one otherwise.
        layers: 26,
        hidden: 128,
        heads: 2,
        attention: Attention::Latent { q_rank: None, kv_rank: 64, nope: 64, rope: 32, value: 64 },
        rope_dims: 32,
        rope_base: 1e4,
        rope_scaling: RopeScaling::Yarn { factor: 40.0, original: 16, log_multiplier: 0.0707 },
        ffn: 256,
        dense_lead: 1,
        experts: Some(Experts { count: 4, used: 2, width: 32, ..SOFTMAX }),
        eps: 1e-6,
        family: &DEEPSEEK,
        ..PLAIN
    },
    Shape { name: "tiny-llama", ..PLAIN },
    Shape {
        name: "tiny-qwen2",
        arch: "qwen2",
        qkv_bias: true,
        rope_base: 1e6,
        eps: 1e-6,
        tied: true,
        family: &CHATML,
        ..PLAIN
    },
    Shape {
        name: "tiny-qwen3",
        arch: "qwen3",
        heads: 2,
        attention: Attention::Grouped { kv_heads: 1, head: 128, value: 128 },
        rope_dims: 128,
        rope_base: 1e6,
        eps: 1e-6,
        tied: true,
        family: &CHATML,
        ..PLAIN
    },
    Shape {
        name: "tiny-qwen3moe",
        arch: "qwen3moe",
        rope_base: 1e6,
        experts: Some(Experts { count: 5, used: 2, width: 256, ..NORMALISED }),
        eps: 1e-6,
        family: &CHATML,
        ..PLAIN
    },
    Shape {
        name: "tiny-glm4",
        arch: "glm4",
        qkv_bias: true,
        rope_dims: 32,
        rope_base: 1e4,
        fused_up: true,
        family: &GLM,
        ..PLAIN
    },
    Shape { name: "tiny-mixtral", experts: Some(Experts { width: 512, ..TINY }), ..PLAIN },
    Shape {
        name: "tiny-qwen2moe",
        arch: "qwen2moe",
        qkv_bias: true,
        experts: Some(Experts { shared: 1, normalise: false, ..TINY }),
        shared_gate: true,
        family: &CHATML,
        ..PLAIN
    },
    Shape {
        name: "tiny-glm4moe",
        arch: "glm4moe",
        layers: 3,
        qkv_bias: true,
        rope_dims: 32,
        dense_lead: 1,
        experts: Some(Experts { shared: 1, scale: 1.5, gating: Gating::Sigmoid, ..TINY }),
        router_bias: true,
        family: &GLM,
        ..PLAIN
    },
    Shape {
        name: "tiny-gpt-oss",
        arch: "gpt-oss",
        layers: 4,
        qkv_bias: true,
        biases: true,
        window: Some(24),
        experts: Some(Experts { gating: Gating::Chosen, normalise: false, ..TINY }),
        ..PLAIN
    },
    Shape { name: "tiny-gemma2", arch: "gemma2", layers: 4, window: Some(24), tied: true, ..PLAIN },
    Shape { name: "tiny-gemma3", arch: "gemma3", layers: 7, window: Some(24), tied: true, ..PLAIN },
    Shape {
        name: "tiny-gemma3n",
        arch: "gemma3n",
        // llama.cpp has keys in the first 20 layers, and few gates in the first ten.
        layers: 25,
        hidden: 128,
        heads: 4,
        attention: Attention::Grouped { kv_heads: 1, head: 32, value: 32 },
        window: Some(24),
        kinds: Some(Kinds {
            every: 5,
            first: false,
            heads: None,
            in_windows: (Attention::Grouped { kv_heads: 1, head: 32, value: 32 }, 32),
            values_of_keys: false,
            shared_caches: 5,
            wide_readers: false,
            unread_keys: true,
            layer_input: Some(256),
            output_scale: false,
        }),
        streams: Some((4, 64)),
        rope_dims: 32,
        ffn: 256,
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-gemma4",
        arch: "gemma4",
        layers: 6,
        attention: Attention::Grouped { kv_heads: 1, head: 96, value: 96 },
        window: Some(24),
        kinds: Some(Kinds {
            every: 3,
            first: false,
            heads: None,
            in_windows: (Attention::Grouped { kv_heads: 2, head: 64, value: 64 }, 64),
            values_of_keys: false,
            shared_caches: 3,
            wide_readers: true,
            unread_keys: false,
            layer_input: Some(64),
            output_scale: true,
        }),
        rope_dims: 96,
        rope_scaling: RopeScaling::OneOf(4),
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-gemma4moe",
        arch: "gemma4",
        layers: 4,
        attention: Attention::Grouped { kv_heads: 1, head: 128, value: 128 },
        window: Some(24),
        kinds: Some(Kinds {
            every: 3,
            first: false,
            heads: None,
            in_windows: (Attention::Grouped { kv_heads: 2, head: 64, value: 64 }, 64),
            values_of_keys: true,
            shared_caches: 0,
            wide_readers: false,
            unread_keys: false,
            layer_input: None,
            output_scale: true,
        }),
        rope_dims: 128,
        rope_scaling: RopeScaling::OneOf(4),
        experts: Some(TINY),
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-mimo2",
        arch: "mimo2",
        layers: 4,
        attention: Attention::Grouped { kv_heads: 1, head: 96, value: 64 },
        window: Some(24),
        kinds: Some(Kinds {
            every: 3,
            first: false,
            heads: None,
            in_windows: (Attention::Grouped { kv_heads: 2, head: 96, value: 64 }, 32),
            values_of_keys: false,
            shared_caches: 0,
            wide_readers: false,
            unread_keys: false,
            layer_input: None,
            output_scale: false,
        }),
        rope_dims: 32,
        dense_lead: 1,
        experts: Some(Experts { gating: Gating::Sigmoid, ..TINY }),
        router_bias: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-laguna",
        arch: "laguna",
        layers: 5,
        window: Some(24),
        kinds: Some(Kinds {
            every: 3,
            first: true,
            heads: Some(6),
            in_windows: (Attention::Grouped { kv_heads: 2, head: 64, value: 64 }, 64),
            values_of_keys: false,
            shared_caches: 0,
            wide_readers: false,
            unread_keys: false,
            layer_input: None,
            output_scale: false,
        }),
        rope_dims: 32,
        rope_scaling: RopeScaling::Yarn { factor: 8.0, original: 16, log_multiplier: 0.0 },
        dense_lead: 1,
        experts: Some(Experts { shared: 1, scale: 2.5, gating: Gating::Sigmoid, ..TINY }),
        router_bias: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-step3.5",
        arch: "step35",
        layers: 5,
        attention: Attention::Grouped { kv_heads: 2, head: 64, value: 64 },
        window: Some(24),
        kinds: Some(Kinds {
            every: 3,
            first: false,
            heads: Some(6),
            in_windows: (Attention::Grouped { kv_heads: 3, head: 64, value: 64 }, 64),
            values_of_keys: false,
            shared_caches: 0,
            wide_readers: false,
            unread_keys: false,
            layer_input: None,
            output_scale: false,
        }),
        rope_scaling: RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 64 },
        dense_lead: 2,
        experts: Some(Experts { shared: 1, scale: 3.0, gating: Gating::Sigmoid, ..TINY }),
        router_bias: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-llama4",
        arch: "llama4",
        layers: 5,
        experts_every: 2,
        experts: Some(Experts { shared: 1, gating: Gating::Sigmoid, normalise: false, ..TINY }),
        ..PLAIN
    },
    Shape {
        name: "tiny-smallthinker",
        arch: "smallthinker",
        layers: 5,
        window: Some(4096),
        experts: Some(TINY),
        ..PLAIN
    },
    Shape { name: "tiny-smollm3", arch: "smollm3", layers: 4, tied: true, ..PLAIN },
    Shape { name: "tiny-olmo2", arch: "olmo2", layers: 4, qk_norm_of_all: true, window: Some(24), ..PLAIN },
    Shape {
        name: "tiny-exaone-moe",
        arch: "exaone-moe",
        layers: 5,
        window: Some(24),
        experts: Some(Experts { shared: 1, ..TINY }),
        ..PLAIN
    },
    Shape { name: "tiny-granite", arch: "granite", tied: true, ..PLAIN },
    Shape { name: "tiny-cohere2", arch: "cohere2", layers: 4, window: Some(24), tied: true, ..PLAIN },
    Shape {
        name: "tiny-cohere2moe",
        arch: "cohere2moe",
        layers: 6,
        window: Some(24),
        dense_lead: 1,
        experts: Some(Experts { shared: 1, gating: Gating::Sigmoid, ..TINY }),
        tied: true,
        ..PLAIN
    },
    Shape { name: "tiny-starcoder2", arch: "starcoder2", qkv_bias: true, biases: true, tied: true, ..PLAIN },
    Shape { name: "tiny-nemotron", arch: "nemotron", biases: true, rope_dims: 32, ..PLAIN },
    Shape {
        name: "tiny-lfm2",
        arch: "lfm2",
        layers: 3,
        recurrence: Some(Recurrence::Convolution { taps: 3 }),
        mixers: &[Mixer::Recurrence, Mixer::Recurrence, Mixer::Attention],
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-mamba2",
        arch: "mamba2",
        attention: Attention::None,
        recurrence: Some(STATE_SPACE),
        mixers: &[Mixer::Recurrence],
        ..PLAIN
    },
    Shape {
        name: "tiny-nemotron-h",
        arch: "nemotron_h",
        layers: 4,
        recurrence: Some(STATE_SPACE),
        mixers: &[Mixer::Recurrence, Mixer::None, Mixer::Attention, Mixer::Recurrence],
        ..PLAIN
    },
    Shape {
        name: "tiny-nemotron-h-moe",
        arch: "nemotron_h_moe",
        layers: 5,
        recurrence: Some(STATE_SPACE),
        mixers: &[Mixer::Recurrence, Mixer::None, Mixer::Attention, Mixer::Recurrence, Mixer::None],
        experts: Some(Experts { latent: Some(64), shared: 2, scale: 2.5, gating: Gating::Sigmoid, ..TINY }),
        router_bias: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-kimi-linear",
        arch: "kimi-linear",
        layers: 4,
        attention: Attention::Latent { q_rank: None, kv_rank: 256, nope: 64, rope: 32, value: 64 },
        recurrence: Some(Recurrence::KeyedDeltaRule { heads: 4, head: 64, taps: 4, bound: None }),
        mixers: THREE_OF_FOUR,
        rope_dims: 32,
        dense_lead: 1,
        experts: Some(Experts { shared: 1, gating: Gating::Sigmoid, ..TINY }),
        router_bias: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-qwen3.5",
        arch: "qwen35",
        layers: 4,
        recurrence: Some(DELTA_RULE),
        mixers: THREE_OF_FOUR,
        rope_dims: 32,
        eps: 1e-6,
        family: &CHATML,
        ..PLAIN
    },
    Shape {
        name: "tiny-qwen3-next",
        arch: "qwen3next",
        layers: 4,
        recurrence: Some(DELTA_RULE),
        mixers: THREE_OF_FOUR,
        rope_dims: 32,
        experts: Some(Experts { shared: 1, ..TINY }),
        shared_gate: true,
        eps: 1e-6,
        family: &CHATML,
        ..PLAIN
    },
    Shape { name: "tiny-bloom", arch: "bloom", fused_qkv: true, qkv_bias: true, biases: true, ..PLAIN },
    Shape {
        name: "tiny-minicpm3",
        arch: "minicpm3",
        attention: Attention::Latent { q_rank: Some(256), kv_rank: 256, nope: 64, rope: 32, value: 64 },
        whole_kv_b: true,
        rope_dims: 32,
        rope_base: 1e4,
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-plm",
        arch: "plm",
        attention: Attention::Latent { q_rank: None, kv_rank: 256, nope: 64, rope: 32, value: 64 },
        whole_kv_b: true,
        rope_dims: 32,
        rope_base: 1e5,
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-mistral4",
        arch: "mistral4",
        attention: Attention::Latent { q_rank: Some(256), kv_rank: 256, nope: 64, rope: 32, value: 64 },
        rope_dims: 32,
        rope_base: 1e4,
        rope_scaling: RopeScaling::Yarn { factor: 8.0, original: 16, log_multiplier: 0.1 },
        temperature: Some((0.1, 16)),
        experts: Some(Experts { shared: 1, ..TINY }),
        ..PLAIN
    },
    Shape {
        name: "tiny-deepseek32",
        arch: "deepseek32",
        layers: 3,
        attention: Attention::Latent { q_rank: Some(256), kv_rank: 256, nope: 64, rope: 32, value: 64 },
        index: Some(INDEX),
        context: 512,
        rope_dims: 32,
        rope_scaling: RopeScaling::Yarn { factor: 8.0, original: 16, log_multiplier: 0.1 },
        dense_lead: 1,
        experts: Some(Experts { count: 8, used: 2, width: 128, groups: (4, 2), ..SIGMOID }),
        router_bias: true,
        family: &DEEPSEEK,
        ..PLAIN
    },
    Shape {
        name: "tiny-glm-dsa",
        arch: "glm-dsa",
        layers: 3,
        attention: Attention::Latent { q_rank: Some(256), kv_rank: 256, nope: 64, rope: 32, value: 64 },
        index: Some(INDEX),
        context: 512,
        rope_dims: 32,
        dense_lead: 1,
        experts: Some(Experts { count: 6, used: 2, width: 128, ..SIGMOID }),
        router_bias: true,
        family: &GLM,
        ..PLAIN
    },
    Shape {
        name: "tiny-mamba",
        arch: "mamba",
        heads: 0,
        attention: Attention::None,
        recurrence: Some(SELECTIVE),
        mixers: &[Mixer::Recurrence],
        ..PLAIN
    },
    Shape {
        name: "tiny-t5encoder",
        arch: "t5encoder",
        attention: HEADS_ALONE,
        distance_buckets: Some(32),
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-t5encoder-ungated",
        arch: "t5encoder",
        attention: HEADS_ALONE,
        distance_buckets: Some(32),
        ungated: true,
        tied: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-rwkv7",
        arch: "rwkv7",
        recurrence: Some(delta_time_mixing(64, 2)),
        norm_biases: true,
        ..MIXING
    },
    Shape { name: "tiny-arwkv7", arch: "arwkv7", recurrence: Some(delta_time_mixing(0, 1)), ..MIXING },
    Shape { name: "tiny-rwkv6", arch: "rwkv6", recurrence: Some(time_mixing(4, 2)), norm_biases: true, ..MIXING },
    Shape {
        name: "tiny-rwkv6qwen2",
        arch: "rwkv6qwen2",
        recurrence: Some(time_mixing(2, 1)),
        qkv_bias: true,
        ..MIXING
    },
    Shape {
        name: "tiny-jamba",
        arch: "jamba",
        layers: 4,
        recurrence: Some(SELECTIVE),
        mixers: &[Mixer::Recurrence, Mixer::Recurrence, Mixer::Attention, Mixer::Recurrence],
        selection_norms: true,
        experts_every: 2,
        experts: Some(Experts { width: 512, normalise: false, ..TINY }),
        ..PLAIN
    },
    Shape {
        name: "tiny-plamo2",
        arch: "plamo2",
        attention: HEADS_ALONE,
        recurrence: Some(Recurrence::SelectiveHeads { heads: 8, head: 64, state: 64, rank: 64, taps: 4 }),
        mixers: &[Mixer::Recurrence, Mixer::Attention],
        fused_qkv: true,
        qk_norm_by_head: true,
        selection_norms: true,
        bare_names: true,
        fused_up: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-grovemoe",
        arch: "grovemoe",
        experts: Some(Experts {
            count: 8,
            used: 3,
            adjugates: Some(Adjugates { group: 2, width: 128, scale: 0.5 }),
            ..TINY
        }),
        ..PLAIN
    },
    Shape {
        name: "tiny-maple",
        arch: "maple",
        layers: 3,
        window: Some(24),
        kinds: Some(TWO_OF_THREE),
        experts: Some(TINY),
        ..PLAIN
    },
    Shape { name: "tiny-muse-glimmer", arch: "muse-glimmer", layers: 4, window: Some(24), ..PLAIN },
    Shape { name: "tiny-talkie", arch: "talkie", attention: HEADS_ALONE, ..PLAIN },
    Shape {
        name: "tiny-minimax-01",
        arch: "minimax-01",
        layers: 4,
        recurrence: Some(Recurrence::LinearAttention { heads: 4, head: 64 }),
        mixers: THREE_OF_FOUR,
        rope_dims: 32,
        experts: Some(Experts { width: 512, ..TINY }),
        ..PLAIN
    },
    Shape {
        name: "tiny-bailingmoe3",
        arch: "bailingmoe3",
        layers: 4,
        attention: Attention::Latent { q_rank: Some(256), kv_rank: 256, nope: 64, rope: 32, value: 64 },
        recurrence: Some(Recurrence::KeyedDeltaRule { heads: 4, head: 64, taps: 4, bound: Some(-5.0) }),
        mixers: THREE_OF_FOUR,
        rope_dims: 32,
        dense_lead: 1,
        experts: Some(Experts { shared: 1, gating: Gating::Sigmoid, scale: 2.5, ..TINY }),
        router_bias: true,
        ..PLAIN
    },
    Shape {
        name: "tiny-cogvlm",
        arch: "cogvlm",
        attention: HEADS_ALONE,
        fused_qkv: true,
        pictures: true,
        rope_base: 1e4,
        ..PLAIN
    },
    Shape { name: "tiny-llada", arch: "llada", attention: HEADS_ALONE, ..PLAIN },
    Shape {
        name: "tiny-llada-moe",
        arch: "llada-moe",
        attention: HEADS_ALONE,
        experts: Some(Experts { normalise: false, ..TINY }),
        ..PLAIN
    },
    Shape { name: "tiny-dream", arch: "dream", qkv_bias: true, family: &CHATML, ..PLAIN },
    Shape { name: "tiny-rnd1", arch: "rnd1", experts: Some(TINY), family: &CHATML, ..PLAIN },
    Shape {
        name: "tiny-bert",
        arch: "bert",
        attention: HEADS_ALONE,
        qkv_bias: true,
        biases: true,
        learned_positions: true,
        context: 512,
        ..ENCODER
    },
    Shape { name: "tiny-nomic-bert", arch: "nomic-bert", attention: HEADS_ALONE, fused_qkv: true, ..ENCODER },
    Shape {
        name: "tiny-nomic-bert-moe",
        arch: "nomic-bert-moe",
        attention: HEADS_ALONE,
        fused_qkv: true,
        experts_every: 2,
        experts: Some(Experts { width: 512, normalise: false, ..TINY }),
        ..ENCODER
    },
    Shape {
        name: "tiny-jina-bert-v2",
        arch: "jina-bert-v2",
        qk_norm_of_all: true,
        attention: HEADS_ALONE,
        qkv_bias: true,
        biases: true,
        fused_up: true,
        ..ENCODER
    },
    Shape {
        name: "tiny-jina-code",
        arch: "jina-bert-v2",
        qk_norm_of_all: true,
        attention: HEADS_ALONE,
        qkv_bias: true,
        biases: true,
        fused_up: true,
        sums_again: true,
        ..ENCODER
    },
    Shape {
        name: "tiny-bert-rank",
        arch: "bert",
        attention: HEADS_ALONE,
        qkv_bias: true,
        biases: true,
        learned_positions: true,
        context: 512,
        head: Some(Head::Dense(1)),
        ..ENCODER
    },
    Shape {
        name: "tiny-jina-rank",
        arch: "jina-bert-v2",
        qk_norm_of_all: true,
        attention: HEADS_ALONE,
        qkv_bias: true,
        biases: true,
        fused_up: true,
        head: Some(Head::Single(1)),
        ..ENCODER
    },
    Shape {
        name: "tiny-modern-bert-rank",
        arch: "modern-bert",
        layers: 4,
        attention: HEADS_ALONE,
        fused_qkv: true,
        fused_up: true,
        window: Some(24),
        norm_biases: false,
        token_types: 0,
        head: Some(Head::Normed(1)),
        ..ENCODER
    },
    Shape { name: "tiny-qwen3-rank", arch: "qwen3", tied: true, head: Some(Head::Labels(2)), ..PLAIN },
    Shape {
        name: "tiny-jina-bert-v3",
        arch: "jina-bert-v3",
        attention: HEADS_ALONE,
        qkv_bias: true,
        biases: true,
        ..ENCODER
    },
    Shape {
        name: "tiny-modern-bert",
        arch: "modern-bert",
        layers: 4,
        attention: HEADS_ALONE,
        fused_qkv: true,
        fused_up: true,
        window: Some(24),
        norm_biases: false,
        token_types: 0,
        ..ENCODER
    },
    Shape { name: "tiny-neo-bert", arch: "neo-bert", fused_qkv: true, fused_up: true, ..PLAIN },
    Shape { name: "tiny-eurobert", arch: "eurobert", ..PLAIN },
    Shape { name: "tiny-llama-embed", arch: "llama-embed", ..PLAIN },
    Shape {
        name: "tiny-gemma-embedding",
        arch: "gemma-embedding",
        layers: 7,
        window: Some(24),
        projection: Some(512),
        tied: true,
        ..PLAIN
    },
    Shape { name: "tiny-apertus", arch: "apertus", ..PLAIN },
    Shape {
        name: "tiny-baichuan",
        arch: "baichuan",
        layers: 32,
        hidden: 64,
        heads: 1,
        attention: Attention::Grouped { kv_heads: 1, head: 64, value: 64 },
        ffn: 96,
        ..PLAIN
    },
    Shape {
        name: "tiny-baichuan-13b",
        arch: "baichuan",
        layers: 40,
        hidden: 64,
        heads: 2,
        attention: Attention::Grouped { kv_heads: 2, head: 32, value: 32 },
        rope_dims: 32,
        ffn: 96,
        ..PLAIN
    },
    Shape { name: "tiny-arctic", arch: "arctic", ffn: 256, experts: Some(TINY), ..PLAIN },
    Shape { name: "tiny-grok", arch: "grok", experts: Some(TINY), ..PLAIN },
    Shape {
        name: "tiny-deci",
        arch: "deci",
        layers: 5,
        attention: Attention::Grouped { kv_heads: 4, head: 64, value: 64 },
        kv_heads: &[2, 4, 1, 1, 1],
        mixers: &[Mixer::Attention, Mixer::Attention, Mixer::Matrix, Mixer::None, Mixer::Attention],
        ..PLAIN
    },
];

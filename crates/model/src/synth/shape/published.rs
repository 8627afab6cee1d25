//! Published models, with their numbers, and what models of a kind have in common.

use super::{Kinds, NORMALISED, PLAIN, RopeScaling, SIGMOID, SOFTMAX, Shape, THREE_OF_FOUR};
use crate::config::{Attention, Experts, Gating, Mixer, Recurrence};
use text::synth::{CHATML, DEEPSEEK, GLM, YOUTU};

/// What models of Gemma 4 have in common.
const GEMMA_4: Shape = Shape {
    arch: "gemma4",
    rope_dims: 512,
    rope_base: 1e6,
    rope_scaling: RopeScaling::OneOf(4),
    eps: 1e-6,
    tied: true,
    vocab: 262_144,
    ..PLAIN
};

/// What models of Llama 3 have in common.
const LLAMA_3: Shape = Shape {
    heads: 32,
    rope_scaling: RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original: 8192 },
    ffn: 8192,
    tied: true,
    context: 131_072,
    vocab: 128_256,
    ..PLAIN
};

/// What dense models of Qwen3 have in common.
const QWEN3: Shape = Shape {
    arch: "qwen3",
    layers: 28,
    heads: 16,
    attention: Attention::Grouped { kv_heads: 8, head: 128, value: 128 },
    rope_dims: 128,
    rope_base: 1e6,
    eps: 1e-6,
    tied: true,
    context: 40_960,
    vocab: 151_936,
    family: &CHATML,
    ..PLAIN
};

/// Attention in layers 2, 5, 8, 10, 12 and 14 of 16.
const LFM2_MIXERS: &[Mixer] = {
    const R: Mixer = Mixer::Recurrence;
    const A: Mixer = Mixer::Attention;
    &[R, R, A, R, R, A, R, R, A, R, A, R, A, R, A, R]
};

/// What models of Qwen3.5 have in common.
const QWEN3_5: Shape = Shape {
    arch: "qwen35",
    layers: 32,
    hidden: 2560,
    heads: 16,
    attention: Attention::Grouped { kv_heads: 4, head: 256, value: 256 },
    recurrence: Some(Recurrence::DeltaRule { heads: 32, key_heads: 16, key: 128, value: 128, taps: 4 }),
    mixers: THREE_OF_FOUR,
    rope_dims: 64,
    rope_base: 1e7,
    ffn: 9216,
    eps: 1e-6,
    tied: true,
    context: 262_144,
    vocab: 248_320,
    family: &CHATML,
    ..PLAIN
};

/// All of them.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "glm-4.7-flash",
        arch: "deepseek2",
        layers: 47,
        hidden: 2048,
        heads: 20,
        attention: Attention::Latent { q_rank: Some(768), kv_rank: 512, nope: 192, rope: 64, value: 256 },
        rope_base: 1e6,
        ffn: 10240,
        dense_lead: 1,
        experts: Some(SIGMOID),
        router_bias: true,
        context: 202_752,
        vocab: 154_880,
        family: &GLM,
        ..PLAIN
    },
    Shape {
        name: "deepseek-v2-lite",
        arch: "deepseek2",
        layers: 27,
        hidden: 2048,
        heads: 16,
        attention: Attention::Latent { q_rank: None, kv_rank: 512, nope: 128, rope: 64, value: 128 },
        rope_base: 1e4,
        rope_scaling: RopeScaling::Yarn { factor: 40.0, original: 4096, log_multiplier: 0.0707 },
        ffn: 10944,
        dense_lead: 1,
        experts: Some(SOFTMAX),
        eps: 1e-6,
        context: 163_840,
        vocab: 102_400,
        family: &DEEPSEEK,
        ..PLAIN
    },
    Shape {
        name: "youtu-llm-2b",
        arch: "deepseek2",
        layers: 32,
        hidden: 2048,
        heads: 16,
        attention: Attention::Latent { q_rank: Some(1536), kv_rank: 512, nope: 128, rope: 64, value: 128 },
        rope_base: 1.6e6,
        ffn: 6144,
        eps: 1e-6,
        tied: true,
        context: 131_072,
        vocab: 128_256,
        family: &YOUTU,
        ..PLAIN
    },
    Shape {
        name: "llama-3.2-1b",
        layers: 16,
        hidden: 2048,
        attention: Attention::Grouped { kv_heads: 8, head: 64, value: 64 },
        ..LLAMA_3
    },
    Shape {
        name: "llama-3.2-3b",
        layers: 28,
        hidden: 3072,
        heads: 24,
        attention: Attention::Grouped { kv_heads: 8, head: 128, value: 128 },
        rope_dims: 128,
        ..LLAMA_3
    },
    Shape {
        name: "llama-3.1-8b",
        layers: 32,
        hidden: 4096,
        attention: Attention::Grouped { kv_heads: 8, head: 128, value: 128 },
        rope_dims: 128,
        rope_scaling: RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192 },
        ffn: 14_336,
        tied: false,
        ..LLAMA_3
    },
    Shape {
        name: "smollm2-135m",
        layers: 30,
        hidden: 576,
        heads: 9,
        attention: Attention::Grouped { kv_heads: 3, head: 64, value: 64 },
        rope_base: 1e5,
        ffn: 1536,
        tied: true,
        context: 8192,
        vocab: 49_152,
        family: &CHATML,
        ..PLAIN
    },
    Shape { name: "qwen3-0.6b", hidden: 1024, ffn: 3072, ..QWEN3 },
    Shape { name: "qwen3-1.7b", hidden: 2048, ffn: 6144, ..QWEN3 },
    Shape { name: "qwen3-8b", layers: 36, hidden: 4096, heads: 32, ffn: 12_288, tied: false, ..QWEN3 },
    Shape {
        name: "qwen3-30b-a3b",
        arch: "qwen3moe",
        layers: 48,
        hidden: 2048,
        heads: 32,
        attention: Attention::Grouped { kv_heads: 4, head: 128, value: 128 },
        rope_dims: 128,
        rope_base: 1e6,
        ffn: 6144,
        experts: Some(NORMALISED),
        eps: 1e-6,
        context: 40_960,
        vocab: 151_936,
        family: &CHATML,
        ..PLAIN
    },
    Shape {
        name: "glm-4-9b",
        arch: "glm4",
        layers: 40,
        hidden: 4096,
        heads: 32,
        attention: Attention::Grouped { kv_heads: 2, head: 128, value: 128 },
        qkv_bias: true,
        rope_dims: 64,
        rope_base: 1e4,
        ffn: 13_696,
        fused_up: true,
        context: 32_768,
        vocab: 151_552,
        family: &GLM,
        ..PLAIN
    },
    Shape {
        name: "gemma-3-1b",
        arch: "gemma3",
        layers: 26,
        hidden: 1152,
        attention: Attention::Grouped { kv_heads: 1, head: 256, value: 256 },
        window: Some(512),
        rope_dims: 256,
        rope_base: 1e6,
        ffn: 6912,
        eps: 1e-6,
        tied: true,
        context: 32_768,
        vocab: 262_144,
        ..PLAIN
    },
    Shape {
        name: "gemma-4-e2b",
        layers: 35,
        hidden: 1536,
        heads: 8,
        attention: Attention::Grouped { kv_heads: 1, head: 512, value: 512 },
        window: Some(512),
        kinds: Some(Kinds {
            every: 5,
            first: false,
            heads: None,
            in_windows: (Attention::Grouped { kv_heads: 1, head: 256, value: 256 }, 256),
            values_of_keys: false,
            shared_caches: 20,
            wide_readers: true,
            unread_keys: false,
            layer_input: Some(256),
            output_scale: true,
        }),
        ffn: 6144,
        context: 131_072,
        ..GEMMA_4
    },
    Shape {
        name: "gemma-4-26b-a4b",
        layers: 30,
        hidden: 2816,
        heads: 16,
        attention: Attention::Grouped { kv_heads: 2, head: 512, value: 512 },
        window: Some(1024),
        kinds: Some(Kinds {
            every: 6,
            first: false,
            heads: None,
            in_windows: (Attention::Grouped { kv_heads: 8, head: 256, value: 256 }, 256),
            values_of_keys: true,
            shared_caches: 0,
            wide_readers: false,
            unread_keys: false,
            layer_input: None,
            output_scale: true,
        }),
        ffn: 2112,
        experts: Some(Experts { width: 704, ..NORMALISED }),
        context: 262_144,
        ..GEMMA_4
    },
    Shape {
        name: "gpt-oss-20b",
        arch: "gpt-oss",
        layers: 24,
        hidden: 2880,
        heads: 64,
        attention: Attention::Grouped { kv_heads: 8, head: 64, value: 64 },
        qkv_bias: true,
        biases: true,
        window: Some(128),
        rope_base: 1.5e5,
        rope_scaling: RopeScaling::Yarn { factor: 32.0, original: 4096, log_multiplier: 0.0 },
        ffn: 2880,
        experts: Some(Experts {
            count: 32,
            used: 4,
            width: 2880,
            gating: Gating::Chosen,
            normalise: false,
            ..NORMALISED
        }),
        context: 131_072,
        vocab: 201_088,
        ..PLAIN
    },
    Shape {
        name: "glm-4.5-air",
        arch: "glm4moe",
        layers: 46,
        hidden: 4096,
        heads: 96,
        attention: Attention::Grouped { kv_heads: 8, head: 128, value: 128 },
        qkv_bias: true,
        rope_base: 1e6,
        ffn: 10_944,
        dense_lead: 1,
        experts: Some(Experts { count: 128, used: 8, width: 1408, scale: 1.0, ..SIGMOID }),
        router_bias: true,
        context: 131_072,
        vocab: 151_552,
        family: &GLM,
        ..PLAIN
    },
    Shape {
        name: "qwen3.5-0.8b",
        layers: 24,
        hidden: 1024,
        heads: 8,
        attention: Attention::Grouped { kv_heads: 2, head: 256, value: 256 },
        recurrence: Some(Recurrence::DeltaRule { heads: 16, key_heads: 16, key: 128, value: 128, taps: 4 }),
        ffn: 3584,
        ..QWEN3_5
    },
    Shape { name: "qwen3.5-4b", ..QWEN3_5 },
    Shape {
        name: "qwen3.5-35b-a3b",
        arch: "qwen35moe",
        layers: 40,
        hidden: 2048,
        attention: Attention::Grouped { kv_heads: 2, head: 256, value: 256 },
        experts: Some(Experts { count: 256, shared: 1, width: 512, ..NORMALISED }),
        shared_gate: true,
        tied: false,
        ..QWEN3_5
    },
    Shape {
        name: "kimi-linear-48b-a3b",
        arch: "kimi-linear",
        layers: 27,
        hidden: 2304,
        heads: 32,
        attention: Attention::Latent { q_rank: None, kv_rank: 512, nope: 128, rope: 64, value: 128 },
        recurrence: Some(Recurrence::KeyedDeltaRule { heads: 32, head: 128, taps: 4, bound: None }),
        mixers: THREE_OF_FOUR,
        ffn: 9216,
        dense_lead: 1,
        experts: Some(Experts { count: 256, used: 8, width: 1024, scale: 2.446, ..SIGMOID }),
        router_bias: true,
        context: 1_048_576,
        vocab: 163_840,
        ..PLAIN
    },
    Shape {
        name: "lfm2-1.2b",
        arch: "lfm2",
        layers: 16,
        hidden: 2048,
        heads: 32,
        attention: Attention::Grouped { kv_heads: 8, head: 64, value: 64 },
        recurrence: Some(Recurrence::Convolution { taps: 3 }),
        mixers: LFM2_MIXERS,
        rope_base: 1e6,
        ffn: 8192,
        tied: true,
        context: 128_000,
        vocab: 65_536,
        family: &CHATML,
        ..PLAIN
    },
    Shape {
        name: "mamba2-2.7b",
        arch: "mamba2",
        layers: 64,
        hidden: 2560,
        heads: 0,
        attention: Attention::None,
        recurrence: Some(Recurrence::StateSpace { heads: 80, head: 64, groups: 1, state: 128, taps: 4 }),
        mixers: &[Mixer::Recurrence],
        tied: true,
        context: 1_048_576,
        vocab: 50_288,
        ..PLAIN
    },
    Shape {
        name: "mamba-2.8b",
        arch: "mamba",
        layers: 64,
        hidden: 2560,
        heads: 0,
        attention: Attention::None,
        recurrence: Some(Recurrence::SelectiveScan { inner: 5120, state: 16, rank: 160, taps: 4, bare_norms: false }),
        mixers: &[Mixer::Recurrence],
        tied: true,
        context: 1_048_576,
        vocab: 50_280,
        ..PLAIN
    },
];

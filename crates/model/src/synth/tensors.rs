//! The tensors of a shape: names and sizes as in the files of the field, and how each is filled.
//!
//! Matrices have the standard deviation `1/√fan_in`, so that every stage keeps the size of its input; an embedding that
//! is not the output too has 1, the size of a normalised row.

use super::shape::{Head, RopeScaling, Shape};
use crate::config::{Attention, Experts, Mixer, Recurrence};
use crate::family::{AttentionGate, EmbeddingNorm, HeadNorms, Norm, Routed, Sinks};
use crate::mix::Role;

/// Divisor of rotations that do not turn.
const STILL: f32 = 1e30;

/// Spread of norms around 1.
const NORM_STD: f32 = 0.05;

/// Spread of biases, of projections and of the choice of experts.
const BIAS_STD: f32 = 0.1;

/// Spread of the scores of a router: wide enough that the choice of experts is never close to even.
const SCORE_STD: f32 = 2.0;

/// How a tensor is filled.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fill {
    /// Weights around 0, in any format.
    Weights { std: f32 },
    /// Floats.
    Normal { mean: f32, std: f32 },
    /// These floats.
    Values(Vec<f32>),
}

/// A tensor without a type.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    /// The contiguous dimension first.
    pub(super) shape: Vec<u64>,
    pub(super) role: Role,
    /// Index of the block.
    pub(super) layer: u32,
    /// Whether it belongs to the shared expert.
    pub(super) shared: bool,
    pub(super) fill: Fill,
}

impl Spec {
    /// Number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.shape[1..].iter().product()
    }
}

/// The tensors of a model in the order in which it uses them.
pub(super) fn tensors(shape: &Shape, layers: u32, legacy_kv_b: bool) -> Vec<Spec> {
    let mut list = List { specs: Vec::new(), prefix: String::new(), layer: 0, layers };
    let (hidden, vocab) = (shape.hidden, i64::from(shape.vocab));
    let embedding_std = if shape.tied { 1.0 / (hidden as f32).sqrt() } else { 1.0 };
    let weights = Fill::Weights { std: embedding_std };
    let of_rows = Fill::Normal { mean: 0.0, std: BIAS_STD };
    list.add("token_embd.weight", &[hidden, vocab], Role::Embedding, weights);
    if shape.token_types > 0 {
        list.add("token_types.weight", &[hidden, shape.token_types], Role::Plain, of_rows.clone());
    }
    if shape.learned_positions {
        list.add("position_embd.weight", &[hidden, i64::from(shape.context)], Role::Plain, of_rows);
    }
    if shape.row().embedding_norm == EmbeddingNorm::Weighted {
        list.norm_of(shape, "token_embd_norm", hidden);
    }
    if let Some(width) = shape.kinds.as_ref().and_then(|kinds| kinds.layer_input) {
        let all = width * i64::from(layers);
        let of_tokens = Fill::Weights { std: 1.0 / (width as f32).sqrt() };
        list.add("per_layer_token_embd.weight", &[all, vocab], Role::Embedding, of_tokens);
        list.matrix("per_layer_model_proj", &[hidden, all], Role::Plain);
        list.norm("per_layer_proj_norm", width);
    }
    if let Some((count, _)) = shape.streams {
        list.matrix("altup_proj", &[hidden, hidden, count - 1], Role::Plain);
    }
    if let Some(divisors) = rope_divisors(shape) {
        let values = Fill::Values(divisors);
        list.add("rope_freqs.weight", &[shape.rope_dims / 2], Role::Plain, values);
    }
    for layer in 0..layers {
        list.layer = layer;
        list.prefix = format!("blk.{layer}.");
        list.block(shape, legacy_kv_b);
    }
    list.prefix.clear();
    if let Some((count, _)) = shape.streams {
        list.matrix("altup_unembd_proj", &[hidden, hidden, count - 1], Role::Plain);
    }
    if let Some(name) = shape.row().output_norm {
        list.norm_of(shape, name, hidden);
    }
    if let Some(width) = shape.projection {
        list.matrix("dense_2", &[hidden, width], Role::Other);
        list.matrix("dense_3", &[width, hidden], Role::Other);
    }
    if let Some(head) = shape.head {
        list.head(hidden, head);
    }
    if !shape.tied && (shape.row().causal || shape.row().denoises) {
        list.matrix("output", &[hidden, vocab], Role::Output);
    }
    for spec in &mut list.specs {
        for (ours, theirs) in shape.row().names {
            spec.name = spec.name.replacen(ours, theirs, 1);
        }
    }
    list.specs
}

struct List {
    specs: Vec<Spec>,
    /// Start of the names of a block.
    prefix: String,
    layer: u32,
    /// Of the file.
    layers: u32,
}

impl List {
    fn add(&mut self, name: &str, shape: &[i64], role: Role, fill: Fill) {
        self.specs.push(Spec {
            name: format!("{}{name}", self.prefix),
            shape: shape.iter().map(|&n| n as u64).collect(),
            role,
            layer: self.layer,
            shared: name.contains("_shexp."),
            fill,
        });
    }

    fn matrix(&mut self, name: &str, shape: &[i64], role: Role) {
        self.projection(name, shape, role, shape[0]);
    }

    /// A matrix whose rows are not what its input is multiplied with.
    fn projection(&mut self, name: &str, shape: &[i64], role: Role, fan_in: i64) {
        let std = 1.0 / (fan_in as f32).sqrt();
        self.add(&format!("{name}.weight"), shape, role, Fill::Weights { std });
    }

    fn norm(&mut self, name: &str, len: i64) {
        let (mean, std) = (1.0, NORM_STD);
        let name = format!("{name}.weight");
        self.add(&name, &[len], Role::Plain, Fill::Normal { mean, std });
    }

    fn bias(&mut self, name: &str, len: i64) {
        let (mean, std) = (0.0, BIAS_STD);
        let name = format!("{name}.bias");
        self.add(&name, &[len], Role::Plain, Fill::Normal { mean, std });
    }

    /// A norm of the kind of the family.
    fn norm_of(&mut self, shape: &Shape, name: &str, len: i64) {
        if shape.row().norm.is_bare() {
            return;
        }
        self.norm(name, len);
        if shape.bare_names && name.starts_with("post_") {
            let spec = self.specs.last_mut().expect("the norm");
            spec.name = spec.name.trim_end_matches(".weight").into();
        }
        if (shape.biases || shape.norm_biases) && shape.row().norm == Norm::Layer {
            self.bias(name, len);
        }
    }

    /// The head of a classifier.
    fn head(&mut self, hidden: i64, head: Head) {
        let labels = head.labels();
        match head {
            Head::Single(_) => {
                self.matrix("cls", &[hidden, labels], Role::Other);
                return self.bias("cls", labels);
            }
            Head::Labels(_) => return self.matrix("cls.output", &[hidden, labels], Role::Other),
            Head::Dense(_) => {
                self.matrix("cls", &[hidden, hidden], Role::Other);
                self.bias("cls", hidden);
            }
            Head::Normed(_) => {
                self.matrix("cls", &[hidden, hidden], Role::Other);
                self.norm("cls.norm", hidden);
            }
        }
        self.matrix("cls.output", &[hidden, labels], Role::Other);
        self.bias("cls.output", labels);
    }

    fn block(&mut self, shape: &Shape, legacy_kv_b: bool) {
        let norms = shape.row().norms;
        let norm = |list: &mut List, names: &[&str]| {
            let name = names.last().map(|name| format!("{}{name}.weight", list.prefix));
            // One norm may serve both halves.
            if let Some(name) = name.filter(|name| list.specs.iter().all(|spec| spec.name != *name)) {
                let name = name.trim_start_matches(&list.prefix).trim_end_matches(".weight").to_string();
                list.norm_of(shape, &name, shape.hidden);
            }
        };
        let mixer = shape.mixer(self.layer);
        let headless = shape.row().layers_differ && mixer == Mixer::None;
        if (self.layer > 0 || shape.row().first_norm) && !headless {
            norm(self, norms.attention);
        }
        if mixer.attends() {
            match shape.attention {
                Attention::Latent { .. } => self.latent_attention(shape, legacy_kv_b),
                _ => self.grouped_attention(shape),
            }
        }
        if mixer == Mixer::Matrix {
            self.matrix("attn_output", &[shape.hidden, shape.hidden], Role::AttentionOutput);
        }
        if mixer.remembers() {
            self.recurrence(shape);
        }
        if let Some((count, rank)) = shape.streams {
            self.streams(shape.hidden, count, rank);
        }
        norm(self, norms.after_attention);
        norm(self, norms.attention_sum);
        if shape.sums_again {
            norm(self, norms.attention_sum_again);
        }
        if !shape.feeds(self.layer) {
            return;
        }
        norm(self, norms.feed_forward);
        let shares = shape.kinds.as_ref().is_some_and(|kinds| self.layer >= kinds.own_caches(self.layers));
        let wide = shares && shape.kinds.as_ref().is_some_and(|kinds| kinds.wide_readers);
        let width = if wide { 2 * shape.ffn } else { shape.ffn };
        let routed = shape.row().routed;
        let beside = routed == Routed::Beside;
        match shape.experts_of(self.layer) {
            Some(experts) => {
                if beside {
                    self.feed_forward(shape, "", width, shape.fused_up);
                    for name in ["post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"] {
                        self.norm(name, shape.hidden);
                    }
                    // The router divides by this root.
                    let mean = (shape.hidden as f32).sqrt();
                    let fill = Fill::Normal { mean, std: mean * NORM_STD };
                    self.add("ffn_gate_inp.scale", &[shape.hidden], Role::Plain, fill);
                }
                if routed == Routed::Before {
                    self.feed_forward(shape, "", shape.hidden, shape.fused_up);
                    self.norm("ffn_norm_exps", shape.hidden);
                }
                if routed == Routed::BesideMaybe {
                    self.feed_forward(shape, "", width, shape.fused_up);
                }
                self.experts(shape, experts);
            }
            None if shape.row().mixes_channels => self.channel_mixing(shape),
            None => self.feed_forward(shape, "", width, shape.fused_up),
        }
        if shape.pictures {
            self.of_pictures(shape);
        }
        norm(self, norms.after_feed_forward);
        norm(self, norms.feed_forward_sum);
        if shape.row().adds_embedding {
            let scale = 0.25 / (1.0 + self.layer as f32);
            self.add("layer_output_scale.weight", &[1], Role::Plain, Fill::Values(vec![scale]));
        }
        let Some(kinds) = &shape.kinds else { return };
        if let Some(width) = kinds.layer_input {
            self.matrix("inp_gate", &[shape.hidden, width], Role::Other);
            self.matrix("proj", &[width, shape.hidden], Role::Other);
            self.norm("post_norm", shape.hidden);
        }
        if kinds.output_scale {
            let scale = 1.0 - 0.25 / (1.0 + self.layer as f32);
            self.add("layer_output_scale.weight", &[1], Role::Plain, Fill::Values(vec![scale]));
        }
    }

    /// The matrices that read pictures, which are those of text again.
    fn of_pictures(&mut self, shape: &Shape) {
        let (hidden, ffn) = (shape.hidden, shape.ffn);
        let Attention::Grouped { kv_heads, head, value } = shape.attention else { return };
        let whole = shape.heads * head + kv_heads * (head + value);
        for (name, columns, rows) in [
            ("attn_qkv", hidden, whole),
            ("attn_output", shape.heads * value, hidden),
            ("gate", hidden, ffn),
            ("up", hidden, ffn),
            ("down", ffn, hidden),
        ] {
            self.matrix(&format!("vis_{name}"), &[columns, rows], Role::Other);
        }
    }

    /// What a layer has of residual streams.
    fn streams(&mut self, hidden: i64, count: i64, rank: i64) {
        self.matrix("laurel_l", &[hidden, rank], Role::Plain);
        self.matrix("laurel_r", &[rank, hidden], Role::Plain);
        self.norm("laurel_post_norm", hidden);
        let scale = Fill::Normal { mean: 1.0, std: NORM_STD };
        self.add("altup_correct_scale.weight", &[hidden], Role::Plain, scale);
        self.norm("altup_router_norm", hidden);
        self.matrix("altup_router", &[hidden, count], Role::Plain);
        self.matrix("altup_predict_coef", &[count, count * count], Role::Plain);
        self.matrix("altup_correct_coef", &[count, count], Role::Plain);
    }

    fn latent_attention(&mut self, shape: &Shape, legacy_kv_b: bool) {
        let Attention::Latent { q_rank, kv_rank, nope, rope, value } = shape.attention else {
            return;
        };
        let (hidden, heads) = (shape.hidden, shape.heads);
        let queries = heads * (nope + rope);
        match q_rank {
            Some(rank) => {
                self.matrix("attn_q_a", &[hidden, rank], Role::Other);
                self.norm("attn_q_a_norm", rank);
                self.matrix("attn_q_b", &[rank, queries], Role::Other);
            }
            None => self.matrix("attn_q", &[hidden, queries], Role::Other),
        }
        self.matrix("attn_kv_a_mqa", &[hidden, kv_rank + rope], Role::Key);
        self.norm("attn_kv_a_norm", kv_rank);
        if legacy_kv_b {
            self.matrix("attn_kv_b", &[kv_rank, heads * (nope + value)], Role::Value);
        } else {
            // Stored transposed: what it makes keys from is the latent.
            self.projection("attn_k_b", &[nope, kv_rank, heads], Role::Other, kv_rank);
            self.matrix("attn_v_b", &[kv_rank, value, heads], Role::Other);
        }
        self.matrix("attn_output", &[heads * value, hidden], Role::AttentionOutput);
        if shape.row().attention_gate == AttentionGate::Head {
            self.matrix("attn_gate", &[hidden, heads], Role::Other);
        }
        if let (Some(index), Some(rank)) = (shape.index, q_rank) {
            self.norm("indexer.k_norm", index.key);
            self.bias("indexer.k_norm", index.key);
            self.matrix("indexer.proj", &[hidden, index.heads], Role::Other);
            self.matrix("indexer.attn_k", &[hidden, index.key], Role::Other);
            self.matrix("indexer.attn_q_b", &[rank, index.heads * index.key], Role::Other);
        }
    }

    fn grouped_attention(&mut self, shape: &Shape) {
        let windowed = shape.kinds.as_ref().filter(|kinds| kinds.windowed(self.layer));
        let Attention::Grouped { kv_heads, head, value } =
            *windowed.map_or(&shape.attention, |kinds| &kinds.in_windows.0)
        else {
            return;
        };
        let kv_heads = shape.kv_heads_of(self.layer, kv_heads);
        let own =
            shape.kinds.as_ref().is_none_or(|kinds| kinds.unread_keys || self.layer < kinds.own_caches(self.layers));
        let of_keys = windowed.is_none() && shape.kinds.as_ref().is_some_and(|kinds| kinds.values_of_keys);
        let (hidden, heads) = (shape.hidden, windowed.and_then(|kinds| kinds.heads).unwrap_or(shape.heads));
        let query = if shape.row().attention_gate == AttentionGate::Query { 2 * head } else { head };
        let whole = [("attn_qkv", heads * query + kv_heads * (head + value), Role::Value)];
        let parts = [
            ("attn_q", heads * query, Role::Other),
            ("attn_k", kv_heads * head, Role::Key),
            ("attn_v", kv_heads * value, Role::Value),
        ];
        let parts = match (own, of_keys) {
            (false, _) => &parts[..1],
            (true, true) => &parts[..2],
            (true, false) => &parts[..],
        };
        for &(part, rows, role) in if shape.fused_qkv { &whole[..] } else { parts } {
            self.matrix(part, &[hidden, rows], role);
            if shape.qkv_bias {
                self.bias(part, rows);
            }
        }
        if shape.row().head_norms == HeadNorms::AfterByHead {
            let fill = Fill::Normal { mean: 1.0, std: NORM_STD };
            self.add("attn_q_norm.weight", &[1, heads], Role::Plain, fill);
        } else if !matches!(shape.row().head_norms, HeadNorms::None | HeadNorms::BareUnlessExperts(_)) {
            let mut norm = |name: &str, heads: i64| match shape.qk_norm_by_head {
                true => {
                    let fill = Fill::Normal { mean: 1.0, std: NORM_STD };
                    self.add(&format!("{name}.weight"), &[head, heads], Role::Plain, fill);
                }
                false => self.norm(name, if shape.qk_norm_of_all { heads * head } else { head }),
            };
            norm("attn_q_norm", heads);
            if own {
                norm("attn_k_norm", kv_heads);
            }
        }
        match shape.row().attention_gate {
            AttentionGate::None | AttentionGate::Query => {}
            AttentionGate::Each => self.matrix("attn_gate", &[hidden, heads * value], Role::Other),
            AttentionGate::Head | AttentionGate::Softplus => {
                self.matrix("attn_gate", &[hidden, heads], Role::Other);
            }
        }
        let sinks = match shape.row().sinks {
            Sinks::None => false,
            Sinks::All => true,
            Sinks::Maybe => windowed.is_some(),
        };
        if sinks {
            let sinks = (0..heads).map(|head| (head % 4) as f32 / 2.0 - 1.0).collect();
            self.add("attn_sinks.weight", &[heads], Role::Plain, Fill::Values(sinks));
        }
        if let (Some(buckets), 0) = (shape.distance_buckets, self.layer) {
            let fill = Fill::Normal { mean: 0.0, std: 1.0 };
            self.add("attn_rel_b.weight", &[heads, buckets], Role::Plain, fill);
        }
        self.matrix("attn_output", &[heads * value, hidden], Role::AttentionOutput);
        if shape.biases {
            self.bias("attn_output", hidden);
        }
    }

    fn recurrence(&mut self, shape: &Shape) {
        let hidden = shape.hidden;
        match shape.recurrence {
            None => {}
            Some(Recurrence::Convolution { taps }) => {
                self.matrix("shortconv.in_proj", &[hidden, 3 * hidden], Role::Other);
                self.add("shortconv.conv.weight", &[taps, hidden], Role::Plain, of_taps(taps));
                self.matrix("shortconv.out_proj", &[hidden, hidden], Role::Other);
            }
            Some(Recurrence::StateSpace { heads, head, groups, state, taps }) => {
                let (inner, channels) = (heads * head, heads * head + 2 * groups * state);
                self.matrix("ssm_in", &[hidden, inner + channels + heads], Role::Other);
                self.add("ssm_conv1d.weight", &[taps, channels], Role::Plain, of_taps(taps));
                self.bias("ssm_conv1d", channels);
                self.bias("ssm_dt", heads);
                self.add("ssm_a", &[1, heads], Role::Plain, decays(heads));
                self.add("ssm_d", &[1, heads], Role::Plain, Fill::Normal { mean: 1.0, std: NORM_STD });
                let fill = Fill::Normal { mean: 1.0, std: NORM_STD };
                self.add("ssm_norm.weight", &[inner / groups, groups], Role::Plain, fill);
                self.matrix("ssm_out", &[inner, hidden], Role::Other);
            }
            Some(Recurrence::SelectiveScan { inner, state, rank, taps, .. }) => {
                self.selected(shape, inner, [rank, state], taps);
                self.matrix("ssm_dt", &[rank, inner], Role::Plain);
                self.bias("ssm_dt", inner);
                self.add("ssm_a", &[state, inner], Role::Plain, decays(state * inner));
                self.add("ssm_d", &[inner], Role::Plain, Fill::Normal { mean: 1.0, std: NORM_STD });
                self.matrix("ssm_out", &[inner, hidden], Role::Other);
            }
            Some(Recurrence::SelectiveHeads { heads, head, state, rank, taps }) => {
                self.selected(shape, heads * head, [rank, state], taps);
                self.matrix("ssm_dt", &[rank, heads], Role::Plain);
                self.bias("ssm_dt", heads);
                self.add("ssm_a", &[heads], Role::Plain, decays(heads));
                self.add("ssm_d", &[heads], Role::Plain, Fill::Normal { mean: 1.0, std: NORM_STD });
                self.matrix("ssm_out", &[heads * head, hidden], Role::Other);
            }
            Some(Recurrence::LinearAttention { heads, head }) => {
                let inner = heads * head;
                self.matrix("attn_qkv", &[hidden, 3 * inner], Role::Other);
                self.norm("attn_norm_2", inner);
                self.matrix("attn_gate", &[hidden, inner], Role::Other);
                self.matrix("attn_output", &[inner, hidden], Role::AttentionOutput);
            }
            Some(Recurrence::TimeMixing { heads, kv_heads, head, mix_rank, decay_rank, .. }) => {
                self.time_mixing(shape, [heads, kv_heads, head], [mix_rank, decay_rank]);
            }
            Some(Recurrence::DeltaTimeMixing { heads, head, decay_rank, rate_rank, value_rank, gate_rank, .. }) => {
                self.delta_time_mixing(hidden, heads * head, [decay_rank, rate_rank, value_rank, gate_rank]);
                if shape.row().mixes_channels {
                    self.norm("time_mix_ln", hidden);
                    self.bias("time_mix_ln", hidden);
                }
            }
            Some(Recurrence::KeyedDeltaRule { heads, head, taps, bound }) => {
                self.keyed_delta_rule(hidden, heads, head, taps, bound.is_some());
            }
            Some(Recurrence::DeltaRule { heads, key_heads, key, value, taps }) => {
                let (inner, channels) = (heads * value, heads * value + 2 * key_heads * key);
                self.matrix("attn_qkv", &[hidden, channels], Role::Other);
                self.matrix("attn_gate", &[hidden, inner], Role::Other);
                self.add("ssm_conv1d.weight", &[taps, channels], Role::Plain, of_taps(taps));
                self.bias("ssm_dt", heads);
                self.add("ssm_a", &[heads], Role::Plain, decays(heads));
                if shape.row().gates_by_key {
                    self.matrix("ssm_ba", &[hidden, 2 * heads], Role::Other);
                } else {
                    self.matrix("ssm_beta", &[hidden, heads], Role::Other);
                    self.matrix("ssm_alpha", &[hidden, heads], Role::Other);
                }
                self.norm("ssm_norm", value);
                self.matrix("ssm_out", &[inner, hidden], Role::Other);
            }
        }
    }

    /// What a state space reads of which keys, queries and steps are made of what the convolution gives.
    fn selected(&mut self, shape: &Shape, inner: i64, [rank, state]: [i64; 2], taps: i64) {
        self.matrix("ssm_in", &[shape.hidden, 2 * inner], Role::Other);
        self.add("ssm_conv1d.weight", &[taps, inner], Role::Plain, of_taps(taps));
        if !shape.bare_names {
            self.bias("ssm_conv1d", inner);
        }
        self.matrix("ssm_x", &[inner, rank + 2 * state], Role::Other);
        if shape.selection_norms {
            for (part, len) in [("dt", rank), ("b", state), ("c", state)] {
                let suffix = if shape.bare_names { "" } else { ".weight" };
                let name = format!("ssm_{part}_norm{suffix}");
                self.add(&name, &[len], Role::Plain, Fill::Normal { mean: 1.0, std: NORM_STD });
            }
        }
    }

    fn keyed_delta_rule(&mut self, hidden: i64, heads: i64, head: i64, taps: i64, direct: bool) {
        let inner = heads * head;
        for part in ["q", "k", "v"] {
            self.matrix(&format!("attn_{part}"), &[hidden, inner], Role::Other);
            let name = format!("ssm_conv1d_{part}.weight");
            self.add(&name, &[taps, 1, inner], Role::Plain, of_taps(taps));
        }
        for part in ["f", "g"] {
            if direct {
                self.matrix(&format!("ssm_{part}_a"), &[hidden, inner], Role::Other);
                continue;
            }
            self.matrix(&format!("ssm_{part}_a"), &[hidden, head], Role::Other);
            self.matrix(&format!("ssm_{part}_b"), &[head, inner], Role::Other);
        }
        self.bias("ssm_dt", inner);
        self.add("ssm_a", &[1, heads], Role::Plain, decays(heads));
        self.matrix("ssm_beta", &[hidden, heads], Role::Other);
        self.norm("ssm_norm", head);
        self.matrix("attn_output", &[inner, hidden], Role::AttentionOutput);
    }

    /// Places between a token and the one before it.
    fn places(&mut self, name: &str, shape: &[i64]) {
        self.add(&format!("{name}.weight"), shape, Role::Plain, Fill::Normal { mean: 0.5, std: BIAS_STD });
    }

    fn time_mixing(&mut self, shape: &Shape, [heads, kv_heads, head]: [i64; 3], [mix_rank, decay_rank]: [i64; 2]) {
        let (hidden, keys) = (shape.hidden, kv_heads * head);
        self.places("time_mix_lerp_x", &[hidden, 1, 1]);
        self.matrix("time_mix_w1", &[hidden, 5 * mix_rank], Role::Plain);
        self.matrix("time_mix_w2", &[mix_rank, hidden, 5], Role::Plain);
        match shape.row().mixes_channels {
            // As in files of the first converters.
            true => ["w", "k", "v", "r", "g"]
                .iter()
                .for_each(|part| self.places(&format!("time_mix_lerp_{part}"), &[hidden, 1, 1])),
            false => self.places("time_mix_lerp_fused", &[hidden, 1, 1, 5]),
        }
        self.add("time_mix_decay.weight", &[hidden], Role::Plain, paces(hidden, [-5.0, -3.0, -1.0, 0.5]));
        self.matrix("time_mix_decay_w1", &[hidden, decay_rank], Role::Plain);
        self.matrix("time_mix_decay_w2", &[decay_rank, hidden], Role::Plain);
        for (part, rows) in [("receptance", hidden), ("key", keys), ("value", keys), ("gate", hidden)] {
            self.matrix(&format!("time_mix_{part}"), &[hidden, rows], Role::Other);
            if shape.qkv_bias && part != "gate" {
                self.bias(&format!("time_mix_{part}"), rows);
            }
        }
        if shape.row().mixes_channels {
            self.places("time_mix_first", &[head, heads]);
            self.norm("time_mix_ln", hidden);
            self.bias("time_mix_ln", hidden);
        }
        self.matrix("time_mix_output", &[hidden, hidden], Role::Other);
    }

    fn delta_time_mixing(&mut self, hidden: i64, inner: i64, [decay, rate, value, gate]: [i64; 4]) {
        self.places("time_mix_lerp_fused", &[hidden, 1, 1, if gate > 0 { 6 } else { 5 }]);
        // The first layer has matrices that nothing reads.
        let value = if self.layer == 0 { rate } else { value };
        let few = [("w", decay), ("a", rate), ("v", value), ("g", gate)];
        for (part, rank) in few.into_iter().filter(|&(_, rank)| rank > 0) {
            match part {
                "w" => self.add("time_mix_w0.weight", &[inner], Role::Plain, paces(inner, [-6.0, -3.0, -1.0, 1.0])),
                "g" => {}
                _ => {
                    let fill = Fill::Normal { mean: 0.0, std: BIAS_STD };
                    self.add(&format!("time_mix_{part}0.weight"), &[inner], Role::Plain, fill);
                }
            }
            self.matrix(&format!("time_mix_{part}1"), &[hidden, rank], Role::Plain);
            self.matrix(&format!("time_mix_{part}2"), &[rank, inner], Role::Plain);
        }
        self.places("time_mix_k_k", &[inner]);
        self.places("time_mix_k_a", &[inner]);
        self.add("time_mix_r_k.weight", &[inner], Role::Plain, Fill::Normal { mean: 0.0, std: BIAS_STD });
        for part in ["receptance", "key", "value", "output"] {
            self.matrix(&format!("time_mix_{part}"), &[hidden, inner], Role::Other);
        }
    }

    fn channel_mixing(&mut self, shape: &Shape) {
        let (hidden, width) = (shape.hidden, shape.ffn);
        self.places("channel_mix_lerp_k", &[hidden, 1, 1]);
        self.matrix("channel_mix_key", &[hidden, width], Role::Other);
        self.matrix("channel_mix_value", &[width, hidden], Role::Other);
        if matches!(shape.recurrence, Some(Recurrence::TimeMixing { .. })) {
            self.places("channel_mix_lerp_r", &[hidden, 1, 1]);
            self.matrix("channel_mix_receptance", &[hidden, hidden], Role::Other);
        }
    }

    /// `suffix` tells the shared expert from a dense feed-forward.
    fn feed_forward(&mut self, shape: &Shape, suffix: &str, width: i64, fused_up: bool) {
        let hidden = shape.hidden;
        let mut part = |part: &str, shape_of: [i64; 2], role: Role| {
            let name = format!("ffn_{part}{suffix}");
            self.matrix(&name, &shape_of, role);
            if shape.biases {
                self.bias(&name, shape_of[1]);
            }
        };
        let up = if fused_up { 2 * width } else { width };
        if shape.row().gated && !fused_up && !shape.ungated {
            part("gate", [hidden, width], Role::Other);
        }
        part("up", [hidden, up], Role::Other);
        part("down", [width, hidden], Role::Down);
    }

    fn experts(&mut self, shape: &Shape, experts: &Experts) {
        let (hidden, width, count) = (shape.hidden, experts.width, experts.count);
        let (mean, std) = (0.0, SCORE_STD / (hidden as f32).sqrt());
        let scores = Fill::Normal { mean, std };
        self.add("ffn_gate_inp.weight", &[hidden, count], Role::Plain, scores.clone());
        if shape.router_bias {
            self.bias("exp_probs_b", count);
        }
        if shape.biases {
            self.bias("ffn_gate_inp", count);
        }
        if let Some(adjugates) = &experts.adjugates {
            let (width, groups) = (adjugates.width, count / adjugates.group);
            self.matrix("ffn_gate_chexps", &[hidden, width, groups], Role::Other);
            self.matrix("ffn_up_chexps", &[hidden, width, groups], Role::Other);
            self.matrix("ffn_down_chexps", &[width, hidden, groups], Role::Down);
        }
        let mut part = |part: &str, shape_of: [i64; 3], role: Role| {
            let name = format!("ffn_{part}_exps");
            self.matrix(&name, &shape_of, role);
            if shape.biases {
                let fill = Fill::Normal { mean: 0.0, std: BIAS_STD };
                self.add(&format!("{name}.bias"), &shape_of[1..], Role::Plain, fill);
            }
        };
        let read = experts.latent.unwrap_or(hidden);
        if shape.row().gated {
            part("gate", [read, width, count], Role::Other);
        }
        part("up", [read, width, count], Role::Other);
        part("down", [width, read, count], Role::Down);
        if let Some(latent) = experts.latent {
            self.matrix("ffn_latent_down", &[hidden, latent], Role::Other);
            self.matrix("ffn_latent_up", &[latent, hidden], Role::Other);
        }
        if experts.shared > 0 {
            self.feed_forward(shape, "_shexp", experts.shared * width, false);
        }
        if shape.shared_gate {
            self.add("ffn_gate_inp_shexp.weight", &[hidden], Role::Plain, scores);
        }
    }
}

/// Weights of a convolution.
fn of_taps(taps: i64) -> Fill {
    Fill::Normal { mean: 0.0, std: 1.0 / (taps as f32).sqrt() }
}

/// How fast each head forgets: some within a few tokens, others hardly.
fn decays(heads: i64) -> Fill {
    Fill::Values((0..heads).map(|head| -(2.0f32.powi((head % 4) as i32 * 2 - 4))).collect())
}

/// How fast each value of a key is forgotten, before what a token says.
fn paces(len: i64, paces: [f32; 4]) -> Fill {
    Fill::Values((0..len).map(|i| paces[(i % 4) as usize]).collect())
}

/// What the rotations of each pair are divided by, where files hold it.
fn rope_divisors(shape: &Shape) -> Option<Vec<f32>> {
    if let RopeScaling::OneOf(n) = shape.rope_scaling {
        let pairs = shape.rope_dims / 2;
        return Some((0..pairs).map(|pair| if pair < pairs / n { 1.0 } else { STILL }).collect());
    }
    let RopeScaling::Llama3 { factor, low, high, original } = shape.rope_scaling else {
        return None;
    };
    let (base, dims) = (f64::from(shape.rope_base), shape.rope_dims as f64);
    let [factor, low, high] = [factor, low, high].map(f64::from);
    let divisor = |pair: i64| {
        let angle = base.powf(-2.0 * pair as f64 / dims);
        let turns = f64::from(original) * angle / std::f64::consts::TAU;
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / (kept + (1.0 - kept) / factor)) as f32
    };
    Some((0..shape.rope_dims / 2).map(divisor).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_keeps_fast_rotations_and_slows_slow_ones() {
        let divisors = rope_divisors(Shape::named("llama-3.2-1b").unwrap()).unwrap();
        assert_eq!(divisors.len(), 32);
        assert_eq!((divisors[0], divisors[31]), (1.0, 32.0));
        assert!(divisors.is_sorted());
        assert!(divisors.iter().any(|&d| d > 1.0 && d < 32.0));
    }
}

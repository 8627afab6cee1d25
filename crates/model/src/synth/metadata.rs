//! The metadata of a file but its vocabulary, with the keys that the converters of the field write.

use super::shape::Head;
use super::{Kinds, RopeScaling, Shape, SynthPlan};
use crate::config::{Attention, Experts, Gating, Mixer, Recurrence};
use crate::family::{Activation, Factor, Family, Limits, Norm, Normalise, Remembering, Routed};
use gguf::{ValueBuf, Writer};

/// Leading layers of models with several residual streams that leave few gates, and by how many standard deviations these are
/// above the mean: one of twenty (Gemma 3n).
const SPARSE_LAYERS: u32 = 10;
const SPARSITY: f32 = 1.644_853_5;

/// The mean of hidden states as a `pooling_type`.
const MEAN: u32 = 1;

/// The same for models that rank.
const RANK: u32 = 4;

/// Layout of the quantised blocks of today.
const QUANTIZATION_VERSION: u32 = 2;

pub(super) fn set(writer: &mut Writer, plan: &SynthPlan) {
    let shape = plan.shape;
    writer.set("general.architecture", shape.arch);
    writer.set("general.type", "model");
    writer.set("general.name", format!("{} (random weights)", shape.name));
    let seed = plan.options.seed;
    let about = format!("random weights of seed {seed}: its text means nothing");
    writer.set("general.description", about);
    writer.set("general.file_type", plan.quant.file_type());
    writer.set("general.quantization_version", QUANTIZATION_VERSION);
    let mut keys = Keys { writer, arch: shape.arch };
    keys.model(plan);
    keys.rope(shape);
    match shape.attention {
        Attention::Latent { .. } => keys.latent(plan),
        Attention::Grouped { kv_heads, head, value } => keys.heads(kv_heads, head, value),
        Attention::None => {}
    }
    if let Some(kinds) = &shape.kinds {
        keys.kinds(plan, kinds);
    }
    if shape.row().layers_differ {
        keys.heads_of_layers(plan);
    }
    keys.recurrence(plan);
    if let Some(experts) = &shape.experts {
        keys.experts(shape.row(), experts);
        if shape.experts_every > 1 && shape.row().routed != Routed::EveryRouter {
            let key = if shape.row().causal { "interleave_moe_layer_step" } else { "moe_every_n_layers" };
            keys.set(key, shape.experts_every);
        }
    }
    if shape.is_latent() {
        keys.latent_feed_forward(plan);
    } else if shape.dense_lead > 0 {
        keys.set("leading_dense_block_count", shape.dense_lead);
    }
}

/// Keys below the name of the architecture.
struct Keys<'a> {
    writer: &'a mut Writer,
    arch: &'static str,
}

impl Keys<'_> {
    fn set(&mut self, name: &str, value: impl Into<ValueBuf>) {
        self.writer.set(format!("{}.{name}", self.arch), value);
    }

    fn count(&mut self, name: &str, value: i64) {
        self.set(name, u32::try_from(value).expect("sizes are small"));
    }

    fn model(&mut self, plan: &SynthPlan) {
        let shape = plan.shape;
        self.set("block_count", plan.layers);
        self.set("context_length", shape.context);
        self.count("embedding_length", shape.hidden);
        self.count("feed_forward_length", shape.ffn);
        self.set("vocab_size", shape.vocab);
        if shape.heads > 0 {
            self.count("attention.head_count", shape.heads);
        }
        match shape.row().norm {
            Norm::Rms | Norm::BareRms => self.set("attention.layer_norm_rms_epsilon", shape.eps),
            Norm::Layer | Norm::Bare => self.set("attention.layer_norm_epsilon", shape.eps),
        }
        if let Some(width) = shape.window {
            self.set("attention.sliding_window", width);
        }
        if !shape.row().causal {
            self.set("attention.causal", false);
        }
        match shape.head {
            Some(head) => self.head(head),
            None if !shape.row().causal && !shape.row().denoises => self.set("pooling_type", MEAN),
            None => {}
        }
        if let Some(buckets) = shape.distance_buckets {
            self.count("attention.relative_buckets_count", buckets);
        }
        if let Some(width) = shape.projection {
            for (name, value) in
                [("2_feat_in", shape.hidden), ("2_feat_out", width), ("3_feat_in", width), ("3_feat_out", shape.hidden)]
            {
                self.count(&format!("dense_{name}"), value);
            }
        }
        if let Some((count, _)) = shape.streams {
            self.count("altup.num_inputs", count);
            self.count("altup.active_idx", 0);
            let of_layer = |layer| if layer < SPARSE_LAYERS { SPARSITY } else { f32::NEG_INFINITY };
            self.set("activation_sparsity_scale", (0..plan.layers).map(of_layer).collect::<Vec<f32>>());
        }
        if shape.token_types > 0 {
            self.writer.set("tokenizer.ggml.token_type_count", shape.token_types as u32);
        }
        self.factors(shape);
        if shape.row().limits != Limits::None {
            self.limits(plan.layers);
        }
        if shape.row().activation == Activation::Xielu {
            self.xielu(plan.layers);
        }
    }

    /// A model that ranks.
    fn head(&mut self, head: Head) {
        self.set("pooling_type", RANK);
        let labels = head.labels();
        if labels > 1 {
            let names: Vec<String> = (0..labels).map(|label| format!("label {label}")).collect();
            self.set("classifier.output_labels", ValueBuf::from(&names[..]));
        }
        if let Head::Labels(_) = head {
            self.writer.set("tokenizer.chat_template.rerank", "query {query} document {document} fits");
        }
    }

    /// Parameters of the activation, which differ by layer.
    fn xielu(&mut self, layers: u32) {
        let of_layers = |least: f32| (0..layers).map(|layer| least + layer as f32 / 8.0).collect::<Vec<f32>>();
        for (name, least) in [("alpha_p", 0.3), ("alpha_n", -0.2), ("beta", 0.4), ("eps", -1.0)] {
            self.writer.set(format!("xielu.{name}"), of_layers(least));
        }
    }

    /// Where gates and ups end, of experts in every other layer and elsewhere in the others.
    fn limits(&mut self, layers: u32) {
        let of =
            |parity: u32| (0..layers).map(|layer| if layer % 2 == parity { 0.5 } else { 0.0 }).collect::<Vec<f32>>();
        self.set("swiglu_clamp_exp", of(0));
        self.set("swiglu_clamp_shexp", of(1));
    }

    /// Factors where the family asks for some, of the size that models have.
    fn factors(&mut self, shape: &Shape) {
        let row = shape.row();
        if row.embedding_scale == Factor::Key {
            self.set("embedding_scale", 12.0f32);
        }
        if row.residual_scale == Factor::Key && row.normed_residual {
            self.set("residual_scale", 3.5f32);
        } else if row.residual_scale == Factor::Key {
            self.set("residual_scale", 0.22f32);
            self.set("attention.scale", 0.1f32);
        }
        if row.value_scale == Factor::Key {
            self.set("attention.value_scale", 0.75f32);
        }
        match row.logit_scale {
            Factor::Key => self.set("logit_scale", 0.25f32),
            Factor::OneOverKey => self.set("logit_scale", 8.0f32),
            _ => {}
        }
    }

    fn rope(&mut self, shape: &Shape) {
        self.count("rope.dimension_count", shape.rope_dims);
        self.set("rope.freq_base", shape.rope_base);
        // The stretching of Llama 3.1 is in a tensor.
        if let RopeScaling::Yarn { factor, original, log_multiplier } = shape.rope_scaling {
            self.set("rope.scaling.type", "yarn");
            self.set("rope.scaling.factor", factor);
            self.set("rope.scaling.original_context_length", original);
            self.set("rope.scaling.yarn_log_multiplier", log_multiplier);
        }
        if let Some((scale, every)) = shape.temperature {
            self.set("attention.temperature_scale", scale);
            self.set("attention.temperature_length", every);
        }
    }

    fn heads(&mut self, kv_heads: i64, key: i64, value: i64) {
        self.count("attention.head_count_kv", kv_heads);
        self.count("attention.key_length", key);
        self.count("attention.value_length", value);
    }

    /// Layers that differ from each other.
    fn kinds(&mut self, plan: &SynthPlan, kinds: &Kinds) {
        let (shape, layers) = (plan.shape, 0..plan.layers);
        let (Attention::Grouped { kv_heads: of_others, .. }, (Attention::Grouped { kv_heads, head, value }, rotated)) =
            (&shape.attention, &kinds.in_windows)
        else {
            return;
        };
        let own = kinds.own_caches(plan.layers);
        self.set("attention.sliding_window_pattern", layers.clone().map(|l| kinds.windowed(l)).collect::<Vec<bool>>());
        let mut heads = |name: &str, in_windows: i64, of_others: i64| {
            let of_layer = |layer| if kinds.windowed(layer) { in_windows } else { of_others } as u32;
            self.set(name, layers.clone().map(of_layer).collect::<Vec<u32>>());
        };
        heads("attention.head_count_kv", *kv_heads, *of_others);
        if let Some(in_windows) = kinds.heads {
            heads("attention.head_count", in_windows, shape.heads);
        }
        self.count("attention.key_length_swa", *head);
        self.count("attention.value_length_swa", *value);
        self.count("rope.dimension_count_swa", *rotated);
        self.set("attention.shared_kv_layers", plan.layers - own);
        let width = |layer| shape.ffn as u32 * if layer >= own && kinds.wide_readers { 2 } else { 1 };
        self.set("feed_forward_length", layers.map(width).collect::<Vec<u32>>());
        self.count("embedding_length_per_layer_input", kinds.layer_input.unwrap_or(0));
    }

    /// Heads of layers, of which some have none.
    fn heads_of_layers(&mut self, plan: &SynthPlan) {
        let shape = plan.shape;
        let Attention::Grouped { kv_heads, .. } = shape.attention else { return };
        let each = |of_layer: &dyn Fn(u32) -> i64| -> Vec<u32> {
            (0..plan.layers).map(|layer| of_layer(layer) as u32).collect()
        };
        let heads = |layer| if shape.mixer(layer) == Mixer::None { 0 } else { shape.heads };
        let of_keys = |layer| if shape.mixer(layer).attends() { shape.kv_heads_of(layer, kv_heads) } else { 0 };
        self.set("attention.head_count", each(&heads));
        self.set("attention.head_count_kv", each(&of_keys));
    }

    /// Layers that remember, and the sizes of what they keep.
    fn recurrence(&mut self, plan: &SynthPlan) {
        let shape = plan.shape;
        let (Some(recurrence), Some((_, which))) = (&shape.recurrence, shape.row().recurrence) else { return };
        let each = |of_layer: &dyn Fn(u32) -> i64| -> Vec<u32> {
            (0..plan.layers).map(|layer| of_layer(layer) as u32).collect()
        };
        if matches!(which, Remembering::WithoutKeys | Remembering::Alone) {
            let kv_heads = match shape.attention {
                Attention::Grouped { kv_heads, .. } => kv_heads,
                Attention::Latent { .. } | Attention::None => 1,
            };
            let of_layer = |layer| if shape.mixer(layer).attends() { kv_heads } else { 0 };
            self.set("attention.head_count_kv", each(&of_layer));
        }
        if which == Remembering::Alone {
            // llama.cpp asks for it.
            self.set("attention.layer_norm_epsilon", shape.eps);
            let of_layer = |layer| if shape.feeds(layer) { shape.ffn } else { 0 };
            self.set("feed_forward_length", each(&of_layer));
        }
        let ssm = |keys: &mut Self, taps: i64, inner: i64, state: i64, heads: i64, groups: i64| {
            keys.count("ssm.conv_kernel", taps);
            keys.count("ssm.inner_size", inner);
            keys.count("ssm.state_size", state);
            keys.count("ssm.time_step_rank", heads);
            keys.count("ssm.group_count", groups);
        };
        match *recurrence {
            Recurrence::Convolution { taps } => self.count("shortconv.l_cache", taps),
            Recurrence::StateSpace { heads, head, groups, state, taps } => {
                ssm(self, taps, heads * head, state, heads, groups)
            }
            Recurrence::SelectiveScan { inner, state, rank, taps, .. } => ssm(self, taps, inner, state, rank, 0),
            Recurrence::SelectiveHeads { heads, head, state, taps, .. } => {
                ssm(self, taps, heads * head, state, heads, 0)
            }
            Recurrence::LinearAttention { .. } => {
                let remembers = |layer| u32::from(shape.mixer(layer).remembers());
                self.set("attention.recurrent_layers", (0..plan.layers).map(remembers).collect::<Vec<u32>>());
            }
            Recurrence::TimeMixing { heads, kv_heads, head, mix_rank, decay_rank, shifts } => {
                self.count("wkv.head_size", head);
                self.count("time_mix_extra_dim", mix_rank);
                self.count("time_decay_extra_dim", decay_rank);
                self.count("token_shift_count", shifts);
                self.count("attention.head_count", 0);
                if kv_heads < heads {
                    self.count("attention.head_count_kv", kv_heads);
                }
                if shape.row().halves_stream {
                    self.count("rescale_every_n_layers", 1);
                }
            }
            Recurrence::DeltaTimeMixing { head, decay_rank, rate_rank, value_rank, gate_rank, shifts, .. } => {
                self.count("wkv.head_size", head);
                self.count("attention.decay_lora_rank", decay_rank);
                self.count("attention.iclr_lora_rank", rate_rank);
                self.count("attention.value_residual_mix_lora_rank", value_rank);
                self.count("attention.gate_lora_rank", gate_rank);
                self.count("token_shift_count", shifts);
                self.count("attention.head_count", 0);
            }
            Recurrence::KeyedDeltaRule { head, taps, bound, .. } => {
                if let Some(bound) = bound {
                    self.set("kda.gate_lower_bound", bound);
                }
                self.count("ssm.conv_kernel", taps);
                self.count("kda.head_dim", head);
            }
            Recurrence::DeltaRule { heads, key_heads, key, value, taps } => {
                if !shape.row().gates_by_key {
                    // Of pictures; text has one position for all.
                    let pairs = shape.rope_dims as u32 / 2;
                    self.set("rope.dimension_sections", vec![pairs / 3, pairs / 3, pairs - 2 * (pairs / 3), 0]);
                }
                ssm(self, taps, heads * value, key, heads, key_heads);
            }
        }
    }

    fn latent(&mut self, plan: &SynthPlan) {
        let shape = plan.shape;
        let Attention::Latent { q_rank, kv_rank, nope, rope, value } = shape.attention else {
            return;
        };
        match q_rank {
            Some(rank) => self.count("attention.q_lora_rank", rank),
            // llama.cpp asks for the key unless the number of blocks is that of a lite model.
            None if plan.layers != shape.layers => self.count("attention.q_lora_rank", 0),
            None => {}
        }
        self.count("attention.kv_lora_rank", kv_rank);
        if let Some(index) = shape.index {
            self.count("attention.indexer.head_count", index.heads);
            self.count("attention.indexer.key_length", index.key);
            self.count("attention.indexer.top_k", index.top_k);
        }
        if plan.options.legacy_kv_b {
            self.heads(shape.heads, nope + rope, value);
        } else {
            // The cache as one key head; the true lengths have keys of their own.
            self.heads(1, kv_rank + rope, kv_rank);
            self.count("attention.key_length_mla", nope + rope);
            self.count("attention.value_length_mla", value);
        }
    }

    fn experts(&mut self, row: &Family, experts: &Experts) {
        self.count("expert_count", experts.count);
        self.count("expert_used_count", experts.used);
        self.count("expert_feed_forward_length", experts.width);
        if let Some(latent) = experts.latent {
            self.count("moe_latent_size", latent);
        }
        if let Some(adjugates) = &experts.adjugates {
            self.count("experts_per_group", adjugates.group);
            self.count("expert_chunk_feed_forward_length", adjugates.width);
            self.set("expert_group_scale", adjugates.scale);
        }
        let by_key = row.normalise == Normalise::Key;
        if by_key || row.gating != Some(experts.gating) {
            self.set("expert_gating_func", gating(experts.gating));
        }
        if by_key || experts.shared > 0 {
            self.count("expert_shared_count", experts.shared);
        }
        if experts.shared > 0 && !row.latent {
            self.count("expert_shared_feed_forward_length", experts.shared * experts.width);
        }
        if !by_key {
            return;
        }
        self.set("expert_weights_scale", experts.scale);
        if experts.normalise {
            self.set("expert_weights_norm", true);
        }
        if !row.latent {
            return;
        }
        self.count("expert_group_count", experts.groups.0);
        self.count("expert_group_used_count", experts.groups.1);
    }

    /// `deepseek2` needs keys about experts even if there are none.
    fn latent_feed_forward(&mut self, plan: &SynthPlan) {
        let lead = match plan.shape.experts {
            Some(_) => plan.shape.dense_lead.min(plan.layers),
            None => {
                self.count("expert_feed_forward_length", plan.shape.ffn);
                self.set("expert_shared_count", 0u32);
                plan.layers
            }
        };
        self.set("leading_dense_block_count", lead);
    }
}

/// The number of a kind in files.
fn gating(kind: Gating) -> u32 {
    match kind {
        Gating::Softmax => 1,
        Gating::Sigmoid => 2,
        Gating::Chosen => 3,
    }
}

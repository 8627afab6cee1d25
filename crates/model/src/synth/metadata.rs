//! The metadata of a file, with the keys that the converters of the field write.

use super::{RopeScaling, Shape, SynthPlan};
use crate::config::{Attention, Experts, Gating};
use gguf::{ValueBuf, Writer};
use text::synth::Vocab;

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
    }
    if let Some(experts) = &shape.experts {
        keys.experts(experts);
    }
    if shape.is_latent() {
        keys.latent_feed_forward(plan);
    }
    Vocab::new(shape.family, shape.vocab as usize).write(writer);
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
        self.count("attention.head_count", shape.heads);
        self.set("attention.layer_norm_rms_epsilon", shape.eps);
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
    }

    fn heads(&mut self, kv_heads: i64, key: i64, value: i64) {
        self.count("attention.head_count_kv", kv_heads);
        self.count("attention.key_length", key);
        self.count("attention.value_length", value);
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
        if plan.options.legacy_kv_b {
            self.heads(shape.heads, nope + rope, value);
        } else {
            // The cache as one key head; the true lengths have keys of their own.
            self.heads(1, kv_rank + rope, kv_rank);
            self.count("attention.key_length_mla", nope + rope);
            self.count("attention.value_length_mla", value);
        }
    }

    fn experts(&mut self, experts: &Experts) {
        self.count("expert_count", experts.count);
        self.count("expert_used_count", experts.used);
        self.count("expert_feed_forward_length", experts.width);
        if self.arch != "deepseek2" {
            return;
        }
        self.count("expert_shared_count", experts.shared);
        self.set("expert_weights_scale", experts.scale);
        if experts.normalise {
            self.set("expert_weights_norm", true);
        }
        let gating: u32 = match experts.gating {
            Gating::Softmax => 1,
            Gating::Sigmoid => 2,
        };
        self.set("expert_gating_func", gating);
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

//! The tensors of a shape: names and sizes as in the files of the field, and how each is filled.
//!
//! Matrices have the standard deviation `1/√fan_in`, so that every stage keeps the size of its input; an embedding that
//! is not the output too has 1, the size of a normalised row.

use super::shape::{RopeScaling, Shape};
use crate::config::{Attention, Experts};
use crate::mix::Role;

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
    let mut list = List { specs: Vec::new(), prefix: String::new(), layer: 0 };
    let (hidden, vocab) = (shape.hidden, i64::from(shape.vocab));
    let embedding_std = if shape.tied { 1.0 / (hidden as f32).sqrt() } else { 1.0 };
    let weights = Fill::Weights { std: embedding_std };
    list.add("token_embd.weight", &[hidden, vocab], Role::Embedding, weights);
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
    list.norm("output_norm", hidden);
    if !shape.tied {
        list.matrix("output", &[hidden, vocab], Role::Output);
    }
    list.specs
}

struct List {
    specs: Vec<Spec>,
    /// Start of the names of a block.
    prefix: String,
    layer: u32,
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

    fn block(&mut self, shape: &Shape, legacy_kv_b: bool) {
        self.norm("attn_norm", shape.hidden);
        match shape.attention {
            Attention::Latent { .. } => self.latent_attention(shape, legacy_kv_b),
            Attention::Grouped { .. } => self.grouped_attention(shape),
        }
        if shape.post_norms {
            self.norm("post_attention_norm", shape.hidden);
        }
        self.norm("ffn_norm", shape.hidden);
        match &shape.experts {
            Some(experts) if self.layer >= shape.dense_lead => self.experts(shape, experts),
            _ => self.feed_forward("", shape.hidden, shape.ffn, shape.fused_up),
        }
        if shape.post_norms {
            self.norm("post_ffw_norm", shape.hidden);
        }
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
    }

    fn grouped_attention(&mut self, shape: &Shape) {
        let Attention::Grouped { kv_heads, head, value } = shape.attention else {
            return;
        };
        let (hidden, heads) = (shape.hidden, shape.heads);
        for (part, rows, role) in [
            ("attn_q", heads * head, Role::Other),
            ("attn_k", kv_heads * head, Role::Key),
            ("attn_v", kv_heads * value, Role::Value),
        ] {
            self.matrix(part, &[hidden, rows], role);
            if shape.qkv_bias {
                self.bias(part, rows);
            }
        }
        if shape.qk_norm {
            self.norm("attn_q_norm", head);
            self.norm("attn_k_norm", head);
        }
        self.matrix("attn_output", &[heads * value, hidden], Role::AttentionOutput);
    }

    /// `suffix` tells the shared expert from a dense feed-forward.
    fn feed_forward(&mut self, suffix: &str, hidden: i64, width: i64, fused_up: bool) {
        let up = if fused_up {
            2 * width
        } else {
            self.matrix(&format!("ffn_gate{suffix}"), &[hidden, width], Role::Other);
            width
        };
        self.matrix(&format!("ffn_up{suffix}"), &[hidden, up], Role::Other);
        self.matrix(&format!("ffn_down{suffix}"), &[width, hidden], Role::Down);
    }

    fn experts(&mut self, shape: &Shape, experts: &Experts) {
        let (hidden, width, count) = (shape.hidden, experts.width, experts.count);
        let (mean, std) = (0.0, SCORE_STD / (hidden as f32).sqrt());
        let scores = Fill::Normal { mean, std };
        self.add("ffn_gate_inp.weight", &[hidden, count], Role::Plain, scores);
        if shape.router_bias {
            self.bias("exp_probs_b", count);
        }
        self.matrix("ffn_gate_exps", &[hidden, width, count], Role::Other);
        self.matrix("ffn_up_exps", &[hidden, width, count], Role::Other);
        self.matrix("ffn_down_exps", &[width, hidden, count], Role::Down);
        if experts.shared > 0 {
            self.feed_forward("_shexp", hidden, experts.shared * width, false);
        }
    }
}

/// What the rotations of each pair are divided by, for the scaling of Llama 3.1.
fn rope_divisors(shape: &Shape) -> Option<Vec<f32>> {
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

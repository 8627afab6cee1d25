//! A model of one block, written plainly in f64 from the definitions: no tiles, no splits, no absorbed matrices,
//! a softmax over all positions at once.

use super::weights::values;
use gguf::Gguf;
use model::config::{Attention, Config, Experts, Gating};
use std::collections::HashMap;

/// A row of a matrix, a head, or a hidden state.
pub type Row = Vec<f64>;

/// A model and what its cache holds.
pub struct Reference {
    config: Config,
    weights: HashMap<String, Row>,
    /// Hidden states before the block, one a position.
    hidden: Vec<Row>,
    /// Keys and values of each head, one a position.
    keys: Vec<Vec<Row>>,
    values: Vec<Vec<Row>>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(a: &[f64], b: Row) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// The places of the `n` greatest values, the first of equals first.
fn best(values: &[f64], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order.truncate(n);
    order
}

fn product(x: &[f64], weight: &[f64]) -> Row {
    weight.chunks(x.len()).map(|row| dot(row, x)).collect()
}

/// `silu(gate) * up`.
fn gated(gate: &[f64], up: &[f64]) -> Row {
    gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect()
}

impl Reference {
    /// Computes the cache of a sequence; `stored` is what the cache makes of values that lie side by side.
    pub fn new(file: &Gguf, tokens: &[u32], stored: impl Fn(Row) -> Row) -> Reference {
        let config = Config::read(file).expect("a known model");
        assert_eq!(config.layers, 1, "one block");
        let floats = |t| values(file, t).into_iter().map(f64::from).collect();
        let weights = file.tensors().iter().map(|t| (t.name.clone(), floats(t))).collect();
        let mut this = Reference { config, weights, hidden: vec![], keys: vec![], values: vec![] };
        for (position, &token) in tokens.iter().enumerate() {
            let n = this.config.hidden as usize;
            let x = this.weights["token_embd.weight"][token as usize * n..][..n].to_vec();
            let h = this.norm(&x, "blk.0.attn_norm.weight");
            let (keys, values) = this.cached(&h, position, &stored);
            this.hidden.push(x);
            this.keys.push(keys);
            this.values.push(values);
        }
        this
    }

    /// Logits after the token at a position.
    pub fn logits(&self, position: usize) -> Vec<f32> {
        let x = &self.hidden[position];
        let queries = self.queries(&self.norm(x, "blk.0.attn_norm.weight"), position);
        let shared = queries.len() / self.keys[0].len();
        let heads = queries.iter().enumerate().flat_map(|(i, q)| self.attend(q, i / shared, position));
        let x = add(x, self.linear(&heads.collect::<Row>(), "blk.0.attn_output.weight"));
        let h = self.norm(&x, "blk.0.ffn_norm.weight");
        let x = add(
            &x,
            match &self.config.experts {
                Some(experts) if self.config.dense_lead == 0 => self.experts(&h, experts),
                _ => self.feed_forward(&h, ""),
            },
        );
        let head = if self.weights.contains_key("output.weight") { "output.weight" } else { "token_embd.weight" };
        self.linear(&self.norm(&x, "output_norm.weight"), head).iter().map(|&v| v as f32).collect()
    }

    /// `down(silu(gate(x)) * up(x))`, of the matrices with this suffix.
    fn feed_forward(&self, x: &[f64], suffix: &str) -> Row {
        let apply = |x: &[f64], part: &str| self.linear(x, &format!("blk.0.ffn_{part}{suffix}.weight"));
        apply(&gated(&apply(x, "gate"), &apply(x, "up")), "down")
    }

    /// The experts that are chosen for a hidden state, and the shared ones (DeepSeek-V3, arXiv 2412.19437, 2.1.2: of the
    /// groups with the greatest sums of their two best scores).
    fn experts(&self, x: &[f64], e: &Experts) -> Row {
        let scores = self.linear(x, "blk.0.ffn_gate_inp.weight");
        let probs: Row = match e.gating {
            Gating::Sigmoid => scores.iter().map(|s| 1.0 / (1.0 + (-s).exp())).collect(),
            // Of the chosen: normalised, it is the same.
            Gating::Softmax | Gating::Chosen => {
                let total: f64 = scores.iter().map(|s| s.exp()).sum();
                scores.iter().map(|s| s.exp() / total).collect()
            }
        };
        let bias = self.weights.get("blk.0.exp_probs_b.bias");
        let choose: Row = (0..probs.len()).map(|i| probs[i] + bias.map_or(0.0, |b| b[i])).collect();
        let size = probs.len() / e.groups.0 as usize;
        let of_group = |group: &[f64]| best(group, 2).iter().map(|&i| group[i]).sum();
        let groups: Row = choose.chunks(size).map(of_group).collect();
        let kept = if e.groups.0 > 1 { best(&groups, e.groups.1 as usize) } else { vec![0] };
        let candidates: Vec<usize> = (0..probs.len()).filter(|i| kept.contains(&(i / size))).collect();
        let among: Row = candidates.iter().map(|&i| choose[i]).collect();
        let chosen: Vec<usize> = best(&among, e.used as usize).into_iter().map(|i| candidates[i]).collect();
        let normalise = e.normalise || e.gating == Gating::Chosen;
        let total: f64 = if normalise { chosen.iter().map(|&i| probs[i]).sum() } else { 1.0 };
        let mut out = match e.shared {
            0 => vec![0.0; x.len()],
            _ => self.feed_forward(x, "_shexp"),
        };
        for i in chosen {
            let of = |part: &str| {
                let all = &self.weights[&format!("blk.0.ffn_{part}_exps.weight")];
                &all[i * all.len() / probs.len()..][..all.len() / probs.len()]
            };
            let weight = probs[i] / total * f64::from(e.scale);
            let y = product(&gated(&product(x, of("gate")), &product(x, of("up"))), of("down"));
            out.iter_mut().zip(y).for_each(|(o, y)| *o += weight * y);
        }
        out
    }

    /// Softmax of the scores of all positions up to this one, times their values.
    fn attend(&self, query: &[f64], head: usize, position: usize) -> Row {
        let scale = f64::from(self.config.scale);
        let scores: Row = self.keys[..=position].iter().map(|keys| dot(query, &keys[head]) * scale).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Row = scores.iter().map(|s| (s - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; self.values[0][head].len()];
        for (weight, values) in weights.iter().zip(&self.values) {
            out.iter_mut().zip(&values[head]).for_each(|(o, v)| *o += weight / total * v);
        }
        out
    }

    /// The query of each head.
    fn queries(&self, h: &[f64], position: usize) -> Vec<Row> {
        match self.config.attention {
            Attention::None => unreachable!("a model with attention"),
            Attention::Grouped { head, .. } => {
                let q = self.linear(h, "blk.0.attn_q.weight");
                q.chunks(head as usize).map(|q| self.rotate(q, position)).collect()
            }
            Attention::Latent { q_rank, nope, rope, .. } => {
                assert!(q_rank.is_some(), "a model with a query bottleneck");
                let a = self.norm(&self.linear(h, "blk.0.attn_q_a.weight"), "blk.0.attn_q_a_norm.weight");
                let q = self.linear(&a, "blk.0.attn_q_b.weight");
                let whole = |q: &[f64]| [&q[..nope as usize], &self.rotate(&q[nope as usize..], position)].concat();
                q.chunks((nope + rope) as usize).map(whole).collect()
            }
        }
    }

    /// Keys and values of each head, as the cache leaves them.
    fn cached(&self, h: &[f64], position: usize, store: &impl Fn(Row) -> Row) -> (Vec<Row>, Vec<Row>) {
        match self.config.attention {
            Attention::None => unreachable!("a model with attention"),
            Attention::Grouped { head, value, .. } => {
                let k = self.linear(h, "blk.0.attn_k.weight");
                let v = store(self.linear(h, "blk.0.attn_v.weight"));
                let keys = k.chunks(head as usize).map(|k| store(self.rotate(k, position)));
                (keys.collect(), v.chunks(value as usize).map(<[f64]>::to_vec).collect())
            }
            Attention::Latent { kv_rank, nope, value, .. } => {
                let (rank, nope, value) = (kv_rank as usize, nope as usize, value as usize);
                let both = self.linear(h, "blk.0.attn_kv_a_mqa.weight");
                let latent = store(self.norm(&both[..rank], "blk.0.attn_kv_a_norm.weight"));
                let rotated = store(self.rotate(&both[rank..], position));
                // k_b lies transposed: [heads, rank, nope].
                let key = |k_b: &[f64]| {
                    let mut key = vec![0.0; nope];
                    for (row, l) in k_b.chunks(nope).zip(&latent) {
                        key.iter_mut().zip(row).for_each(|(k, w)| *k += w * l);
                    }
                    [&key[..], &rotated].concat()
                };
                let values = |v_b: &[f64]| v_b.chunks(rank).map(|row| dot(row, &latent)).collect();
                let keys = self.weights["blk.0.attn_k_b.weight"].chunks(rank * nope).map(key);
                let values = self.weights["blk.0.attn_v_b.weight"].chunks(rank * value).map(values);
                (keys.collect(), values.collect())
            }
        }
    }

    /// Rotary embedding of the first values of a head; the rest stays.
    fn rotate(&self, head: &[f64], position: usize) -> Row {
        let rope = &self.config.rope;
        assert!(!rope.halves && rope.amplitude == 1.0, "pairs beside each other");
        let mut out = head.to_vec();
        for (pair, theta) in out.chunks_mut(2).zip(&rope.theta) {
            let (sin, cos) = (position as f64 * theta).sin_cos();
            let (a, b) = (pair[0], pair[1]);
            (pair[0], pair[1]) = (a * cos - b * sin, a * sin + b * cos);
        }
        out
    }

    fn norm(&self, x: &[f64], weight: &str) -> Row {
        let factor = 1.0 / (dot(x, x) / x.len() as f64 + f64::from(self.config.eps)).sqrt();
        x.iter().zip(&self.weights[weight]).map(|(x, w)| x * factor * w).collect()
    }

    /// The product with a matrix, and its bias if there is one.
    fn linear(&self, x: &[f64], weight: &str) -> Row {
        let y = product(x, &self.weights[weight]);
        match weight.strip_suffix("weight").and_then(|name| self.weights.get(&format!("{name}bias"))) {
            Some(bias) => add(bias, y),
            None => y,
        }
    }
}

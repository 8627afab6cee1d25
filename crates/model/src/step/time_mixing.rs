//! Time mixing: linear attention, or a delta rule, that reads each token beside the one before it (RWKV-6, arXiv 2404.05892;
//! RWKV-7, arXiv 2503.14456).
//!
//! What a matrix reads lies between a token and the one before it, at places that are learned, or said by the token through
//! matrices with few values between them. What heads keep is in `keyed_state.rs`.

use super::Step;
use super::attention::repeated;
use super::keyed_state::{Rule, Taken, read};
use super::segments::Segments;
use crate::config::{ConfigError, Recurrence};
use compiler::{Tensor, dims};
use ir::UnOp;

/// Epsilon of the norms of heads.
const HEAD_EPS: f32 = 64e-5;

/// The length of a key at least, where it is divided by it.
const LEAST_LENGTH: f32 = 1e-12;

/// Logarithm of what a token leaves at least in [`Recurrence::DeltaTimeMixing`], minus the root of 1/e.
const LEAST_LOG: f32 = -0.606_531;

impl Step<'_> {
    /// From each token `[T, n]` to the one before it, which a sequence has remembered by this name; to zeros from the first.
    pub(super) fn step_back(&self, name: &str, x: &Tensor, segments: &Segments, states: &mut Vec<Tensor>) -> Tensor {
        let (values, next) = segments.last_values(name, x, 2);
        states.push(next);
        &values[0] - x
    }

    /// `out(norm(y) * silu(gate))`; in files without a bonus of the token itself (`time_mix_first`), `out(y * sigmoid(gate))`, and
    /// what is forgotten is what is taken (gated linear attention, arXiv 2312.06635).
    pub(super) fn time_mixing(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::TimeMixing { heads, kv_heads, head, mix_rank, decay_rank, .. }) = self.c.recurrence else {
            unreachable!()
        };
        let (t, hidden) = (self.t, self.c.hidden);
        let name = |part: &str| format!("blk.{layer}.time_mix_{part}");
        let weight = |part: &str, shape: &[i64]| self.w.get(&format!("{}.weight", name(part)), shape);
        let shift = self.step_back(&format!("state.{layer}.tokens"), x, segments, states);
        let between = |place: &Tensor| x + &(&shift * place);
        let few = between(&weight("lerp_x", &[hidden])?).linear(&weight("w1", &[5 * mix_rank, hidden])?).tanh();
        let (w2, together) = (weight("w2", &[5, hidden, mix_rank])?, self.w.has(&name("lerp_fused.weight")));
        let read_by = |i: i64, part: &str| -> Result<Tensor, ConfigError> {
            let learned = match together {
                true => weight("lerp_fused", &[5, 1, 1, hidden])?.slice(0, i, 1).reshape(dims![hidden]),
                false => weight(&format!("lerp_{part}"), &[hidden])?,
            };
            let w2 = w2.slice(0, i, 1).reshape(dims![hidden, mix_rank]);
            Ok(between(&(&few.slice(1, i * mix_rank, mix_rank).linear(&w2) + &learned)))
        };
        let product = |x: &Tensor, part: &str, rows: i64| -> Result<Tensor, ConfigError> {
            self.biased(x.linear(&weight(part, &[rows, hidden])?), &format!("{}.bias", name(part)), rows)
        };
        let pace = read_by(0, "w")?.linear(&weight("decay_w1", &[decay_rank, hidden])?).tanh();
        let pace = &pace.linear(&weight("decay_w2", &[hidden, decay_rank])?) + &weight("decay", &[hidden])?;
        let left = (-&pace.exp()).exp().reshape(dims![t, heads, head]);
        let of_heads = |x: Tensor| repeated(&x.reshape(dims![t, kv_heads, head]), heads);
        let k = of_heads(product(&read_by(1, "k")?, "key", kv_heads * head)?);
        let v = of_heads(product(&read_by(2, "v")?, "value", kv_heads * head)?);
        let q = product(&read_by(3, "r")?, "receptance", hidden)?.reshape(dims![t, heads, head]);
        let gate = product(&read_by(4, "g")?, "gate", hidden)?;
        let state = format!("state.{layer}");
        let y = match self.w.find(&name("first.weight"), &[heads, head])? {
            Some(bonus) => {
                let y = read(&Taken { q, k, v, left, rule: Rule::Before { bonus } }, &state, segments, states);
                &self.norm_of_heads(layer, &y)? * &gate.silu()
            }
            None => {
                let (q, k) = (q * (1.0 / (head as f32).sqrt()), &k - &(&k * &left));
                let y = read(&Taken { q, k, v, left, rule: Rule::After }, &state, segments, states);
                &y.reshape(dims![t, hidden]) * &gate.sigmoid()
            }
        };
        Ok(y.linear(&weight("output", &[hidden, hidden])?))
    }

    /// `out((norm(y) + (r . k) v) * gate)`, where norm and gate may be missing, and layers but the first mix their values with those
    /// of the first.
    pub(super) fn delta_time_mixing(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::DeltaTimeMixing { heads, head, decay_rank, rate_rank, value_rank, gate_rank, .. }) =
            self.c.recurrence
        else {
            unreachable!()
        };
        let (t, hidden) = (self.t, self.c.hidden);
        let name = |part: &str| format!("blk.{layer}.time_mix_{part}.weight");
        let weight = |part: &str, shape: &[i64]| self.w.get(&name(part), shape);
        let vector = |part: &str| weight(part, &[hidden]);
        let square = |x: &Tensor, part: &str| Ok::<_, ConfigError>(x.linear(&weight(part, &[hidden, hidden])?));
        let by_head = |x: &Tensor| x.reshape(dims![t, heads, head]);
        let shift = self.step_back(&format!("state.{layer}.tokens"), x, segments, states);
        let gated = self.w.has(&name("g1")) || self.family.mixes_channels;
        let places = weight("lerp_fused", &[if gated { 6 } else { 5 }, 1, 1, hidden])?;
        let read_by = |i: i64| x + &(&shift * &places.slice(0, i, 1).reshape(dims![hidden]));
        // Two matrices with few values between them, and what these go through.
        let through_few = |x: &Tensor, part: &str, rank: i64, of_few: fn(&Tensor) -> Tensor| {
            let few = of_few(&x.linear(&weight(&format!("{part}1"), &[rank, hidden])?));
            Ok::<_, ConfigError>(few.linear(&weight(&format!("{part}2"), &[hidden, rank])?))
        };
        let r = square(&read_by(0), "receptance")?;
        let pace = &through_few(&read_by(1), "w", decay_rank, Tensor::tanh)? + &vector("w0")?;
        let left = (pace.sigmoid() * LEAST_LOG).exp();
        let k = square(&read_by(2), "key")?;
        let of_values = read_by(3);
        let own = square(&of_values, "value")?;
        let v = match self.first_values.get() {
            Some(first) => {
                let share = &through_few(&of_values, "v", value_rank, Tensor::clone)? + &vector("v0")?;
                &own + &(&(first - &own) * &share.sigmoid())
            }
            None => self.first_values.get_or_init(|| own).clone(),
        };
        let rate = (&through_few(&read_by(4), "a", rate_rank, Tensor::clone)? + &vector("a0")?).sigmoid();
        let removed = by_head(&(&k * &vector("k_k")?));
        let length = (&removed * &removed).sum(2).unary(UnOp::Sqrt).maximum(&self.b.float(LEAST_LENGTH));
        let removed = &removed * &length.unary(UnOp::Recip).unsqueeze(2);
        let put = &removed * &by_head(&rate);
        let share = &k * &vector("k_a")?;
        let k = by_head(&(&k + &(&(&rate * &share) - &share)));
        let (r, v) = (by_head(&r), by_head(&v));
        let of_itself = &(&(&k * &r) * &weight("r_k", &[hidden])?.reshape(dims![heads, head])).sum(2).unsqueeze(2) * &v;
        let rule = Rule::Delta { found: -&removed, put };
        let taken = Taken { q: r, k, v, left: by_head(&left), rule };
        let y = read(&taken, &format!("state.{layer}"), segments, states);
        let y = match self.w.has(&name("ln")) || self.family.mixes_channels {
            true => self.norm_of_heads(layer, &y)?,
            false => y.reshape(dims![t, hidden]),
        };
        let mut y = &y + &of_itself.reshape(dims![t, hidden]);
        if gated {
            y = &y * &through_few(&read_by(5), "g", gate_rank, Tensor::sigmoid)?;
        }
        square(&y, "output")
    }

    /// A layer norm over each head of `[T, heads, head]`, with weights and biases of its own, as `[T, heads * head]`.
    fn norm_of_heads(&self, layer: i64, y: &Tensor) -> Result<Tensor, ConfigError> {
        let inner = y.len(1) * y.len(2);
        let part = |what: &str| self.w.get(&format!("blk.{layer}.time_mix_ln.{what}"), &[inner]);
        let y = y.layer_norm(None, HEAD_EPS).reshape(dims![self.t, inner]);
        Ok(&(&y * &part("weight")?) + &part("bias")?)
    }
}

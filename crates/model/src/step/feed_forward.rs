//! The feed-forward: dense, or a mixture of experts beside which one may be shared by all tokens.

use super::{Part, Step, times};
use crate::config::{Adjugates, ConfigError, Experts, Gating, Xielu};
use crate::expert_tiles::{self, Tiles};
use crate::family::{Activation, EXPERT_CHOICE_BIAS, Limits, Routed, Scales};
use compiler::{Dim, Tensor};
use ir::{BinOp, DType, UnOp};

/// Where gate and up of [`Activation::ClampedSwiglu`] end.
const SWIGLU_LIMIT: f32 = 7.0;

/// What its sigmoid multiplies the gate with.
const SWIGLU_ALPHA: f32 = 1.702;

/// Of a value without a gate, in a layer with such parameters.
fn xielu(x: &Tensor, of_layer: &Xielu) -> Tensor {
    let b = x.builder();
    let positive = &(x * of_layer.square) * x;
    let negative = &((&x.binary(BinOp::Min, &b.float(of_layer.end)).exp() - &b.float(1.0)) - x) * of_layer.short;
    &b.float(0.0).lt(x).select(&positive, &negative) + &(x * of_layer.linear)
}

impl Activation {
    /// Of a value without a gate.
    fn of(self, x: &Tensor) -> Tensor {
        let positive = || x.maximum(&x.builder().float(0.0));
        match self {
            Activation::Silu => x.silu(),
            Activation::Gelu => x.gelu(),
            Activation::Relu => positive(),
            Activation::ReluSquared => &positive() * &positive(),
            Activation::Xielu => unreachable!("it has parameters"),
            Activation::ClampedSwiglu => {
                let x = x.binary(BinOp::Min, &x.builder().float(SWIGLU_LIMIT));
                &x * &(&x * SWIGLU_ALPHA).sigmoid()
            }
        }
    }

    /// Of a gate, times up; both end at a limit, if there is one.
    fn gated(self, gate: &Tensor, up: &Tensor, limit: Option<(Limits, f32)>) -> Tensor {
        let until = |x: &Tensor, limit: f32| x.binary(BinOp::Min, &gate.builder().float(limit));
        match (self, limit) {
            (Activation::ClampedSwiglu, _) => &self.of(gate) * &(up.clamp(SWIGLU_LIMIT) + 1.0),
            (_, Some((Limits::Gate, limit))) => &self.of(&until(gate, limit)) * &up.clamp(limit),
            (_, Some((_, limit))) => &until(&self.of(gate), limit) * &up.clamp(limit),
            (_, None) => &self.of(gate) * up,
        }
    }
}

/// Experts of a layer, of which a token uses some.
struct Mixture<'a> {
    /// How the names of its matrices end.
    name: &'a str,
    /// What they are called where ways to compute them are chosen and reported.
    title: &'a str,
    count: i64,
    used: i64,
    width: i64,
}

/// The matrices of experts `[count, rows, columns]`, with a bias `[count, rows]` and a scale `[count]` if there are any.
struct ExpertMatrix {
    weight: Tensor,
    bias: Option<Tensor>,
    scale: Option<Tensor>,
}

impl ExpertMatrix {
    /// The products of rows with the matrices that `rows` picks of each tensor, `[.., .., rows]`.
    fn of(&self, x: &Tensor, rows: impl Fn(&Tensor) -> Tensor) -> Tensor {
        let mut y = x.linear(&rows(&self.weight));
        if let Some(scale) = &self.scale {
            y = y * &rows(scale).unsqueeze(2);
        }
        match &self.bias {
            Some(bias) => y + &rows(bias),
            None => y,
        }
    }
}

impl Step<'_> {
    /// Where the gates and ups of a layer end.
    fn limit_of(&self, layers: &[f32], layer: i64) -> Option<(Limits, f32)> {
        let limit = layers.get(layer as usize).copied().filter(|&limit| limit > 0.0)?;
        Some((self.family.limits, limit))
    }

    /// `stream + feed_forward(norm(x))`, where x is `stream`, what attention gave, or `input`, what the block reads, if both read
    /// the same.
    pub(super) fn feed_forward_of(
        &self,
        layer: i64,
        input: &Tensor,
        stream: &Tensor,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let width = c.ffn[layer as usize];
        if width == 0 {
            return Ok(stream.clone());
        }
        let _scope = self.b.scope(&Part::FeedForward.scope(layer));
        let x = if c.parallel { input } else { stream };
        let h = self.norm_of(layer, x, self.family.norms.feed_forward)?;
        let of_router = if self.family.routes_early { input } else { &h };
        let f = match c.experts_of(layer) {
            Some(e) if self.family.routed == Routed::Beside => self.experts_beside(layer, x, &h, e)?,
            Some(e) if self.family.routed == Routed::Before => {
                let of_input = self.norm_of(layer, input, &["ffn_norm_exps"])?;
                &self.feed_forward(&h, width, layer, "")? + &self.experts(layer, &of_input, &of_input, e)?
            }
            Some(e)
                if self.family.routed == Routed::BesideMaybe && self.w.has(&format!("blk.{layer}.ffn_up.weight")) =>
            {
                let sum = &self.feed_forward(&h, width, layer, "")? + &self.experts(layer, &h, of_router, e)?;
                sum * std::f32::consts::FRAC_1_SQRT_2
            }
            Some(e) => self.experts(layer, &h, of_router, e)?,
            None if self.family.mixes_channels => self.channel_mixing(layer, &h, width, states)?,
            None => self.feed_forward(&h, width, layer, "")?,
        };
        let f = self.norm_after(layer, &f, self.family.norms.after_feed_forward)?;
        let x = self.with_half(stream, &h, f);
        self.norm_of(layer, &x, self.family.norms.feed_forward_sum)
    }

    /// `down(act(gate(x)) * up(x))`, or `down(act(up(x)))` without a gate, each with its bias and scale if there are any;
    /// one matrix may hold gate and up. `suffix` tells the shared expert from a dense feed-forward.
    fn feed_forward(&self, x: &Tensor, width: i64, layer: i64, suffix: &str) -> Result<Tensor, ConfigError> {
        let hidden = self.c.hidden;
        let name = |part: &str, what: &str| format!("blk.{layer}.ffn_{part}{suffix}.{what}");
        let weight = |part: &str, rows: i64, columns: i64| self.w.get(&name(part, "weight"), &[rows, columns]);
        let finish = |y: Tensor, part: &str, rows: i64| -> Result<Tensor, ConfigError> {
            let y = self.biased(y, &name(part, "bias"), rows)?;
            match self.family.scales {
                Scales::All => self.scaled(y, &name(part, "scale")),
                Scales::Down if part == "down" => self.scaled(y, &name(part, "scale")),
                _ => Ok(y),
            }
        };
        let limit = self.limit_of(&self.c.feed_forward_limits, layer);
        let down = weight("down", hidden, width)?;
        let (gated, act) = match self.family.ungated {
            Some(act) if !self.w.has(&name("gate", "weight")) => (false, act),
            _ => (self.family.gated, self.c.activation),
        };
        let mut h = if !gated {
            let up = weight("up", width, hidden)?;
            let h = finish(x.linear(&up), "up", width)?;
            let h = match self.c.xielu.get(layer as usize) {
                Some(of_layer) => xielu(&h, of_layer),
                None => act.of(&h),
            };
            match self.w.find(&format!("blk.{layer}.ffn.act.scales"), &[width])? {
                Some(scales) => &h * &scales.unary(UnOp::Recip),
                None => h,
            }
        } else if self.w.has(&name("gate", "weight")) {
            let (gate, up) = (weight("gate", width, hidden)?, weight("up", width, hidden)?);
            let gate = self.sparse(layer, finish(x.linear(&gate), "gate", width)?);
            act.gated(&gate, &finish(x.linear(&up), "up", width)?, limit)
        } else {
            let both = weight("up", 2 * width, hidden)?;
            let bias = self.w.find(&name("up", "bias"), &[2 * width])?;
            let half = |start: i64| {
                let y = x.linear(&both.slice(0, start, width));
                bias.as_ref().map_or(y.clone(), |bias| &y + &bias.slice(0, start, width))
            };
            act.gated(&half(0), &half(width), limit)
        };
        if self.family.inner_norms {
            h = self.norm(&h, &format!("blk.{layer}.ffn_sub_norm"), &[width])?;
        }
        finish(h.linear(&down), "down", hidden)
    }

    /// Gates of which only those are left that are above their mean by so many standard deviations, and by how much they are.
    fn sparse(&self, layer: i64, gates: Tensor) -> Tensor {
        let Some(&Some(deviations)) = self.c.sparsity.get(layer as usize) else { return gates };
        let n = gates.len(1) as f32;
        let centred = &gates - &(gates.sum(1) * (1.0 / n)).unsqueeze(1);
        let variance = (&centred * &centred).sum(1) * (1.0 / (n - 1.0));
        let deviation = variance.unary(UnOp::Sqrt).unsqueeze(1);
        (&centred - &(deviation * deviations)).maximum(&self.b.float(0.0))
    }

    /// One of the matrices of all experts.
    fn expert_matrix(
        &self,
        layer: i64,
        mixture: &Mixture<'_>,
        part: &str,
        shape: [i64; 3],
    ) -> Result<ExpertMatrix, ConfigError> {
        let name = |what: &str| format!("blk.{layer}.ffn_{part}_{}.{what}", mixture.name);
        let scales = self.family.scales == Scales::All;
        Ok(ExpertMatrix {
            weight: self.w.get(&name("weight"), &shape)?,
            bias: self.w.find(&name("bias"), &shape[..2])?,
            scale: if scales { self.w.find(&name("scale"), &shape[..1])? } else { None },
        })
    }

    /// Gate, if the family has one, and up of all experts, which read rows of so many values.
    fn gate_and_up(
        &self,
        layer: i64,
        e: &Mixture<'_>,
        width: i64,
    ) -> Result<(Option<ExpertMatrix>, ExpertMatrix), ConfigError> {
        if !self.family.gated || !self.w.has(&format!("blk.{layer}.ffn_gate_up_{}.weight", e.name)) {
            let matrix = |part| self.expert_matrix(layer, e, part, [e.count, e.width, width]);
            let gate = if self.family.gated { Some(matrix("gate")?) } else { None };
            return Ok((gate, matrix("up")?));
        }
        let both = self.expert_matrix(layer, e, "gate_up", [e.count, 2 * e.width, width])?;
        let half = |start: i64| ExpertMatrix {
            weight: both.weight.slice(1, start, e.width),
            bias: both.bias.as_ref().map(|bias| bias.slice(1, start, e.width)),
            scale: both.scale.clone(),
        };
        Ok((Some(half(0)), half(e.width)))
    }

    /// A dense feed-forward of `h`, and experts beside it that have norms of their own of `x`.
    fn experts_beside(&self, layer: i64, x: &Tensor, h: &Tensor, e: &Experts) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let norm = |x: &Tensor, part: &str| self.norm(x, &name(part), &[c.hidden]);
        let dense = norm(&self.feed_forward(h, c.ffn[layer as usize], layer, "")?, "post_ffw_norm_1")?;
        let scale = self.w.get(&name("ffn_gate_inp.scale"), &[c.hidden])?;
        let of_router = x.rms_norm(&scale, c.eps) * (1.0 / (c.hidden as f32).sqrt());
        let routed = self.experts(layer, &norm(x, "pre_ffw_norm_2")?, &of_router, e)?;
        Ok(&dense + &norm(&routed, "post_ffw_norm_2")?)
    }

    /// Routed and shared experts of `x`, which a router chooses that reads `of_router`.
    fn experts(&self, layer: i64, x: &Tensor, of_router: &Tensor, e: &Experts) -> Result<Tensor, ConfigError> {
        let hidden = self.c.hidden;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let scores = of_router.linear(&self.w.get(&name("ffn_gate_inp.weight"), &[e.count, hidden])?);
        let scores = self.biased(scores, &name("ffn_gate_inp.bias"), e.count)?;
        let probs = match e.gating {
            Gating::Softmax => scores.softmax(),
            Gating::Sigmoid => scores.sigmoid(),
            Gating::Chosen => scores,
        };
        // The bias chooses experts; the weights do not contain it.
        let of_choice = EXPERT_CHOICE_BIAS.into_iter().find(|part| self.w.has(&name(part)));
        let of_choice = of_choice.map(|part| self.w.get(&name(part), &[e.count])).transpose()?;
        let mut choose = match of_choice {
            Some(bias) => &probs + &bias,
            None => probs.clone(),
        };
        if e.groups.0 > 1 {
            choose = self.only_best_groups(&choose, e);
        }
        let ids = choose.topk(e.used as usize);
        let mut weights = probs.take_last(&ids);
        if e.gating == Gating::Chosen {
            weights = weights.softmax();
        }
        weights = self.shares(weights, e);
        let latent = |part: &str, shape: [i64; 2]| self.w.get(&name(&format!("ffn_latent_{part}.weight")), &shape);
        let read = match e.latent {
            Some(latent_width) => x.linear(&latent("down", [latent_width, hidden])?),
            None => x.clone(),
        };
        let read_width = e.latent.unwrap_or(hidden);
        let mixture = Mixture { name: "exps", title: "experts", count: e.count, used: e.used, width: e.width };
        let mut routed = self.mixture(layer, &mixture, &read, &ids, &weights)?;
        if e.latent.is_some() {
            routed = routed.linear(&latent("up", [hidden, read_width])?);
        }
        let of_matrix = || self.w.shape(&name("ffn_down_shexp.weight")).and_then(|shape| shape.last().copied());
        if let Some(adjugates) = &e.adjugates {
            routed = &routed + &self.adjugates(layer, &routed, &choose, &probs, (e, adjugates))?;
        }
        let Some(width) = self.c.shared_width.or_else(of_matrix) else { return Ok(routed) };
        let mut shared = self.feed_forward(x, width, layer, "_shexp")?;
        if let Some(gate) = self.w.find(&name("ffn_gate_inp_shexp.weight"), &[hidden])? {
            shared = shared * &x.linear(&gate.reshape(&[Dim::Const(1), Dim::Const(hidden)])).sigmoid();
        }
        let sum = &routed + &shared;
        Ok(if self.family.halves_experts { sum * 0.5 } else { sum })
    }

    /// Weights of chosen experts as they count.
    fn shares(&self, mut weights: Tensor, e: &Experts) -> Tensor {
        if e.normalise {
            let total = weights.sum(1).unsqueeze(1).maximum(&self.b.float(6.103_515_6e-5));
            weights = &weights * &total.unary(UnOp::Recip);
        }
        times(weights, e.scale)
    }

    /// The experts that belong to the groups of those that are chosen, of what these give. Each weighs what the router says of the
    /// expert that has the number of its group, as in llama.cpp.
    fn adjugates(
        &self,
        layer: i64,
        read: &Tensor,
        choose: &Tensor,
        probs: &Tensor,
        (e, adjugates): (&Experts, &Adjugates),
    ) -> Result<Tensor, ConfigError> {
        let count = e.count / adjugates.group;
        let used = e.used.min(count);
        let ids = choose.topk(used as usize).binary(BinOp::Div, &self.b.int32(adjugates.group));
        let weights = self.shares(probs.take_last(&ids), e);
        let mixture = Mixture { name: "chexps", title: "chexps", count, used, width: adjugates.width };
        Ok(self.mixture(layer, &mixture, read, &ids, &weights)? * adjugates.scale)
    }

    /// The sum of what chosen experts `[T, used]` of a mixture make of `read`, by their weights.
    fn mixture(
        &self,
        layer: i64,
        mixture: &Mixture<'_>,
        read: &Tensor,
        ids: &Tensor,
        weights: &Tensor,
    ) -> Result<Tensor, ConfigError> {
        let (act, read_width) = (self.c.activation, read.len(1));
        let (gate, up) = self.gate_and_up(layer, mixture, read_width)?;
        let down = self.expert_matrix(layer, mixture, "down", [mixture.count, read_width, mixture.width])?;
        let (weighs_inputs, limit) = (self.family.weighs_inputs, self.limit_of(&self.c.expert_limits, layer));
        let inner = |x: &Tensor, rows: &dyn Fn(&Tensor) -> Tensor| match &gate {
            Some(gate) => act.gated(&gate.of(x, rows), &up.of(x, rows), limit),
            None => act.of(&up.of(x, rows)),
        };
        // Each token reads its experts, or each expert its tokens.
        let slots = {
            let rows = |w: &Tensor| w.gather(ids);
            let x = read.unsqueeze(1);
            let x = if weighs_inputs { &x * &weights.unsqueeze(2) } else { x };
            down.of(&inner(&x, &rows), rows)
        };
        let by_expert = || {
            let (count, used) = (mixture.count, mixture.used);
            let size = expert_tiles::size(&self.expert_tiles, self.usual_tokens, used, count);
            let tiles = Tiles::of(self.b, self.t, ids, count, size, self.counts_in_chunks);
            let rows = |w: &Tensor| w.gather(&tiles.expert).unsqueeze(1);
            let mut x = read.gather(&tiles.token);
            if weighs_inputs {
                // Of the weights of a token, that of the expert of its tile.
                let chosen = ids.gather(&tiles.token).equal(&tiles.expert.unsqueeze(1).unsqueeze(2));
                let weight = chosen.select(&weights.gather(&tiles.token), &self.b.float(0.0)).sum(2);
                x = &x * &weight.unsqueeze(2);
            }
            let x = x.prefix(1, &tiles.count);
            let h = inner(&x, &rows);
            let y = down.of(&h.prefix(1, &tiles.count), rows);
            tiles.restore(&y)
        };
        let each = match self.groups_by_expert {
            true => {
                let ways = [("slots", slots), ("by-expert", by_expert())];
                Tensor::choice(&format!("blk.{layer}.{}", mixture.title), &ways)
            }
            false => slots,
        };
        Ok(if weighs_inputs { each.sum(1) } else { (&each * &weights.unsqueeze(2)).sum(1) })
    }

    /// Minus infinity outside the best groups; a group counts by the sum of its
    /// two best experts (DeepSeek-V3).
    fn only_best_groups(&self, scores: &Tensor, e: &Experts) -> Tensor {
        let (groups, used) = e.groups;
        let size = e.count / groups;
        let grouped = scores.reshape(&[self.t, Dim::Const(groups), Dim::Const(size)]);
        let best = grouped.take_last(&grouped.topk(2)).sum(2);
        let chosen = best.topk(used as usize);
        let hit = chosen.unsqueeze(2).equal(&self.b.iota(groups)).cast(DType::I32).sum(1);
        let keep = self.b.int32(0).lt(&hit).unsqueeze(2);
        keep.select(&grouped, &self.b.float(f32::NEG_INFINITY)).reshape(&[self.t, Dim::Const(e.count)])
    }
}

//! Several residual streams, of which a layer works on one (AltUp, arXiv 2301.13310): it predicts what all of them become, and
//! corrects that by how the one that it worked on came out.

use super::Step;
use crate::config::{ConfigError, Streams};
use compiler::{Tensor, dims};
use ir::UnOp;

/// Beside mean squares, so that streams of zeros stay that.
const TINY: f32 = 1e-20;

/// `x` at the size of `like`; both are rows.
fn resized(x: &Tensor, like: &Tensor) -> Tensor {
    x * &(&x.rms_factor(TINY) * &like.rms_factor(TINY).unary(UnOp::Recip))
}

impl Step<'_> {
    /// The streams `[T, count, hidden]` of an embedding: itself, and projections of its size.
    pub(super) fn streams_of(&self, x: &Tensor, streams: &Streams) -> Result<Tensor, ConfigError> {
        let (hidden, others) = (self.c.hidden, streams.count - 1);
        let w = self.w.get("altup_proj.weight", &[others, hidden, hidden])?;
        let x = x.unsqueeze(1);
        let projected = resized(&x.linear(&w), &x);
        Ok(Tensor::concat(&[x, projected], 1))
    }

    /// The mean of the streams, of which all but the first are projected and have the size of the active one.
    pub(super) fn merged_streams(&self, x: &Tensor, streams: &Streams) -> Result<Tensor, ConfigError> {
        let (hidden, others) = (self.c.hidden, streams.count - 1);
        let w = self.w.get("altup_unembd_proj.weight", &[others, hidden, hidden])?;
        let active = x.slice(1, streams.active, 1);
        let projected = resized(&x.slice(1, 1, others).linear(&w), &active);
        let rows = [x.shape()[0], hidden.into()];
        Ok((&x.slice(1, 0, 1).reshape(&rows) + &projected.sum(1)) * (1.0 / streams.count as f32))
    }

    /// The active one of the streams, `[T, hidden]`.
    pub(super) fn active(&self, x: &Tensor, streams: &Streams) -> Tensor {
        x.slice(1, streams.active, 1).reshape(dims![self.t, self.c.hidden])
    }

    /// How much of each stream a layer wants, `[T, n]`, by what it sees of the active one.
    fn mixed(&self, layer: i64, active: &Tensor, what: &str, n: i64, streams: &Streams) -> Result<Tensor, ConfigError> {
        let name = |part: &str| format!("blk.{layer}.altup_{part}");
        let (hidden, count) = (self.c.hidden, streams.count);
        let seen = self.norm(active, &name("router_norm"), &[hidden])? * (1.0 / hidden as f32);
        let modes = seen.linear(&self.w.get(&name("router.weight"), &[count, hidden])?).tanh();
        Ok(modes.linear(&self.w.get(&name(&format!("{what}_coef.weight")), &[n, count])?))
    }

    /// What a layer expects all streams to become.
    pub(super) fn predicted(&self, layer: i64, x: &Tensor, streams: &Streams) -> Result<Tensor, ConfigError> {
        let n = streams.count;
        let mix = self.mixed(layer, &self.active(x, streams), "predict", n * n, streams)?;
        let mix = mix.reshape(dims![self.t, n, n, 1]);
        Ok(x + &(&mix * &x.unsqueeze(1)).sum(2))
    }

    /// That, by what the layer made of the active one.
    pub(super) fn corrected(
        &self,
        layer: i64,
        predicted: &Tensor,
        made: &Tensor,
        streams: &Streams,
    ) -> Result<Tensor, ConfigError> {
        let mix = self.mixed(layer, made, "correct", streams.count, streams)? + 1.0;
        let news = made - &self.active(predicted, streams);
        Ok(predicted + &(&mix.unsqueeze(2) * &news.unsqueeze(1)))
    }

    /// Streams to which a layer adds its input: all but the first have it.
    pub(super) fn streams_with_input(
        &self,
        layer: i64,
        x: &Tensor,
        inputs: &Tensor,
        streams: &Streams,
    ) -> Result<Tensor, ConfigError> {
        let scale = self.w.get(&format!("blk.{layer}.altup_correct_scale.weight"), &[self.c.hidden])?;
        let added = self.input_of(layer, &(self.active(x, streams) * &scale), inputs)?;
        let rest = &x.slice(1, 1, streams.count - 1) + &added.unsqueeze(1);
        Ok(Tensor::concat(&[x.slice(1, 0, 1), rest], 1))
    }

    /// `(x + h + norm(r(l(h)))) / √2` in blocks that have such matrices (LAuReL, arXiv 2411.07501): beside attention, which has
    /// made `x` of the same `h`.
    pub(super) fn with_low_rank(&self, layer: i64, x: Tensor, h: &Tensor) -> Result<Tensor, ConfigError> {
        let name = |part: &str| format!("blk.{layer}.laurel_{part}");
        let Some(rank) = self.w.shape(&name("l.weight")).and_then(|shape| shape.first().copied()) else { return Ok(x) };
        let hidden = self.c.hidden;
        let low = h.linear(&self.w.get(&name("l.weight"), &[rank, hidden])?);
        let y = low.linear(&self.w.get(&name("r.weight"), &[hidden, rank])?);
        let y = &self.norm(&y, &name("post_norm"), &[hidden])? + h;
        Ok((&x + &y) * std::f32::consts::FRAC_1_SQRT_2)
    }
}

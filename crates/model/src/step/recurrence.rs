//! Layers that remember in a state of constant size.
//!
//! What they carry goes from token to token, in a loop over those of a step ([`Segments::carried`]); one token is the same
//! without the loop.

use super::Step;
use super::segments::Segments;
use crate::config::{ConfigError, Recurrence};
use compiler::Tensor;

impl Step<'_> {
    /// What a layer has in place of attention, or beside it.
    pub(super) fn recurrence_of(
        &self,
        layer: i64,
        x: &Tensor,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let (Some(recurrence), Some(segments)) = (&self.c.recurrence, &self.segments) else {
            unreachable!("a layer that remembers is of a model that does")
        };
        match *recurrence {
            Recurrence::Convolution { taps } => self.short_convolution(layer, x, segments, taps, states),
            Recurrence::StateSpace { .. } => self.state_space(layer, x, segments, states),
            Recurrence::SelectiveScan { .. } => self.selective_scan(layer, x, segments, states),
            Recurrence::SelectiveHeads { .. } => self.selective_heads(layer, x, segments, states),
            Recurrence::LinearAttention { .. } => self.linear_attention(layer, x, segments, states),
            Recurrence::DeltaRule { .. } => self.delta_rule(layer, x, segments, states),
            Recurrence::TimeMixing { .. } => self.time_mixing(layer, x, segments, states),
            Recurrence::DeltaTimeMixing { .. } => self.delta_time_mixing(layer, x, segments, states),
            Recurrence::KeyedDeltaRule { .. } => self.keyed_delta_rule(layer, x, segments, states),
        }
    }

    /// `out(c * convolution(b * x))` of three parts of one projection (LFM2, arXiv 2511.23404, section 2.2).
    fn short_convolution(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        taps: i64,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let n = self.c.hidden;
        let name = |part: &str| format!("blk.{layer}.shortconv.{part}.weight");
        let parts = x.linear(&self.w.get(&name("in_proj"), &[3 * n, n])?);
        let part = |i: i64| parts.slice(1, i * n, n);
        let conv = self.w.get(&name("conv"), &[n, taps])?;
        let y = self.convolution(&format!("state.{layer}.conv"), &(&part(0) * &part(2)), &conv, segments, states);
        Ok((&part(1) * &y).linear(&self.w.get(&name("out_proj"), &[n, n])?))
    }

    /// The convolution of inputs `[T, channels]` that a state space or a delta rule begins with, with its bias and activation.
    pub(super) fn convolved(
        &self,
        layer: i64,
        x: &Tensor,
        taps: i64,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let channels = x.len(1);
        let name = |what: &str| format!("blk.{layer}.ssm_conv1d.{what}");
        let conv = self.w.get(&name("weight"), &[channels, taps])?;
        let mixed = self.convolution(&format!("state.{layer}.conv"), x, &conv, segments, states);
        Ok(self.biased(mixed, &name("bias"), channels)?.silu())
    }

    /// For each channel the sum of the last values, which are remembered by a name, times weights `[channels, taps]`, the eldest
    /// first.
    pub(super) fn convolution(
        &self,
        name: &str,
        x: &Tensor,
        weight: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Tensor {
        let (channels, taps) = (weight.len(0), weight.len(1));
        let (values, next) = segments.last_values(name, x, taps);
        states.push(next);
        // Several tokens read weights that lie as their channels do.
        let by_tap = weight.permute(&[1, 0]);
        let by_tap = if segments.single { by_tap } else { by_tap.fence() };
        let of_tap = |tap: usize| by_tap.slice(0, tap as i64, 1).reshape(&[channels.into()]);
        let terms = values.iter().enumerate().map(|(tap, value)| value * &of_tap(tap));
        terms.reduce(|sum, term| sum + &term).expect("a tap")
    }
}

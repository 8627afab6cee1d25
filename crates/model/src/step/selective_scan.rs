//! State spaces whose keys, queries and steps are made of what a convolution gives.
//!
//! In the first Mamba (arXiv 2312.00752) each value of a key is forgotten at its own pace in each channel:
//!
//! ```text
//! S' = exp(dt a) S + dt x B        y = S' . C
//! ```
//!
//! In PLaMo 2 a head has one pace, as in `state_space.rs`.

use super::Step;
use super::segments::Segments;
use super::state_space::{Taken, read};
use crate::config::{ConfigError, Recurrence};
use compiler::{Tensor, dims};

impl Step<'_> {
    /// `out((y + D x) * silu(z))`.
    pub(super) fn selective_scan(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::SelectiveScan { inner, state, rank, taps, .. }) = self.c.recurrence else {
            unreachable!()
        };
        let hidden = self.c.hidden;
        let name = |part: &str| format!("blk.{layer}.ssm_{part}");
        let w = self.w.get(&name("in.weight"), &[2 * inner, hidden])?;
        let both = self.scaled(x.linear(&w), &name("in.scale"))?;
        let (x, z) = (both.slice(1, 0, inner), both.slice(1, inner, inner));
        let x = self.convolved(layer, &x, taps, segments, states)?;
        let all = x.linear(&self.w.get(&name("x.weight"), &[rank + 2 * state, inner])?);
        let part = |part: &str, at: i64, len: i64| self.selected(layer, part, &all.slice(1, at, len));
        let (dt, b, c) = (part("dt", 0, rank)?, part("b", rank, state)?, part("c", rank + state, state)?);
        let dt = dt.linear(&self.w.get(&name("dt.weight"), &[inner, rank])?);
        let dt = self.biased(dt, &name("dt.bias"), inner)?.softplus();
        let a = self.w.get(&name("a"), &[inner, state])?;
        let y = segments.carried(
            (&format!("state.{layer}"), &[inner, state]),
            [&(&x * &dt), &b, &c, &dt],
            |state, [given, b, _, dt]| {
                let left = (&dt.unsqueeze(1) * &a).exp();
                &(state * &left) + &(&given.unsqueeze(1) * &b.unsqueeze(0))
            },
            |[_, state], [_, _, c, _]| (state * &c.unsqueeze(0)).sum(1),
            states,
        );
        let y = &(&y + &(&x * &self.w.get(&name("d"), &[inner])?)) * &z.silu();
        self.scaled(y.linear(&self.w.get(&name("out.weight"), &[hidden, inner])?), &name("out.scale"))
    }

    /// As [`Step::selective_scan`], where a head has one pace of forgetting and its inputs lie beside its gates (PLaMo 2).
    pub(super) fn selective_heads(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::SelectiveHeads { heads, head, state, rank, taps }) = self.c.recurrence else {
            unreachable!()
        };
        let (t, hidden, inner) = (self.t, self.c.hidden, heads * head);
        let name = |part: &str| format!("blk.{layer}.ssm_{part}");
        let both = x.linear(&self.w.get(&name("in.weight"), &[2 * inner, hidden])?);
        let both = both.reshape(dims![t, heads, 2 * head]);
        let half = |at: i64| both.slice(2, at, head).reshape(dims![t, inner]);
        let (z, x) = (half(0), half(head));
        let x = self.convolved(layer, &x, taps, segments, states)?;
        let all = x.linear(&self.w.get(&name("x.weight"), &[rank + 2 * state, inner])?);
        let part = |part: &str, at: i64, len: i64| self.selected(layer, part, &all.slice(1, at, len));
        let (b, c, dt) = (part("b", 0, state)?, part("c", state, state)?, part("dt", 2 * state, rank)?);
        let dt = dt.linear(&self.w.get(&name("dt.weight"), &[heads, rank])?);
        let dt = self.biased(dt, &name("dt.bias"), heads)?.softplus();
        let log = &dt * &self.w.get(&name("a"), &[heads])?;
        let [b, c] = [b, c].map(|of_all| of_all.unsqueeze(1));
        let (x, of_all) = (x.reshape(dims![t, 1, heads, head]), |x: &Tensor| x.unsqueeze(1));
        let taken = Taken { x: &x * &of_all(&dt).unsqueeze(3), b, c, left: of_all(&log.exp()) };
        let y = read(&taken, &format!("state.{layer}"), segments, states);
        let skip = self.w.get(&name("d"), &[heads])?.reshape(dims![1, heads, 1]);
        let y = &(&y + &(&x * &skip)).reshape(dims![t, inner]) * &z.silu();
        Ok(y.linear(&self.w.get(&name("out.weight"), &[hidden, inner])?))
    }

    /// Steps, keys or queries with their norm, if the model has any: one with weights, or without (Falcon Mamba).
    fn selected(&self, layer: i64, part: &str, x: &Tensor) -> Result<Tensor, ConfigError> {
        let name = format!("blk.{layer}.ssm_{part}_norm");
        if self.w.has(&name) || self.w.has(&format!("{name}.weight")) {
            return self.norm(x, &name, &[x.len(1)]);
        }
        let bare = matches!(self.c.recurrence, Some(Recurrence::SelectiveScan { bare_norms: true, .. }));
        Ok(if bare { x * &x.rms_factor(self.c.eps) } else { x.clone() })
    }
}

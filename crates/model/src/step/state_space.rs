//! A state space whose heads have one decay each (Mamba2, arXiv 2405.21060).
//!
//! A head keeps a matrix S. A token leaves `exp(dt a)` of it, adds `dt x B`, and reads `S C`.

use super::Step;
use super::segments::{Segments, last_as_two};
use crate::config::{ConfigError, Recurrence};
use compiler::{Tensor, dims};

/// What a state space takes of tokens.
pub(super) struct Taken {
    /// Inputs, by groups of heads, `[T, groups, each, head]`.
    pub(super) x: Tensor,
    /// Keys `[T, groups, state]`.
    pub(super) b: Tensor,
    /// Queries `[T, groups, state]`.
    pub(super) c: Tensor,
    /// What is left, `[T, groups, each]`.
    pub(super) left: Tensor,
}

/// What the queries find in the state of this name, `[T, groups, each, head]`.
pub(super) fn read(taken: &Taken, name: &str, segments: &Segments, states: &mut Vec<Tensor>) -> Tensor {
    let Taken { x, b, c, left } = taken;
    let of_group = |x: Tensor| x.unsqueeze(1).unsqueeze(1);
    segments.carried(
        (name, &[x.len(1), x.len(2), x.len(3), b.len(2)]),
        [x, b, c, left],
        |state, [x, b, _, left]| &(state * &left.unsqueeze(2).unsqueeze(3)) + &(&x.unsqueeze(3) * &of_group(b)),
        |[_, state], [_, _, c, _]| (state * &of_group(c)).sum(3),
        states,
    )
}

impl Step<'_> {
    /// `out(norm((y + D x) * silu(z)))`.
    pub(super) fn state_space(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::StateSpace { heads, head, groups, state, taps }) = self.c.recurrence else {
            unreachable!()
        };
        let (t, hidden, each) = (self.t, self.c.hidden, heads / groups);
        let (inner, keys) = (heads * head, groups * state);
        let channels = inner + 2 * keys;
        let name = |part: &str| format!("blk.{layer}.ssm_{part}");
        let w = self.w.get(&name("in.weight"), &[inner + channels + heads, hidden])?;
        let all = self.scaled(x.linear(&w), &name("in.scale"))?;
        let (z, dt) = (all.slice(1, 0, inner), all.slice(1, inner + channels, heads));
        let mixed = self.convolved(layer, &all.slice(1, inner, channels), taps, segments, states)?;
        // By groups of heads.
        let x = mixed.slice(1, 0, inner).reshape(dims![t, groups, each, head]);
        let [b, c] = [inner, inner + keys].map(|at| mixed.slice(1, at, keys).reshape(dims![t, groups, state]));
        let dt = self.biased(dt, &name("dt.bias"), heads)?.softplus();
        let log = &dt * &self.w.get(&name("a"), &[heads, 1])?.reshape(dims![heads]);
        let by_group = |x: &Tensor| last_as_two(x, [groups, each]);
        let taken = Taken { x: &x * &by_group(&dt).unsqueeze(3), b, c, left: by_group(&log.exp()) };
        let y = read(&taken, &format!("state.{layer}"), segments, states);
        let skip = self.w.get(&name("d"), &[heads, 1])?.reshape(dims![groups, each, 1]);
        let y = (&y + &(&x * &skip)).reshape(dims![t, inner]);
        let y = &y * &z.silu();
        let y = if self.w.has(&name("norm.weight")) {
            let weight = self.w.get(&name("norm.weight"), &[groups, inner / groups])?;
            y.reshape(dims![t, groups, inner / groups]).rms_norm(&weight, self.c.eps).reshape(dims![t, inner])
        } else {
            y
        };
        self.scaled(y.linear(&self.w.get(&name("out.weight"), &[hidden, inner])?), &name("out.scale"))
    }
}

//! The gated delta rule (arXiv 2412.06464).
//!
//! A head keeps a matrix S from keys to values. Token t leaves `exp(g)` of it, and what the rest does not know of the value
//! of its key it learns: `S' = exp(g) S + beta (v - exp(g) S k) k`, read by its query as `S' q`.
//!
//! With a pace of forgetting for each value of a key (Kimi Linear, arXiv 2510.26692) what is left is a factor of each.

use super::Step;
use super::segments::Segments;
use crate::config::{ConfigError, Recurrence};
use compiler::{Tensor, dims};
use ir::UnOp;

/// What a layer reads of a token.
struct Read {
    /// Queries and keys `[T, heads, key]`.
    q: Tensor,
    k: Tensor,
    /// Values `[T, heads, value]`.
    v: Tensor,
    /// How much is learned, `[T, heads]`.
    beta: Tensor,
    /// What is left, `[T, heads, 1]`, or what is left of each value of a key, `[T, heads, key]`.
    left: Tensor,
}

impl Step<'_> {
    /// `out(norm(y) * silu(z))`.
    pub(super) fn delta_rule(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::DeltaRule { heads, key_heads, key, value, taps }) = self.c.recurrence else {
            unreachable!()
        };
        let (t, hidden) = (self.t, self.c.hidden);
        let (inner, keys) = (heads * value, key_heads * key);
        let name = |part: &str| format!("blk.{layer}.ssm_{part}");
        let (mixed, z) = self.values_and_gate(layer, x)?;
        let mixed = self.convolved(layer, &mixed, taps, segments, states)?;
        let each = heads / key_heads;
        let of_heads = |x: &Tensor| {
            let x = self.direction(&x.reshape(dims![t, key_heads, key]));
            let (at, many) = match self.family.gates_by_key {
                true => (2, dims![t, key_heads, each, key]),
                false => (1, dims![t, each, key_heads, key]),
            };
            x.unsqueeze(at).expand(many).reshape(dims![t, heads, key])
        };
        let (beta, alpha) = self.learning_and_forgetting(layer, x)?;
        let rate = self.w.get(&name("a"), &[heads])?;
        let read = Read {
            q: of_heads(&mixed.slice(1, 0, keys)) * (1.0 / (key as f32).sqrt()),
            k: of_heads(&mixed.slice(1, keys, keys)),
            v: mixed.slice(1, 2 * keys, inner).reshape(dims![t, heads, value]),
            beta: beta.sigmoid(),
            left: (&self.biased(alpha, &name("dt.bias"), heads)?.softplus() * &rate).exp().unsqueeze(2),
        };
        let y = recall(&read, &format!("state.{layer}"), segments, states);
        let y = y.rms_norm(&self.w.get(&name("norm.weight"), &[value])?, self.c.eps);
        let y = &y.reshape(dims![t, inner]) * &z.silu();
        self.scaled_state(y.linear(&self.w.get(&name("out.weight"), &[hidden, inner])?), &name("out.scale"))
    }

    /// Values of heads `[T, heads, key]` over their length.
    fn direction(&self, x: &Tensor) -> Tensor {
        let square = (x * x).sum(2);
        x * &(square + self.c.eps).unary(UnOp::Rsqrt).unsqueeze(2)
    }

    /// `out(norm(y) * sigmoid(z))`, where queries, keys and values have a matrix and a convolution each, and what is left and
    /// `z` two matrices with few values between them, or one matrix each.
    pub(super) fn keyed_delta_rule(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::KeyedDeltaRule { heads, head, taps, bound }) = self.c.recurrence else { unreachable!() };
        let (t, hidden, inner) = (self.t, self.c.hidden, heads * head);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let product = |part: &str, x: &Tensor, rows: i64| -> Result<Tensor, ConfigError> {
            let columns = x.len(1);
            Ok(x.linear(&self.w.get(&name(&format!("{part}.weight")), &[rows, columns])?))
        };
        let mut convolved = |part: &str| -> Result<Tensor, ConfigError> {
            let weight = self.w.get(&name(&format!("ssm_conv1d_{part}.weight")), &[inner, 1, taps])?;
            let (state, mixed) = (format!("state.{layer}.conv_{part}"), product(&format!("attn_{part}"), x, inner)?);
            let mixed = self.convolution(&state, &mixed, &weight.reshape(dims![inner, taps]), segments, states);
            Ok(mixed.silu().reshape(dims![t, heads, head]))
        };
        let (q, k, v) = (convolved("q")?, convolved("k")?, convolved("v")?);
        let behind_few = |first: &str, second: &str| match self.w.has(&name(&format!("{second}.weight"))) {
            true => product(second, &product(first, x, head)?, inner),
            false => product(first, x, inner),
        };
        let pace = self.biased(behind_few("ssm_f_a", "ssm_f_b")?, &name("ssm_dt.bias"), inner)?;
        let pace = if bound.is_some() { pace } else { pace.softplus() };
        let rate = self.w.get(&name("ssm_a"), &[heads, 1])?;
        let read = Read {
            q: self.direction(&q) * (1.0 / (head as f32).sqrt()),
            k: self.direction(&k),
            v,
            beta: product("ssm_beta", x, heads)?.sigmoid(),
            left: {
                let log = &pace.reshape(dims![t, heads, head]) * &rate;
                bound.map_or(log.clone(), |bound| log.sigmoid() * bound).exp()
            },
        };
        let y = recall(&read, &format!("state.{layer}"), segments, states);
        let y = y.rms_norm(&self.w.get(&name("ssm_norm.weight"), &[head])?, self.c.eps);
        let y = &y.reshape(dims![t, inner]) * &behind_few("ssm_g_a", "ssm_g_b")?.sigmoid();
        product("attn_output", &y, hidden)
    }

    /// Queries, keys and values side by side, and the gate of what comes out.
    fn values_and_gate(&self, layer: i64, x: &Tensor) -> Result<(Tensor, Tensor), ConfigError> {
        let Some(Recurrence::DeltaRule { heads, key_heads, key, value, .. }) = self.c.recurrence else {
            unreachable!()
        };
        let hidden = self.c.hidden;
        let (inner, keys) = (heads * value, key_heads * key);
        let name = |part: &str, what: &str| format!("blk.{layer}.{part}.{what}");
        let product = |part: &str, rows: i64| -> Result<Tensor, ConfigError> {
            let w = self.w.get(&name(part, "weight"), &[rows, hidden])?;
            self.scaled_state(x.linear(&w), &name(part, "scale"))
        };
        if self.w.has(&name("attn_qkv", "weight")) {
            return Ok((product("attn_qkv", inner + 2 * keys)?, product("attn_gate", inner)?));
        }
        // One matrix, by heads of keys.
        let all = product("ssm_in", 2 * inner + 2 * keys)?;
        let values = inner / key_heads;
        let all = all.reshape(dims![self.t, key_heads, 2 * key + 2 * values]);
        let part = |at: i64, len: i64| all.slice(2, at, len).reshape(dims![self.t, key_heads * len]);
        let mixed = Tensor::concat(&[part(0, key), part(key, key), part(2 * key, values)], 1);
        Ok((mixed, part(2 * key + values, values)))
    }

    /// How much is learned and how much is forgotten, before their functions, `[T, heads]` each.
    fn learning_and_forgetting(&self, layer: i64, x: &Tensor) -> Result<(Tensor, Tensor), ConfigError> {
        let Some(Recurrence::DeltaRule { heads, key_heads, .. }) = self.c.recurrence else { unreachable!() };
        let (hidden, each) = (self.c.hidden, heads / key_heads);
        let name = |part: &str, what: &str| format!("blk.{layer}.ssm_{part}.{what}");
        if !self.family.gates_by_key {
            let product = |part: &str| -> Result<Tensor, ConfigError> {
                let w = self.w.get(&name(part, "weight"), &[heads, hidden])?;
                self.scaled_state(x.linear(&w), &name(part, "scale"))
            };
            return Ok((product("beta")?, product("alpha")?));
        }
        let both = x.linear(&self.w.get(&name("ba", "weight"), &[2 * heads, hidden])?);
        let both = both.reshape(dims![self.t, key_heads, 2, each]);
        let part = |i: i64| both.slice(2, i, 1).reshape(dims![self.t, heads]);
        Ok((part(0), part(1)))
    }
}

impl Step<'_> {
    /// Times the scale of a matrix around a state, in families that use it.
    fn scaled_state(&self, x: Tensor, name: &str) -> Result<Tensor, ConfigError> {
        if self.family.gates_by_key { Ok(x) } else { self.scaled(x, name) }
    }
}

/// What the queries find, `[T, heads, value]`.
fn recall(read: &Read, name: &str, segments: &Segments, states: &mut Vec<Tensor>) -> Tensor {
    let Read { q, k, v, beta, left } = read;
    let shape = [q.len(1), v.len(2), q.len(2)];
    segments.carried(
        (name, &shape),
        [q, k, v, beta, left],
        |state, [_, k, v, beta, left]| {
            let found = |k: &Tensor| (state * &k.unsqueeze(1)).sum(2);
            let found = if left.len(1) == 1 { &found(&k) * &left } else { found(&(&k * &left)) };
            let surprise = &(&v - &found) * &beta.unsqueeze(1);
            &(state * &left.unsqueeze(1)) + &(&surprise.unsqueeze(2) * &k.unsqueeze(1))
        },
        |[_, state], [q, ..]| (state * &q.unsqueeze(1)).sum(2),
        states,
    )
}

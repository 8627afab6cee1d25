//! The gated delta rule (arXiv 2412.06464).
//!
//! A head keeps a matrix S from keys to values. Token t leaves `exp(g)` of it, and what the rest does not know of the value
//! of its key it learns: `S' = exp(g) S + beta (v - exp(g) S k) k`, read by its query as `S' q`. Over several tokens, what each
//! learns depends on what those before it did (section 3.3 there, with the step as its only chunk):
//!
//! ```text
//! u[t] + sum over j < t of A[t, j] u[j] = beta[t] (v[t] - d[t] S k[t])    A[t, j] = beta[t] d[t, j] (k[t] . k[j])
//! y[t] = d[t] S q[t] + sum over j <= t of d[t, j] (q[t] . k[j]) u[j]
//! S'   = d[last] S   + sum over j of d[last, j] u[j] k[j]
//! ```
//!
//! where d[t, j] is what the tokens after j until t leave, and d[t] what all until t leave. The first line is solved by the
//! inverse of a triangular matrix, made of those of its halves ([`inverse`]): each of them has bounded values, where powers of A,
//! which would give the inverse too, have none.
//!
//! With a pace of forgetting for each value of a key (Kimi Linear, arXiv 2510.26692) d is a vector, and `d (k . k)` the sum over
//! values i of `d[i] k[i] k[i]`.

use super::Step;
use super::segments::{Segments, last_as_two};
use crate::config::{ConfigError, Recurrence};
use compiler::tensor::Runs;
use compiler::{Builder, Tensor, dims};
use ir::{BinOp, UnOp};

/// What a layer reads of a token.
struct Read {
    /// Queries and keys `[T, heads, key]`.
    q: Tensor,
    k: Tensor,
    /// Values `[T, heads, value]`.
    v: Tensor,
    /// How much is learned, `[T, heads]`.
    beta: Tensor,
    /// Logarithm of what is left, `[T, heads, 1]`, or of what is left of each value of a key, `[T, heads, key]`.
    log: Tensor,
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
            log: (&self.biased(alpha, &name("dt.bias"), heads)?.softplus() * &rate).unsqueeze(2),
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
            log: {
                let log = &pace.reshape(dims![t, heads, head]) * &rate;
                bound.map_or(log.clone(), |bound| log.sigmoid() * bound)
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
    let Read { q, k, v, beta, log } = read;
    let (t, heads, key, value) = (segments.t, q.len(1), q.len(2), v.len(2));
    if let Some(runs) = &segments.runs {
        let kept = segments.state(name, &[heads, value, key]);
        let (last, found) = recall_by_token(read, &segments.remembered_by_tokens(&kept), runs);
        states.push(segments.remember(&kept, &last));
        return found;
    }
    // How many values of a key are forgotten apart: with one, what is left is a factor of products of keys; with more, of the
    // keys themselves.
    let paces = log.len(2);
    let decays = segments.decays(&log.reshape(dims![t, heads * paces]));
    let by_pace = |x: &Tensor| last_as_two(x, [heads, paces]);
    let since = by_pace(&decays.since);
    let kept = segments.state(name, &[heads, value, key]);
    let along = |x: &Tensor| x.reshape(dims![t, heads, 1, key]);
    let before = segments.remembered_by_tokens(&kept);
    let found = |x: &Tensor| match paces {
        1 => &(&before * &along(x)).sum(3) * &since,
        _ => (&before * &along(&(x * &since))).sum(3),
    };
    let surprise = &(v - &found(k)) * &beta.unsqueeze(2);
    if segments.single {
        let left = &before * &since.unsqueeze(2);
        let next = &left + &(&surprise.unsqueeze(3) * &along(k));
        let next = segments.remember(&kept, &next);
        states.push(next.clone());
        return (&segments.rows(&next) * &along(q)).sum(3);
    }
    let between = segments.between(&decays);
    let products = |x: &Tensor| {
        let each = &x.unsqueeze(1) * &k.unsqueeze(0);
        match paces {
            1 => &each.sum(3) * &between,
            _ => (&each * &by_pace(&between)).sum(3),
        }
    };
    let learned = solve(&(&products(k) * &beta.unsqueeze(1)), &surprise, segments);
    let near = (&products(q).unsqueeze(3) * &learned.unsqueeze(0)).sum(1);
    let until_last = by_pace(&segments.until_last(&decays));
    let (mut weighted, mut keys) = (segments.by_segment(&learned), segments.by_segment(k));
    match paces {
        1 => weighted = &weighted * &until_last,
        _ => keys = &keys * &until_last,
    }
    let taken = (&weighted.unsqueeze(4) * &keys.unsqueeze(3)).sum(1);
    let left = &segments.remembered(&kept) * &segments.last(&since).unsqueeze(2);
    states.push(segments.remember(&kept, &(&left + &taken)));
    &near + &found(q)
}

/// The same by the first equation of all, token by token: what each sequence remembers after its last token
/// `[count, heads, value, key]`, and what the queries find.
fn recall_by_token(read: &Read, start: &Tensor, runs: &Runs) -> (Tensor, Tensor) {
    let Read { q, k, v, beta, log } = read;
    let inputs = [q, k, v, beta, &log.exp()];
    let [last, found] = runs.carry(
        start,
        inputs,
        |state, [_, k, v, beta, left]| {
            let (left, along) = (state * &left.unsqueeze(1), k.unsqueeze(1));
            let surprise = &(&v - &(&left * &along).sum(2)) * &beta.unsqueeze(1);
            &left + &(&surprise.unsqueeze(2) * &along)
        },
        |state, [q, ..]| (state * &q.unsqueeze(1)).sum(2),
    );
    (last, found)
}

/// u of `u[t] + sum over j < t of a[t, j] u[j] = x[t]`, for `a` `[T, T, heads]` and `x` `[T, heads, n]`.
pub(super) fn solve(a: &Tensor, x: &Tensor, segments: &Segments) -> Tensor {
    let b = &segments.b;
    let most = (segments.most_tokens as u64).next_power_of_two() as i64;
    let all = b.iota(most);
    // Rows and columns past the last token are those of the identity.
    let is_token = all.lt(&segments.tokens_of_step());
    let (row, column) = (all.unsqueeze(1), all.unsqueeze(0));
    let earlier = column.lt(&row).binary(BinOp::And, &is_token.unsqueeze(1)).binary(BinOp::And, &is_token.unsqueeze(0));
    let padded = a.gather(&all).permute(&[1, 0, 2]).gather(&all).permute(&[1, 0, 2]);
    let inverse = inverse(b, &earlier.unsqueeze(2).select(&padded, &b.float(0.0)));
    let rows = inverse.gather(&b.iota(segments.t));
    (&rows.unsqueeze(3) * &x.gather(&all).unsqueeze(0)).sum(1)
}

/// The inverse of `I + a` for each head, where `a` `[n, n, heads]` is zero but below its diagonal and n is a power of two.
/// Of halves, it is
///
/// ```text
/// [ P   ]^-1   [  P^-1              ]
/// [ R Q ]    = [ -Q^-1 R P^-1  Q^-1 ]
/// ```
///
/// and so on for P and Q. All blocks of a size are inverted together, the smallest first.
fn inverse(b: &Builder, a: &Tensor) -> Tensor {
    let (n, heads) = (a.len(0), a.len(2));
    let flat = a.reshape(dims![n * n, heads]);
    let int = |value: i64| b.int32(value);
    let times = |x: &Tensor, y: &Tensor| (&x.unsqueeze(3) * &y.unsqueeze(1)).sum(2);
    let mut blocks = b.float(1.0).reshape(dims![1, 1, 1, 1]).expand(dims![n, 1, 1, heads]);
    let mut size = 1;
    while size < n {
        let pairs = n / (2 * size);
        let halves = blocks.reshape(dims![pairs, 2, size, size, heads]);
        let half = |i: i64| halves.slice(1, i, 1).reshape(dims![pairs, size, size, heads]);
        let (p, q) = (half(0), half(1));
        let first = b.iota(pairs).binary(BinOp::Mul, &int(2 * size)).reshape(dims![pairs, 1, 1]);
        let row = first.binary(BinOp::Add, &int(size)).binary(BinOp::Add, &b.iota(size).reshape(dims![1, size, 1]));
        let column = first.binary(BinOp::Add, &b.iota(size).reshape(dims![1, 1, size]));
        let r = flat.gather(&row.binary(BinOp::Mul, &int(n)).binary(BinOp::Add, &column));
        let zero = b.float(0.0).reshape(dims![1, 1, 1, 1]).expand(&p.shape());
        let upper = Tensor::concat(&[p.clone(), zero], 2);
        let lower = Tensor::concat(&[-&times(&q, &times(&r, &p)), q], 2);
        blocks = Tensor::concat(&[upper, lower], 1);
        size *= 2;
    }
    blocks.reshape(dims![n, n, heads])
}

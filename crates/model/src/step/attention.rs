//! Attention: grouped and latent, token by token over the pages of a cache or by runs of a prompt.

use super::distance_bias::at_distance;
use super::index::Chosen;
use super::past::Past;
use super::segments::last_as_two;
use super::{Step, times};
use crate::cache::{BLOCK, Cache, CacheKind, PAGE};
use crate::config::{Attention, ConfigError, Mixer, Temperature};
use crate::family::{AttentionGate, HeadNorms, Scales, Sinks};
use crate::step::Part;
use crate::window::distance;
use compiler::tensor::SoftmaxParts;
use compiler::{Dim, Tensor, dims};
use ir::{BinOp, DType};
use std::collections::HashMap;

/// What layers have made that others behind them may read.
#[derive(Default)]
pub(super) struct Caches {
    /// Keys and values of layers that have some of their own.
    of_layers: HashMap<i64, [Cache; 2]>,
    /// The positions that the last index has chosen.
    chosen: Option<Chosen>,
}

/// What the scores of a layer go through before the softmax, and what beside it.
#[derive(Default)]
struct Scores {
    /// What each head loses for a position of distance, `[heads]`.
    slopes: Option<Tensor>,
    /// What it adds to the score of a position that lies so far behind or ahead, `[distances, heads]`.
    by_distance: Option<Tensor>,
    cap: Option<f32>,
    /// A score without a value for each head, `[heads]`.
    sinks: Option<Tensor>,
}

/// Heads of keys as tasks see them, and queries of each, where a task has at most so many queries that share keys.
fn tasks_of_heads(kv: i64, group: i64, most: i64) -> (i64, i64) {
    let together = (1..=group.min(most)).rev().find(|n| group % n == 0).unwrap_or(1);
    (kv * (group / together), together)
}

/// What so many heads read of `[_, kv, …]`, where those of a group read the same.
pub(super) fn repeated(rows: &Tensor, heads: i64) -> Tensor {
    let (kv, mut shape) = (rows.len(1), rows.shape());
    if kv == heads {
        return rows.clone();
    }
    shape.insert(2, (heads / kv).into());
    let each = rows.unsqueeze(2).expand(&shape);
    shape.remove(2);
    shape[1] = heads.into();
    each.reshape(&shape)
}

/// Parts of attention `[T, kv, splits, group, …]` for so many tasks `[T, tasks, splits, …]`, of which several read those of one
/// head.
fn of_tasks(parts: &SoftmaxParts, tasks: i64) -> SoftmaxParts {
    let of = |x: &Tensor| {
        let mut axes: Vec<usize> = (0..x.rank()).collect();
        axes.swap(2, 3);
        let x = x.permute(&axes);
        let mut shape = x.shape();
        shape.remove(2);
        shape[1] = (x.len(1) * x.len(2)).into();
        repeated(&x.reshape(&shape), tasks)
    };
    SoftmaxParts { max: of(&parts.max), sum: of(&parts.sum), acc: of(&parts.acc) }
}

impl Step<'_> {
    /// `x + attention(norm(x))`, or what a layer has in its place; `states` gets the next versions of what it keeps.
    pub(super) fn attention_of(
        &self,
        layer: i64,
        x: &Tensor,
        states: &mut Vec<Tensor>,
        caches: &mut Caches,
    ) -> Result<Tensor, ConfigError> {
        let mixer = self.c.mixers[layer as usize];
        if mixer == Mixer::None {
            return Ok(x.clone());
        }
        let _scope = self.b.scope(&Part::Attention.scope(layer));
        let norms = &self.family.norms;
        let as_it_is = layer == 0 && !self.family.first_norm && self.norm_there(layer, norms.attention).is_none();
        let h = self.norm_of(layer, x, if as_it_is { &[] } else { norms.attention })?;
        let mut attention = || match &self.c.attention {
            Attention::Latent { .. } => self.latent_attention(layer, &h, states, &mut caches.chosen),
            _ => self.grouped_attention(layer, &h, states, caches),
        };
        let a = match mixer {
            Mixer::Both => attention()? + &self.recurrence_of(layer, &h, states)?,
            Mixer::Recurrence => self.recurrence_of(layer, &h, states)?,
            Mixer::Matrix => {
                let w = self.w.get(&format!("blk.{layer}.attn_output.weight"), &[self.c.hidden, self.c.hidden])?;
                h.linear(&w)
            }
            Mixer::Attention | Mixer::None => attention()?,
        };
        let mut sum = self.with_half(x, &h, self.norm_after(layer, &a, norms.after_attention)?);
        sum = self.norm_of(layer, &sum, norms.attention_sum)?;
        if let Some(again) = self.norm_there(layer, norms.attention_sum_again) {
            sum = self.norm_of(layer, &(&sum + x), &[again])?;
        }
        self.with_low_rank(layer, sum, &h)
    }

    /// Queries, and keys and values, of each head; behind a query its gate, if the family has it there.
    fn projections(&self, layer: i64, x: &Tensor) -> Result<(Tensor, Option<[Tensor; 2]>), ConfigError> {
        let c = self.c;
        let Attention::Grouped { kv_heads, head, value } = c.attention_of(layer) else { unreachable!() };
        let name = |part: &str, what: &str| format!("blk.{layer}.attn_{part}.{what}");
        let scaled = |y: Tensor, part: &str| match self.family.scales >= Scales::Attention {
            true => self.scaled(y, &name(part, "scale")),
            false => Ok(y),
        };
        let query = if self.family.attention_gate == AttentionGate::Query { 2 * head } else { head };
        let parts = [("q", c.heads_of(layer), query), ("k", kv_heads, head), ("v", kv_heads, value)];
        let whole = match self.w.has(&name("qkv", "weight")) {
            true => {
                let rows = parts.iter().map(|(_, heads, len)| heads * len).sum();
                let w = self.w.get(&name("qkv", "weight"), &[rows, c.hidden])?;
                Some(self.biased(scaled(x.linear(&w), "qkv")?, &name("qkv", "bias"), rows)?)
            }
            false => None,
        };
        let mut start = 0;
        let mut part = |(part, heads, len): (&str, i64, i64)| -> Result<Tensor, ConfigError> {
            let rows = heads * len;
            let y = match &whole {
                Some(whole) => whole.slice(1, start, rows),
                None => {
                    let w = self.w.get(&name(part, "weight"), &[rows, c.hidden])?;
                    scaled(x.linear(&w), part)?
                }
            };
            start += rows;
            let y = self.biased(y, &name(part, "bias"), rows)?;
            let y = c.clamp.map_or(y.clone(), |most| y.clamp(most));
            Ok(y.reshape(&[self.t, Dim::Const(heads), Dim::Const(len)]))
        };
        let [q, k, v] = parts;
        let q = part(q)?;
        if !c.has_cache(layer) {
            return Ok((q, None));
        }
        let k = part(k)?;
        if !self.family.value_norm {
            let v = part(v)?;
            return Ok((q, Some([k, v])));
        }
        let of_keys = whole.is_none() && head == value && !self.w.has(&name("v", "weight"));
        let v = if of_keys { k.clone() } else { part(v)? };
        Ok((q, Some([k, &v * &v.rms_factor(c.eps)])))
    }

    /// The norm of queries or keys `[T, heads, len]`: over each head, with weights of one or of all, or over all heads.
    fn head_norm(&self, layer: i64, part: &str, x: &Tensor) -> Result<Tensor, ConfigError> {
        let (heads, len) = (x.len(1), x.len(2));
        let name = format!("blk.{layer}.attn_{part}_norm");
        let shape = self.w.shape(&(name.clone() + ".weight"));
        match shape.as_deref() {
            Some([n]) if *n == heads * len && heads > 1 => {
                let whole = x.reshape(&[self.t, Dim::Const(heads * len)]);
                Ok(self.norm(&whole, &name, &[heads * len])?.reshape(&x.shape()))
            }
            Some([_, _]) => self.norm(x, &name, &[heads, len]),
            _ => self.norm(x, &name, &[len]),
        }
    }

    /// Queries or keys, with their norm and rotated.
    fn placed(&self, layer: i64, part: &str, x: Tensor) -> Result<Tensor, ConfigError> {
        let normed = |x: &Tensor| self.head_norm(layer, part, x);
        let rotated = |x: &Tensor| match self.c.rotated[layer as usize] {
            true => {
                let windowed = self.c.window_of(layer).and(self.window_rotation.as_ref());
                windowed.unwrap_or(&self.rotation).of_front(x)
            }
            false => x.clone(),
        };
        let there = || self.w.has(&format!("blk.{layer}.attn_q_norm.weight"));
        match self.family.head_norms {
            HeadNorms::None => Ok(rotated(&x)),
            HeadNorms::MaybeBefore if !there() => Ok(rotated(&x)),
            HeadNorms::Before | HeadNorms::MaybeBefore => Ok(rotated(&normed(&x)?)),
            HeadNorms::After => normed(&rotated(&x)),
            HeadNorms::AfterByHead => {
                let y = rotated(&x);
                let y = &y * &y.rms_factor(self.c.eps);
                let weight = format!("blk.{layer}.attn_{part}_norm.weight");
                Ok(if part == "q" { &y * &self.w.get(&weight, &[x.len(1), 1])? } else { y })
            }
            HeadNorms::BareUnlessExperts(n) => {
                let experts = self.c.experts.as_ref().map_or(0, |e| e.count);
                let y = rotated(&x);
                let bare = self.c.rotated[layer as usize] && experts != n;
                Ok(if bare { &y * &y.rms_factor(self.c.eps) } else { y })
            }
        }
    }

    /// What the scores of a layer go through.
    fn scores_of(&self, layer: i64) -> Result<Scores, ConfigError> {
        let c = self.c;
        let (name, shape) = (format!("blk.{layer}.attn_sinks.weight"), [c.heads_of(layer)]);
        let sinks = match self.family.sinks {
            Sinks::None => None,
            Sinks::All => Some(self.w.get(&name, &shape)?),
            Sinks::Maybe => self.w.find(&name, &shape)?,
        };
        let slopes = (!c.slopes.is_empty()).then(|| {
            let bytes = c.slopes.iter().flat_map(|slope| slope.to_le_bytes()).collect();
            self.b.table("slopes", DType::F32, dims![c.heads], bytes)
        });
        Ok(Scores { slopes, by_distance: self.biases_by_distance(layer)?, cap: c.score_cap, sinks })
    }

    /// Growth of the queries of a layer with the position, `[T, 1, 1]`.
    fn temperature(&self, layer: i64) -> Option<Tensor> {
        let has = |growth: &Temperature| !(growth.unrotated && self.c.rotated[layer as usize]);
        let temperature = self.c.temperature.filter(has)?;
        let steps = (self.positions + temperature.from) / temperature.every + 1;
        let factor = |step: i64| (1.0 + temperature.scale * (step as f64 + 1.0).ln()) as f32;
        let bytes = (0..steps).flat_map(|step| factor(step).to_le_bytes()).collect();
        let table = self.b.table("temperature", DType::F32, dims![steps], bytes);
        let position = match temperature.from {
            0 => self.position.clone(),
            from => self.position.binary(BinOp::Add, &self.b.int32(from)),
        };
        let step = position.binary(BinOp::Div, &self.b.int32(temperature.every));
        Some(table.gather(&step).reshape(dims![self.t, 1, 1]))
    }

    fn grouped_attention(
        &self,
        layer: i64,
        x: &Tensor,
        states: &mut Vec<Tensor>,
        caches: &mut Caches,
    ) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let Attention::Grouped { kv_heads, head, value } = c.attention_of(layer) else { unreachable!() };
        let name = |part: &str| format!("blk.{layer}.attn_{part}");
        let (t, heads) = (self.t, c.heads_of(layer));
        let (q, own) = self.projections(layer, x)?;
        let gate = (q.len(2) > head).then(|| q.slice(2, head, head).reshape(dims![t, heads * head]));
        let q = if gate.is_some() { q.slice(2, 0, head) } else { q };
        let mut q = self.placed(layer, "q", q)?;
        if let Some(growth) = self.temperature(layer) {
            q = q * &growth;
        }
        if let Some([k, v]) = own {
            let k = self.placed(layer, "k", k)?;
            let keys = self.store(layer, ".k", &k.reshape(&[t, Dim::Const(kv_heads * head)]));
            let values = self.store(layer, ".v", &v.reshape(&[t, Dim::Const(kv_heads * value)]));
            states.extend(keys.states().chain(values.states()).cloned());
            caches.of_layers.insert(layer, [keys, values]);
        }
        let [keys, values] = &caches.of_layers[&c.keys_of[layer as usize]];
        let group = heads / kv_heads;
        let through = self.scores_of(layer)?;
        let w = self.w.get(&name("output.weight"), &[c.hidden, heads * value])?;
        let output = |out: Tensor| {
            let mut out = match &gate {
                Some(gate) => &out * &gate.sigmoid(),
                None => self.gated(layer, x, out)?,
            };
            if self.family.inner_norms {
                out = self.norm(&out, &name("sub_norm"), &[heads * value])?;
            }
            let y = self.scaled(out.linear(&w), &name("output.scale"))?;
            self.biased(times(y, c.value_scale), &name("output.bias"), c.hidden)
        };
        if let Some(runs) = &self.runs {
            let past = runs.past_of(self.c.window_of(layer).is_some());
            let (kv, group) = tasks_of_heads(kv_heads, group, self.heads_of_task.of_run);
            let q = runs.queries(&q.reshape(dims![t, kv, group, head]), c.scale, keys.kind() == CacheKind::F16);
            let k = repeated(&runs.pages_of(past, keys, kv_heads, 0, kv_heads * head), kv);
            let v = repeated(&runs.pages_of(past, values, kv_heads, 0, kv_heads * value), kv);
            let mut scores = runs.scores(&k, &q);
            if let Some(cap) = through.cap {
                scores = scores.soft_cap(cap);
            }
            if let Some(slopes) = &through.slopes {
                let slopes = slopes.reshape(dims![1, kv, group, 1, 1, 1]);
                scores = &scores - &(&slopes * &runs.distances(past));
            }
            if let Some(biases) = &through.by_distance {
                scores = &scores + &runs.by_distance(past, biases, [kv, group]);
            }
            let sinks = through.sinks.map(|sinks| sinks.reshape(dims![1, kv, group, 1]));
            return output(runs.attend(past, &scores, &v, sinks.as_ref()));
        }
        let past = self.past_of(layer);
        let tile = |cache: &Cache, len: i64| {
            // [T, splits, tiles, PAGE, kv, len] -> [T, kv, splits, tiles, PAGE, len]
            let rows = cache.tiles_of(&past.page);
            let s = [t, past.splits.into(), past.most_tiles, PAGE.into(), kv_heads.into(), len.into()];
            rows.reshape(&s).permute(&[0, 4, 1, 2, 3, 5])
        };
        let (kv, group) = tasks_of_heads(kv_heads, group, self.heads_of_task.of_group);
        let (k, v) = (repeated(&tile(keys, head), kv), repeated(&tile(values, value), kv));
        let one = Dim::Const(1);
        let q = (q * c.scale).reshape(&[t, kv.into(), one, one, group.into(), one, head.into()]);
        let scores = (&q * &k.unsqueeze(4)).sum(6);
        let out = self.attend(past, scores, kv, &through, |e| (&e.unsqueeze(6) * &v.unsqueeze(4)).sum(5));
        output(out.reshape(&[t, Dim::Const(heads * value)]))
    }

    /// What attention gives, `[T, heads * len]`, times the gate of what it read.
    fn gated(&self, layer: i64, x: &Tensor, out: Tensor) -> Result<Tensor, ConfigError> {
        let (heads, all) = (self.c.heads_of(layer), out.len(1));
        let name = format!("blk.{layer}.attn_gate.weight");
        let gate = |n: i64| Ok::<_, ConfigError>(x.linear(&self.w.get(&name, &[n, self.c.hidden])?));
        let by_head = |gate: Tensor| {
            let by_head = out.reshape(dims![self.t, heads, all / heads]);
            (&by_head * &gate.unsqueeze(2)).reshape(&out.shape())
        };
        let has_row_for_each_head = || self.w.shape(&name).is_some_and(|shape| shape.first() == Some(&heads));
        Ok(match self.family.attention_gate {
            AttentionGate::None | AttentionGate::Query => out,
            AttentionGate::Each => &out * &gate(all)?.sigmoid(),
            AttentionGate::Head => by_head(gate(heads)?.sigmoid()),
            AttentionGate::Softplus if has_row_for_each_head() => by_head(gate(heads)?.softplus()),
            AttentionGate::Softplus => &out * &gate(all)?.softplus(),
        })
    }

    fn latent_attention(
        &self,
        layer: i64,
        x: &Tensor,
        states: &mut Vec<Tensor>,
        before: &mut Option<Chosen>,
    ) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let Attention::Latent { q_rank, kv_rank, nope, rope, value } = c.attention else { unreachable!() };
        let name = |part: &str| format!("blk.{layer}.attn_{part}.weight");
        let (t, heads, one) = (self.t, c.heads, Dim::Const(1));
        let (a, q_b) = match q_rank {
            Some(r) => {
                let a = x.linear(&self.w.get(&name("q_a"), &[r, c.hidden])?);
                let a = a.rms_norm(&self.w.get(&name("q_a_norm"), &[r])?, c.eps);
                (a, self.w.get(&name("q_b"), &[heads * (nope + rope), r])?)
            }
            None => (x.clone(), self.w.get(&name("q"), &[heads * (nope + rope), c.hidden])?),
        };
        let whole = a.linear(&q_b).reshape(&[t, heads.into(), (nope + rope).into()]);
        // What is rotated holds a head together; the rest need not.
        let rank = a.len(1);
        let q_b = q_b.reshape(dims![heads, nope + rope, rank]);
        let part = |what: &str, start: i64, len: i64| {
            let apart = a.unsqueeze(1).linear(&q_b.slice(1, start, len));
            let name = format!("blk.{layer}.{what}");
            Tensor::choice(&name, &[("heads", whole.slice(2, start, len)), ("apart", apart)])
        };
        let rotated = |x: &Tensor| if c.rotated[layer as usize] { self.rotation.of(x) } else { x.clone() };
        let (mut q, mut q_pe) = (part("q", 0, nope), rotated(&part("q_pe", nope, rope)));
        if let Some(growth) = self.temperature(layer) {
            (q, q_pe) = (q * &growth, q_pe * &growth);
        }
        let kv = x.linear(&self.w.get(&name("kv_a_mqa"), &[kv_rank + rope, c.hidden])?);
        let latent = kv.slice(1, 0, kv_rank).rms_norm(&self.w.get(&name("kv_a_norm"), &[kv_rank])?, c.eps);
        let k_pe = rotated(&kv.slice(1, kv_rank, rope));
        let cache = self.store(layer, "", &Tensor::concat(&[latent, k_pe], 1));
        // Keys and values share the latent: k_b moves to the query, v_b to the result.
        let (k_b, v_b) = if self.w.has(&name("k_b")) {
            (self.w.get(&name("k_b"), &[heads, kv_rank, nope])?, self.w.get(&name("v_b"), &[heads, value, kv_rank])?)
        } else {
            let both = self.w.get(&name("kv_b"), &[heads * (nope + value), kv_rank])?;
            let both = both.reshape(dims![heads, nope + value, kv_rank]);
            (both.slice(1, 0, nope).permute(&[0, 2, 1]), both.slice(1, nope, value))
        };
        let w = self.w.get(&name("output"), &[c.hidden, heads * value])?;
        let output = |out: Tensor| {
            let y = self.gated(layer, x, out)?.linear(&w);
            match self.family.scales {
                Scales::None => Ok(y),
                _ => self.scaled(y, &format!("blk.{layer}.attn_output.scale")),
            }
        };
        let chosen = self.chosen(layer, (x, &a), states, before)?;
        if let Some(runs) = &self.runs {
            // Each head has keys and values of its own.
            let latent = runs.latents(&cache, kv_rank);
            let halves = self.cache.halves();
            let of_heads = |x: Tensor, n: i64| {
                let positions = x.shape()[0];
                x.cast(halves).reshape(&[positions, heads.into(), n.into()])
            };
            let k = of_heads(latent.unsqueeze(1).linear(&k_b.permute(&[0, 2, 1])), nope);
            let v = of_heads(latent.linear(&v_b.reshape(dims![heads * value, kv_rank])), value);
            let per_head =
                |q: &Tensor, n: i64| runs.queries(&q.reshape(dims![t, heads, 1, n]), c.scale, halves == DType::F16);
            let k_pe = runs.beside_latents(&cache, kv_rank, rope);
            let mut scores = &runs.scores(&runs.slots_of(&k, heads, nope), &per_head(&q, nope))
                + &runs.scores(&k_pe, &per_head(&q_pe, rope));
            if let Some(Chosen::OfRuns(chosen)) = &chosen {
                scores = chosen.select(&scores, &self.b.float(f32::MIN));
            }
            states.extend(cache.states().cloned());
            return output(runs.attend(runs.past_of(false), &scores, &runs.slots_of(&v, heads, value), None));
        }
        let q_latent = q.linear(&k_b);
        let (past, rows) = match &chosen {
            Some(Chosen::Rows(past)) => (&**past, cache.rows_at(&past.page)),
            _ => (&self.past, cache.tiles_of(&self.past.page)),
        };
        states.extend(cache.states().cloned());
        let rows = rows.reshape(&[t, one, past.splits.into(), past.most_tiles, PAGE.into(), (kv_rank + rope).into()]);
        let (kv, group) = tasks_of_heads(1, heads, self.heads_of_task.of_latent);
        let rows = repeated(&rows, kv);
        let (latent, k_pe) = (rows.slice(5, 0, kv_rank), rows.slice(5, kv_rank, rope));
        let lift = |q: &Tensor, len: i64| q.reshape(&[t, kv.into(), one, one, group.into(), one, len.into()]);
        let scores = &(&lift(&q_latent, kv_rank) * &latent.unsqueeze(4)).sum(6)
            + &(&lift(&q_pe, rope) * &k_pe.unsqueeze(4)).sum(6);
        let weigh = |e: &Tensor| (&e.unsqueeze(6) * &latent.unsqueeze(4)).sum(5);
        let parts = self.parts(past, scores * c.scale, kv, &Scores::default(), weigh);
        let mixed = self.merged(past, &parts).finish().reshape(&[t, heads.into(), kv_rank.into()]);
        let out = mixed.linear(&v_b).reshape(&[t, Dim::Const(heads * value)]);
        let out = match value % BLOCK {
            0 => {
                // A task need not have a whole head to quantise blocks of it.
                let blocks = heads * value / BLOCK;
                let of_blocks =
                    |mixed: Tensor| mixed.linear(&v_b.reshape(dims![blocks, BLOCK, kv_rank])).reshape(&out.shape());
                let mut ways = vec![("heads", out.clone()), ("apart", of_blocks(repeated(&mixed, blocks)))];
                if self.few_splits {
                    // Nor need another kernel merge the parts for it.
                    ways.push(("merged", of_blocks(self.merged(past, &of_tasks(&parts, blocks)).finish())));
                }
                Tensor::choice(&format!("blk.{layer}.v_b"), &ways)
            }
            _ => out,
        };
        output(out)
    }

    /// What a layer reads of the cache.
    fn past_of(&self, layer: i64) -> &Past {
        self.c.window_of(layer).and(self.window_past.as_ref()).unwrap_or(&self.past)
    }

    /// Softmax over the cache from scores `[T, kv, splits, tiles, group, PAGE]`.
    /// What is not visible weighs zero; as zero times NaN is NaN, rows that are
    /// not finite reach every token that reads their page. So a page is cleared
    /// before a sequence gets it ([`Batch::begun`](crate::batch::Batch::begun)).
    fn attend(
        &self,
        past: &Past,
        scores: Tensor,
        kv: i64,
        through: &Scores,
        weigh: impl FnOnce(&Tensor) -> Tensor,
    ) -> Tensor {
        let group = scores.len(4);
        let mut parts = self.merged(past, &self.parts(past, scores, kv, through, weigh));
        if let Some(sinks) = &through.sinks {
            let shape = if past.splits > 1 { dims![1, kv, group] } else { dims![1, kv, 1, group] };
            parts = parts.beside(&sinks.reshape(shape));
        }
        parts.finish()
    }

    /// Parts of that, one of each split: `[T, kv, splits, group, …]`.
    fn parts(
        &self,
        past: &Past,
        scores: Tensor,
        kv: i64,
        through: &Scores,
        weigh: impl FnOnce(&Tensor) -> Tensor,
    ) -> SoftmaxParts {
        let (t, one, group, splits) = (self.t, Dim::Const(1), scores.len(4), Dim::Const(past.splits));
        let mut scores = scores;
        let by_position = [t, one, splits, past.most_tiles, one, PAGE.into()];
        if let Some(cap) = through.cap {
            scores = scores.soft_cap(cap);
        }
        if let Some(slopes) = &through.slopes {
            let position = self.position.reshape(dims![t, 1, 1, 1]);
            let distance = distance(&position, &past.at, !self.c.causal).reshape(&by_position);
            scores = &scores - &(&slopes.reshape(dims![1, kv, 1, 1, group, 1]) * &distance);
        }
        if let Some(biases) = &through.by_distance {
            let biases = at_distance(biases, &self.position.reshape(dims![t, 1, 1, 1]), &past.at);
            let biases = last_as_two(&biases, [kv, group]).permute(&[0, 4, 1, 2, 5, 3]);
            scores = &scores + &biases;
        }
        let scores = past.visible.reshape(&by_position).select(&scores, &self.b.float(past.unseen));
        let tiles = past.tiles.reshape(&[t, one, splits]).expand(&[t, kv.into(), splits]);
        SoftmaxParts::of_tile(&scores, weigh).fold(3, &tiles)
    }

    /// The parts of all splits put together, where there are several: `[T, tasks, splits, …]` to `[T, tasks, …]`.
    fn merged(&self, past: &Past, parts: &SoftmaxParts) -> SoftmaxParts {
        match past.splits {
            1 => parts.clone(),
            _ => parts.fold(2, &past.used.expand(&[self.t, parts.max.len(1).into()])),
        }
    }
}

//! The heads of attention: how many, how long, and how much of one is rotated.

use super::keys::{Keys, out_of_range};
use super::{Attention, ConfigError, MOST_HEAD, MOST_HEADS, MOST_WIDTH, Mixer, Rope, rope};
use crate::family::{AttentionGate, Family, Pairs, ScoreScale};
use gguf::Error as GgufError;

/// How attention is computed, the factor of its scores, and its rotation; of layers with a window, their own heads and how many
/// values of one are rotated, if the file may say so.
pub(super) type Heads = (Attention, f32, Rope, Option<(Attention, i64)>);

pub(super) fn latent(k: &Keys<'_>, family: &Family, width: i64) -> Result<Heads, ConfigError> {
    let rope = k.positive("rope.dimension_count", MOST_HEAD)?;
    let kv_rank = k.positive("attention.kv_lora_rank", MOST_WIDTH)?;
    let own = |name: &str| k.within(name, 1, MOST_HEAD);
    let (key, value) = match (own("attention.key_length_mla")?, own("attention.value_length_mla")?) {
        (Some(a), Some(b)) => (a, b),
        _ => (k.positive("attention.key_length", MOST_HEAD)?, own("attention.value_length")?.unwrap_or(width)),
    };
    if rope >= key || rope % 2 != 0 {
        return Err(out_of_range(
            &k.key("rope.dimension_count"),
            rope,
            &format!("even, and less than the key length of {key}"),
        ));
    }
    let q_rank = k.within("attention.q_lora_rank", 0, MOST_WIDTH)?.filter(|&r| r > 0);
    let (rotation, factor) = rope::of_latents(k, family, rope, pairs(k, family)?)?;
    // YaRN scales the scores by mscale squared (transformers, modeling_deepseek_v2).
    let log_mul = k.float("rope.scaling.yarn_log_multiplier", 0.0, 100.0)?.unwrap_or(0.0) / 0.1;
    let mscale = if factor > 1.0 { 1.0 + 0.1 * log_mul * factor.ln() } else { 1.0 };
    let scale = (mscale * mscale / (key as f64).sqrt()) as f32;
    let attention = Attention::Latent { q_rank, kv_rank, nope: key - rope, rope, value };
    Ok((attention, scale, rotation, None))
}

/// Of an array with a count for each layer, that of the layers with attention and without a window, and that of those
/// with both, as far as there are such layers and such a key.
fn of_kinds(k: &Keys<'_>, key: &str, mixers: &[Mixer], with_window: &[bool]) -> Result<[Option<i64>; 2], ConfigError> {
    let Some(counts) = k.counts(key)? else { return Ok([None; 2]) };
    let of = |windowed: bool| {
        let kinds = mixers.iter().zip(with_window).map(|(mixer, &window)| mixer.attends() && window == windowed);
        let mut of_kind = kinds.zip(&counts).filter(|(is, _)| *is).map(|(_, &count)| count);
        let first = of_kind.next();
        match of_kind.all(|count| Some(count) == first) {
            true => Ok(first),
            false => Err(k.differing(key)),
        }
    };
    Ok([of(false)?, of(true)?])
}

/// Query heads of layers without a window, and of those with one.
pub(super) fn query_heads(
    k: &Keys<'_>,
    mixers: &[Mixer],
    with_window: &[bool],
) -> Result<[Option<i64>; 2], ConfigError> {
    let key = "attention.head_count";
    let heads = of_kinds(k, key, mixers, with_window)?;
    if heads == [None; 2] {
        return Err(GgufError::MissingKey { key: k.key(key) }.into());
    }
    match heads.iter().flatten().find(|heads| !(1..=MOST_HEADS).contains(*heads)) {
        Some(heads) => Err(out_of_range(&k.key(key), heads, &format!("expected 1 to {MOST_HEADS}"))),
        None => Ok(heads),
    }
}

/// For each layer its heads of keys, in a family in which they may differ.
pub(super) fn of_layers(k: &Keys<'_>, family: &Family, layers: i64) -> Result<Vec<i64>, ConfigError> {
    let counts = if family.layers_differ { k.counts("attention.head_count_kv")? } else { None };
    Ok(counts.map_or(vec![], |counts| counts[..layers as usize].to_vec()))
}

pub(super) fn grouped(
    k: &Keys<'_>,
    family: &Family,
    hidden: i64,
    heads_of_kinds: [Option<i64>; 2],
    mixers: &[Mixer],
    with_window: &[bool],
) -> Result<Heads, ConfigError> {
    let key = "attention.head_count_kv";
    let of_layers = of_layers(k, family, mixers.len() as i64)?;
    let mut kv_heads = match of_layers.iter().max() {
        Some(&most) => [Some(most), None],
        None => of_kinds(k, key, mixers, with_window)?,
    };
    let odd = |(kv_heads, mixer): &(&i64, &Mixer)| mixer.attends() && heads_of_kinds[0].unwrap_or(1) % **kv_heads != 0;
    if let Some((kv_heads, _)) = of_layers.iter().zip(mixers).find(odd) {
        return Err(out_of_range(&k.key(key), kv_heads, "a divisor of the query heads"));
    }
    for (kv_heads, heads) in kv_heads.iter_mut().zip(heads_of_kinds) {
        *kv_heads = kv_heads.or(heads);
        if let (Some(kv_heads), Some(heads)) = (*kv_heads, heads)
            && (kv_heads < 1 || heads % kv_heads != 0)
        {
            return Err(out_of_range(&k.key(key), kv_heads, "a divisor of the query heads"));
        }
    }
    let [of_others, of_windows] = kv_heads;
    let heads = heads_of_kinds[0].or(heads_of_kinds[1]).unwrap_or(1);
    // Heads, and how many of their values are rotated, by keys of these layers, which may be those of all.
    let kind = |suffix: &str, kv_heads: i64, all: [Option<i64>; 3]| -> Result<(Attention, i64), ConfigError> {
        let [key, value, dims] = ["attention.key_length", "attention.value_length", "rope.dimension_count"]
            .map(|name| format!("{name}{suffix}"));
        let head = k.int(&key)?.or(all[0]).unwrap_or(hidden / heads);
        if !(2..=MOST_HEAD).contains(&head) {
            let why = format!("a head of 2 to {MOST_HEAD} values");
            return Err(out_of_range(&k.key(&key), head, &why));
        }
        let length = k.within(&value, 1, MOST_HEAD)?.or(all[1]).unwrap_or(head);
        if family.attention_gate == AttentionGate::Query && length != head {
            let why = format!("that of queries, {head}, which their gates have");
            return Err(out_of_range(&k.key(&value), length, &why));
        }
        let rotated = k.int(&dims)?.or(all[2]).unwrap_or(head);
        if rotated < 2 || rotated > head || rotated % 2 != 0 {
            return Err(out_of_range(&k.key(&dims), rotated, "even, at most the head length"));
        }
        Ok((Attention::Grouped { kv_heads, head, value: length }, rotated))
    };
    let (attention, mut dims) = kind("", of_others.or(of_windows).unwrap_or(heads), [None; 3])?;
    let Attention::Grouped { head, value, .. } = attention else { unreachable!() };
    let of_all = [Some(head), Some(value), Some(dims)];
    let in_windows = of_windows.map(|kv_heads| kind("_swa", kv_heads, of_all)).transpose()?;
    if family.halves_rotation {
        dims /= 2;
        if dims % 2 != 0 {
            let why = "a multiple of four, as some layers rotate half of it";
            return Err(out_of_range(&k.key("rope.dimension_count"), 2 * dims, why));
        }
    }
    let rope = rope::rotation(k, family, dims, pairs(k, family)?)?;
    let over_root = |n: i64| 1.0 / (n as f64).sqrt();
    let of_file = || k.float_or_none("attention.scale", 1e-6, 1e3);
    let scale = match family.score_scale {
        ScoreScale::ImpliedAtLayers(n) => {
            of_file()?;
            over_root(if mixers.len() as i64 == n { hidden / heads } else { head })
        }
        ScoreScale::RootOfHead => of_file()?.unwrap_or(over_root(head)),
        ScoreScale::Head => of_file()?.unwrap_or(1.0 / head as f64),
        ScoreScale::OutputKeyOr(scale) => k.float_or_none("attention.output_scale", 1e-6, 1e3)?.unwrap_or(scale),
        ScoreScale::One => of_file()?.unwrap_or(1.0),
    };
    Ok((attention, scale as f32, rope, in_windows))
}

/// Which values of a head are rotated together.
fn pairs(k: &Keys<'_>, family: &Family) -> Result<Pairs, ConfigError> {
    let Some(pairs) = family.pairs_with_sections else { return Ok(family.pairs) };
    let key = k.key("rope.dimension_sections");
    let sections = k.file.metadata().find::<Vec<i64>>(&key)?.unwrap_or_default();
    Ok(if sections.len() > 1 && sections[..2].iter().all(|&v| v > 0) { pairs } else { family.pairs })
}

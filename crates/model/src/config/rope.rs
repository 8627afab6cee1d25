//! The angles of rotations.

use super::keys::{Keys, out_of_range};
use super::{ConfigError, LongRope, Rope};
use crate::family::{Family, Pairs, WindowRotation};
use gguf::Gguf;

/// Radians a position of each pair, and what they were made with.
struct Table {
    theta: Vec<f64>,
    /// How many times longer contexts became.
    factor: f64,
    /// Whether that is by YaRN.
    yarn: bool,
}

/// The rotation of layers that see everything.
pub(super) fn rotation(k: &Keys<'_>, family: &Family, dims: i64, pairs: Pairs) -> Result<Rope, ConfigError> {
    let kind = k.file.metadata().find::<&str>(&k.key(SCALING))?;
    let has_factors = FACTORS.iter().any(|name| k.file.tensor(name).is_some());
    let with_factors = has_factors && (kind == Some(LONG) || family.long_factors);
    let Table { mut theta, factor, yarn } = table(k, dims, base(k)?, with_factors)?;
    // A file has divisors for all pairs of a head; where half of them are rotated, the first count.
    let stored = if family.halves_rotation { dims } else { dims / 2 };
    for (theta, divisor) in theta.iter_mut().zip(divisors(k.file, "rope_freqs.weight", stored)?) {
        *theta /= divisor;
    }
    let long = if with_factors { Some(long(k, &mut theta, dims)?) } else { None };
    let mut amplitude = k.float("rope.scaling.attn_factor", 1e-3, 1e3)?.unwrap_or(1.0);
    if yarn && factor > 1.0 {
        let by = |times: f64| 1.0 + 0.1 * times * factor.ln();
        let all = k.float_or_none("rope.scaling.yarn_log_multiplier", 1e-6, 100.0)?;
        amplitude *= by(1.0) / all.map_or(1.0, by);
    }
    Ok(Rope { dims, theta, amplitude, halves: pairs == Pairs::Halves, long })
}

/// The rotation of keys of latents, and how many times longer contexts became where scores are scaled for that. Files have no
/// divisors of it but those for short and long contexts.
pub(super) fn of_latents(k: &Keys<'_>, family: &Family, dims: i64, pairs: Pairs) -> Result<(Rope, f64), ConfigError> {
    if family.long_factors {
        return Ok((rotation(k, family, dims, pairs)?, 1.0));
    }
    let Table { theta, factor, .. } = table(k, dims, base(k)?, false)?;
    Ok((Rope { dims, theta, amplitude: 1.0, halves: pairs == Pairs::Halves, long: None }, factor))
}

/// The rotation of layers with a window, of so many values of a head, where it is another.
pub(super) fn of_windows(
    k: &Keys<'_>,
    kind: WindowRotation,
    rope: &Rope,
    dims: i64,
) -> Result<Option<Rope>, ConfigError> {
    let of_file = || k.float_or_none("rope.freq_base_swa", LEAST_BASE, MOST_BASE);
    let plain = |base: f64| Rope { dims, theta: plain(base, dims), amplitude: 1.0, long: None, ..rope.clone() };
    let base = base(k)?;
    Ok(match kind {
        WindowRotation::Unscaled => Some(plain(base)),
        WindowRotation::UnscaledOrBase => Some(plain(of_file()?.unwrap_or(base))),
        WindowRotation::Base => Some(plain(of_file()?.unwrap_or(BASE))),
        WindowRotation::Same | WindowRotation::SameOrBase => {
            let own = if kind == WindowRotation::Same { None } else { of_file()? }.unwrap_or(base);
            if own == base && dims == rope.dims {
                return Ok(None);
            }
            let long = rope.long.clone().filter(|_| dims == rope.dims);
            Some(Rope { dims, theta: table(k, dims, own, false)?.theta, long, ..rope.clone() })
        }
    })
}

/// Divisors for short contexts, which are applied, and those for long ones (LongRoPE, arXiv 2402.13753).
fn long(k: &Keys<'_>, theta: &mut [f64], dims: i64) -> Result<LongRope, ConfigError> {
    let [short, long] = FACTORS.map(|name| divisors(k.file, name, dims / 2));
    let (short, long) = (short?, long?);
    let divided = |by: &[f64]| theta.iter().zip(by).map(|(theta, by)| theta / by).collect::<Vec<f64>>();
    let of_long = if long.is_empty() { theta.to_vec() } else { divided(&long) };
    if !short.is_empty() {
        let short = divided(&short);
        theta.copy_from_slice(&short);
    }
    let most = i64::from(i32::MAX);
    let original = k.within("rope.scaling.original_context_length", 1, most)?;
    let beyond = original.or(k.within("context_length", 1, most)?).unwrap_or(4096);
    Ok(LongRope { theta: of_long, beyond })
}

/// What a tensor divides the angle of each pair by; nothing if the file has no such tensor.
fn divisors(file: &Gguf, name: &str, pairs: i64) -> Result<Vec<f64>, ConfigError> {
    let Some(t) = file.tensor(name) else { return Ok(vec![]) };
    if t.ty != gguf::GgmlType::F32 {
        return Err(ConfigError::Type { name: name.into(), ty: t.ty.name().into() });
    }
    if t.dims != [pairs as u64, 1, 1, 1] {
        let (found, expected) = (t.shape().to_vec(), vec![pairs as u64]);
        return Err(ConfigError::Shape { name: name.into(), found, expected });
    }
    let values = file.data(t).chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
    let all: Vec<f64> = values.collect();
    // Of the largest, pairs do not turn at all.
    match all.iter().find(|v| !(1e-6..=1e38).contains(&v.abs())) {
        Some(v) => Err(out_of_range(&format!("a value of {name}"), v, "expected a divisor from 1e-6 to 1e38")),
        None => Ok(all),
    }
}

/// The key of the kind of scaling.
const SCALING: &str = "rope.scaling.type";

/// The kind whose divisors are tensors.
const LONG: &str = "longrope";

/// These tensors, for short and for long contexts.
const FACTORS: [&str; 2] = ["rope_factors_short.weight", "rope_factors_long.weight"];

/// The base of files that do not say it.
const BASE: f64 = 10000.0;

/// Of 1, all pairs would turn alike, and the bounds of YaRN have no logarithm.
const LEAST_BASE: f64 = 1.0 + f32::EPSILON as f64;

const MOST_BASE: f64 = 1e15;

fn plain(base: f64, dims: i64) -> Vec<f64> {
    (0..dims / 2).map(|i| base.powf(-2.0 * i as f64 / dims as f64)).collect()
}

fn base(k: &Keys<'_>) -> Result<f64, ConfigError> {
    Ok(k.float("rope.freq_base", LEAST_BASE, MOST_BASE)?.unwrap_or(BASE))
}

/// Radians a position of each pair, with the linear or YaRN scaling of the file (arXiv 2309.00071); with factors that are tensors,
/// nothing else scales.
fn table(k: &Keys<'_>, dims: i64, base: f64, with_factors: bool) -> Result<Table, ConfigError> {
    let kind = k.file.metadata().find::<&str>(&k.key(SCALING))?.unwrap_or("linear").to_string();
    let factor = match k.float_or_none("rope.scaling.factor", 1e-3, 1e6)? {
        None => k.float_or_none("rope.scale_linear", 1e-3, 1e6)?.unwrap_or(1.0),
        Some(factor) => factor,
    };
    let n = dims as f64;
    let plain = plain(base, dims);
    let unscaled = |theta| Table { theta, factor: 1.0, yarn: false };
    let theta = match kind.as_str() {
        "none" => return Ok(unscaled(plain)),
        LONG if with_factors => return Ok(unscaled(plain)),
        "linear" => plain.iter().map(|t| t / factor).collect(),
        "yarn" if factor > 1.0 => {
            let original =
                k.within("rope.scaling.original_context_length", 1, i64::from(i32::MAX))?.unwrap_or(4096) as f64;
            let fast = k.float("rope.scaling.yarn_beta_fast", 1e-3, 1e6)?.unwrap_or(32.0);
            let slow = k.float("rope.scaling.yarn_beta_slow", 1e-3, 1e6)?.unwrap_or(1.0);
            let at = |turns: f64| n * (original / (2.0 * std::f64::consts::PI * turns)).ln() / (2.0 * base.ln());
            let low = at(fast).floor().clamp(0.0, n - 1.0);
            let high = at(slow).ceil().clamp(0.0, n - 1.0);
            let blend = |i: f64| 1.0 - ((i - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            plain.iter().enumerate().map(|(i, t)| t * (blend(i as f64) + (1.0 - blend(i as f64)) / factor)).collect()
        }
        "yarn" => plain,
        other => {
            let why = "none, linear, yarn, or longrope with its factors";
            return Err(out_of_range(&k.key(SCALING), other, why));
        }
    };
    Ok(Table { theta, factor, yarn: kind == "yarn" })
}

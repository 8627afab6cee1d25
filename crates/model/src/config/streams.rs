//! Several residual streams, and gates of which few are left.

use super::ConfigError;
use super::keys::{Keys, out_of_range};
use crate::family::Family;
use gguf::Error as GgufError;
use serde::{Deserialize, Serialize};

/// Streams at most.
const MOST_STREAMS: i64 = 64;

/// Standard deviations at most by which a gate must be above the mean.
const MOST_DEVIATIONS: f64 = 100.0;

/// Residual streams of which a layer works on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// How many there are.
    pub count: i64,
    /// The one that layers work on.
    pub active: i64,
}

/// Those of a file.
pub(super) fn streams(k: &Keys<'_>, family: &Family) -> Result<Option<Streams>, ConfigError> {
    if !family.streams {
        return Ok(None);
    }
    let key = "altup.num_inputs";
    let count = k.positive(key, MOST_STREAMS)?;
    if count < 2 {
        return Err(out_of_range(&k.key(key), count, "expected two and more"));
    }
    let active = k.within("altup.active_idx", 0, count - 1)?.unwrap_or(0);
    Ok(Some(Streams { count, active }))
}

/// For each layer by how many standard deviations a gate must be above the mean for anything of it to be left. Where all are
/// left, files have minus infinity.
pub(super) fn sparsity(k: &Keys<'_>, family: &Family, layers: i64) -> Result<Vec<Option<f32>>, ConfigError> {
    if !family.sparse_gates {
        return Ok(vec![]);
    }
    let name = "activation_sparsity_scale";
    let all = k.floats(name)?.ok_or_else(|| GgufError::MissingKey { key: k.key(name) })?;
    let deviations = |&scale: &f64| match scale {
        f64::NEG_INFINITY => Ok(None),
        v if v.abs() <= MOST_DEVIATIONS => Ok(Some(v as f32)),
        v => Err(out_of_range(&k.key(name), v, &format!("expected {MOST_DEVIATIONS} standard deviations at most"))),
    };
    all.iter().take(layers as usize).map(deviations).collect()
}

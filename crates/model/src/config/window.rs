//! Layers that see a stretch of the past.

use super::keys::{Keys, out_of_range};
use super::{Attention, ConfigError, MOST_BLOCKS, Rope};
use crate::family::Windows;
use serde::{Deserialize, Serialize};

/// Layers that see a stretch of the past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Positions that a token sees, its own included.
    pub width: i64,
    /// Positions behind its own that it sees at most, where it sees what follows.
    pub ahead: i64,
    /// Whether it sees those of its chunk of so many positions, instead of the last so many.
    pub chunks: bool,
    /// For each layer whether it has the window.
    pub layers: Vec<bool>,
    /// Their query heads, if they have another number than the other layers.
    pub heads: Option<i64>,
    /// Their heads of keys, if they are others than those of the other layers.
    pub attention: Option<Attention>,
    /// Their rotation, if it is another than that of the other layers.
    pub rope: Option<Rope>,
}

/// Positions that layers with a window see, and for each layer whether it has one, if any has.
pub(super) fn stretches(
    k: &Keys<'_>,
    windows: Option<Windows>,
    layers: i64,
) -> Result<Option<(i64, Vec<bool>)>, ConfigError> {
    let Some(windows) = windows.filter(|w| w.layers.is_empty() || w.layers.contains(&layers)) else {
        return Ok(None);
    };
    let of_file = k.within("attention.sliding_window", 0, i64::from(i32::MAX))?;
    let width = match windows.chunk {
        Some(chunk) if of_file != Some(0) => chunk,
        _ => of_file.or(windows.width).unwrap_or(0),
    };
    if width == 0 {
        return Ok(None);
    }
    let pattern = "attention.sliding_window_pattern";
    let of_layers = match k.flags(pattern)? {
        Some(flags) => flags[..layers as usize].to_vec(),
        None => {
            let every = match k.within(pattern, 0, MOST_BLOCKS)? {
                Some(every) => every,
                None => windows.every,
            };
            let sees_all = if windows.first { 0 } else { every - 1 };
            (0..layers).map(|layer| every == 0 || layer % every != sees_all).collect()
        }
    };
    Ok(Some((width, of_layers)).filter(|(_, layers)| layers.contains(&true)))
}

/// For each layer the one whose keys and values it reads. The last ones may have none of their own: they read those of the
/// last before them that has the same window, or none as they.
pub(super) fn keys_of(k: &Keys<'_>, with_window: &[bool]) -> Result<Vec<i64>, ConfigError> {
    let layers = with_window.len();
    let key = "attention.shared_kv_layers";
    let own = layers - k.within(key, 0, layers as i64 - 1)?.unwrap_or(0) as usize;
    let reads = |layer: usize| match layer < own {
        true => Some(layer as i64),
        false => (0..own).rev().find(|&of| with_window[of] == with_window[layer]).map(|of| of as i64),
    };
    (0..layers).map(reads).collect::<Option<_>>().ok_or_else(|| {
        let why = "a layer before them of each kind, with a window and without, whose keys they read";
        out_of_range(&k.key(key), layers - own, why)
    })
}

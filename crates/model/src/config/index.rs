//! The index that chooses the positions that attention reads (DeepSeek-V3.2).

use super::keys::{Keys, out_of_range};
use super::{Attention, ConfigError, MOST_HEAD, MOST_HEADS, Rope};
use crate::family::{Family, Pairs};
use serde::{Deserialize, Serialize};

/// An index beside latents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Query heads.
    pub heads: i64,
    /// Length of a query head, and of the one key of a position.
    pub key: i64,
    /// Positions that it chooses at most.
    pub top_k: i64,
    /// Whether its rotated pairs are `(i, i + dims/2)` rather than `(2i, 2i+1)`.
    pub halves: bool,
    /// For each layer whether it has an index of its own; otherwise it reads what the last one before it chose.
    pub own: Vec<bool>,
}

/// Whether each layer has an index of its own, if the file says it.
const TYPES: &str = "attention.indexer.types";

pub(super) fn index(
    k: &Keys<'_>,
    family: &Family,
    layers: i64,
    (attention, rope): (Attention, &Rope),
) -> Result<Option<Index>, ConfigError> {
    let Some(pairs) = family.indexed else { return Ok(None) };
    let heads = k.positive("attention.indexer.head_count", MOST_HEADS)?;
    let key = k.positive("attention.indexer.key_length", MOST_HEAD)?;
    let top_k = k.positive("attention.indexer.top_k", i64::from(i32::MAX))?;
    if key < rope.dims {
        let why = format!("at least the {} values that are rotated", rope.dims);
        return Err(out_of_range(&k.key("attention.indexer.key_length"), key, &why));
    }
    if !matches!(attention, Attention::Latent { q_rank: Some(_), .. }) {
        let why = "a bottleneck of queries, which the index reads";
        return Err(out_of_range(&k.key("attention.q_lora_rank"), "nothing", why));
    }
    let own = own(k, layers)?;
    Ok(Some(Index { heads, key, top_k, halves: pairs == Pairs::Halves, own }))
}

/// Layers with an index of their own: those that the file says, or those that have its tensors.
fn own(k: &Keys<'_>, layers: i64) -> Result<Vec<bool>, ConfigError> {
    let has = |layer: i64| k.file.tensor(&format!("blk.{layer}.indexer.attn_k.weight")).is_some();
    // Where the first has none, it is the file that lacks it.
    let Some(types) = k.flags_of_first(TYPES, layers)? else {
        return Ok((0..layers).map(|layer| layer == 0 || has(layer)).collect());
    };
    match types[0] {
        true => Ok(types),
        false => {
            Err(out_of_range(&k.key(TYPES), "0 for the first block", "it has none before it whose choice it reads"))
        }
    }
}

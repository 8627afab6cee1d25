//! What makes embeddings: attention that sees what follows, and pooling.

use super::ConfigError;
use super::keys::{Keys, out_of_range};
use crate::family::Family;
use serde::{Deserialize, Serialize};

/// How the hidden states of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// That of the first token.
    First,
    /// That of the last token.
    Last,
    /// None: each by itself, one after the other.
    Each,
    /// As the head of a classifier reads it; what comes out are the scores of the text ([`super::Ranking`]).
    Rank,
}

/// Whether a token sees what is before it only.
pub(super) fn causal(k: &Keys<'_>, family: &Family) -> Result<bool, ConfigError> {
    let key = "attention.causal";
    let causal = k.flag(key)?.unwrap_or(family.causal);
    let why = match causal {
        true if !family.causal => "in this architecture a token sees what follows it",
        false if family.causal && (family.windows.is_some() || family.recurrence.is_some()) => {
            "in this architecture a token sees what is before it only"
        }
        _ => return Ok(causal),
    };
    Err(out_of_range(&k.key(key), causal, why))
}

/// That of the file, if it says one. A file `ranks` that has the head of a classifier and does not say that it makes vectors.
pub(super) fn pooling(k: &Keys<'_>, ranks: bool) -> Result<Option<Pooling>, ConfigError> {
    Ok(match k.file.metadata().find::<i64>(&k.key("pooling_type"))? {
        None | Some(4 | 0 | -1) if ranks => Some(Pooling::Rank),
        Some(0) => Some(Pooling::Each),
        Some(1) => Some(Pooling::Mean),
        Some(2) => Some(Pooling::First),
        Some(3) => Some(Pooling::Last),
        _ => None,
    })
}

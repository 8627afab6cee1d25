//! Models that rank: the head of a classifier, and whose hidden state it reads.

use super::keys::{Keys, out_of_range};
use super::{ConfigError, Pooling};
use crate::family::Family;
pub use crate::family::Reads;
use serde::{Deserialize, Serialize};

/// Labels of a classifier at most.
const MOST_LABELS: i64 = 1 << 12;

/// The first matrix of the head, and the last; there may be one of them only.
pub(crate) const DENSE: &str = "cls.weight";
/// See [`DENSE`].
pub(crate) const LABELS: &str = "cls.output.weight";

/// What a head makes scores of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranking {
    /// The hidden state that it reads.
    pub reads: Reads,
    /// Scores of a text; a text is ranked by the first.
    pub labels: i64,
}

impl Ranking {
    /// The token whose row of a step has the scores of its text.
    pub(crate) fn row(&self) -> Pooling {
        match self.reads {
            Reads::First => Pooling::First,
            Reads::Last | Reads::Mean => Pooling::Last,
        }
    }
}

/// The head of the file, if it has one and the family reads it.
pub(super) fn ranking(k: &Keys<'_>, family: &Family, causal: bool) -> Result<Option<Ranking>, ConfigError> {
    let Some(classifier) = family.classifier else { return Ok(None) };
    let Some(last) = [LABELS, DENSE].into_iter().find_map(|name| k.file.tensor(name)) else { return Ok(None) };
    let labels = last.dims[1] as i64;
    if !(1..=MOST_LABELS).contains(&labels) {
        let why = format!("expected 1 to {MOST_LABELS} labels");
        return Err(out_of_range(&format!("rows of {}", last.name), labels, &why));
    }
    let key = "classifier.pooling_type";
    let reads = match k.file.metadata().find::<i64>(&k.key(key))? {
        None | Some(-1) => classifier.reads,
        Some(1) => Reads::Mean,
        Some(2 | 3) if causal => Reads::Last,
        Some(2) => Reads::First,
        Some(other) => return Err(out_of_range(&k.key(key), other, "expected 1 (mean) or 2 (the first token)")),
    };
    // Of a text that is read in parts, only the last token has seen all.
    match (reads, causal) {
        (Reads::Mean, true) => Err(out_of_range(&k.key(key), 1, "a token sees what is before it only")),
        (_, true) => Ok(Some(Ranking { reads: Reads::Last, labels })),
        (reads, false) => Ok(Some(Ranking { reads, labels })),
    }
}

//! What the layers of a model that remembers have of a sequence at one of its positions, kept beside the device: a text that
//! begins as one did before goes on from there.

/// What is remembered of a sequence, with all that the cache holds of it left aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    position: usize,
    /// The rows of its place in all states, one after the other.
    rows: Vec<u8>,
}

impl Snapshot {
    /// The rows of all states after so many tokens.
    pub fn new(position: usize, rows: Vec<u8>) -> Snapshot {
        Snapshot { position, rows }
    }

    /// Tokens that were read until then.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What it holds.
    pub fn rows(&self) -> &[u8] {
        &self.rows
    }
}

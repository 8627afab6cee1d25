//! Few tokens beside each other, with rows as they come from memory.
//!
//! Up to eight tokens do not pay for rows that are laid out. One, two, four or eight of them side by side, as far as there can
//! be so few, share what is unpacked of a row in registers, and the loop over tokens is inside of the one over blocks. Their
//! codes stay in the nearest cache: sums whose values would not, 16 KiB for all of them, are cut into panels. The number of
//! tokens may be data, as it is for the tiles of an expert, so a kernel can hold this form beside the integer tile. A product
//! of fewer groups than a vector has lanes is laid out from three tokens on, since a sum across lanes for each row and token
//! would cost more than it.

use crate::cpu::vectors::Tiler;
use crate::kernel::expression::or_last;
use ir::{Graph, Id};

/// Tokens that are multiplied with rows as they come from memory.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    /// Counts the tokens.
    pub(crate) token: Id,
    /// So many share what is unpacked of a row.
    pub(crate) side: i64,
}

/// Tokens of a stream that are computed side by side.
pub(super) struct Block {
    pub(super) token: Id,
    pub(super) side: i64,
    /// Counts blocks.
    pub(super) at: Id,
    /// Stands for a token of a block.
    pub(super) slot: Id,
}

impl Block {
    /// Blocks of a stream.
    pub(super) fn new(t: &mut Tiler, g: &mut Graph, Stream { token, side }: Stream) -> Block {
        Block { token, side, at: t.blocks_of(g, g.src(token)[0], side), slot: t.counted(g, side) }
    }

    /// The token of a slot; past the last one, the last one again.
    pub(super) fn token_at_slot(&self, g: &mut Graph) -> Id {
        let n = g.int(self.side);
        let first = g.mul(self.at, n);
        let at = g.add(first, self.slot);
        or_last(g, at, self.token)
    }
}

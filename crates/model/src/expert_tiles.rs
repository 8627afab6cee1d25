//! Tokens of many, grouped by the experts that they chose.
//!
//! Every choice (a token and one of its experts) gets a place in a tile. A tile
//! belongs to one expert and has room for [`TILE`] choices, of which the last tile
//! of an expert may use fewer. So the rows of an expert are read once for a tile,
//! and nothing is decided on the host.

use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, DType};

/// Choices of a tile.
pub const TILE: i64 = 64;

/// Where the choices of a step went.
pub struct Tiles {
    /// Expert of each tile, `[tiles]`.
    pub expert: Tensor,
    /// Choices of each tile, `[tiles]`.
    pub count: Tensor,
    /// Token of each place, `[tiles, TILE]`; of the places that are not used,
    /// any token.
    pub token: Tensor,
    /// Place of each choice, `[tokens, used]`.
    place: Tensor,
    /// Places in all.
    places: Dim,
}

impl Tiles {
    /// Places the choices `ids`, `[tokens, used]`, of `experts` experts, in the
    /// order of tokens within an expert.
    pub fn of(b: &Builder, tokens: Dim, ids: &Tensor, experts: i64) -> Tiles {
        let used = ids.len(1);
        let one = Dim::Const(1);
        let int = |v: i64| b.int32(v);
        let add = |x: &Tensor, y: &Tensor| x.binary(BinOp::Add, y);
        let sub = |x: &Tensor, y: &Tensor| x.binary(BinOp::Sub, y);
        let mul = |x: &Tensor, y: &Tensor| x.binary(BinOp::Mul, y);
        let div = |x: &Tensor, y: &Tensor| x.binary(BinOp::Div, y);
        // Tiles in all: each expert leaves room in one at most.
        let choices = b.length(BinOp::Mul, tokens, used);
        let full = b.length(BinOp::Div, choices, TILE);
        let tiles = b.length(BinOp::Add, full, experts);

        // Choices and tiles of each expert, and the first tile.
        let hot = ids.unsqueeze(2).equal(&b.iota(experts)).cast(DType::I32);
        let taken = hot.sum_over(&[0, 1]);
        let needed = div(&add(&taken, &int(TILE - 1)), &int(TILE));
        let end = needed.scan(0);
        let first = sub(&end, &needed);

        // Each tile belongs to the first expert whose tiles end after it.
        let tile = b.iota(tiles);
        let column = [tiles, one];
        let past = end.reshape(dims![1, experts]).lt(&add(&tile, &int(1)).reshape(&column));
        let owner = past.cast(DType::I32).sum(1);
        let within = sub(&tile, &first.gather(&owner));
        let left = sub(&taken.gather(&owner), &mul(&within, &int(TILE)));
        let count = left.binary(BinOp::Max, &int(0)).binary(BinOp::Min, &int(TILE));

        // Places of choices: those of an expert are counted from its first tile on. Either all choices are gone through
        // once, or each is compared with all others, which many threads do at once.
        let begin = mul(&first, &int(TILE));
        let flat = hot.reshape(&[choices, experts.into()]);
        let begins = b.iota(choices).unsqueeze(1).equal(&int(0)).select(&begin, &int(0));
        let counted = sub(&mul(&flat, &add(&flat, &begins).scan(0)).sum(1), &int(1));
        let (id, number) = (ids.reshape(&[choices]), b.iota(choices));
        let before = number.unsqueeze(0).lt(&number.unsqueeze(1));
        let same = before.select(&id.unsqueeze(0).equal(&id.unsqueeze(1)).cast(DType::I32), &int(0));
        let compared = add(&same.sum(1), &begin.gather(&id));
        let place = Tensor::choice("places", &[("counted", counted), ("compared", compared)]);
        let place = place.reshape(&[tokens, used.into()]);

        // The choice of each place.
        let at = add(&mul(&tile, &int(TILE)).reshape(&column), &b.iota(TILE).reshape(dims![1, TILE]));
        let here =
            at.reshape(&[tiles, Dim::Const(TILE), one, one]).equal(&place.reshape(&[one, one, tokens, used.into()]));
        let t = b.iota(tokens);
        let token = mul(&here.cast(DType::I32), &t.reshape(&[one, one, tokens, one])).sum_over(&[2, 3]);
        let places = b.length(BinOp::Mul, tiles, TILE);
        Tiles { expert: owner, count, token, place, places }
    }

    /// Rows of tiles, `[tiles, TILE, n]`, in the order of choices:
    /// `[tokens, used, n]`.
    pub fn restore(&self, rows: &Tensor) -> Tensor {
        rows.reshape(&[self.places, Dim::Const(rows.len(2))]).gather(&self.place)
    }
}

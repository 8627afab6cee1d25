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

/// Choices that are compared with each other.
const CHUNK: i64 = 64;

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

/// All choices of a step in chunks.
struct Chunks {
    count: Dim,
    /// The choice at each place of a chunk, `[count, CHUNK]`; past the last one, numbers that no choice has.
    number: Tensor,
    /// Whether there is that choice.
    there: Tensor,
}

impl Chunks {
    fn of(b: &Builder, choices: Dim) -> Chunks {
        let count = b.length(BinOp::Div, b.length(BinOp::Add, choices, CHUNK - 1), CHUNK);
        let first = b.iota(count).binary(BinOp::Mul, &b.int32(CHUNK)).unsqueeze(1);
        let number = first.binary(BinOp::Add, &b.iota(CHUNK).unsqueeze(0));
        // An index past the end is the last one.
        let there = number.equal(&b.iota(choices).gather(&number));
        Chunks { count, number, there }
    }
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

        // Choices of each expert, in each chunk of choices and in all up to it; tiles of each expert, and the first one.
        let chunks = Chunks::of(b, choices);
        let flat = ids.reshape(&[choices]);
        let id = chunks.there.select(&flat.gather(&chunks.number), &int(-1));
        let here = id.unsqueeze(2).equal(&b.iota(experts)).cast(DType::I32).sum(1);
        let so_far = here.scan(0);
        let taken = here.sum(0);
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
        // once, or each is compared with those before it in its chunk, which many threads do at once.
        let begin = mul(&first, &int(TILE));
        let hot = ids.unsqueeze(2).equal(&b.iota(experts)).cast(DType::I32).reshape(&[choices, experts.into()]);
        let number = b.iota(choices);
        let begins = number.unsqueeze(1).equal(&int(0)).select(&begin, &int(0));
        let counted = sub(&mul(&hot, &add(&hot, &begins).scan(0)).sum(1), &int(1));
        let chunk = div(&number, &int(CHUNK));
        let of_chunk = |chunk: &Tensor, expert: &Tensor| add(&mul(chunk, &int(experts)), expert);
        let by_chunk = |x: &Tensor| x.reshape(&[b.length(BinOp::Mul, chunks.count, experts)]);
        let before = by_chunk(&sub(&so_far, &here)).gather(&of_chunk(&chunk, &flat));
        let beside = b.iota(CHUNK);
        let at = sub(&number, &mul(&chunk, &int(CHUNK))).unsqueeze(1);
        let other = flat.gather(&add(&mul(&chunk, &int(CHUNK)).unsqueeze(1), &beside));
        let same = beside.lt(&at).select(&other.equal(&flat.unsqueeze(1)).cast(DType::I32), &int(0)).sum(1);
        let compared = add(&add(&same, &before), &begin.gather(&flat));
        let place = Tensor::choice("places", &[("counted", counted), ("compared", compared)]);

        // The choice of each place: of the first chunk by whose end its expert has had so many, the one that is there.
        let within = add(&mul(&within, &int(TILE)).reshape(&column), &b.iota(TILE).reshape(dims![1, TILE]));
        let until = by_chunk(&so_far)
            .gather(&of_chunk(&b.iota(chunks.count).reshape(&[one, chunks.count]), &owner.reshape(&column)));
        let passed = until.unsqueeze(1).lt(&add(&within, &int(1)).unsqueeze(2));
        let chunk = passed.cast(DType::I32).sum(2);
        let at = add(&mul(&tile, &int(TILE)).reshape(&column), &b.iota(TILE).reshape(dims![1, TILE]));
        let other = add(&mul(&chunk, &int(CHUNK)).unsqueeze(2), &beside);
        let there = other.equal(&number.gather(&other));
        let found = there.select(&place.gather(&other).equal(&at.unsqueeze(2)).cast(DType::I32), &int(0));
        let token = div(&mul(&found, &other).sum(2), &int(used));
        let place = place.reshape(&[tokens, used.into()]);
        let places = b.length(BinOp::Mul, tiles, TILE);
        Tiles { expert: owner, count, token, place, places }
    }

    /// Rows of tiles, `[tiles, TILE, n]`, in the order of choices:
    /// `[tokens, used, n]`.
    pub fn restore(&self, rows: &Tensor) -> Tensor {
        rows.reshape(&[self.places, Dim::Const(rows.len(2))]).gather(&self.place)
    }
}

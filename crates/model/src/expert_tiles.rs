//! Tokens of many, grouped by the experts that they chose.
//!
//! Every choice (a token and one of its experts) gets a place in a tile. A tile
//! belongs to one expert and has room for some choices, of which the last tile
//! of an expert may use fewer. So the rows of an expert are read once for a tile,
//! and nothing is decided on the host.

use compiler::schedule::ExpertTiles;
use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, DType};

/// Places of a tile at least.
const LEAST: i64 = 16;

/// Choices that a tile has room for, where so many tokens usually choose `used` of `experts` experts.
pub fn size(tiles: &ExpertTiles, tokens: i64, used: i64, experts: i64) -> i64 {
    let each = tokens.saturating_mul(used) / experts.max(1);
    (each.saturating_mul(tiles.of_usual).clamp(LEAST, tiles.most) as u64).next_power_of_two() as i64
}

/// Choices that are compared with each other.
const CHUNK: i64 = 64;

/// Where the choices of a step went.
pub struct Tiles {
    /// Expert of each tile, `[tiles]`.
    pub expert: Tensor,
    /// Choices of each tile, `[tiles]`.
    pub count: Tensor,
    /// Token of each place, `[tiles, size]`; of the places that are not used,
    /// any token.
    pub token: Tensor,
    /// Place of each choice, `[tokens, used]`.
    place: Tensor,
    /// Places in all.
    places: Dim,
}

/// How many choices each expert has.
struct Counts {
    /// Of all choices, `[experts]`.
    taken: Tensor,
    /// Of each chunk of choices.
    chunks: Option<Chunks>,
}

/// Choices in chunks, which many threads count at once: a choice is compared with those of its chunk alone.
struct Chunks {
    /// The expert of each choice, `[choices]`.
    expert: Tensor,
    experts: i64,
    /// Number of chunks.
    count: Dim,
    /// Choices of each expert in a chunk and in those before it, chunk after chunk, `[count * experts]`.
    until: Tensor,
    /// The same, in those before it.
    before: Tensor,
}

impl Counts {
    fn of_all(ids: &Tensor, experts: i64) -> Counts {
        Counts { taken: one_hot(ids, experts).sum_over(&[0, 1]), chunks: None }
    }

    fn in_chunks(b: &Builder, choices: Dim, ids: &Tensor, experts: i64) -> Counts {
        let count = b.length(BinOp::Div, b.length(BinOp::Add, choices, CHUNK - 1), CHUNK);
        let first = b.iota(count).binary(BinOp::Mul, &b.int32(CHUNK)).unsqueeze(1);
        let number = first.binary(BinOp::Add, &b.iota(CHUNK).unsqueeze(0));
        let expert = ids.reshape(&[choices]);
        let id = is_choice(&b.iota(choices), &number).select(&expert.gather(&number), &b.int32(-1));
        let here = one_hot(&id, experts).sum(1);
        let until = here.scan(0);
        let flat = |x: &Tensor| x.reshape(&[b.length(BinOp::Mul, count, experts)]);
        let before = flat(&until.binary(BinOp::Sub, &here));
        let taken = here.sum(0);
        Counts { taken, chunks: Some(Chunks { expert, experts, count, until: flat(&until), before }) }
    }
}

/// For each id and expert, 1 where that is the one, and 0 elsewhere.
fn one_hot(id: &Tensor, experts: i64) -> Tensor {
    id.unsqueeze(id.rank()).equal(&id.builder().iota(experts)).cast(DType::I32)
}

/// Whether there are choices of these numbers: an index past the end is the last one.
fn is_choice(all: &Tensor, number: &Tensor) -> Tensor {
    number.equal(&all.gather(number))
}

impl Chunks {
    /// The place of each choice, `[choices]`, if those of an expert begin there.
    fn places(&self, begin: &Tensor) -> Tensor {
        let b = begin.builder();
        let number = b.iota(self.expert.shape()[0]);
        let chunk = number.binary(BinOp::Div, &b.int32(CHUNK));
        let first = chunk.binary(BinOp::Mul, &b.int32(CHUNK));
        let before = self.before.gather(&self.at(&chunk, &self.expert));
        let beside = b.iota(CHUNK);
        let other = self.expert.gather(&first.unsqueeze(1).binary(BinOp::Add, &beside));
        let same = other.equal(&self.expert.unsqueeze(1)).cast(DType::I32);
        let earlier = beside.lt(&number.binary(BinOp::Sub, &first).unsqueeze(1)).select(&same, &b.int32(0)).sum(1);
        earlier.binary(BinOp::Add, &before).binary(BinOp::Add, &begin.gather(&self.expert))
    }

    /// The choice at each place `at` of tiles, `[tiles, size]`, which is the so many-th of an expert: of the first chunk
    /// by whose end its expert has had more, the one that is there. 0 where there is none.
    fn choices(&self, place: &Tensor, at: &Tensor, rank: &Tensor, expert: &Tensor) -> Tensor {
        let b = at.builder();
        let chunks = b.iota(self.count).unsqueeze(0);
        let until = self.until.gather(&self.at(&chunks, expert)).unsqueeze(1);
        let passed = until.lt(&rank.binary(BinOp::Add, &b.int32(1)).unsqueeze(2));
        let first = passed.cast(DType::I32).sum(2).binary(BinOp::Mul, &b.int32(CHUNK));
        let other = first.unsqueeze(2).binary(BinOp::Add, &b.iota(CHUNK));
        let found = place.gather(&other).equal(&at.unsqueeze(2)).cast(DType::I32);
        let there = is_choice(&b.iota(self.expert.shape()[0]), &other);
        there.select(&found, &b.int32(0)).binary(BinOp::Mul, &other).sum(2)
    }

    /// Where a chunk has its count of an expert.
    fn at(&self, chunk: &Tensor, expert: &Tensor) -> Tensor {
        let b = chunk.builder();
        chunk.binary(BinOp::Mul, &b.int32(self.experts)).binary(BinOp::Add, expert)
    }
}

impl Tiles {
    /// Places the choices `ids`, `[tokens, used]`, of `experts` experts, in the
    /// order of tokens within an expert. They are counted in chunks, or all are gone through once.
    pub fn of(b: &Builder, tokens: Dim, ids: &Tensor, experts: i64, size: i64, in_chunks: bool) -> Tiles {
        let used = ids.len(1);
        let one = Dim::Const(1);
        let int = |v: i64| b.int32(v);
        let add = |x: &Tensor, y: &Tensor| x.binary(BinOp::Add, y);
        let sub = |x: &Tensor, y: &Tensor| x.binary(BinOp::Sub, y);
        let mul = |x: &Tensor, y: &Tensor| x.binary(BinOp::Mul, y);
        let div = |x: &Tensor, y: &Tensor| x.binary(BinOp::Div, y);
        // Tiles in all: each expert leaves room in one at most.
        let choices = b.length(BinOp::Mul, tokens, used);
        let full = b.length(BinOp::Div, choices, size);
        let tiles = b.length(BinOp::Add, full, experts);

        // The first tile of each expert, by how many choices it has.
        let counts = if in_chunks { Counts::in_chunks(b, choices, ids, experts) } else { Counts::of_all(ids, experts) };
        let needed = div(&add(&counts.taken, &int(size - 1)), &int(size));
        let end = needed.scan(0);
        let first = sub(&end, &needed);

        // Each tile belongs to the first expert whose tiles end after it.
        let tile = b.iota(tiles);
        let column = [tiles, one];
        let past = end.reshape(dims![1, experts]).lt(&add(&tile, &int(1)).reshape(&column));
        let owner = past.cast(DType::I32).sum(1);
        let within = mul(&sub(&tile, &first.gather(&owner)), &int(size));
        let left = sub(&counts.taken.gather(&owner), &within);
        let count = left.binary(BinOp::Max, &int(0)).binary(BinOp::Min, &int(size));

        // Places of choices: those of an expert are counted from its first tile on. Then the choice of each place.
        let begin = mul(&first, &int(size));
        let beside = b.iota(size).unsqueeze(0);
        let at = add(&mul(&tile, &int(size)).reshape(&column), &beside);
        let (place, token) = match &counts.chunks {
            Some(chunks) => {
                let place = chunks.places(&begin);
                let rank = add(&within.reshape(&column), &beside);
                let choice = chunks.choices(&place, &at, &rank, &owner.reshape(&column));
                (place, div(&choice, &int(used)))
            }
            None => {
                let flat = one_hot(ids, experts).reshape(&[choices, experts.into()]);
                let begins = b.iota(choices).unsqueeze(1).equal(&int(0)).select(&begin, &int(0));
                let place = sub(&mul(&flat, &add(&flat, &begins).scan(0)).sum(1), &int(1));
                let of = place.reshape(&[one, one, tokens, used.into()]);
                let here = at.reshape(&[tiles, Dim::Const(size), one, one]).equal(&of);
                let t = b.iota(tokens).reshape(&[one, one, tokens, one]);
                (place, mul(&here.cast(DType::I32), &t).sum_over(&[2, 3]))
            }
        };
        let place = place.reshape(&[tokens, used.into()]);
        let places = b.length(BinOp::Mul, tiles, size);
        Tiles { expert: owner, count, token, place, places }
    }

    /// Rows of tiles, `[tiles, size, n]`, in the order of choices:
    /// `[tokens, used, n]`.
    pub fn restore(&self, rows: &Tensor) -> Tensor {
        rows.reshape(&[self.places, Dim::Const(rows.len(2))]).gather(&self.place)
    }
}

//! Tokens chosen where their logits are computed, as tensor code.
//!
//! A device that works beside the host then goes on by itself: the token of a step is read by the next one ([`CHOSEN`]),
//! and logits, a row as long as the vocabulary, need not leave it. The stages are those of [`text::sampler`], as far as
//! they look at nothing but the likeliest [`RANKED`] tokens.

use compiler::{Builder, Dim, Tensor};
use ir::{BinOp, DType};
use text::sampler::{Draw, RANKED};

/// The state that holds the token of each row of the last step that chose some.
pub const CHOSEN: &str = "chosen";

/// What a step says where no token is above minus infinity.
pub const NONE: i32 = -1;

/// So many numbers are ranked at once.
const AT_ONCE: i64 = 640;

/// A row that is longer is one of logits, not of some of them or of their maxima.
const LONG: i64 = 1 << 14;

/// The token of each row: of `logits` `[rows, vocab]`, `[rows]`, the likeliest, the first of equals.
pub fn likeliest(logits: &Tensor) -> Tensor {
    let (b, parts) = (logits.builder(), Parts::of(&ordered(logits)));
    let most = parts.most.max(1);
    let part = first(&parts.most.equal(&most.unsqueeze(1)));
    let row = parts.of_rows(&part);
    let within = first(&row.equal(&most.unsqueeze(1)));
    let id = parts.place(&part, &within);
    b.float(f32::NEG_INFINITY).lt(&most).select(&id, &b.int32(NONE.into()))
}

/// The token of each row that falls to what `draws` `[rows, Draw::LEN]` ([`Draw::numbers`]) say of it.
pub fn drawn(logits: &Tensor, draws: &Tensor) -> Tensor {
    let (b, rows) = (logits.builder(), logits.shape()[0]);
    let (values, ids) = ranked(&biased(logits, draws));
    let count = values.len(1);
    let setting = |which: i64| draws.slice(1, which, 1).reshape(&[rows, Dim::Const(1)]);
    let [top_k, top_p, floor, warmth, uniform] = [0, 1, 2, 3, 4].map(setting);
    let (zero, one, rank) = (b.float(0.0), b.float(1.0), b.iota(count).cast(DType::F32));
    let best = values.slice(1, 0, 1);
    let below = &values - &best;
    // What equals the best counts one, also where both are infinite.
    let weight = |scaled: Tensor| values.equal(&best).select(&one, &scaled.exp());
    let weights = rank.lt(&top_k).select(&weight(below.clone()), &zero);
    let goal = &top_p * &weights.sum(1).unsqueeze(1);
    let before = &weights.scan(1) - &weights;
    let within = before.lt(&goal).select(&weights, &rank.lt(&one).select(&weights, &zero));
    let likely = values.lt(&(&best + &floor)).select(&zero, &within);
    let warm = zero.lt(&likely).select(&weight(&below * &warmth), &zero);
    let target = &uniform * &warm.sum(1).unsqueeze(1);
    let count_of = |mask: &Tensor| mask.cast(DType::I32).sum(1);
    let passed = target.lt(&warm.scan(1)).select(&zero, &warm);
    let last = &count_of(&zero.lt(&warm)) - &b.int32(1);
    let place = count_of(&zero.lt(&passed)).binary(BinOp::Min, &last);
    let id = take(&ids, &place.unsqueeze(1)).reshape(&[rows]);
    b.float(f32::NEG_INFINITY).lt(&best.reshape(&[rows])).select(&id, &b.int32(NONE.into()))
}

/// Logits with what `draws` add to them.
fn biased(logits: &Tensor, draws: &Tensor) -> Tensor {
    let (b, rows) = (logits.builder(), logits.shape()[0]);
    let column = |at: usize| draws.slice(1, at as i64, 1).reshape(&[rows, Dim::Const(1)]);
    let token = b.iota(logits.len(1)).cast(DType::F32).unsqueeze(0);
    (Draw::SETTINGS..Draw::LEN)
        .step_by(2)
        .fold(logits.clone(), |logits, at| token.equal(&column(at)).select(&(&logits + &column(at + 1)), &logits))
}

/// The likeliest tokens of each row in their order, and the logits of these: `[rows, RANKED]`, or all if there are fewer.
fn ranked(logits: &Tensor) -> (Tensor, Tensor) {
    let logits = ordered(logits);
    let ids = largest(&logits);
    (take(&logits, &ids), ids)
}

/// Numbers of which each is at least minus infinity: NaN counts as that.
fn ordered(x: &Tensor) -> Tensor {
    let lowest = x.builder().float(f32::NEG_INFINITY);
    lowest.lt(x).select(x, &lowest)
}

/// The places of the [`RANKED`] largest numbers of each row in their order, the first of equals first; of all numbers if
/// there are fewer.
///
/// A top-k compares each number with each other. Of long rows that is done for few numbers at a time: each of the largest
/// lies in one of as many parts of the row, those with the largest maxima, and these parts are found in the same way.
fn largest(x: &Tensor) -> Tensor {
    let n = x.len(1);
    if n <= AT_ONCE {
        return x.topk(RANKED.min(n) as usize);
    }
    let parts = if n > LONG { Parts::of(x) } else { Parts::strided(x) };
    let places = parts.places(&ascending(&largest(&parts.most)));
    take(&places, &largest(&take(&parts.all, &places)))
}

/// Rows in parts of equal length.
struct Parts {
    /// `[rows, count * len]`: behind a row that nothing divides well are numbers that nobody wants.
    all: Tensor,
    len: i64,
    /// From a part to the next, and from a number of a part to the next.
    strides: [i64; 2],
    /// The largest number of each part, `[rows, count]`.
    most: Tensor,
}

impl Parts {
    /// Of rows of logits: numbers that follow each other, as tasks of the kernel that computes these have them.
    fn of(x: &Tensor) -> Parts {
        let n = x.len(1);
        // Such kernels have tasks of 32 rows.
        let len = std::iter::once(32).chain((8..64).rev()).find(|len| n % len == 0).unwrap_or(32);
        let (all, count) = filled(x, len);
        let most = all.reshape(&[all.shape()[0], count.into(), len.into()]).max(2);
        Parts { all, len, strides: [len, 1], most }
    }

    /// Of shorter rows: each has numbers of the whole row, so that no task that computes the row computes a part.
    fn strided(x: &Tensor) -> Parts {
        let n = x.len(1);
        let pairs = |len: &i64| (n / len).pow(2) + (RANKED * len).pow(2);
        let len = (2..n.min(64)).filter(|len| n % len == 0).min_by_key(pairs).unwrap_or(8);
        let (all, count) = filled(x, len);
        let most = all.reshape(&[all.shape()[0], len.into(), count.into()]).max(1);
        Parts { all, len, strides: [1, count], most }
    }

    /// The numbers of parts `[rows]`: `[rows, len]`, where they follow each other.
    fn of_rows(&self, part: &Tensor) -> Tensor {
        let (b, rows, count) = (part.builder(), part.shape()[0], self.most.len(1));
        let row = b.iota(rows).binary(BinOp::Mul, &b.int32(count));
        let all = b.length(BinOp::Mul, rows, count);
        self.all.reshape(&[all, self.len.into()]).gather(&row.binary(BinOp::Add, part))
    }

    /// The places in a row of the numbers of parts `[rows, n]`, `[rows, n * len]`: in the order of the row if the parts are, so
    /// that the first of equals counts.
    fn places(&self, part: &Tensor) -> Tensor {
        let within = part.builder().iota(self.len);
        let follow = self.strides[1] == 1;
        let places = match follow {
            true => self.place(&part.unsqueeze(2), &within),
            false => self.place(&part.unsqueeze(1), &within.unsqueeze(1)),
        };
        places.reshape(&[part.shape()[0], Dim::Const(part.len(1) * self.len)])
    }

    /// Places in a row by parts and the places in these.
    fn place(&self, part: &Tensor, within: &Tensor) -> Tensor {
        let [part, within] = [(part, 0), (within, 1)].map(|(at, i)| {
            let stride = at.builder().int32(self.strides[i]);
            at.binary(BinOp::Mul, &stride)
        });
        part.binary(BinOp::Add, &within)
    }
}

/// Rows with the lowest number behind them until `len` divides them, and how often it does.
fn filled(x: &Tensor, len: i64) -> (Tensor, i64) {
    let (b, rows, n) = (x.builder(), x.shape()[0], x.len(1));
    let count = (n + len - 1) / len;
    if count * len == n {
        return (x.clone(), count);
    }
    let lowest = b.float(f32::NEG_INFINITY).reshape(&[Dim::Const(1); 2]).expand(&[rows, Dim::Const(count * len - n)]);
    (Tensor::concat(&[x.clone(), lowest], 1), count)
}

/// The first place along the last of two dimensions where a mask is set; its length where it is set nowhere.
fn first(mask: &Tensor) -> Tensor {
    let (b, n) = (mask.builder(), mask.len(1));
    let left = b.int32(n).binary(BinOp::Sub, &b.iota(n));
    b.int32(n).binary(BinOp::Sub, &mask.select(&left, &b.int32(0)).max(1))
}

/// Different numbers `[rows, n]` in their order.
fn ascending(x: &Tensor) -> Tensor {
    let (b, n) = (x.builder(), x.len(1));
    let place = x.unsqueeze(1).lt(&x.unsqueeze(2)).cast(DType::I32).sum(2);
    let here = place.unsqueeze(1).equal(&b.iota(n).unsqueeze(1));
    here.select(&x.unsqueeze(1), &b.int32(0)).sum(2)
}

/// `x[r, index[r, i]]` of `x` `[rows, n]`.
fn take(x: &Tensor, index: &Tensor) -> Tensor {
    let (b, rows, n) = (x.builder(), x.shape()[0], x.len(1));
    let row = b.iota(rows).unsqueeze(1).binary(BinOp::Mul, &b.int32(n));
    x.reshape(&[b.length(BinOp::Mul, rows, n)]).gather(&row.binary(BinOp::Add, index))
}

/// The tokens of a step, `[tokens]`: what the host gave, or where that is negative, what the last step chose in row
/// `-1 - token`.
pub fn given(b: &Builder, token: &Tensor, rows: i64) -> Tensor {
    let zero = b.int32(0);
    let row = b.int32(-1).binary(BinOp::Sub, token).binary(BinOp::Max, &zero);
    let chosen = b.state(CHOSEN, DType::I32, &[rows.into()]).gather(&row);
    token.lt(&zero).select(&chosen, token)
}

/// The state with what this step chose, `[rows]`.
pub fn keep(b: &Builder, chosen: &Tensor, rows: i64) -> Tensor {
    let n = chosen.shape()[0];
    b.state(CHOSEN, DType::I32, &[rows.into()]).scatter(&b.iota(n), chosen)
}

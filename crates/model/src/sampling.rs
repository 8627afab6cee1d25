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

/// The token of each row: of `logits` `[rows, vocab]`, `[rows]`, the likeliest, the first of equals.
pub fn likeliest(logits: &Tensor) -> Tensor {
    let (b, parts) = (logits.builder(), Parts::of(logits));
    let most = parts.most.max(1);
    let part = first(&parts.most.equal(&most.unsqueeze(1)));
    let row = parts.of_rows(&part);
    let within = first(&row.equal(&most.unsqueeze(1)));
    let id = parts.id(&part, &within);
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
    let (b, rows, parts) = (logits.builder(), logits.shape()[0], Parts::of(logits));
    let vocab = logits.len(1);
    if parts.count <= RANKED {
        let ids = parts.logits.topk(RANKED.min(vocab) as usize);
        return (take(&parts.logits, &ids), ids);
    }
    // Each of them lies in one of as many parts, those with the largest maxima; in the order of the vocabulary, as the
    // first of equals counts.
    let parts_of = ascending(&parts.most.topk(RANKED as usize));
    let candidates = parts.of_rows(&parts_of).reshape(&[rows, Dim::Const(RANKED * parts.len)]);
    let places = candidates.topk(RANKED as usize);
    let len = b.int32(parts.len);
    let part = take(&parts_of, &places.binary(BinOp::Div, &len));
    (take(&candidates, &places), parts.id(&part, &places.binary(BinOp::Mod, &len)))
}

/// A vocabulary in parts of equal length.
struct Parts {
    /// `[rows, count * len]`, NaN as minus infinity.
    logits: Tensor,
    count: i64,
    len: i64,
    /// The largest logit of each part, `[rows, count]`.
    most: Tensor,
}

impl Parts {
    fn of(logits: &Tensor) -> Parts {
        let (b, rows, vocab) = (logits.builder(), logits.shape()[0], logits.len(1));
        let lowest = b.float(f32::NEG_INFINITY);
        let logits = lowest.lt(logits).select(logits, &lowest);
        let divides = |len: &i64| vocab % len == 0;
        // Kernels have tasks of 32 rows, so that is best.
        let len = std::iter::once(32).chain((1..64).rev()).find(divides).unwrap_or(1);
        let count = vocab / len;
        let most = logits.reshape(&[rows, count.into(), len.into()]).max(2);
        Parts { logits, count, len, most }
    }

    /// The logits of parts `[rows, ..]`: `[rows, .., len]`.
    fn of_rows(&self, part: &Tensor) -> Tensor {
        let b = part.builder();
        let all = b.length(BinOp::Mul, part.shape()[0], self.count);
        let mut shape = part.shape();
        shape[1..].fill(Dim::Const(1));
        let row = b.iota(part.shape()[0]).reshape(&shape).binary(BinOp::Mul, &b.int32(self.count));
        self.logits.reshape(&[all, self.len.into()]).gather(&row.binary(BinOp::Add, part))
    }

    /// Tokens by their parts and their places in these.
    fn id(&self, part: &Tensor, within: &Tensor) -> Tensor {
        let b = part.builder();
        part.binary(BinOp::Mul, &b.int32(self.len)).binary(BinOp::Add, within)
    }
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

//! The best of many scores, without a sort: a threshold that so many scores reach.
//!
//! It is searched digit by digit, in a few sums over all scores: of floats in the order of their bits, so that what is found is
//! the score itself; and of those that are equal to it, by their positions, of which the earliest are taken. So a choice is
//! two numbers, however many scores there are. Scores that are not numbers are never among the best.

use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, DType, UnOp};

/// Bits of a digit at most: that many sums over all scores find one.
const DIGIT: u32 = 4;

/// The best of scores `[n, pages, PAGE, lanes]`, for each of `n` and each lane.
pub(crate) struct Best {
    scores: Tensor,
    /// The least score that is among them, `[n, 1, 1, lanes]`.
    least: Tensor,
    /// The last position with that score that is among them, `[n, 1, 1, lanes]`.
    last: Tensor,
}

impl Best {
    /// The best `most` of scores for positions `at`, below `positions`, that are visible; all of these if they are fewer.
    /// Scores and what is beside them are `[n, pages, PAGE, lanes]`.
    pub(crate) fn of(scores: &Tensor, (at, visible): (&Tensor, &Tensor), most: i64, positions: i64) -> Best {
        let b = scores.builder();
        let scores = visible.select(scores, &b.float(f32::MIN)).fence();
        let shape = scores.shape();
        let of_each = |x: &Tensor| x.reshape(&[shape[0], Dim::Const(1), Dim::Const(1), shape[3]]);
        let (all, at) = (scores.unsqueeze(1), at.unsqueeze(1));
        // The score that fewer than `most` are above.
        let most = b.int32(most);
        let key = search(b, i64::from(i32::MIN), i32::BITS, |keys| {
            most.lt(&(&count(&value_of(keys).lt(&all)).binary(BinOp::Add, &b.int32(1))))
        });
        let least = of_each(&value_of(&key));
        // The place of the last of those that are equal to it for which there is room.
        let above = count(&least.unsqueeze(1).lt(&all));
        let room = most.binary(BinOp::Sub, &above);
        let ties = all.equal(&least.unsqueeze(1));
        let bits = i64::BITS - (positions.max(2) - 1).leading_zeros();
        let last = search(b, 0, bits, |places| {
            let until = at.lt(&places.binary(BinOp::Add, &b.int32(1)));
            count(&ties.binary(BinOp::And, &until)).lt(&room)
        });
        Best { scores, least, last: of_each(&last) }
    }

    /// Whether positions `at` are among them, `[n, pages, PAGE, lanes]`.
    pub(crate) fn chosen(&self, at: &Tensor, visible: &Tensor) -> Tensor {
        let b = self.scores.builder();
        let above = self.least.lt(&self.scores);
        let until = at.lt(&self.last.binary(BinOp::Add, &b.int32(1)));
        let among = self.scores.equal(&self.least).binary(BinOp::And, &until);
        // In memory: a loop over positions that reads it must make nothing that the choice before it reads.
        visible.binary(BinOp::And, &above.binary(BinOp::Or, &among)).fence()
    }
}

/// How many of `[n, ways, pages, PAGE, lanes]` are true: `[n, ways, lanes]`.
fn count(x: &Tensor) -> Tensor {
    x.cast(DType::I32).sum_over(&[2, 3])
}

/// The first number from `base` on, of so many bits above it, for which something does not hold: that is what holds for numbers
/// before some number and for none behind. `holds` tells it for numbers `[n, ways, 1, 1, lanes]`, as `[n, ways, lanes]`.
fn search(b: &Builder, base: i64, bits: u32, holds: impl Fn(&Tensor) -> Tensor) -> Tensor {
    let mut found: Option<Tensor> = None;
    let mut left = bits;
    while left > 0 {
        let digit = (left - 1) % DIGIT + 1;
        left -= digit;
        let ways = (1i64 << digit) - 1;
        let unit = b.int32(1 << left);
        let begin = if found.is_none() { base >> left } else { 0 };
        let digits = b.iota(ways).binary(BinOp::Add, &b.int32(1 + begin)).reshape(dims![1, ways, 1, 1, 1]);
        // The last number with a smaller digit.
        let ends = digits.binary(BinOp::Mul, &unit).binary(BinOp::Sub, &b.int32(1));
        let numbers = match &found {
            None => ends,
            Some(found) => found.unsqueeze(1).unsqueeze(1).unsqueeze(1).binary(BinOp::Add, &ends),
        };
        let passed = holds(&numbers).cast(DType::I32).sum(1).binary(BinOp::Mul, &unit);
        found = Some(match &found {
            None => passed.binary(BinOp::Add, &b.int32(base)),
            Some(found) => found.binary(BinOp::Add, &passed),
        });
    }
    found.expect("a digit")
}

/// The float of each number, in order: of the bits of its magnitude. What would be infinite is the largest.
fn value_of(number: &Tensor) -> Tensor {
    const MOST: i64 = f32::MAX.to_bits() as i64;
    const HIDDEN: i64 = 1 << (f32::MANTISSA_DIGITS - 1);
    let b = number.builder();
    let int = |v: i64| b.int32(v);
    let number = number.maximum(&int(-MOST)).binary(BinOp::Min, &int(MOST));
    let negative = number.lt(&int(0));
    let magnitude = negative.select(&int(0).binary(BinOp::Sub, &number), &number);
    let exponent = magnitude.binary(BinOp::Shr, &int(i64::from(f32::MANTISSA_DIGITS) - 1));
    let rest = magnitude.binary(BinOp::And, &int(HIDDEN - 1));
    let whole = rest.binary(BinOp::Add, &int(0).lt(&exponent).select(&int(HIDDEN), &int(0)));
    // In two powers of two, as one alone might be too small.
    let power = exponent.maximum(&int(1)).binary(BinOp::Sub, &int(150));
    let half = power.binary(BinOp::Shr, &int(1));
    let [half, rest] = [half.clone(), power.binary(BinOp::Sub, &half)].map(|x| x.cast(DType::F32).unary(UnOp::Exp2));
    let value = &(&whole.cast(DType::F32) * &half) * &rest;
    negative.select(&value.unary(UnOp::Neg), &value)
}

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
            most.lt(&count(&value_of(keys).lt(&all)).binary(BinOp::Add, &b.int32(1)))
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
        let begin = b.int32(if found.is_none() { base >> left } else { 0 });
        let digits = b.iota(ways).binary(BinOp::Add, &b.int32(1)).binary(BinOp::Add, &begin);
        let digits = digits.reshape(dims![1, ways, 1, 1, 1]);
        // The last number with a smaller digit.
        let ends = digits.binary(BinOp::Mul, &unit).binary(BinOp::Sub, &b.int32(1));
        let numbers = match &found {
            None => ends,
            Some(found) => found.unsqueeze(1).unsqueeze(1).unsqueeze(1).binary(BinOp::Add, &ends),
        };
        // A digit from the base on is one of 32 bits with its sign, where the number of those passed, times the unit, is not.
        let digit = holds(&numbers).cast(DType::I32).sum(1).binary(BinOp::Add, &begin);
        let passed = digit.binary(BinOp::Mul, &unit);
        found = Some(found.map_or(passed.clone(), |found| found.binary(BinOp::Add, &passed)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::PAGE;
    use compiler::{Numerics, Options, compile};
    use device::{Device, Interpreter, Memory};
    use std::sync::Arc;

    const PAGES: i64 = 3;
    const LANES: i64 = 2;
    const ALL: usize = (PAGES * PAGE) as usize;

    /// What is chosen of scores `[n][at][lane]` of which so many of each `n` are visible.
    fn chosen(scores: &[f32], visible: &[i32], most: i64) -> Vec<i32> {
        let n = visible.len() as i64;
        let b = Builder::new();
        let x = b.input("scores", DType::F32, dims![n, PAGES, PAGE, LANES]);
        let seen = b.input("visible", DType::I32, dims![n]);
        let at = b.iota(PAGES * PAGE).reshape(dims![1, PAGES, PAGE, 1]);
        let visible_at = at.lt(&seen.reshape(dims![n, 1, 1, 1])).expand(&x.shape());
        let best = Best::of(&x, (&at, &visible_at), most, PAGES * PAGE);
        let out = best.chosen(&at, &visible_at).cast(DType::I32);
        let program = compile(&b, "best", &[("out", &out)], &[], &Options::cpu(Numerics::Exact, 32));
        let mut memory = Memory::new();
        let program = Arc::new(program.expect("a program").program);
        let mut step = Interpreter::default().load(program, &mut memory).expect("a loaded program");
        memory.input_mut::<f32>("scores").expect("an input").copy_from_slice(scores);
        memory.input_mut::<i32>("visible").expect("an input").copy_from_slice(visible);
        step.run(&mut memory, &[]).expect("a step");
        memory.output::<i32>("out").expect("an output").to_vec()
    }

    /// The same by a sort, in which earlier positions come first among equals and what is no number is left out.
    fn sorted(scores: &[f32], visible: &[i32], most: i64) -> Vec<i32> {
        let lanes = LANES as usize;
        let mut out = vec![0; scores.len()];
        for (n, &seen) in visible.iter().enumerate() {
            for lane in 0..lanes {
                let index = |at: usize| (n * ALL + at) * lanes + lane;
                let mut all: Vec<usize> = (0..seen as usize).filter(|&at| !scores[index(at)].is_nan()).collect();
                all.sort_by(|&a, &b| scores[index(b)].partial_cmp(&scores[index(a)]).expect("numbers"));
                all.iter().take(most as usize).for_each(|&at| out[index(at)] = 1);
            }
        }
        out
    }

    #[test]
    fn a_threshold_chooses_as_a_stable_sort_does() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let visible = [ALL as i32, 100, 64, 7, 1];
        // Any exponents and signs; few values, zeros of both signs among them; one value.
        let kinds: [&dyn Fn(u32) -> f32; 4] = [
            &|r| f32::from_bits(r.wrapping_mul(0x9e37_79b9) & 0xbfff_ffff),
            &|r| [-1.5, -0.0, 0.0, f32::MIN_POSITIVE / 4.0, 2.0][r as usize % 5],
            &|_| -3.0,
            &|r| if r % 3 == 0 { f32::NAN } else { (r % 50) as f32 - 25.0 },
        ];
        for (kind, value) in kinds.iter().enumerate() {
            let scores: Vec<f32> = (0..visible.len() * ALL * LANES as usize).map(|_| value(random())).collect();
            for most in [1, 24, 64, 100] {
                assert!(
                    chosen(&scores, &visible, most) == sorted(&scores, &visible, most),
                    "kind {kind}, {most} of them"
                );
            }
        }
    }
}

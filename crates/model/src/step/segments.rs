//! The sequences of a step that remember: where their tokens are, and where their states.
//!
//! The tokens of a sequence follow each other in a step. What a layer remembers of a sequence has one row in a state, its
//! *place*, which is given on the host ([`crate::batch::Batch`]); a sequence that begins, with position 0, remembers
//! nothing, whatever lies in its place.

use super::Sizes;
use crate::config::Recurrence;
use compiler::schedule::Prices;
use compiler::tensor::Runs;
use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, DType, UnOp};

/// Tokens of a step at most in a model that remembers: they are taken together, by products of matrices as long as that
/// (`recurrence.rs`).
pub const CHUNK: i64 = 128;

/// The same where each value of a state is made for each token (`selective_scan.rs`).
const FEW: i64 = 16;

/// Tokens of a step at most in a model that remembers so: where they are taken together, the work for each token grows with
/// them, and where each value of each channel has some of it, that is much.
pub fn most_tokens(recurrence: &Recurrence, prices: &Prices) -> i64 {
    match recurrence {
        _ if prices.recurrences => i64::MAX,
        Recurrence::SelectiveScan { .. } => FEW,
        _ => CHUNK,
    }
}

/// What the names of states of layers that remember begin with.
pub const REMEMBERED: &str = "state.";

/// What a token leaves at least of what was before: next to nothing of it, and enough to be a float.
const LEAST_LOG: f32 = -80.0;

/// Logarithm of a factor at least, which products of two and their inverses are floats of.
const LEAST_FACTOR: f32 = -40.0;

/// Multiples of one over this are summed without an error over as many tokens as a step has.
const STEPS: f32 = 256.0;

/// How sequences forget.
pub(super) struct Decays {
    /// What is left at each token of what was before the step, `[T, n]`: for n values that are forgotten apart.
    pub(super) since: Tensor,
    /// Its logarithm in two parts, a multiple of one over [`STEPS`] and the rest: differences of large sums are then as good
    /// as those of small ones. None in a step of one token.
    parts: Option<[Tensor; 2]>,
}

/// Values `[.., a * b]` as `[.., a, b]`.
pub(super) fn last_as_two(x: &Tensor, [a, b]: [i64; 2]) -> Tensor {
    let mut shape = x.shape();
    shape.pop();
    shape.extend(dims![a, b]);
    x.reshape(&shape)
}

/// The exponential of differences of logarithms: of some until here, and of others until there.
fn difference(
    [here, there]: [&Decays; 2],
    of: impl Fn(&Tensor) -> Tensor,
    minus: impl Fn(&Tensor) -> Tensor,
) -> Tensor {
    let parts = |decays: &'_ Decays| decays.parts.clone().expect("more than one token");
    let ([coarse, fine], [coarse_there, fine_there]) = (parts(here), parts(there));
    (&(&of(&coarse) - &minus(&coarse_there)) + &(&of(&fine) - &minus(&fine_there))).exp()
}

/// The sequences of a step.
pub(super) struct Segments {
    pub(super) b: Builder,
    /// Tokens.
    pub(super) t: Dim,
    /// Sequences.
    count: Dim,
    /// Tokens of the longest of them.
    longest: Dim,
    /// Whether the step is one token.
    pub(super) single: bool,
    /// The tokens of the step in a loop, if they are not taken together.
    pub(super) runs: Option<Runs>,
    /// Tokens of a step at most.
    pub(super) most_tokens: i64,
    places: i64,
    /// Place of each, `[count]`.
    place: Tensor,
    /// First token of each, `[count]`.
    first: Tensor,
    /// Tokens of each, `[count]`.
    len: Tensor,
    /// Whether each begins, `[count]`.
    begins: Tensor,
    /// Sequence of each token, `[T]`.
    segment: Tensor,
    /// Number of each token in its sequence, `[T]`.
    number: Tensor,
}

/// The last position in the step of the sequence of each token, `[T]`.
pub(super) fn last(b: &Builder, sizes: &Sizes, segment: &Tensor, position: &Tensor) -> Tensor {
    if sizes.class.one() {
        return position.clone();
    }
    let count = Dim::Sym(b.var("segments", 1, sizes.segments.min(sizes.class.tokens(sizes.most_tokens).1)));
    let input = |name: &str| b.input(name, DType::I32, &[count]);
    let end = input("segment_first").binary(BinOp::Add, &input("segment_len"));
    position.gather(&end.binary(BinOp::Sub, &b.int32(1))).gather(segment)
}

impl Segments {
    /// The sequences of the tokens `[T]` of these segments and positions.
    pub(super) fn new(
        b: &Builder,
        t: Dim,
        (sizes, prices): (&Sizes, &Prices),
        segment: &Tensor,
        position: &Tensor,
    ) -> Segments {
        let most_tokens = sizes.class.tokens(sizes.most_tokens).1;
        let single = sizes.class.one();
        let var = |name: &str, most: i64| match single {
            true => Dim::Const(1),
            false => Dim::Sym(b.var(name, 1, most)),
        };
        let count = var("segments", sizes.segments.min(most_tokens));
        let longest = var("longest", most_tokens);
        let input = |name: &str| b.input(name, DType::I32, &[count]);
        let constant = |value: i64| b.int32(value).reshape(dims![1]);
        let place = input("place");
        let (first, len) = match single {
            true => (constant(0), constant(1)),
            false => (input("segment_first"), input("segment_len")),
        };
        let (segment, number) = match single {
            true => (constant(0), constant(0)),
            false => (segment.clone(), b.iota(t).binary(BinOp::Sub, &first.gather(segment))),
        };
        let begins = position.gather(&first).equal(&b.int32(0));
        let runs = (prices.recurrences && !single).then(|| Runs {
            begins: number.equal(&b.int32(0)),
            ends: number.equal(&len.binary(BinOp::Sub, &b.int32(1)).gather(&segment)),
            number: segment.clone(),
            count,
        });
        let (b, places) = (b.clone(), sizes.segments);
        Segments { b, t, count, longest, single, runs, most_tokens, places, place, first, len, begins, segment, number }
    }

    /// Tokens of the step.
    pub(super) fn tokens_of_step(&self) -> Tensor {
        match self.t {
            Dim::Const(t) => self.b.int32(t),
            Dim::Sym(t) => self.b.tensor(t).cast(DType::I32),
        }
    }

    /// What a layer remembers: `shape` values for each place.
    pub(super) fn state(&self, name: &str, shape: &[i64]) -> Tensor {
        let shape: Vec<Dim> = std::iter::once(&self.places).chain(shape).map(|&n| Dim::Const(n)).collect();
        self.b.state(name, DType::F32, &shape)
    }

    /// The rows of a state of each sequence `[count, ..]`, as they were before the step.
    pub(super) fn remembered(&self, state: &Tensor) -> Tensor {
        self.unless_begun(&self.begins, &state.gather(&self.place))
    }

    /// The rows of a state of each sequence `[count, ..]`, in the version that a step has made of it.
    pub(super) fn rows(&self, version: &Tensor) -> Tensor {
        version.gather(&self.place)
    }

    /// As [`Segments::remembered`] for each token, `[T, ..]`.
    pub(super) fn remembered_by_tokens(&self, state: &Tensor) -> Tensor {
        match self.single {
            true => self.remembered(state),
            false => {
                let begins = self.begins.gather(&self.segment);
                self.unless_begun(&begins, &state.gather(&self.place.gather(&self.segment)))
            }
        }
    }

    /// Rows, or zeros where a sequence begins: what another one left may be anything.
    fn unless_begun(&self, begins: &Tensor, rows: &Tensor) -> Tensor {
        let mut shape = begins.shape();
        shape.resize(rows.rank(), Dim::Const(1));
        begins.reshape(&shape).select(&self.b.float(0.0), rows)
    }

    /// The next version of a state, of which these are the rows of each sequence.
    pub(super) fn remember(&self, state: &Tensor, rows: &Tensor) -> Tensor {
        state.scatter(&self.place, rows)
    }

    /// Values of tokens `[T, ..]` for each sequence, `[count, longest, ..]`: after its last token, anything.
    pub(super) fn by_segment(&self, x: &Tensor) -> Tensor {
        match self.single {
            true => x.unsqueeze(0),
            false => x.gather(&self.tokens()),
        }
    }

    /// Token of each place of [`Segments::by_segment`].
    fn tokens(&self) -> Tensor {
        self.first.unsqueeze(1).binary(BinOp::Add, &self.b.iota(self.longest))
    }

    /// Whether a place of [`Segments::by_segment`] has a token, `[count, longest]`.
    fn is_token(&self) -> Tensor {
        self.b.iota(self.longest).lt(&self.len.unsqueeze(1))
    }

    /// The values of the last token of each sequence, of values `[T, ..]`.
    pub(super) fn last(&self, x: &Tensor) -> Tensor {
        match self.single {
            true => x.clone(),
            false => {
                let last = self.first.binary(BinOp::Add, &self.len).binary(BinOp::Sub, &self.b.int32(1));
                x.gather(&last)
            }
        }
    }

    /// Whether token `j` is of the sequence of token `i` and lies before it, or is the same, `[T, T]`.
    pub(super) fn until(&self) -> Tensor {
        self.of_same(1)
    }

    /// Whether token `j` is of the sequence of token `i` and lies before it, `[T, T]`.
    fn earlier(&self) -> Tensor {
        self.of_same(0)
    }

    /// Whether token `j` is of the sequence of token `i`, and less than `i + ahead`.
    fn of_same(&self, ahead: i64) -> Tensor {
        let (i, j) = (self.b.iota(self.t).unsqueeze(1), self.b.iota(self.t));
        let end = if ahead == 0 { i } else { i.binary(BinOp::Add, &self.b.int32(ahead)) };
        let same = self.segment.unsqueeze(1).equal(&self.segment);
        same.binary(BinOp::And, &j.lt(&end))
    }

    /// How much is left of what each token saw, after those that follow it in its sequence each leave `exp(log)` of it;
    /// logarithms `[T, n]` are not positive.
    pub(super) fn decays(&self, log: &Tensor) -> Decays {
        match self.single {
            true => Decays { since: log.maximum(&self.b.float(LEAST_LOG)).exp(), parts: None },
            false => self.summed(log, &self.until()),
        }
    }

    /// The same until before each token: how much is left when it comes. In steps of several tokens.
    pub(super) fn decays_before(&self, log: &Tensor) -> Decays {
        self.summed(log, &self.earlier())
    }

    /// Logarithms of the tokens that count for each, `[T, T]`.
    fn summed(&self, log: &Tensor, counts: &Tensor) -> Decays {
        let log = log.maximum(&self.b.float(LEAST_LOG));
        let coarse = (&log * STEPS).unary(UnOp::Round) * (1.0 / STEPS);
        let counts = counts.unsqueeze(2);
        let sum = |x: &Tensor| counts.select(&x.unsqueeze(0), &self.b.float(0.0)).sum(1);
        let parts = [sum(&coarse), sum(&(&log - &coarse))];
        Decays { since: (&parts[0] + &parts[1]).exp(), parts: Some(parts) }
    }

    /// What is left of each token `j` at token `i`, `[T, T, n]`; nothing of those that follow or are of others.
    pub(super) fn between(&self, decays: &Decays) -> Tensor {
        self.of_seen(&difference([decays; 2], |sum| sum.unsqueeze(1), |sum| sum.unsqueeze(0)), true)
    }

    /// What is left of each token `j` when token `i` comes, by [`Segments::decays_before`] and [`Segments::decays`], `[T, T, n]`;
    /// nothing of itself, of those that follow or are of others.
    pub(super) fn between_before(&self, before: &Decays, decays: &Decays) -> Tensor {
        self.of_seen(&difference([before, decays], |sum| sum.unsqueeze(1), |sum| sum.unsqueeze(0)), false)
    }

    /// Two factors of what is left, where a step forgets so little that both are floats: what is left of token `j` at token `i` of
    /// its sequence is the first of `i`, of decays until here, times the second of `j`. `[T, n]` each.
    pub(super) fn factors(&self, here: &Decays, decays: &Decays) -> [Tensor; 2] {
        // Both are as far as can be from what is too large when they are counted from the middle of what a sequence forgets.
        let middle = |sum: &Tensor| self.last(sum).gather(&self.segment) * 0.5;
        [difference([here, decays], Tensor::clone, middle), difference([decays; 2], middle, Tensor::clone)]
    }

    /// Whether such factors are floats if no token leaves less than `exp(least)`.
    pub(super) fn has_factors(&self, least: f32) -> bool {
        least * self.most_tokens as f32 >= 2.0 * LEAST_FACTOR
    }

    /// Values for each two tokens `[T, T, n]`, or zeros where the second does not come before the first or, with `itself`, is none
    /// of those nor the same.
    pub(super) fn of_seen(&self, x: &Tensor, itself: bool) -> Tensor {
        let seen = if itself { self.until() } else { self.earlier() };
        seen.unsqueeze(2).select(x, &self.b.float(0.0))
    }

    /// What is left of each token at the end of its sequence, as [`Segments::by_segment`]: `[count, longest, n]`, and
    /// nothing where there is no token.
    pub(super) fn until_last(&self, decays: &Decays) -> Tensor {
        let left = difference([decays; 2], |sum| self.last(sum).unsqueeze(1), |sum| self.by_segment(sum));
        self.is_token().unsqueeze(2).select(&left, &self.b.float(0.0))
    }

    /// The last `taps` values until each token of `x` `[T, n]`, the eldest first, each `[T, n]`: those of earlier steps were
    /// remembered as `name`. And the next version of what is remembered of them.
    pub(super) fn last_values(&self, name: &str, x: &Tensor, taps: i64) -> (Vec<Tensor>, Tensor) {
        let (b, kept, n) = (&self.b, taps - 1, x.len(1));
        let int = |value: i64| b.int32(value);
        let add = |x: &Tensor, y: &Tensor| x.binary(BinOp::Add, y);
        // The `kept` values before a step, the eldest first.
        let state = self.state(name, &[kept, n]);
        let rows = state.reshape(dims![self.places * kept, n]);
        let before = |place: &Tensor, begins: &Tensor, number: &Tensor| {
            // Number -1 is the last one before the step.
            let row = add(&add(&place.binary(BinOp::Mul, &int(kept)), &int(kept)), number);
            self.unless_begun(begins, &rows.gather(&row))
        };
        let token = b.iota(self.t);
        let (place, begins) = match self.single {
            true => (self.place.clone(), self.begins.clone()),
            false => (self.place.gather(&self.segment), self.begins.gather(&self.segment)),
        };
        let value = |back: i64| {
            let number = self.number.binary(BinOp::Sub, &int(back));
            let before = before(&place, &begins, &number);
            match self.single {
                true => before,
                false => {
                    let here = x.gather(&token.binary(BinOp::Sub, &int(back)));
                    number.lt(&int(0)).unsqueeze(1).select(&before, &here)
                }
            }
        };
        let mut values: Vec<Tensor> = (1..taps).rev().map(value).collect();
        values.push(x.clone());
        // The same for the token after the last of each sequence.
        let all = |x: &Tensor| x.unsqueeze(1).expand(&[self.count, kept.into()]);
        let number = add(&self.len.unsqueeze(1), &(b.iota(kept).binary(BinOp::Sub, &int(kept))));
        let before = before(&all(&self.place), &all(&self.begins), &number);
        let here = x.gather(&add(&self.first.unsqueeze(1), &number));
        let next = number.lt(&int(0)).unsqueeze(2).select(&before, &here);
        (values, self.remember(&state, &next))
    }
}

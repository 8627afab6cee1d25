//! The sequences of a step that remember: where their tokens are, and where their states.
//!
//! The tokens of a sequence follow each other in a step. What a layer remembers of a sequence has one row in a state, its
//! *place*, which is given on the host ([`crate::batch::Batch`]); a sequence that begins, with position 0, remembers
//! nothing, whatever lies in its place.

use super::Sizes;
use compiler::tensor::Runs;
use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, DType};

/// What the names of states of layers that remember begin with.
pub const REMEMBERED: &str = "state.";

/// Values `[.., a * b]` as `[.., a, b]`.
pub(crate) fn last_as_two(x: &Tensor, [a, b]: [i64; 2]) -> Tensor {
    let mut shape = x.shape();
    shape.pop();
    shape.extend(dims![a, b]);
    x.reshape(&shape)
}

/// The sequences of a step.
pub(super) struct Segments {
    b: Builder,
    /// Tokens.
    t: Dim,
    /// Sequences.
    count: Dim,
    /// Whether the step is one token.
    pub(super) single: bool,
    /// Its tokens by sequence, if it has several.
    runs: Option<Runs>,
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

/// The sequences of a step of several tokens.
fn count(b: &Builder, sizes: &Sizes) -> Dim {
    Dim::Sym(b.var("segments", 1, sizes.segments.min(sizes.class.tokens(sizes.most_tokens).1)))
}

/// The last position in the step of the sequence of each token, `[T]`.
pub(super) fn last(b: &Builder, sizes: &Sizes, segment: &Tensor, position: &Tensor) -> Tensor {
    if sizes.class.one() {
        return position.clone();
    }
    let count = count(b, sizes);
    let input = |name: &str| b.input(name, DType::I32, &[count]);
    let end = input("segment_first").binary(BinOp::Add, &input("segment_len"));
    position.gather(&end.binary(BinOp::Sub, &b.int32(1))).gather(segment)
}

impl Segments {
    /// The sequences of the tokens `[T]` of these segments and positions.
    pub(super) fn new(b: &Builder, t: Dim, sizes: &Sizes, segment: &Tensor, position: &Tensor) -> Segments {
        let single = sizes.class.one();
        let count = match single {
            true => Dim::Const(1),
            false => count(b, sizes),
        };
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
        let runs = (!single).then(|| Runs {
            begins: number.equal(&b.int32(0)),
            ends: number.equal(&len.binary(BinOp::Sub, &b.int32(1)).gather(&segment)),
            run: segment.clone(),
            count,
        });
        let (b, places) = (b.clone(), sizes.segments);
        Segments { b, t, count, single, runs, places, place, first, len, begins, segment, number }
    }

    /// What a layer remembers: `shape` values for each place.
    fn state(&self, name: &str, shape: &[i64]) -> Tensor {
        let shape: Vec<Dim> = std::iter::once(&self.places).chain(shape).map(|&n| Dim::Const(n)).collect();
        self.b.state(name, DType::F32, &shape)
    }

    /// The rows of a state of each sequence `[count, ..]`, as they were before the step.
    fn remembered(&self, state: &Tensor) -> Tensor {
        self.unless_begun(&self.begins, &state.gather(&self.place))
    }

    /// The rows of a state of each sequence `[count, ..]`, in the version that a step has made of it.
    fn rows(&self, version: &Tensor) -> Tensor {
        version.gather(&self.place)
    }

    /// As [`Segments::remembered`] for each token, `[T, ..]`.
    fn remembered_by_tokens(&self, state: &Tensor) -> Tensor {
        let begins = self.begins.gather(&self.segment);
        self.unless_begun(&begins, &state.gather(&self.place.gather(&self.segment)))
    }

    /// Rows, or zeros where a sequence begins: what another one left may be anything.
    fn unless_begun(&self, begins: &Tensor, rows: &Tensor) -> Tensor {
        let mut shape = begins.shape();
        shape.resize(rows.rank(), Dim::Const(1));
        begins.reshape(&shape).select(&self.b.float(0.0), rows)
    }

    /// The next version of a state, of which these are the rows of each sequence.
    fn remember(&self, state: &Tensor, rows: &Tensor) -> Tensor {
        state.scatter(&self.place, rows)
    }

    /// What a layer carries from token to token of a sequence, and remembers by a name, and what is given of it at each token
    /// `[T, ..]`: [`Runs::carry`], with states of this shape, zero at the first token of all.
    pub(super) fn carried<const N: usize>(
        &self,
        (name, shape): (&str, &[i64]),
        inputs: [&Tensor; N],
        next: impl FnOnce(&Tensor, [Tensor; N]) -> Tensor,
        given: impl FnOnce([&Tensor; 2], [Tensor; N]) -> Tensor,
        states: &mut Vec<Tensor>,
    ) -> Tensor {
        let kept = self.state(name, shape);
        if let Some(runs) = &self.runs {
            let [last, found] = runs.carry(&self.remembered_by_tokens(&kept), inputs, next, given);
            states.push(self.remember(&kept, &last));
            return found;
        }
        let only = |x: &Tensor| x.reshape(&x.shape()[1..]);
        let (so_far, of_step) = (only(&self.remembered(&kept)), inputs.map(only));
        let version = self.remember(&kept, &next(&so_far, of_step.clone()).unsqueeze(0));
        states.push(version.clone());
        given([&so_far, &only(&self.rows(&version))], of_step).unsqueeze(0)
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

//! The stretch of the past that tokens of some layers see, as tensor code and in plain numbers.
//!
//! Pages of the cache before it need not be read: what attention of such a layer costs then does not grow with the text.

use crate::cache::PAGE;
use crate::config;
use compiler::{Builder, Options, Tensor};
use ir::{BinOp, DType, UnOp};

/// A window of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Positions that a token sees at most, its own included.
    width: i64,
    /// Positions behind its own that it sees at most, where it sees what follows.
    ahead: i64,
    /// Whether it sees those of its chunk of so many, instead of the last so many.
    chunks: bool,
    /// Whether pages before them are left out. Otherwise they are read and not seen.
    skips: bool,
}

impl Window {
    /// The window of a model, in programs with such options.
    pub fn new(window: &config::Window, options: &Options) -> Window {
        Window { width: window.width, ahead: window.ahead, chunks: window.chunks, skips: options.allows("window") }
    }

    /// Pages that tokens read at most which follow each other, if that is a bound.
    pub fn most_pages(self, tokens: i64) -> Option<i64> {
        // The first of them may be the last position of a page.
        self.skips.then(|| (self.width + self.ahead + tokens + PAGE - 3) / PAGE + 1)
    }

    /// The first page that a token at `position` reads, which may be any tensor of positions, unless that is the first of all.
    pub(crate) fn first_page(self, b: &Builder, position: &Tensor) -> Option<Tensor> {
        let first = || match self.chunks {
            true => self.chunk_of(b, position),
            false => position.binary(BinOp::Sub, &b.int32(self.width - 1)).maximum(&b.int32(0)),
        };
        self.skips.then(|| first().binary(BinOp::Div, &b.int32(PAGE)))
    }

    /// Where the chunk of a position begins.
    fn chunk_of(self, b: &Builder, position: &Tensor) -> Tensor {
        let width = b.int32(self.width);
        position.binary(BinOp::Div, &width).binary(BinOp::Mul, &width)
    }
}

/// The last position that tokens at `position` see: their own, or that of their sequence in the step, which is `last`, as far
/// as their window goes if they have one.
pub(crate) fn end_of_sight(b: &Builder, position: &Tensor, last: Option<&Tensor>, window: Option<Window>) -> Tensor {
    match (last, window) {
        (None, _) => position.clone(),
        (Some(last), None) => last.clone(),
        (Some(last), Some(window)) => position.binary(BinOp::Add, &b.int32(window.ahead)).binary(BinOp::Min, last),
    }
}

/// Positions between tokens at `position` and position `at`, which may follow them if they see what does.
pub(crate) fn distance(position: &Tensor, at: &Tensor, sees_ahead: bool) -> Tensor {
    let distance = position.binary(BinOp::Sub, at).cast(DType::F32);
    if sees_ahead { distance.unary(UnOp::Abs) } else { distance }
}

/// Whether tokens at `position`, which see `end` at last, see position `at`: it is in their window if they have one.
pub(crate) fn visible(b: &Builder, position: &Tensor, end: &Tensor, at: &Tensor, window: Option<Window>) -> Tensor {
    let until = at.lt(&end.binary(BinOp::Add, &b.int32(1)));
    match window {
        None => until,
        Some(window) if window.chunks => {
            let begun = window.chunk_of(b, position).lt(&at.binary(BinOp::Add, &b.int32(1)));
            until.binary(BinOp::And, &begun)
        }
        Some(Window { width, .. }) => until.binary(BinOp::And, &position.lt(&at.binary(BinOp::Add, &b.int32(width)))),
    }
}

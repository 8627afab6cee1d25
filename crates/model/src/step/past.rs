//! What each token of a step reads of the cache, where it is read token by token: its pages, cut into splits.

use super::index_div_up;
use crate::cache::PAGE;
use crate::window::{Window, end_of_sight, visible};
use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, Id};

/// The pages that tokens read. Those of a split are its *tiles*.
pub(super) struct Past {
    /// Page that tile `i` of split `s` reads, `[T, splits, tiles]`; or rows of the cache, `[T, splits, tiles, PAGE]`, where an
    /// index chooses them.
    pub(super) page: Tensor,
    /// Tiles of each split, `[T, splits]`.
    pub(super) tiles: Tensor,
    /// Splits that have tiles: the first of them, `[T, 1]`.
    pub(super) used: Tensor,
    /// Position `j` of that tile, `[1, splits, tiles, PAGE]`; `[T, splits, tiles, PAGE]` where tokens do not begin with the
    /// same page.
    pub(super) at: Tensor,
    /// Whether it is visible, `[T, splits, tiles, PAGE]`.
    pub(super) visible: Tensor,
    /// The score of what is not: finite where a token may see nothing of a tile.
    pub(super) unseen: f32,
    pub(super) splits: i64,
    /// Tiles of a split at most.
    pub(super) most_tiles: Dim,
}

impl Past {
    /// What tokens at `position` `[T]` read in so many splits, with `most` pages of a sequence at most; `pick` finds those of
    /// each token by their numbers. If they see what follows, their sequences end in the step at `last` `[T]`.
    pub(super) fn new(
        b: &Builder,
        (position, last): (&Tensor, Option<&Tensor>),
        pick: impl Fn(&Tensor) -> Tensor,
        most: Id,
        splits: i64,
        window: Option<Window>,
    ) -> Past {
        let (t, page_len) = (position.shape()[0], b.int32(PAGE));
        let first = window.and_then(|window| window.first_page(b, position));
        let pages = window.and_then(|window| window.most_pages(1));
        let most = pages.map_or(most, |pages| b.index(BinOp::Min, most, pages));
        let splits = pages.map_or(splits, |pages| splits.min(pages));
        // Split s reads tiles s, s + splits, s + 2 splits, …
        let (n, s, most_tiles) = (b.int32(splits), b.iota(splits), index_div_up(b, most, splits));
        let i = b.iota(Dim::Sym(most_tiles));
        let tile = i
            .reshape(dims![1, 1, most_tiles])
            .binary(BinOp::Mul, &n)
            .binary(BinOp::Add, &s.reshape(dims![1, splits, 1]));
        let end = end_of_sight(b, position, last, window);
        let last = end.binary(BinOp::Div, &page_len);
        let (tile, last) = match &first {
            None => (tile, last),
            Some(first) => (tile.binary(BinOp::Add, &first.reshape(dims![t, 1, 1])), last.binary(BinOp::Sub, first)),
        };
        let last = last.reshape(dims![t, 1]);
        let tiles = last.binary(BinOp::Add, &n).binary(BinOp::Sub, &s.reshape(dims![1, splits])).binary(BinOp::Div, &n);
        let used = last.binary(BinOp::Add, &b.int32(1)).binary(BinOp::Min, &n);
        let page = pick(&tile);
        let mut shape = tile.shape();
        shape.push(Dim::Const(1));
        let at = tile
            .reshape(&shape)
            .binary(BinOp::Mul, &page_len)
            .binary(BinOp::Add, &b.iota(PAGE).reshape(dims![1, 1, 1, PAGE]));
        let of_tokens = |x: &Tensor| x.reshape(dims![t, 1, 1, 1]);
        let visible = visible(b, &of_tokens(position), &of_tokens(&end), &at, window);
        let unseen = if window.is_some() { f32::MIN } else { f32::NEG_INFINITY };
        Past { page, tiles, used, at, visible, unseen, splits, most_tiles: Dim::Sym(most_tiles) }
    }
}

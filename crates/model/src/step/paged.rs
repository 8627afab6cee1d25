//! Where the positions of a sequence lie in a cache: in pages of [`PAGE`] positions, by a table.

use crate::cache::PAGE;
use compiler::{Builder, Dim, Tensor};
use ir::{BinOp, DType, Id};

/// The pages of the sequences of a step, row after row.
pub(crate) struct PageTable {
    /// `[segments * row_pages]`.
    pub(crate) table: Tensor,
    /// Pages of a row.
    pub(crate) row_pages: Id,
}

impl PageTable {
    /// The pages `i` `[T, …]` of the segments `[T]`: `table[segment, i]`.
    pub(crate) fn pages(&self, segment: &Tensor, i: &Tensor) -> Tensor {
        let n = segment.builder().tensor(self.row_pages).cast(DType::I32);
        let base = segment.binary(BinOp::Mul, &n);
        let mut shape = base.shape();
        shape.resize(i.rank(), Dim::Const(1));
        self.table.gather(&base.reshape(&shape).binary(BinOp::Add, i))
    }
}

/// A cache in pages.
pub(super) struct Paged {
    /// How many it has.
    pub(super) pages: Id,
    /// Row of the cache that each token writes, `[T]`.
    pub(super) row: Tensor,
}

impl Paged {
    /// A cache of so many pages, in which tokens of segments `[T]` at positions `[T]` lie by this table.
    pub(super) fn new(b: &Builder, pages: Id, table: &PageTable, segment: &Tensor, position: &Tensor) -> Paged {
        let len = b.int32(PAGE);
        let page = table.pages(segment, &position.binary(BinOp::Div, &len));
        let row = page.binary(BinOp::Mul, &len).binary(BinOp::Add, &position.binary(BinOp::Mod, &len));
        Paged { pages, row }
    }
}

//! Where a block of threads keeps what a nest keeps: one element to a thread, elements in fragments of products, rows of
//! halves in shared memory.

use crate::kernel::expression::replace;
use ir::{Axis, Graph, Id};
use rustc_hash::FxHashMap;

/// What lies in the fragments of products.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InFragments {
    /// Nothing.
    Nothing,
    /// Elements of tiles, until what is computed of them is stored.
    Elements,
    /// What a loop adds products to.
    Carriers,
    /// All that a loop computes, row by row.
    Rows,
}

/// Which threads have an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// So many threads in a row have the same one.
    Every(i64),
    /// All threads of the block have the only one.
    All,
}

/// A stash that lies in registers.
pub(super) struct Held {
    pub(super) acc: Id,
    pub(super) spread: Spread,
    /// Whether it lies in shared memory as well.
    pub(super) shared: bool,
}

/// A stash that lies in fragments.
pub(super) struct Carrier {
    /// Registers of a lane, in the order of their fragments.
    pub(super) accs: Vec<Id>,
    pub(super) layout: Fragments,
    /// Whether the rows of the product are the first dimension.
    pub(super) rows_first: bool,
}

/// Which elements lie in the fragments of a lane.
pub(super) enum Fragments {
    /// Those of the tiles of a product.
    Tiles(Layout),
    /// Those of the rows of a warp.
    Rows(RowLayout),
    /// Those that it takes of the tiles of a product that a warp has as a whole.
    Whole(Tiles),
}

/// A matrix of whose rows each warp has 16.
pub(super) struct RowLayout {
    pub(super) rows: i64,
    pub(super) columns: i64,
}

/// Which tiles of a result a warp has.
pub(super) struct Layout {
    pub(super) short: i64,
    /// Tiles that a warp has side by side: as many as share rows, if there is work for all warps.
    pub(super) side: i64,
    /// Such groups along a row of tiles, and in all.
    pub(super) across: i64,
    pub(super) units: i64,
    pub(super) rounds: i64,
}

/// Elements of a tile that the lanes of a warp take in one turn.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// Each has so many neighbours of a column, and the next lane those that follow.
    DownColumns(i64),
    /// Each has one element, and the next lane that of the next column.
    AlongRows,
}

/// Which tiles of a result a warp has as a whole.
pub(super) struct Tiles {
    pub(super) long: i64,
    pub(super) short: i64,
    /// Tiles along a row.
    pub(super) across: i64,
    /// Tiles of a warp, which follow each other along the columns, and in all.
    pub(super) each: i64,
    pub(super) all: i64,
    /// How lanes take the elements of a tile.
    pub(super) turn: Turn,
}

/// Rows of halves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rows {
    pub(super) from: Source,
    pub(super) rows: i64,
    pub(super) columns: i64,
}

/// What rows of halves are copies of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// Rows in memory, a fixed distance apart.
    Memory { buffer: Id, first: Id, stride: i64 },
    /// What is computed of memory: a half of [`Source::place`].
    Computed(Id),
}

impl Source {
    /// The row and the column that a computed half is said of: ranges of their own, so that sums along rows and across them
    /// say the same.
    pub(super) fn place(g: &mut Graph, rows: i64, columns: i64) -> [Id; 2] {
        [(u32::MAX, rows), (u32::MAX - 1, columns)].map(|(number, extent)| {
            let extent = g.int(extent);
            g.range(number, Axis::Loop, extent)
        })
    }

    /// With this in place of a range.
    pub(super) fn replaced(&self, g: &mut Graph, range: Id, by: Id) -> Source {
        match *self {
            Source::Memory { buffer, first, stride } => {
                Source::Memory { buffer, first: replace(g, first, range, by), stride }
            }
            Source::Computed(value) => Source::Computed(replace(g, value, range, by)),
        }
    }
}

/// What a thread copies: statements that load into registers, and those that store from them.
pub(super) type Copies = Vec<(Vec<Id>, Vec<Id>)>;

/// What lies in shared memory while a phase runs.
#[derive(Default)]
pub(super) struct Staged {
    /// The loop of the phase.
    pub(super) serial: Option<Id>,
    /// What is copied before it.
    pub(super) before: Copies,
    pub(super) tiles: FxHashMap<Rows, Id>,
}

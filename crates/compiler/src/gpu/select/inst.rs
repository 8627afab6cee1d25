//! How a thread computes a value, whatever the language.

use ir::{BinOp, Const, Id, ReduceOp};

/// How a value is computed, or a store done. What it is computed from are the sources of its node, unless it names others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inst {
    /// A matrix in shared memory, loaded as a whole.
    Matrix {
        /// The memory.
        buffer: Id,
        /// Its first element.
        at: Id,
        /// Elements from one row to the next.
        pitch: i64,
        /// Whether rows and columns change places.
        transposed: bool,
    },
    /// Matrices of a warp loaded from shared memory and exchanged at once.
    Fragment {
        /// The memory.
        buffer: Id,
        /// The first element of a row of this lane.
        at: Id,
        /// Whether rows and columns change places.
        transposed: bool,
    },
    /// A product of matrices of bytes from nothing on, whose sums become floats without a conversion.
    ProductAsFloat {
        /// The first matrix.
        rows: Id,
        /// The second one.
        columns: Id,
    },
    /// Signed codes, four in a word, times a half, as halves: what floats would be rounded to.
    ScaledCodes {
        /// The codes.
        codes: Id,
        /// The half.
        scale: Id,
    },
    /// Floats as bf16 numbers, two in a word.
    Pairs,
    /// Codes, four in a word, less a number, as bf16 numbers, which are exact.
    HalvesOfCodes {
        /// The codes: signed, or below 128.
        codes: Id,
        /// What is subtracted of them.
        less: i64,
    },
    /// A product of bf16 numbers, plus another one, rounded to a bf16 number. Each is a vector, or a scalar for all lanes.
    HalfProduct {
        /// What is multiplied.
        factors: [Id; 2],
        /// What is added.
        rest: Option<Id>,
    },
    /// A product of matrices of a warp, added to its sums.
    Product,
    /// The same of four warps, for many columns that lie in shared memory: pieces of 8 elements, those of neighbouring columns
    /// one after another, and so many elements further the next ones of the same columns.
    GroupProduct {
        /// The memory.
        buffer: Id,
        /// The first element.
        at: Id,
        /// Elements from one piece of a column to the next.
        apart: i64,
    },
    /// Four products of bytes added to a sum; for each lane of a vector.
    Dot4,
    /// A load.
    Load(Access),
    /// A store.
    Store(Access),
    /// A load and the store of it to shared memory, where it is behind the next barrier.
    Copy {
        /// The memory.
        from: Id,
        /// The first element there.
        at: Id,
    },
    /// Entries of a table of sixteen bytes, a lane at a time.
    Lookup([u32; 4]),
    /// The same for four bytes at a time.
    LookupFours([u32; 4]),
    /// Known bytes, four in a word.
    Words(Vec<u32>),
    /// Known lanes.
    Lanes(Vec<Const>),
    /// An operation of bits on words.
    Bitwise(BinOp),
    /// Two of them one after the other, of words and of two that are known.
    Masked {
        /// The operations.
        ops: [BinOp; 2],
        /// The words, and what is known.
        of: [Id; 3],
        /// How far the words are shifted before; what comes from another byte is masked.
        shift: Option<(BinOp, u32)>,
    },
    /// Bytes of the same bits as other bytes.
    SameBits,
    /// Words shifted, and what came from another byte cut off: `(distance, bits that stay)` of each word.
    ShiftedWords(BinOp, Vec<(u32, u32)>),
    /// Words of other bytes.
    WordsOf(Vec<u16>),
    /// Lanes of another vector.
    LanesOf(Vec<u16>),
    /// Vectors and scalars one after another.
    Joined(Vec<Piece>),
    /// A scalar in every lane.
    Splat,
    /// A lane of a vector.
    Lane(u16),
    /// The value of the lane of a warp whose number differs by these bits.
    Exchanged(u16),
    /// A reduction over the lanes of a vector.
    Across(ReduceOp),
    /// An operation of one element, or of each lane.
    Elementwise {
        /// Whether an index needs 64 bits.
        wide: bool,
        /// Whether the first operand is known not to be negative, so that a division may cut.
        natural: bool,
    },
}

/// How memory is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// One element of the type of the memory.
    Element,
    /// All lanes by one instruction, at a multiple of their bytes.
    Whole,
    /// A number byte by byte.
    Bytes,
}

/// A part of a vector that is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// So many words from this word on.
    Words(usize, usize),
    /// A scalar as this lane.
    Scalar(usize),
    /// So many lanes from this lane on.
    Lanes(usize, usize),
}

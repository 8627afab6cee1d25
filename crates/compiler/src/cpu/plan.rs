//! Widths and unrolling for the cores of a CPU.
//!
//! Every plan gives the same result up to the order of sums; the plan without vectors is the plainest kernel.

/// Bytes ahead that weights are asked for: what a core reads, at some 20 GB/s, while a busy memory answers once.
const AHEAD: i64 = 9216;

/// The same from the second cache to the first; half of it is as good (bench/JOURNAL.md).
const AHEAD_NEAR: i64 = 2304;

/// Rows stream past up to eight tokens: the class of steps of few tokens of a model ends there too, so that its programs
/// hold this form only.
const STREAM_BELOW: i64 = 9;

/// Widths and unrolling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Bytes of a vector; 0 keeps everything scalar.
    pub vector_bytes: usize,
    /// Rows of a matrix that are multiplied side by side.
    pub rows: i64,
    /// As `rows`, for packed weights that a step reads once: several streams
    /// through memory can be slower than one.
    pub stream_rows: i64,
    /// Accumulators of a reduction along lanes.
    pub chains: i64,
    /// Bytes ahead that weights are asked for, into the second cache where they are asked for again; 0 never.
    pub prefetch_l2: i64,
    /// Bytes ahead that they are asked for again, into the nearest cache, which holds little and takes few requests at a
    /// time; 0 for once only.
    pub prefetch_l1: i64,
    /// Tokens of a step that are multiplied side by side with unpacked weights,
    /// a power of two; 1 never.
    pub tokens: i64,
    /// Vectors of unpacked rows that are multiplied side by side with as many fewer tokens, a power of two: a value of a
    /// token is loaded for all of them.
    pub row_vectors: i64,
    /// Whether there is a matrix unit for [`ir::Op::Product`]; rows of block formats are then multiplied in bf16 where a
    /// step has many tokens.
    pub matrix_unit: bool,
    /// Whether sums of products of codes become packed integer dots.
    pub dots: bool,
    /// Whether products of codes are summed by twos in 16 bits first, as far as they fit: machines whose packed products
    /// add no more than two.
    pub pairs: bool,
    /// Whether sums of several groups share a vector before they are scaled, where they are in 16 bits.
    pub hadd: bool,
    /// Whether factors that are made of bits of several bytes stay bytes until they are whole.
    pub packed_scales: bool,
    /// Whether words that lie apart are blended from wide loads, in vectors of 64 bytes.
    pub blends: bool,
    /// Whether two vectors of codes exchange halves of their groups, so that one conversion and one factor serve both.
    pub interleave: bool,
    /// Fewer tokens than this are multiplied with rows as they come, which are unpacked once for a few of them and laid
    /// out for none; 0 never, so that a token's sums have the same order whatever is beside it.
    pub stream_below: i64,
    /// Whether long sums are cut, so that their inputs and rows that are laid out stay in a near cache.
    pub panels: bool,
    /// Whether values that lie along another dimension than their results are transposed in registers.
    pub transposed_map: bool,
}

impl Plan {
    /// Vectors of sums that are kept side by side: half of the registers, so that a load of either operand serves
    /// several.
    pub(super) fn sums(&self) -> i64 {
        self.rows * if self.vector_bytes >= 64 { 4 } else { 2 }
    }

    /// The defaults for vectors of this many bytes.
    pub fn of_vectors(vector_bytes: usize) -> Plan {
        Plan {
            vector_bytes,
            rows: 4,
            stream_rows: 1,
            chains: 4,
            prefetch_l2: AHEAD,
            prefetch_l1: AHEAD_NEAR,
            tokens: 8,
            row_vectors: 1,
            matrix_unit: false,
            dots: true,
            pairs: false,
            hadd: true,
            packed_scales: true,
            blends: true,
            interleave: true,
            stream_below: STREAM_BELOW,
            panels: true,
            transposed_map: true,
        }
    }

    /// No vectors, no unrolling: the plainest kernel.
    pub fn scalar() -> Plan {
        let plan = Plan::of_vectors(0);
        Plan { rows: 1, chains: 1, prefetch_l2: 0, prefetch_l1: 0, tokens: 1, stream_below: 0, ..plan }
    }
}

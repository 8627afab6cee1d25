//! The operations of the three vocabularies.

use crate::{CustomSource, DType, FormatId};

/// A constant of any element type. Floats are compared by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Const {
    /// Integers, truth values and indices.
    Int(i64),
    /// Bits of an `f32`; other float types are converted from it.
    Float(u32),
}

impl Const {
    /// A float constant.
    pub fn f32(v: f32) -> Const {
        Const::Float(v.to_bits())
    }

    /// The value as a float.
    pub fn as_f32(self) -> f32 {
        match self {
            Const::Int(v) => v as f32,
            Const::Float(b) => f32::from_bits(b),
        }
    }

    /// The value as an integer; floats are truncated.
    pub fn as_int(self) -> i64 {
        match self {
            Const::Int(v) => v,
            Const::Float(b) => f32::from_bits(b) as i64,
        }
    }
}

/// Functions of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnOp {
    /// Sign change.
    Neg,
    /// e to the power.
    Exp,
    /// Square root.
    Sqrt,
    /// One over the square root.
    Rsqrt,
    /// One over the value.
    Recip,
    /// Sine of a value in radians; on a GPU exact to 2^-22 up to some 10^4 radians.
    Sin,
    /// Cosine of a value in radians; as for the sine.
    Cos,
    /// Absolute value.
    Abs,
    /// To the nearest integer, halves away from zero.
    Round,
    /// Logical negation.
    Not,
    /// Two to the power of an integer-valued input minus nothing: used for
    /// exponent-only scales. Exact for every finite result.
    Exp2,
}

/// Functions of two values of the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BinOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient; of integers, rounded towards minus infinity.
    Div,
    /// Remainder of integers, with the sign of the divisor.
    Mod,
    /// The smaller; NaN if one is NaN.
    Min,
    /// The larger; NaN if one is NaN.
    Max,
    /// Bitwise or logical and.
    And,
    /// Bitwise or logical or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Left shift.
    Shl,
    /// Right shift; arithmetic on signed types.
    Shr,
    /// Less than, to a truth value.
    Lt,
    /// Equal, to a truth value.
    Eq,
}

/// The carrier of a plain reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReduceOp {
    /// Sum, identity 0.
    Sum,
    /// Maximum, identity minus infinity or the least integer.
    Max,
}

/// Which part of a quantised block a [`Op::Dequant`] yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The weight itself, f32.
    Value,
    /// The code as an unsigned byte: signed codes and table entries are
    /// shifted up so that 0 is their least value.
    Code,
    /// What the code stands for as a signed byte, shifted up by as many bits as its format says
    /// ([`level_shift`](gguf::format::Blocks::level_shift)): the weight is scale times this, divided by that power of two.
    Level,
    /// f32 factor of the code, one for each group of equal factors.
    Scale,
    /// f32 term that does not depend on the code, one for each group.
    Offset,
}

/// How a loop is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Independent tasks: a task queue on a CPU, the grid on a GPU.
    Task,
    /// A serial loop.
    Loop,
    /// The warps of a block of threads, which run one task together. Has no loop: each thread knows its number.
    Warp,
    /// The lanes of a warp, as many as its extent says, which run in step and can read each other's registers. Has no loop.
    Lane,
}

/// Lanes of a warp whose registers hold a matrix together ([`Op::Fragment`]).
pub const FRAGMENT_LANES: usize = 32;

/// Where a buffer of a kernel lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// A parameter that the kernel only reads.
    Input,
    /// A parameter that the kernel writes.
    Output,
    /// Scratch of one task (a Stash).
    Task,
    /// As `Task`, in the fast memory that the threads of a block share. Slots are counted together with `Task`.
    Shared,
    /// As `Input`, of which nothing changes while a step runs: weights and tables. It may be read before [`Op::Wait`].
    Weight,
}

impl Space {
    /// Whether it holds scratch rather than parameters.
    pub fn is_scratch(self) -> bool {
        matches!(self, Space::Task | Space::Shared)
    }

    /// Whether it is a parameter that is only read.
    pub fn is_read_only(self) -> bool {
        matches!(self, Space::Input | Space::Weight)
    }

    /// Whether it may be touched before a launch waits for those before it.
    pub fn is_early(self) -> bool {
        self.is_scratch() || self == Space::Weight
    }
}

/// What a node computes. The sources of each operation are listed with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    // ---- shared by tensors and kernels: elementwise on equal shapes ----
    /// A constant; on tensors, a scalar that is expanded.
    Const(Const),
    /// `f(a)`.
    Unary(UnOp),
    /// `f(a, b)`.
    Binary(BinOp),
    /// `(condition, if true, if false)`.
    Where,
    /// Conversion to the type of the node; floats to integers truncate.
    Cast,
    /// A symbolic integer with its least and greatest value. No sources.
    Var {
        /// Name, unique in a program.
        name: String,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
        /// What it is as a rule: plans and prices are for that.
        usual: i64,
    },

    // ---- tensors ----
    /// A tensor that a step reads: weights or inputs. No sources.
    Param {
        /// Name, unique in a program (or the slot number of a kernel).
        name: String,
    },
    /// A tensor that a step may overwrite. No sources.
    State {
        /// Name, unique in a program.
        name: String,
    },
    /// The same elements in row-major order under the shape of the node.
    Reshape,
    /// Dimension `i` of the result is dimension `perm[i]` of the source.
    Permute(Vec<usize>),
    /// Dimensions of length 1 repeated to the shape of the node.
    Expand,
    /// `start .. start + length` of one dimension, the length being in the shape.
    Slice {
        /// The dimension.
        axis: usize,
        /// First index.
        start: i64,
    },
    /// The sources one after another along a dimension.
    Concat(usize),
    /// A reduction of the listed dimensions, which disappear.
    Reduce(ReduceOp, Vec<usize>),
    /// `(table, index)`: the rows `table[index]`; shape is that of the index
    /// followed by the rest of the table. An index out of range reads row 0 or
    /// the last row (it is clamped).
    Gather,
    /// `(state, index, rows)`: the next version of the state, in which the rows
    /// of `index` are replaced. The indices are distinct.
    Scatter,
    /// Inclusive prefix sum along a dimension.
    Scan(usize),
    /// Part of a quantised tensor. Source: its bytes `[.., row bytes]`.
    Dequant(FormatId, Part),
    /// The indices (i32) of the `k` largest of the last dimension, in
    /// descending order; NaN comes last, ties go to the lower index.
    TopK(usize),
    /// A reduction with a carrier of `parts` values, folded in order along
    /// `axis`. Sources: the parts, the merged values as expressions of
    /// `Arg(0..n)` (so far) and `Arg(n..2n)` (next), the identities (scalar
    /// constants), and the number of steps that count: an index tensor whose
    /// shape is that of the parts before `axis`.
    Fold {
        /// The dimension, equal in all parts.
        axis: usize,
        /// Which of the parts this node yields.
        part: usize,
        /// How many parts there are.
        parts: usize,
    },
    /// A value that is carried from step to step, and what is read of it on the way: all steps one after another, in runs of
    /// which each begins with a value of its own. Sources, of which the first dimension are the steps where nothing else is
    /// said: whether a run begins at a step, the first of all included, whether it ends there, and its number, all i32
    /// `[steps]`; what a run begins with; the inputs; then, without that dimension, what is carried on, and what is given, as
    /// expressions of `Arg(0)` (carried so far), `Arg(1 ..= inputs)` (the inputs of the step) and, in what is given,
    /// `Arg(inputs + 1)` (carried on; such an expression reads `Arg(0)` inside of reductions at most, which are made before).
    /// The leading dimensions of what is carried are those of what is given. It is changed where it lies: an expression reads
    /// each element at its own index, or in reductions over the other dimensions.
    Recur {
        /// How many inputs there are.
        inputs: usize,
        /// What this node yields: 0 for what each run carries on from its last step, `[runs, ..]`; else what is given, by its
        /// number, at each step, `[steps, ..]`.
        part: usize,
    },
    /// A placeholder inside the merge of a fold, shaped as the part without
    /// the folded dimension, or inside a recurrence.
    Arg(usize),
    /// The index along the only dimension, i32.
    Iota,
    /// Alternatives of equal meaning, of the same type and shape.
    Choice {
        /// What is chosen, for reports.
        name: String,
        /// A name for each alternative.
        of: Vec<String>,
    },
    /// `(value, counts)`: the value, of which only the first `counts` indices
    /// along the dimension are wanted; what lies past them is unspecified. The
    /// counts are integers, shaped as the value before the dimension.
    Prefix(usize),
    /// A materialisation that the user asked for.
    Fence,
    /// A custom kernel with its own source.
    Call {
        /// Symbol of the function.
        symbol: String,
        /// The function, in each language that it was written in.
        sources: Vec<CustomSource>,
        /// Number of tasks.
        tasks: i64,
    },

    // ---- kernels ----
    /// A loop counter from 0 to the extent. Source: the extent.
    Range(u32, Axis),
    /// A parameter or scratch array of a kernel. No sources.
    Buffer {
        /// Parameter slot or scratch number.
        slot: u32,
        /// Where it lives.
        space: Space,
        /// Number of elements, for scratch.
        len: usize,
    },
    /// `(buffer, index)`: with several lanes, consecutive elements.
    Load,
    /// `(buffer, index, value[, condition])`.
    Store,
    /// An accumulator: a register that [`Op::Set`] writes. No sources.
    Acc(u32),
    /// `(acc, value)*`: all values are computed, then all are written.
    Set,
    /// `(range, statement*)`.
    Loop,
    /// `(condition, statement*)`.
    If,
    /// `(statement*)`.
    Block,
    /// `(buffer, index)`: asks for the line to be fetched into the cache of this level, the nearest being 1.
    Prefetch(u8),
    /// All threads of a block wait for each other; what they wrote in the memory that they share is visible to all, and what
    /// they wrote in memory of the device if it orders that, too. No sources.
    Barrier {
        /// Whether it orders memory of the device.
        memory: bool,
    },
    /// `(value)` of the lane whose number differs in these bits. All lanes of the warp take part.
    LaneXor(u16),
    /// `(rows)`: one, two or four matrices of 8 rows of 16 bytes, as a warp multiplies them: halves, or bytes, that lie in
    /// shared memory, or, for warps that load matrices as a whole, in what the kernel only reads. Lane `l`
    /// gives row `l % 8` of matrix `l / 8`, and gets of each matrix, one after another, the `e` elements that four bytes
    /// have of row `l / 4`, from column `l % 4 * e` on; transposed, which halves can be, of column `l / 4`, from that row
    /// on. All lanes of the warp take part.
    Fragment {
        /// Whether rows are exchanged with columns.
        transposed: bool,
    },
    /// `(f32 sums, rows, columns)` of f16 or bf16, or `(i32 sums, u8 or i8 rows, i8 columns)`: the sums of 16 rows by 8 columns,
    /// each plus an inner product, which the lanes of a warp hold as fragments: of 16 halves, or of 16 or 32 bytes. Element `i`
    /// of the 4 sums of lane `l` is of row `l / 4 + i / 2 * 8` and column `l % 4 * 2 + i % 2`. With `e` elements in four
    /// bytes, element `i` of those of rows is of row `l / 4 + i / e % 2 * 8`, at `l % 4 * e + i % e + i / (2 * e) * 4 * e`
    /// of the sum, and of those of columns of column `l / 4`, at `l % 4 * e + i % e + i / e * 4 * e`. All lanes of the
    /// warp take part. Of halves there may be several times 8 columns, whose sums and fragments follow each other.
    WarpProduct,
    /// `(buffer, index, sums)`: stores the f32 sums of an [`Op::WarpProduct`] to shared memory, that of row `r` and column `c`
    /// at `index + c * pitch + r`. The index is the same for all lanes of the warp, all of which take part.
    StoreFragment {
        /// Distance of columns, in elements.
        pitch: u32,
    },

    // ---- vectors ----
    /// One scalar in every lane.
    Splat,
    /// Lane `i` of the result is lane `map[i]` of the source.
    Shuffle(Vec<u16>),
    /// The lanes of the sources one after another.
    Join,
    /// `(i32 sums, u8 or i8 codes, i8 values)`: each sum plus four products.
    Dot4,
    /// `(i16 sums, u8 codes, i8 values)` or `(i32 sums, i16, i16)`: each sum plus two products. Sums of 16 bits must
    /// fit: some instructions wrap, others saturate.
    Dot2,
    /// `(f32 sums, bf16 rows, bf16 tokens)`: the sums of a block of [`PRODUCT`] rows by as many tokens, each plus an
    /// inner product. Stands for one call of a matrix unit: the sums are loaded from where the result is stored, the
    /// rest is loaded too.
    ///
    /// With halves of 16 rows and 16 tokens and steps of 32 elements: sums are laid out as `[half of the rows][half of
    /// the tokens][row][token]`, rows as `[step][row][element]`, tokens as `[step][half][pair of elements][token][2]`.
    Product,
    /// A reduction of all lanes to a scalar.
    Across(ReduceOp),
    /// A constant vector.
    Lanes(Vec<Const>),
    /// `(table of 16 lanes, index)`: a table look-up by lane.
    Lookup,
    /// One lane as a scalar.
    Extract(u16),

    // ---- launches that overlap ----
    /// All launches before this one are over, and what they wrote is visible. Before it a kernel that has one reads
    /// nothing but weights and its own scratch, and writes its own scratch only. No sources.
    Wait,
    /// The next launch may begin, and run until it waits. No sources.
    Trigger,
    /// `(block*)`: kernels side by side in one launch, each with tasks, scratch and accumulators of its own. The tasks of
    /// the first come first. Their blocks have equally many threads.
    Parts,
}

/// Rows, and tokens, of an [`Op::Product`]; also the elements of one of its steps.
pub const PRODUCT: usize = 32;

impl Op {
    /// Whether nodes of this operation act element by element.
    pub fn is_elementwise(&self) -> bool {
        matches!(self, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast)
    }

    /// Whether it only renames elements.
    pub fn is_movement(&self) -> bool {
        matches!(self, Op::Reshape | Op::Permute(_) | Op::Expand | Op::Slice { .. } | Op::Concat(_))
    }
}

/// The type of a comparison or arithmetic result.
pub(crate) fn binary_type(op: BinOp, a: DType) -> DType {
    match op {
        BinOp::Lt | BinOp::Eq => DType::Bool,
        _ => a,
    }
}

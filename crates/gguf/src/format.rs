//! Quantised block formats **as data**: where each code, scale and minimum of a block lies, and how they make a value.
//!
//! A [`Format`] is a table row, not code. Everything that computes with a format (the reference dequantiser and the
//! quantisers here, the vectorised kernels and the packed integer dots of the compiler) is derived from the row, so
//! that a new format is a row and its tests. Rows are plain owned data: they can also be made at run time.
//!
//! A block of `n` consecutive values of a row holds
//!
//! ```text
//! value(i) = scale(i) * (code(i) - zero) + sign * min(i)
//! scale(i) = float * (sub(i / group) - sub_zero)        (just `float` where there is no sub-scale)
//! ```
//!
//! where `code(i)` may go through a small table first, and `min` has the same shape as `scale`. Integers are gathered
//! from bit [`Plane`]s, whose addresses are affine in the digits of the index written in a mixed radix. That covers
//! every packing of the K-quants. What does not fit: codebooks of vectors (IQ1, IQ2, IQ3), and codes in base 3 ([`crate::ternary`]).

mod check;
mod pack;
mod plan;
mod planes;
mod repack;
mod rows;

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

pub use check::{BLOCK_LIMIT, FormatError};
pub(crate) use pack::mask;
pub(crate) use plan::FieldPlan;
pub use planes::{ALIGN, Planes, UNIT};
pub use repack::Repack;
pub use rows::rows;

/// One digit of an index in a mixed radix; the most significant digit comes first.
///
/// An index `i` below the product of the extents has one value `d` per digit, `0 <= d < extent`, as the indices of a
/// row-major array of that shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit {
    /// Number of values of this digit.
    pub extent: u32,
    /// Bytes by which the address moves when the digit grows by one.
    pub byte: u32,
    /// Bits by which the position inside the byte moves when the digit grows by one.
    pub bit: u32,
}

impl Digit {
    /// A digit that walks over bytes.
    pub const fn bytes(extent: u32, byte: u32) -> Self {
        Digit { extent, byte, bit: 0 }
    }

    /// A digit that walks over the bits of a byte.
    pub const fn bits(extent: u32, bit: u32) -> Self {
        Digit { extent, byte: 0, bit }
    }

    /// A digit that moves nothing: `extent` neighbours share the bits.
    pub const fn shared(extent: u32) -> Self {
        Digit { extent, byte: 0, bit: 0 }
    }
}

/// Some bits of an integer, at an address that varies with the integer's index.
///
/// For digits `d` of the index these are the bits `[shift + Σ d·digit.bit, + width)` of byte `byte + Σ d·digit.byte`
/// of the block; they become the bits `[lsb, lsb + width)` of the integer. A plane never straddles a byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plane {
    /// First byte, counted from the start of the block.
    pub byte: u32,
    /// Lowest bit inside the byte.
    pub shift: u32,
    /// Number of bits, 1 to 8.
    pub width: u32,
    /// Where the bits go in the integer.
    pub lsb: u32,
    /// Digits of the index, most significant first; the product of their extents is the number of integers.
    pub digits: Vec<Digit>,
}

impl Plane {
    /// `width` low bits of the bytes that start at `byte`, as the low bits of the integer.
    pub fn new(byte: u32, width: u32, digits: &[Digit]) -> Self {
        Plane { byte, shift: 0, width, lsb: 0, digits: digits.to_vec() }
    }

    /// The same plane, `shift` bits up inside its bytes.
    pub fn shift(mut self, shift: u32) -> Self {
        self.shift = shift;
        self
    }

    /// The same plane, as the bits of the integer from `lsb` on.
    pub fn lsb(mut self, lsb: u32) -> Self {
        self.lsb = lsb;
        self
    }

    /// Byte and bit of the plane for the integer at `index` (`index` below the product of the extents).
    pub fn address(&self, index: u32) -> (u32, u32) {
        let (mut byte, mut bit, mut rest) = (self.byte, self.shift, index);
        for digit in self.digits.iter().rev() {
            let d = rest % digit.extent;
            rest /= digit.extent;
            byte += d * digit.byte;
            bit += d * digit.bit;
        }
        (byte, bit)
    }
}

/// An array of small integers in a block: the bits of each, gathered from planes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The planes; together they give every bit from 0 to the width of the integer exactly once.
    pub planes: Vec<Plane>,
    /// Two's complement of the total width; otherwise unsigned.
    pub signed: bool,
}

impl Field {
    /// An unsigned field.
    pub fn unsigned(planes: Vec<Plane>) -> Self {
        Field { planes, signed: false }
    }

    /// A field in two's complement.
    pub fn signed(planes: Vec<Plane>) -> Self {
        Field { planes, signed: true }
    }
}

/// How the floating-point part of a scale is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatKind {
    /// IEEE half, little-endian, two bytes.
    F16,
    /// IEEE single, little-endian, four bytes.
    F32,
    /// One byte `e` that stands for `2^(e - 128)`: half of the OCP E8M0 value. 255 is NaN there and invalid here.
    E8M0Half,
    /// One byte: half of the value of the OCP float E4M3 without its sign, 2^-10 to 224 and 0. 127 is NaN there and invalid
    /// here.
    E4M3Half,
    /// Not stored: 1.
    One,
}

/// A scale (or minimum) of every value: a float, most often one for the block, times an integer of the value's group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    /// Type of the float.
    pub kind: FloatKind,
    /// First byte of the float in the block (ignored for [`FloatKind::One`]).
    pub byte: u32,
    /// The integer factor per group; `None` means 1.
    pub sub: Option<SubScale>,
    /// Where the other floats are, if there are several; `None`: one for the whole block.
    pub floats: Option<Floats>,
}

/// Several floats in a block, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Floats {
    /// Consecutive values that share one float.
    pub values: u32,
    /// Bytes from one float to the next.
    pub stride: u32,
}

impl Scale {
    /// One float for the whole block.
    pub fn whole(kind: FloatKind, byte: u32) -> Self {
        Scale { kind, byte, sub: None, floats: None }
    }

    /// A float times `field(i / group) - zero`.
    pub fn grouped(kind: FloatKind, byte: u32, field: Field, group: u32, zero: i32) -> Self {
        Scale { kind, byte, sub: Some(SubScale { field, group, zero }), floats: None }
    }

    /// Number of values that share one scale, in a block of `block` values.
    pub fn group(&self, block: u32) -> u32 {
        self.sub.as_ref().map_or(self.float_values(block), |sub| sub.group)
    }

    /// Number of values that share one float, in a block of `block` values.
    pub fn float_values(&self, block: u32) -> u32 {
        self.floats.map_or(block, |floats| floats.values)
    }
}

/// Integer factors of a scale, one per group of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubScale {
    /// The integers, one per group.
    pub field: Field,
    /// Values per group.
    pub group: u32,
    /// Subtracted from the integer.
    pub zero: i32,
}

/// Layout of a block of quantised values; see the [module](self) for the formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// Values per block. A block never crosses the rows of a tensor.
    pub block: u32,
    /// Bytes per block.
    pub bytes: u32,
    /// The codes, one per value.
    pub code: Field,
    /// What each code stands for; a code stands for itself where there is none.
    pub table: Option<Vec<i8>>,
    /// Subtracted from the code (after the table).
    pub zero: i32,
    /// Factor of the code.
    pub scale: Scale,
    /// Added to the product, with a sign of `1.0` or `-1.0`.
    pub min: Option<(Scale, f32)>,
}

// The sign is 1 or -1 in every row that passes `check`, so bitwise hashing agrees with `==`.
impl Eq for Blocks {}

impl Hash for Blocks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.block, self.bytes, &self.code, &self.table, self.zero, &self.scale).hash(state);
        self.min.as_ref().map(|(scale, sign)| (scale, sign.to_bits())).hash(state);
    }
}

impl Blocks {
    /// What the code `code` stands for, zero point included: the factor of the scale. Codes past the end of the table
    /// (no valid row has them) count as 0.
    pub fn level(&self, code: i32) -> i32 {
        let value = match &self.table {
            Some(table) => usize::try_from(code).ok().and_then(|at| table.get(at)).map_or(0, |&v| i32::from(v)),
            None => code,
        };
        value - self.zero
    }

    /// By how many bits levels ([`Blocks::level`]) are shifted up as signed bytes: to the top of the byte where codes are
    /// numbers in two's complement, or with half of their range subtracted, so that one bit is all that has to be flipped;
    /// not at all where a table says what codes stand for. `None` for other zero points, and for levels beyond a byte.
    pub fn level_shift(&self) -> Option<u32> {
        let width = self.code.width();
        match &self.table {
            Some(_) => {
                let (least, greatest) = self.level_range();
                (least >= i8::MIN.into() && greatest <= i8::MAX.into()).then_some(0)
            }
            None if self.zero == if self.code.signed { 0 } else { 1 << (width - 1) } => 8u32.checked_sub(width),
            None => None,
        }
    }

    /// Least and greatest level ([`Blocks::level`]) over all codes.
    pub fn level_range(&self) -> (i32, i32) {
        match &self.table {
            Some(table) => {
                let least = table.iter().min().map_or(0, |&v| i32::from(v));
                let greatest = table.iter().max().map_or(0, |&v| i32::from(v));
                (least - self.zero, greatest - self.zero)
            }
            None => {
                let (least, greatest) = self.code.range();
                (least - self.zero, greatest - self.zero)
            }
        }
    }
}

/// Element types that are stored one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainKind {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of an IEEE single.
    BF16,
    /// IEEE double.
    F64,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
}

impl PlainKind {
    /// Bytes per element.
    pub const fn bytes(self) -> u32 {
        match self {
            PlainKind::I8 => 1,
            PlainKind::F16 | PlainKind::BF16 | PlainKind::I16 => 2,
            PlainKind::F32 | PlainKind::I32 => 4,
            PlainKind::F64 | PlainKind::I64 => 8,
        }
    }
}

/// How the values of a row are encoded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "rows of the table: few, and never in arrays")]
pub enum Encoding {
    /// One by one, little-endian.
    Plain(PlainKind),
    /// In blocks of quantised values.
    Blocks(Blocks),
}

/// A named encoding: one row of the table of formats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// The name in use in the field (`Q4_K`, `BF16`).
    pub name: Cow<'static, str>,
    /// The encoding.
    pub encoding: Encoding,
}

impl Format {
    /// A format of plain elements.
    pub fn plain(name: impl Into<Cow<'static, str>>, kind: PlainKind) -> Self {
        Format { name: name.into(), encoding: Encoding::Plain(kind) }
    }

    /// A format of quantised blocks.
    pub fn blocks(name: impl Into<Cow<'static, str>>, blocks: Blocks) -> Self {
        Format { name: name.into(), encoding: Encoding::Blocks(blocks) }
    }

    /// The block layout, if this is a block format.
    pub fn as_blocks(&self) -> Option<&Blocks> {
        match &self.encoding {
            Encoding::Blocks(blocks) => Some(blocks),
            Encoding::Plain(_) => None,
        }
    }

    /// Values per block (1 for plain elements).
    pub fn block_len(&self) -> u32 {
        self.as_blocks().map_or(1, |blocks| blocks.block)
    }

    /// Bytes per block (per element for plain elements).
    pub fn block_bytes(&self) -> u32 {
        match &self.encoding {
            Encoding::Plain(kind) => kind.bytes(),
            Encoding::Blocks(blocks) => blocks.bytes,
        }
    }

    /// Bytes of `n` values, or `None` if `n` is not a whole number of blocks or the size overflows.
    pub fn row_bytes(&self, n: u64) -> Option<u64> {
        let block = u64::from(self.block_len());
        if block == 0 || !n.is_multiple_of(block) {
            return None;
        }
        (n / block).checked_mul(u64::from(self.block_bytes()))
    }

    /// Bits per value, scales included.
    pub fn bits_per_value(&self) -> f64 {
        8.0 * f64::from(self.block_bytes()) / f64::from(self.block_len())
    }
}

//! Element types and vector types.

use std::fmt;

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// A truth value, one byte in memory.
    Bool,
    /// Unsigned 8-bit integer; also a byte of packed weights.
    U8,
    /// Signed 8-bit integer; also a quantised activation.
    I8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer: token ids, positions, integer sums.
    I32,
    /// Index arithmetic: extents, offsets, loop counters.
    Index,
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    BF16,
    /// IEEE single precision.
    F32,
}

impl DType {
    /// Bytes of one element in memory.
    pub fn bytes(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::Index => 8,
        }
    }

    /// Whether arithmetic on it rounds.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32)
    }

    /// Whether it is an integer or an index (not a truth value).
    pub fn is_int(self) -> bool {
        !self.is_float() && self != DType::Bool
    }

    /// The least and greatest value of an integer type.
    pub fn int_range(self) -> Option<(i64, i64)> {
        Some(match self {
            DType::Bool => (0, 1),
            DType::U8 => (0, 255),
            DType::I8 => (-128, 127),
            DType::U16 => (0, 65535),
            DType::I16 => (-32768, 32767),
            DType::U32 => (0, u32::MAX as i64),
            DType::I32 => (i32::MIN as i64, i32::MAX as i64),
            _ => return None,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::U16 => "u16",
            DType::I16 => "i16",
            DType::U32 => "u32",
            DType::I32 => "i32",
            DType::Index => "index",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
        })
    }
}

/// An element type and a number of lanes; one lane is a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type {
    /// Type of each lane.
    pub base: DType,
    /// Number of lanes, 1 for a scalar.
    pub lanes: u16,
}

impl Type {
    /// A vector type.
    pub fn vector(base: DType, lanes: usize) -> Type {
        Type { base, lanes: lanes as u16 }
    }

    /// Bytes of a value of this type.
    pub fn bytes(self) -> usize {
        self.base.bytes() * self.lanes as usize
    }
}

impl From<DType> for Type {
    fn from(base: DType) -> Type {
        Type { base, lanes: 1 }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lanes == 1 { write!(f, "{}", self.base) } else { write!(f, "{}x{}", self.base, self.lanes) }
    }
}

//! Metadata values, as views into the bytes of a file.

use std::fmt;

/// Type of a metadata value; the discriminant is the id in the file.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    /// One byte; anything but 0 is true.
    Bool = 7,
    /// Bytes with a length, usually UTF-8.
    String = 8,
    /// Values of one type, which is not `Array`.
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// The type with this id.
    pub const fn from_id(id: u32) -> Option<ValueType> {
        Some(match id {
            0 => ValueType::U8,
            1 => ValueType::I8,
            2 => ValueType::U16,
            3 => ValueType::I16,
            4 => ValueType::U32,
            5 => ValueType::I32,
            6 => ValueType::F32,
            7 => ValueType::Bool,
            8 => ValueType::String,
            9 => ValueType::Array,
            10 => ValueType::U64,
            11 => ValueType::I64,
            12 => ValueType::F64,
            _ => return None,
        })
    }

    /// The id in the file.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Bytes of a value; `None` for strings and arrays, whose size varies.
    pub const fn bytes(self) -> Option<u64> {
        Some(match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::String | ValueType::Array => return None,
        })
    }

    /// Lower-case name (`u32`, `string`).
    pub const fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::String => "string",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A metadata value.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// The bytes of a string; not checked to be UTF-8.
    String(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// An integer of any width and sign that fits an i64 or a u64, without loss.
    pub fn integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// A float of either width.
    pub fn float(&self) -> Option<f64> {
        match *self {
            Value::F32(v) => Some(v.into()),
            Value::F64(v) => Some(v),
            _ => None,
        }
    }

    /// A value of a fixed-size type from its `bytes` in the file, which have just that size.
    pub(crate) fn fixed(ty: ValueType, bytes: &[u8]) -> Option<Value<'static>> {
        Some(match ty {
            ValueType::U8 => Value::U8(u8::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::Bool => Value::Bool(*bytes.first()? != 0),
            ValueType::U64 => Value::U64(u64::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::String | ValueType::Array => return None,
        })
    }
}

/// Longest text of a value that [`Value`]'s `Display` prints.
const SHOWN: usize = 60;

impl fmt::Display for Value<'_> {
    /// The value on one line; long strings and arrays are cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(v) => v.fmt(f),
            Value::I8(v) => v.fmt(f),
            Value::U16(v) => v.fmt(f),
            Value::I16(v) => v.fmt(f),
            Value::U32(v) => v.fmt(f),
            Value::I32(v) => v.fmt(f),
            Value::U64(v) => v.fmt(f),
            Value::I64(v) => v.fmt(f),
            Value::F32(v) => v.fmt(f),
            Value::F64(v) => v.fmt(f),
            Value::Bool(v) => v.fmt(f),
            Value::String(bytes) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]);
                let shown: String = text.chars().take(SHOWN).collect();
                let rest = if shown.len() < bytes.len() { "…" } else { "" };
                write!(f, "{shown:?}{rest}")
            }
            Value::Array(array) => {
                write!(f, "[")?;
                for (i, value) in array.iter().take(4).enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                write!(f, "{}] ({} × {})", if array.len() > 4 { ", …" } else { "" }, array.len(), array.element_type())
            }
        }
    }
}

/// An array in the metadata: a view, nothing is copied.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    element: ValueType,
    len: usize,
    /// The elements as they lie in the file.
    bytes: &'a [u8],
    /// Of strings: where each one's length field starts in `bytes`.
    starts: &'a [u64],
}

impl<'a> Array<'a> {
    /// A view over checked bytes: `len` elements of `element`, with `starts` exactly if they are strings.
    pub(crate) fn new(element: ValueType, len: usize, bytes: &'a [u8], starts: &'a [u64]) -> Self {
        Array { element, len, bytes, starts }
    }

    /// Type of the elements; never [`ValueType::Array`].
    pub fn element_type(&self) -> ValueType {
        self.element
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements as they lie in the file (strings: each with its length in eight bytes before it).
    pub fn raw(&self) -> &'a [u8] {
        self.bytes
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self.element.bytes() {
            Some(size) => {
                let size = size as usize;
                let start = index.checked_mul(size)?;
                Value::fixed(self.element, self.bytes.get(start..start.checked_add(size)?)?)
            }
            None => self.strings()?.get(index).map(Value::String),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let array = *self;
        (0..array.len).map_while(move |index| array.get(index))
    }

    /// The elements as strings, if they are.
    pub fn strings(&self) -> Option<Strings<'a>> {
        (self.element == ValueType::String).then_some(Strings { bytes: self.bytes, starts: self.starts })
    }
}

impl PartialEq for Array<'_> {
    /// Equal type and elements, compared as stored (so NaN equals itself).
    fn eq(&self, other: &Self) -> bool {
        (self.element, self.len, self.bytes) == (other.element, other.len, other.bytes)
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} × {})", self.len, self.element)
    }
}

/// The strings of an array: byte slices into the file, found through a table of offsets in constant time each.
#[derive(Clone, Copy)]
pub struct Strings<'a> {
    bytes: &'a [u8],
    starts: &'a [u64],
}

impl<'a> Strings<'a> {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The bytes of the string at `index`; not checked to be UTF-8.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(*self.starts.get(index)?).ok()?;
        let (len, rest) = self.bytes.get(start..)?.split_first_chunk::<8>()?;
        rest.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?)
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let strings = *self;
        // Every start was checked when the file was read, so the default never shows.
        (0..strings.len()).map(move |index| strings.get(index).unwrap_or_default())
    }
}

impl fmt::Debug for Strings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strings({})", self.len())
    }
}

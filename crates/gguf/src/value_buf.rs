//! Owned metadata values, to write.

use crate::value::{Array, Value, ValueType};

/// A metadata value to write, already in the form of the file.
///
/// It is made by `From`: from integers, floats, bools, strings, slices and vectors of them, and from a [`Value`] read
/// elsewhere. Arrays of arrays cannot be expressed, as the format does not allow them.
///
/// ```
/// # use gguf::{ValueBuf, ValueType};
/// let tokens = ValueBuf::from(vec!["<s>", "hello"]);
/// assert_eq!(tokens.value_type(), ValueType::Array);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueBuf {
    ty: ValueType,
    bytes: Vec<u8>,
}

impl ValueBuf {
    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        self.ty
    }

    /// The value as it lies in the file, after its type.
    pub fn raw(&self) -> &[u8] {
        &self.bytes
    }
}

/// What can be an element of an array in the metadata.
pub trait Element {
    /// Type of the element in the file.
    const TYPE: ValueType;

    /// Appends the element as it lies in the file.
    fn encode(&self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($ty:ty = $name:ident),*) => {$(
        impl Element for $ty {
            const TYPE: ValueType = ValueType::$name;

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

numbers!(u8 = U8, i8 = I8, u16 = U16, i16 = I16, u32 = U32, i32 = I32, f32 = F32, u64 = U64, i64 = I64, f64 = F64);

impl Element for bool {
    const TYPE: ValueType = ValueType::Bool;

    fn encode(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
}

/// Any bytes can be a string in the file; `&[u8]` as an element writes one, not an array.
impl Element for &[u8] {
    const TYPE: ValueType = ValueType::String;

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        out.extend_from_slice(self);
    }
}

impl Element for &str {
    const TYPE: ValueType = ValueType::String;

    fn encode(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode(out);
    }
}

impl Element for String {
    const TYPE: ValueType = ValueType::String;

    fn encode(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode(out);
    }
}

macro_rules! scalars {
    ($($ty:ty),*) => {$(
        impl From<$ty> for ValueBuf {
            fn from(value: $ty) -> Self {
                let mut bytes = Vec::new();
                value.encode(&mut bytes);
                ValueBuf { ty: <$ty as Element>::TYPE, bytes }
            }
        }
    )*};
}

scalars!(u8, i8, u16, i16, u32, i32, f32, u64, i64, f64, bool, &str, String);

impl<T: Element> From<&[T]> for ValueBuf {
    fn from(elements: &[T]) -> Self {
        let mut bytes = Vec::new();
        T::TYPE.id().encode(&mut bytes);
        (elements.len() as u64).encode(&mut bytes);
        elements.iter().for_each(|element| element.encode(&mut bytes));
        ValueBuf { ty: ValueType::Array, bytes }
    }
}

impl<T: Element> From<Vec<T>> for ValueBuf {
    fn from(elements: Vec<T>) -> Self {
        elements.as_slice().into()
    }
}

impl From<Array<'_>> for ValueBuf {
    fn from(array: Array<'_>) -> Self {
        let mut bytes = Vec::with_capacity(12 + array.raw().len());
        array.element_type().id().encode(&mut bytes);
        (array.len() as u64).encode(&mut bytes);
        bytes.extend_from_slice(array.raw());
        ValueBuf { ty: ValueType::Array, bytes }
    }
}

impl From<Value<'_>> for ValueBuf {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::F32(v) => v.into(),
            Value::Bool(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            Value::F64(v) => v.into(),
            Value::Array(v) => v.into(),
            Value::String(v) => {
                let mut bytes = Vec::new();
                v.encode(&mut bytes);
                ValueBuf { ty: ValueType::String, bytes }
            }
        }
    }
}

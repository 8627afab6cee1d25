//! The metadata of a file: keys with typed values, read where they lie.
//!
//! Opening a file only checks the values and notes where they are; they are decoded when asked for. An array of strings
//! (a vocabulary) costs one table of offsets, not one allocation a string.

use crate::cursor::{Cursor, plain_text};
use crate::error::Error;
use crate::mmap::Bytes;
use crate::plain;
use crate::value::{Array, Strings, Value, ValueType};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Most elements that an array may have.
const ARRAY_LIMIT: u64 = 1 << 30;

/// Most bytes that a key may have.
pub(crate) const KEY_LIMIT: u64 = u16::MAX as u64;

/// Fewest bytes of an entry: key length, one byte of key, type, one byte of value.
const SMALLEST_ENTRY: u64 = 8 + 1 + 4 + 1;

/// Keys and values of a file, in the order of the file.
#[derive(Clone)]
pub struct Metadata {
    bytes: Arc<Bytes>,
    entries: Arc<[Entry]>,
    /// Indices into `entries`, by key.
    sorted: Arc<[u32]>,
}

struct Entry {
    key: Range<usize>,
    value: Stored,
}

/// Where a value lies in the file.
enum Stored {
    Fixed(ValueType, Range<usize>),
    String(Range<usize>),
    Array { element: ValueType, len: usize, at: Range<usize>, starts: Box<[u64]> },
}

impl Metadata {
    /// Reads `count` entries at the cursor, which runs over `bytes`.
    pub(crate) fn read(bytes: &Arc<Bytes>, cursor: &mut Cursor<'_>, count: i64) -> Result<Metadata, Error> {
        let limit = cursor.left() / SMALLEST_ENTRY;
        let count = match u64::try_from(count) {
            Ok(count) if count <= limit && u32::try_from(count).is_ok() => count,
            _ => {
                return Err(Error::Count { what: "metadata entries", count, limit });
            }
        };
        let mut entries = Vec::new();
        for index in 0..count {
            entries.push(Entry::read(cursor, index)?);
        }
        let file = bytes.bytes();
        let mut sorted: Vec<u32> = (0..count as u32).collect();
        sorted.sort_unstable_by_key(|&at| &file[entries[at as usize].key.clone()]);
        for pair in sorted.windows(2) {
            let key = |at: u32| &file[entries[at as usize].key.clone()];
            if key(pair[0]) == key(pair[1]) {
                return Err(Error::DuplicateKey { key: String::from_utf8_lossy(key(pair[0])).into_owned() });
            }
        }
        Ok(Metadata { bytes: bytes.clone(), entries: entries.into(), sorted: sorted.into() })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Value<'_>)> {
        self.entries.iter().map(|entry| (self.key(entry), self.value(entry)))
    }

    /// The value of a key, whatever its type.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        let entry = |&at: &u32| &self.entries[at as usize];
        let at = self.sorted.binary_search_by(|at| self.key(entry(at)).cmp(key)).ok()?;
        Some(self.value(entry(&self.sorted[at])))
    }

    /// Whether the key is present.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The value of a key as `T`, or `None` if the key is absent.
    ///
    /// ```
    /// # fn main() -> Result<(), gguf::Error> {
    /// # let mut writer = gguf::Writer::new();
    /// # writer.set("llama.rope.freq_base", 1e4f32).set("llama.block_count", 2u8);
    /// # let file = gguf::Gguf::parse(writer.to_vec(|_, _| Ok(())).unwrap())?;
    /// let metadata = file.metadata();
    /// let base: f32 = metadata.find("llama.rope.freq_base")?.unwrap_or(1e4);
    /// let layers: usize = metadata.require("llama.block_count")?;
    /// assert_eq!((base, layers), (1e4, 2));
    /// assert_eq!(metadata.find::<bool>("llama.unknown")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key is present with a value that is not a `T`.
    pub fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match T::from_value(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::WrongType {
                key: key.to_owned(),
                found: format!("{} {value}", value.value_type()),
                wanted: T::wanted(),
            }),
        }
    }

    /// The value of a key as `T`.
    ///
    /// # Errors
    /// [`Error::MissingKey`], and those of [`Metadata::find`].
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T, Error> {
        self.find(key)?.ok_or_else(|| Error::MissingKey { key: key.to_owned() })
    }

    /// An integer of any width that is not negative.
    ///
    /// # Errors
    /// Those of [`Metadata::require`].
    pub fn u64(&self, key: &str) -> Result<u64, Error> {
        self.require(key)
    }

    /// An integer of any width up to `i64::MAX`.
    ///
    /// # Errors
    /// Those of [`Metadata::require`].
    pub fn i64(&self, key: &str) -> Result<i64, Error> {
        self.require(key)
    }

    /// A float of either width, as f32.
    ///
    /// # Errors
    /// Those of [`Metadata::require`].
    pub fn f32(&self, key: &str) -> Result<f32, Error> {
        self.require(key)
    }

    /// A bool.
    ///
    /// # Errors
    /// Those of [`Metadata::require`].
    pub fn bool(&self, key: &str) -> Result<bool, Error> {
        self.require(key)
    }

    /// A string in UTF-8.
    ///
    /// # Errors
    /// Those of [`Metadata::require`]; other bytes count as a wrong type.
    pub fn str(&self, key: &str) -> Result<&str, Error> {
        self.require(key)
    }

    /// An array of anything.
    ///
    /// # Errors
    /// Those of [`Metadata::require`].
    pub fn array(&self, key: &str) -> Result<Array<'_>, Error> {
        self.require(key)
    }

    /// An array of strings, as bytes.
    ///
    /// # Errors
    /// Those of [`Metadata::require`].
    pub fn strings(&self, key: &str) -> Result<Strings<'_>, Error> {
        self.require(key)
    }

    fn key(&self, entry: &Entry) -> &str {
        // Checked to be UTF-8 when the file was read. (A mapped file that was overwritten since is no worse than a
        // key that nobody asks for.)
        std::str::from_utf8(&self.bytes.bytes()[entry.key.clone()]).unwrap_or_default()
    }

    fn value<'a>(&'a self, entry: &'a Entry) -> Value<'a> {
        let file = self.bytes.bytes();
        match &entry.value {
            // The range has the size of the type, so the default never shows.
            Stored::Fixed(ty, at) => Value::fixed(*ty, &file[at.clone()]).unwrap_or(Value::U8(0)),
            Stored::String(at) => Value::String(&file[at.clone()]),
            Stored::Array { element, len, at, starts } => {
                Value::Array(Array::new(*element, *len, &file[at.clone()], starts))
            }
        }
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(key, value)| (key, value.to_string()))).finish()
    }
}

impl Entry {
    fn read(cursor: &mut Cursor<'_>, index: u64) -> Result<Entry, Error> {
        let start = cursor.offset();
        let key = cursor.short_string(KEY_LIMIT, || format!("the key of metadata entry {index}"))?;
        if key.is_empty() {
            return Err(Error::EmptyKey { index, offset: start });
        }
        let key_end = cursor.offset() as usize;
        let key = plain_text("a metadata key", key, start)?;
        let what = || format!("the value of metadata {}", plain::name(key));
        let value = match value_type(cursor, key)? {
            ValueType::String => {
                let len = cursor.string(what)?.len();
                let end = cursor.offset() as usize;
                Stored::String(end - len..end)
            }
            ValueType::Array => Self::read_array(cursor, key)?,
            fixed => {
                let at = cursor.offset() as usize;
                cursor.take(fixed.bytes().unwrap_or(0), what)?;
                Stored::Fixed(fixed, at..cursor.offset() as usize)
            }
        };
        Ok(Entry { key: key_end - key.len()..key_end, value })
    }

    fn read_array(cursor: &mut Cursor<'_>, key: &str) -> Result<Stored, Error> {
        let element = value_type(cursor, key)?;
        if element == ValueType::Array {
            return Err(Error::NestedArray { key: key.to_owned() });
        }
        let count = cursor.u64(|| format!("the length of the array {}", plain::name(key)))?;
        // A string takes at least its length field.
        let smallest = element.bytes().unwrap_or(8);
        let limit = ARRAY_LIMIT.min(cursor.left() / smallest);
        if count > limit {
            return Err(Error::ArrayLength { key: key.to_owned(), count, limit });
        }
        let start = cursor.offset();
        let mut starts = Vec::new();
        match element.bytes() {
            Some(size) => {
                cursor.take(count * size, || format!("the array {}", plain::name(key)))?;
            }
            None => {
                starts.reserve_exact(count as usize);
                for index in 0..count {
                    starts.push(cursor.offset() - start);
                    cursor.string(|| format!("element {index} of the array {}", plain::name(key)))?;
                }
            }
        }
        let at = start as usize..cursor.offset() as usize;
        Ok(Stored::Array { element, len: count as usize, at, starts: starts.into_boxed_slice() })
    }
}

fn value_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, Error> {
    let id = cursor.u32(|| format!("the type of metadata {}", plain::name(key)))?;
    ValueType::from_id(id).ok_or_else(|| Error::ValueType { key: key.to_owned(), id })
}

/// What a metadata value can be read as.
///
/// Integers convert between all widths where the number fits; floats between both; nothing else converts.
pub trait FromValue<'a>: Sized {
    /// What is needed, for the error message.
    fn wanted() -> String;

    /// The value, if it is one.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl FromValue<'_> for $ty {
            fn wanted() -> String {
                format!("an integer from {} to {}", <$ty>::MIN, <$ty>::MAX)
            }

            fn from_value(value: Value<'_>) -> Option<Self> {
                value.integer()?.try_into().ok()
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i32, i64);

impl FromValue<'_> for f32 {
    fn wanted() -> String {
        "a float".to_owned()
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        value.float().map(|v| v as f32)
    }
}

impl FromValue<'_> for f64 {
    fn wanted() -> String {
        "a float".to_owned()
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        value.float()
    }
}

impl FromValue<'_> for bool {
    fn wanted() -> String {
        "a bool".to_owned()
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    fn wanted() -> String {
        "a string".to_owned()
    }

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::String(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    fn wanted() -> String {
        "a string in UTF-8".to_owned()
    }

    fn from_value(value: Value<'a>) -> Option<Self> {
        std::str::from_utf8(<&[u8]>::from_value(value)?).ok()
    }
}

impl<'a> FromValue<'a> for Array<'a> {
    fn wanted() -> String {
        "an array".to_owned()
    }

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for Strings<'a> {
    fn wanted() -> String {
        "an array of strings".to_owned()
    }

    fn from_value(value: Value<'a>) -> Option<Self> {
        Array::from_value(value)?.strings()
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Vec<T> {
    fn wanted() -> String {
        format!("an array, each element {}", T::wanted())
    }

    fn from_value(value: Value<'a>) -> Option<Self> {
        Array::from_value(value)?.iter().map(T::from_value).collect()
    }
}

//! Writing GGUF files, version 3.
//!
//! A [`Writer`] first learns the metadata and the tensors' names, types and shapes; then it writes the header and asks
//! for each tensor's data in turn, so that a file of any size passes through a small buffer. Files appear under their
//! name only when they are complete ([`Partial`]).

use crate::cursor::plain_text;
use crate::error::Error;
use crate::ggml_type::GgmlType;
use crate::metadata::{KEY_LIMIT, Metadata};
use crate::partial::Partial;
use crate::plain;
use crate::shard::{DEFAULT_ALIGNMENT, MAGIC, NAME_LIMIT, Tensor, tensor_bytes};
use crate::split;
use crate::value::ValueType;
use crate::value_buf::{Element, ValueBuf};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use thiserror::Error as ThisError;

/// Why a file could not be written.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum WriteError {
    /// The system refused; a full disk shows here.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The source of a tensor's data, or the sink, failed.
    #[error("tensor {tensor}: {source}")]
    Data {
        /// The tensor.
        tensor: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The sink failed outside of tensor data.
    #[error("cannot write the header: {0}")]
    Header(#[source] io::Error),
    /// The callback gave another number of bytes than the tensor has.
    #[error("tensor {tensor} needs {bytes} bytes, but {wrote} were written")]
    DataLength {
        /// The tensor.
        tensor: String,
        /// What its shape needs.
        bytes: u64,
        /// What came.
        wrote: u64,
    },
    /// A key that readers would refuse.
    #[error(
        "{:?} cannot be a metadata key: it must be 1 to 65535 bytes without control characters",
        plain::cut(key, plain::NAME)
    )]
    Key {
        /// The key.
        key: String,
    },
    /// The tensor breaks a rule of the container.
    #[error(transparent)]
    Tensor(#[from] Error),
    /// A split in more files than the format can number, or of none.
    #[error("the tensors would need {0} files; at most 65535 are possible, make them larger")]
    TooManyShards(usize),
}

/// A GGUF file to be written.
///
/// ```
/// # use gguf::{GgmlType, Gguf, Writer};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut writer = Writer::new();
/// writer.set("general.architecture", "llama").set("llama.block_count", 1u32);
/// writer.tensor("token_embd.weight", GgmlType::F32, &[2, 3])?;
/// let bytes = writer.to_vec(|tensor, out| out.write_all(&vec![0; tensor.bytes as usize]))?;
/// let file = Gguf::parse(bytes)?;
/// assert_eq!(file.architecture()?, "llama");
/// assert_eq!(file.tensor("token_embd.weight").unwrap().shape(), [2, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writer {
    entries: Vec<(String, ValueBuf)>,
    /// Offsets are filled in when the file is laid out.
    tensors: Vec<Tensor>,
    names: BTreeSet<String>,
}

impl Writer {
    /// A file without metadata and tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a metadata value. A key that is already set keeps its place in the file. `general.alignment` (a u32) is
    /// obeyed.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<ValueBuf>) -> &mut Self {
        let (key, value) = (key.into(), value.into());
        match self.entries.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.entries.push((key, value)),
        }
        self
    }

    /// Removes a metadata value.
    pub fn remove(&mut self, key: &str) -> &mut Self {
        self.entries.retain(|(k, _)| k != key);
        self
    }

    /// Sets all values of another file, except those that number the files of a split model.
    pub fn copy_metadata(&mut self, metadata: &Metadata) -> &mut Self {
        for (key, value) in metadata.iter().filter(|(key, _)| !key.starts_with("split.")) {
            self.set(key, value);
        }
        self
    }

    /// Adds a tensor of up to four dimensions, the contiguous one first. Data will be asked for in the order of these
    /// calls.
    ///
    /// # Errors
    /// [`WriteError::Tensor`] with what the reader would say: name of 64 bytes or more, name taken, too many
    /// dimensions, rows of part blocks, overflow.
    pub fn tensor(&mut self, name: &str, ty: GgmlType, shape: &[u64]) -> Result<&mut Self, WriteError> {
        let tensor = || name.to_owned();
        plain_text("a tensor name", name.as_bytes(), 0)?;
        if name.len() as u64 >= NAME_LIMIT {
            return Err(Error::TensorName { index: self.tensors.len() as u64, len: name.len() as u64 }.into());
        }
        let mut dims = [1; 4];
        match dims.get_mut(..shape.len()) {
            Some(given) => given.copy_from_slice(shape),
            None => {
                let n_dims = u32::try_from(shape.len()).unwrap_or(u32::MAX);
                return Err(Error::Rank { tensor: tensor(), n_dims }.into());
            }
        }
        if !dims[0].is_multiple_of(u64::from(ty.block_len())) {
            return Err(Error::PartBlock { tensor: tensor(), row: dims[0], ty }.into());
        }
        let overflow = || Error::SizeOverflow { tensor: tensor(), dims, ty };
        let bytes = tensor_bytes(ty, dims).ok_or_else(overflow)?;
        if !self.names.insert(name.to_owned()) {
            return Err(Error::DuplicateTensor { name: tensor() }.into());
        }
        let n_dims = shape.len() as u32;
        self.tensors.push(Tensor { name: tensor(), ty, dims, n_dims, shard: 0, offset: 0, bytes });
        Ok(self)
    }

    /// The tensors added so far; their offsets are not known yet.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Writes the file to `path`, by way of a file beside it that takes the name when it is complete. `data` is called
    /// once for each tensor, in order, and must write exactly [`Tensor::bytes`] bytes. What is no regular file is
    /// never replaced: see [`Partial`].
    ///
    /// # Errors
    /// Any [`WriteError`]; the file at `path` is then as it was before.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        mut data: impl FnMut(&Tensor, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let (path, layout) = (path.as_ref(), self.layout(0..self.tensors.len(), &self.entries)?);
        write_partial(path, &layout, &mut data)?.keep().map_err(|source| cannot_write(path, source))
    }

    /// Writes the file to a sink. Returns its size.
    ///
    /// # Errors
    /// Any [`WriteError`].
    pub fn write_to(
        &self,
        sink: &mut dyn Write,
        mut data: impl FnMut(&Tensor, &mut dyn Write) -> io::Result<()>,
    ) -> Result<u64, WriteError> {
        self.layout(0..self.tensors.len(), &self.entries)?.write(sink, &mut data)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// Any [`WriteError`].
    pub fn to_vec(&self, data: impl FnMut(&Tensor, &mut dyn Write) -> io::Result<()>) -> Result<Vec<u8>, WriteError> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes, data)?;
        Ok(bytes)
    }

    /// Writes several files `PREFIX-00001-of-….gguf`, each with at most `shard_bytes` bytes of tensor data (or one
    /// tensor, if that is larger). The first carries the metadata. Returns their paths.
    ///
    /// # Errors
    /// Any [`WriteError`]. No file takes its name before all are written.
    pub fn write_split(
        &self,
        prefix: impl AsRef<Path>,
        shard_bytes: u64,
        mut data: impl FnMut(&Tensor, &mut dyn Write) -> io::Result<()>,
    ) -> Result<Vec<PathBuf>, WriteError> {
        let shards = self.shards(shard_bytes);
        let count = u16::try_from(shards.len()).map_err(|_| WriteError::TooManyShards(shards.len()))?;
        let mut files = Vec::new();
        for (number, tensors) in (0u16..).zip(shards) {
            let mut head = Writer::new();
            match number {
                0 => head.entries = self.entries.clone(),
                _ => head.entries.extend(self.entries.iter().find(|(key, _)| key == "general.alignment").cloned()),
            }
            head.set("split.no", number).set("split.count", count);
            head.set("split.tensors.count", self.tensors.len() as i32);
            let layout = self.layout(tensors, &head.entries)?;
            let mut path = prefix.as_ref().as_os_str().to_owned();
            path.push(split::name("", number.into(), count.into()));
            let path = PathBuf::from(path);
            files.push((write_partial(&path, &layout, &mut data)?, path));
        }
        let keep = |(file, path): (Partial, PathBuf)| match file.keep() {
            Ok(()) => Ok(path),
            Err(source) => Err(cannot_write(&path, source)),
        };
        files.into_iter().map(keep).collect()
    }

    /// The tensors of each file of a split.
    fn shards(&self, shard_bytes: u64) -> Vec<Range<usize>> {
        let (mut shards, mut start, mut size) = (Vec::new(), 0, 0u64);
        for (at, tensor) in self.tensors.iter().enumerate() {
            if at > start && size.saturating_add(tensor.bytes) > shard_bytes {
                shards.push(start..at);
                (start, size) = (at, 0);
            }
            size = size.saturating_add(tensor.bytes);
        }
        shards.push(start..self.tensors.len());
        shards
    }

    /// Header and places of some of the tensors.
    fn layout(&self, tensors: Range<usize>, entries: &[(String, ValueBuf)]) -> Result<Layout, WriteError> {
        let alignment = alignment(entries)?;
        let mut tensors = self.tensors[tensors].to_vec();
        let mut head = MAGIC.to_vec();
        3u32.encode(&mut head);
        (tensors.len() as u64).encode(&mut head);
        (entries.len() as u64).encode(&mut head);
        for (key, value) in entries {
            let short = (1..=KEY_LIMIT).contains(&(key.len() as u64));
            if !short || plain_text("", key.as_bytes(), 0).is_err() {
                return Err(WriteError::Key { key: key.clone() });
            }
            key.encode(&mut head);
            value.value_type().id().encode(&mut head);
            head.extend_from_slice(value.raw());
        }
        let mut end = 0u64;
        for tensor in &mut tensors {
            tensor.offset = end;
            tensor.name.encode(&mut head);
            tensor.n_dims.encode(&mut head);
            tensor.shape().iter().for_each(|dim| dim.encode(&mut head));
            tensor.ty.id().encode(&mut head);
            tensor.offset.encode(&mut head);
            let padded = tensor.bytes.checked_next_multiple_of(alignment).and_then(|padded| padded.checked_add(end));
            end = padded.filter(|&end| i64::try_from(end).is_ok()).ok_or_else(|| Error::SizeOverflow {
                tensor: tensor.name.clone(),
                dims: tensor.dims,
                ty: tensor.ty,
            })?;
        }
        head.resize(head.len().next_multiple_of(alignment as usize), 0);
        tensors.iter_mut().for_each(|tensor| tensor.offset += head.len() as u64);
        Ok(Layout { head, tensors, alignment })
    }
}

fn alignment(entries: &[(String, ValueBuf)]) -> Result<u64, Error> {
    let Some((_, value)) = entries.iter().find(|(key, _)| key == "general.alignment") else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    match (value.value_type(), value.raw()) {
        (ValueType::U32, &[a, b, c, d]) if u32::from_le_bytes([a, b, c, d]).is_power_of_two() => {
            Ok(u32::from_le_bytes([a, b, c, d]).into())
        }
        (ty, raw) => Err(Error::Alignment { found: format!("{ty} {raw:02x?}") }),
    }
}

/// Writes all of a file but its name.
fn write_partial(path: &Path, layout: &Layout, data: Data<'_>) -> Result<Partial, WriteError> {
    let mut file = Partial::create(path).map_err(|source| cannot_write(path, source))?;
    layout.write(&mut file, data)?;
    file.complete().map_err(|source| cannot_write(path, source))?;
    Ok(file)
}

fn cannot_write(path: &Path, source: io::Error) -> WriteError {
    WriteError::File { path: path.to_owned(), source }
}

/// A file with everything in its place but the data.
struct Layout {
    /// All bytes before the data, padding included.
    head: Vec<u8>,
    tensors: Vec<Tensor>,
    alignment: u64,
}

type Data<'a> = &'a mut dyn FnMut(&Tensor, &mut dyn Write) -> io::Result<()>;

impl Layout {
    fn write(&self, sink: &mut dyn Write, data: Data<'_>) -> Result<u64, WriteError> {
        sink.write_all(&self.head).map_err(WriteError::Header)?;
        let mut end = self.head.len() as u64;
        for tensor in &self.tensors {
            let fail = |source| WriteError::Data { tensor: tensor.name.clone(), source };
            let mut exact = Exact { sink, left: tensor.bytes, wrote: 0 };
            let result = data(tensor, &mut exact);
            if exact.wrote != tensor.bytes && (result.is_ok() || exact.left == 0) {
                let (tensor, bytes, wrote) = (tensor.name.clone(), tensor.bytes, exact.wrote);
                return Err(WriteError::DataLength { tensor, bytes, wrote });
            }
            result.map_err(fail)?;
            let padding = tensor.bytes.next_multiple_of(self.alignment) - tensor.bytes;
            io::copy(&mut io::Read::take(io::repeat(0), padding), sink).map_err(fail)?;
            end += tensor.bytes + padding;
        }
        Ok(end)
    }
}

/// Passes on at most `left` bytes and counts all that come.
struct Exact<'a> {
    sink: &'a mut dyn Write,
    left: u64,
    wrote: u64,
}

impl Write for Exact<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.wrote += bytes.len() as u64;
            self.left = 0;
            return Err(io::Error::other("more data than the tensor holds"));
        }
        let n = self.sink.write(bytes)?;
        self.left -= n as u64;
        self.wrote += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

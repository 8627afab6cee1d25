//! One GGUF file: its header, read and checked against its size.

use crate::cursor::{Cursor, plain_text};
use crate::error::Error;
use crate::ggml_type::GgmlType;
use crate::metadata::Metadata;
use crate::mmap::{self, Bytes, Map};
use crate::value::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// First bytes of every file.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";

/// Alignment of tensor data where the file does not say.
pub const DEFAULT_ALIGNMENT: u64 = 32;

/// Bytes a tensor name may not reach.
pub(crate) const NAME_LIMIT: u64 = 64;

/// Fewest bytes of a tensor info: empty name, no dimensions, type, offset.
const SMALLEST_INFO: u64 = 8 + 4 + 4 + 8;

/// What a file says about one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, unique in the model.
    pub name: String,
    /// Type of its elements.
    pub ty: GgmlType,
    /// Elements along each dimension, the contiguous one first; 1 beyond `n_dims`.
    pub dims: [u64; 4],
    /// Number of dimensions that the file gives, 0 to 4.
    pub n_dims: u32,
    /// Number of the file that holds the data, from 0.
    pub shard: usize,
    /// Where the data starts in that file, in bytes from the start of the file.
    pub offset: u64,
    /// Size of the data in bytes.
    pub bytes: u64,
}

impl Tensor {
    /// The dimensions that the file gives.
    pub fn shape(&self) -> &[u64] {
        &self.dims[..self.n_dims as usize]
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Number of rows (of `dims[0]` elements each).
    pub fn rows(&self) -> u64 {
        self.dims[1..].iter().product()
    }

    /// Bytes of the data as kernels read it, where that is not what the file has; else 0.
    pub fn unpacked_bytes(&self) -> u64 {
        let row = self.ty.computed_as().row_bytes(self.dims[0]).unwrap_or(0);
        if self.ty.is_unpacked() { row.saturating_mul(self.rows()) } else { 0 }
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> u64 {
        // Opening the file checked that rows are whole blocks.
        self.ty.row_bytes(self.dims[0]).unwrap_or(0)
    }
}

/// One file.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) path: Option<PathBuf>,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) bytes: Arc<Bytes>,
    pub(crate) version: u32,
    pub(crate) alignment: u64,
    pub(crate) data_start: u64,
}

impl Shard {
    pub(crate) fn open(path: &Path) -> Result<Shard, Error> {
        let read = || {
            let cannot_open = |source| Error::Io { doing: "open the file", source };
            // Opening a pipe would wait for somebody who writes to it.
            mmap::regular(&std::fs::metadata(path).map_err(cannot_open)?)?;
            let file = File::open(path).map_err(cannot_open)?;
            Shard::read(Bytes::Map(Map::new(file)?), Some(path.to_owned()))
        };
        read().map_err(|problem| problem.in_file(path))
    }

    /// Reads and checks the header of a file.
    pub(crate) fn read(bytes: Bytes, path: Option<PathBuf>) -> Result<Shard, Error> {
        let bytes = Arc::new(bytes);
        let file = bytes.bytes();
        let mut cursor = Cursor::new(file);
        let version = read_version(file, &mut cursor)?;
        let n_tensors = cursor.i64(|| "the number of tensors".to_owned())?;
        let n_entries = cursor.i64(|| "the number of metadata entries".to_owned())?;
        let limit = cursor.left() / SMALLEST_INFO;
        let n_tensors = match u64::try_from(n_tensors) {
            Ok(count) if count <= limit && u32::try_from(count).is_ok() => count,
            _ => {
                return Err(Error::Count { what: "tensors", count: n_tensors, limit });
            }
        };
        let metadata = Metadata::read(&bytes, &mut cursor, n_entries)?;
        let alignment = alignment(&metadata)?;

        let mut tensors = Vec::new();
        let mut data_end = 0u64;
        for index in 0..n_tensors {
            tensors.push(read_tensor(&mut cursor, index, alignment, &mut data_end)?);
        }
        let data_start = place_data(&mut tensors, &cursor, alignment)?;
        Ok(Shard { path, metadata, tensors, bytes, version, alignment, data_start })
    }

    /// The problem, with the path of this file if it has one.
    pub(crate) fn locate(&self, problem: Error) -> Error {
        match &self.path {
            Some(path) => problem.in_file(path),
            None => problem,
        }
    }
}

fn read_version(file: &[u8], cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    if file.is_empty() {
        return Err(Error::Empty);
    }
    if !file.starts_with(&MAGIC[..file.len().min(MAGIC.len())]) {
        return Err(Error::NotGguf { looks: looks_like(file) });
    }
    cursor.take(MAGIC.len() as u64, || "the header".to_owned())?;
    match cursor.u32(|| "the header".to_owned())? {
        version @ 2..=3 => Ok(version),
        // Small numbers of the other byte order.
        version if version != 0 && version & 0xFFFF == 0 => Err(Error::BigEndian),
        version => Err(Error::Version { version }),
    }
}

/// What a file that is not GGUF may be, from its first bytes.
fn looks_like(file: &[u8]) -> String {
    let head = &file[..file.len().min(256)];
    let text = String::from_utf8_lossy(head).trim_start().to_lowercase();
    let json_length = file.split_first_chunk::<8>().map(|(length, rest)| (u64::from_le_bytes(*length), rest));
    let known = match head {
        _ if head.starts_with(b"PK\x03\x04") => "a zip archive or a PyTorch checkpoint; convert it to GGUF",
        _ if head.starts_with(&[0x80, 2]) => "a Python pickle (PyTorch checkpoint); convert it to GGUF",
        _ if [b"tjgg", b"lmgg", b"fmgg", b"algg"].iter().any(|magic| head.starts_with(*magic)) => {
            "a model of the GGML formats that came before GGUF; convert it again"
        }
        _ if head.starts_with(b"FUGG") => "a GGUF file with its bytes swapped in groups of four; copy it again",
        _ if head.starts_with(&[0x1F, 0x8B]) => "a gzip file; unpack it first",
        _ if head.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) => "a Zstandard file; unpack it first",
        _ if head.starts_with(b"\x7FELF") => "a program; give the .gguf file of a model",
        _ if text.starts_with("version https://git-lfs") => "a Git LFS pointer; run `git lfs pull` to get the model",
        _ if text.starts_with("<!doctype html") || text.starts_with("<html") => {
            "a web page; the download gave an error page instead of the model"
        }
        _ if json_length.is_some_and(|(n, rest)| rest.starts_with(b"{") && n <= rest.len() as u64) => {
            "a safetensors file; convert it to GGUF"
        }
        _ if text.starts_with('{') => "JSON text; give the .gguf file of the model",
        _ if head.iter().all(|&b| b == 0) => "zeros; the download may be incomplete, fetch it again",
        _ => {
            return format!(
                "nothing known (it starts with {:02x?}); fetch it again, or convert the model to GGUF",
                &head[..head.len().min(4)]
            );
        }
    };
    known.to_owned()
}

fn alignment(metadata: &Metadata) -> Result<u64, Error> {
    match metadata.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(Value::U32(alignment)) if alignment.is_power_of_two() => Ok(alignment.into()),
        Some(other) => Err(Error::Alignment { found: format!("{} {other}", other.value_type()) }),
    }
}

/// Reads one tensor info; `data_end` is the padded end of the data of the tensors before, and moves on.
fn read_tensor(cursor: &mut Cursor<'_>, index: u64, alignment: u64, data_end: &mut u64) -> Result<Tensor, Error> {
    let at = cursor.offset();
    let name = cursor.string(|| format!("the name of tensor {index}"))?;
    if name.len() as u64 >= NAME_LIMIT {
        return Err(Error::TensorName { index, len: name.len() as u64 });
    }
    let name = plain_text("a tensor name", name, at)?.to_owned();
    let what = || format!("the info of tensor {name}");
    let n_dims = cursor.u32(what)?;
    if n_dims > 4 {
        return Err(Error::Rank { tensor: name, n_dims });
    }
    let mut dims = [1u64; 4];
    for axis in 0..n_dims {
        let value = cursor.i64(what)?;
        dims[axis as usize] =
            u64::try_from(value).map_err(|_| Error::Dimension { tensor: name.clone(), axis, value })?;
    }
    let id = cursor.u32(what)?;
    let ty = GgmlType::from_id(id).ok_or_else(|| Error::TensorType { tensor: name.clone(), id })?;
    let offset = cursor.u64(what)?;

    if !dims[0].is_multiple_of(u64::from(ty.block_len())) {
        return Err(Error::PartBlock { tensor: name, row: dims[0], ty });
    }
    let overflow = || Error::SizeOverflow { tensor: name.clone(), dims, ty };
    let bytes = tensor_bytes(ty, dims).ok_or_else(overflow)?;
    if !offset.is_multiple_of(alignment) {
        return Err(Error::Unaligned { tensor: name, offset, alignment });
    }
    if offset != *data_end {
        return Err(Error::Offset { tensor: name, offset, expected: *data_end });
    }
    let end = bytes.checked_next_multiple_of(alignment).and_then(|padded| padded.checked_add(offset));
    *data_end = end.filter(|&end| i64::try_from(end).is_ok()).ok_or_else(overflow)?;
    Ok(Tensor { name, ty, dims, n_dims, shard: 0, offset, bytes })
}

/// Bytes of a tensor whose rows are whole blocks, if they and its elements can be counted in an i64 and a usize.
/// Dimensions of 0 count as 1 in that, so that products of any of the dimensions are safe later.
pub(crate) fn tensor_bytes(ty: GgmlType, dims: [u64; 4]) -> Option<u64> {
    let countable = |n: &u64| i64::try_from(*n).is_ok() && usize::try_from(*n).is_ok();
    let product = |dims: &[u64]| dims.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim.max(1))).filter(countable);
    product(&dims)?;
    let row = ty.row_bytes(dims[0]).filter(countable)?;
    product(&[row, dims[1], dims[2], dims[3]])?;
    Some(row * dims[1..].iter().product::<u64>())
}

/// Turns the tensors' offsets into positions in the file and returns where the data starts.
fn place_data(tensors: &mut [Tensor], cursor: &Cursor<'_>, alignment: u64) -> Result<u64, Error> {
    let len = cursor.offset() + cursor.left();
    // Both the position and the alignment (a u32) are far from overflowing.
    let start = cursor.offset().next_multiple_of(alignment);
    if start > len && !tensors.is_empty() {
        let (offset, have) = (cursor.offset(), cursor.left());
        let what = "the padding before the tensor data".to_owned();
        return Err(Error::Truncated { what, offset, need: start - offset, have });
    }
    for tensor in tensors {
        tensor.offset += start;
        let end = tensor.offset + tensor.bytes;
        if end > len {
            return Err(Error::DataTruncated { tensor: tensor.name.clone(), end, len });
        }
    }
    Ok(start.min(len))
}

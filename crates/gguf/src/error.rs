//! What can be wrong with a GGUF file, each with its place and what to do about it.

use crate::ggml_type::GgmlType;
use crate::plain::{self, NAME, cut};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a GGUF file (or a set of split files) could not be read.
///
/// The message is one line. Errors about a file on disk come wrapped in [`Error::InFile`]; [`Error::root`] unwraps.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The problem below, in this file.
    #[error("{}: {problem}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        problem: Box<Error>,
    },

    // The file as a whole.
    /// The system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A folder was given.
    #[error("this is a folder; give the .gguf file in it (of a split model, the one that ends in -00001-of-….gguf)")]
    Directory,
    /// A pipe, socket or device was given.
    #[error("this is not a regular file, so it cannot be mapped; copy it to a file first")]
    NotAFile,
    /// The file has no bytes.
    #[error("the file is empty; the download may have failed, fetch it again")]
    Empty,
    /// The file starts with something else.
    #[error("not a GGUF file: it looks like {looks}")]
    NotGguf {
        /// What the first bytes suggest, and what to do then.
        looks: String,
    },
    /// The numbers of the file are big-endian.
    #[error("the file is big-endian; Kernloom reads little-endian GGUF, convert it first")]
    BigEndian,
    /// An unknown version of the container.
    #[error("GGUF version {version} is not supported (2 and 3 are); {}", if *version < 2 { "convert the model again" } else { "this Kernloom may be too old for it" })]
    Version {
        /// The version in the header.
        version: u32,
    },
    /// The file ends inside something.
    #[error("the file ends inside {what}: {need} bytes are needed at byte {offset}, {have} are left; fetch it again")]
    Truncated {
        /// What was being read.
        what: String,
        /// Where it starts, from the start of the file.
        offset: u64,
        /// Its size.
        need: u64,
        /// What is left of the file there.
        have: u64,
    },
    /// A count in the header cannot be right.
    #[error("the header announces {count} {what}, more than the file can hold ({limit}); the file is damaged")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The count (negative counts of the file appear so).
        count: i64,
        /// The most that the size of the file allows.
        limit: u64,
    },
    /// The file is not what it was when it was opened.
    #[error("the file changed while it was open ({change}); do not overwrite a model that is in use, start again")]
    Changed {
        /// What is different.
        change: String,
    },

    // Metadata.
    /// A string is longer than the rest of the file or than one GiB.
    #[error("{what} at byte {offset} is {len} bytes long, but at most {limit} are possible; the file is damaged")]
    StringLength {
        /// Which string.
        what: String,
        /// Where its length stands.
        offset: u64,
        /// The length.
        len: u64,
        /// What the file and the limit of one GiB allow.
        limit: u64,
    },
    /// An array is longer than the rest of the file or than 2^30 elements.
    #[error(
        "metadata {}: an array of {count} elements, but at most {limit} are possible; the file is damaged",
        plain::name(key)
    )]
    ArrayLength {
        /// The key.
        key: String,
        /// The count.
        count: u64,
        /// What the file and the limit of 2^30 allow.
        limit: u64,
    },
    /// A key without a name.
    #[error("metadata entry {index} (byte {offset}) has an empty key; the file is damaged")]
    EmptyKey {
        /// Its number in the file, from 0.
        index: u64,
        /// Where it starts.
        offset: u64,
    },
    /// A key or tensor name that is not UTF-8 or holds control characters (which could play tricks on terminals).
    #[error("{what} at byte {offset} is not plain text: {:?}; the file is damaged", cut(name, NAME))]
    NameNotText {
        /// Key or tensor name.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// Its text, as far as it can be shown.
        name: String,
    },
    /// Two entries with one key.
    #[error("metadata key {} occurs twice; the file is damaged", plain::name(key))]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A value of unknown type.
    #[error(
        "metadata {}: {id} is not a value type (0 to 12 are); the file is damaged or newer than this Kernloom",
        plain::name(key)
    )]
    ValueType {
        /// The key.
        key: String,
        /// The type id.
        id: u32,
    },
    /// An array of arrays.
    #[error("metadata {}: arrays of arrays are not allowed in GGUF", plain::name(key))]
    NestedArray {
        /// The key.
        key: String,
    },
    /// The alignment cannot be used.
    #[error("metadata general.alignment is {found}; it must be a power of two, as u32")]
    Alignment {
        /// What stands there.
        found: String,
    },
    /// A key that is needed is absent.
    #[error("metadata {} is missing", plain::name(key))]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A key has a value of another type.
    #[error("metadata {} is {found}, but {wanted} is needed", plain::name(key))]
    WrongType {
        /// The key.
        key: String,
        /// What stands there.
        found: String,
        /// What was asked for.
        wanted: String,
    },

    // Tensor infos.
    /// A tensor name that is too long.
    #[error("tensor {index} has a name of {len} bytes; GGUF allows at most 63")]
    TensorName {
        /// Its number in the file, from 0.
        index: u64,
        /// Length of the name.
        len: u64,
    },
    /// Two tensors with one name, perhaps in two shards.
    #[error("tensor {name} occurs twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// More dimensions than the container allows.
    #[error("tensor {tensor} has {n_dims} dimensions; GGUF allows at most 4")]
    Rank {
        /// The tensor.
        tensor: String,
        /// Number of dimensions.
        n_dims: u32,
    },
    /// A negative dimension.
    #[error("tensor {tensor}: dimension {axis} is {value}; it must not be negative")]
    Dimension {
        /// The tensor.
        tensor: String,
        /// Which, from 0 (the contiguous one).
        axis: u32,
        /// Its value.
        value: i64,
    },
    /// More elements, or bytes, than can be counted.
    #[error("tensor {tensor}: dimensions {dims:?} of {ty} overflow; the file is damaged")]
    SizeOverflow {
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        dims: [u64; 4],
        /// Its type.
        ty: GgmlType,
    },
    /// An unknown or removed element type.
    #[error("tensor {tensor}: {}", type_problem(*id))]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The type id.
        id: u32,
    },
    /// Rows that are not a whole number of blocks.
    #[error("tensor {tensor}: rows of {row} values are not whole blocks of {} ({} values each)", ty, ty.block_len())]
    PartBlock {
        /// The tensor.
        tensor: String,
        /// Values per row.
        row: u64,
        /// Its type.
        ty: GgmlType,
    },
    /// A tensor's data does not follow the previous tensor's.
    #[error("tensor {tensor}: data at offset {offset}, but it must be at {expected}, after the tensor before it")]
    Offset {
        /// The tensor.
        tensor: String,
        /// The offset in the file, from the start of the data.
        offset: u64,
        /// Where the previous tensor ends, padded.
        expected: u64,
    },
    /// A tensor's data starts off the alignment.
    #[error("tensor {tensor}: data at offset {offset} is not aligned to {alignment}")]
    Unaligned {
        /// The tensor.
        tensor: String,
        /// The offset in the file, from the start of the data.
        offset: u64,
        /// The alignment of the file.
        alignment: u64,
    },
    /// The file ends before a tensor's data does.
    #[error("tensor {tensor}: its data ends at byte {end}, but the file has {len}; it is cut short, fetch it again")]
    DataTruncated {
        /// The tensor.
        tensor: String,
        /// End of the data, from the start of the file.
        end: u64,
        /// Length of the file.
        len: u64,
    },
    /// A scale that is NaN or infinite.
    #[error("tensor {tensor}: block {block} has a scale of {scale}; the file is damaged")]
    BadScale {
        /// The tensor.
        tensor: String,
        /// Number of the block (of the element, for plain types), from 0.
        block: u64,
        /// The scale.
        scale: f32,
    },

    // Split files.
    /// A shard other than the first was given.
    #[error("this is shard {} of {count}; open the first one{}", no + 1, first.as_ref().map(|p| format!(": {}", p.display())).unwrap_or_default())]
    NotFirstShard {
        /// split.no, from 0.
        no: u64,
        /// split.count.
        count: u64,
        /// The first shard, if the name of this one tells it.
        first: Option<PathBuf>,
    },
    /// The name of the first of several shards does not tell the names of the others.
    #[error(
        "the model is split in {count} files, so the name of this one must end in -00001-of-{count:05}.gguf; restore the names"
    )]
    SplitName {
        /// split.count.
        count: u64,
    },
    /// A shard that is not the one that its name says.
    #[error("split.no is {found}, but by its name this is number {expected} (from 0); the shards are mixed up")]
    SplitNumber {
        /// split.no.
        found: u64,
        /// By the name.
        expected: u64,
    },
    /// Shards that disagree about their number.
    #[error("split.count is {found}, but the first shard says {expected}; the shards are of different models")]
    SplitCount {
        /// split.count of this shard.
        found: u64,
        /// split.count of the first.
        expected: u64,
    },
    /// Another number of shards than the first one announces.
    #[error("the model is split in {count} files, but {given} were given")]
    SplitIncomplete {
        /// Shards given.
        given: u64,
        /// split.count.
        count: u64,
    },
    /// Shards of different models.
    #[error(
        "general.architecture is {:?}, but the first shard says {:?}; the shards are of different models",
        cut(found, NAME),
        cut(expected, NAME)
    )]
    SplitArchitecture {
        /// Of this shard.
        found: String,
        /// Of the first.
        expected: String,
    },
    /// The shards together hold another number of tensors than announced.
    #[error("the shards hold {found} tensors, but split.tensors.count says {expected}; fetch them again")]
    SplitTensors {
        /// Tensors in all shards.
        found: u64,
        /// split.tensors.count.
        expected: i64,
    },
}

impl Error {
    /// The error itself, without the file it is about.
    pub fn root(&self) -> &Error {
        match self {
            Error::InFile { problem, .. } => problem.root(),
            other => other,
        }
    }

    pub(crate) fn in_file(self, path: &Path) -> Error {
        match self {
            already @ Error::InFile { .. } => already,
            problem => Error::InFile { path: path.to_owned(), problem: Box::new(problem) },
        }
    }
}

fn type_problem(id: u32) -> String {
    match crate::ggml_type::REMOVED_IDS.contains(&id) {
        true => format!("type {id} was removed from GGUF; quantise the model again"),
        false => format!("type {id} is unknown; the file is damaged or newer than this Kernloom"),
    }
}

//! An open model: one GGUF file, or the several files of a split model.
//!
//! Everything that the header says is checked when the file is opened, against the size of the file, so that what is
//! handed out later is in bounds. Tensor data is not touched. What is not checked here: whether names, shapes and
//! hyperparameters make a model ([`Gguf::check_weights`] looks at the scales on request).

use crate::error::Error;
use crate::format::{Blocks, Encoding, FloatKind, PlainKind, Scale};
use crate::metadata::Metadata;
use crate::mmap::Bytes;
use crate::shard::{Shard, Tensor};
use crate::split;
use crate::ternary;
use std::path::Path;

/// How to open a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Ask the system to start reading all of the file from disk at once.
    pub will_need: bool,
}

/// An open model: metadata, tensors and their data.
#[derive(Debug)]
pub struct Gguf {
    shards: Vec<Shard>,
    tensors: Vec<Tensor>,
    /// Indices into `tensors`, by name.
    sorted: Vec<u32>,
}

impl Gguf {
    /// Maps the file at `path`. Of a split model, give the first file; the others are found by their names.
    ///
    /// # Errors
    /// Any [`Error`], with the file it is about.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Self::open_with(path, OpenOptions::default())
    }

    /// As [`Gguf::open`], with options.
    ///
    /// # Errors
    /// Any [`Error`], with the file it is about.
    pub fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Gguf, Error> {
        let file = Self::join(split::open_all(path.as_ref())?)?;
        if options.will_need {
            for shard in &file.shards {
                if let Bytes::Map(map) = &*shard.bytes {
                    map.will_need(0..usize::MAX);
                }
            }
        }
        Ok(file)
    }

    /// Maps one file of a split model (any of them) by itself.
    ///
    /// # Errors
    /// Any [`Error`], with the file it is about.
    pub fn open_shard(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Self::join(vec![Shard::open(path.as_ref())?])
    }

    /// Reads a model that is in memory in one piece.
    ///
    /// # Errors
    /// Any [`Error`] but those of files.
    pub fn parse(bytes: Vec<u8>) -> Result<Gguf, Error> {
        Self::parse_shards(vec![bytes])
    }

    /// Reads a split model that is in memory, the files in order.
    ///
    /// # Errors
    /// Any [`Error`] but those of files.
    pub fn parse_shards(files: Vec<Vec<u8>>) -> Result<Gguf, Error> {
        let shards = files.into_iter().map(|bytes| Shard::read(Bytes::owned(bytes), None));
        let shards = shards.collect::<Result<Vec<_>, _>>()?;
        split::check(&shards)?;
        Self::join(shards)
    }

    /// Puts the tensors of all shards into one list.
    fn join(mut shards: Vec<Shard>) -> Result<Gguf, Error> {
        if shards.is_empty() {
            return Err(Error::Empty);
        }
        let mut tensors = Vec::new();
        for (number, shard) in shards.iter_mut().enumerate() {
            for mut tensor in std::mem::take(&mut shard.tensors) {
                tensor.shard = number;
                tensors.push(tensor);
            }
        }
        let mut sorted: Vec<u32> = (0..tensors.len() as u32).collect();
        sorted.sort_unstable_by_key(|&at| tensors[at as usize].name.as_str());
        for pair in sorted.windows(2) {
            let [a, b] = [&tensors[pair[0] as usize], &tensors[pair[1] as usize]];
            if a.name == b.name {
                let problem = Error::DuplicateTensor { name: a.name.clone() };
                return Err(shards[a.shard.max(b.shard)].locate(problem));
            }
        }
        Ok(Gguf { shards, tensors, sorted })
    }

    /// The metadata; of a split model, that of the first file.
    pub fn metadata(&self) -> &Metadata {
        &self.shards[0].metadata
    }

    /// The value of `general.architecture`.
    ///
    /// # Errors
    /// [`Error::MissingKey`] or [`Error::WrongType`].
    pub fn architecture(&self) -> Result<&str, Error> {
        self.metadata().str("general.architecture")
    }

    /// Version of the container, 2 or 3.
    pub fn version(&self) -> u32 {
        self.shards[0].version
    }

    /// Alignment of tensor data in the file, in bytes; of a split model, in the first file.
    pub fn alignment(&self) -> u64 {
        self.shards[0].alignment
    }

    /// Number of files.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Path of a file; `None` for models in memory.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn shard_path(&self, shard: usize) -> Option<&Path> {
        self.shards[shard].path.as_deref()
    }

    /// Length of a file, in bytes.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn shard_bytes(&self, shard: usize) -> u64 {
        self.shards[shard].bytes.bytes().len() as u64
    }

    /// Length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        (0..self.shards()).map(|shard| self.shard_bytes(shard)).sum()
    }

    /// Where tensor data starts in a file, in bytes.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn data_start(&self, shard: usize) -> u64 {
        self.shards[shard].data_start
    }

    /// The tensors, in the order of the files.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        let at = self.sorted.binary_search_by(|&at| self.tensors[at as usize].name.as_str().cmp(name)).ok()?;
        Some(&self.tensors[self.sorted[at] as usize])
    }

    /// The data of a tensor of this model: `tensor.bytes` bytes, aligned to nothing in particular in memory.
    ///
    /// # Panics
    /// If the tensor is not one of [`Gguf::tensors`] and lies outside the files.
    pub fn data(&self, tensor: &Tensor) -> &[u8] {
        let start = tensor.offset as usize;
        &self.shards[tensor.shard].bytes.bytes()[start..start + tensor.bytes as usize]
    }

    /// The data of a tensor and [`SLACK`](crate::SLACK) readable bytes after it, which belong to other tensors or to
    /// nothing.
    ///
    /// # Panics
    /// As [`Gguf::data`].
    pub fn data_with_slack(&self, tensor: &Tensor) -> &[u8] {
        let start = tensor.offset as usize;
        &self.shards[tensor.shard].bytes.with_slack()[start..start + tensor.bytes as usize + crate::SLACK]
    }

    /// Asks the system to start reading a tensor's data from disk. A hint; does nothing for models in memory.
    pub fn will_need(&self, tensor: &Tensor) {
        if let Bytes::Map(map) = &*self.shards[tensor.shard].bytes {
            map.will_need(tensor.offset as usize..(tensor.offset + tensor.bytes) as usize);
        }
    }

    /// Touches all of the file's data, piece by piece while it is `wanted`, so that its first use costs few faults; what
    /// is not in memory is read from disk. Does nothing for models in memory.
    pub fn bring_in(&self, wanted: impl Fn() -> bool) {
        const PIECE: usize = 64 << 20;
        for shard in &self.shards {
            let Bytes::Map(map) = &*shard.bytes else { continue };
            for start in (0..map.bytes().len()).step_by(PIECE) {
                if !wanted() {
                    return;
                }
                map.bring_in(start..start + PIECE);
            }
        }
    }

    /// Checks that no file was changed on disk since it was opened. A model whose file shrinks while it is mapped
    /// crashes the process at the next touch: call this before a long use.
    ///
    /// # Errors
    /// [`Error::Changed`], with the file.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        for shard in &self.shards {
            if let Bytes::Map(map) = &*shard.bytes {
                map.check_unchanged().map_err(|problem| shard.locate(problem))?;
            }
        }
        Ok(())
    }

    /// Reads all of a tensor's data and checks that no scale (no element, for plain floats) is NaN or infinite.
    /// Types that nothing computes with pass.
    ///
    /// # Errors
    /// [`Error::BadScale`] with the first such block.
    pub fn check_weights(&self, tensor: &Tensor) -> Result<(), Error> {
        let Some(format) = tensor.ty.computed_as().format() else {
            return Ok(());
        };
        let blocks = self.data(tensor).chunks_exact(tensor.ty.block_bytes() as usize);
        let mut unpacked = vec![0; format.block_bytes() as usize];
        for (at, mut block) in blocks.enumerate() {
            if tensor.ty.is_unpacked() {
                ternary::unpack(block, &mut unpacked);
                block = &unpacked;
            }
            let bad = match &format.encoding {
                Encoding::Blocks(blocks) => bad_scale(blocks, block),
                Encoding::Plain(kind) => bad_element(*kind, block),
            };
            if let Some(scale) = bad {
                let problem = Error::BadScale { tensor: tensor.name.clone(), block: at as u64, scale };
                return Err(self.shards[tensor.shard].locate(problem));
            }
        }
        Ok(())
    }
}

fn bad_scale(blocks: &Blocks, block: &[u8]) -> Option<f32> {
    let bad = |kind: FloatKind, at: &[u8]| match kind {
        FloatKind::E8M0Half => (at[0] == u8::MAX).then_some(f32::NAN),
        FloatKind::E4M3Half => (at[0] & 0x7F == 0x7F).then_some(f32::NAN),
        kind => Some(kind.get(at)).filter(|v| !v.is_finite()),
    };
    let check = |scale: &Scale| scale.float_bytes(blocks.block).find_map(|at| bad(scale.kind, &block[at..]));
    check(&blocks.scale).or_else(|| blocks.min.as_ref().and_then(|(min, _)| check(min)))
}

fn bad_element(kind: PlainKind, bytes: &[u8]) -> Option<f32> {
    let value = match (kind, bytes) {
        (PlainKind::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (PlainKind::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32(),
        (PlainKind::BF16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f32(),
        _ => return None,
    };
    (!value.is_finite()).then_some(value)
}

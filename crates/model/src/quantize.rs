//! A model file in another quantisation.
//!
//! Matrices get the types that llama.cpp's quantiser gives them; what is no matrix stays as it is, and so does the metadata.
//! Errors may be weighed by what the matrices meet ([`crate::importance`]). Rows pass through memory a few at a time, so that
//! a file of any size can be written.
//!
//! ```no_run
//! use model::{quantize::{QuantizePlan, QuantizeOptions}, synth::Quant};
//! let file = gguf::Gguf::open("model-bf16.gguf")?;
//! let plan = QuantizePlan::new(&file, Quant::Q4_0, QuantizeOptions::default())?;
//! plan.write("model-q4_0.gguf", |done, total| { let _ = (done, total); })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::config::{Attention, Config, ConfigError};
use crate::importance::Importances;
use crate::mix::{Mix, Quant, Role};
use gguf::dequant::Dequantiser;
use gguf::quantise::Quantiser;
use gguf::{GgmlType, Gguf, WriteError, Writer};
use std::io;
use std::path::Path;
use thiserror::Error;

/// The quantisations that can be written: all but MXFP4, which elsewhere only experts have, and NVFP4, of which each tensor has a
/// scale beside it there.
pub const QUANTS: [Quant; 19] = [
    Quant::F32,
    Quant::F16,
    Quant::Bf16,
    Quant::Q8_0,
    Quant::Q6K,
    Quant::Q5KM,
    Quant::Q5_1,
    Quant::Q5_0,
    Quant::Q4KM,
    Quant::Q4_1,
    Quant::Q4_0,
    Quant::Iq4Nl,
    Quant::Iq4Xs,
    Quant::Q3KM,
    Quant::Q2K,
    Quant::Q2_0,
    Quant::Tq2_0,
    Quant::Tq1_0,
    Quant::Q1_0,
];

/// Values that a thread converts at a time, about.
const VALUES: usize = 1 << 18;

/// Layout of the quantised blocks of today.
const QUANTIZATION_VERSION: u32 = 2;

/// Why a file cannot be quantised.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// A quantisation that is not written.
    #[error("cannot write {0}; what can be written is {names}", names = QUANTS.map(Quant::name).join(", "))]
    Target(&'static str),
    /// What would lose twice.
    #[error(
        "tensor {tensor} is {ty} already, and quantising it again loses more; --allow-requantize does it all the same"
    )]
    Quantised {
        /// The first such tensor.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// What is not quantised from.
    #[error("tensor {tensor} is {ty}, whose values cannot be read")]
    Source {
        /// The tensor.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// Importances of another model.
    #[error(
        "tensor {tensor} has {values} columns, and the importance matrix has {importances} values for it; it is of another model"
    )]
    Importances {
        /// The first such tensor.
        tensor: String,
        /// Columns of all its matrices.
        values: usize,
        /// Values that were given.
        importances: usize,
    },
    /// The metadata is not that of a model.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file cannot be written, or a tensor has values that cannot be quantised.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// How to quantise.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuantizeOptions<'a> {
    /// Takes values that are quantised already.
    pub allow_requantize: bool,
    /// What each column of the matrices counts; all alike without.
    pub importances: Option<&'a Importances>,
}

/// A file to be written.
#[derive(Debug)]
pub struct QuantizePlan<'a> {
    file: &'a Gguf,
    writer: Writer,
    importances: Option<&'a Importances>,
}

impl<'a> QuantizePlan<'a> {
    /// Chooses the type of every tensor.
    ///
    /// # Errors
    /// A target or a source type that is not supported, a source that is quantised already, metadata of no model, importances
    /// of another one.
    pub fn new(file: &'a Gguf, quant: Quant, options: QuantizeOptions<'a>) -> Result<QuantizePlan<'a>, QuantizeError> {
        if !QUANTS.contains(&quant) {
            return Err(QuantizeError::Target(quant.name()));
        }
        let config = Config::read(file)?;
        let shared_values = match config.attention {
            Attention::Grouped { kv_heads, .. } => config.heads / kv_heads >= 4,
            Attention::Latent { .. } | Attention::None => false,
        };
        let tied = file.tensor("output.weight").is_none();
        let layers = block_count(file, &config);
        let weighted = options.importances.is_some();
        let mix = Mix { quant, layers, tied, shared_values, weighted };
        let mut writer = Writer::new();
        writer.copy_metadata(file.metadata());
        writer.set("general.file_type", quant.file_type());
        writer.set("general.quantization_version", QUANTIZATION_VERSION);
        for tensor in file.tensors() {
            let role = if tensor.n_dims < 2 { Role::Plain } else { Role::of(&tensor.name) };
            let ty = match role {
                Role::Plain => tensor.ty,
                role => mix.type_of(role, block_of(&tensor.name), tensor.dims[0]),
            };
            let name = || tensor.name.clone();
            match tensor.ty {
                same if same == ty => {}
                GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => {}
                other if other.computed_as().format().is_none() => {
                    return Err(QuantizeError::Source { tensor: name(), ty: other });
                }
                _ if options.allow_requantize => {}
                other => return Err(QuantizeError::Quantised { tensor: name(), ty: other }),
            }
            if let Some(sums) = options.importances.and_then(|all| all.tensors.get(&tensor.name)) {
                let (columns, values) = (tensor.dims[0], tensor.dims[0] * tensor.dims[2] * tensor.dims[3]);
                let importances = sums.squares.len();
                if importances as u64 != values && importances as u64 != columns {
                    return Err(QuantizeError::Importances { tensor: name(), values: values as usize, importances });
                }
            }
            writer.tensor(&tensor.name, ty, tensor.shape())?;
        }
        if let Some(importances) = options.importances {
            writer.set("quantize.imatrix.entries_count", importances.tensors.len() as i32);
            writer.set("quantize.imatrix.chunks_count", importances.windows.0 as i32);
            if let Some(text) = importances.texts.first() {
                writer.set("quantize.imatrix.dataset", text.as_str());
            }
        }
        Ok(QuantizePlan { file, writer, importances: options.importances })
    }

    /// Matrices of blocks that are quantised without importances, though others have them.
    pub fn unweighted(&self) -> impl Iterator<Item = &str> {
        let all = self.importances.into_iter();
        all.flat_map(|known| {
            let quantised = self.tensors().iter().filter(|t| t.n_dims > 1 && t.ty.block_len() > 1);
            let of_blocks = quantised.map(|t| t.name.as_str()).filter(|name| in_block(name).is_some());
            of_blocks.filter(|name| !known.tensors.contains_key(*name))
        })
    }

    /// The tensors as they will be.
    pub fn tensors(&self) -> &[gguf::Tensor] {
        self.writer.tensors()
    }

    /// Bytes of all tensors as they will be.
    pub fn bytes(&self) -> u64 {
        self.tensors().iter().map(|tensor| tensor.bytes).sum()
    }

    /// Writes the file. `progress` learns how many of [`QuantizePlan::bytes`] are written, and that number.
    ///
    /// # Errors
    /// What the system says, and values that are not finite or too large, with the tensor; the file at `path` is then as
    /// it was before.
    pub fn write(&self, path: impl AsRef<Path>, mut progress: impl FnMut(u64, u64)) -> Result<(), QuantizeError> {
        let (mut done, total) = (0, self.bytes());
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
        self.writer.write(path, |tensor, out| {
            let source = self.file.tensor(&tensor.name).ok_or_else(|| io::Error::other("the source lacks it"))?;
            let from = self.file.data(source);
            let mut emit = |bytes: &[u8]| {
                out.write_all(bytes)?;
                done += bytes.len() as u64;
                progress(done, total);
                Ok(())
            };
            match source.ty == tensor.ty {
                true => from.chunks(VALUES).try_for_each(emit),
                false => {
                    let sums = self.importances.and_then(|all| all.tensors.get(&tensor.name));
                    let means = sums.map(|sums| sums.means()).unwrap_or_default();
                    let matrix = Matrix { columns: source.dims[0] as usize, rows: source.dims[1] as usize, means };
                    Conversion::new(source.ty, tensor.ty)?.run(from, &matrix, workers, &mut emit)
                }
            }
        })?;
        Ok(())
    }
}

/// The rows of one matrix or of several, and what their columns count.
struct Matrix {
    columns: usize,
    rows: usize,
    /// `[matrices, columns]`, or one for all; empty if all count alike.
    means: Vec<f32>,
}

impl Matrix {
    /// What the columns of a row count.
    fn means_of(&self, row: usize) -> Option<&[f32]> {
        let matrices = self.means.len() / self.columns;
        (matrices > 0).then(|| &self.means[row / self.rows % matrices * self.columns..][..self.columns])
    }
}

/// From the values of one type to those of another.
struct Conversion {
    from: Dequantiser,
    to: Quantiser,
    from_row: Box<dyn Fn(usize) -> usize + Sync>,
    to_row: Box<dyn Fn(usize) -> usize + Sync>,
}

impl Conversion {
    fn new(from: GgmlType, to: GgmlType) -> io::Result<Conversion> {
        let row = |ty: GgmlType| -> Box<dyn Fn(usize) -> usize + Sync> {
            Box::new(move |values| values / ty.block_len() as usize * ty.block_bytes() as usize)
        };
        Ok(Conversion {
            from: Dequantiser::of_type(from).ok_or_else(|| io::Error::other(format!("cannot read {from}")))?,
            to: Quantiser::of_type(to).map_err(io::Error::other)?,
            from_row: row(from),
            to_row: row(to),
        })
    }

    /// Converts the rows, some on each thread at a time, and emits them in order.
    fn run(
        &self,
        data: &[u8],
        matrix: &Matrix,
        workers: usize,
        emit: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (row, rows) = ((self.from_row)(matrix.columns), (VALUES / matrix.columns).max(1));
        let parts: Vec<(usize, &[u8])> = (0..).step_by(rows).zip(data.chunks(row * rows)).collect();
        for batch in parts.chunks(workers) {
            let converted: Vec<io::Result<Vec<u8>>> = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    batch.iter().map(|&(first, part)| scope.spawn(move || self.rows(part, matrix, first))).collect();
                threads
                    .into_iter()
                    .map(|t| t.join().unwrap_or_else(|_| Err(io::Error::other("a thread failed"))))
                    .collect()
            });
            for part in converted {
                emit(&part?)?;
            }
        }
        Ok(())
    }

    /// Converts rows from row `first` on.
    fn rows(&self, data: &[u8], matrix: &Matrix, first: usize) -> io::Result<Vec<u8>> {
        let columns = matrix.columns;
        let rows = data.len() / (self.from_row)(columns);
        let mut values = vec![0.0; rows * columns];
        self.from.run(data, &mut values).map_err(io::Error::other)?;
        let to_row = (self.to_row)(columns);
        let mut out = vec![0; rows * to_row];
        if matrix.means.is_empty() {
            self.to.run(&values, &mut out).map_err(io::Error::other)?;
            return Ok(out);
        }
        for (at, (values, out)) in values.chunks(columns).zip(out.chunks_mut(to_row)).enumerate() {
            let means = matrix.means_of(first + at).unwrap_or_default();
            self.to.run_weighted(values, means, out).map_err(io::Error::other)?;
        }
        Ok(out)
    }
}

/// The blocks of the file, those of multi-token prediction included.
fn block_count(file: &Gguf, config: &Config) -> u32 {
    let most = file.tensors().iter().filter(|t| in_block(&t.name).is_some()).map(|t| block_of(&t.name) + 1).max();
    most.unwrap_or(0).max(u32::try_from(config.layers).unwrap_or(0))
}

/// The block that a tensor belongs to; 0 for those of none.
fn block_of(name: &str) -> u32 {
    in_block(name).and_then(|rest| rest.split('.').next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The name of a tensor from the number of its block on, of an encoder or of any other model.
fn in_block(name: &str) -> Option<&str> {
    name.strip_prefix("enc.").unwrap_or(name).strip_prefix("blk.")
}

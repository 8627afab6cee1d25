//! Model files with the architecture of real models and random weights.
//!
//! Text from such a model is noise; its shapes, types, routing, and therefore its speed and memory are those of the
//! real one. A [`SynthPlan`] knows every tensor of the file before any data exists:
//!
//! ```
//! use model::synth::{SynthPlan, SynthOptions};
//! let plan = SynthPlan::new("glm-4.7-flash", "q4_0", &SynthOptions::default())?;
//! assert_eq!(plan.bytes(), 16_946_547_200);
//! # Ok::<(), model::synth::SynthError>(())
//! ```
//!
//! The files are complete: metadata, a byte-level vocabulary of the full size, a chat template. Types follow the mix
//! that llama.cpp's quantiser chooses without an importance matrix. The weights are not trained and not quantised from
//! anything: blocks are drawn directly, so that a matrix has about the spread of a freshly initialised one.
//!
//! - `shape`: the models. `tensors`: their tensors; `crate::mix` has the type of each.
//! - `metadata`: the header; the vocabulary in it is one of `text::synth`.
//! - `blocks`, `pool`, `random`: the data; [`hollow`]: files without.

mod blocks;
pub mod hollow;
mod metadata;
mod pool;
mod random;
mod shape;
mod tensors;

pub use crate::mix::Quant;
pub use shape::{Head, Kinds, RopeScaling, Shape, shapes};

use crate::config::Attention;
use crate::mix::{self, Mix, Role};
use gguf::{GgmlType, WriteError, Writer};
use pool::Pools;
use random::Random;
use std::io::{self, Write};
use std::path::Path;
use tensors::Fill;
use text::synth::Vocab;

/// Most blocks that a file may ask for.
const LAYER_LIMIT: u32 = 512;

/// Values of a small tensor that are made at a time.
const CHUNK: usize = 1 << 16;

/// Why there is no such file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// No shape has this name.
    #[error("there is no shape '{name}' (shapes: {known})")]
    UnknownShape {
        /// The name.
        name: String,
        /// All names there are.
        known: String,
    },
    /// No quantisation has this name.
    #[error("there is no quantisation '{name}' (quantisations: {known})")]
    UnknownQuant {
        /// The name.
        name: String,
        /// All names there are.
        known: String,
    },
    /// A number of layers that no reader takes.
    #[error("{0} layers are out of range (1 to {LAYER_LIMIT})")]
    Layers(u32),
    /// `legacy_kv_b` for a model that has no such tensor in any form.
    #[error("'{0}' has no latent attention, so there is no attn_kv_b to write")]
    NoLatentAttention(&'static str),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What may differ from the real model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthOptions {
    /// Number of blocks; `None` for that of the model. llama.cpp tells the variants of `deepseek2` apart by the number
    /// of blocks and refuses some others.
    pub layers: Option<u32>,
    /// Seed of all weights.
    pub seed: u64,
    /// Gives keys (`attn_k`, `attn_kv_a_mqa`) and shared experts another type than the matrices beside them, as some
    /// recipes do.
    pub mixed: bool,
    /// Writes the keys and values of latent attention as one `attn_kv_b`, as files from before 2025 do.
    pub legacy_kv_b: bool,
}

/// A tensor of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedTensor {
    /// Name in the file.
    pub name: String,
    /// Element type.
    pub ty: GgmlType,
    /// Sizes, the contiguous dimension first.
    pub shape: Vec<u64>,
    /// Bytes of data, without padding.
    pub bytes: u64,
    fill: Fill,
}

/// A file that can be written.
#[derive(Clone, Debug)]
pub struct SynthPlan {
    shape: &'static Shape,
    quant: Quant,
    options: SynthOptions,
    layers: u32,
    tensors: Vec<PlannedTensor>,
}

impl SynthPlan {
    /// Plans the file of a shape (see [`shapes`]) in a quantisation (see [`Quant::ALL`]).
    ///
    /// # Errors
    /// Names that do not exist, and options that do not fit the shape.
    pub fn new(shape: &str, quant: &str, options: &SynthOptions) -> Result<SynthPlan, SynthError> {
        let shape = Shape::named(shape)?;
        let unknown =
            || SynthError::UnknownQuant { name: quant.to_owned(), known: join(Quant::ALL.iter().map(|q| q.name())) };
        let quant = Quant::named(quant).ok_or_else(unknown)?;
        let layers = options.layers.unwrap_or(shape.layers);
        if !(1..=LAYER_LIMIT).contains(&layers) {
            return Err(SynthError::Layers(layers));
        }
        if options.legacy_kv_b && !shape.is_latent() {
            return Err(SynthError::NoLatentAttention(shape.name));
        }
        let mut options = options.clone();
        options.legacy_kv_b |= shape.whole_kv_b;
        let tensors = tensors::tensors(shape, layers, options.legacy_kv_b);
        let plan = |tensor: tensors::Spec| {
            let ty = type_of(quant, &tensor, shape, layers, &options);
            let row = ty.row_bytes(tensor.shape[0]);
            PlannedTensor {
                bytes: row.expect("rows fit their type") * tensor.rows(),
                name: tensor.name,
                ty,
                shape: tensor.shape,
                fill: tensor.fill,
            }
        };
        let tensors = tensors.into_iter().map(plan).collect();
        Ok(SynthPlan { shape, quant, options, layers, tensors })
    }

    /// The shape.
    pub fn shape(&self) -> &'static Shape {
        self.shape
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// Bytes of all tensors, without header and padding.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// Bytes of weights that one token reads when each weight is read once: one row of the embedding (all of it if it
    /// is the output too), the experts in use, everything else in full.
    pub fn step_bytes(&self) -> u64 {
        let read = |tensor: &PlannedTensor| match &self.shape.experts {
            _ if tensor.name == "token_embd.weight" && !self.shape.tied => tensor.bytes / tensor.shape[1],
            _ if tensor.name == "per_layer_token_embd.weight" => tensor.bytes / tensor.shape[1],
            Some(experts) if tensor.name.contains("_exps.") => {
                tensor.bytes / experts.count as u64 * experts.used as u64
            }
            _ => tensor.bytes,
        };
        self.tensors.iter().map(read).sum()
    }

    /// Writes the file. `progress` learns how many of [`SynthPlan::bytes`] are written, and that number.
    ///
    /// # Errors
    /// What the system says about the file.
    pub fn write(&self, path: impl AsRef<Path>, progress: impl FnMut(u64, u64)) -> Result<(), SynthError> {
        let mut data = Data::new(self, progress);
        let writer = self.writer(true)?;
        Ok(writer.write(path, |_, out| data.next_tensor(out))?)
    }

    /// Writes the file with zeros for matrices, which take no room on disk: [`crate::step::build`] compiles it as it does the
    /// real one. It need not have a vocabulary for that.
    ///
    /// # Errors
    /// What the system says about the file.
    pub fn write_hollow(&self, path: impl AsRef<Path>, vocabulary: bool) -> Result<(), SynthError> {
        let path = path.as_ref();
        let failed = |source| SynthError::Write(WriteError::File { path: path.to_owned(), source });
        let mut file = hollow::Hollow::create(path).map_err(failed)?;
        let mut data = Data::new(self, |_, _| {});
        let size = self.writer(vocabulary)?.write_to(&mut file, |_, out| match data.tensors.as_slice().first() {
            Some(PlannedTensor { fill: Fill::Weights { .. }, bytes, .. }) => {
                data.tensors.next();
                hollow::zeros(out, *bytes)
            }
            _ => data.next_tensor(out),
        })?;
        file.finish(size).map_err(failed)
    }

    /// The file in memory; meant for the tiny shapes.
    ///
    /// # Errors
    /// None that a plan can cause.
    pub fn to_vec(&self) -> Result<Vec<u8>, SynthError> {
        let mut data = Data::new(self, |_, _| {});
        let writer = self.writer(true)?;
        Ok(writer.to_vec(|_, out| data.next_tensor(out))?)
    }

    fn writer(&self, vocabulary: bool) -> Result<Writer, WriteError> {
        let mut writer = Writer::new();
        metadata::set(&mut writer, self);
        if vocabulary {
            Vocab::new(self.shape.family, self.shape.vocab as usize).write(&mut writer);
        }
        for tensor in &self.tensors {
            writer.tensor(&tensor.name, tensor.ty, &tensor.shape)?;
        }
        Ok(writer)
    }
}

/// Makes the data of one tensor after the other.
struct Data<'a, P> {
    seed: u64,
    tensors: std::slice::Iter<'a, PlannedTensor>,
    pools: Pools,
    done: u64,
    total: u64,
    progress: P,
}

impl<'a, P: FnMut(u64, u64)> Data<'a, P> {
    fn new(plan: &'a SynthPlan, progress: P) -> Self {
        Data {
            seed: plan.options.seed,
            tensors: plan.tensors.iter(),
            pools: Pools::new(plan.options.seed, &plan.tensors),
            done: 0,
            total: plan.bytes(),
            progress,
        }
    }

    fn next_tensor(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let tensor = self.tensors.next().expect("one call for each tensor");
        let (done, total, progress) = (&mut self.done, self.total, &mut self.progress);
        let mut put = |bytes: &[u8]| {
            out.write_all(bytes)?;
            *done += bytes.len() as u64;
            progress(*done, total);
            Ok(())
        };
        let mut random = Random::new(self.seed, &tensor.name);
        match &tensor.fill {
            Fill::Weights { std } => self.pools.stream(tensor, *std, &mut random, &mut put),
            Fill::Normal { mean, std } => {
                let mut left = tensor.bytes as usize / size_of::<f32>();
                while left > 0 {
                    let n = left.min(CHUNK);
                    let value = |_| (mean + std * random.normal()).to_le_bytes();
                    put((0..n).flat_map(value).collect::<Vec<u8>>().as_slice())?;
                    left -= n;
                }
                Ok(())
            }
            Fill::Values(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                put(&bytes)
            }
        }
    }
}

/// The type of a tensor.
fn type_of(quant: Quant, tensor: &tensors::Spec, shape: &Shape, layers: u32, options: &SynthOptions) -> GgmlType {
    let columns = tensor.shape[0];
    if options.mixed && tensor.role != Role::Plain && (tensor.role == Role::Key || tensor.shared) {
        // Another type than that of most, of blocks as short as any.
        let other = if quant.base() == GgmlType::Q8_0 { GgmlType::Q4_0 } else { GgmlType::Q8_0 };
        return mix::fitting(other, columns);
    }
    let shared_values = match shape.attention {
        Attention::Grouped { kv_heads, .. } => shape.heads / kv_heads >= 4,
        Attention::Latent { .. } | Attention::None => false,
    };
    Mix { quant, layers, tied: shape.tied, shared_values, weighted: false }.type_of(tensor.role, tensor.layer, columns)
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// The configuration of a shape in Q4_0.
#[cfg(test)]
pub(crate) fn config_of(shape: &str) -> crate::config::Config {
    let plan = SynthPlan::new(shape, "q4_0", &SynthOptions::default()).expect("a shape");
    let file = gguf::Gguf::parse(plan.to_vec().expect("a file")).expect("a file");
    crate::config::Config::read(&file).expect("a model")
}

//! The tensors of a file as tensors of a program.

use crate::config::{Config, ConfigError};
use crate::family::{EXPERT_CHOICE_BIAS, Family};
use compiler::{Builder, Dim, Tensor};
use gguf::{GgmlType, Gguf};
use ir::DType;
use std::cell::RefCell;
use std::collections::HashSet;

/// Looks tensors up by name and checks their shapes.
pub struct Weights<'a> {
    file: &'a Gguf,
    builder: &'a Builder,
    /// What parts of names are in the file, if they are others.
    names: &'static [(&'static str, &'static str)],
    /// Names of the tensors that were looked up.
    read: RefCell<HashSet<String>>,
}

impl<'a> Weights<'a> {
    /// Weights of a file of a family, recorded in a builder.
    pub fn new(file: &'a Gguf, family: &Family, builder: &'a Builder) -> Weights<'a> {
        Weights { file, builder, names: family.names, read: RefCell::default() }
    }

    /// The tensor of this name, which may have another in the file.
    fn tensor(&self, name: &str) -> Option<&'a gguf::Tensor> {
        self.file.tensor(&self.in_file(name))
    }

    /// What the tensor of this name is called in the file.
    fn in_file(&self, name: &str) -> String {
        self.names.iter().fold(name.to_string(), |name, (ours, theirs)| name.replacen(ours, theirs, 1))
    }

    /// Names of the tensors that were looked up.
    pub(crate) fn into_read(self) -> HashSet<String> {
        self.read.into_inner()
    }

    /// Whether the file has a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.tensor(name).is_some()
    }

    /// The shape of a tensor, rows last, if the file has it.
    pub fn shape(&self, name: &str) -> Option<Vec<i64>> {
        Some(self.tensor(name)?.shape().iter().rev().map(|&n| n as i64).collect())
    }

    /// A tensor as f32 values; `shape` has the rows last, as the file lists it
    /// backwards.
    ///
    /// # Errors
    /// If it is missing, of another shape, or of a type without kernels.
    pub fn get(&self, name: &str, shape: &[i64]) -> Result<Tensor, ConfigError> {
        let t = self.tensor(name).ok_or_else(|| ConfigError::Missing(self.in_file(name)))?;
        let expected: Vec<u64> = shape.iter().rev().map(|&d| d as u64).collect();
        let mut padded = expected.clone();
        padded.resize(4, 1);
        if padded[..4] != t.dims {
            return Err(ConfigError::Shape { name: t.name.clone(), found: t.shape().to_vec(), expected });
        }
        let name = t.name.as_str();
        self.read.borrow_mut().insert(name.into());
        let dims: Vec<Dim> = shape.iter().map(|&d| Dim::Const(d)).collect();
        let plain = |ty| self.builder.param(name, ty, &dims).cast(DType::F32);
        Ok(match t.ty {
            GgmlType::F32 => plain(DType::F32),
            GgmlType::F16 => plain(DType::F16),
            GgmlType::BF16 => plain(DType::BF16),
            ty => match ty.computed_as().format() {
                Some(f) if f.as_blocks().is_some() => self.builder.quantised(name, f, &dims),
                _ => return Err(ConfigError::Type { name: name.into(), ty: ty.name().into() }),
            },
        })
    }

    /// As [`Weights::get`], `None` if the file has no such tensor.
    ///
    /// # Errors
    /// As [`Weights::get`], but for a missing tensor.
    pub fn find(&self, name: &str, shape: &[i64]) -> Result<Option<Tensor>, ConfigError> {
        if self.has(name) { self.get(name, shape).map(Some) } else { Ok(None) }
    }
}

/// Checks that no value is NaN or infinite in what decides which weights are used, where a bad value would not reach the
/// logits. Blocks that do not run may hold anything.
///
/// # Errors
/// The first such value.
pub fn check_choices(file: &Gguf, config: &Config) -> Result<(), ConfigError> {
    let decides = |t: &&gguf::Tensor| {
        let of_choice = EXPERT_CHOICE_BIAS.iter().any(|n| t.name.ends_with(n));
        of_choice || ["ffn_gate_inp.weight", "ffn_gate_inp.bias"].iter().any(|n| t.name.ends_with(n))
    };
    file.tensors()
        .iter()
        .filter(|t| decides(t) && !config.predicts(&t.name))
        .try_for_each(|t| Ok(file.check_weights(t)?))
}

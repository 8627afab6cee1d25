//! The metadata of one architecture, with bounds.

use super::ConfigError;
use gguf::{Error as GgufError, Gguf, Value};
use std::cell::RefCell;
use std::collections::HashSet;

/// That a value makes no sense.
pub(super) fn out_of_range(key: &str, value: impl ToString, why: &str) -> ConfigError {
    ConfigError::Value { key: key.into(), value: value.to_string(), why: why.into() }
}

/// That a number is too small, too large or NaN.
fn not_between(key: &str, v: f64, least: f64, most: f64) -> ConfigError {
    out_of_range(key, format!("{v:e}"), &format!("expected a number from {least:e} to {most:e}"))
}

/// What errors say of an array.
fn array_of(values: usize) -> String {
    format!("an array of {values} values")
}

/// Keys that change what a model computes, where a family has them, and the values that change nothing.
const CHANGES: &[(&str, &[f64])] = &[
    ("attention.clamp_kqv", &[0.0]),
    ("attention.max_alibi_bias", &[0.0]),
    ("attention.output_scale", &[0.0, 1.0]),
    ("attention.relative_buckets_count", &[0.0]),
    ("attention.scale", &[0.0]),
    ("attention.shared_kv_layers", &[0.0]),
    ("attention.temperature_scale", &[0.0]),
    ("attention.value_scale", &[0.0, 1.0]),
    ("embedding_scale", &[0.0, 1.0]),
    ("expert_latent_length", &[0.0]),
    ("interleave_moe_layer_step", &[0.0, 1.0]),
    ("logit_scale", &[0.0, 1.0]),
    ("moe_every_n_layers", &[0.0, 1.0]),
    ("num_loops", &[0.0, 1.0]),
    ("rescale_every_n_layers", &[0.0]),
    ("residual_scale", &[0.0, 1.0]),
    ("rope.scaling.alpha", &[0.0, 1.0]),
    ("swiglu_clamp_exp", &[0.0]),
    ("swiglu_clamp_shexp", &[0.0]),
];

/// Keys of one architecture.
pub(super) struct Keys<'a> {
    pub(super) file: &'a Gguf,
    pub(super) arch: &'a str,
    /// Blocks of the file, for arrays of a value each.
    pub(super) blocks: i64,
    /// Whether blocks may lack what others have: arrays then may have zeros for them.
    gaps: bool,
    /// Keys that were looked up, without the architecture.
    read: RefCell<HashSet<String>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(file: &'a Gguf, arch: &'a str, blocks: i64) -> Keys<'a> {
        Keys { file, arch, blocks, gaps: false, read: RefCell::default() }
    }

    /// The same for a family whose blocks may lack what others have.
    pub(super) fn with_gaps(self, gaps: bool) -> Keys<'a> {
        Keys { gaps, ..self }
    }

    /// The whole key, which counts as read.
    pub(super) fn key(&self, name: &str) -> String {
        self.read.borrow_mut().insert(name.into());
        format!("{}.{name}", self.arch)
    }

    /// An integer, or that of an array with an equal one for each block.
    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, ConfigError> {
        let Some(all) = self.counts(name)? else { return Ok(None) };
        let is_gap = |&v: &i64| self.gaps && v == 0;
        let first = all.iter().copied().find(|v| !is_gap(v)).unwrap_or(0);
        match all.iter().all(|v| *v == first || is_gap(v)) {
            true => Ok(Some(first)),
            false => Err(self.differing(name)),
        }
    }

    /// A count for each block: of an array, or one for all.
    pub(super) fn counts(&self, name: &str) -> Result<Option<Vec<i64>>, ConfigError> {
        let key = self.key(name);
        let meta = self.file.metadata();
        let all: Vec<i64> = match meta.get(&key) {
            None => return Ok(None),
            Some(Value::Array(_)) => meta.require(&key)?,
            Some(_) => vec![meta.require(&key)?; self.blocks as usize],
        };
        let all = self.of_blocks(&key, all)?;
        match all.iter().find(|v| !(0..=1 << 40).contains(*v)) {
            Some(v) => Err(out_of_range(&key, v, "expected a count")),
            None => Ok(Some(all)),
        }
    }

    /// That counts differ which cannot.
    pub(super) fn differing(&self, name: &str) -> ConfigError {
        out_of_range(&self.key(name), array_of(self.blocks as usize), "blocks that differ are not supported")
    }

    /// The values of an array, if it has one for each block.
    fn of_blocks<T>(&self, key: &str, all: Vec<T>) -> Result<Vec<T>, ConfigError> {
        match all.len() as i64 == self.blocks {
            true => Ok(all),
            false => {
                let why = format!("a value for each of {} blocks", self.blocks);
                Err(out_of_range(key, array_of(all.len()), &why))
            }
        }
    }

    /// For each block whether a count of it is zero; of a key that is not there, for none.
    pub(super) fn lacking(&self, name: &str) -> Result<Vec<bool>, ConfigError> {
        let counts = self.counts(name)?;
        Ok(counts.map_or(vec![false; self.blocks as usize], |all| all.into_iter().map(|count| count == 0).collect()))
    }

    pub(super) fn positive(&self, name: &str, most: i64) -> Result<i64, ConfigError> {
        let v = self.within(name, 1, most)?;
        Ok(v.ok_or_else(|| GgufError::MissingKey { key: self.key(name) })?)
    }

    /// As [`Keys::int`], from `least` to `most`.
    pub(super) fn within(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, ConfigError> {
        match self.int(name)? {
            Some(v) if v < least || v > most => {
                Err(out_of_range(&self.key(name), v, &format!("expected {least} to {most}")))
            }
            v => Ok(v),
        }
    }

    /// A number from `least` to `most`, and not NaN.
    pub(super) fn float(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, ConfigError> {
        let key = self.key(name);
        match self.file.metadata().find::<f64>(&key)? {
            Some(v) if !(least..=most).contains(&v) => Err(not_between(&key, v, least, most)),
            v => Ok(v),
        }
    }

    /// As [`Keys::float`], where 0 is as good as no value.
    pub(super) fn float_or_none(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, ConfigError> {
        match self.file.metadata().find::<f64>(&self.key(name))? {
            Some(0.0) => Ok(None),
            _ => self.float(name, least, most),
        }
    }

    /// A number for each block, of an array.
    pub(super) fn floats(&self, name: &str) -> Result<Option<Vec<f64>>, ConfigError> {
        let key = self.key(name);
        let all: Option<Vec<f64>> = self.file.metadata().find(&key)?;
        all.map(|all| self.of_blocks(&key, all)).transpose()
    }

    /// As [`Keys::float_or_none`] for each block: of an array, or one for all; 0 for none.
    pub(super) fn floats_or_none(&self, name: &str, least: f64, most: f64) -> Result<Vec<f64>, ConfigError> {
        let key = self.key(name);
        let Some(Value::Array(_)) = self.file.metadata().get(&key) else {
            let of_all = self.float_or_none(name, least, most)?.unwrap_or(0.0);
            return Ok(vec![of_all; self.blocks as usize]);
        };
        let all: Vec<f64> = self.of_blocks(&key, self.file.metadata().require(&key)?)?;
        match all.iter().find(|&&v| v != 0.0 && !(least..=most).contains(&v)) {
            Some(v) => Err(not_between(&key, *v, least, most)),
            None => Ok(all),
        }
    }

    /// Whether something is so.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        Ok(self.file.metadata().find::<bool>(&self.key(name))?)
    }

    /// For each block whether something is so: an array of numbers or truth values.
    pub(super) fn flags(&self, name: &str) -> Result<Option<Vec<bool>>, ConfigError> {
        let key = self.key(name);
        let Some(Value::Array(_)) = self.file.metadata().get(&key) else { return Ok(None) };
        let all = match self.file.metadata().require::<Vec<bool>>(&key) {
            Ok(all) => all,
            Err(_) => self.file.metadata().require::<Vec<i64>>(&key)?.into_iter().map(|v| v != 0).collect(),
        };
        self.of_blocks(&key, all).map(Some)
    }

    /// As [`Keys::flags`], for the first `layers` blocks: of an array that has a value for each of them, or of all; or one for
    /// all.
    pub(super) fn flags_of_first(&self, name: &str, layers: i64) -> Result<Option<Vec<bool>>, ConfigError> {
        let key = self.key(name);
        let length = match self.file.metadata().get(&key) {
            None => return Ok(None),
            Some(Value::Array(all)) => all.len() as i64,
            Some(_) => {
                let of_all = self.within(name, 0, 1)?.unwrap_or(0) != 0;
                return Ok(Some(vec![of_all; layers as usize]));
            }
        };
        let of_first =
            Keys { blocks: if length == layers { layers } else { self.blocks }, ..Keys::new(self.file, self.arch, 0) };
        Ok(of_first.flags(name)?.map(|all| all[..layers as usize].to_vec()))
    }

    /// Checks that no key was left unread that would make another model.
    pub(super) fn check_unread(&self) -> Result<(), ConfigError> {
        let read = self.read.borrow();
        for (name, neutral) in CHANGES.iter().filter(|(name, _)| !read.contains(*name)) {
            let key = format!("{}.{name}", self.arch);
            let number = |v: Value<'_>| match v {
                Value::Bool(v) => Some(f64::from(u8::from(v))),
                v => v.float().or(v.integer().map(|v| v as f64)),
            };
            let values: Vec<Option<f64>> = match self.file.metadata().get(&key) {
                None => continue,
                Some(Value::Array(all)) => all.iter().map(number).collect(),
                Some(v) => vec![number(v)],
            };
            if let Some(v) = values.iter().find(|v| !v.is_some_and(|v| neutral.contains(&v))) {
                let v = v.map_or("no number".into(), |v| v.to_string());
                let why = format!("'{}' has no use for it here, and without it this would be another model", self.arch);
                return Err(out_of_range(&key, v, &why));
            }
        }
        Ok(())
    }
}

//! Tensors of a file that no part of a step reads.
//!
//! A model without its biases or norms still speaks fluently, and is another model. So a file with a tensor that the step
//! has no use for is refused, but for what is known to lie beside the model that runs.

use crate::config::{Config, ConfigError};
use crate::step::{Sizes, StepError, reads};
use compiler::Options;
use gguf::Gguf;

/// Tensors of no block that may be left unread: what scales the angles of rotations, by other rules than those in use.
const BESIDE: [&str; 3] = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/// Parts of a block that may be left unread: the angles themselves, in files of old converters, and keys and values as
/// one matrix beside the same ones apart.
const BESIDE_IN_BLOCK: [&str; 3] = ["attn_rot_embd.weight", "attn_rot_embd", "attn_kv_b.weight"];

/// Checks that a step reads every tensor. It is recorded anew for that, as a compiled one may come from disk: this takes
/// milliseconds.
///
/// # Errors
/// The first tensor that is read by nothing, and any that the step misses or cannot read.
pub fn check(file: &Gguf, config: &Config, sizes: &Sizes, options: &Options) -> Result<(), StepError> {
    let read = reads(file, config, sizes, options)?;
    match file.tensors().iter().find(|t| !read.contains(&t.name) && !may_be_unread(&t.name, config)) {
        None => Ok(()),
        Some(t) => {
            let blocks = config.layers + config.predictors;
            Err(ConfigError::Unread { name: t.name.clone(), arch: config.arch.clone(), blocks }.into())
        }
    }
}

fn may_be_unread(name: &str, config: &Config) -> bool {
    match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((_, part)) => BESIDE_IN_BLOCK.contains(&part) || config.predicts(name),
        None => BESIDE.contains(&name),
    }
}

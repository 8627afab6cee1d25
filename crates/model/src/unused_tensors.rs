//! Tensors of a file that no part of a step reads.
//!
//! A model without its biases or norms still speaks fluently, and is another model. So a file with a tensor that the step
//! has no use for is refused, but for what is known to lie beside the model that runs.

use crate::cache::PAGE;
use crate::config::{Config, ConfigError, Recurrence};
use crate::family::{Family, Scales};
use crate::step::{Output, Sizes, StepError, reads};
use compiler::Options;
use gguf::Gguf;

/// Tensors of no block that may be left unread: what scales the angles of rotations, by other rules than those in use, or
/// was read with the metadata; and a head that classifies.
const BESIDE: [&str; 5] = [
    "rope_freqs.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
    "cls.output.weight",
    "cls.output.bias",
];

/// Parts of a block that may be left unread: the angles themselves, in files of old converters, and keys and values as
/// one matrix, or queries too, beside the same ones apart.
const BESIDE_IN_BLOCK: [&str; 4] = ["attn_rot_embd.weight", "attn_rot_embd", "attn_kv_b.weight", "ssm_in.weight"];

/// Checks that a step reads every tensor. It is recorded anew for that, as a compiled one may come from disk: this takes
/// milliseconds.
///
/// # Errors
/// The first tensor that is read by nothing, and any that the step misses or cannot read.
pub fn check(file: &Gguf, config: &Config, sizes: &Sizes, options: &Options) -> Result<(), StepError> {
    let mut read = reads(file, config, sizes, options)?;
    if config.ranking.is_some() && sizes.output != Output::Scores {
        read.extend(reads(file, config, &Sizes { output: Output::Scores, ..*sizes }, options)?);
    }
    match file.tensors().iter().find(|t| !read.contains(&t.name) && !may_be_unread(&t.name, config, sizes)) {
        None => Ok(()),
        Some(t) => {
            let blocks = config.layers + config.predictors;
            Err(ConfigError::Unread { name: t.name.clone(), arch: config.arch.clone(), blocks }.into())
        }
    }
}

/// Scales of what goes into a matrix of NVFP4, which say how to round it; matrices of other types are read without.
const INPUT_SCALE: &str = ".input_scale";

/// Whether a part of a block is the scale of a matrix that the family reads without.
fn unscaled(part: &str, family: &Family) -> bool {
    let scales = family.scales;
    let of_state = ["ssm_", "attn_qkv.", "attn_gate."].iter().any(|start| part.starts_with(start));
    if family.gates_by_key && of_state && part.ends_with(".scale") {
        return true;
    }
    let of_last = part.starts_with("ffn_down.") && scales == Scales::Down;
    let of_feed_forward = ["ffn_", "attn_gate."].iter().any(|start| part.starts_with(start));
    let of_output = part.starts_with("attn_output.") && scales > Scales::None;
    part.ends_with(".scale")
        && !of_last
        && (of_feed_forward && scales < Scales::All || !of_output && scales < Scales::Attention)
}

/// What makes keys and values, which a layer has no use for that reads those of another.
const OF_CACHE: [&str; 3] = ["attn_k.weight", "attn_k_norm.weight", "attn_v.weight"];

/// How the parts of a block begin that read pictures, beside the same ones for text.
const OF_PICTURES: &str = "vis_";

/// How the parts of a block begin that make an index. It has no say where all positions are chosen, nor in a layer that reads
/// what another chose.
const OF_INDEX: &str = "indexer.";

/// What mixes the values of a layer of RWKV-7 with those of the first, which converters write in the first, too.
const OF_FIRST_VALUES: [&str; 3] = ["time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight"];

/// What we call a tensor that has this name in a file of the family.
fn ours(name: &str, family: &Family) -> String {
    family.names.iter().rev().fold(name.to_owned(), |name, (ours, theirs)| name.replacen(theirs, ours, 1))
}

fn may_be_unread(name: &str, config: &Config, sizes: &Sizes) -> bool {
    let name = ours(name, config.family());
    let name = name.as_str();
    match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((layer, part)) => {
            // Linear attention reads its matrices without scales.
            let weighs_values = |layer: usize| {
                let is_linear = matches!(config.recurrence, Some(Recurrence::LinearAttention { .. }));
                is_linear && config.mixers.get(layer).is_some_and(|mixer| mixer.remembers())
            };
            let mixes_values = matches!(config.recurrence, Some(Recurrence::DeltaTimeMixing { .. }));
            let chosen_elsewhere = |layer: usize| {
                let built = config.index_among(sizes.row_pages * PAGE).is_some();
                config.index.as_ref().is_some_and(|index| !built || index.own.get(layer) == Some(&false))
            };
            let shares = |layer: usize| config.keys_of.get(layer).is_some_and(|&of| of != layer as i64);
            BESIDE_IN_BLOCK.contains(&part)
                || config.predicts(name)
                || OF_CACHE.contains(&part) && layer.parse().is_ok_and(shares)
                || config.family().pictures_beside && part.starts_with(OF_PICTURES)
                || part.starts_with(OF_INDEX) && layer.parse().is_ok_and(chosen_elsewhere)
                || OF_FIRST_VALUES.contains(&part) && mixes_values && layer == "0"
                || part.ends_with(INPUT_SCALE)
                || unscaled(part, config.family())
                || part.ends_with(".scale") && layer.parse().is_ok_and(weighs_values)
        }
        // Embeddings are made without a head.
        None => BESIDE.contains(&name) || !config.causal && !config.denoises && name == "output.weight",
    }
}

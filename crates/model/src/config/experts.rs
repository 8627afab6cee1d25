//! Mixtures of experts.

use super::keys::{Keys, out_of_range};
use super::{ConfigError, Gating, MOST_WIDTH};
use crate::family::{Activation, EXPERT_CHOICE_BIAS, Family, Normalise};
use gguf::Error as GgufError;
use serde::{Deserialize, Serialize};

/// A mixture of experts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experts {
    /// Routed experts.
    pub count: i64,
    /// Routed experts that a token uses.
    pub used: i64,
    /// Shared experts, as multiples of the width of one.
    pub shared: i64,
    /// Width of one expert.
    pub width: i64,
    /// Width of what routed experts read and give, if a matrix is before them and one behind.
    pub latent: Option<i64>,
    /// Scores to weights.
    pub gating: Gating,
    /// Whether weights are divided by their sum.
    pub normalise: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// Groups that experts are chosen from, and how many of them.
    pub groups: (i64, i64),
    /// Experts that groups of them share, if they do.
    pub adjugates: Option<Adjugates>,
}

/// Experts of which each belongs to a group of others: a token has that of each expert that it uses (GroveMoE, arXiv
/// 2508.07785).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adjugates {
    /// Experts of a group.
    pub group: i64,
    /// Width of one.
    pub width: i64,
    /// Factor of what they give.
    pub scale: f32,
}

/// That of a file, of so many experts, if its groups share any.
fn adjugates(k: &Keys<'_>, family: &Family, count: i64) -> Result<Option<Adjugates>, ConfigError> {
    if !family.groups_share {
        return Ok(None);
    }
    let key = "experts_per_group";
    let group = k.positive(key, count)?;
    if count % group != 0 {
        return Err(out_of_range(&k.key(key), group, &format!("expected a divisor of {count} experts")));
    }
    let width = match k.within("expert_chunk_feed_forward_length", 0, MOST_WIDTH)? {
        Some(width) if width > 0 => width,
        _ => k.positive("attention.key_length", MOST_WIDTH)?,
    };
    let key = "expert_group_scale";
    let scale = k.float(key, -1e6, 1e6)?.ok_or_else(|| GgufError::MissingKey { key: k.key(key) })? as f32;
    Ok(Some(Adjugates { group, width, scale }))
}

/// Of how many layers the last has experts, as their routers say.
pub(super) fn every(k: &Keys<'_>, layers: i64) -> Result<i64, ConfigError> {
    let router = |layer: i64| format!("blk.{layer}.ffn_gate_inp.weight");
    let routes = |layer: &i64| k.file.tensor(&router(*layer)).is_some();
    let every = (0..layers).find(routes).map_or(1, |first| first + 1);
    match (0..layers).find(|layer| routes(layer) != ((layer + 1) % every == 0)) {
        None => Ok(every),
        Some(odd) if routes(&odd) => {
            Err(out_of_range("a tensor", router(odd), &format!("expected in one of {every} layers, the last")))
        }
        Some(odd) => Err(ConfigError::Missing(router(odd))),
    }
}

/// That of a file, if it has any.
pub(super) fn of(k: &Keys<'_>, family: &Family) -> Result<Option<Experts>, ConfigError> {
    let count = k.int("expert_count")?.unwrap_or(0);
    let used = k.int("expert_used_count")?.unwrap_or(0);
    if count == 0 {
        return Ok(None);
    }
    if family.activation == Activation::Xielu {
        return Err(out_of_range(
            &k.key("expert_count"),
            count,
            "expected 0, as the activation has parameters by layer",
        ));
    }
    if count > 1024 || used < 1 || used > count {
        return Err(out_of_range(
            &k.key("expert_used_count"),
            used,
            &format!("expected 1 to {count} (at most 1024 experts)"),
        ));
    }
    let groups =
        (k.int("expert_group_count")?.unwrap_or(1).max(1), k.int("expert_group_used_count")?.unwrap_or(1).max(1));
    let (size, even) = (count / groups.0, count % groups.0 == 0);
    if groups.0 > 1 && (!even || size < 2 || groups.1 >= groups.0 || groups.1 * size < used) {
        return Err(out_of_range(
            &k.key("expert_group_count"),
            format!("{}, {} of them used", groups.0, groups.1),
            &format!("groups of equal size, of which fewer are used, with {used} of the {count} experts in them"),
        ));
    }
    let has_bias = k.file.tensors().iter().any(|t| EXPERT_CHOICE_BIAS.iter().any(|name| t.name.ends_with(name)));
    let gating = match (k.int("expert_gating_func")?.unwrap_or(0), family.gating) {
        (0, Some(gating)) => gating,
        (0, None) if has_bias => Gating::Sigmoid,
        (0, None) | (1, _) => Gating::Softmax,
        (2, _) => Gating::Sigmoid,
        (3, _) => Gating::Chosen,
        (v, _) => {
            let why = "softmax (1), sigmoid (2) or softmax of the chosen (3)";
            return Err(out_of_range(&k.key("expert_gating_func"), v, why));
        }
    };
    let scale = k.float_or_none("expert_weights_scale", 1e-6, 1e6)?.unwrap_or(1.0) as f32;
    let normalise = match family.normalise {
        Normalise::Always => true,
        Normalise::Never => false,
        Normalise::Key => k.flag("expert_weights_norm")?.unwrap_or(false),
    };
    let width = match k.within("expert_feed_forward_length", 0, MOST_WIDTH)? {
        Some(w) if w > 0 => w,
        _ => k.positive("feed_forward_length", MOST_WIDTH)?,
    };
    Ok(Some(Experts {
        count,
        used,
        shared: k.within("expert_shared_count", 0, 1024)?.unwrap_or(0),
        width,
        latent: k.within("moe_latent_size", 0, MOST_WIDTH)?.filter(|&latent| latent > 0),
        gating,
        normalise,
        scale,
        groups,
        adjugates: adjugates(k, family, count)?,
    }))
}

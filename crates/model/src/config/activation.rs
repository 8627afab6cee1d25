//! What values of the feed-forward go through.

use super::ConfigError;
use super::keys::{Keys, out_of_range};
use crate::family::{Activation, Family};
use gguf::{Error as GgufError, Value};
use serde::{Deserialize, Serialize};

/// Parameters of an activation at most.
const MOST: f64 = 1e3;

/// The parameters of [`Activation::Xielu`] in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Xielu {
    /// Factor of the square of a positive value.
    pub square: f32,
    /// Factor of what a negative value is short of its exponential less one.
    pub short: f32,
    /// Factor of the value itself.
    pub linear: f32,
    /// Where the exponential of a negative value ends.
    pub end: f32,
}

/// That of a file.
pub(super) fn activation(k: &Keys<'_>, family: &Family) -> Result<Activation, ConfigError> {
    if !family.activation_by_key {
        return Ok(family.activation);
    }
    let key = k.key("hidden_activation");
    Ok(match k.file.metadata().find::<&str>(&key)? {
        None => family.activation,
        Some("gelu") => Activation::Gelu,
        Some("silu") => Activation::Silu,
        Some("relu") => Activation::Relu,
        Some(other) => return Err(out_of_range(&key, other, "gelu, silu or relu")),
    })
}

/// Its parameters in each layer, if it has any. Those of squares and exponentials are stored before a softplus.
pub(super) fn parameters(k: &Keys<'_>, family: &Family, layers: i64) -> Result<Vec<Xielu>, ConfigError> {
    if family.activation != Activation::Xielu {
        return Ok(vec![]);
    }
    let of_layers = |key: &str| -> Result<Vec<f64>, ConfigError> {
        let meta = k.file.metadata();
        let all = match meta.get(key) {
            None => return Err(GgufError::MissingKey { key: key.into() }.into()),
            Some(Value::Array(_)) => meta.require::<Vec<f64>>(key)?,
            Some(_) => vec![meta.require(key)?; layers as usize],
        };
        match all.iter().find(|v| !(-MOST..=MOST).contains(*v)) {
            Some(v) => Err(out_of_range(key, v, &format!("expected -{MOST} to {MOST}"))),
            None if all.len() < layers as usize => {
                Err(out_of_range(key, format!("an array of {} values", all.len()), "a value for each layer"))
            }
            None => Ok(all),
        }
    };
    let [positive, negative, linear, end] =
        [of_layers("xielu.alpha_p")?, of_layers("xielu.alpha_n")?, of_layers("xielu.beta")?, of_layers("xielu.eps")?];
    let softplus = |v: f64| v.max(0.0) + (-v.abs()).exp().ln_1p();
    let of_layer = |layer: usize| Xielu {
        square: softplus(positive[layer]) as f32,
        short: (linear[layer] + softplus(negative[layer])) as f32,
        linear: linear[layer] as f32,
        end: end[layer] as f32,
    };
    Ok((0..layers as usize).map(of_layer).collect())
}

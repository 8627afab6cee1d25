//! What a request asked for, told back.

use crate::settings::Settings;
use serde_json::{Value, json};
use text::sampler::SETTINGS;

/// The settings of a request in llama-server's words.
pub fn generation_settings(settings: &Settings) -> Value {
    let s = &settings.sampling;
    let mut told = json!({
        "seed": s.seed,
        "samplers": s.order.iter().map(|stage| stage.name()).collect::<Vec<_>>(),
        "stop": settings.stops,
        "max_tokens": settings.limit.map_or(-1, |n| n as i64),
        "n_predict": settings.limit.map_or(-1, |n| n as i64),
        "n_probs": s.logprobs.unwrap_or(0),
        "ignore_eos": settings.ignore_ends,
        // JSON has no infinity: what is forbidden is null.
        "logit_bias": s.logit_bias.iter()
            .map(|&(token, bias)| json!({ "token": token, "bias": bias.is_finite().then_some(bias) }))
            .collect::<Vec<_>>(),
        "stream": settings.stream,
        "timings_per_token": settings.timings,
    });
    for setting in SETTINGS {
        let value = setting.get(s);
        told[setting.name] = if setting.whole { json!(value as i64) } else { json!(value) };
    }
    told
}

//! What a request asked for, told back.

use crate::settings::Settings;
use serde_json::{Value, json};

/// The settings of a request in llama-server's words.
pub fn generation_settings(settings: &Settings) -> Value {
    let s = &settings.sampling;
    json!({
        "seed": s.seed,
        "temperature": s.temperature,
        "top_k": s.top_k,
        "top_p": s.top_p,
        "min_p": s.min_p,
        "repeat_last_n": s.penalty_window,
        "repeat_penalty": s.repeat_penalty,
        "presence_penalty": s.presence_penalty,
        "frequency_penalty": s.frequency_penalty,
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
    })
}

//! What the server says about itself: health, models, properties, places, counters.

use super::chat::fingerprint;
use super::generation_settings::generation_settings;
use crate::app::{App, Model};
use crate::error::ApiError;
use crate::facts::Facts;
use crate::settings::Settings;
use model::memory_plan::ModelMemory;
use model::scheduler::Stats;
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;
use text::chat::ChatTemplate;

/// `/health`: whether a request would be taken.
///
/// # Errors
/// 503 while it would not.
pub fn health(app: &App) -> Result<Value, ApiError> {
    app.model()?;
    Ok(json!({ "status": "ok" }))
}

/// `/v1/models`.
///
/// # Errors
/// 503 while the model loads.
pub fn models(app: &App) -> Result<Value, ApiError> {
    let entry = entry(app, &*app.model()?);
    let model = json!({
        "name": entry["id"],
        "model": entry["id"],
        "type": "model",
        "capabilities": ["completion"],
    });
    Ok(json!({ "object": "list", "data": [entry], "models": [model] }))
}

/// `/v1/models/{id}`.
///
/// # Errors
/// 404 for a name that is not the model's, 503 while it loads.
pub fn model(app: &App, id: &str) -> Result<Value, ApiError> {
    let model = app.model()?;
    if !model.facts.names.iter().any(|name| name == id) {
        return Err(ApiError::not_found(format!("there is no model '{id}'; this server has '{}'", model.name())));
    }
    Ok(entry(app, &model))
}

fn entry(app: &App, model: &Model) -> Value {
    let limits = model.worker.limits();
    json!({
        "id": model.name(),
        "aliases": model.facts.names,
        "tags": model.facts.tags,
        "object": "model",
        "created": app.started().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
        "owned_by": "kernloom",
        "meta": {
            "n_vocab": limits.vocab,
            "n_ctx": limits.context,
            "n_ctx_train": model.facts.trained_context,
            "n_embd": model.facts.width,
            "n_params": model.facts.parameters,
            "size": model.facts.bytes,
        },
    })
}

/// `/props`.
///
/// # Errors
/// 503 while the model loads.
pub fn props(app: &App) -> Result<Value, ApiError> {
    let model = app.model()?;
    let limits = model.worker.limits();
    let mut settings = Settings::of_defaults(&model.defaults);
    // What the server was told, not what this request would draw.
    settings.sampling.seed = model.defaults.seed.unwrap_or(u64::from(u32::MAX));
    let token = |id: Option<u32>| {
        let bytes = id.and_then(|id| model.tokenizer.token_bytes(id)).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let programs = model.facts.programs.programs().into_iter();
    let programs = programs.map(|(variant, state)| (variant.to_string(), json!(state.to_string())));
    Ok(json!({
        "default_generation_settings": { "n_ctx": limits.context, "params": generation_settings(&settings) },
        "total_slots": limits.segments,
        "cache_type_k": model.facts.cache,
        "cache_type_v": model.facts.cache,
        "device": model.facts.device,
        "memory": model.facts.memory.as_ref().map(memory),
        "model_path": model.facts.path,
        "model_alias": model.name(),
        "modalities": { "vision": false, "audio": false },
        "chat_template": model.template.as_ref().map(ChatTemplate::source).unwrap_or_default(),
        "bos_token": token(model.tokenizer.bos()),
        "eos_token": token(model.tokenizer.eos()),
        "build_info": fingerprint(),
        "is_sleeping": false,
        "programs": programs.collect::<serde_json::Map<_, _>>(),
        "stand_in_tokens": model.facts.programs.stood_in(),
    }))
}

/// What the model takes of its device, in bytes.
fn memory(plan: &ModelMemory) -> Value {
    json!({
        "weights": plan.weights,
        "weights_mapped": !plan.keeps_weights,
        "cache": plan.cache,
        "workspace": plan.workspace,
        "available": plan.available,
    })
}

/// `/slots`: one entry a place.
///
/// # Errors
/// 501 if switched off, 503 while the model loads or, if asked, when no place is free.
pub fn slots(app: &App, fail_on_none: bool) -> Result<Value, ApiError> {
    if !app.options.slots {
        return Err(ApiError::unsupported("this server does not show its slots; start it without --no-slots"));
    }
    let model = app.model()?;
    let stats = model.worker.stats();
    if fail_on_none && stats.places.iter().all(Option::is_some) {
        return Err(ApiError::unavailable("no slot available"));
    }
    let slot = |(id, place): (usize, &Option<model::scheduler::Place>)| {
        let decoded = place.map_or(0, |p| p.generated);
        json!({
            "id": id,
            "n_ctx": model.worker.limits().context,
            "speculative": false,
            "is_processing": place.is_some(),
            "id_task": place.map(|p| p.id),
            "n_prompt_tokens": place.map_or(0, |p| p.prompt),
            "n_prompt_tokens_processed": place.map_or(0, |p| p.computed.min(p.prompt)),
            "next_token": [{ "has_next_token": place.is_some(), "n_remain": -1, "n_decoded": decoded }],
        })
    };
    Ok(stats.places.iter().enumerate().map(slot).collect::<Vec<_>>().into())
}

/// `/metrics`.
///
/// # Errors
/// 501 if switched off.
pub fn metrics(app: &App) -> Result<String, ApiError> {
    if !app.options.metrics {
        return Err(ApiError::unsupported("this server has no metrics; start it with --metrics"));
    }
    let model = app.loaded();
    let stats = model.as_ref().map_or_else(Stats::default, |model| model.worker.stats());
    let nothing = Facts::default();
    Ok(app.metrics.text(&stats, model.as_ref().map_or(&nothing, |model| &model.facts), app.options.compat))
}

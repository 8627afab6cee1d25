//! What the server says about itself: health, models, properties, places, counters.

use super::chat::fingerprint;
use super::generation_settings::generation_settings;
use crate::app::App;
use crate::error::ApiError;
use crate::facts::Facts;
use crate::library::Kept;
use crate::served::Model;
use crate::settings::Settings;
use crate::shelf::Status;
use gguf::plain;
use model::memory_plan::ModelMemory;
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;
use text::chat::ChatTemplate;

/// `/health`: whether a request would be taken.
///
/// # Errors
/// 503 while it would not.
pub fn health(app: &App) -> Result<Value, ApiError> {
    app.check()?;
    let engines = app.shelf.loaded();
    if app.shelf.loader().is_none() && engines.iter().any(|loaded| loaded.model.worker.is_ended()) {
        return Err(ApiError::unavailable("the engine has stopped; restart the server"));
    }
    Ok(json!({ "status": "ok" }))
}

/// `/v1/models`: those that are loaded, and those that would be for a request.
///
/// # Errors
/// 503 while the first model loads.
pub async fn models(app: &App) -> Result<Value, ApiError> {
    let entries = entries(app).await?;
    let model = |entry: &Value| {
        json!({
            "name": entry["id"],
            "model": entry["id"],
            "type": "model",
            "capabilities": ["completion"],
        })
    };
    let models: Vec<Value> = entries.iter().map(model).collect();
    Ok(json!({ "object": "list", "data": entries, "models": models }))
}

/// `/v1/models/{id}`.
///
/// # Errors
/// 404 for a name that is no model's, 503 while the first loads.
pub async fn model(app: &App, id: &str) -> Result<Value, ApiError> {
    let entries = entries(app).await?;
    let is = |entry: &&Value| {
        let aliases = entry["aliases"].as_array().into_iter().flatten();
        aliases.chain([&entry["id"]]).any(|name| *name == *id)
    };
    if let Some(entry) = entries.iter().find(is) {
        return Ok(entry.clone());
    }
    if !app.shelf.is_of_several() {
        let name = entries.first().map_or(Value::Null, |entry| entry["id"].clone());
        let name = name.as_str().unwrap_or_default();
        return Err(ApiError::not_found(format!("there is no model '{}'; this server has '{name}'", plain::name(id))));
    }
    // It may be called otherwise.
    let name = app.shelf.named(Some(id)).await?;
    entries.into_iter().find(|entry| entry["id"] == *name).ok_or_else(|| ApiError::not_found("there is no such model"))
}

async fn entries(app: &App) -> Result<Vec<Value>, ApiError> {
    app.check()?;
    let kept = app.shelf.list().await?;
    let loaded = app.shelf.loaded().into_iter().map(|loaded| loaded.model);
    let mut entries: Vec<Value> = loaded.map(|model| entry(app, &model)).collect();
    let others = kept.iter().filter(|kept| app.shelf.at(&kept.name).is_none());
    entries.extend(others.map(|kept| unloaded(app, kept)));
    entries.sort_by(|a, b| a["id"].as_str().cmp(&b["id"].as_str()));
    Ok(entries)
}

fn created(app: &App) -> u64 {
    app.started().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

fn entry(app: &App, model: &Model) -> Value {
    let limits = model.worker.limits();
    json!({
        "id": model.name(),
        "aliases": model.facts.names,
        "tags": model.facts.tags,
        "object": "model",
        "created": created(app),
        "owned_by": "kernloom",
        "status": { "value": Status::Loaded.word() },
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

/// A model of which nothing is known but its file.
fn unloaded(app: &App, kept: &Kept) -> Value {
    json!({
        "id": kept.name,
        "aliases": [kept.name],
        "tags": [],
        "object": "model",
        "created": created(app),
        "owned_by": "kernloom",
        "status": { "value": app.shelf.status(&kept.name).word() },
        "meta": { "size": kept.bytes },
    })
}

/// `/props`: of the model that is named, or of the one that requests without a name get. One that is not loaded is not
/// loaded for this.
///
/// # Errors
/// 503 while the first model loads, 404 for a name that is none.
pub async fn props(app: &App, name: Option<&str>) -> Result<Value, ApiError> {
    app.check()?;
    let name = app.shelf.named(name).await?;
    match app.shelf.at(&name) {
        Some(model) => Ok(properties(&model)),
        None => Ok(json!({
            "role": "router",
            "model_alias": name,
            "total_slots": 0,
            "build_info": fingerprint(),
            "is_sleeping": true,
        })),
    }
}

fn properties(model: &Model) -> Value {
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
    json!({
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
    })
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

/// `/slots`: one entry a place of the model that is named, or of the one that requests without a name get.
///
/// # Errors
/// 501 if switched off, 503 while the model loads or, if asked, when no place is free, 404 for a name that is none.
pub async fn slots(app: &App, name: Option<&str>, fail_on_none: bool) -> Result<Value, ApiError> {
    if !app.options.slots {
        return Err(ApiError::unsupported("this server does not show its slots; start it without --no-slots"));
    }
    app.check()?;
    let name = app.shelf.named(name).await?;
    // A model that is not loaded has none.
    let Some(model) = app.shelf.at(&name) else { return Ok(json!([])) };
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
    let models = app.shelf.loaded();
    let facts: Vec<&Facts> = models.iter().map(|loaded| &loaded.model.facts).collect();
    let several = app.shelf.is_of_several();
    Ok(app.metrics.text(&app.shelf.stats(), &facts, several, app.options.compat))
}

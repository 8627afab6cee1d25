//! What there is: models that are loaded or can be, models in the cache, and which version of the API this is.

use super::line::time;
use crate::api::embeddings;
use crate::app::App;
use crate::arrival::Arrived;
use crate::body::Work;
use crate::error::ApiError;
use crate::facts::Facts;
use crate::library::Kept;
use crate::served::Model;
use crate::settings::Settings;
use crate::shelf::Loaded;
use crate::stream::with_model;
use axum::extract::Request;
use model::scheduler::Pooling;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;
use text::chat::ChatTemplate;

/// The version of Ollama whose API this is; clients compare it with what they need.
const LIKE: &str = "0.12.11";

/// When a model is unloaded that stays.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// `/api/version`.
pub fn version() -> Value {
    json!({ "version": format!("{LIKE}-kernloom.{}", env!("CARGO_PKG_VERSION")) })
}

/// `/api/tags`: models that answer a request, loaded or not, and those in the cache if they may be managed.
///
/// # Errors
/// 503 while the first model loads.
pub async fn tags(app: Arc<App>) -> Result<Value, ApiError> {
    app.check()?;
    let mut kept = app.shelf.list().await?;
    if let Ok(library) = app.library().cloned() {
        // Folders are looked at where nobody waits for that.
        kept.extend(app.background.run(0, move || Ok(library.list())).await?);
    }
    let loaded: Vec<Arc<Model>> = app.shelf.loaded().into_iter().map(|loaded| loaded.model).collect();
    let mut digests: HashSet<&str> = loaded.iter().map(|model| model.facts.digest.as_str()).collect();
    let mut all: Vec<Value> = loaded.iter().map(|model| Value::Object(entry(model))).collect();
    all.extend(kept.iter().filter(|kept| digests.insert(&kept.digest)).map(in_cache));
    Ok(json!({ "models": all }))
}

/// `/api/ps`: the models that are loaded, and when they go.
///
/// # Errors
/// 503 while the first model loads.
pub fn loaded(app: &App) -> Result<Value, ApiError> {
    app.check()?;
    let told = |Loaded { model, until }: Loaded| {
        let mut entry = entry(&model);
        entry.remove("modified_at");
        let (all, of_card) = match &model.facts.memory {
            Some(plan) if plan.keeps_weights => (plan.allocated(), plan.allocated()),
            Some(plan) => (plan.weights + plan.allocated(), 0),
            None => (model.facts.bytes, 0),
        };
        entry.insert("size".into(), all.into());
        entry.insert("size_vram".into(), of_card.into());
        entry.insert("expires_at".into(), until.map_or_else(|| NEVER.into(), |until| time(until).into()));
        entry.insert("context_length".into(), model.worker.limits().context.into());
        Value::Object(entry)
    };
    Ok(json!({ "models": app.shelf.loaded().into_iter().map(told).collect::<Vec<_>>() }))
}

/// `/api/show`: the model that a request of this name gets, which is loaded for it.
///
/// # Errors
/// 503 while the first model loads, and a body that is no object.
pub async fn show(app: Arc<App>, request: Request) -> Result<Value, ApiError> {
    let body = Arrived::wait(&app, request, Work::Plain).await?;
    let length = body.len();
    let (body, lease) = with_model(&app, body).await?;
    let shared = app.clone();
    app.background.run(length, move || body.read().map(|_| shown(&shared, &lease))).await
}

fn shown(app: &App, model: &Model) -> Value {
    let facts = &model.facts;
    json!({
        "modelfile": format!("FROM {}\n", model.name()),
        "parameters": parameters(model),
        "template": model.template.as_ref().map(ChatTemplate::source).unwrap_or_default(),
        "details": details(&facts.architecture, facts.parameters, &facts.quantization),
        "model_info": model_info(facts),
        "capabilities": capabilities(app, model),
        "modified_at": time(facts.modified.unwrap_or(SystemTime::UNIX_EPOCH)),
    })
}

fn entry(model: &Model) -> Map<String, Value> {
    let facts = &model.facts;
    let details = details(&facts.architecture, facts.parameters, &facts.quantization);
    of(&tagged(model.name()), facts.modified, facts.bytes, &facts.digest, details)
}

fn in_cache(kept: &Kept) -> Value {
    // What is in its file is not looked at.
    of(&kept.name, kept.modified, kept.bytes, &kept.digest, details("", 0, &kept.quantization)).into()
}

fn of(name: &str, modified: Option<SystemTime>, bytes: u64, digest: &str, details: Value) -> Map<String, Value> {
    let entry = json!({
        "name": name,
        "model": name,
        "modified_at": time(modified.unwrap_or(SystemTime::UNIX_EPOCH)),
        "size": bytes,
        "digest": digest,
        "details": details,
    });
    entry.as_object().cloned().unwrap_or_default()
}

/// A name with a tag: clients complete names by `latest` before they look for them.
fn tagged(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { format!("{name}:latest") }
}

fn details(family: &str, parameters: u64, quantization: &str) -> Value {
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": if family.is_empty() { vec![] } else { vec![family] },
        "parameter_size": short(parameters),
        "quantization_level": quantization,
    })
}

/// A number of weights in short; nothing if it is not known.
fn short(count: u64) -> String {
    match count as f64 {
        n if n >= 1e9 => format!("{:.1}B", n / 1e9),
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e3 => format!("{:.2}K", n / 1e3),
        0.0 => String::new(),
        n => n.to_string(),
    }
}

/// The metadata of the file, and the number of weights that Ollama adds.
fn model_info(facts: &Facts) -> Value {
    let mut info = facts.metadata.clone();
    info.entry("general.parameter_count").or_insert(facts.parameters.into());
    Value::Object(info)
}

/// What can be asked of the model.
fn capabilities(app: &App, model: &Model) -> Vec<&'static str> {
    let template = model.template.as_ref().ok();
    let is = |what: fn(&ChatTemplate) -> bool| template.is_some_and(what);
    let all = [
        ("completion", !model.worker.limits().whole),
        ("tools", is(ChatTemplate::takes_tools)),
        ("thinking", is(ChatTemplate::can_think)),
        ("embedding", embeddings::pooling(app, model).is_some_and(|pooling| pooling != Pooling::Rank)),
    ];
    all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}

/// What a request gets that does not say, a parameter a line.
fn parameters(model: &Model) -> String {
    let Settings { sampling, limit, .. } = Settings::of_defaults(&model.defaults);
    let all = [
        ("num_ctx", model.worker.limits().context.to_string()),
        ("num_predict", limit.map_or_else(|| "-1".into(), |limit| limit.to_string())),
        ("temperature", sampling.temperature.to_string()),
        ("top_k", sampling.top_k.to_string()),
        ("top_p", sampling.top_p.to_string()),
        ("min_p", sampling.min_p.to_string()),
        ("repeat_last_n", sampling.penalty_window.to_string()),
        ("repeat_penalty", sampling.repeat_penalty.to_string()),
    ];
    let lines: Vec<String> = all.iter().map(|(name, value)| format!("{name:<30} {value}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_short_and_names_with_tags() {
        assert_eq!([8_030_261_248, 361_821_120, 4_096, 12, 0].map(short), ["8.0B", "361.82M", "4.10K", "12", ""]);
        assert_eq!((tagged("a"), tagged("u/r:Q4_0")), ("a:latest".into(), "u/r:Q4_0".into()));
    }
}

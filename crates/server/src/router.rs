//! The routes, and what is done to every request: ids, who may ask, keys.

use crate::account::Account;
use crate::api::ollama::reply::Form;
use crate::api::{chat, completions, embeddings, info, messages, native, ollama, rerank, responses};
use crate::app::App;
use crate::arrival::Arrived;
use crate::body::{Body as Read, Work};
use crate::budget::REQUEST_ID_BYTES;
use crate::error::ApiError;
use crate::page;
use crate::served::Model;
use crate::stream::{Begin, answer, json_response, json_text, with_model};
use crate::trace::{TRACEPARENT, Trace};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get, post};
use serde_json::Value;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How a request is called, for handlers.
#[derive(Clone, Debug, Default)]
struct Called {
    id: String,
    trace: Option<Trace>,
}

type Shared = State<Arc<App>>;

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let generate = |begin: Begin, work| post(move |state: Shared, asked: Request| generate(state, asked, begin, work));
    let compute = |run: Compute, work| post(move |state: Shared, asked: Request| compute(state, asked, run, work));
    // What clients of Ollama look for at the root stands where no page is.
    let probe = || Router::new().route(page::ROOT, get("Ollama is running"));
    let routes = if app.options.page { page::add(Router::new()) } else { probe() };
    routes
        .route("/health", get(async |State(app): Shared| say(info::health(&app))))
        .route("/v1/health", get(async |State(app): Shared| say(info::health(&app))))
        .route("/models", get(async |State(app): Shared| say(info::models(&app).await)))
        .route("/v1/models", get(async |State(app): Shared| say(info::models(&app).await)))
        .route("/v1/models/{*id}", get(one_model))
        .route("/props", get(props))
        .route("/slots", get(slots))
        .route("/metrics", get(metrics))
        .route("/v1/chat/completions", generate(chat::begin, Work::Template))
        .route("/chat/completions", generate(chat::begin, Work::Template))
        .route("/v1/completions", generate(completions::begin, Work::Plain))
        .route("/completion", generate(native::completion, Work::Plain))
        .route("/completions", generate(native::completion, Work::Plain))
        .route("/infill", generate(native::infill, Work::Plain))
        .route("/v1/responses", generate(responses::begin, Work::Template))
        .route("/responses", generate(responses::begin, Work::Template))
        .route("/v1/messages", generate(messages::begin, Work::Template))
        .route("/v1/messages/count_tokens", compute(messages::count_tokens, Work::Template))
        .route("/v1/embeddings", generate(embeddings::begin, Work::Plain))
        .route("/embedding", generate(embeddings::native, Work::Plain))
        .route("/embeddings", generate(embeddings::native, Work::Plain))
        .route("/v1/rerank", generate(rerank::begin, Work::Plain))
        .route("/rerank", generate(rerank::begin, Work::Plain))
        .route("/v1/reranking", generate(rerank::begin, Work::Plain))
        .route("/reranking", generate(rerank::begin, Work::Plain))
        .route("/v1/chat/completions/input_tokens", compute(native::input_tokens, Work::Template))
        .route("/chat/completions/input_tokens", compute(native::input_tokens, Work::Template))
        .route("/tokenize", compute(native::tokenize, Work::Plain))
        .route("/detokenize", compute(native::detokenize, Work::Plain))
        .route("/tokenizer_info", get(async |State(app): Shared| say(native::tokenizer_info(&app).await)))
        .route("/apply-template", compute(native::apply_template, Work::Template))
        .merge(of_ollama(generate))
        .fallback(async |uri: Uri| ApiError::not_found("there is nothing at this path").respond_at(uri.path()))
        .method_not_allowed_fallback(async |uri: Uri| {
            let message = "this path takes another method";
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", message).respond_at(uri.path())
        })
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// The routes of Ollama's API.
fn of_ollama(generate: impl Fn(Begin, Work) -> MethodRouter<Arc<App>>) -> Router<Arc<App>> {
    let tell = |value: Value| json_response(&value);
    let refused = || any(async || of_ollama_or(Err(ollama::manage::refused())));
    Router::new()
        .route(
            "/api/chat",
            post(async |state: Shared, asked: Request| talk(state, asked, ollama::chat::begin, Form::Chat).await),
        )
        .route(
            "/api/generate",
            post(async |state: Shared, asked: Request| {
                talk(state, asked, ollama::generate::begin, Form::Generate).await
            }),
        )
        .route("/api/embed", generate(ollama::embed::begin, Work::Plain))
        .route("/api/embeddings", generate(ollama::embed::begin_one, Work::Plain))
        .route("/api/version", get(async move || tell(ollama::models::version())))
        .route(
            "/api/tags",
            get(async move |State(app): Shared| of_ollama_or(ollama::models::tags(app).await.map(tell))),
        )
        .route("/api/ps", get(async move |State(app): Shared| of_ollama_or(ollama::models::loaded(&app).map(tell))))
        .route(
            "/api/show",
            post(async move |State(app): Shared, asked: Request| {
                of_ollama_or(ollama::models::show(app, asked).await.map(tell))
            }),
        )
        .route(
            "/api/pull",
            post(async |State(app): Shared, asked: Request| of_ollama_or(ollama::manage::pull(app, asked).await)),
        )
        .route(
            "/api/delete",
            delete(async |State(app): Shared, asked: Request| of_ollama_or(ollama::manage::delete(app, asked).await)),
        )
        .route("/api/copy", refused())
        .route("/api/create", refused())
        .route("/api/push", refused())
        .route("/api/blobs/{*digest}", refused())
}

/// A response, or an error in the form of Ollama's API.
fn of_ollama_or(result: Result<Response, ApiError>) -> Response {
    result.unwrap_or_else(|error| error.respond(&error.ollama()))
}

fn say(result: Result<Value, ApiError>) -> Response {
    result.map_or_else(IntoResponse::into_response, |value| json_response(&value))
}

async fn one_model(State(app): Shared, id: Result<Path<String>, PathRejection>) -> Response {
    // What is no text is the name of no model.
    match id {
        Ok(Path(id)) => say(info::model(&app, &id).await),
        Err(_) => ApiError::not_found("there is no such model").into_response(),
    }
}

async fn props(State(app): Shared, request: Request) -> Response {
    say(info::props(&app, asked(&request, "model").as_deref()).await)
}

async fn slots(State(app): Shared, request: Request) -> Response {
    let fails = asked(&request, "fail_on_no_slot").as_deref() == Some("1");
    say(info::slots(&app, asked(&request, "model").as_deref(), fails).await)
}

/// The value of this name in the query of a request.
fn asked(request: &Request, name: &str) -> Option<String> {
    let pairs = request.uri().query()?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
    percent_encoding::percent_decode_str(value).decode_utf8().ok().map(Into::into)
}

async fn metrics(State(app): Shared) -> Response {
    let text = match info::metrics(&app) {
        Ok(text) => text,
        Err(error) => return error.into_response(),
    };
    let started = app.started().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
    headers.insert("process-start-time-unix", started.into());
    response
}

/// The account of a request, and its body when it has come.
async fn opened(app: &Arc<App>, request: Request, work: Work) -> (Account, Result<Arrived, ApiError>) {
    let called = request.extensions().get::<Called>().cloned().unwrap_or_default();
    let account = Account::open(app, request.uri().path(), called.id, called.trace);
    (account, Arrived::wait(app, request, work).await)
}

async fn generate(State(app): Shared, request: Request, begin: Begin, work: Work) -> Response {
    let (account, body) = opened(&app, request, work).await;
    answer(app, account, body, begin).await
}

/// As [`generate`], but what only lets a model go is answered without it, if it is not there.
async fn talk(State(app): Shared, request: Request, begin: Begin, form: Form) -> Response {
    let (mut account, body) = opened(&app, request, Work::Template).await;
    if let Ok(body) = &body
        && let Some(said) = ollama::keep_alive::gone(&app, body, form).await
    {
        account.close();
        return json_response(&said);
    }
    answer(app, account, body, begin).await
}

/// Answers from the model without running it.
type Compute = fn(&Model, &Read) -> Result<Value, ApiError>;

async fn compute(State(app): Shared, request: Request, run: Compute, work: Work) -> Response {
    let path = request.uri().path().to_owned();
    let result = async {
        let body = Arrived::wait(&app, request, work).await?;
        let length = body.len();
        let (body, lease) = with_model(&app, body).await?;
        // A long text has a long answer, whose writing nobody should wait for either.
        app.background.run(length, move || Ok(run(&lease, &body.read()?)?.to_string())).await
    };
    result.await.map_or_else(|error| error.respond_at(&path), json_text)
}

/// What every request goes through.
async fn guard(State(app): Shared, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).filter(|id| id.len() <= REQUEST_ID_BYTES).cloned();
    let id = given.unwrap_or_else(|| HeaderValue::from_str(&app.id("req-")).unwrap_or(HeaderValue::from_static("req")));
    let trace = Trace::of(request.headers(), app.number());
    let passed_on = trace.as_ref().and_then(Trace::header);
    request.extensions_mut().insert(Called { id: String::from_utf8_lossy(id.as_bytes()).into_owned(), trace });
    let path = request.uri().path();
    let (mut response, origin) = match app.admission.check(request.method(), request.uri(), request.headers()) {
        Err(error) => (error.respond_at(path), None),
        Ok(origin) if request.method() == Method::OPTIONS => (preflight(request.headers()), origin),
        Ok(origin) if is_public(path) || has_key(&app.options.api_keys, request.headers()) => {
            (next.run(request).await, origin)
        }
        Ok(origin) => {
            let error = ApiError::new(StatusCode::UNAUTHORIZED, "authentication_error", "Invalid API Key");
            (error.respond_at(path), origin)
        }
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    passed_on.and_then(|trace| headers.insert(TRACEPARENT, trace));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

/// What a browser asks before a request.
fn preflight(headers: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    let allow = response.headers_mut();
    allow.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    // Browsers write names in lower case and want each of them back, since a star does not cover the key. Whoever
    // writes them in another way is no browser and gets what llama-server says.
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let echoed = asked.filter(|names| !names.as_bytes().iter().any(u8::is_ascii_uppercase)).cloned();
    allow.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, echoed.unwrap_or(HeaderValue::from_static("*")));
    allow.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Paths that need no key.
fn is_public(path: &str) -> bool {
    matches!(path, "/health" | "/v1/health") || page::is_part(path)
}

/// Whether the headers show one of the keys.
fn has_key(keys: &[String], headers: &HeaderMap) -> bool {
    if keys.is_empty() {
        return true;
    }
    const BEARER: &[u8] = b"Bearer ";
    let given = headers.get(header::AUTHORIZATION).and_then(|given| given.as_bytes().split_at_checked(BEARER.len()));
    let bearer = given.and_then(|(scheme, key)| scheme.eq_ignore_ascii_case(BEARER).then_some(key));
    let plain = headers.get("x-api-key").map(HeaderValue::as_bytes);
    let shown = [bearer, plain];
    shown.into_iter().flatten().any(|shown| keys.iter().any(|key| same(key.as_bytes(), shown)))
}

/// Compares in a time that does not tell how much agrees.
fn same(key: &[u8], shown: &[u8]) -> bool {
    let differences = key.iter().zip(shown).fold(key.len() ^ shown.len(), |d, (a, b)| d | usize::from(a ^ b));
    differences == 0 && !key.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let keys = ["alpha".to_owned(), "beta".to_owned()];
        let headers = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            headers
        };
        assert!(has_key(&[], &HeaderMap::new()) && !has_key(&keys, &HeaderMap::new()));
        assert!(has_key(&keys, &headers("authorization", "Bearer beta")));
        assert!(has_key(&keys, &headers("authorization", "bearer beta")));
        assert!(has_key(&keys, &headers("x-api-key", "alpha")));
        for wrong in ["Bearer alph", "Bearer alphaa", "alpha", "Bearer ", "Basic alpha"] {
            assert!(!has_key(&keys, &headers("authorization", wrong)), "{wrong}");
        }
        assert!(!has_key(&[String::new()], &headers("authorization", "Bearer ")));
    }
}

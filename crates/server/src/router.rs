//! The routes, and what is done to every request: ids, who may ask, keys.

use crate::account::Account;
use crate::api::{chat, completions, embeddings, info, messages, native, responses};
use crate::app::{App, Model};
use crate::arrival::Arrived;
use crate::body::{Body as Read, Work};
use crate::budget::REQUEST_ID_BYTES;
use crate::error::ApiError;
use crate::page;
use crate::stream::{Begin, answer, json_response, json_text};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request, for handlers.
#[derive(Clone, Debug)]
struct RequestId(String);

type Shared = State<Arc<App>>;

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let generate = |begin: Begin, work| post(move |state: Shared, asked: Request| generate(state, asked, begin, work));
    let compute = |run: Compute, work| post(move |state: Shared, asked: Request| compute(state, asked, run, work));
    let routes = if app.options.page { page::add(Router::new()) } else { Router::new() };
    routes
        .route("/health", get(async |State(app): Shared| say(info::health(&app))))
        .route("/v1/health", get(async |State(app): Shared| say(info::health(&app))))
        .route("/models", get(async |State(app): Shared| say(info::models(&app))))
        .route("/v1/models", get(async |State(app): Shared| say(info::models(&app))))
        .route("/v1/models/{*id}", get(one_model))
        .route("/props", get(async |State(app): Shared| say(info::props(&app))))
        .route("/slots", get(slots))
        .route("/metrics", get(metrics))
        .route("/v1/chat/completions", generate(chat::begin, Work::Template))
        .route("/chat/completions", generate(chat::begin, Work::Template))
        .route("/v1/completions", generate(completions::begin, Work::Plain))
        .route("/completion", generate(native::completion, Work::Plain))
        .route("/completions", generate(native::completion, Work::Plain))
        .route("/v1/responses", generate(responses::begin, Work::Template))
        .route("/responses", generate(responses::begin, Work::Template))
        .route("/v1/messages", generate(messages::begin, Work::Template))
        .route("/v1/messages/count_tokens", compute(messages::count_tokens, Work::Template))
        .route("/v1/embeddings", generate(embeddings::begin, Work::Plain))
        .route("/embedding", generate(embeddings::native, Work::Plain))
        .route("/embeddings", generate(embeddings::native, Work::Plain))
        .route("/v1/chat/completions/input_tokens", compute(native::input_tokens, Work::Template))
        .route("/chat/completions/input_tokens", compute(native::input_tokens, Work::Template))
        .route("/tokenize", compute(native::tokenize, Work::Plain))
        .route("/detokenize", compute(native::detokenize, Work::Plain))
        .route("/apply-template", compute(native::apply_template, Work::Template))
        .fallback(async || ApiError::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "this path takes another method")
        })
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

fn say(result: Result<Value, ApiError>) -> Response {
    result.map_or_else(IntoResponse::into_response, |value| json_response(&value))
}

async fn one_model(State(app): Shared, id: Result<Path<String>, PathRejection>) -> Response {
    // What is no text is the name of no model.
    say(id.map_err(|_| ApiError::not_found("there is no such model")).and_then(|Path(id)| info::model(&app, &id)))
}

async fn slots(State(app): Shared, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    say(info::slots(&app, query.split('&').any(|pair| pair == "fail_on_no_slot=1")))
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

async fn generate(State(app): Shared, request: Request, begin: Begin, work: Work) -> Response {
    let id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let account = Account::open(&app, request.uri().path(), id);
    let body = Arrived::wait(&app, request, work).await;
    answer(app, account, body, begin).await
}

/// Answers from the model without running it.
type Compute = fn(&Model, &Read) -> Result<Value, ApiError>;

async fn compute(State(app): Shared, request: Request, run: Compute, work: Work) -> Response {
    let path = request.uri().path().to_owned();
    let result = async {
        let body = Arrived::wait(&app, request, work).await?;
        let model = app.model()?;
        // A long text has a long answer, whose writing nobody should wait for either.
        app.background.run(body.len(), move || Ok(run(&model, &body.read()?)?.to_string())).await
    };
    result.await.map_or_else(|error| error.respond_at(&path), json_text)
}

/// What every request goes through.
async fn guard(State(app): Shared, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).filter(|id| id.len() <= REQUEST_ID_BYTES).cloned();
    let id = given.unwrap_or_else(|| HeaderValue::from_str(&app.id("req-")).unwrap_or(HeaderValue::from_static("req")));
    request.extensions_mut().insert(RequestId(String::from_utf8_lossy(id.as_bytes()).into_owned()));
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

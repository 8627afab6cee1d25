//! `/api/pull` and `/api/delete`, for those who may, and what nobody may.

use super::line;
use crate::app::App;
use crate::arrival::Arrived;
use crate::body::{Body as Read, Work};
use crate::budget::{NAME_BYTES, PULL_PAUSE};
use crate::error::ApiError;
use crate::library::PullStep;
use crate::pulls::State;
use crate::stream::json_response;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::watch;

/// `/api/copy`, `/api/create`, `/api/push`, `/api/blobs`.
pub fn refused() -> ApiError {
    ApiError::unsupported("models are neither made, copied nor pushed here; /api/pull brings one into the cache")
}

/// `/api/delete`: removes a model from the cache.
///
/// # Errors
/// Whoever may not, and a model that is not there or in use.
pub async fn delete(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let library = app.library()?.clone();
    let body = Arrived::wait(&app, request, Work::Plain).await?;
    let length = body.len();
    let name = app.background.run(length, move || name(&body.read()?)).await?;
    if app.shelf.is_of_several()
        && let Ok(loaded) = app.shelf.named(Some(&name)).await
    {
        app.shelf.release(&loaded)?;
    }
    app.background.run(length, move || library.delete(&name)).await?;
    Ok(json_response(&json!({ "status": "success" })))
}

/// `/api/pull`: brings a model into the cache.
///
/// # Errors
/// Whoever may not, a name that is none, and what goes wrong before the first byte.
pub async fn pull(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    if app.is_draining() {
        return Err(ApiError::unavailable("the server is shutting down"));
    }
    let library = app.library()?.clone();
    let body = Arrived::wait(&app, request, Work::Plain).await?;
    let pulls = app.pulls.clone();
    let join = move |body: Arrived| {
        let body = body.read()?;
        let streams = body.fields().flag("stream")?.unwrap_or(true);
        Ok((pulls.join(&library, &name(&body)?)?, streams))
    };
    let (mut state, streams) = app.background.run(body.len(), move || join(body)).await?;
    let is_over = |state: &State| state.end.is_some();
    let begun = |state: &State| state.step != PullStep::Listing || is_over(state);
    let gone = |_| ApiError::server("the download was given up (internal error)");
    // What cannot begin is an error like any other.
    let first =
        state.wait_for(|state| if streams { begun(state) } else { is_over(state) }).await.map_err(gone)?.clone();
    if let Some(Err(error)) = first.end {
        return Err(error);
    }
    if !streams {
        return Ok(json_response(&json!({ "status": "success" })));
    }
    let lines = Lines { state, last: PullStep::Listing, begun: false, over: false };
    let lines = futures_util::stream::unfold(lines, |mut lines| async move {
        let bytes = lines.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), lines))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(line::TYPE));
    Ok(response)
}

/// The name that a request is about; older clients have another word for it.
fn name(body: &Read) -> Result<String, ApiError> {
    let fields = body.fields();
    let name = match fields.text("model")? {
        Some(name) => Some(name),
        None => fields.text("name")?,
    };
    match name.map(str::trim) {
        None | Some("") => Err(ApiError::field("model", "it is missing")),
        Some(name) if name.len() > NAME_BYTES => {
            Err(ApiError::field("model", format!("the name is longer than {NAME_BYTES} bytes")))
        }
        Some(name) => Ok(name.to_owned()),
    }
}

/// A download as lines. With it goes whoever waits.
struct Lines {
    state: watch::Receiver<State>,
    /// What was told last.
    last: PullStep,
    begun: bool,
    over: bool,
}

impl Lines {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let mut ready = String::new();
        if std::mem::replace(&mut self.begun, true) {
            // Whatever happens meanwhile is one line.
            tokio::time::sleep(PULL_PAUSE).await;
            self.state.changed().await.ok()?;
        } else {
            line::write(&mut ready, &told(&PullStep::Listing));
        }
        let State { step, end } = self.state.borrow_and_update().clone();
        if step != self.last {
            line::write(&mut ready, &told(&step));
            self.last = step;
        }
        self.over = end.is_some();
        match end {
            Some(Ok(())) => {
                for status in ["verifying sha256 digest", "writing manifest", "success"] {
                    line::write(&mut ready, &json!({ "status": status }));
                }
            }
            Some(Err(error)) => line::write(&mut ready, &error.ollama()),
            None => {}
        }
        Some(Bytes::from(ready))
    }
}

/// What happens, in Ollama's words.
fn told(step: &PullStep) -> Value {
    match step {
        PullStep::Listing => json!({ "status": "pulling manifest" }),
        PullStep::Remark(text) => json!({ "status": text }),
        PullStep::File { name, sha256, total, completed } => {
            let mut line = Map::new();
            let short = sha256.as_deref().map_or(name.as_str(), |hash| hash.get(..12).unwrap_or(hash));
            line.insert("status".into(), format!("pulling {short}").into());
            let digest = sha256.as_ref().map_or_else(|| name.clone(), |hash| format!("sha256:{hash}"));
            line.insert("digest".into(), digest.into());
            if let Some(total) = total {
                line.insert("total".into(), (*total).into());
            }
            line.insert("completed".into(), (*completed).into());
            Value::Object(line)
        }
    }
}

//! Errors as clients expect them: `{"error": {"message", "type", "code", "param"}}` and a status that tells a client
//! whether to try again.

use crate::budget::ERROR_CHARACTERS;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gguf::plain;
use model::scheduler::{Failure, Rejected};
use model::sequence::PromptError;
use serde_json::{Map, Value, json};
use text::chat::ChatError;
use text::sampler::SamplerError;

/// Why a request gets no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The status.
    pub status: StatusCode,
    /// The type, by which programs tell errors apart.
    pub kind: &'static str,
    /// One line for people.
    pub message: String,
    /// A code in OpenAI's words; else the status stands there.
    pub code: Option<&'static str>,
    /// The field that is wrong.
    pub param: Option<String>,
    /// Tokens of the prompt, and those that the context holds, if that is the matter.
    pub overflow: Option<(u32, u32)>,
    /// Seconds after which a client may try again.
    pub retry_after: Option<u32>,
}

impl ApiError {
    /// An error of a type.
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> ApiError {
        let message = plain::lines(&message.into(), ERROR_CHARACTERS).into_owned();
        ApiError { status, kind, message, code: None, param: None, overflow: None, retry_after: None }
    }

    /// The request is wrong, and will be wrong again.
    pub fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// A field is wrong.
    pub fn field(name: &str, problem: impl std::fmt::Display) -> ApiError {
        let param = plain::name(name).into_owned();
        ApiError { param: Some(param), ..ApiError::invalid(format!("{name}: {problem}")) }
    }

    /// There is nothing of this name.
    pub fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// It is there but switched off, or not there yet.
    pub fn unsupported(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_IMPLEMENTED, "not_supported_error", message)
    }

    /// Not now.
    pub fn unavailable(message: impl Into<String>) -> ApiError {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", message);
        ApiError { retry_after: Some(1), ..error }
    }

    /// The request took too long.
    pub fn too_late() -> ApiError {
        let message = "the request took longer than the server allows (--timeout)";
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout_error", message)
    }

    /// There is too much to do right now.
    pub fn busy(message: impl Into<String>) -> ApiError {
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message);
        ApiError { retry_after: Some(1), ..error }
    }

    /// There is no room on the disk.
    pub fn no_room(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "server_error", message)
    }

    /// It is needed as it is.
    pub fn in_use(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "invalid_request_error", message)
    }

    /// Our own fault.
    pub fn server(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// The prompt does not fit.
    pub fn context(tokens: usize, context: usize) -> ApiError {
        // Clients tell this error from others by these words of llama-server and of OpenAI, and shorten what they send.
        let message = format!(
            "the request is too large: with {tokens} tokens it exceeds the available context size; this model's maximum \
             context length is {context} tokens (shorten it, or start the server with a larger context, -c)"
        );
        let code = Some("context_length_exceeded");
        let kind = "exceed_context_size_error";
        let small = |n| u32::try_from(n).unwrap_or(u32::MAX);
        let overflow = Some((small(tokens), small(context)));
        ApiError { code, overflow, ..ApiError::new(StatusCode::BAD_REQUEST, kind, message) }
    }

    /// The object under `error`.
    pub fn body(&self) -> Value {
        let mut object = Map::new();
        let code = self.code.map_or_else(|| json!(self.status.as_u16()), |code| json!(code));
        object.insert("code".into(), code);
        object.insert("message".into(), self.message.as_str().into());
        object.insert("type".into(), self.kind.into());
        object.insert("param".into(), self.param.as_deref().map_or(Value::Null, Value::from));
        if let Some((tokens, context)) = self.overflow {
            object.insert("n_prompt_tokens".into(), tokens.into());
            object.insert("n_ctx".into(), context.into());
        }
        Value::Object(object)
    }

    /// An error in the form of Anthropic's API.
    pub fn anthropic(&self) -> Value {
        let kind = match self.status.as_u16() {
            400 | 408 | 413 | 415 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            _ => "api_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": self.message } })
    }

    /// An error in the form of Ollama's API.
    pub fn ollama(&self) -> Value {
        json!({ "error": self.message })
    }

    /// A response in the form that clients of this path read.
    pub fn respond_at(&self, path: &str) -> Response {
        match path {
            _ if path.starts_with(ANTHROPIC) => self.respond(&self.anthropic()),
            _ if path.starts_with(OLLAMA) => self.respond(&self.ollama()),
            _ => self.clone().into_response(),
        }
    }

    /// A response with this body.
    pub fn respond(&self, body: &Value) -> Response {
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        } else if self.status.is_server_error() {
            // What fails now would fail again: clients must not make it three times as bad.
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}

/// Paths of Anthropic's API.
const ANTHROPIC: &str = "/v1/messages";

/// Paths of Ollama's API.
const OLLAMA: &str = "/api/";

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.respond(&json!({ "error": self.body() }))
    }
}

impl From<Rejected> for ApiError {
    fn from(rejected: Rejected) -> ApiError {
        match rejected {
            Rejected::Prompt(PromptError::TooLong { tokens, context }) => ApiError::context(tokens, context),
            Rejected::Full(_) => ApiError::busy(rejected.to_string()),
            Rejected::ShuttingDown => ApiError::unavailable(rejected.to_string()),
            Rejected::Sampling(error) => error.into(),
            Rejected::NoRanking => ApiError::unsupported(rejected.to_string()),
            Rejected::NoText => ApiError::invalid(rejected.to_string()),
            Rejected::Prompt(error) => ApiError::invalid(error.to_string()),
        }
    }
}

impl From<SamplerError> for ApiError {
    fn from(error: SamplerError) -> ApiError {
        let param = match &error {
            SamplerError::OutOfRange { name, .. } => Some((*name).to_owned()),
            _ => None,
        };
        ApiError { param, ..ApiError::invalid(error.to_string()) }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> ApiError {
        match failure {
            Failure::ShuttingDown => ApiError::unavailable(failure.to_string()),
            Failure::Constraint(_) => ApiError::invalid(failure.to_string()),
            Failure::Engine(_) | Failure::Sampler(_) => ApiError::server(failure.to_string()),
        }
    }
}

impl From<ChatError> for ApiError {
    fn from(error: ChatError) -> ApiError {
        match error {
            ChatError::BadMessage { .. } => ApiError::field("messages", error),
            ChatError::Template(_) => ApiError::field("messages", format!("the chat template: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_fields_that_clients_read() {
        let error = ApiError::context(5000, 4096);
        let body = error.body();
        assert_eq!(body["type"], "exceed_context_size_error");
        assert_eq!(body["code"], "context_length_exceeded");
        assert_eq!((&body["n_prompt_tokens"], &body["n_ctx"]), (&json!(5000), &json!(4096)));
        let words = ["exceeds the available context size", "maximum context length is 4096 tokens"];
        assert!(words.iter().all(|words| error.message.contains(words)), "{}", error.message);
        let body = ApiError::field("top_p", "is text").body();
        assert_eq!((&body["code"], &body["param"]), (&json!(400), &json!("top_p")));
        assert_eq!(body["message"], "top_p: is text");
    }

    #[test]
    fn statuses_say_whether_to_try_again() {
        let full = ApiError::from(Rejected::Full(9)).into_response();
        assert_eq!((full.status().as_u16(), full.headers()["retry-after"].to_str().unwrap()), (429, "1"));
        let own = ApiError::from(Failure::Engine("x".into())).into_response();
        assert_eq!((own.status().as_u16(), own.headers()["x-should-retry"].to_str().unwrap()), (500, "false"));
        assert_eq!(ApiError::from(Rejected::from(PromptError::Empty)).status.as_u16(), 400);
        assert_eq!(ApiError::from(Failure::ShuttingDown).status.as_u16(), 503);
    }
}

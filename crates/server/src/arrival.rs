//! The body of a request as it comes: within a time and a number of bytes.

use crate::app::App;
use crate::body::{Body, Work};
use crate::budget::{BODY_GRACE, NAME_BYTES, SHORT_BODY};
use crate::error::ApiError;
use crate::memory::Charge;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

/// What has come of a body. If it is not to be read, its memory goes back to the system: nobody else would see to that.
struct Coming<'a> {
    app: &'a App,
    bytes: Vec<u8>,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() > SHORT_BODY {
            drop(bytes);
            self.app.background.tidy();
        }
    }
}

/// What is read of a body before there is a model.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stream: Option<&'a RawValue>,
}

/// A body that has come, unread.
#[derive(Debug)]
pub struct Arrived {
    bytes: Vec<u8>,
    charge: Charge,
    work: Work,
}

impl Arrived {
    /// Waits for a body, which is for this.
    ///
    /// # Errors
    /// 413 if it is too long, 408 if it does not come in time, 400 if it breaks off, 429 if too many are slow or memory
    /// is short.
    pub async fn wait(app: &App, request: Request, work: Work) -> Result<Arrived, ApiError> {
        let limit = app.options.body_limit;
        let kind = "invalid_request_error";
        let too_long = || {
            let message = format!("the body is longer than {limit} bytes (--body-limit)");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, kind, message)
        };
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        let (mut coming, mut charge) = (Coming { app, bytes: vec![] }, app.memory.open());
        let bytes = &mut coming.bytes;
        let patience = app.options.body_time.min(app.options.timeout);
        let end = Instant::now() + patience;
        let grace = Instant::now() + BODY_GRACE.min(patience);
        let mut place = None;
        let mut body = request.into_body().into_data_stream();
        loop {
            let until = if place.is_none() { grace } else { end };
            match timeout_at(until, body.next()).await {
                Ok(None) => return Ok(Arrived { bytes: std::mem::take(bytes), charge, work }),
                Ok(Some(Ok(piece))) if piece.len() > limit - bytes.len() => return Err(too_long()),
                Ok(Some(Ok(piece))) => {
                    let held = bytes.capacity();
                    // A piece may share a buffer that is longer than itself: what is kept is a copy.
                    bytes.extend_from_slice(&piece);
                    charge.grow(bytes.capacity() - held)?;
                }
                Ok(Some(Err(_))) => return Err(ApiError::invalid("the body breaks off, or its chunks are malformed")),
                Err(_) if place.is_none() => {
                    let taken = app.slow_bodies.try_acquire();
                    place = Some(taken.map_err(|_| ApiError::busy("too many requests are slow to send their bodies"))?);
                }
                Err(_) => {
                    let message = format!("the body did not come within {} s (--body-timeout)", patience.as_secs_f32());
                    return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, kind, message));
                }
            }
        }
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it asks for a stream, as far as a look tells.
    pub fn wants_stream(&self) -> bool {
        let named = serde_json::from_slice::<Named>(&self.bytes).ok();
        named.and_then(|named| named.stream).is_some_and(|stream| stream.get() == "true")
    }

    /// All of it as an object, if it is one and short.
    pub fn short_object(&self) -> Option<Value> {
        let is_short = self.bytes.len() <= SHORT_BODY;
        is_short.then(|| serde_json::from_slice(&self.bytes).ok()).flatten().filter(Value::is_object)
    }

    /// With the name of the model in it, for which nothing else of it is built.
    ///
    /// # Errors
    /// As [`Arrived::read`], and a name that is none.
    pub fn with_name(self) -> Result<(Arrived, Option<String>), ApiError> {
        let Ok(Named { model, .. }) = serde_json::from_slice::<Named>(&self.bytes) else {
            // Whatever is wrong with it, reading it says; but for a name that is there twice.
            return self.read().and_then(|_| Err(ApiError::field("model", "it is there more than once")));
        };
        let name = match model.map(|raw| serde_json::from_str::<Option<String>>(raw.get())) {
            None | Some(Ok(None)) => None,
            Some(Ok(Some(name))) if name.len() <= NAME_BYTES => Some(name),
            Some(Ok(Some(_))) => {
                return Err(ApiError::field("model", format!("the name is longer than {NAME_BYTES} bytes")));
            }
            Some(Err(_)) => return Err(ApiError::field("model", "it is not a string")),
        };
        Ok((self, name))
    }

    /// Reads it, as [`Body::read`].
    ///
    /// # Errors
    /// As [`Body::read`].
    pub fn read(self) -> Result<Body, ApiError> {
        Body::read(self.bytes, self.charge, self.work)
    }
}

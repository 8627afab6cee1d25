//! A stream that begins before its model is there, so that no client takes the silence for the end: comments until the
//! answer begins, and an error as an event, as its status has been told.

use axum::body::{Body, BodyDataStream, Bytes, to_bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::StreamExt;
use std::convert::Infallible;
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// What keeps a silent stream open.
const COMMENT: &str = ":\n\n";

/// An answer that is not there yet.
type Coming = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Whether the streams of a path may begin so: those of server-sent events, as lines of JSON have no comments.
pub fn is_for(path: &str) -> bool {
    !path.starts_with("/api/")
}

/// Where a stream is.
enum Early {
    Waiting(Coming),
    Goes(BodyDataStream),
    Over,
}

/// A stream that becomes the answer when that is there.
pub fn stream(coming: Coming, ping: Duration, path: &str) -> Response {
    // Anthropic's events have names.
    let name = if path.starts_with("/v1/messages") { "event: error\n" } else { "" };
    let bytes = futures_util::stream::unfold(Early::Waiting(coming), move |early| next(early, ping, name));
    let mut response = Response::new(Body::from_stream(bytes.map(Ok::<Bytes, Infallible>)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next(early: Early, ping: Duration, name: &str) -> Option<(Bytes, Early)> {
    match early {
        Early::Waiting(mut coming) => match tokio::time::timeout(ping, coming.as_mut()).await {
            Err(_) => Some((Bytes::from_static(COMMENT.as_bytes()), Early::Waiting(coming))),
            Ok(response) if response.status().is_success() => goes(response.into_body().into_data_stream()).await,
            Ok(response) => {
                let error = to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
                let mut event = name.to_owned();
                let _ = write!(event, "data: {}\n\n", String::from_utf8_lossy(&error));
                Some((Bytes::from(event), Early::Over))
            }
        },
        Early::Goes(stream) => goes(stream).await,
        Early::Over => None,
    }
}

async fn goes(mut stream: BodyDataStream) -> Option<(Bytes, Early)> {
    let bytes = stream.next().await?.ok()?;
    Some((bytes, Early::Goes(stream)))
}

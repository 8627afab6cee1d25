//! From an answer to a response: one JSON object, or a stream of server-sent events.

use crate::account::Account;
use crate::app::{App, Model};
use crate::arrival::Arrived;
use crate::body::Body as Read;
use crate::budget::{SCORE_BYTES, SHORT_BODY};
use crate::error::ApiError;
use crate::memory::Charge;
use crate::settings::Settings;
use crate::speech::{Answer, Ending, Heard, Scored};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use model::scheduler::Spent;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fmt::Write;
use std::mem::size_of;
use std::sync::Arc;
use std::time::Duration;

/// One text as a whole.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// The text.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// With their log-probabilities, if those were wanted.
    pub scores: Vec<Scored>,
    /// Instead of text, the vector of the prompt.
    pub vector: Vec<f32>,
    /// Why it ended.
    pub ending: Option<Ending>,
    /// What it took.
    pub spent: Spent,
}

/// How an API says what was heard.
pub trait Protocol: Send {
    /// Whether it wants a stream.
    fn streams(&self) -> bool;

    /// What a stream begins with.
    fn start(&mut self, out: &mut String);

    /// An event of a stream.
    fn heard(&mut self, heard: Heard, out: &mut String);

    /// What a stream ends with.
    fn finish(&mut self, out: &mut String);

    /// What a stream ends with after an error.
    fn fail(&mut self, error: &ApiError, out: &mut String) {
        event(out, None, &json!({ "error": error.body() }));
    }

    /// Everything as one object; one entry for each text.
    fn whole(&mut self, texts: Vec<Said>) -> Value;
}

/// Writes an event; with a name, it goes on a line before.
pub fn event(out: &mut String, name: Option<&str>, data: &Value) {
    if let Some(name) = name {
        let _ = writeln!(out, "event: {name}");
    }
    let _ = write!(out, "data: {data}\n\n");
}

/// A request that was understood.
pub struct Prepared {
    /// The tokens of its prompts.
    pub prompts: Vec<Vec<u32>>,
    /// How it wants its texts.
    pub settings: Settings,
    /// How to tell them.
    pub protocol: Box<dyn Protocol>,
}

/// An answer that has begun, and how to tell it.
struct Begun {
    answer: Answer,
    protocol: Box<dyn Protocol>,
}

/// Understands a body. May take long, and waits for nothing.
pub type Begin = fn(&Arc<App>, &Arc<Model>, &Read) -> Result<Prepared, ApiError>;

/// Answers a request.
pub async fn answer(app: Arc<App>, mut account: Account, body: Result<Arrived, ApiError>, begin: Begin) -> Response {
    let (begun, charge) = match begun(&app, body, begin).await {
        Ok(begun) => begun,
        Err(error) => return refuse(&error, &mut account),
    };
    account.charge = charge;
    if begun.protocol.streams() { stream(begun, account, app.options.ping).await } else { whole(begun, account).await }
}

async fn begun(app: &Arc<App>, body: Result<Arrived, ApiError>, begin: Begin) -> Result<(Begun, Charge), ApiError> {
    let body = body?;
    let model = app.model()?;
    let (shared, of, length) = (app.clone(), model.clone(), body.len());
    // Templates and tokenizers take their time with long texts; connections must not wait for that.
    let read = move || {
        let body = body.read()?;
        let prepared = begin(&shared, &of, &body)?;
        if prepared.settings.rule.is_some() {
            of.grammars()?;
        }
        Ok((prepared, body.close()))
    };
    let (prepared, charge) = app.background.run(length, read).await?;
    let Prepared { prompts, settings, protocol } = prepared;
    // A client that leaves drops this future, which ends the compile.
    let grammar = match &settings.rule {
        Some(rule) => Some(model.grammars()?.compile(rule).await?),
        None => None,
    };
    let answer = Answer::of(app, &model, prompts, &settings, grammar.as_ref())?;
    Ok((Begun { answer, protocol }, charge))
}

fn refuse(error: &ApiError, account: &mut Account) -> Response {
    account.fail(error);
    error.respond_at(account.path())
}

/// A JSON body.
pub fn json_response(value: &Value) -> Response {
    json_text(value.to_string())
}

/// A JSON body that is written already.
pub fn json_text(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn whole(begun: Begun, mut account: Account) -> Response {
    let Begun { mut answer, mut protocol } = begun;
    let mut texts: Vec<Said> = vec![];
    loop {
        match answer.next().await {
            Err(error) => return refuse(&error, &mut account),
            Ok(None) => break,
            Ok(Some(heard)) => {
                account.note(&heard);
                if let Err(error) = account.charge.grow(object_bytes(&heard)) {
                    return refuse(&error, &mut account);
                }
                add(&mut texts, heard);
            }
        }
    }
    let write = move || protocol.whole(texts).to_string();
    if account.charge.bytes() <= SHORT_BODY {
        return json_text(write());
    }
    // A long answer takes its time, and others wait for this thread. It has been computed, so it is not refused any more.
    match tokio::task::spawn_blocking(write).await {
        Ok(text) => json_text(text),
        Err(_) => refuse(&ApiError::server("the answer could not be written (internal error)"), &mut account),
    }
}

/// Bytes that something heard takes in an answer that is sent as one object: as it is, as a value and as text.
fn object_bytes(heard: &Heard) -> usize {
    match heard {
        Heard::Text { text, tokens, scores, .. } => {
            let scored: usize = scores.iter().map(|score| 1 + score.top.len()).sum();
            4 * text.len() + 2 * tokens.len() * size_of::<Value>() + scored * SCORE_BYTES
        }
        Heard::Vector { vector, .. } => vector.len() * (size_of::<Value>() + 4 * size_of::<f32>()),
        Heard::Progress { .. } | Heard::End { .. } | Heard::Failed { .. } => 0,
    }
}

fn add(texts: &mut Vec<Said>, heard: Heard) {
    let (Heard::Progress { index, .. }
    | Heard::Text { index, .. }
    | Heard::Vector { index, .. }
    | Heard::End { index, .. }) = heard
    else {
        return;
    };
    if texts.len() <= index {
        texts.resize_with(index + 1, Said::default);
    }
    let said = &mut texts[index];
    match heard {
        Heard::Text { text, tokens, scores, .. } => {
            said.text.push_str(&text);
            said.tokens.extend(tokens);
            said.scores.extend(scores);
        }
        Heard::Vector { vector, .. } => said.vector = vector,
        Heard::End { ending, spent, .. } => {
            said.ending = Some(ending);
            said.spent = spent;
        }
        Heard::Progress { .. } | Heard::Failed { .. } => {}
    }
}

struct Stream {
    begun: Begun,
    account: Account,
    /// Text that is ready to be sent.
    ready: String,
    over: bool,
    ping: Duration,
}

/// A stream. Its status is that of the first thing heard: an error before any text is an error like any other.
async fn stream(begun: Begun, mut account: Account, ping: Duration) -> Response {
    let Begun { mut answer, mut protocol } = begun;
    let mut ready = String::new();
    let mut over = false;
    match answer.next().await {
        Err(error) => return refuse(&error, &mut account),
        Ok(first) => {
            protocol.start(&mut ready);
            match first {
                Some(heard) => {
                    account.note(&heard);
                    protocol.heard(heard, &mut ready);
                }
                None => {
                    protocol.finish(&mut ready);
                    over = true;
                }
            }
        }
    }
    let stream = Stream { begun: Begun { answer, protocol }, account, ready, over, ping };
    let body = Body::from_stream(futures_util::stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), stream))
    }));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Stream {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() {
            if self.over {
                return None;
            }
            let Ok(heard) = tokio::time::timeout(self.ping, self.begun.answer.next()).await else {
                self.ready.push_str(":\n\n");
                break;
            };
            match heard {
                Ok(Some(heard)) => {
                    self.account.note(&heard);
                    self.begun.protocol.heard(heard, &mut self.ready);
                }
                Ok(None) => {
                    self.begun.protocol.finish(&mut self.ready);
                    self.over = true;
                }
                Err(error) => {
                    self.account.fail(&error);
                    self.begun.protocol.fail(&error, &mut self.ready);
                    self.over = true;
                }
            }
        }
        Some(Bytes::from(std::mem::take(&mut self.ready)))
    }
}

//! From an answer to a response: one JSON object, or a stream of server-sent events or lines.

use crate::account::{self, Account};
use crate::app::App;
use crate::arrival::Arrived;
use crate::body::Body as Read;
use crate::budget::{SCORE_BYTES, SHORT_BODY};
use crate::early;
use crate::error::ApiError;
use crate::served::Model;
use crate::settings::Settings;
use crate::shelf::Lease;
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
    /// Whether it wants a stream. One that never does has only a [whole](Protocol::whole).
    fn streams(&self) -> bool {
        false
    }

    /// The type of its streams.
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    /// What a stream begins with.
    fn start(&mut self, _out: &mut String) {}

    /// An event of a stream.
    fn heard(&mut self, _heard: Heard, _out: &mut String) {}

    /// What keeps a silent stream open.
    fn ping(&self, out: &mut String) {
        out.push_str(":\n\n");
    }

    /// What a stream ends with.
    fn finish(&mut self, _out: &mut String) {}

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
    /// The tokens of its prompts; without any there is nothing to compute.
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
    let body = match body {
        Ok(body) => body,
        Err(error) => return refuse(&error, &mut account),
    };
    // Only where models come and go is there anything to wait for before there is an answer.
    let begins_early = app.shelf.lets_go() && early::is_for(account.path()) && body.wants_stream();
    let (ping, path) = (app.options.ping, account.path().to_owned());
    let mut model = {
        let app = app.clone();
        Box::pin(async move { with_model(&app, body).await })
    };
    let there =
        if begins_early { tokio::time::timeout(ping, model.as_mut()).await.ok() } else { Some(model.as_mut().await) };
    match there {
        Some(there) => answer_from(app, account, there, begin).await,
        None => {
            early::stream(Box::pin(async move { answer_from(app, account, model.await, begin).await }), ping, &path)
        }
    }
}

async fn answer_from(
    app: Arc<App>,
    mut account: Account,
    there: Result<(Arrived, Lease), ApiError>,
    begin: Begin,
) -> Response {
    let begun = match begun(&app, there, &mut account, begin).await {
        Ok(begun) => begun,
        Err(error) => return refuse(&error, &mut account),
    };
    if begun.protocol.streams() { stream(begun, account, app.options.ping).await } else { whole(begun, account).await }
}

async fn begun(
    app: &Arc<App>,
    there: Result<(Arrived, Lease), ApiError>,
    account: &mut Account,
    begin: Begin,
) -> Result<Begun, ApiError> {
    let (body, mut lease) = there?;
    let length = body.len();
    let model = lease.model().clone();
    let (shared, of, path) = (app.clone(), model.clone(), account.path().to_owned());
    // Templates and tokenizers take their time with long texts; connections must not wait for that.
    let read = move || {
        let body = body.read()?;
        let prepared = begin(&shared, &of, &body)?;
        if prepared.settings.rule.is_some() {
            of.grammars()?;
        }
        if shared.options.log {
            account::name_fields(&path, &shared.unread.first_seen(body.unread()));
        }
        Ok((prepared, body.close()))
    };
    let (prepared, charge) = app.background.run(length, read).await?;
    let Prepared { prompts, settings, protocol } = prepared;
    settings.stay.into_iter().for_each(|stay| lease.stay(stay));
    account.keep(lease);
    // A client that leaves drops this future, which ends the compile.
    let grammar = match &settings.rule {
        Some(rule) => Some(model.grammars()?.compile(rule).await?),
        None => None,
    };
    let answer = Answer::of(app, &model, prompts, &settings, grammar.as_ref())?;
    account.charge = charge;
    Ok(Begun { answer, protocol })
}

/// The model that a body names, which is not read before it is there: what is built of a long one is there once.
///
/// # Errors
/// A name that is none, and a model that cannot be had.
pub async fn with_model(app: &App, body: Arrived) -> Result<(Arrived, Lease), ApiError> {
    app.check()?;
    // Where there is one model, it answers whatever it is called.
    if !app.shelf.is_of_several() {
        return Ok((body, app.model(None).await?));
    }
    let (body, name) = app.background.run(body.len(), move || body.with_name()).await?;
    let lease = app.model(name.as_deref()).await?;
    Ok((body, lease))
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
            Ok(None) => {
                account.close();
                break;
            }
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
        Heard::End { tokens, .. } => 2 * tokens.len() * size_of::<Value>(),
        Heard::Progress { .. } | Heard::Failed { .. } => 0,
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
        Heard::End { ending, tokens, spent, .. } => {
            said.tokens.extend(tokens);
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
    let kind = protocol.content_type();
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
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
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
                self.begun.protocol.ping(&mut self.ready);
                continue;
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

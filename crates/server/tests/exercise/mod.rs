//! Any bytes as the body of any route, or as choices of what a request is made of, over a model that answers the same to
//! everything: whatever comes, the answer is an HTTP response in the form of the API, no failure of the server's own.

#![allow(dead_code, reason = "each test and fuzzer uses a part")]

mod characters;
mod requests;
mod sources;
mod words;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use device::{Device, Null};
use model::batch::{Batch, Batches, Limits};
use model::error::EngineError;
use model::prefill_attention::Reach;
use model::scheduler::worker::Worker;
use model::scheduler::{Options as Sharings, Pooling, Scheduler};
use model::step::Output;
use serde_json::{Value, json};
use server::grammar::Isolation;
use server::{App, Defaults, Facts, Model, Options};
use std::sync::Arc;
use std::time::Duration;
use text::chat::{ChatTemplate, Family};
use text::sampler::SamplerConfig;
use text::tokenizer::Tokenizer;
use tower::ServiceExt;

const CONTEXT: usize = 512;

/// Routes that take a body.
pub const ROUTES: [&str; 19] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/completion",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/embedding",
    "/v1/chat/completions/input_tokens",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/nothing",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/embeddings",
    "/api/show",
    "/v1/rerank",
];

/// The first byte of a request that is made from the bytes behind it.
pub const MADE: u8 = 128;

/// Bytes of an error at most: it does not repeat what was sent.
const MOST_OF_AN_ERROR: usize = 4 << 10;

/// What is no word to a client.
const INTERNAL: [&str; 3] = ["panicked", "assertion", "internal error"];

/// A model whose tokens follow each other in turn.
struct Turns {
    limits: Limits,
    step: usize,
    out: Vec<f32>,
    device: Arc<dyn Device>,
}

impl Batches for Turns {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn prepare(&mut self, _: usize) -> Result<(), EngineError> {
        Ok(())
    }

    fn device(&self) -> Arc<dyn Device> {
        self.device.clone()
    }

    fn run(&mut self, batch: &Batch) -> Result<&[f32], EngineError> {
        self.device.check()?;
        self.out.clear();
        let tokens = batch.input("token").unwrap_or_default();
        for &row in batch.input("rows").unwrap_or_default() {
            let token = tokens[row as usize] as usize;
            match batch.output() {
                Output::Hidden => self.out.extend([token as f32, 1.0, -2.0]),
                Output::Scores => self.out.push(token as f32),
                Output::Likeliest | Output::Drawn => unreachable!("nobody asks for tokens"),
                Output::Logits => {
                    let next = (token * self.step + 3) % self.limits.vocab;
                    self.out.extend((0..self.limits.vocab).map(|id| if id == next { 5.0 } else { (id % 3) as f32 }));
                }
            }
        }
        Ok(&self.out)
    }
}

/// Tokens of one character, those of single bytes, and the markers of a chat.
pub fn tokenizer() -> Tokenizer {
    let markers = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"].map(|token| (token.to_owned(), 3));
    let tags = ["<think>", "</think>", "<tool_call>", "</tool_call>"].map(|token| (token.to_owned(), 4));
    let bytes = (0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 6));
    characters::tokenizer(markers.into_iter().chain(tags).chain(bytes))
}

/// A model of this name whose tokens follow each other in such steps.
pub fn model(name: &str, step: usize) -> Model {
    model_on(name, step, Arc::new(Null))
}

/// The same on a device, whose steps fail if it does not work.
pub fn model_on(name: &str, step: usize, device: Arc<dyn Device>) -> Model {
    model_of(name, step, device, false)
}

/// A model that makes embeddings and no text: the first token's, as its file says.
pub fn model_of_embeddings(name: &str) -> Model {
    let mut model = model_of(name, 1, Arc::new(Null), true);
    model.facts.pooling = Some(Pooling::First);
    model
}

/// A model that ranks by the last token but the one that ends the text, or by the first, and writes text in the first case.
pub fn model_that_ranks(name: &str, row: Pooling) -> Model {
    let mut model = model_with(name, 1, Arc::new(Null), row == Pooling::First, Some(row));
    model.facts.pooling = Some(Pooling::Rank);
    model
}

fn model_of(name: &str, step: usize, device: Arc<dyn Device>, whole: bool) -> Model {
    model_with(name, step, device, whole, None)
}

fn model_with(name: &str, step: usize, device: Arc<dyn Device>, whole: bool, ranks: Option<Pooling>) -> Model {
    let tokenizer = tokenizer();
    let (vocab, reach) = (tokenizer.vocab_len(), Reach::NOTHING);
    let limits = Limits { vocab, tokens: 64, rows: 4, segments: 4, context: CONTEXT, pages: 16, whole, ranks, reach };
    let engine = Turns { limits, step, out: vec![], device };
    let (worker, _) = Worker::start(Scheduler::new(Box::new(engine), Sharings::default())).expect("a thread");
    let template = ChatTemplate::of_family(Family::ChatMl, "<s>", "</s>").map_err(|e| e.to_string());
    let facts = Facts { names: vec![name.into()], width: 3, ..Facts::default() };
    let defaults = Defaults {
        sampling: SamplerConfig::default(),
        seed: Some(1),
        limit: Some(24),
        thinking: None,
        raw_reasoning: false,
        parse_special: false,
    };
    Model::new(worker, tokenizer, template, facts, defaults)
}

/// A server without a network.
pub struct Exercise {
    app: Arc<App>,
    runtime: tokio::runtime::Runtime,
}

impl Exercise {
    /// With everything on.
    pub fn new() -> Exercise {
        Exercise::with(Exercise::everything())
    }

    /// Options with everything on.
    pub fn everything() -> Options {
        Options { embeddings: true, ..Options::default() }
    }

    /// With these options.
    pub fn with(options: Options) -> Exercise {
        Exercise::isolated(options, Isolation::Here)
    }

    /// With these options, and grammars where they are told to be.
    pub fn isolated(options: Options, isolation: Isolation) -> Exercise {
        let options = Options { log: false, timeout: Duration::from_secs(60), ..options };
        let mut model = model("turns", 7);
        model.isolation = isolation;
        Exercise::of(options, model)
    }

    /// Of this model.
    pub fn of(options: Options, model: Model) -> Exercise {
        let app = Arc::new(App::new(options));
        app.ready(model);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Exercise { app, runtime }
    }

    /// The first byte chooses between a grammar and a schema, which the rest is or is made into, no larger than the scale
    /// says; what is no schema is none of this fuzzer's business. The status of the response.
    ///
    /// # Panics
    /// As [`Exercise::ask`].
    pub fn ask_grammar(&self, bytes: &[u8], scale: usize) -> Option<u16> {
        let (kind, rest) = bytes.split_first()?;
        let rule = match kind % 4 {
            0 => json!({ "grammar": std::str::from_utf8(rest).ok()? }),
            1 => json!({ "json_schema": serde_json::from_slice::<Value>(rest).ok()? }),
            2 => json!({ "grammar": sources::gbnf(rest, scale) }),
            _ => json!({ "json_schema": sources::schema(rest, scale) }),
        };
        Some(self.ask_rule(rule).0)
    }

    /// Asks for a text that follows a rule. The status of the response, and its text.
    ///
    /// # Panics
    /// As [`Exercise::ask`].
    pub fn ask_rule(&self, rule: Value) -> (u16, String) {
        let mut body = json!({ "prompt": "a", "n_predict": 8 });
        body.as_object_mut().expect("an object").extend(rule.as_object().expect("an object").clone());
        let route = ROUTES.iter().position(|route| *route == "/completion").unwrap_or_default();
        self.ask(&[&[route as u8], body.to_string().as_bytes()].concat())
    }

    /// The first byte chooses the route, the rest is the body. The status of the response, and its text. From
    /// [`MADE`] on it says that the request is made from the rest, its headers too.
    ///
    /// # Panics
    /// If the response is one that a server must not give.
    pub fn ask(&self, bytes: &[u8]) -> (u16, String) {
        let (route, body) = bytes.split_first().unwrap_or((&0, &[]));
        if *route >= MADE {
            return self.ask_made(body);
        }
        let path = ROUTES[usize::from(*route) % ROUTES.len()];
        let request = Request::builder().method(Method::POST).uri(path).header("host", "localhost");
        self.send(path, request.body(Body::from(body.to_vec())).expect("a request"))
    }

    /// A request with these headers and this body. The status of the response, and its text.
    ///
    /// # Panics
    /// As [`Exercise::ask`].
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(path, request.body(Body::from(body.to_vec())).expect("a request"))
    }

    /// A request that is made from these bytes.
    fn ask_made(&self, bytes: &[u8]) -> (u16, String) {
        let made = requests::made(bytes, &ROUTES);
        let mut request = Request::builder().method(made.method).uri(&made.path);
        for (name, value) in &made.headers {
            request = request.header(*name, value);
        }
        let told = format!("{} {} {:?}", made.method, made.path, made.headers);
        let (status, text) = self.send(&told, request.body(Body::from(made.body)).expect("a request"));
        assert!(!made.foreign || status >= 400, "{told}: {status}, and it is somebody else's page");
        (status, text)
    }

    fn send(&self, path: &str, request: Request<Body>) -> (u16, String) {
        let router = server::router::router(self.app.clone());
        self.runtime.block_on(async {
            let response = router.oneshot(request).await.expect("a response");
            let status = response.status().as_u16();
            let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap_or_default().to_owned());
            let bytes = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
            let text = std::str::from_utf8(&bytes).expect("UTF-8");
            let told = |text: &str| format!("{path}: {status} {text}");
            assert!(status != 500, "{}", told(text));
            if status >= 400 {
                assert!(text.len() <= MOST_OF_AN_ERROR, "{path}: an error of {} bytes", text.len());
                assert!(!INTERNAL.iter().any(|word| text.contains(word)), "{}", told(text));
            }
            match kind.as_deref() {
                Some("text/event-stream; charset=utf-8") => {
                    assert_eq!(status, 200);
                    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|d| *d != "[DONE]");
                    data.for_each(|data| assert!(is_json(data), "{}", told(data)));
                }
                Some("application/x-ndjson") => {
                    assert_eq!(status, 200);
                    text.lines().for_each(|line| assert!(is_json(line), "{}", told(line)));
                }
                Some(kind) if kind.starts_with("application/json") => {
                    assert!(is_json(text) || text.is_empty(), "{}", told(text));
                }
                // The page, the counters, and answers without a body.
                _ => assert!(status < 400 || text.is_empty(), "{}", told(text)),
            }
            (status, text.to_owned())
        })
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

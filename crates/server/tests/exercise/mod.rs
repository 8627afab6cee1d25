//! Any bytes as the body of any route, over a model that answers the same to everything: whatever comes, the answer is
//! an HTTP response in the form of the API, no failure of the server's own.

mod characters;
mod sources;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use model::batch::{Batch, Batches, Limits};
use model::chat::{ChatTemplate, Family};
use model::engine::EngineError;
use model::runs::Reach;
use model::sampler::SamplerConfig;
use model::scheduler::worker::Worker;
use model::scheduler::{Options as Sharings, Pooling, Scheduler};
use model::step::Output;
use model::tokenizer::Tokenizer;
use serde_json::{Value, json};
use server::grammar::Isolation;
use server::{App, Defaults, Facts, Model, Options};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

const CONTEXT: usize = 512;

/// Routes that take a body.
pub const ROUTES: [&str; 13] = [
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
];

/// A model whose tokens follow each other in turn.
struct Turns {
    limits: Limits,
    out: Vec<f32>,
}

impl Batches for Turns {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn prepare(&mut self, _: usize) -> Result<(), EngineError> {
        Ok(())
    }

    fn run(&mut self, batch: &Batch) -> Result<&[f32], EngineError> {
        self.out.clear();
        let tokens = batch.input("token").unwrap_or_default();
        for &row in batch.input("rows").unwrap_or_default() {
            let token = tokens[row as usize] as usize;
            match batch.output() {
                Output::Hidden => self.out.extend([token as f32, 1.0, -2.0]),
                Output::Logits => {
                    let next = (token * 7 + 3) % self.limits.vocab;
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

/// A server without a network.
pub struct Exercise {
    app: Arc<App>,
    runtime: tokio::runtime::Runtime,
}

impl Exercise {
    /// With everything on, and grammars where they are told to be.
    pub fn new(isolation: Isolation) -> Exercise {
        let options = Options {
            log: false,
            body_limit: 1 << 20,
            embeddings: Some(Pooling::Mean),
            timeout: Duration::from_secs(60),
            ..Options::default()
        };
        let app = Arc::new(App::new(options));
        let tokenizer = tokenizer();
        let reach = Reach::NOTHING;
        let limits = Limits {
            vocab: tokenizer.vocab_len(),
            tokens: 64,
            rows: 4,
            segments: 4,
            context: CONTEXT,
            pages: 16,
            reach,
        };
        let engine = Turns { limits, out: vec![] };
        let (worker, _) = Worker::start(Scheduler::new(Box::new(engine), Sharings::default())).expect("a thread");
        let template = ChatTemplate::of_family(Family::ChatMl, "<s>", "</s>").map_err(|e| e.to_string());
        let facts = Facts { names: vec!["turns".into()], width: 3, ..Facts::default() };
        let defaults = Defaults {
            sampling: SamplerConfig::default(),
            seed: Some(1),
            limit: Some(24),
            thinking: None,
            raw_reasoning: false,
        };
        let mut model = Model::new(worker, tokenizer, template, facts, defaults);
        model.isolation = isolation;
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

    /// The first byte chooses the route, the rest is the body. The status of the response, and its text.
    ///
    /// # Panics
    /// If the response is one that a server must not give.
    pub fn ask(&self, bytes: &[u8]) -> (u16, String) {
        let (route, body) = bytes.split_first().unwrap_or((&0, &[]));
        let path = ROUTES[usize::from(*route) % ROUTES.len()];
        let request = Request::builder().method(Method::POST).uri(path).body(Body::from(body.to_vec()));
        let router = server::router::router(self.app.clone());
        self.runtime.block_on(async {
            let response = router.oneshot(request.expect("a request")).await.expect("a response");
            let status = response.status().as_u16();
            let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap_or_default().to_owned());
            let bytes = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
            let text = std::str::from_utf8(&bytes).expect("UTF-8");
            let told = |text: &str| format!("{path}: {status} {text}");
            assert!(status != 500, "{}", told(text));
            match kind.as_deref() {
                Some("text/event-stream; charset=utf-8") => {
                    assert_eq!(status, 200);
                    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|d| *d != "[DONE]");
                    data.for_each(|data| assert!(is_json(data), "{}", told(data)));
                }
                _ => assert!(is_json(text), "{}", told(text)),
            }
            (status, text.to_owned())
        })
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

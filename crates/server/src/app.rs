//! What all requests share: the model once it is there, the settings, the counters.

use crate::background::Background;
use crate::budget;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::grammar::{Grammars, Isolation};
use crate::memory::Memory;
use crate::metrics::{Compat, Metrics};
use crate::origin::Admission;
use gguf::plain;
use model::engine::readiness::Readiness;
use model::scheduler::Pooling;
use model::scheduler::worker::Worker;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use text::chat::ChatTemplate;
use text::sampler::SamplerConfig;
use text::tokenizer::Tokenizer;
use tokio::sync::Semaphore;

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub hosts: Vec<String>,
    /// The port; 0 takes a free one and says which.
    pub port: u16,
    /// Keys of which a request must show one; none lets everybody in.
    pub api_keys: Vec<String>,
    /// Names under which clients may call the server beside those of this machine, if there are no keys; `*` is all.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may ask beside the server's own: `*` is all, `localhost` is every port of this machine and what
    /// there is if none is given, `vscode-webview://` is all of a scheme.
    pub origins: Vec<String>,
    /// Whether `/metrics` is there.
    pub metrics: bool,
    /// Names of metrics for dashboards of others.
    pub compat: Compat,
    /// Whether `/slots` is there.
    pub slots: bool,
    /// Whether answers of chats show their prompts.
    pub verbose: bool,
    /// How embeddings are made, if they are.
    pub embeddings: Option<Pooling>,
    /// Whether the chat page is there.
    pub page: bool,
    /// Bytes of a body at most.
    pub body_limit: usize,
    /// How long a body may take to come.
    pub body_time: Duration,
    /// Bytes of memory that all requests in flight may take together.
    pub request_memory: usize,
    /// Silence after which a stream sends a comment.
    pub ping: Duration,
    /// How long a request may take in all.
    pub timeout: Duration,
    /// How long requests may go on after the server was told to end.
    pub drain: Duration,
    /// Whether each request writes a line to stderr.
    pub log: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hosts: vec!["127.0.0.1".into()],
            port: 8080,
            api_keys: vec![],
            allowed_hosts: vec![],
            origins: vec![],
            metrics: true,
            compat: Compat::default(),
            slots: true,
            verbose: false,
            embeddings: None,
            page: true,
            body_limit: budget::BODY_BYTES,
            body_time: budget::BODY_TIME,
            request_memory: budget::MEMORY,
            ping: Duration::from_secs(30),
            timeout: Duration::from_secs(3600),
            drain: Duration::from_secs(30),
            log: true,
        }
    }
}

/// What is said about a model.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where it came from.
    pub path: String,
    /// Names under which clients may ask for it; the first is its name. Any other name gets it too.
    pub names: Vec<String>,
    /// Words that clients may group models by.
    pub tags: Vec<String>,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Positions that it was made for.
    pub trained_context: u64,
    /// Length of its hidden state.
    pub width: u64,
    /// How the cache of keys and values is kept.
    pub cache: String,
    /// Which of its programs there are.
    pub programs: Arc<Readiness>,
}

/// What a request gets when it does not say.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// How tokens are chosen.
    pub sampling: SamplerConfig,
    /// The seed; another one each time if there is none.
    pub seed: Option<u64>,
    /// Most tokens to generate.
    pub limit: Option<usize>,
    /// Whether to think; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// Whether reasoning stays in the text.
    pub raw_reasoning: bool,
    /// Whether special tokens that are spelled out in messages are special.
    pub parse_special: bool,
}

/// A model that answers.
pub struct Model {
    /// Runs the requests.
    pub worker: Worker,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversations to text; or why that cannot be.
    pub template: Result<ChatTemplate, String>,
    /// What is said about it.
    pub facts: Facts,
    /// What requests get when they do not say.
    pub defaults: Defaults,
    /// Where grammars are compiled and followed.
    pub isolation: Isolation,
    /// Made when a request first asks for one.
    grammars: OnceLock<Result<Grammars, String>>,
}

impl Model {
    /// A model that answers through this worker. Every event repeats its name, which is made plain and short. Its grammars
    /// are not isolated.
    pub fn new(
        worker: Worker,
        tokenizer: Tokenizer,
        template: Result<ChatTemplate, String>,
        mut facts: Facts,
        defaults: Defaults,
    ) -> Model {
        facts.names.iter_mut().for_each(|name| *name = plain::name(name).into_owned());
        let isolation = Isolation::default();
        Model { worker, tokenizer, template, facts, defaults, isolation, grammars: OnceLock::new() }
    }

    /// What reads grammars for its vocabulary.
    ///
    /// # Errors
    /// 501 if its vocabulary cannot be ruled.
    pub fn grammars(&self) -> Result<&Grammars, ApiError> {
        let made = self.grammars.get_or_init(|| Grammars::new(&self.tokenizer, self.isolation.clone()));
        made.as_ref().map_err(|why| ApiError::unsupported(format!("this model cannot follow a grammar: {why}")))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.facts.names.first().map_or("model", String::as_str)
    }

    /// What a request calls it; without a word, its name.
    ///
    /// # Errors
    /// A name that is no string, or too long to be repeated in every event.
    pub fn called_by(&self, fields: Fields<'_>) -> Result<String, ApiError> {
        let name = fields.text("model")?.filter(|name| !name.is_empty()).unwrap_or(self.name());
        if name.len() > budget::NAME_BYTES && name != self.name() {
            return Err(ApiError::field("model", format!("the name is longer than {} bytes", budget::NAME_BYTES)));
        }
        Ok(name.to_owned())
    }

    /// The tokens that end a text.
    pub fn ends(&self) -> Arc<[u32]> {
        Arc::from(self.tokenizer.end_tokens())
    }
}

/// What all requests share.
pub struct App {
    /// How the server behaves.
    pub options: Options,
    /// The counters.
    pub metrics: Metrics,
    /// Who may ask.
    pub admission: Admission,
    /// The memory that requests in flight take.
    pub memory: Arc<Memory>,
    /// Places of bodies that are slow to come.
    pub slow_bodies: Semaphore,
    /// Where requests are read.
    pub background: Background,
    model: OnceLock<Arc<Model>>,
    draining: AtomicBool,
    active: AtomicUsize,
    next: AtomicU64,
    started: SystemTime,
    /// Makes ids differ from one start to the next.
    salt: u64,
}

impl App {
    /// A server whose model is still loading.
    pub fn new(options: Options) -> App {
        let started = SystemTime::now();
        let salt = started.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
        let has_keys = !options.api_keys.is_empty();
        App {
            admission: Admission::new(&options.hosts, &options.allowed_hosts, &options.origins, has_keys),
            memory: Arc::new(Memory::new(options.request_memory)),
            slow_bodies: Semaphore::new(budget::SLOW_BODIES),
            background: Background::default(),
            options,
            metrics: Metrics::default(),
            model: OnceLock::new(),
            draining: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            started,
            salt,
        }
    }

    /// The model is there.
    pub fn ready(&self, model: Model) {
        let _ = self.model.set(Arc::new(model));
    }

    /// The model, if requests for it are taken.
    ///
    /// # Errors
    /// 503 while it loads, and when the server is about to end.
    pub fn model(&self) -> Result<Arc<Model>, ApiError> {
        if self.is_draining() {
            return Err(ApiError::unavailable("the server is shutting down"));
        }
        let model = self.loaded().ok_or_else(|| ApiError::unavailable("Loading model"))?;
        if model.worker.is_ended() {
            return Err(ApiError::unavailable("the engine has stopped; restart the server"));
        }
        Ok(model)
    }

    /// The model, if it is there.
    pub fn loaded(&self) -> Option<Arc<Model>> {
        self.model.get().cloned()
    }

    /// Takes no more requests.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether requests are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Answers under way.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::SeqCst)
    }

    /// Counts an answer as long as the guard lives.
    pub fn enter(self: &Arc<App>) -> Active {
        self.active.fetch_add(1, Ordering::SeqCst);
        Active(self.clone())
    }

    /// A number that no other request of this process has.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// An id such as `chatcmpl-…`.
    pub fn id(&self, prefix: &str) -> String {
        let (number, salt) = (self.next(), self.salt);
        let mixed = (salt ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        format!("{prefix}{:016x}{:08x}", mixed ^ mixed >> 33, number as u32)
    }

    /// When the server started.
    pub fn started(&self) -> SystemTime {
        self.started
    }
}

/// An answer under way.
pub struct Active(Arc<App>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

//! What all requests share: the models that are there, the settings, the counters.

use crate::background::Background;
use crate::budget;
use crate::error::ApiError;
use crate::library::Library;
use crate::loader::Loader;
use crate::memory::Memory;
use crate::metrics::{Compat, Metrics};
use crate::origin::Admission;
use crate::pulls::Pulls;
use crate::served::Model;
use crate::shelf::{Bounds, Lease, Shelf, Stay};
use crate::unread::Unread;
use axum::http::StatusCode;
use model::scheduler::Pooling;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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
    /// Whether models that write text make embeddings, too.
    pub embeddings: bool,
    /// How embeddings are made, if not as the file of the model says.
    pub pooling: Option<Pooling>,
    /// Whether the chat page is there.
    pub page: bool,
    /// Models that may come and go for those who have a key.
    pub library: Option<Arc<dyn Library>>,
    /// Models that may be loaded at a time, and how long they stay.
    pub bounds: Bounds,
    /// Without keys, whether all may manage them who can reach a server that only this machine reaches.
    pub manage_models: bool,
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
            embeddings: false,
            pooling: None,
            page: true,
            library: None,
            bounds: Bounds { models: 1, stay: Stay::Long },
            manage_models: false,
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

impl Options {
    /// A host that other machines can reach, if there is one.
    pub fn open_host(&self) -> Option<&str> {
        let is_local = |host: &str| {
            let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
            host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
        };
        self.hosts.iter().map(String::as_str).find(|host| !is_local(host))
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
    /// Models that come in.
    pub pulls: Arc<Pulls>,
    /// Fields that nobody knew.
    pub unread: Unread,
    /// The models.
    pub shelf: Arc<Shelf>,
    draining: AtomicBool,
    active: AtomicUsize,
    next: AtomicU64,
    started: SystemTime,
    /// Makes ids differ from one start to the next.
    salt: u64,
}

impl App {
    /// A server whose model is still loading, until it is [`ready`](App::ready).
    pub fn new(options: Options) -> App {
        App::of(options, None)
    }

    /// A server of models that come from this loader.
    pub fn of(options: Options, loader: Option<Arc<dyn Loader>>) -> App {
        let started = SystemTime::now();
        let salt = started.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
        let has_keys = !options.api_keys.is_empty();
        App {
            admission: Admission::new(&options.hosts, &options.allowed_hosts, &options.origins, has_keys),
            memory: Arc::new(Memory::new(options.request_memory)),
            slow_bodies: Semaphore::new(budget::SLOW_BODIES),
            background: Background::default(),
            pulls: Arc::default(),
            unread: Unread::default(),
            shelf: Shelf::new(loader, options.bounds),
            options,
            metrics: Metrics::default(),
            draining: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            started,
            salt,
        }
    }

    /// The model is there, and stays.
    pub fn ready(&self, model: Model) {
        self.shelf.put(model);
    }

    /// Whether requests are taken.
    ///
    /// # Errors
    /// 503 while the first model loads, and when the server is about to end.
    pub fn check(&self) -> Result<(), ApiError> {
        if self.is_draining() {
            return Err(ApiError::unavailable("the server is shutting down"));
        }
        if self.shelf.is_open() { Ok(()) } else { Err(ApiError::unavailable("Loading model")) }
    }

    /// The model that a request calls so, which waits for it if it has to be loaded.
    ///
    /// # Errors
    /// As [`App::check`] and [`Shelf::take`], and 408 if that takes too long.
    pub async fn model(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        self.check()?;
        match tokio::time::timeout(self.options.timeout, self.shelf.take(name)).await {
            Ok(taken) => taken,
            Err(_) => Err(ApiError::too_late()),
        }
    }

    /// Where models come and go, for requests that were let in.
    ///
    /// # Errors
    /// 403 where nobody may manage them, 501 where there is nothing to manage.
    pub fn library(&self) -> Result<&Arc<dyn Library>, ApiError> {
        let options = &self.options;
        if options.api_keys.is_empty() && !(options.manage_models && options.open_host().is_none()) {
            let message = "models may be managed with a key (--api-key), or by --manage-models on a loopback address";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "permission_error", message));
        }
        options.library.as_ref().ok_or_else(|| ApiError::unsupported("this server has no models beside its own"))
    }

    /// Takes no more requests.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.shelf.close();
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
        let number = self.next();
        format!("{prefix}{:016x}{:08x}", self.mixed(number), number as u32)
    }

    /// A number that no other request has.
    pub fn number(&self) -> u64 {
        self.mixed(self.next())
    }

    fn mixed(&self, number: u64) -> u64 {
        let mixed = (self.salt ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
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

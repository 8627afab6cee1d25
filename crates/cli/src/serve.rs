//! `serve`: an HTTP server that clients of OpenAI, Anthropic, Ollama and llama-server use unchanged.
//!
//! Flags are those of llama-server where it has them. Here names and flags become models for the server: [`stock`] knows
//! which there are, and [`load`] makes an engine of a file. Everything after that is the `server` crate's.

mod load;
mod stock;

use crate::arguments::{BeginFlag, ContextFlag, EngineFlags, ModelOrDemo};
use crate::failure::Usage;
use crate::interrupt;
use crate::library::Cached;
use crate::log_lines::{self, Log};
use crate::sampling::Sampling;
use crate::terminal;
use anyhow::Context;
use clap::ValueEnum;
use model::scheduler::Pooling;
use server::{Bounds, Compat, Options, Stay, budget};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stock::Stock;

/// Sequences at a time when nothing is said.
const DEFAULT_PLACES: u16 = 4;

/// Models at a time when nothing is said.
const DEFAULT_MODELS: u16 = 4;

/// Positions of the cache when nothing is said: of each of several models, and of a single one at least.
const DEFAULT_POSITIONS: usize = 16_384;

/// What to serve, and how.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOrDemo,
    /// Addresses to listen on
    #[arg(long, value_name = "IP", value_delimiter = ',', default_value = "127.0.0.1", env = "LLAMA_ARG_HOST")]
    host: Vec<String>,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value = "8080", env = "LLAMA_ARG_PORT")]
    port: u16,
    /// Keys of which a request must show one
    #[arg(long, value_name = "KEYS", value_delimiter = ',', env = "LLAMA_API_KEY", hide_env_values = true)]
    api_key: Vec<String>,
    /// File with a key a line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Let everybody in who can reach a public address
    #[arg(long)]
    insecure: bool,
    /// Let clients of Ollama's API bring models into the cache and remove them without a key, on a loopback address; with a
    /// key they may anyway
    #[arg(long)]
    manage_models: bool,
    /// Names that clients may call the server by, beside this machine's and those of --host; `*` for all. With keys every
    /// name is one
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// Pages of these origins may ask beside the server's own: `http://host:port`, `localhost` for all of this machine,
    /// `vscode-webview://` for all of a scheme, `*` for all [default: localhost]
    #[arg(long, value_name = "ORIGINS", value_delimiter = ',', env = "LLAMA_ARG_CORS_ORIGINS")]
    cors_origins: Vec<String>,
    /// Names of the model, of which clients see the first in order of the alphabet [default: that of the file]
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', env = "LLAMA_ARG_ALIAS")]
    alias: Vec<String>,
    /// Words that clients may group models by
    #[arg(long, value_name = "WORDS", value_delimiter = ',', hide_short_help = true)]
    tags: Vec<String>,
    /// Serve the GGUF files of this folder too, each under its name, and the models of the cache: a request chooses one, which
    /// is loaded when it is first asked for
    #[arg(long, alias = "models-dir", value_name = "DIR", env = "LLAMA_ARG_MODELS_DIR")]
    models: Option<PathBuf>,
    /// Serve the models of the cache too, so many at a time, and never more than fit [default: 4 with --models]
    #[arg(long, alias = "models-max", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024),
          env = "LLAMA_ARG_MODELS_MAX")]
    max_models: Option<u16>,
    /// Unload a model that nobody has asked for so many seconds; the next request loads it again [default: never]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(i64).range(-1..=1_000_000), allow_negative_numbers = true)]
    sleep_idle_seconds: Option<i64>,
    #[command(flatten)]
    context: ContextFlag,
    /// Sequences at a time [default: 4] (-np)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), env = "LLAMA_ARG_N_PARALLEL")]
    parallel: Option<u16>,
    /// Let each sequence use all of the context, as long as there is room, rather than its share of it
    #[arg(long, alias = "kvu")]
    kv_unified: bool,
    /// Most tokens to generate when a request does not say; -1 goes on until the end
    #[arg(short = 'n', long = "predict", alias = "n-predict", value_name = "N", default_value = "-1",
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    predict: i64,
    /// Requests that may wait for a place; more get 429
    #[arg(long, value_name = "N", default_value = "256")]
    max_queue: usize,
    /// Tokens of prompts in a step that also decodes [default: 64, and 2048 on an NVIDIA card]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    prefill_beside: Option<u32>,
    /// Give each request the same text, bit for bit, whatever runs beside it; decoding is slower
    #[arg(long)]
    batch_invariant: bool,
    /// Make embeddings too (/v1/embeddings)
    #[arg(long, alias = "embedding")]
    embeddings: bool,
    /// How the hidden states of a prompt become its embedding [default: as the model says, or mean]
    #[arg(long, value_enum, value_name = "HOW")]
    pooling: Option<Pooled>,
    /// Compute every prompt anew
    #[arg(long)]
    no_prefix_cache: bool,
    /// Of a model that remembers in states, texts that it can go on from, kept beside the device [default: 32, in an eighth of
    /// the memory at most]
    #[arg(long, visible_alias = "swa-checkpoints", value_name = "N")]
    ctx_checkpoints: Option<u16>,
    /// MiB of the host's memory for pages of the cache that others need on the device: what was computed of a text comes
    /// back from there; 0 forgets it, -1 has no bound [default: 8192, in a quarter of the memory at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(-1..), allow_negative_numbers = true,
          env = "LLAMA_ARG_CACHE_RAM")]
    cache_ram: Option<i64>,
    /// Seconds that a request may take
    #[arg(long, value_name = "S", default_value = "3600", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    timeout: u64,
    /// Seconds that requests may go on after SIGTERM
    #[arg(long, value_name = "S", default_value = "30", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    drain_timeout: u64,
    /// Bytes of a request at most
    #[arg(long, value_name = "BYTES", default_value_t = budget::BODY_BYTES)]
    body_limit: usize,
    /// Seconds that a request may take to come
    #[arg(long, value_name = "S", default_value_t = budget::BODY_TIME.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    body_timeout: u64,
    /// Bytes of memory that all requests in flight may take together; more get 429
    #[arg(long, value_name = "BYTES", default_value_t = budget::MEMORY)]
    request_memory: usize,
    /// Seconds of silence after which a stream sends a comment
    #[arg(long, value_name = "S", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    sse_ping_interval: u64,
    /// Have /metrics
    #[arg(long)]
    metrics: bool,
    /// Names of metrics for dashboards of others
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    metrics_compat: Vec<Names>,
    /// Have /slots (the default)
    #[arg(long, hide = true)]
    slots: bool,
    /// Have no /slots
    #[arg(long, conflicts_with = "slots")]
    no_slots: bool,
    /// Have no chat page at /
    #[arg(long, alias = "no-ui")]
    no_webui: bool,
    /// Use the built-in template of the model's family instead of the model's
    #[arg(long, conflicts_with = "chat_template_file")]
    no_jinja: bool,
    /// File with a chat template instead of the model's
    #[arg(long, value_name = "FILE")]
    chat_template_file: Option<PathBuf>,
    /// A built-in template by name (chatml, llama3, glm4, deepseek2, ...), or a template itself
    #[arg(long, value_name = "NAME", conflicts_with_all = ["chat_template_file"])]
    chat_template: Option<String>,
    /// Whether models that can think do so when a request does not say
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    reasoning: Reasoning,
    /// Where thoughts are told: in reasoning_content, or with `none` in the text
    #[arg(long, value_enum, value_name = "FORM", default_value = "auto")]
    reasoning_format: ReasoningFormat,
    /// Let special tokens that are spelled out in messages and tools be special where a request does not say: whoever
    /// writes there can end a turn and begin another
    #[arg(long)]
    parse_special: bool,
    /// Show the prompt in answers of chats (`__verbose`)
    #[arg(short, long)]
    verbose: bool,
    /// Write no line for each request
    #[arg(long)]
    log_disable: bool,
    /// How the log is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "json")]
    log_format: log_lines::Format,
    /// Collector of traces that gets a span for each request, by OTLP over HTTP, as http://localhost:4318
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    otlp_traces_endpoint: Option<String>,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    begin: BeginFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Whether models think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reasoning {
    On,
    Off,
    Auto,
}

/// Where thoughts are told; llama-server has two names for the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReasoningFormat {
    Auto,
    Deepseek,
    None,
}

/// How an embedding is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pooled {
    Mean,
    /// That of the first token
    Cls,
    Last,
    /// A vector for each token, on /embedding only
    None,
    /// Scores instead, by the head of a classifier: /v1/rerank
    Rank,
}

/// Whose names metrics also have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Names {
    Vllm,
    Llamacpp,
}

/// Serves until a signal.
pub fn run(mut args: Arguments) -> anyhow::Result<()> {
    if let Some(path) = &args.api_key_file {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        args.api_key.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
    }
    args.api_key.retain(|key| !key.is_empty());
    let mut options = args.options();
    let log = Log::new(Some(args.log_format).filter(|_| !args.log_disable), args.collector())?;
    server::check(&options, args.insecure).map_err(|e| Usage(e.to_string()))?;
    // What can be refused is refused before anybody listens.
    let stock = Stock::new(args)?;
    options.library = Some(Arc::new(Cached { fetch: stock.fetch().clone(), served: stock.served() }));
    // What is left for a collector is sent when the server has ended.
    let _sent = log.begin();
    // A signal ends the server in order, and not the program at once.
    let _watch = interrupt::watch();
    let listening = |addresses: &[std::net::SocketAddr]| {
        for address in addresses {
            terminal::line(&format!("listening on http://{address}"));
        }
    };
    server::run(options, listening, Arc::new(stock)).map_err(Into::into)
}

impl Arguments {
    /// The collector of traces.
    fn collector(&self) -> Option<&str> {
        #[cfg(feature = "otlp")]
        return self.otlp_traces_endpoint.as_deref();
        #[cfg(not(feature = "otlp"))]
        None
    }

    fn options(&self) -> Options {
        let compat = |names| self.metrics_compat.contains(&names);
        Options {
            hosts: self.host.clone(),
            port: self.port,
            api_keys: self.api_key.clone(),
            allowed_hosts: self.allowed_hosts.clone(),
            origins: self.cors_origins.clone(),
            metrics: self.metrics || !self.metrics_compat.is_empty(),
            // Who asks for metrics as llama-server's users do finds their names.
            compat: Compat { vllm: compat(Names::Vllm), llamacpp: compat(Names::Llamacpp) || self.metrics },
            slots: !self.no_slots,
            verbose: self.verbose,
            embeddings: self.embeddings,
            pooling: self.pooling.map(|pooling| match pooling {
                Pooled::Mean => Pooling::Mean,
                Pooled::Cls => Pooling::First,
                Pooled::Last => Pooling::Last,
                Pooled::None => Pooling::Each,
                Pooled::Rank => Pooling::Rank,
            }),
            page: !self.no_webui,
            library: None,
            bounds: Bounds {
                models: usize::from(self.max_models.unwrap_or(DEFAULT_MODELS)),
                stay: match self.sleep_idle_seconds.map(u64::try_from) {
                    Some(Ok(seconds)) => Stay::For(Duration::from_secs(seconds)),
                    _ => Stay::Long,
                },
            },
            manage_models: self.manage_models,
            body_limit: self.body_limit,
            body_time: Duration::from_secs(self.body_timeout),
            request_memory: self.request_memory,
            ping: Duration::from_secs(self.sse_ping_interval),
            timeout: Duration::from_secs(self.timeout),
            drain: Duration::from_secs(self.drain_timeout),
            log: !self.log_disable || self.collector().is_some(),
        }
    }

    /// Whether requests choose among several models.
    fn is_of_several(&self) -> bool {
        self.models.is_some() || self.max_models.is_some()
    }

    /// Sequences at a time.
    fn places(&self) -> u16 {
        self.parallel.unwrap_or(DEFAULT_PLACES)
    }

    /// The names of the model that was named: those given, or that of its file.
    fn names(&self, path: &Path) -> Vec<String> {
        if self.alias.is_empty() {
            return vec![path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned())];
        }
        let mut names = self.alias.clone();
        names.sort();
        names
    }

    /// Positions of one sequence and of all. `usual` are those of a model that has the memory for itself.
    fn positions(&self, made_for: usize, usual: usize) -> (usize, usize) {
        let all = match self.context.ctx_size {
            None if self.is_of_several() => DEFAULT_POSITIONS,
            None => usual.max(DEFAULT_POSITIONS),
            Some(0) => made_for,
            Some(n) => n as usize,
        };
        let one = match self.parallel {
            Some(places) if !self.kv_unified => (all / usize::from(places)).max(1),
            _ => all,
        };
        (one.min(made_for), all)
    }
}

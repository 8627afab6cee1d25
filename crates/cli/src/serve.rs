//! `serve`: an HTTP server that clients of OpenAI, Anthropic and llama-server use unchanged.
//!
//! Flags are those of llama-server where it has them. Here a path and flags become a model for the server; everything
//! after that is the `server` crate's.

use crate::arguments::{BeginFlag, ContextFlag, EngineFlags, ModelOrDemo};
use crate::failure::{self, Usage};
use crate::interrupt;
use crate::models;
use crate::open::{self, Positions};
use crate::sampling::Sampling;
use crate::terminal;
use anyhow::Context;
use clap::ValueEnum;
use model::engine::Sharing;
use model::scheduler::{Options as Sharings, Pooling, Scheduler, worker::Worker};
use model::step::{Class, Output, Variant};
#[cfg(unix)]
use server::grammar::{Isolation, Program};
use server::{Compat, Defaults, Facts, Model, Options, budget};
use std::path::PathBuf;
use std::time::Duration;
use text::chat::{ChatTemplate, Family};
use text::sampler::Sampler;

/// Sequences at a time when nothing is said.
const DEFAULT_PLACES: u16 = 4;

/// Positions of the cache when nothing is said.
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
    /// Tokens of prompts in a step that also decodes
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=8192))]
    prefill_beside: u32,
    /// Give each request the same text, bit for bit, whatever runs beside it; decoding is slower
    #[arg(long)]
    batch_invariant: bool,
    /// Make embeddings too (/v1/embeddings)
    #[arg(long, alias = "embedding")]
    embeddings: bool,
    /// How the hidden states of a prompt become its embedding
    #[arg(long, value_enum, value_name = "HOW", default_value = "mean")]
    pooling: Pooled,
    /// Compute every prompt anew
    #[arg(long)]
    no_prefix_cache: bool,
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
    #[command(flatten)]
    ignored: Ignored,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    begin: BeginFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Flags of llama-server that ask for what is so anyway.
#[derive(clap::Args, Debug)]
struct Ignored {
    #[arg(long, hide = true)]
    jinja: bool,
    #[arg(long, hide = true, alias = "cb")]
    cont_batching: bool,
    #[arg(long, hide = true)]
    no_mmproj: bool,
    #[arg(long, hide = true)]
    swa_full: bool,
    #[arg(long, hide = true)]
    no_cache_idle_slots: bool,
    #[arg(long, hide = true, alias = "backend_sampling")]
    backend_sampling: bool,
    #[arg(long, hide = true, value_name = "N")]
    n_gpu_layers: Option<String>,
    #[arg(long, hide = true, value_name = "WHEN", num_args = 0..=1)]
    flash_attn: Option<Option<String>>,
    #[arg(long, hide = true, value_name = "MIB", allow_negative_numbers = true)]
    cache_ram: Option<i64>,
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
    Last,
    /// A vector for each token, on /embedding only
    None,
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
    let options = args.options();
    server::check(&options, args.insecure).map_err(|e| Usage(e.to_string()))?;
    // What can be refused is refused before anybody listens.
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(&path)?;
    open::config(&file, &path)?;
    drop(file);
    // A signal ends the server in order, and not the program at once.
    let _watch = interrupt::watch();
    let listening = |addresses: &[std::net::SocketAddr]| {
        for address in addresses {
            terminal::line(&format!("listening on http://{address}"));
        }
    };
    let load = move || load(&args).map_err(|error| failure::message(&error));
    server::run(options, listening, load).map_err(Into::into)
}

impl Arguments {
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
            embeddings: self.embeddings.then_some(match self.pooling {
                Pooled::Mean => Pooling::Mean,
                Pooled::Last => Pooling::Last,
                Pooled::None => Pooling::Each,
            }),
            page: !self.no_webui,
            body_limit: self.body_limit,
            body_time: Duration::from_secs(self.body_timeout),
            request_memory: self.request_memory,
            ping: Duration::from_secs(self.sse_ping_interval),
            timeout: Duration::from_secs(self.timeout),
            drain: Duration::from_secs(self.drain_timeout),
            log: !self.log_disable,
        }
    }

    /// Positions of one sequence and of all.
    fn positions(&self, made_for: usize) -> (usize, usize) {
        let all = match self.context.ctx_size {
            None => DEFAULT_POSITIONS,
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

/// Opens the model and starts its engine.
fn load(args: &Arguments) -> anyhow::Result<Model> {
    let path = &models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(path)?;
    let config = open::config(&file, path)?;
    let mut tokenizer = open::tokenizer(&file, path)?;
    let text = |id: Option<u32>| {
        String::from_utf8_lossy(id.and_then(|id| tokenizer.token_bytes(id)).unwrap_or_default()).into_owned()
    };
    let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
    let template = match &args.chat_template_file {
        Some(path) => {
            let source = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            ChatTemplate::parse(&source, &bos, &eos)
        }
        None if args.chat_template.is_some() => {
            let given = args.chat_template.as_deref().unwrap_or_default();
            match Family::named(given) {
                Some(family) => ChatTemplate::of_family(family, &bos, &eos),
                None if given.contains('{') => ChatTemplate::parse(given, &bos, &eos),
                None => return Err(Usage(format!("there is no built-in template '{given}'")).into()),
            }
        }
        None if args.no_jinja => ChatTemplate::of_family(Family::of(&tokenizer), &bos, &eos),
        None => ChatTemplate::of_model(&tokenizer),
    };
    let template = template.map_err(|error| error.to_string());
    if let Ok(template) = &template {
        tokenizer.use_template(template.source());
    }
    if let Err(problem) = &template {
        terminal::line(&format!("warning: no chat, as the template cannot be used: {problem}"));
    }
    let mut sampling = args.sampling.config();
    sampling.seed = 0;
    Sampler::new(sampling.clone(), config.vocab as usize)?;
    let made_for = usize::try_from(config.context).unwrap_or(1).max(1);
    let (one, all) = args.positions(made_for);
    let places = args.parallel.unwrap_or(DEFAULT_PLACES);
    let sharing = Sharing::of_texts(i64::from(places), all as i64);
    let mut opened = open::shared_engine(path, &args.engine, Positions::Needed(one), sharing, true)?;
    // Whatever the mix of requests, no step waits for a compiler: it begins with the program of one token, and is moved over
    // to its own when that is there.
    let mut classes = &[Class::One, Class::Many, Class::Few, Class::Prompt][..];
    if args.batch_invariant {
        opened.engine.make_batch_invariant();
        classes = &[Class::Any];
    }
    let mut outputs = vec![Output::Logits];
    outputs.extend(args.embeddings.then_some(Output::Hidden));
    if opened.engine.device().steps_ahead() > 0 {
        outputs.extend([Output::Likeliest, Output::Drawn]);
    }
    let variants = classes.iter().flat_map(|&class| outputs.iter().map(move |&output| Variant { class, output }));
    let (first, others): (Vec<Variant>, Vec<Variant>) = variants.partition(|variant| variant.class == classes[0]);
    opened.begin(&args.begin, &first, &others, |line| terminal::line(&line))?;
    let facts = Facts {
        path: path.display().to_string(),
        names: names(args, path),
        tags: args.tags.clone(),
        parameters: open::parameters(&file),
        bytes: file.tensors().iter().map(|tensor| tensor.bytes).sum(),
        trained_context: made_for as u64,
        width: config.hidden as u64,
        cache: opened.engine.cache().to_string(),
        device: opened.engine.device().name(),
        memory: Some(opened.memory()),
        programs: opened.engine.readiness().clone(),
    };
    let options =
        Sharings { queue: args.max_queue, beside: args.prefill_beside as usize, reuse: !args.no_prefix_cache };
    let limits = opened.engine.limits();
    let (worker, _) = Worker::start(Scheduler::new(Box::new(opened.engine), options)).context("no engine thread")?;
    terminal::line(&format!(
        "ready: {} with {places} places of {} positions, {} in all",
        facts.names[0],
        limits.context,
        limits.pages * model::cache::PAGE as usize
    ));
    let defaults = Defaults {
        sampling,
        seed: args.sampling.seed,
        limit: usize::try_from(args.predict).ok(),
        thinking: match args.reasoning {
            Reasoning::On => Some(true),
            Reasoning::Off => Some(false),
            Reasoning::Auto => None,
        },
        raw_reasoning: args.reasoning_format == ReasoningFormat::None,
        parse_special: args.parse_special,
    };
    let mut model = Model::new(worker, tokenizer, template, facts, defaults);
    #[cfg(unix)]
    {
        let program = Program::this().context("the program that compiles grammars cannot be found")?;
        model.isolation = Isolation::Processes(program);
    }
    Ok(model)
}

/// The names of the model: those given, or that of its file.
fn names(args: &Arguments, path: &std::path::Path) -> Vec<String> {
    if !args.alias.is_empty() {
        let mut names = args.alias.clone();
        names.sort();
        return names;
    }
    vec![path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned())]
}

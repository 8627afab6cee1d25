//! The flags that several commands share.

use clap::{Args, ValueEnum};
use device::ToolchainConfig;
use devices::Choice;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A model in its place or behind `-m`; without one, the model that comes with the program.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct ModelOrDemo {
    #[command(flatten)]
    name: AnyName,
    #[command(flatten)]
    pub fetch: FetchFlags,
}

#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
struct AnyName {
    /// GGUF file, short name, user/repo[:QUANT] or address of a file; what is not here is downloaded [default:
    /// kernloom-demo, the small model that comes with the program]
    #[arg(value_name = "MODEL")]
    place: Option<PathBuf>,
    /// The same
    #[arg(short, long, aliases = ["hf-repo", "model-url"], value_name = "MODEL")]
    model: Option<PathBuf>,
}

impl ModelOrDemo {
    /// As it was given.
    pub fn name(&self) -> &Path {
        self.given().unwrap_or(Path::new(demo::NAME))
    }

    /// As it was given, if it was.
    pub fn given(&self) -> Option<&Path> {
        self.name.model.as_ref().or(self.name.place.as_ref()).map(PathBuf::as_path)
    }
}

/// A model in its place or behind `-m`.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct ModelFile {
    #[command(flatten)]
    name: OneName,
    #[command(flatten)]
    pub fetch: FetchFlags,
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct OneName {
    /// GGUF file, short name, user/repo[:QUANT] or address of a file; what is not here is downloaded
    #[arg(value_name = "MODEL")]
    place: Option<PathBuf>,
    /// The same
    #[arg(short, long, aliases = ["hf-repo", "model-url"], value_name = "MODEL")]
    model: Option<PathBuf>,
}

impl ModelFile {
    /// As it was given.
    pub fn name(&self) -> &Path {
        let name = self.name.model.as_ref().or(self.name.place.as_ref());
        name.map_or(Path::new(""), PathBuf::as_path)
    }
}

/// A model behind `-m`.
#[derive(Args, Clone, Debug)]
pub struct ModelFlag {
    /// GGUF file, short name, user/repo[:QUANT] or address of a file; what is not here is downloaded
    #[arg(short, long, aliases = ["hf-repo", "model-url"], value_name = "MODEL")]
    model: PathBuf,
    #[command(flatten)]
    pub fetch: FetchFlags,
}

impl ModelFlag {
    /// As it was given.
    pub fn name(&self) -> &Path {
        &self.model
    }
}

/// Whether models may be downloaded, and which file.
#[derive(Args, Clone, Debug, Default)]
pub struct FetchFlags {
    /// Leave the network alone: a model that is not here is an error
    #[arg(long)]
    pub offline: bool,
    /// File of the repository that MODEL names, where a quantisation does not tell it (-hff)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub hf_file: Option<String>,
}

/// How numbers are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Numerics {
    /// f32 activations and cache
    Exact,
    /// 8-bit activations for weights in block formats, f16 cache
    Int8,
}

/// How steps are sent to a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sending {
    /// As one graph, in which kernels begin before those that they wait for are over, where the card can
    Graph,
    /// As one graph, in which they do not
    PlainGraph,
    /// Kernel after kernel, each waited for: a failure names its kernel
    OneByOne,
}

/// How the values of the cache are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheType {
    /// 4 bytes a value
    F32,
    /// 2 bytes a value
    F16,
    /// 8 bits a value and a scale for 32: half of f16, and less exact
    #[value(name = "q8_0")]
    Q8_0,
}

/// A switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    #[default]
    On,
    Off,
}

/// What compiles kernels for cards, of commands that run no model there.
#[derive(Args, Clone, Debug)]
pub struct NvrtcFlag {
    /// NVRTC's library, which compiles kernels for NVIDIA cards [default: where the loader, CUDA_HOME or Python have it]
    #[arg(long, value_name = "PATH", env = "KERNLOOM_NVRTC", hide_env_values = true)]
    pub nvrtc: Option<PathBuf>,
}

/// What the kernels of a model depend on.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Engine")]
pub struct KernelFlags {
    /// How numbers are represented
    #[arg(long, value_enum, default_value = "int8")]
    pub numerics: Numerics,
    /// How the cache of keys and values is kept [default: f32 for exact, f16 for int8]
    #[arg(long, alias = "cache-type", value_enum, value_name = "TYPE")]
    pub cache_type_k: Option<CacheType>,
    /// The same; keys and values cannot differ
    #[arg(long, value_enum, value_name = "TYPE", hide = true)]
    pub cache_type_v: Option<CacheType>,
    /// Tokens of a prompt that are computed in one step at most [default: 1024; 4096 on an NVIDIA GPU, 2048 on others]
    #[arg(long, alias = "batch-size", alias = "chunk", value_name = "N", overrides_with = "ubatch_size",
          value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub ubatch_size: Option<u32>,
    /// Tokens that a step has to take, as a command needs it
    #[arg(skip)]
    pub least_tokens: u32,
    /// Passes of the compiler to leave out, see `kernloom passes`
    #[arg(long, value_name = "PASSES", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Whether a kernel holds more than one operation; off is --without fuse
    #[arg(long, value_enum, default_value = "on", hide_short_help = true)]
    pub fuse: OnOff,
    /// C compiler [default: cc, gcc or clang, whichever is found first]
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub cc: Option<PathBuf>,
    /// Seconds that one call of the C compiler may take; what takes longer is ended
    #[arg(long, value_name = "SECONDS", hide_short_help = true, default_value = "120",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub cc_timeout: u32,
    /// Folders that nobody else reaches, whatever owners and modes say: kernels are loaded from them, as in a container
    #[arg(long, value_name = "DIRS", value_delimiter = ',', hide_short_help = true)]
    pub trusted_folders: Vec<PathBuf>,
}

impl KernelFlags {
    /// Tokens of a step at most, of programs that are compiled with these options.
    pub fn step_tokens(&self, options: &compiler::Options) -> i64 {
        self.ubatch_size.map_or(options.step_tokens(), i64::from).max(self.least_tokens.into())
    }

    /// The C compiler that is asked for.
    pub fn toolchain(&self) -> ToolchainConfig {
        let time_limit = Duration::from_secs(self.cc_timeout.into());
        ToolchainConfig { compiler: self.cc.clone(), time_limit, ..ToolchainConfig::from_environment() }
    }
}

/// How a model is run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Engine")]
pub struct EngineFlags {
    /// Worker threads [default: physical cores that this process may use, of the fast kind where there are two]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Worker threads of steps with more than eight tokens, as those of a prompt (-tb) [default: as many as --threads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads_batch: Option<u16>,
    #[command(flatten)]
    pub kernels: KernelFlags,
    /// What runs the model: auto (a card or an Apple GPU that it fits on, by cuda or wgpu, else the processor), cpu, cuda or cuda:N, wgpu or wgpu:N, interpreter (very slow)
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub device: Choice,
    /// NVRTC's library, which compiles kernels for NVIDIA cards [default: where the loader, CUDA_HOME or Python have it]
    #[arg(long, value_name = "PATH", env = "KERNLOOM_NVRTC", hide_env_values = true, hide_short_help = true)]
    pub nvrtc: Option<PathBuf>,
    /// How steps are sent to a card
    #[arg(long, value_enum, default_value = "graph", hide_short_help = true)]
    pub sending: Sending,
    /// Steps that are sent to a GPU before the token of one is known
    #[arg(long, value_name = "N", default_value_t = device::AHEAD as u8, value_parser = clap::value_parser!(u8).range(0..=device::MOST_AHEAD as i64),
          hide_short_help = true)]
    pub ahead: u8,
    /// Keep the whole context in layers with a window too: a text can then go on from anywhere, and not only from its end or
    /// that of its prompt
    #[arg(long, hide_short_help = true)]
    pub swa_full: bool,
    /// Print what the compiler did: 1 schedule, 2 kernels, 3 decisions, 4 source, 5 IR, 6 assembly; each with those
    /// before it
    #[arg(long, value_name = "LEVEL", default_value = "0", hide_default_value = true,
          value_parser = clap::value_parser!(u8).range(0..=6))]
    pub debug: u8,
    /// Folder of compiled kernels; those of `kernloom compile` need no compiler [default: kernloom in the user's cache
    /// folder]
    #[arg(long, value_name = "DIR")]
    pub kernel_cache: Option<PathBuf>,
    /// Packs of kernels that `kernloom compile --pack` wrote, beside those that came with the program
    #[arg(long, value_name = "FILES", value_delimiter = ',', hide_short_help = true)]
    pub kernel_pack: Vec<PathBuf>,
    /// Instruction level of the kernels [default: the best of this machine]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub isa: Option<String>,
}

/// When the first answer may begin.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Engine")]
pub struct BeginFlag {
    /// Compile all kernels before the first step; without it, the first run of a model begins with the kernels of one token
    /// while those of prompts are compiled, and rounds its prompt as these do
    #[arg(long)]
    pub wait_for_kernels: bool,
}

/// How much of the bandwidth is used, and who may measure.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Measuring")]
pub struct MeasureFlags {
    /// Read bandwidth of the machine in GB/s [default: measured first]
    #[arg(long, value_name = "GB/S", value_parser = positive)]
    pub bandwidth: Option<f64>,
    /// File that measurements of all users lock
    #[arg(long, value_name = "FILE", hide = true)]
    pub lock: Option<PathBuf>,
}

/// A number of positions; 0 takes those of the model.
#[derive(Args, Clone, Debug)]
pub struct ContextFlag {
    /// Positions of the cache; 0 takes what the model was made for [default: the same, as far as half of the memory beside
    /// the weights holds them]
    #[arg(short, long, alias = "context", alias = "max-context", value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=i32::MAX as i64))]
    pub ctx_size: Option<u32>,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("it must be positive".into()) }
}

//! From a path and settings to an engine.

use crate::engine::Words;
use crate::{Engine, Error};
use compiler::Numerics;
use cuda::CudaConfig;
use device::CpuConfig;
use devices::Choice;
use gguf::Gguf;
use model::cache::CacheKind;
use model::config::{Config, Pooling};
use model::engine::{EngineOptions, Sharing};
use model::memory_plan::{ModelMemory, Room, default_context, weights};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use text::chat::ChatTemplate;
use text::rank::Pairs;
use text::sampler::{Sampler, SamplerConfig};

/// Settings of an [`Engine`] to be. What is not set is chosen as the program `kernloom` does.
#[derive(Clone, Debug)]
#[must_use = "`build` makes the engine"]
pub struct Builder {
    path: PathBuf,
    device: Choice,
    nvrtc: Option<PathBuf>,
    context: Option<usize>,
    threads: Option<usize>,
    numerics: Numerics,
    cache: Option<CacheKind>,
    rows: Option<usize>,
    compiler: Option<PathBuf>,
    kernel_cache: Option<PathBuf>,
    kernel_packs: Vec<PathBuf>,
    waits: bool,
    template: Option<String>,
    sampling: SamplerConfig,
    pooling: Option<Pooling>,
}

impl Builder {
    pub(crate) fn new(path: PathBuf) -> Builder {
        Builder {
            path,
            device: Choice::Auto,
            nvrtc: None,
            context: None,
            threads: None,
            numerics: Numerics::Int8,
            cache: None,
            rows: None,
            compiler: None,
            kernel_cache: None,
            kernel_packs: vec![],
            waits: false,
            template: None,
            sampling: SamplerConfig { seed: RandomState::new().hash_one(0), ..SamplerConfig::usual() },
            pooling: None,
        }
    }

    /// What runs the model; by default an NVIDIA card if there is one that it fits on, else the processor.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernloom::Error> {
    /// use kernloom::{Device, Engine};
    ///
    /// let mut engine = Engine::builder("model.gguf").device(Device::Cuda(0)).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(mut self, device: Choice) -> Builder {
        self.device = device;
        self
    }

    /// NVRTC's library, which compiles kernels for NVIDIA cards; by default it is looked for where the loader, `CUDA_HOME`
    /// and Python's packages have it.
    pub fn nvrtc(mut self, library: impl Into<PathBuf>) -> Builder {
        self.nvrtc = Some(library.into());
        self
    }

    /// Positions of the cache: prompt and answers together. By default those that the model was made for, or as many of them
    /// as half of the memory beside its weights holds.
    pub fn context(mut self, positions: usize) -> Builder {
        self.context = Some(positions.max(1));
        self
    }

    /// Threads that compute; by default one a physical core.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.threads = Some(threads.max(1));
        self
    }

    /// [`Numerics::Int8`] (the default) is fast, [`Numerics::Exact`] is for comparisons.
    pub fn numerics(mut self, numerics: Numerics) -> Builder {
        self.numerics = numerics;
        self
    }

    /// How the cache of keys and values is kept; by default [`CacheKind::F16`], and [`CacheKind::F32`] under
    /// [`Numerics::Exact`]. [`CacheKind::Q8_0`] takes half of the memory and is less exact.
    pub fn cache(mut self, kind: CacheKind) -> Builder {
        self.cache = Some(kind);
        self
    }

    /// Tokens whose logits one step of [`Engine::steps`] gives at most; by default 64, as texts need only those of the last.
    /// Each takes 4 bytes for each word of the vocabulary.
    pub fn rows(mut self, rows: usize) -> Builder {
        self.rows = Some(rows.max(1));
        self
    }

    /// The C compiler, by path or name; by default the first that is found.
    pub fn compiler(mut self, compiler: impl Into<PathBuf>) -> Builder {
        self.compiler = Some(compiler.into());
        self
    }

    /// The folder that keeps compiled kernels; by default `kernloom` in the user's cache folder.
    pub fn kernel_cache(mut self, folder: impl Into<PathBuf>) -> Builder {
        self.kernel_cache = Some(folder.into());
        self
    }

    /// A pack of kernels, as `kernloom compile --pack` writes it: what it has needs no C compiler. May be given several times.
    pub fn kernel_pack(mut self, file: impl Into<PathBuf>) -> Builder {
        self.kernel_packs.push(file.into());
        self
    }

    /// Whether the first answer waits until all kernels are compiled. By default it does not: the first time that a model is
    /// used here, its prompt is read by the kernels of one token while those of prompts are compiled, which rounds otherwise.
    /// With it, a first run gives the same bits as those after it.
    pub fn wait_for_kernels(mut self, waits: bool) -> Builder {
        self.waits = waits;
        self
    }

    /// A chat template (Jinja) in place of that of the file.
    pub fn template(mut self, source: impl Into<String>) -> Builder {
        self.template = Some(source.into());
        self
    }

    /// How tokens are chosen. By default temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, and another seed each time.
    pub fn sampling(mut self, sampling: SamplerConfig) -> Builder {
        self.sampling = sampling;
        self
    }

    /// How [`Engine::embed`] makes one vector of the hidden states of a text; by default as the file says, or their mean.
    /// [`Pooling::Rank`] and [`Pooling::Each`] make none; scores come from [`Engine::rank`] whatever is set here.
    pub fn pooling(mut self, pooling: Pooling) -> Builder {
        self.pooling = Some(pooling);
        self
    }

    /// Opens the model. Kernels are compiled when text is first generated.
    ///
    /// # Errors
    /// No such file, a file that is none or that holds another kind of model, no C compiler, settings out of range, or
    /// a context that does not fit into memory.
    pub fn build(self) -> Result<Engine, Error> {
        if let Some(pooling @ (Pooling::Rank | Pooling::Each)) = self.pooling {
            return Err(Error::NoVector(pooling));
        }
        let file = Arc::new(open(&self.path)?);
        let in_file =
            |source: Box<dyn std::error::Error + Send + Sync>| Error::Model { path: self.path.clone(), source };
        let config = Config::read(&file).map_err(|e| in_file(e.into()))?;
        let mut tokenizer = text::vocabulary::tokenizer(&file).map_err(|e| in_file(e.into()))?;
        let template = match &self.template {
            Some(source) => {
                let text = |id: Option<u32>| id.map(|id| tokenizer.decode(&[id], true)).unwrap_or_default();
                let [bos, eos] =
                    [tokenizer.bos(), tokenizer.eos()].map(|id| String::from_utf8_lossy(&text(id)).into_owned());
                ChatTemplate::parse(source, &bos, &eos)?
            }
            None => ChatTemplate::of_model(&tokenizer).map_err(|e| in_file(e.into()))?,
        };
        tokenizer.use_template(template.source());
        let pairs = Pairs::of(&file, &tokenizer).map_err(|e| in_file(e.into()))?;
        Sampler::new(self.sampling.clone(), usize::try_from(config.vocab).unwrap_or(0))?;
        let cache = self.cache.unwrap_or_else(|| CacheKind::of(self.numerics));
        let context =
            |room| self.context.unwrap_or_else(|| default_context(&config, cache, weights(&file), room, false));
        let least = ModelMemory::of_cache(&config, context(Room::default()), cache, &file);
        let device = devices::open(&self.devices(), least.needs(), drop)?.device();
        let context = context(Room::of(&*device));
        ModelMemory::of_cache(&config, context, cache, &file).on(&*device).check()?;
        let compiler = device.options(self.numerics);
        let chunk = compiler.step_tokens().min(context as i64);
        let options = EngineOptions { compiler, context: context as i64, chunk, cache };
        let mut sharing = Sharing::of_texts(1, context as i64);
        if let Some(rows) = self.rows {
            sharing.rows = Some(rows as i64);
        }
        let mut engine =
            model::engine::Engine::shared(file, device, options, sharing).map_err(|e| in_file(e.into()))?;
        if !self.waits {
            engine.answer_early(|_, _| ());
        }
        let words = Words { tokenizer, template, pairs };
        Ok(Engine::of_parts(engine, words, self.sampling, self.pooling))
    }

    /// How devices are used.
    fn devices(&self) -> devices::Config {
        let (mut cpu, mut cuda) = (CpuConfig::from_environment(), CudaConfig::from_environment());
        if let Some(threads) = self.threads {
            cpu.threads = threads;
        }
        if let Some(folder) = &self.kernel_cache {
            cpu.cache.folder = Some(folder.clone());
            cuda.cache.folder = Some(folder.clone());
        }
        for cache in [&mut cpu.cache, &mut cuda.cache] {
            cache.packs.splice(0..0, self.kernel_packs.iter().cloned());
        }
        cpu.toolchain.compiler.clone_from(&self.compiler);
        cuda.compiling.nvrtc.clone_from(&self.nvrtc);
        devices::Config { choice: self.device, cpu, cuda }
    }
}

/// A model file, or the model that comes with the program under its name.
fn open(path: &Path) -> Result<Gguf, Error> {
    #[cfg(feature = "demo")]
    if path == Path::new(demo::NAME) {
        return Ok(Gguf::parse(demo::GGUF.to_vec())?);
    }
    if !path.exists() {
        return Err(Error::NoFile(path.to_owned()));
    }
    Ok(Gguf::open(path)?)
}

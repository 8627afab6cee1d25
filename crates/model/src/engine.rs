//! Runs sequences: programs for each class of step, and the cache they share.

use crate::config::{Config, ConfigError};
use crate::step::{Class, PAGE, Sizes, StepError, build};
use compiler::compile::{Compiled, Log, Options};
use device::{CompileReport, Device, Executable, Memory, MemoryPlan, Profile};
use gguf::Gguf;
use ir::DType;
use std::collections::HashMap;
use std::sync::Arc;

/// What can go wrong while a model runs.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The file, its metadata or its tensors.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The interpreter.
    #[error(transparent)]
    Interpreter(#[from] crate::interpreter::InterpretError),
    /// A token that the vocabulary lacks.
    #[error("token {0} is not in the vocabulary of {1}")]
    Token(u32, i64),
    /// More positions than the cache holds.
    #[error("position {0} is past the context of {1} (raise it with -c)")]
    Context(usize, i64),
}

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Compiler settings.
    pub compiler: Options,
    /// Positions of the cache.
    pub context: i64,
    /// Tokens of a prefill step at most.
    pub chunk: i64,
    /// Element type of the cache.
    pub cache: DType,
}

/// A loaded model.
pub struct Engine {
    file: Arc<Gguf>,
    config: Config,
    device: Arc<dyn Device>,
    memory: Memory,
    options: EngineOptions,
    sizes: Sizes,
    /// Programs that were compiled and not loaded yet.
    compiled: HashMap<Class, Compiled>,
    programs: HashMap<Class, Loaded>,
}

struct Loaded {
    exe: Box<dyn Executable>,
    log: Log,
    vars: Vec<String>,
    values: Vec<i64>,
}

impl Engine {
    /// Maps the weights and checks the model; programs are compiled when they
    /// are first needed.
    ///
    /// # Errors
    /// A model that is not supported, or no memory.
    pub fn new(file: Arc<Gguf>, device: Arc<dyn Device>, options: EngineOptions) -> Result<Engine, EngineError> {
        let config = Config::read(&file)?;
        let mut memory = Memory::new();
        memory.add_file(&file)?;
        let pages = (options.context + PAGE - 1) / PAGE;
        let sizes = Sizes {
            class: Class::One,
            most_tokens: options.chunk,
            segments: 1,
            pages,
            row_pages: pages,
            cache: options.cache,
        };
        Ok(Engine { file, config, device, memory, options, sizes, compiled: HashMap::new(), programs: HashMap::new() })
    }

    /// The model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The file.
    pub fn file(&self) -> &Arc<Gguf> {
        &self.file
    }

    /// Tokens of a step at most.
    pub fn chunk(&self) -> usize {
        self.options.chunk as usize
    }

    /// Positions of the cache.
    pub fn context(&self) -> usize {
        self.options.context as usize
    }

    /// What runs the programs.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Compiles the program of a class as far as its kernels' source. Takes no
    /// memory on the device; [`Engine::prepare`] then loads it.
    ///
    /// # Errors
    /// Of the compiler.
    pub fn compile(&mut self, class: Class) -> Result<&Compiled, EngineError> {
        let sizes = Sizes { class, ..self.sizes };
        let compiled = match self.compiled.remove(&class) {
            Some(compiled) => compiled,
            None => build(&self.file, &self.config, &sizes, &self.options.compiler)?,
        };
        Ok(self.compiled.entry(class).or_insert(compiled))
    }

    /// What the programs that were compiled or loaded take together on so many
    /// workers.
    pub fn memory_plan(&self, workers: usize) -> MemoryPlan {
        let compiled = self.compiled.values().map(|c| &c.program);
        let loaded = self.programs.values().map(|p| p.exe.program());
        MemoryPlan::of(&compiled.chain(loaded).collect::<Vec<_>>(), workers)
    }

    /// How the kernels of a class were compiled, if it was loaded.
    pub fn report(&self, class: Class) -> Option<&CompileReport> {
        self.programs.get(&class).map(|p| p.exe.report())
    }

    /// Compiles the program of a class, if it is not there yet.
    ///
    /// # Errors
    /// Of the compiler and of the device.
    pub fn prepare(&mut self, class: Class) -> Result<(), EngineError> {
        if self.programs.contains_key(&class) {
            return Ok(());
        }
        self.compile(class)?;
        let compiled = self.compiled.remove(&class).expect("compiled above");
        let vars: Vec<String> = compiled.program.vars.iter().map(|v| v.name.clone()).collect();
        let exe = self.device.load(Arc::new(compiled.program), &mut self.memory)?;
        if let Ok(table) = self.memory.input_mut::<i32>("page_table") {
            table.iter_mut().enumerate().for_each(|(i, p)| *p = i as i32);
        }
        let values = vec![0; vars.len()];
        self.programs.insert(class, Loaded { exe, log: compiled.log, vars, values });
        Ok(())
    }

    /// The program of a class, if it was compiled.
    pub fn program(&self, class: Class) -> Option<(&compiler::program::Program, &Log)> {
        self.programs.get(&class).map(|p| (p.exe.program(), &p.log))
    }

    /// Runs tokens of the sequence from position `start` on, and returns the
    /// logits of the tokens `rows`, row after row.
    ///
    /// # Errors
    /// A token or position out of range, or a failure of the device.
    pub fn step(&mut self, tokens: &[u32], start: usize, rows: std::ops::Range<usize>) -> Result<&[f32], EngineError> {
        self.run(tokens, start, rows.clone(), false)?;
        let n = rows.len() * self.config.vocab as usize;
        Ok(&self.memory.output::<f32>("logits")?[..n])
    }

    /// As [`Engine::step`], with times instead of logits.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn profile(&mut self, tokens: &[u32], start: usize) -> Result<Profile, EngineError> {
        Ok(self.run(tokens, start, tokens.len() - 1..tokens.len(), true)?.expect("a profile"))
    }

    fn run(
        &mut self,
        tokens: &[u32],
        start: usize,
        rows: std::ops::Range<usize>,
        profile: bool,
    ) -> Result<Option<Profile>, EngineError> {
        let vocab = self.config.vocab;
        if let Some(&bad) = tokens.iter().find(|&&t| t as i64 >= vocab) {
            return Err(EngineError::Token(bad, vocab));
        }
        let end = start + tokens.len();
        if end as i64 > self.options.context {
            return Err(EngineError::Context(end - 1, self.options.context));
        }
        let class = Class::of(tokens.len());
        self.prepare(class)?;
        let fill =
            |memory: &mut Memory, name: &str, value: &dyn Fn(usize) -> i32, n: usize| -> Result<(), EngineError> {
                if let Ok(all) = memory.input_mut::<i32>(name) {
                    all.iter_mut().take(n).enumerate().for_each(|(i, v)| *v = value(i));
                }
                Ok(())
            };
        let n = tokens.len();
        fill(&mut self.memory, "token", &|i| tokens[i] as i32, n)?;
        fill(&mut self.memory, "position", &|i| (start + i) as i32, n)?;
        fill(&mut self.memory, "segment", &|_| 0, n)?;
        fill(&mut self.memory, "rows", &|i| (rows.start + i) as i32, rows.len())?;
        let p = self.programs.get_mut(&class).expect("prepared above");
        for (name, v) in p.vars.iter().zip(&mut p.values) {
            *v = match name.as_str() {
                "tokens" => n as i64,
                "rows" => rows.len() as i64,
                "pages" => self.sizes.pages,
                "row_pages" => self.sizes.row_pages,
                other => unreachable!("variable {other}"),
            };
        }
        if profile {
            return Ok(Some(p.exe.run_profiled(&mut self.memory, &p.values)?));
        }
        p.exe.run(&mut self.memory, &p.values)?;
        Ok(None)
    }
}

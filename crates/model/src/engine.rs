//! Runs sequences: programs for each class of step, and the cache they share.

mod behind;
mod observe;
mod pages;
pub mod readiness;
mod single;
mod snapshot;
mod spill;
mod stand_in;

use crate::batch::{Batch, Batches, Limits, Room};
use crate::cache::{CACHE, CacheKind, PAGE};
use crate::config::Config;
use crate::error::EngineError;
use crate::pages::Move;
use crate::prefault::Prefault;
use crate::prefill_attention::Reach;
use crate::program_cache::{self, Kept};
use crate::sampling::CHOSEN;
use crate::sent::{Arriving, Sent};
use crate::snapshot::Snapshot;
use crate::step::{Class, Output, Part, ROWS, Sizes, Variant, WINDOW_PAGES, build};
use crate::unused_tensors;
use crate::weights::check_choices;
use crate::window_pages::{self, WindowPages};
use behind::Made;
use compiler::program::{Buffer, BufferKind, Program};
use compiler::{Compiled, Log, Options};
use device::{Clock, CompileReport, Device, Executable, Memory, MemoryPlan, Profile};
use gguf::Gguf;
use pages::CacheState;
use readiness::{Readiness, State};
use spill::Slabs;
use stand_in::StandIn;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use text::sampler::{Draw, SamplerConfig};

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Compiler settings.
    pub compiler: Options,
    /// Positions of one sequence.
    pub context: i64,
    /// Tokens of a prefill step at most.
    pub chunk: i64,
    /// How the values of the cache are represented.
    pub cache: CacheKind,
}

/// How many sequences share the cache, and what they want of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Sequences of a step.
    pub sequences: i64,
    /// Positions that the cache holds for all of them.
    pub positions: i64,
    /// Rows of logits of a step at most; `None` for those of all its tokens. A step has memory for so many, each as long as
    /// the vocabulary: of 512 tokens and 128,256 words they are 250 MiB. Hidden states are there for all tokens.
    pub rows: Option<i64>,
    /// Whether layers with a window have the whole cache, so that a text can go on from anywhere. Otherwise they keep what
    /// texts need to go on from their end, or from that of their prompt, where that is less.
    pub whole_windows: bool,
}

impl Sharing {
    /// One sequence, which has all of the cache and may ask for the logits of all its tokens.
    pub fn none(options: &EngineOptions) -> Sharing {
        Sharing { sequences: 1, positions: options.context, rows: None, whole_windows: false }
    }

    /// Sequences that are continued: a step gives the logits of the last token of each. The bound is [`ROWS`] however many
    /// there are, so that all have the same kernels; beyond that, there is none.
    pub fn of_texts(sequences: i64, positions: i64) -> Sharing {
        let rows = (sequences <= ROWS).then_some(ROWS);
        Sharing { sequences, positions, rows, whole_windows: false }
    }

    /// Pages of the cache.
    fn pages(&self, options: &EngineOptions) -> i64 {
        pages_of(self.positions.max(options.context))
    }

    /// Pages that layers with a window keep, if they do not keep all.
    pub(crate) fn window_pool(&self, config: &Config, options: &EngineOptions) -> Option<i64> {
        let tokens = options.chunk.max(self.sequences);
        let pool = window_pages::pool(config, self.sequences, tokens)?;
        let keeps_all = self.whole_windows || !options.compiler.allows("window");
        (!keeps_all && pool < self.pages(options)).then_some(pool)
    }

    /// The sizes that programs are compiled for.
    pub(crate) fn sizes(&self, variant: Variant, config: &Config, options: &EngineOptions) -> Sizes {
        let row_pages = pages_of(options.context);
        // A step has room for a token of each sequence.
        let several = options.compiler.prices.several.as_ref().filter(|_| variant.class == Class::Several);
        let most_tokens = options.chunk.max(self.sequences).min(several.map_or(i64::MAX, |several| several.most));
        let rows = match variant.output {
            Output::Logits => self.rows.unwrap_or(i64::MAX),
            Output::Hidden => i64::MAX,
            Output::Scores => self.sequences.max(ROWS),
            Output::Likeliest | Output::Drawn => self.sequences,
        };
        let pages = self.pages(options);
        Sizes {
            class: variant.class,
            output: variant.output,
            most_tokens,
            // Programs that differ in nothing have one name.
            most_rows: rows.clamp(1, variant.class.tokens(most_tokens).1),
            segments: self.sequences,
            pages,
            window_pages: self.window_pool(config, options).unwrap_or(pages),
            row_pages,
            cache: options.cache,
        }
    }

    /// What a step of such programs takes.
    pub(crate) fn limits(&self, config: &Config, options: &EngineOptions, reach: Reach) -> Limits {
        let sizes = self.sizes(Class::Many.into(), config, options);
        Limits {
            vocab: config.vocab as usize,
            tokens: sizes.most_tokens as usize,
            rows: sizes.most_rows.min(sizes.most_tokens) as usize,
            segments: sizes.segments as usize,
            context: options.context as usize,
            pages: sizes.pages as usize,
            whole: !config.causal,
            ranks: config.ranking.map(|ranking| ranking.row()),
            reach,
        }
    }
}

/// Pages that hold so many positions.
fn pages_of(positions: i64) -> i64 {
    (positions + PAGE - 1) / PAGE
}

/// A loaded model.
pub struct Engine {
    file: Arc<Gguf>,
    config: Config,
    device: Arc<dyn Device>,
    memory: Memory,
    options: EngineOptions,
    sharing: Sharing,
    reach: Reach,
    /// The input of [`Engine::step`], whose sequence has the first pages in their order.
    single: Batch,
    single_pages: Vec<u32>,
    /// Programs that are not loaded yet.
    ready: HashMap<Variant, Ready>,
    programs: HashMap<Variant, Loaded>,
    /// The states that hold positions, which are the cache.
    caches: Vec<CacheState>,
    /// The pages of layers with a window, if they have some of their own.
    windows: Option<WindowPages>,
    /// States of what layers remember.
    memories: Vec<String>,
    /// For pages of the cache beside the device.
    slabs: Slabs,
    /// The position that each place goes on from, in a model that remembers; `None` where a step was broken off.
    remembered: Vec<Option<usize>>,
    /// Whether every step is run by the program for many tokens.
    batch_invariant: bool,
    readiness: Arc<Readiness>,
    /// For steps whose programs are not there, if they need not wait.
    stand_in: Option<StandIn>,
    /// Brings in the weights.
    _warming: Option<Prefault>,
}

/// A program before it is on the device.
enum Ready {
    /// With all that reports need.
    Compiled(Box<Compiled>),
    /// By an earlier process.
    Kept(Box<Kept>),
    /// Beside steps, with its kernels.
    Made(Made),
}

impl Ready {
    fn program(&self) -> &Program {
        match self {
            Ready::Compiled(compiled) => &compiled.program,
            Ready::Kept(kept) => &kept.program,
            Ready::Made(made) => &made.program,
        }
    }
}

/// A program on the device.
pub(crate) struct Loaded {
    exe: Box<dyn Executable>,
    log: Log,
    vars: Vec<String>,
    values: Vec<i64>,
}

impl Engine {
    /// Maps the weights and checks the model; programs are compiled when they
    /// are first needed. The cache is for one sequence.
    ///
    /// # Errors
    /// A model that is not supported, or no memory.
    pub fn new(file: Arc<Gguf>, device: Arc<dyn Device>, options: EngineOptions) -> Result<Engine, EngineError> {
        let sharing = Sharing::none(&options);
        Engine::shared(file, device, options, sharing)
    }

    /// As [`Engine::new`], for several sequences that share the cache.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn shared(
        file: Arc<Gguf>,
        device: Arc<dyn Device>,
        mut options: EngineOptions,
        sharing: Sharing,
    ) -> Result<Engine, EngineError> {
        let config = Config::read(&file)?;
        if !config.causal {
            options.chunk = options.chunk.max(options.context);
        }
        check_choices(&file, &config)?;
        let any = Variant { class: Class::One, output: Output::usual(&config) };
        unused_tensors::check(&file, &config, &sharing.sizes(any, &config, &options), &options.compiler)?;
        let mut memory = device.memory();
        memory.add_file(&file)?;
        let warming = Prefault::start(&file);
        let layer = file.bytes() / u64::from(config.layers.max(1) as u32);
        let reach = Reach::of(&config, &options.compiler).beside_weights(layer, &options.compiler.prices);
        let limits = sharing.limits(&config, &options, reach);
        let windows = config.window.as_ref().zip(sharing.window_pool(&config, &options));
        Ok(Engine {
            windows: windows.map(|(of, pool)| WindowPages::new(of, pool as usize, limits.pages, limits.segments)),
            single: Batch::new(limits),
            single_pages: (0..limits.row_pages() as u32).collect(),
            file,
            config,
            device,
            memory,
            options,
            sharing,
            reach,
            ready: HashMap::new(),
            programs: HashMap::new(),
            caches: vec![],
            slabs: Slabs::default(),
            memories: vec![],
            remembered: vec![Some(0); limits.segments],
            batch_invariant: false,
            readiness: Arc::default(),
            stand_in: None,
            _warming: warming,
        })
    }

    /// Gives each token the same bits whatever is in the step beside it. Programs for few tokens and for many sum in
    /// another order; what that costs is that the one for many then runs every step.
    pub fn make_batch_invariant(&mut self) {
        self.batch_invariant = true;
        self.stand_in = None;
        self.reach = Reach::NOTHING;
        self.options.compiler = self.options.compiler.batch_invariant();
    }

    /// The program that runs steps of so many tokens.
    fn variant(&self, batch: &Batch) -> Variant {
        let variant = batch.variant();
        let class = if self.batch_invariant { Class::Any } else { variant.class };
        Variant { class, ..variant }
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

    /// How numbers are represented.
    pub fn numerics(&self) -> compiler::Numerics {
        self.options.compiler.numerics
    }

    /// Whether a sequence can go on from any of its positions; one of a model that remembers can from the last, or from the
    /// start.
    pub fn rewinds(&self) -> bool {
        self.config.recurrence.is_none()
    }

    /// Positions of one sequence.
    pub fn context(&self) -> usize {
        self.options.context as usize
    }

    /// How the values of the cache are represented.
    pub fn cache(&self) -> CacheKind {
        self.options.cache
    }

    /// What a step can take.
    pub fn limits(&self) -> Limits {
        self.sharing.limits(&self.config, &self.options, self.reach)
    }

    /// The class of a step of so many tokens of one sequence from a position on.
    pub fn class_of(&self, tokens: usize, start: usize) -> Class {
        self.class_of_sequences(1, start..start + tokens)
    }

    /// The class of a step of so many sequences, of which each has tokens at these positions.
    pub fn class_of_sequences(&self, count: usize, positions: Range<usize>) -> Class {
        match self.batch_invariant {
            true => Class::Any,
            false => self.limits().class((0..count).map(|_| positions.clone())),
        }
    }

    /// Tokens of prompts that a step had better have at most beside sequences that decode.
    pub fn prompt_tokens_beside(&self) -> usize {
        self.options.compiler.prices.usual.beside as usize
    }

    /// The classes of all steps, those of one token first.
    pub fn all_classes(&self) -> Vec<Class> {
        if self.batch_invariant { vec![Class::Any] } else { Class::choices(&self.limits().reach) }
    }

    /// The classes of the steps that take tokens of one sequence between two positions.
    pub fn classes(&self, positions: Range<usize>) -> Vec<Class> {
        let (end, chunk) = (positions.end, self.chunk());
        let mut classes: Vec<Class> =
            positions.step_by(chunk).map(|at| self.class_of(chunk.min(end - at), at)).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// What runs the programs.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Compiles a program, by its class if it is for logits, as far as its kernels' source. Takes no
    /// memory on the device; [`Engine::prepare`] then loads it.
    ///
    /// # Errors
    /// Of the compiler.
    pub fn compile(&mut self, variant: impl Into<Variant>) -> Result<&Compiled, EngineError> {
        let variant = variant.into();
        if !matches!(self.ready.get(&variant), Some(Ready::Compiled(_))) {
            let compiled = Box::new(self.build(variant)?);
            self.ready.insert(variant, Ready::Compiled(compiled));
        }
        match &self.ready[&variant] {
            Ready::Compiled(compiled) => Ok(compiled),
            Ready::Kept(_) | Ready::Made(_) => unreachable!("replaced above"),
        }
    }

    /// Compiles a program, and keeps nothing of it.
    pub(crate) fn build(&self, variant: Variant) -> Result<Compiled, EngineError> {
        let sizes = self.sharing.sizes(variant, &self.config, &self.options);
        compiled(&self.file, &self.config, &sizes, &self.options.compiler)
    }

    /// All that a program follows from, but for the compiler.
    fn follows_from(&self, variant: Variant) -> String {
        let sizes = self.sharing.sizes(variant, &self.config, &self.options);
        program_cache::follows_from(&self.file, &self.config, &sizes, &self.options.compiler)
    }

    /// Several programs at the same time: those that the device has kept, and others compiled.
    ///
    /// # Errors
    /// Of the compiler, for the first program that has one.
    pub fn make(&mut self, variants: &[Variant]) -> Result<(), EngineError> {
        let there = |v: &Variant| self.ready.contains_key(v) || self.programs.contains_key(v);
        let missing: Vec<Variant> = variants.iter().copied().filter(|v| !there(v)).collect();
        let inputs = (&*self.file, &self.config, &self.options.compiler, &*self.device);
        let one = |(sizes, follows_from): (Sizes, String)| {
            let (file, config, options, device) = inputs;
            match program_cache::find(device, &follows_from) {
                Some(kept) => Ok(Ready::Kept(Box::new(kept))),
                None => compiled(file, config, &sizes, options).map(|compiled| Ready::Compiled(Box::new(compiled))),
            }
        };
        let of =
            |&variant: &Variant| (self.sharing.sizes(variant, &self.config, &self.options), self.follows_from(variant));
        let made: Vec<_> = std::thread::scope(|scope| {
            let start = |variant| {
                let what = of(variant);
                scope.spawn(move || one(what))
            };
            let threads: Vec<_> = missing.iter().map(start).collect();
            let join = |t: std::thread::ScopedJoinHandle<'_, _>| t.join().unwrap_or_else(|e| resume_unwind(e));
            threads.into_iter().map(join).collect()
        });
        for (variant, ready) in missing.into_iter().zip(made) {
            self.ready.insert(variant, ready?);
        }
        Ok(())
    }

    /// What the device has for this engine: what is free, and what the engine has taken already.
    pub fn available_memory(&self) -> Option<u64> {
        let usage = self.memory.usage();
        let weights = if self.device.keeps_weights() { usage.weights } else { 0 };
        Some(self.device.available_memory()? + (usage.allocated() + weights) as u64)
    }

    /// What the programs that were compiled or loaded take together on so many workers in steps of few tokens, or of many.
    pub fn memory_plan(&self, workers: impl Fn(bool) -> usize) -> MemoryPlan {
        let ready = self.ready.values().map(Ready::program);
        let loaded = self.programs.values().map(|p| p.exe.program());
        MemoryPlan::of(&ready.chain(loaded).collect::<Vec<_>>(), workers)
    }

    /// How the kernels of a program were compiled, if it was loaded.
    pub fn report(&self, variant: impl Into<Variant>) -> Option<&CompileReport> {
        self.programs.get(&variant.into()).map(|p| p.exe.report())
    }

    /// Makes a program and loads it, if it is not there yet.
    ///
    /// # Errors
    /// Of the compiler and of the device.
    pub fn prepare(&mut self, variant: impl Into<Variant>) -> Result<(), EngineError> {
        let variant = variant.into();
        if self.programs.contains_key(&variant) {
            return Ok(());
        }
        self.make(&[variant])?;
        let (program, log, fresh) = match self.ready.remove(&variant).expect("made above") {
            Ready::Compiled(compiled) => (Arc::new(compiled.program), compiled.log, true),
            Ready::Kept(kept) => (Arc::new(kept.program), kept.log, false),
            Ready::Made(made) => (made.program, made.log, false),
        };
        self.know_states(&program);
        let loaded = self.load(program, log)?;
        if fresh {
            program_cache::keep(&*self.device, &self.follows_from(variant), loaded.exe.program(), &loaded.log);
        }
        self.programs.insert(variant, loaded);
        self.readiness.note(variant, Some(State::Ready));
        Ok(())
    }

    /// What programs there are, for other threads too.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Brings a program onto the device, beside those that run the steps.
    pub(crate) fn load(&mut self, program: Arc<Program>, log: Log) -> Result<Loaded, EngineError> {
        let vars: Vec<String> = program.vars.iter().map(|v| v.name.clone()).collect();
        let exe = self.device.load(program, &mut self.memory)?;
        let values = vec![0; vars.len()];
        Ok(Loaded { exe, log, vars, values })
    }

    /// As [`Engine::profile`], with the processors' counts and by another program of the same step; its logits are then
    /// those of the last token.
    pub(crate) fn profile_by(
        &mut self,
        other: &mut Loaded,
        tokens: &[u32],
        start: usize,
    ) -> Result<(Profile, &[f32]), EngineError> {
        let variant = Variant::from(self.class_of(tokens.len(), start));
        self.prepare(variant)?;
        let mut swap = |engine: &mut Engine| {
            if let Some(own) = engine.programs.get_mut(&variant) {
                std::mem::swap(own, other);
            }
        };
        swap(self);
        let profile = self.profile_with(tokens, start, None, Clock::Processors);
        swap(self);
        Ok((profile?, self.output(Output::Logits, 1)?))
    }

    /// A program, by its class if it is for logits, if it was compiled.
    pub fn program(&self, variant: impl Into<Variant>) -> Option<(&Program, &Log)> {
        self.programs.get(&variant.into()).map(|p| (p.exe.program(), &p.log))
    }

    /// How the device itself chooses the first token of a text, where it works beside the host and nothing needs all logits.
    pub fn draw(&self, sampling: &SamplerConfig) -> Option<Draw> {
        sampling.draw(0).filter(|_| self.device.steps_ahead() > 0)
    }

    /// The program of the step of one token at a position whose next is chosen so: by the device itself, where it can.
    pub fn decoding(&self, sampling: &SamplerConfig, at: usize) -> Variant {
        Variant { class: self.class_of(1, at), output: self.draw(sampling).map_or(Output::Logits, Output::of) }
    }

    /// Runs tokens of the only sequence from position `start` on, and returns the
    /// logits of the tokens `rows`, row after row.
    ///
    /// # Errors
    /// A token or position out of range, more rows than there is room for, or a failure of the device.
    pub fn step(&mut self, tokens: &[u32], start: usize, rows: Range<usize>) -> Result<&[f32], EngineError> {
        self.step_of(Output::Logits, tokens, start, rows)
    }

    /// As [`Engine::step`], with times instead of logits: of the program that draws the token after the last so, or of
    /// that which gives its logits. Bytes of a launch are those of the rows of the cache in use too, each counted once.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn profile(&mut self, tokens: &[u32], start: usize, draw: Option<Draw>) -> Result<Profile, EngineError> {
        self.profile_with(tokens, start, draw, Clock::Wall)
    }

    /// As [`Engine::profile`] for a batch.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn profile_batch(&mut self, batch: &Batch) -> Result<Profile, EngineError> {
        self.profile_by_clock(batch, Clock::Wall)
    }

    fn profile_by_clock(&mut self, batch: &Batch, clock: Clock) -> Result<Profile, EngineError> {
        let mut profile = self.run_batch(batch, Some(clock))?.expect("a profile");
        let rows = |(layer, _): (i64, Part)| -> usize {
            batch.places().map(|(_, positions)| self.config.seen(layer, positions.len(), positions.end)).sum()
        };
        for launch in &mut profile.launches {
            launch.bytes += launch.row_bytes * Part::of(&launch.scope).map_or(0, rows) as i64;
        }
        Ok(profile)
    }

    /// As [`Engine::profile`], with times by this clock.
    pub(crate) fn profile_with(
        &mut self,
        tokens: &[u32],
        start: usize,
        draw: Option<Draw>,
        clock: Clock,
    ) -> Result<Profile, EngineError> {
        self.with_single(|engine, batch| {
            batch.add(tokens, start, &engine.single_pages)?;
            match draw {
                Some(draw) => batch.draw(draw),
                None => batch.want_last(),
            }
            engine.profile_by_clock(batch, clock)
        })
    }

    /// Runs a batch that was made for [`Engine::limits`], and returns its output
    /// for its rows, row after row.
    ///
    /// # Errors
    /// An empty batch, one that wants more rows than there is room for, or a failure of the device.
    pub fn run(&mut self, batch: &Batch) -> Result<&[f32], EngineError> {
        self.run_batch(batch, None)?;
        self.rows(batch.output(), batch.rows())
    }

    /// As [`Engine::run`] for a batch whose output is tokens, and does not wait for them if the device works beside the host.
    /// The next step may be sent before; it can have these tokens ([`Batch::add_chosen`]).
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn send(&mut self, batch: &Batch) -> Result<Sent, EngineError> {
        self.run_batch(batch, None)?;
        Ok(Sent::new(self.memory.request(CHOSEN, batch.rows())?))
    }

    pub(crate) fn output(&mut self, output: Output, rows: usize) -> Result<&[f32], EngineError> {
        Ok(self.memory.output_start::<f32>(output.name(), rows * output.width(&self.config))?)
    }

    fn run_batch(&mut self, batch: &Batch, profile: Option<Clock>) -> Result<Option<Profile>, EngineError> {
        if batch.rows() == 0 {
            return Err(EngineError::Batch("a batch of which no rows are wanted".into()));
        }
        let limits = self.limits();
        let (wanted, most) = (batch.rows(), limits.rows_of(batch.output()));
        if wanted > most {
            return Err(EngineError::Rows { wanted, most });
        }
        let variant = self.variant(batch);
        self.begin_step();
        self.check_remembered(batch, profile.is_some())?;
        self.see_windows(batch, profile.is_some())?;
        let profile = if profile.is_none() && !self.may_run(variant)? {
            self.run_by_stand_in(batch)?;
            None
        } else {
            self.prepare(variant)?;
            self.clear_begun(batch)?;
            self.execute(variant, batch, profile)?
        };
        batch.places().for_each(|(place, positions)| self.remembered[place] = Some(positions.end));
        Ok(profile)
    }

    /// Checks that sequences of a model that remembers go on from where they are, or begin. From now on, until their step is
    /// over, it is not known where they are. What is measured may go on from anywhere.
    fn check_remembered(&mut self, batch: &Batch, measured: bool) -> Result<(), EngineError> {
        for (place, positions) in batch.places() {
            let at = self.remembered[place].take();
            if self.config.recurrence.is_some() && !measured && positions.start > 0 && at != Some(positions.start) {
                return Err(EngineError::Remembered { position: positions.start, at });
            }
        }
        Ok(())
    }

    /// Runs a batch by a program that is there.
    fn execute(
        &mut self,
        variant: Variant,
        batch: &Batch,
        profile: Option<Clock>,
    ) -> Result<Option<Profile>, EngineError> {
        for name in Batch::inputs(variant) {
            // What no program needs is not there.
            if let Some(input) = batch.input(name).filter(|_| self.memory.has_input(name)) {
                self.memory.input_mut::<i32>(name)?[..input.len()].copy_from_slice(input);
            }
        }
        self.find_windows(batch)?;
        let pool = self.windows.as_ref().map(|windows| windows.len() as i64);
        let p = self.programs.get_mut(&variant).expect("prepared before");
        for (name, value) in p.vars.iter().zip(&mut p.values) {
            let pool = pool.filter(|_| name == WINDOW_PAGES);
            *value = pool.or_else(|| batch.variable(name)).unwrap_or_else(|| unreachable!("variable {name}"));
        }
        if let Some(clock) = profile {
            return Ok(Some(p.exe.run_profiled(&mut self.memory, &p.values, clock)?));
        }
        p.exe.run(&mut self.memory, &p.values)?;
        Ok(None)
    }
}

/// Compiles a program as far as its kernels' source.
fn compiled(file: &Gguf, config: &Config, sizes: &Sizes, options: &Options) -> Result<Compiled, EngineError> {
    Ok(build(file, config, sizes, options)?)
}

/// Names of the states that hold positions.
pub(crate) fn states(program: &Program) -> Vec<String> {
    states_of(program, CACHE)
}

/// Names of the states that begin so.
fn states_of(program: &Program, prefix: &str) -> Vec<String> {
    let state = |buffer: &Buffer| match &buffer.kind {
        BufferKind::State(name) if name.starts_with(prefix) => Some(name.clone()),
        _ => None,
    };
    program.buffers.iter().filter_map(state).collect()
}

impl Batches for Engine {
    fn limits(&self) -> Limits {
        Engine::limits(self)
    }

    fn prepare(&mut self, tokens: usize) -> Result<(), EngineError> {
        self.expect(self.class_of(tokens, 0))
    }

    fn run(&mut self, batch: &Batch) -> Result<&[f32], EngineError> {
        Engine::run(self, batch)
    }

    fn rewinds(&self) -> bool {
        Engine::rewinds(self)
    }

    fn goes_on(&self, pages: &[u32], at: usize) -> usize {
        self.windows.as_ref().map_or(at, |windows| windows.goes_on(pages, at))
    }

    fn settle(&mut self, place: usize, pages: &[u32], at: usize) {
        self.windows.iter_mut().for_each(|windows| windows.keep(place, pages, at));
    }

    fn remember(&mut self, place: usize) -> Result<Option<Snapshot>, EngineError> {
        Engine::remember(self, place)
    }

    fn recall(&mut self, place: usize, snapshot: &Snapshot) -> Result<(), EngineError> {
        Engine::recall(self, place, snapshot)
    }

    fn room_beside(&mut self, most: u64, taken: usize) -> Result<Room, EngineError> {
        Engine::room_beside(self, most, taken)
    }

    fn carry(&mut self, moves: &[Move]) -> Result<(), EngineError> {
        Engine::carry(self, moves)
    }

    fn ahead(&self) -> usize {
        self.device.steps_ahead()
    }

    fn send(&mut self, batch: &Batch) -> Result<Box<dyn Arriving>, EngineError> {
        Ok(Box::new(Engine::send(self, batch)?))
    }

    fn device(&self) -> Arc<dyn Device> {
        self.device.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::config_of;
    use compiler::Numerics;

    #[test]
    fn rows_are_bounded_where_texts_go_on_and_nowhere_else() {
        let compiler = Options::cpu(Numerics::Int8, 64);
        let options = EngineOptions { compiler, context: 4096, chunk: 512, cache: CacheKind::F16 };
        let config = config_of("tiny-llama");
        let rows = |sharing: Sharing, class: Class, output: Output| {
            sharing.sizes(Variant { class, output }, &config, &options).most_rows
        };
        let (one, many) = (Sharing::of_texts(1, 4096), Sharing::of_texts(ROWS + 1, 4096));
        let all = Sharing::none(&options);
        for (class, bounded, most) in [
            (Class::One, 1, 1),
            (Class::Few, 8, 8),
            (Class::Many, ROWS, 512),
            (Class::Prompt, ROWS, 512),
            (Class::Any, ROWS, 512),
        ] {
            assert_eq!(rows(one, class, Output::Logits), bounded, "{class:?}");
            for (sharing, output) in [(one, Output::Hidden), (many, Output::Logits), (all, Output::Logits)] {
                assert_eq!(rows(sharing, class, output), most, "{class:?}");
            }
        }
        let few = Sharing { rows: Some(3), ..one };
        assert_eq!([Class::Few, Class::Many].map(|class| rows(few, class, Output::Logits)), [3, 3]);
    }
}

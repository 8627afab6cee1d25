//! The processor as a device: kernels compiled by the system's C compiler,
//! run by a pool of threads over the stages of a program.
//!
//! [`isa`] says what the machine can run, [`toolchain`] finds and calls the compiler, [`objects`] makes functions of
//! kernels, and [`ahead`] builds them without running them. `pool` has the workers, which take units of work from a
//! `stage_queue`; `grain` says how large those are, [`threads`] how many workers are worth it. [`bandwidth`] measures
//! what all that can reach at most.

pub mod ahead;
pub mod bandwidth;
mod grain;
pub mod isa;
pub mod objects;
mod pool;
pub(crate) mod stage_queue;
pub mod threads;
pub mod toolchain;
mod turns;

/// The atomics of [`stage_queue`], which tests replace by those of a model checker.
mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use compiler::program::Program;
use compiler::{Numerics, Options, Tuned};

use crate::cpu::isa::{Isa, Target};
use crate::cpu::objects::{CompileReport, KernelFunction, Loaded, Objects, Progress};
use crate::cpu::pool::{Pool, SPIN, Stages, Work};
use crate::cpu::stage_queue::MAX_UNITS;
use crate::cpu::threads::default_threads;
use crate::cpu::toolchain::{Lazy, Toolchain, ToolchainConfig};
use crate::error::{Error, Result};
use crate::heap::Host;
use crate::host::stop::Stop;
use crate::memory::{Memory, Place};
use crate::profile::{Clock, Profile, Stopwatch};
use crate::store::cache::{Cache, CacheConfig, Warning};
use crate::store::tuned::TunedPlans;
use crate::{Device, Executable, validate};

/// How to use the processor.
#[derive(Clone)]
pub struct CpuConfig {
    /// Workers, the calling thread included.
    pub threads: usize,
    /// The same for steps of many tokens ([`Program::many_tokens`]); `None` takes as many.
    pub threads_batch: Option<usize>,
    /// Compile for this; `None` takes the best of the machine.
    pub target: Option<Target>,
    /// The C compiler.
    pub toolchain: ToolchainConfig,
    /// Where compiled kernels are kept.
    pub cache: CacheConfig,
    /// Compilers that run at the same time.
    pub compile_jobs: usize,
    /// Told while kernels are being compiled.
    pub progress: Option<Progress>,
    /// Whether to end the step that is under way.
    pub stop: Option<Stop>,
    /// Whether to end compilers that run; [`Device::load`] then fails with [`Error::Stopped`].
    pub stop_compiling: Option<Stop>,
}

impl CpuConfig {
    /// All physical cores that this process may use, the best instructions of
    /// the machine, and the compiler and cache folder of the environment.
    pub fn from_environment() -> Self {
        let threads = default_threads();
        CpuConfig {
            threads,
            threads_batch: None,
            target: None,
            toolchain: ToolchainConfig::from_environment(),
            cache: CacheConfig::from_environment(),
            compile_jobs: threads,
            progress: None,
            stop: None,
            stop_compiling: None,
        }
    }
}

/// The processor.
pub struct Cpu {
    target: Target,
    objects: Objects,
    pool: Arc<Pool>,
    /// The workers of steps of many tokens, where another number was asked for.
    batch_pool: Option<Arc<Pool>>,
    tuned: Arc<Tuned>,
    stop: Option<Stop>,
    warnings: Vec<Warning>,
    /// Kernels of programs that were compiled and not loaded yet.
    compiled: Mutex<Vec<(Arc<Program>, Loaded)>>,
}

impl Cpu {
    /// Chooses what to compile for, and starts the workers. The compiler is looked for when a kernel is missing; where
    /// there is none, the best of the targets that kernels are there for is taken.
    ///
    /// # Errors
    /// [`Error::NoCompiler`], [`Error::BadCompiler`], [`Error::CompilerTime`], [`Error::Untrusted`],
    /// [`Error::CompilerTooOld`], [`Error::IsaUnavailable`], [`Error::OtherTargets`],
    /// [`Error::Threads`].
    pub fn new(config: &CpuConfig) -> Result<Cpu> {
        let Choice { target, compiler, named, mut warnings } = choose(config)?;
        let tuned = tuned(config, &target).unwrap_or_else(|warning| {
            warnings.push(warning);
            Tuned::default()
        });
        let cache = Cache::open(&config.cache, &target)?;
        warnings.extend_from_slice(cache.warnings());
        let objects = Objects::open(compiler, named, &target, cache, config.compile_jobs, config.progress.clone());
        let objects = objects.stopped_by(config.stop_compiling.clone());
        let pool = Arc::new(Pool::new(config.threads, SPIN)?);
        let other = config.threads_batch.filter(|&threads| threads != pool.workers());
        let batch_pool = other.map(|threads| Pool::new(threads, SPIN).map(Arc::new)).transpose()?;
        Ok(Cpu {
            target,
            objects,
            pool,
            batch_pool,
            tuned: Arc::new(tuned),
            stop: config.stop.clone(),
            warnings,
            compiled: Mutex::default(),
        })
    }

    /// What kernels are compiled for; programs must be rendered for it.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The kernels of a program as the assembly that they are compiled to.
    ///
    /// # Errors
    /// As [`Device::load`] where it compiles.
    pub fn assembly(&self, program: &Program) -> Result<String> {
        self.objects.assembly(program)
    }

    /// Workers, the calling thread included.
    pub fn threads(&self) -> usize {
        self.pool.workers()
    }

    /// Workers of steps of many tokens, the calling thread included.
    pub fn threads_batch(&self) -> usize {
        self.pool(true).workers()
    }

    /// The kernels of a program that was compiled beside steps.
    fn compiled(&self, program: &Arc<Program>) -> Option<Loaded> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let at = compiled.iter().position(|(other, _)| Arc::ptr_eq(other, program))?;
        Some(compiled.swap_remove(at).1)
    }

    fn pool(&self, many_tokens: bool) -> &Arc<Pool> {
        self.batch_pool.as_ref().filter(|_| many_tokens).unwrap_or(&self.pool)
    }

    /// How many parallel regions have run: one a step, however many kernels and stages it has, and one for each call of
    /// [`Device::parallel_for`].
    pub fn regions(&self) -> u64 {
        self.pool.regions() + self.batch_pool.as_ref().map_or(0, |pool| pool.regions())
    }

    /// What the user should know about how the device was opened.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// The plans of a search; none without a compiler, as kernels that were built ahead do without them.
fn tuned(config: &CpuConfig, target: &Target) -> Result<Tuned, Warning> {
    match TunedPlans::of_processor(&config.cache, target) {
        Some(plans) if config.toolchain.is_there() => plans.read(),
        _ => Ok(Tuned::default()),
    }
}

/// What kernels are for, and who compiles them.
struct Choice {
    target: Target,
    compiler: Lazy,
    /// The version of a compiler that was named.
    named: Option<String>,
    warnings: Vec<Warning>,
}

fn choose(config: &CpuConfig) -> Result<Choice> {
    let wanted = config.target.clone().map_or_else(|| Target::detect(None), Ok)?;
    if !wanted.is_available() {
        return Err(Error::IsaUnavailable { wanted: wanted.to_string(), available: Isa::available_names() });
    }
    let kept = config.cache.targets();
    let later = |target: Target| {
        let compiler = Lazy::new(&config.toolchain, &target);
        Choice { target, compiler, named: None, warnings: vec![] }
    };
    let is_named = config.toolchain.compiler.is_some();
    let is_bare = !is_named && !config.toolchain.is_there();
    if is_bare {
        // Kernels that may not be loaded are told of before a compiler that is not there.
        config.cache.check()?;
    }
    if is_bare && !kept.is_empty() {
        let within = |target: &&Target| match &config.target {
            Some(wanted) => target.is_within(wanted),
            None => target.is_available(),
        };
        return match kept.iter().find(within) {
            Some(target) => Ok(later(target.clone())),
            None => Err(other_targets(config, &kept, &wanted)),
        };
    }
    if !is_named && kept.contains(&wanted) {
        return Ok(later(wanted));
    }
    let toolchain = Toolchain::find(&config.toolchain)?;
    let target = toolchain.narrow(wanted.clone())?;
    let mut warnings = Vec::new();
    if target != wanted {
        warnings.push(Warning::OldCompiler {
            compiler: toolchain.version().into(),
            machine: wanted.to_string(),
            target: target.to_string(),
        });
    }
    let named = is_named.then(|| toolchain.version().to_string());
    Ok(Choice { compiler: Lazy::found(toolchain, &target), target, named, warnings })
}

fn other_targets(config: &CpuConfig, kept: &[Target], wanted: &Target) -> Error {
    let places = config.cache.folders().chain(&config.cache.packs);
    let folders: Vec<_> = places.map(|place| place.display().to_string()).collect();
    let built: Vec<_> = kept.iter().map(Target::to_string).collect();
    let runs = match &config.target {
        Some(_) => format!("{wanted}, as was asked for"),
        None => Isa::available_names(),
    };
    Error::OtherTargets { folders: folders.join(" and "), built: built.join(", "), runs }
}

impl Device for Cpu {
    fn name(&self) -> String {
        let batch = self.batch_pool.as_ref().map(|pool| format!(" ({} for prompts)", pool.workers()));
        let batch = batch.unwrap_or_default();
        format!("cpu, {} threads{batch}, {}", self.threads(), self.target)
    }

    fn workers(&self, many_tokens: bool) -> usize {
        self.pool(many_tokens).workers()
    }

    fn options(&self, numerics: Numerics) -> Options {
        Options { tuned: self.tuned.clone(), ..self.target.options(numerics) }
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        validate::program(&program)?;
        validate::rows_of_files(&program)?;
        memory.check_place(Host::PLACE, &program)?;
        let loaded = self.compiled(&program).map_or_else(|| self.objects.load(&program), Ok)?;
        let places = memory.bind(&program)?;
        let pool = self.pool(program.many_tokens);
        let scratch = program.kernels.iter().map(|kernel| kernel.geometry.scratch_bytes);
        let scratch = memory.bind_scratch(pool.workers(), scratch.max().unwrap_or(0))?;
        let tables = Tables::new(&program, &loaded, self.stop.clone());
        Ok(Box::new(CpuExecutable {
            stages: Stages::new(program.stages.len()),
            pool: pool.clone(),
            places,
            scratch,
            memory: memory.id(),
            bound_at: None,
            tables,
            loaded,
            program,
        }))
    }

    fn compiles_beside(&self) -> bool {
        true
    }

    fn compile_beside(&self, program: &Arc<Program>, stop: &Stop) -> Result<CompileReport> {
        validate::program(program)?;
        let loaded = self.objects.load_beside(program, stop)?;
        let report = loaded.report.clone();
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).push((program.clone(), loaded));
        Ok(report)
    }

    fn kept(&self, follows_from: &str) -> Option<Vec<u8>> {
        self.objects.cache().program(follows_from)
    }

    fn keep(&self, follows_from: &str, program: &[u8]) {
        self.objects.cache().keep_program(follows_from, program);
    }

    fn tuned_plans(&self, kept: &CacheConfig) -> Option<TunedPlans> {
        TunedPlans::of_processor(kept, &self.target)
    }

    fn parallel_for(&self, count: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        let units = u32::try_from(count).unwrap_or(u32::MAX).min(MAX_UNITS);
        let stages = Stages::new(1);
        stages.set(0, units);
        self.pool.run(&stages, &Calls { count, units, job })
    }
}

/// Calls of the host's, in as many units as there may be.
struct Calls<'a> {
    count: usize,
    units: u32,
    job: &'a (dyn Fn(usize) + Sync),
}

impl Work for Calls<'_> {
    fn run(&self, _: usize, _: usize, units: Range<u32>) {
        let first = |unit: u32| (self.count as u128 * u128::from(unit) / u128::from(self.units)) as usize;
        (first(units.start)..first(units.end)).for_each(self.job);
    }
}

/// A launch whose arguments are known.
struct BoundLaunch {
    function: KernelFunction,
    /// Its pointers, within [`Tables::pointers`].
    args: Range<usize>,
    tasks: i64,
    /// Tasks per unit.
    grain: i64,
    /// Its units, within those of the stage.
    units: Range<u32>,
}

/// Everything that a step reads; made at load, changed only between steps.
struct Tables {
    launches: Vec<BoundLaunch>,
    /// The launches of each stage.
    stages: Vec<Range<usize>>,
    pointers: Vec<*mut c_void>,
    /// Scratch of each worker.
    scratch: Vec<*mut c_void>,
    vars: Vec<i64>,
    stop: Option<Stop>,
}

// SAFETY: the tables are only read during a step, and what the pointers lead
// to is touched by kernels alone: tasks of a stage are independent by the
// contract of `Program`, and the memory is lent to the step.
unsafe impl Sync for Tables {}
// SAFETY: as above.
unsafe impl Send for Tables {}

impl Tables {
    fn new(program: &Program, loaded: &Loaded, stop: Option<Stop>) -> Tables {
        let mut launches = Vec::with_capacity(program.launches());
        let mut stages = Vec::with_capacity(program.stages.len());
        let mut pointers = 0;
        for stage in &program.stages {
            let first = launches.len();
            for launch in &stage.launches {
                let args = pointers..pointers + launch.args.len();
                pointers = args.end;
                launches.push(BoundLaunch {
                    function: loaded.functions[launch.kernel],
                    args,
                    tasks: 0,
                    grain: 1,
                    units: 0..0,
                });
            }
            stages.push(first..launches.len());
        }
        Tables {
            launches,
            stages,
            pointers: vec![std::ptr::null_mut(); pointers],
            scratch: Vec::new(),
            vars: vec![0; program.vars.len()],
            stop,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop())
    }

    /// Runs some units of a stage; each call of a kernel goes through `call`,
    /// with the launch that it belongs to. Of a step that is stopped, the stages
    /// pass without anything in them.
    fn run_units(&self, worker: usize, stage: usize, units: Range<u32>, call: impl Fn(usize, &dyn Fn())) {
        if self.is_stopped() {
            return;
        }
        for index in self.stages[stage].clone() {
            let launch = &self.launches[index];
            let start = units.start.max(launch.units.start);
            let end = units.end.min(launch.units.end);
            if start >= end {
                continue;
            }
            let begin = i64::from(start - launch.units.start) * launch.grain;
            let end = (i64::from(end - launch.units.start) * launch.grain).min(launch.tasks);
            call(index, &|| {
                // SAFETY: the function has this signature and the buffers the
                // sizes that it was generated for, by the contract of
                // `Program`; they live in the memory that is lent to the step.
                unsafe {
                    (launch.function)(
                        self.pointers[launch.args.clone()].as_ptr(),
                        self.vars.as_ptr(),
                        begin,
                        end,
                        self.scratch[worker],
                    );
                }
            });
        }
    }
}

impl Work for Tables {
    fn run(&self, worker: usize, stage: usize, units: Range<u32>) {
        self.run_units(worker, stage, units, |_, kernel| kernel());
    }
}

/// Runs units and takes their time.
struct Timed<'a> {
    tables: &'a Tables,
    stopwatch: &'a Stopwatch,
}

impl Work for Timed<'_> {
    fn run(&self, worker: usize, stage: usize, units: Range<u32>) {
        self.tables.run_units(worker, stage, units, |launch, kernel| {
            let start = self.stopwatch.now();
            kernel();
            self.stopwatch.record(worker, launch, start, self.stopwatch.now());
        });
        self.stopwatch.stage_seen(stage, Instant::now());
    }
}

/// A program that is ready to run on the processor.
struct CpuExecutable {
    program: Arc<Program>,
    pool: Arc<Pool>,
    stages: Arc<Stages>,
    tables: Tables,
    /// One for each buffer of the program.
    places: Vec<Place>,
    /// One for each worker.
    scratch: Vec<Place>,
    /// The memory that it was loaded for.
    memory: u64,
    /// The moves of the memory when the pointers were looked up; nothing has
    /// been prepared yet if there is none.
    bound_at: Option<u64>,
    /// The code; after `tables`, whose functions lie in it.
    loaded: Loaded,
}

impl CpuExecutable {
    /// Checks the arguments of a step and brings the tables up to date.
    fn prepare(&mut self, memory: &Memory, vars: &[i64]) -> Result<()> {
        if memory.id() != self.memory {
            return Err(Error::OtherMemory { program: self.program.name.clone() });
        }
        validate::vars(&self.program, vars)?;
        let fresh = self.bound_at.is_none();
        if self.bound_at != Some(memory.moves()) {
            self.bind(memory);
        }
        if fresh || self.tables.vars != vars {
            // An error below leaves tables of two steps: start afresh then.
            self.bound_at = None;
            self.count(vars, fresh)?;
            self.tables.vars.copy_from_slice(vars);
        }
        self.bound_at = Some(memory.moves());
        Ok(())
    }

    /// Whether everything of the step was run.
    fn ended(&self) -> Result<()> {
        if self.tables.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Looks the addresses of all buffers up.
    fn bind(&mut self, memory: &Memory) {
        let launches = self.program.stages.iter().flat_map(|s| &s.launches);
        let args = launches.flat_map(|launch| &launch.args);
        for (pointer, &buffer) in self.tables.pointers.iter_mut().zip(args) {
            *pointer = memory.address(self.places[buffer]).cast();
        }
        self.tables.scratch.clear();
        let scratch = self.scratch.iter().map(|place| memory.address(*place));
        self.tables.scratch.extend(scratch.map(<*mut u8>::cast));
    }

    /// Counts the tasks and units of the stages whose counts may have changed.
    fn count(&mut self, vars: &[i64], all: bool) -> Result<()> {
        let workers = self.pool.workers();
        for (index, stage) in self.program.stages.iter().enumerate() {
            let fixed = |launch: &compiler::program::Launch| launch.tasks.is_fixed() && launch.bytes.is_fixed();
            if !all && stage.launches.iter().all(fixed) {
                continue;
            }
            let bound = &mut self.tables.launches[self.tables.stages[index].clone()];
            let mut first = 0;
            for (launch, bound) in stage.launches.iter().zip(bound) {
                bound.tasks = validate::tasks(&self.program, launch, vars)?;
                let bytes = launch.bytes.eval(vars).unwrap_or(0);
                bound.grain = grain::grain(bound.tasks, bytes, stage.launches.len(), workers);
                bound.units = first..first + grain::count(bound.tasks, bound.grain);
                first = bound.units.end;
            }
            self.stages.set(index, first);
        }
        Ok(())
    }
}

impl Executable for CpuExecutable {
    fn program(&self) -> &Program {
        &self.program
    }

    fn report(&self) -> &CompileReport {
        &self.loaded.report
    }

    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        self.prepare(memory, vars)?;
        self.pool.run(&self.stages, &self.tables)?;
        self.ended()
    }

    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64], clock: Clock) -> Result<Profile> {
        self.prepare(memory, vars)?;
        let launches = self.tables.launches.len();
        let stopwatch = Stopwatch::start(clock, self.pool.workers(), launches, self.program.stages.len());
        let timed = Timed { tables: &self.tables, stopwatch: &stopwatch };
        self.pool.run(&self.stages, &timed)?;
        self.ended()?;
        let tasks = self.tables.launches.iter().map(|launch| launch.tasks);
        Ok(stopwatch.stop(&self.program, vars, tasks))
    }
}

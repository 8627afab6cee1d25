//! From a path and flags to an engine: the file, the device, the memory plan, the compiled programs.

use crate::arguments::{BeginFlag, CacheType, EngineFlags, KernelFlags, Numerics, OnOff, Sending};
use crate::debug;
use crate::failure::Usage;
use crate::interrupt;
use crate::terminal;
use anyhow::{Context, bail};
use compiler::Options;
use cuda::CudaConfig;
use cuda::cubins::Compiling;
use device::{CacheConfig, CompileReport, Cpu, CpuConfig, Isa, Needs, Progress, Stop, Target, Warning};
use devices::Machine;
use gguf::{Gguf, plain};
use model::cache::CacheKind;
use model::config::Config;
use model::engine::{Engine, EngineOptions, Sharing};
use model::memory_plan::{self, Bytes, ModelMemory, Room, TooLarge};
use model::step::{Class, Variant};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use text::tokenizer::Tokenizer;

/// Opens a model file, or the model that comes with the program under its name.
pub fn file(path: &Path) -> anyhow::Result<Arc<Gguf>> {
    if path == Path::new(demo::NAME) {
        return Ok(Arc::new(Gguf::parse(demo::GGUF.to_vec())?));
    }
    if path.is_dir() {
        bail!("{} is a folder, not a model; name a GGUF file in it", path.display());
    }
    if !path.exists() {
        bail!("there is no file {}; check the path, or take a model of `kernloom ls`", path.display());
    }
    Ok(Arc::new(Gguf::open(path)?))
}

/// The tokenizer of a file.
pub fn tokenizer(file: &Gguf, path: &Path) -> anyhow::Result<Tokenizer> {
    text::vocabulary::tokenizer(file).with_context(|| path.display().to_string())
}

/// The configuration of a file.
pub fn config(file: &Gguf, path: &Path) -> anyhow::Result<Config> {
    Config::read(file).with_context(|| path.display().to_string())
}

/// How much of the cache is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Positions {
    /// As a flag says: `None` for [`memory_plan::default_context`], 0 for those of the model.
    Flag(Option<u32>),
    /// Just so many.
    Needed(usize),
}

/// A model ready to run.
pub struct Opened {
    /// Runs the steps.
    pub engine: Engine,
    /// What runs them.
    pub machine: Machine,
    path: PathBuf,
    /// Whether stderr hears of devices, plans and progress.
    talk: bool,
    flags: EngineFlags,
}

/// How the cache is represented.
pub fn cache_kind(flags: &KernelFlags) -> Result<CacheKind, Usage> {
    let asked = match (flags.cache_type_k, flags.cache_type_v) {
        (Some(k), Some(v)) if k != v => {
            return Err(Usage("keys and values are kept alike; give --cache-type-k alone, or both the same".into()));
        }
        (k, v) => k.or(v),
    };
    Ok(match asked {
        Some(CacheType::F32) => CacheKind::F32,
        Some(CacheType::F16) => CacheKind::F16,
        Some(CacheType::Q8_0) => CacheKind::Q8_0,
        None => CacheKind::of(numerics(flags)),
    })
}

/// How numbers are represented.
pub fn numerics(flags: &KernelFlags) -> compiler::Numerics {
    match flags.numerics {
        Numerics::Exact => compiler::Numerics::Exact,
        Numerics::Int8 => compiler::Numerics::Int8,
    }
}

/// What the compiler may do.
pub fn compiler_options(flags: &KernelFlags, target: &Target) -> Result<Options, Usage> {
    leave_out(flags, target.options(numerics(flags)))
}

/// Options without the passes that the flags leave out.
pub fn leave_out(flags: &KernelFlags, mut options: Options) -> Result<Options, Usage> {
    let names = compiler::pass_names();
    if let Some(unknown) = flags.without.iter().find(|w| !names.contains(&w.as_str())) {
        return Err(Usage(format!("there is no pass '{unknown}' to leave out (passes: {})", names.join(", "))));
    }
    options.without = flags.without.clone();
    if flags.fuse == OnOff::Off {
        options.without.push("fuse".into());
    }
    Ok(options)
}

/// What `--isa` asks for: a level, with what this machine has beyond it, or exactly a target.
pub fn target(flags: &EngineFlags) -> anyhow::Result<Option<Target>> {
    let Some(name) = flags.isa.as_deref() else { return Ok(None) };
    Ok(Some(match name.parse::<Isa>() {
        Ok(isa) => Target::detect(Some(isa))?,
        Err(_) => name.parse()?,
    }))
}

/// Where kernels are kept, and the packs of kernels that there are: those that are named, and those that came with the
/// program.
pub fn kernels(folder: Option<&PathBuf>, packs: &[PathBuf], trusted: &[PathBuf]) -> CacheConfig {
    let mut config = CacheConfig { trusted: trusted.to_vec(), ..CacheConfig::from_environment() };
    if let Some(folder) = folder {
        config.folder = Some(folder.clone());
    }
    config.packs.splice(0..0, packs.iter().cloned());
    config
}

/// What Ctrl-C ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// Nothing but the program.
    Nothing,
    /// Compilers.
    Compilers,
    /// Compilers, and the step that is under way.
    Steps,
}

/// The processor as a device.
pub fn cpu(flags: &EngineFlags, talk: bool) -> anyhow::Result<Arc<Cpu>> {
    let cpu = Arc::new(Cpu::new(&devices_config(flags, Ends::Nothing)?.cpu)?);
    introduce(&Machine::Cpu(cpu.clone()), &[], talk);
    Ok(cpu)
}

/// The GPU that is named.
pub fn gpu(flags: &EngineFlags) -> anyhow::Result<Machine> {
    machine(&devices_config(flags, Ends::Nothing)?, Needs::default(), false)
}

/// How devices are used, as the flags say.
fn devices_config(flags: &EngineFlags, ends: Ends) -> anyhow::Result<devices::Config> {
    let cache = kernels(flags.kernel_cache.as_ref(), &flags.kernel_pack, &flags.kernels.trusted_folders);
    let hit: Option<Stop> = Some(Arc::new(interrupt::is_hit));
    let (stop, stop_compiling) = (hit.clone().filter(|_| ends == Ends::Steps), hit.filter(|_| ends != Ends::Nothing));
    let progress: Option<Progress> = Some(Arc::new(|done, total| {
        terminal::progress(&format!("compiling kernels: {done} of {total}"));
    }));
    let mut cpu = CpuConfig { cache: cache.clone(), stop, ..CpuConfig::from_environment() };
    if let Some(threads) = flags.threads {
        cpu.threads = threads.into();
    }
    cpu.threads_batch = flags.threads_batch.map(usize::from);
    cpu.target = target(flags)?;
    cpu.toolchain = flags.kernels.toolchain();
    cpu.progress.clone_from(&progress);
    cpu.stop_compiling.clone_from(&stop_compiling);
    let sending = match flags.sending {
        Sending::Graph => cuda::replay::Sending::Graph,
        Sending::PlainGraph => cuda::replay::Sending::PlainGraph,
        Sending::OneByOne => cuda::replay::Sending::OneByOne,
    };
    let nvrtc = flags.nvrtc.clone();
    let compiling = Compiling { nvrtc, progress, stop: stop_compiling, ..Compiling::default() };
    let cuda = CudaConfig { ordinal: 0, cache, compiling, sending, ahead: flags.ahead.into() };
    Ok(devices::Config { choice: flags.device, cpu, cuda })
}

/// Says what the user should know of a device that was opened, and why others were not.
fn introduce(machine: &Machine, others: &[String], talk: bool) {
    machine.warnings().iter().for_each(|warning| terminal::line(&format!("warning: {warning}")));
    if talk {
        let device = [format!("device: {}", machine.device().name())];
        terminal::line(&[&device, others].concat().join("; "));
    }
}

/// Opens a device for a model.
fn machine(config: &devices::Config, needs: Needs, talk: bool) -> anyhow::Result<Machine> {
    let mut others = vec![];
    let machine = devices::open(config, needs, |other| others.push(other))?;
    introduce(&machine, &others, talk);
    Ok(machine)
}

/// Opens a model for one sequence and checks that it fits. Nothing is compiled for the machine yet. Ctrl-C ends the step
/// that is under way.
pub fn engine(path: &Path, flags: &EngineFlags, positions: Positions, talk: bool) -> anyhow::Result<Opened> {
    opened(path, flags, positions, one_text, talk, Where::Chosen(Ends::Steps))
}

/// As [`engine`], for the logits of all tokens.
pub fn scoring_engine(path: &Path, flags: &EngineFlags, positions: Positions) -> anyhow::Result<Opened> {
    let sharing = |positions| Sharing { rows: None, ..one_text(positions) };
    opened(path, flags, positions, sharing, true, Where::Chosen(Ends::Steps))
}

/// One sequence, which has all of the cache.
fn one_text(positions: i64) -> Sharing {
    Sharing::of_texts(1, positions)
}

/// A device for models of several sequences, of which the first has this plan. Their steps are not ended by Ctrl-C.
pub fn shared_machine(flags: &EngineFlags, first: &ModelMemory) -> anyhow::Result<Machine> {
    machine(&devices_config(flags, Ends::Compilers)?, first.needs(), true)
}

/// Opens a model for sequences that share a cache; `positions` are those of one. A step of several is not ended by Ctrl-C.
pub fn shared_engine(
    path: &Path,
    flags: &EngineFlags,
    positions: Positions,
    sharing: Sharing,
    talk: bool,
) -> anyhow::Result<Opened> {
    opened(path, flags, positions, |_| sharing, talk, Where::Chosen(Ends::Compilers))
}

/// As [`shared_engine`], on a device that is there.
pub fn shared_engine_on(
    path: &Path,
    flags: &EngineFlags,
    positions: Positions,
    sharing: Sharing,
    machine: Machine,
) -> anyhow::Result<Opened> {
    opened(path, flags, positions, |_| sharing, true, Where::On(machine))
}

/// As [`engine`], with new kernels for this process only: those that a search tries are of no use to anybody else. Ctrl-C
/// ends compilers.
pub fn passing_engine(path: &Path, flags: &EngineFlags, positions: Positions) -> anyhow::Result<Opened> {
    opened(path, flags, positions, one_text, true, Where::Passing)
}

/// What runs a model.
enum Where {
    /// What the flags choose.
    Chosen(Ends),
    /// As well, for a process whose kernels nobody else needs.
    Passing,
    /// A device that is open.
    On(Machine),
}

fn opened(
    path: &Path,
    flags: &EngineFlags,
    positions: Positions,
    sharing: impl FnOnce(i64) -> Sharing,
    talk: bool,
    on: Where,
) -> anyhow::Result<Opened> {
    let file = self::file(path)?;
    let config = config(&file, path)?;
    if talk && path == Path::new(demo::NAME) {
        terminal::line("model: kernloom-demo, which comes with the program; name a GGUF file for another");
    }
    let cache = cache_kind(&flags.kernels)?;
    let usual = |room| memory_plan::default_context(&config, cache, memory_plan::weights(&file), room, flags.swa_full);
    // What is not said is chosen by what the device has, and the device by the least.
    let least = context(&config, positions, usual(Room::default()));
    let plan = ModelMemory::of_cache(&config, least, cache, &file);
    let chosen = |devices: devices::Config| machine(&devices, plan.needs(), talk);
    let machine = match on {
        Where::On(machine) => machine,
        Where::Chosen(ends) => chosen(devices_config(flags, ends)?)?,
        Where::Passing => {
            let mut devices = devices_config(flags, Ends::Compilers)?;
            for cache in [&mut devices.cpu.cache, &mut devices.cuda.cache] {
                cache.ready.splice(0..0, cache.folder.take());
            }
            chosen(devices)?
        }
    };
    let device = machine.device();
    let context = match positions {
        Positions::Flag(None) => usual(Room::of(&*device)),
        _ => least,
    };
    let sharing = Sharing { whole_windows: flags.swa_full, ..sharing(context as i64) };
    let all = (sharing.positions as usize).max(context);
    refuse(ModelMemory::of_cache(&config, all, cache, &file).on(&*device).check())?;
    let compiler = leave_out(&flags.kernels, device.options(numerics(&flags.kernels)))?;
    let chunk = flags.kernels.step_tokens(&compiler).min(all as i64);
    let options = EngineOptions { compiler, context: context as i64, chunk, cache };
    let engine = Engine::shared(file, device, options, sharing).with_context(|| path.display().to_string())?;
    Ok(Opened { engine, machine, path: path.to_owned(), talk, flags: flags.clone() })
}

/// The positions of the cache; these if nothing is said.
pub fn context(config: &Config, positions: Positions, usual: usize) -> usize {
    let made_for = memory_plan::made_for(config);
    match positions {
        Positions::Flag(None) => usual,
        Positions::Flag(Some(0)) => made_for,
        Positions::Flag(Some(n)) => {
            if n as usize > made_for {
                terminal::line(&format!(
                    "warning: a context of {n} is more than the {made_for} positions that the model was made for"
                ));
            }
            n as usize
        }
        Positions::Needed(n) => n.max(1),
    }
}

/// A plan that does not fit ends the program before weights are touched.
fn refuse(checked: Result<(), TooLarge>) -> anyhow::Result<()> {
    Ok(checked?)
}

impl Opened {
    /// Checks that the speed of the device means something.
    pub fn measurable(&self) -> anyhow::Result<()> {
        match self.machine {
            Machine::Interpreter(_) => bail!("the speed of the interpreter says nothing; use --device cpu"),
            _ => Ok(()),
        }
    }

    /// Workers of the device in steps of few tokens, or of many.
    pub fn workers(&self, many_tokens: bool) -> usize {
        self.machine.workers(many_tokens)
    }

    /// What the programs that were prepared take of the device.
    pub fn memory(&self) -> ModelMemory {
        ModelMemory::of_engine(&self.engine, |many_tokens| self.workers(many_tokens))
    }

    /// Compiles these programs, checks that they fit together, and loads them.
    pub fn prepare<V: Copy + Into<Variant>>(&mut self, variants: &[V]) -> anyhow::Result<()> {
        let variants: Vec<Variant> = variants.iter().map(|&variant| variant.into()).collect();
        let tokens: Vec<&str> = variants.iter().map(|v| v.class.words()).collect();
        terminal::progress(&format!("compiling the programs for {}", tokens.join(", ")));
        self.engine.make(&variants).with_context(|| self.path.display().to_string())?;
        let plan = self.memory();
        refuse(plan.check())?;
        if self.talk {
            terminal::line(&format!("memory: {plan}"));
        }
        if plan.weights_spill() {
            terminal::line("warning: the weights do not fit in memory; every token reads some of them from disk");
        }
        let mut warned: Vec<Warning> = vec![];
        for variant in variants {
            let class = variant.class;
            if self.flags.debug > 0 {
                let compiled = self.engine.compile(variant)?;
                debug::print(class, compiled, self.flags.debug);
                if self.flags.debug >= debug::ASSEMBLY {
                    match self.machine.assembly(&compiled.program) {
                        Ok(text) => terminal::lines(&text),
                        Err(error) => terminal::line(&format!("no assembly: {error}")),
                    }
                }
            }
            self.engine.prepare(variant)?;
            if let Some(text) = self.talk.then(|| tuned(&self.engine, class)).flatten() {
                terminal::line(&text);
            }
            if let Some(report) = self.engine.report(variant) {
                for warning in report.warnings.iter().filter(|warning| !warned.contains(warning)) {
                    terminal::line(&format!("warning: {warning}"));
                }
                warned.extend(report.warnings.clone());
                if self.talk && report.compiled > 0 {
                    terminal::line(&compiled(report, class));
                }
            }
        }
        terminal::wipe();
        Ok(())
    }

    /// As [`Opened::prepare`] of them all, but only the `first` programs and those that an earlier process compiled are there
    /// when it returns: others are compiled while these run the steps. `told` hears of each.
    pub fn begin(
        &mut self,
        flag: &BeginFlag,
        first: &[Variant],
        others: &[Variant],
        told: impl Fn(String) + Send + 'static,
    ) -> anyhow::Result<()> {
        // What is printed of a program is printed before it runs.
        if flag.wait_for_kernels || self.flags.debug > 0 {
            return self.prepare(&[first, others].concat());
        }
        self.engine.answer_early(move |variant, made| match made {
            // A pack had them.
            Ok(report) if report.compiled == 0 => {}
            Ok(report) => told(compiled(report, variant.class)),
            Err(error) if error.is_not_built() => told(format!(
                "no kernels for {variant}: {error}; until then steps are run by kernels for fewer tokens, so that reading a \
                 prompt takes longer"
            )),
            // Whoever wants the program hears of it.
            Err(_) => {}
        });
        let (later, now): (Vec<Variant>, Vec<Variant>) = others.iter().partition(|&&other| self.engine.is_later(other));
        self.prepare(&[first, &now[..]].concat())?;
        later.into_iter().try_for_each(|other| Ok(self.engine.expect(other)?))
    }

    /// Bytes of weights that decoding a token reads.
    pub fn step_bytes(&self) -> u64 {
        model::memory_plan::step_bytes(&self.engine).unwrap_or(0)
    }

    /// Bytes of the cache that a token reads with so many positions behind it, over all layers.
    pub fn cache_bytes(&self, positions: f64) -> f64 {
        model::memory_plan::read_bytes(self.engine.config(), self.engine.cache(), positions as usize) as f64
    }
}

/// How many kernels have a plan that a search has found.
fn tuned(engine: &Engine, class: Class) -> Option<String> {
    let (program, log) = engine.program(class).filter(|(_, log)| log.tuned > 0)?;
    let (tuned, kernels) = (log.tuned, program.kernels.len());
    Some(format!("tuned: {tuned} of {kernels} kernels for {} by plans of `kernloom tune`", class.words()))
}

/// What was compiled.
pub fn compiled(report: &CompileReport, class: Class) -> String {
    let CompileReport { compiled, kernels, time, compiler, .. } = report;
    let by = compiler.as_ref().map_or(String::new(), |compiler| format!(" by {compiler}"));
    format!("compiled {compiled} of {kernels} kernels for {} in {:.1} s{by}", class.words(), time.as_secs_f64())
}

/// A description of a model for reports: architecture, size, type of most weights.
pub fn description(file: &Gguf) -> String {
    let text = |key: &str| file.metadata().find::<&str>(key).ok().flatten().map(str::to_owned);
    let arch = text("general.architecture").unwrap_or_else(|| "unknown".into());
    let size = text("general.size_label").unwrap_or_else(|| short_count(parameters(file)));
    format!("{} {} {}", plain::name(&arch), plain::name(&size), main_type(file))
}

/// Number of weights.
pub fn parameters(file: &Gguf) -> u64 {
    file.tensors().iter().map(gguf::Tensor::elements).sum()
}

/// The type that most weights have.
pub fn main_type(file: &Gguf) -> &'static str {
    let mut by_type: Vec<(gguf::GgmlType, u64)> = vec![];
    for tensor in file.tensors() {
        match by_type.iter_mut().find(|(ty, _)| *ty == tensor.ty) {
            Some((_, n)) => *n += tensor.elements(),
            None => by_type.push((tensor.ty, tensor.elements())),
        }
    }
    by_type.iter().max_by_key(|(_, n)| *n).map_or("empty", |(ty, _)| ty.name())
}

/// A count in billions, millions or thousands.
pub fn short_count(n: u64) -> String {
    let units = [("B", 1e9), ("M", 1e6), ("K", 1e3)];
    match units.iter().find(|(_, size)| n as f64 >= *size) {
        Some((unit, size)) => format!("{:.2}{unit}", n as f64 / size),
        None => n.to_string(),
    }
}

/// Bytes as a short text.
pub fn bytes(n: u64) -> String {
    Bytes(n).to_string()
}

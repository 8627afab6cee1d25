//! `compile`: the kernels of a model, built ahead of time for this machine or others, in a folder for `--kernel-cache` or as
//! a pack, which is that folder as one file; or their sources, to be read.

use crate::arguments::{ContextFlag, KernelFlags, ModelOrDemo, NvrtcFlag};
use crate::debug;
use crate::failure::Usage;
use crate::models;
use crate::open::{self, Positions};
use crate::output::Stdout;
use crate::terminal;
use anyhow::Context;
use clap::ValueEnum;
use compiler::{Machine, Options};
use cuda::architecture::Architecture;
use cuda::cubins::Compiling;
use device::cpu::bandwidth;
use device::{Ahead, BuildFolder, Progress, Target, Toolchain, ToolchainConfig};
use model::cache::PAGE;
use model::config::Config;
use model::memory_plan::{Room, default_context};
use model::prefill_attention::Reach;
use model::program_cache;
use model::step::{Class, Output, ROWS, Sizes, build};
use model::window_pages;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The target that stands for this machine.
const NATIVE: &str = "native";

/// The targets of kernels for blocks of threads, as sources.
const CUDA: &str = "cuda";
/// See there.
const WGSL: &str = "wgsl";
/// The same for an adapter that multiplies matrices.
const WGSL_MATRICES: &str = "wgsl-matrices";

/// What is written of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// Objects that run, for `--kernel-cache`
    Objects,
    /// The source of each program, and its schedule with all decisions beside it; needs no compiler, and knows the
    /// targets cuda, wgsl and wgsl-matrices too
    Source,
}

/// The steps that a model is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Steps {
    /// All that a command may run
    All,
    /// Of up to eight tokens, for their logits: an answer needs no more, and reads its prompt by these
    Few,
}

/// What to build, for what machines, and where to.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A machine without a C compiler runs the model with `--kernel-cache DIR` or `--kernel-pack FILE`, or with a pack beside the
program or in share/kernloom of where it is installed; it takes the best target that it has.
Context and number of sequences may be others there; --numerics, --cache-type-k, --ubatch-size and --without must be these.")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOrDemo,
    /// Machines to build for: x86-64-v3 (AVX2), x86-64-v4 (AVX-512), neon, another level of `kernloom doctor`, or native;
    /// NVIDIA cards: sm_80, sm_86, sm_89, sm_90a, sm_120; sm_89:46 for one with 46 multiprocessors
    #[arg(long, value_name = "TARGETS", value_delimiter = ',', default_value = NATIVE)]
    target: Vec<String>,
    /// What to write
    #[arg(long, value_enum, default_value = "objects")]
    emit: Emit,
    /// Folder to write to; made if it is not there
    #[arg(short, long, value_name = "DIR", required_unless_present = "pack")]
    out: Option<PathBuf>,
    /// File to write as a pack: the kernels of the folder, those that were there before included, and the programs of this
    /// model and context that launch them [default folder: one that is removed]
    #[arg(long, value_name = "FILE")]
    pack: Option<PathBuf>,
    /// Steps to build for
    #[arg(long, value_enum, default_value = "all")]
    steps: Steps,
    /// Compilers that run at a time [default: physical cores that this process may use]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    cards: NvrtcFlag,
    #[command(flatten)]
    context: ContextFlag,
    #[command(flatten)]
    kernels: KernelFlags,
}

/// Builds.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    match (args.emit, &args.out, &args.pack) {
        (Emit::Source, Some(out), None) => sources(args, out),
        (Emit::Source, ..) => Err(Usage("sources are written to a folder: --out DIR".into()).into()),
        (Emit::Objects, Some(out), None) => objects(args, out),
        (Emit::Objects, Some(out), Some(pack)) => objects(args, out).and_then(|()| write_pack(out, pack)),
        (Emit::Objects, None, pack) => {
            let passing = BuildFolder::new(&std::env::temp_dir(), "kernloom-compile")?;
            objects(args, passing.path())?;
            pack.iter().try_for_each(|pack| write_pack(passing.path(), pack))
        }
    }
}

fn write_pack(folder: &Path, pack: &Path) -> anyhow::Result<()> {
    let (kernels, size) = device::pack(folder, pack)?;
    let mut out = Stdout;
    writeln!(out, "{}: {kernels} kernels, {}", pack.display(), open::bytes(size))?;
    Ok(out.flush()?)
}

fn objects(args: &Arguments, folder: &Path) -> anyhow::Result<()> {
    if args.target.iter().any(|name| name == CUDA) {
        return Err(
            Usage(format!("objects for {CUDA} are for an architecture: sm_80, sm_86, sm_89, sm_90a, sm_120; --emit source writes kernels of {CUDA}")).into()
        );
    }
    if args.target.iter().any(|name| name == WGSL) {
        return Err(Usage(format!("drivers compile {WGSL} when a model is loaded; --emit source writes it")).into());
    }
    let toolchain = args.kernels.toolchain();
    let (mut cards, mut targets) = (vec![], vec![]);
    for name in &args.target {
        match Architecture::named(name) {
            Some(_) if args.pack.is_some() => {
                return Err(Usage(format!("a pack has kernels for processors; those for {name} need --out DIR")).into());
            }
            Some(architecture) => cards.push(architecture),
            None => targets.push(target(name, &toolchain)?),
        }
    }
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(&path)?;
    let config = open::config(&file, &path)?;
    let jobs = args.threads.map_or_else(device::default_threads, usize::from);
    for target in &targets {
        let start = Instant::now();
        let trusted = &args.kernels.trusted_folders;
        let ahead = Ahead::new(target, &toolchain, folder, trusted, jobs, Some(progress()))?;
        let mut built = 0;
        for (sizes, options) in programs(args, &config, &open::compiler_options(&args.kernels, target)?)? {
            let compiled = build(&file, &config, &sizes, &options).with_context(|| path.display().to_string())?;
            built += ahead.build(&compiled.program)?.compiled;
            // With a pack, what an answer needs is there without our compiler, too, if the context is the same.
            if args.pack.is_some() && sizes.output == Output::Logits && sizes.most_rows <= ROWS {
                let follows_from = program_cache::follows_from(&file, &config, &sizes, &options);
                let program = program_cache::bytes(&compiled.program, &compiled.log);
                program.map_or(Ok(()), |program| ahead.keep(&follows_from, &program))?;
            }
        }
        // `bench` and `profile` say how near a model comes to what the machine can do.
        for program in bandwidth::programs().into_iter().filter(|_| args.steps == Steps::All) {
            built += ahead.build(&program)?.compiled;
        }
        say_built(folder, built, &target.to_string(), start)?;
    }
    for architecture in cards {
        let start = Instant::now();
        let compiling = Compiling { nvrtc: args.cards.nvrtc.clone(), jobs, progress: Some(progress()), stop: None };
        let ahead = cuda::ahead::Ahead::new(architecture, folder, compiling)?;
        let options = open::leave_out(&args.kernels, architecture.options(open::numerics(&args.kernels)))?;
        let mut built = 0;
        for (sizes, options) in programs(args, &config, &options)? {
            let program = build(&file, &config, &sizes, &options).with_context(|| path.display().to_string())?.program;
            built += ahead.build(&program)?;
        }
        let target = format!("{} with {} multiprocessors", architecture.name(), architecture.multiprocessors);
        say_built(folder, built, &target, start)?;
    }
    Ok(())
}

fn progress() -> Progress {
    Arc::new(move |done, all| terminal::progress(&format!("compiling kernels: {done} of {all}")))
}

fn say_built(folder: &Path, built: usize, target: &str, start: Instant) -> anyhow::Result<()> {
    terminal::wipe();
    let seconds = start.elapsed().as_secs_f64();
    let mut out = Stdout;
    writeln!(out, "{}: built {built} kernels for {target} in {seconds:.1} s", folder.display())?;
    Ok(out.flush()?)
}

/// A folder for each target; in it, for each program, its source and what was decided about it.
fn sources(args: &Arguments, out: &Path) -> anyhow::Result<()> {
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(&path)?;
    let config = open::config(&file, &path)?;
    for name in &args.target {
        let (options, ending) = match name.as_str() {
            CUDA => (open::leave_out(&args.kernels, Options::gpu(open::numerics(&args.kernels)))?, "cu"),
            WGSL => (open::leave_out(&args.kernels, Options::wgsl(open::numerics(&args.kernels)))?, "wgsl"),
            WGSL_MATRICES => {
                let options = Options::wgsl_of_matrices(open::numerics(&args.kernels));
                (open::leave_out(&args.kernels, options)?, "wgsl")
            }
            NATIVE => (open::compiler_options(&args.kernels, &Target::detect(None)?)?, "c"),
            name => match Architecture::named(name) {
                Some(card) => (open::leave_out(&args.kernels, card.options(open::numerics(&args.kernels)))?, "cu"),
                None => (open::compiler_options(&args.kernels, &name.parse()?)?, "c"),
            },
        };
        let folder = out.join(name.replace(':', "-"));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut kernels = 0;
        for (sizes, options) in programs(args, &config, &options)? {
            let compiled = build(&file, &config, &sizes, &options).with_context(|| path.display().to_string())?;
            let program = &compiled.program;
            kernels += program.kernels.len();
            let stem = format!("{}-{}-tokens-{}-rows", program.name, sizes.most_tokens, sizes.most_rows);
            let code = program.kernels.iter().map(|kernel| kernel.source.as_str());
            let code: String = std::iter::once(program.prelude.as_str()).chain(code).collect();
            write(&folder.join(format!("{stem}.{ending}")), &code)?;
            write(&folder.join(format!("{stem}.txt")), &debug::text(sizes.class, &compiled, debug::DECISIONS))?;
        }
        let mut out = Stdout;
        writeln!(out, "{}: wrote {kernels} kernels for {name}", folder.display())?;
        out.flush()?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The target of a name; what the compiler does not know of this machine is left out, as when a model is run.
fn target(name: &str, toolchain: &ToolchainConfig) -> anyhow::Result<Target> {
    if name != NATIVE {
        return Ok(name.parse()?);
    }
    let machine = Target::detect(None)?;
    let target = Toolchain::find(toolchain)?.narrow(machine.clone())?;
    if target != machine {
        terminal::line(&format!("warning: the compiler does not know all of {machine}; kernels use {target}"));
    }
    Ok(target)
}

/// Every program that a command may run. Of its sizes only the numbers of tokens and of rows of a step are in kernels. The
/// former is less than `--ubatch-size` where the context is, which by default is at least that of [`default_context`]
/// on a device that does not say what it has; the latter is [`ROWS`], or, where the logits of all tokens are wanted and of hidden
/// states, the former.
fn programs(args: &Arguments, config: &Config, options: &Options) -> anyhow::Result<Vec<(Sizes, Options)>> {
    let cache = open::cache_kind(&args.kernels)?;
    let usual = default_context(config, cache, 0, Room::default(), false);
    let context = open::context(config, Positions::Flag(args.context.ctx_size), usual) as i64;
    let most = args.kernels.step_tokens(options);
    // A text whose tokens see what follows comes in one step.
    let most = if config.causal { most } else { most.max(context) };
    let mut steps = vec![most.min(context)];
    if args.context.ctx_size.is_none() && most > context {
        // The sequences of a server have more room together.
        steps.push(most);
    }
    let pages = (context + PAGE - 1) / PAGE;
    let mut programs = vec![];
    let mut outputs = vec![(Output::Hidden, None)];
    if config.ranking.is_some() {
        outputs.push((Output::Scores, Some(ROWS)));
    }
    if Output::usual(config) == Output::Logits {
        outputs.splice(0..0, [(Output::Logits, Some(ROWS)), (Output::Logits, None)]);
    }
    let mut classes = [Class::choices(&Reach::of(config, options)), vec![Class::Any]].concat();
    if args.steps == Steps::Few {
        outputs.truncate(1);
        classes.retain(|class| *class == Class::Few || class.one());
    }
    if config.causal && matches!(options.machine, Machine::Gpu(_)) {
        outputs.extend([(Output::Likeliest, Some(ROWS)), (Output::Drawn, Some(ROWS))]);
    }
    for (output, rows) in outputs {
        for &class in &classes {
            for &most_tokens in &steps {
                // As engines have it: programs that differ in nothing have one name.
                let most_rows = rows.unwrap_or(most_tokens).clamp(1, class.tokens(most_tokens).1);
                let (segments, row_pages) = (1, pages);
                let pool = window_pages::pool(config, segments, most_tokens).filter(|&pool| pool < pages);
                let window_pages = pool.unwrap_or(pages);
                let sizes =
                    Sizes { class, output, most_tokens, most_rows, segments, pages, window_pages, row_pages, cache };
                // For a server with --batch-invariant.
                let options = if class == Class::Any { options.batch_invariant() } else { options.clone() };
                if !programs.iter().any(|(other, _)| *other == sizes) {
                    programs.push((sizes, options));
                }
            }
        }
    }
    Ok(programs)
}

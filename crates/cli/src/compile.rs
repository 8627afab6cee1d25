//! `compile`: the kernels of a model, built ahead of time for this machine or others, in a folder for `--kernel-cache`; or
//! their sources, to be read.

use crate::arguments::{ContextFlag, KernelFlags, ModelOrDemo};
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
use device::{Ahead, Progress, Target, Toolchain, ToolchainConfig};
use model::cache::PAGE;
use model::config::Config;
use model::step::{Class, Output, ROWS, Sizes, build};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The target that stands for this machine.
const NATIVE: &str = "native";

/// The target of kernels for blocks of threads, as sources.
const CUDA: &str = "cuda";

/// What is written of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// Objects that run, for `--kernel-cache`
    Objects,
    /// The source of each program, and its schedule with all decisions beside it; needs no compiler, and knows the
    /// target cuda too
    Source,
}

/// What to build, for what machines, and where to.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A machine without a C compiler runs the model with `--kernel-cache DIR`; it takes the best target that it has.
Context and number of sequences may be others there; --numerics, --cache-type-k, --ubatch-size and --without must be these.")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOrDemo,
    /// Machines to build for: x86-64-v3 (AVX2), x86-64-v4 (AVX-512), neon, another level of `kernloom doctor`, or native;
    /// NVIDIA cards: sm_80, sm_86, sm_89, sm_90a, sm_120
    #[arg(long, value_name = "TARGETS", value_delimiter = ',', default_value = NATIVE)]
    target: Vec<String>,
    /// What to write
    #[arg(long, value_enum, default_value = "objects")]
    emit: Emit,
    /// Folder to write to; made if it is not there
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Compilers that run at a time [default: physical cores that this process may use]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// NVRTC's library, which compiles kernels for NVIDIA cards [default: where the loader, CUDA_HOME or Python have it]
    #[arg(long, value_name = "PATH", env = "KERNLOOM_NVRTC", hide_env_values = true)]
    nvrtc: Option<PathBuf>,
    #[command(flatten)]
    context: ContextFlag,
    #[command(flatten)]
    kernels: KernelFlags,
}

/// Builds.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    match args.emit {
        Emit::Objects => objects(args),
        Emit::Source => sources(args),
    }
}

fn objects(args: &Arguments) -> anyhow::Result<()> {
    if args.target.iter().any(|name| name == CUDA) {
        return Err(
            Usage(format!("objects for {CUDA} are for an architecture: sm_80, sm_86, sm_89, sm_90a, sm_120; --emit source writes kernels of {CUDA}")).into()
        );
    }
    let toolchain = args.kernels.toolchain();
    let (mut cards, mut targets) = (vec![], vec![]);
    for name in &args.target {
        match Architecture::named(name) {
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
        let ahead = Ahead::new(target, &toolchain, &args.out, trusted, jobs, Some(progress()))?;
        let mut built = 0;
        for (sizes, options) in programs(args, &config, &open::compiler_options(&args.kernels, target)?)? {
            let program = build(&file, &config, &sizes, &options).with_context(|| path.display().to_string())?.program;
            built += ahead.build(&program)?.compiled;
        }
        // `bench` and `profile` say how near a model comes to what the machine can do.
        for program in bandwidth::programs() {
            built += ahead.build(&program)?.compiled;
        }
        say_built(args, built, &target.to_string(), start)?;
    }
    for architecture in cards {
        let start = Instant::now();
        let compiling = Compiling { nvrtc: args.nvrtc.clone(), jobs, progress: Some(progress()), stop: None };
        let ahead = cuda::ahead::Ahead::new(architecture, &args.out, compiling)?;
        let options = open::leave_out(&args.kernels, architecture.options(open::numerics(&args.kernels)))?;
        let mut built = 0;
        for (sizes, options) in programs(args, &config, &options)? {
            let program = build(&file, &config, &sizes, &options).with_context(|| path.display().to_string())?.program;
            built += ahead.build(&program)?;
        }
        say_built(args, built, &architecture.name(), start)?;
    }
    Ok(())
}

fn progress() -> Progress {
    Arc::new(move |done, all| terminal::progress(&format!("compiling kernels: {done} of {all}")))
}

fn say_built(args: &Arguments, built: usize, target: &str, start: Instant) -> anyhow::Result<()> {
    terminal::wipe();
    let seconds = start.elapsed().as_secs_f64();
    let mut out = Stdout;
    writeln!(out, "{}: built {built} kernels for {target} in {seconds:.1} s", args.out.display())?;
    Ok(out.flush()?)
}

/// A folder for each target; in it, for each program, its source and what was decided about it.
fn sources(args: &Arguments) -> anyhow::Result<()> {
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(&path)?;
    let config = open::config(&file, &path)?;
    for name in &args.target {
        let (options, ending) = match name.as_str() {
            CUDA => (open::leave_out(&args.kernels, Options::gpu(open::numerics(&args.kernels)))?, "cu"),
            NATIVE => (open::compiler_options(&args.kernels, &Target::detect(None)?)?, "c"),
            name => (open::compiler_options(&args.kernels, &name.parse()?)?, "c"),
        };
        let folder = args.out.join(name);
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
/// former is less than `--ubatch-size` where the context is; the latter is [`ROWS`], or, where the logits of all tokens are
/// wanted and of hidden states, the former.
fn programs(args: &Arguments, config: &Config, options: &Options) -> anyhow::Result<Vec<(Sizes, Options)>> {
    let context = open::context(config, Positions::Flag(args.context.ctx_size))? as i64;
    let most = i64::from(args.kernels.ubatch_size);
    let mut steps = vec![most.min(context)];
    if args.context.ctx_size.is_none() && most > context {
        // The sequences of a server have more room together.
        steps.push(most);
    }
    let cache = open::cache_kind(&args.kernels)?;
    let pages = (context + PAGE - 1) / PAGE;
    let mut programs = vec![];
    let mut outputs = vec![(Output::Logits, Some(ROWS)), (Output::Logits, None), (Output::Hidden, None)];
    if matches!(options.machine, Machine::Gpu(_)) {
        outputs.extend([(Output::Likeliest, Some(ROWS)), (Output::Drawn, Some(ROWS))]);
    }
    for (output, rows) in outputs {
        for class in [Class::Prompt, Class::Many, Class::Few, Class::One, Class::Any] {
            for &most_tokens in &steps {
                let most_rows = rows.unwrap_or(most_tokens);
                let sizes =
                    Sizes { class, output, most_tokens, most_rows, segments: 1, pages, row_pages: pages, cache };
                // For a server with --batch-invariant.
                let options = if class == Class::Any { options.batch_invariant() } else { options.clone() };
                programs.push((sizes, options));
            }
        }
    }
    Ok(programs)
}

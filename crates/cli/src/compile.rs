//! `compile`: the kernels of a model, built ahead of time for this machine or others, in a folder for `--kernel-cache`.

use crate::arguments::{ContextFlag, KernelFlags, ModelOrDemo};
use crate::open::{self, Positions};
use crate::output::Stdout;
use crate::terminal;
use anyhow::Context;
use compiler::Options;
use device::{Ahead, Progress, Target, Toolchain, ToolchainConfig, bandwidth};
use model::config::Config;
use model::step::{Class, Output, PAGE, ROWS, Sizes, build};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The target that stands for this machine.
const NATIVE: &str = "native";

/// What to build, for what machines, and where to.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A machine without a C compiler runs the model with `--kernel-cache DIR`; it takes the best target that it has.
Context and number of sequences may be others there; --numerics, --cache-type-k, --ubatch-size and --without must be these.")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOrDemo,
    /// Machines to build for: x86-64-v3 (AVX2), x86-64-v4 (AVX-512), neon, another level of `kernloom doctor`, or native
    #[arg(long, value_name = "TARGETS", value_delimiter = ',', default_value = NATIVE)]
    target: Vec<String>,
    /// Folder to write to; made if it is not there
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Compilers that run at a time [default: physical cores that this process may use]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    context: ContextFlag,
    #[command(flatten)]
    kernels: KernelFlags,
}

/// Builds.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let toolchain = args.kernels.toolchain();
    let targets: Vec<Target> =
        args.target.iter().map(|name| target(name, &toolchain)).collect::<anyhow::Result<_>>()?;
    let path = args.model.resolve()?;
    let file = open::file(&path)?;
    let config = open::config(&file, &path)?;
    let jobs = args.threads.map_or_else(device::default_threads, usize::from);
    for target in &targets {
        let start = Instant::now();
        let progress: Progress = Arc::new(move |done, all| {
            terminal::progress(&format!("compiling kernels: {done} of {all}"));
        });
        let ahead = Ahead::new(target, &toolchain, &args.out, &args.kernels.trusted_folders, jobs, Some(progress))?;
        let mut built = 0;
        for (sizes, options) in programs(args, &config, target)? {
            let program = build(&file, &config, &sizes, &options).with_context(|| path.display().to_string())?.program;
            built += ahead.build(&program)?.compiled;
        }
        // The line that `run` ends with says how near it comes to what the memory can do.
        for program in bandwidth::programs() {
            built += ahead.build(&program)?.compiled;
        }
        terminal::wipe();
        let seconds = start.elapsed().as_secs_f64();
        let mut out = Stdout;
        writeln!(out, "{}: built {built} kernels for {target} in {seconds:.1} s", args.out.display())?;
        out.flush()?;
    }
    Ok(())
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
fn programs(args: &Arguments, config: &Config, target: &Target) -> anyhow::Result<Vec<(Sizes, Options)>> {
    let context = open::context(config, Positions::Flag(args.context.ctx_size))? as i64;
    let most = i64::from(args.kernels.ubatch_size);
    let mut steps = vec![most.min(context)];
    if args.context.ctx_size.is_none() && most > context {
        // The sequences of a server have more room together.
        steps.push(most);
    }
    let options = open::compiler_options(&args.kernels, target)?;
    let cache = open::cache_kind(&args.kernels)?;
    let pages = (context + PAGE - 1) / PAGE;
    let mut programs = vec![];
    for (output, rows) in [(Output::Logits, Some(ROWS)), (Output::Logits, None), (Output::Hidden, None)] {
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

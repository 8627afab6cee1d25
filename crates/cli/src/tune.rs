//! `tune`: a search for faster plans of a model's kernels, kept for later runs; `--tune` of other commands.

use crate::arguments::{EngineFlags, MeasureFlags, ModelOrDemo};
use crate::failure::{Interrupted, Usage};
use crate::interrupt;
use crate::models;
use crate::numbers::Counts;
use crate::open::{self, Opened, Positions};
use crate::origin::{shortened, without_layer};
use crate::output::Stdout;
use crate::peaks;
use crate::terminal;
use anyhow::Context;
use compiler::Tuned;
use devices::Machine;
use model::step::Class;
use model::tune::{End, Found, Outcome, Progress, Search, TunedStep};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Tokens of the steps that plans are searched for when nothing is said: decoding, decoding several sequences, prompts.
const TOKENS: &str = "1,8,128";

/// Tokens in the cache before them.
const DEPTH: &str = "512";

/// A default should not be slower than what a search finds by more than this.
const GOAL: f64 = 1.2;

/// What to tune, and for how long.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Plans are kept in the folder of compiled kernels, for this processor and its instructions or for this card, and every command
uses them from then on; --without tuned leaves them aside. A plan changes the order of sums, so results differ from untuned ones as by
rounding.")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOrDemo,
    /// How long to search, over all steps
    #[arg(short, long, value_name = "N", default_value = "120", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seconds: u32,
    /// Tokens of the steps to search for: 1 is decoding, 2 to 8 are several sequences, more are a prompt
    #[arg(short = 'p', long, value_name = "N", default_value = TOKENS)]
    tokens: Counts,
    /// Tokens in the cache before
    #[arg(short = 'd', long, value_name = "N", default_value = DEPTH)]
    depth: u32,
    /// Search for nothing: measure what was found before against what the compiler does by itself
    #[arg(long)]
    report: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    measure: MeasureFlags,
    #[command(flatten)]
    engine: EngineFlags,
}

/// A search before something else.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Engine")]
pub struct TuneFlag {
    /// Search for faster kernels first, for so long; as `kernloom tune` does
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tune: Option<u32>,
}

impl TuneFlag {
    /// Searches, if that is wanted.
    pub fn before(&self, model: &ModelOrDemo, engine: &EngineFlags, measure: &MeasureFlags) -> anyhow::Result<()> {
        let Some(seconds) = self.tune else { return Ok(()) };
        let path = models::resolve(model.name(), &model.fetch)?;
        let steps = steps(&TOKENS.parse().map_err(Usage)?, DEPTH.parse()?)?;
        let _lock = peaks::lock(measure)?;
        let time = Duration::from_secs(seconds.into());
        let outcomes = search(&path, engine, &steps, Some(time))?;
        let better = outcomes.iter().flat_map(|o| &o.kernels).filter(|kernel| kernel.setting.is_some()).count();
        let tried: usize = outcomes.iter().map(|o| o.tried).sum();
        terminal::line(&format!("tuned: {better} kernels have a better plan, of {tried} that were tried"));
        stopped(&outcomes)
    }
}

/// Tunes.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let steps = steps(&args.tokens, args.depth as usize)?;
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let _lock = peaks::lock(&args.measure)?;
    let time = (!args.report).then(|| Duration::from_secs(args.seconds.into()));
    let outcomes = search(&path, &args.engine, &steps, time)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&outcomes.iter().map(as_json).collect::<Vec<_>>())? + "\n",
        false => outcomes.iter().map(table).collect::<String>() + &verdict(&outcomes),
    };
    let mut out = Stdout;
    out.write_all(text.as_bytes())?;
    out.flush()?;
    stopped(&outcomes)
}

fn steps(tokens: &Counts, depth: usize) -> Result<Vec<TunedStep>, Usage> {
    if tokens.0.is_empty() || tokens.0.iter().any(|&n| n == 0 || n > 8192) {
        return Err(Usage("a step takes 1 to 8192 tokens (-p)".into()));
    }
    Ok(tokens.0.iter().map(|&tokens| TunedStep { tokens, depth }).collect())
}

/// Searches for plans and keeps them; with no time, measures those that are kept.
fn search(
    path: &Path,
    flags: &EngineFlags,
    steps: &[TunedStep],
    time: Option<Duration>,
) -> anyhow::Result<Vec<Outcome>> {
    let watch = interrupt::watch();
    let mut flags = flags.clone();
    let most = steps.iter().map(|step| step.tokens).max().unwrap_or(1);
    flags.kernels.least_tokens = most as u32;
    // The heuristics are what is compared with.
    flags.kernels.without.push("tuned".into());
    let positions = steps.iter().map(|step| step.depth + step.tokens).max().unwrap_or(1);
    let mut opened = open::passing_engine(path, &flags, Positions::Needed(positions))?;
    if !matches!(opened.machine, Machine::Cpu(_) | Machine::Cuda(_)) {
        let backend = opened.machine.backend();
        return Err(Usage(format!(
            "plans are kept for processors and NVIDIA's cards, not for {backend}; use --device cpu"
        ))
        .into());
    }
    let kept = open::kernels(flags.kernel_cache.as_ref(), &[], &flags.kernels.trusted_folders);
    let plans = opened.machine.device().tuned_plans(&kept);
    let plans = plans.context("there is no folder to keep plans in; name one with --kernel-cache")?;
    if time.is_some() {
        plans.prepare()?;
    }
    let known = plans.read().unwrap_or_else(|warning| {
        terminal::line(&format!("warning: {warning}"));
        Tuned::default()
    });
    opened.measurable()?;
    opened.prepare(&classes(&opened, steps))?;
    let start = Instant::now();
    let mut outcomes = vec![];
    for (at, &step) in steps.iter().enumerate() {
        let left = (steps.len() - at) as u32;
        let share = time.map_or(Duration::ZERO, |time| time.saturating_sub(start.elapsed()) / left);
        let told = &mut |progress: &Progress| {
            terminal::progress(&said(step, progress));
            !watch.is_hit()
        };
        // A search has at least a moment, or it would be none.
        let time = time.map_or(Duration::ZERO, |_| share.max(Duration::from_millis(1)));
        let outcome = model::tune::tune(&mut opened.engine, step, Search { time, known: &known, told })
            .with_context(|| path.display().to_string())?;
        terminal::wipe();
        if !time.is_zero() {
            plans.keep(&outcome.plans())?;
        }
        for wrong in &outcome.wrong {
            terminal::line(&format!("warning: a plan is not right and was left out, which is a bug: {wrong}"));
        }
        let end = outcome.end;
        outcomes.push(outcome);
        if end == End::Interrupted {
            break;
        }
    }
    Ok(outcomes)
}

/// The programs that the steps run, those that fill the cache included.
fn classes(opened: &Opened, steps: &[TunedStep]) -> Vec<Class> {
    let of = |step: &TunedStep| {
        let mut classes = opened.engine.classes(0..step.depth);
        classes.push(opened.engine.class_of(step.tokens, step.depth));
        classes
    };
    let mut classes: Vec<Class> = steps.iter().flat_map(of).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Ends the program as Ctrl-C does, after what was found is kept and said.
fn stopped(outcomes: &[Outcome]) -> anyhow::Result<()> {
    if outcomes.iter().any(|outcome| outcome.end == End::Interrupted) {
        terminal::line("interrupted; what was found until then is kept");
        return Err(Interrupted.into());
    }
    Ok(())
}

fn name(step: TunedStep) -> String {
    let tokens = if step.tokens == 1 { "1 token".into() } else { format!("{} tokens", step.tokens) };
    format!("{tokens} after {}", step.depth)
}

fn said(step: TunedStep, progress: &Progress) -> String {
    let Progress { kernels, better, tried, proof } = progress;
    let doing = if *proof { "measuring what was found" } else { "searching" };
    format!("{}: {doing}; {tried} plans tried for {kernels} kernels, {better} better", name(step))
}

fn ratio(default_ns: u64, tuned_ns: u64) -> f64 {
    default_ns as f64 / tuned_ns.max(1) as f64
}

/// The kernels of a step, and what they gain.
fn table(outcome: &Outcome) -> String {
    let mut out = String::new();
    let why = match outcome.end {
        End::Complete => "nothing was left to try",
        End::Time => "the time was up",
        End::Interrupted => "interrupted, not proved",
    };
    let shares: f64 = outcome.kernels.iter().map(|kernel| kernel.share).sum();
    let (step, n) = (name(outcome.step), outcome.kernels.len());
    let _ =
        writeln!(out, "{step}: {n} kernels take {:.0}% of it; {} plans tried, {why}", shares * 100.0, outcome.tried);
    let _ = writeln!(
        out,
        "{:<24} {:>5} {:>6} {:>11} {:>11} {:>6}  {:<32} origin",
        "kernel", "count", "time", "default us", "tuned us", "ratio", "plan"
    );
    for kernel in &outcome.kernels {
        let Found { symbol, origin, launches, share, default_ns, tuned_ns, default, setting, .. } = kernel;
        let plan = setting.map_or("default".into(), |setting| setting.changes(default));
        let _ = writeln!(
            out,
            "{symbol:<24} {launches:>5} {:>5.1}% {:>11.1} {:>11.1} {:>6.2}  {plan:<32} {}",
            share * 100.0,
            *default_ns as f64 / 1e3,
            *tuned_ns as f64 / 1e3,
            ratio(*default_ns, *tuned_ns),
            shortened(&without_layer(origin)),
        );
    }
    let (default, tuned) = (outcome.default_ns, outcome.tuned_ns);
    let _ = writeln!(
        out,
        "whole step: {:.1} us by default, {:.1} us tuned, ratio {:.3}\n",
        default as f64 / 1e3,
        tuned as f64 / 1e3,
        ratio(default, tuned)
    );
    out
}

/// Whether the defaults are as near as they should be.
fn verdict(outcomes: &[Outcome]) -> String {
    let kernels = || outcomes.iter().flat_map(|outcome| &outcome.kernels);
    let slow = kernels().filter(|kernel| ratio(kernel.default_ns, kernel.tuned_ns) > GOAL).count();
    let worst = kernels().map(|kernel| ratio(kernel.default_ns, kernel.tuned_ns)).fold(1.0, f64::max);
    let percent = (GOAL - 1.0) * 100.0;
    format!(
        "{slow} of {} kernels take more than {percent:.0}% longer by default than tuned; the worst ratio is {worst:.2}\n",
        kernels().count()
    )
}

fn as_json(outcome: &Outcome) -> Value {
    let kernel = |kernel: &Found| {
        json!({
            "key": format!("{:016x}", kernel.key.0),
            "kernel": kernel.symbol,
            "origin": without_layer(&kernel.origin),
            "count": kernel.launches,
            "share": kernel.share,
            "default_ns": kernel.default_ns,
            "tuned_ns": kernel.tuned_ns,
            "ratio": ratio(kernel.default_ns, kernel.tuned_ns),
            "default": kernel.default.to_string(),
            "tuned": kernel.setting.map(|setting| setting.to_string()),
        })
    };
    json!({
        "tokens": outcome.step.tokens,
        "depth": outcome.step.depth,
        "default_ns": outcome.default_ns,
        "tuned_ns": outcome.tuned_ns,
        "ratio": ratio(outcome.default_ns, outcome.tuned_ns),
        "tried": outcome.tried,
        "end": format!("{:?}", outcome.end).to_lowercase(),
        "wrong": outcome.wrong,
        "kernels": outcome.kernels.iter().map(kernel).collect::<Vec<_>>(),
    })
}

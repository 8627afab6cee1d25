//! `profile`: where the time of decoding goes, kernel by kernel.

mod ahead;
mod trace;

use crate::arguments::{EngineFlags, MeasureFlags, ModelOrDemo};
use crate::failure::Usage;
use crate::interrupt::{self, Watch};
use crate::models;
use crate::open::{self, Opened, Positions};
use crate::origin::{shortened, without_layer};
use crate::output::{self, Stdout};
use crate::peaks::{self, Bandwidth};
use crate::sampling::Sampling;
use crate::sequences::{self, Sequences};
use crate::terminal;
use crate::tune::TuneFlag;
use ahead::Ahead;
use anyhow::Context;
use compiler::program::Launch;
use device::{MatrixUnits, Profile};
use model::kernel_marks;
use model::random::Random;
use model::step::{Output, Variant};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;
use text::sampler::Draw;

/// What to profile.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOrDemo,
    /// Steps to take the mean of
    #[arg(short = 'n', long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// The same behind the model
    #[arg(value_name = "N", hide = true, conflicts_with = "steps", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps_in_place: Option<u32>,
    /// Tokens of a step; more than one profiles a prompt
    #[arg(short = 'p', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=8192))]
    tokens: u32,
    /// Sequences of which a step has a token each
    #[arg(long, visible_alias = "np", value_name = "N", default_value = "1", conflicts_with = "tokens", value_parser = clap::value_parser!(u32).range(1..=8192))]
    parallel: u32,
    /// Tokens in the cache before
    #[arg(short = 'd', long, value_name = "N", default_value = "0")]
    depth: u32,
    /// Only kernels whose name, part or origin contains this
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Print the source of the kernels too
    #[arg(long, visible_alias = "with-source")]
    source: bool,
    /// Write the last step as a trace in Chrome's format
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    measure: MeasureFlags,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    tune: TuneFlag,
}

impl Arguments {
    /// Tokens of a step, of all its sequences.
    fn step_tokens(&self) -> u32 {
        self.tokens.max(self.parallel)
    }
}

/// A kernel and where it is used; layers are not told apart.
struct Line {
    kernel: usize,
    /// The half of a block that it belongs to; empty for none.
    scope: String,
    origin: String,
    /// Launches a step.
    count: usize,
    /// Nanoseconds of all steps.
    wall_ns: u64,
    /// Bytes of all steps.
    bytes: u64,
    /// Products of codes of 8 bits with weights, and of numbers of 16 bits, of all steps.
    codes: u64,
    halves: u64,
    /// Fewest tasks of a launch.
    tasks: i64,
}

/// The sum of the steps.
struct Total {
    steps: u64,
    /// By the clock of the device, and by ours around it.
    wall_ns: u64,
    host_ns: u64,
    /// From the end of the last stage to the end of the step.
    rest_ns: u64,
    lines: Vec<Line>,
}

/// Profiles.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let (tokens, parallel, depth) = (args.tokens as usize, args.parallel as usize, args.depth as usize);
    let mut flags = args.engine.clone();
    flags.kernels.least_tokens = args.step_tokens();
    args.tune.before(&args.model, &args.engine, &args.measure)?;
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let positions = Positions::Needed(depth + tokens);
    let mut opened = match parallel {
        1 => open::engine(&path, &flags, positions, true)?,
        _ => open::shared_engine(&path, &flags, positions, sequences::sharing(parallel, depth + 1), true)?,
    };
    opened.measurable()?;
    let sampling = args.sampling.numbers();
    let of = args.step_tokens() as usize;
    let ahead = match parallel {
        1 => Ahead::of(of, &sampling, opened.engine.device().steps_ahead(), opened.machine.card().is_some()),
        _ => Ahead::None("of several sequences, steps are measured one by one"),
    };
    // Prompts and several sequences give logits, from which the host chooses.
    let draw = opened.engine.draw(&sampling).filter(|_| of == 1);
    let output = draw.map_or(Output::Logits, Output::of);
    let class = opened.engine.class_of_sequences(parallel, depth..depth + tokens);
    let variant = Variant { class, output };
    let marks = kernel_marks::of(opened.engine.compile(variant)?);
    let before = match parallel {
        1 => opened.engine.classes(0..depth),
        _ => sequences::classes(&opened.engine, parallel, depth),
    };
    let mut variants: Vec<Variant> = before.into_iter().map(Variant::from).chain([variant]).collect();
    variants.sort_unstable();
    variants.dedup();
    opened.prepare(&variants)?;
    check_filter(args, &opened, variant)?;
    let _lock = peaks::lock(&args.measure)?;
    let bandwidth = Bandwidth::of(&opened.machine, &args.measure)?.now()?;
    // One token has no matrices to multiply, and who says the bandwidth wants nothing measured.
    let units = if of > 1 && args.measure.bandwidth.is_none() { opened.machine.matrix_units()? } else { None };
    let (total, last) = measure(args, &mut opened, draw)?;
    if let Some(path) = &args.trace {
        let (program, _) = opened.engine.program(variant).context("the program is not loaded")?;
        let text = trace::chrome(&last, program);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let start = opened.engine.device().options(opened.engine.numerics()).prices.profile.stage;
    let view = View { args, opened: &opened, variant, ahead, marks, total, bandwidth, units, start };
    if !args.json {
        return output::print(&view.text());
    }
    let mut out = Stdout;
    writeln!(out, "{}", serde_json::to_string_pretty(&view.json())?)?;
    Ok(out.flush()?)
}

/// A name that matches nothing is a mistake.
fn check_filter(args: &Arguments, opened: &Opened, variant: Variant) -> anyhow::Result<()> {
    let (Some(name), Some((program, _))) = (&args.kernel, opened.engine.program(variant)) else { return Ok(()) };
    let mut launches = program.stages.iter().flat_map(|s| &s.launches);
    let names_of =
        |l: &Launch| [program.kernels[l.kernel].symbol.clone(), without_layer(&l.scope), without_layer(&l.origin)];
    if launches.any(|l| names_of(l).iter().any(|text| text.contains(name.as_str()))) {
        return Ok(());
    }
    let names: Vec<&str> = program.kernels.iter().map(|k| k.symbol.as_str()).collect();
    Err(Usage(format!("no kernel is called '{name}' (kernels: {})", names.join(", "))).into())
}

/// Computes the cache of one sequence.
fn fill(opened: &mut Opened, depth: usize, random: &mut Random, watch: &Watch) -> anyhow::Result<()> {
    let chunk = opened.engine.chunk();
    for at in (0..depth).step_by(chunk) {
        watch.check()?;
        terminal::progress(&format!("filling the cache: {at} of {depth}"));
        let n = chunk.min(depth - at);
        let tokens: Vec<u32> = (0..n).map(|_| random.token(opened.engine.config())).collect();
        opened.engine.step(&tokens, at, n - 1..n)?;
    }
    Ok(())
}

/// Runs the steps; the sum of all, and the last.
fn measure(args: &Arguments, opened: &mut Opened, draw: Option<Draw>) -> anyhow::Result<(Total, Profile)> {
    let watch = interrupt::watch();
    let mut random = Random(1);
    let depth = args.depth as usize;
    let mut sequences = match args.parallel {
        1 => {
            fill(opened, depth, &mut random, &watch)?;
            None
        }
        count => {
            let mut all = Sequences::new(&opened.engine, count as usize, depth + 1);
            all.read_prompts(&mut opened.engine, depth, &watch)?;
            Some(all)
        }
    };
    let mut total = Total { steps: 0, wall_ns: 0, host_ns: 0, rest_ns: 0, lines: vec![] };
    let mut last = None;
    // The first step warms up.
    let steps = args.steps_in_place.unwrap_or(args.steps);
    for step in 0..=u64::from(steps) {
        watch.check()?;
        terminal::progress(&format!("step {step} of {steps}"));
        let tokens: Vec<u32> = (0..args.tokens).map(|_| random.token(opened.engine.config())).collect();
        let start = Instant::now();
        let profile = match &mut sequences {
            Some(all) => opened.engine.profile_batch(all.next(depth)?)?,
            None => opened.engine.profile(&tokens, depth, draw)?,
        };
        if step > 0 {
            // A card is asked for the times of its kernels apart from the step.
            let of_step = opened.machine.card().is_some().then_some(profile.wall_ns);
            total.add(&profile, of_step.unwrap_or_else(|| start.elapsed().as_nanos() as u64));
        }
        last = Some(profile);
    }
    terminal::wipe();
    total.lines.sort_by_key(|line| std::cmp::Reverse(line.wall_ns));
    Ok((total, last.context("no step ran")?))
}

impl Total {
    fn add(&mut self, profile: &Profile, host_ns: u64) {
        self.steps += 1;
        self.wall_ns += profile.wall_ns;
        self.host_ns += host_ns;
        self.rest_ns += profile.rest_ns;
        for launch in &profile.launches {
            let (scope, origin) = (without_layer(&launch.scope), without_layer(&launch.origin));
            let is_this = |l: &&mut Line| l.kernel == launch.kernel && l.scope == scope && l.origin == origin;
            let known = self.lines.iter_mut().find(is_this);
            let line = match known {
                Some(line) => line,
                None => {
                    let kernel = launch.kernel;
                    let tasks = launch.tasks;
                    let (count, wall_ns, bytes, codes, halves) = Default::default();
                    self.lines.push(Line { kernel, scope, origin, count, wall_ns, bytes, codes, halves, tasks });
                    self.lines.last_mut().expect("pushed")
                }
            };
            line.count += usize::from(self.steps == 1);
            line.wall_ns += launch.wall_ns;
            line.bytes += launch.bytes.max(0) as u64;
            line.codes += launch.codes.max(0) as u64;
            line.halves += launch.halves.max(0) as u64;
            line.tasks = line.tasks.min(launch.tasks);
        }
    }

    /// Nanoseconds that all lines and the end of the steps take together.
    fn sum_ns(&self) -> u64 {
        self.lines.iter().map(|l| l.wall_ns).sum::<u64>() + self.rest_ns
    }

    fn per_step(&self, ns: u64) -> f64 {
        ns as f64 / self.steps.max(1) as f64
    }
}

/// A profile as it is printed.
struct View<'a> {
    args: &'a Arguments,
    opened: &'a Opened,
    variant: Variant,
    ahead: Ahead,
    /// Of each kernel.
    marks: Vec<Vec<&'static str>>,
    total: Total,
    bandwidth: f64,
    /// What the matrix units multiply at most, if there are some that matter.
    units: Option<MatrixUnits>,
    /// Microseconds between a launch and one that needs what it wrote, as the compiler has it for this device.
    start: f64,
}

impl View<'_> {
    fn symbol(&self, line: &Line) -> &str {
        let program = self.opened.engine.program(self.variant).map(|(program, _)| program);
        program.and_then(|p| p.kernels.get(line.kernel)).map_or("?", |k| k.symbol.as_str())
    }

    fn is_shown(&self, line: &Line) -> bool {
        let wanted = |name: &String| {
            [self.symbol(line), &line.scope, &line.origin].iter().any(|text| text.contains(name.as_str()))
        };
        self.args.kernel.as_ref().is_none_or(wanted)
    }

    fn marks_of(&self, line: &Line) -> Vec<&'static str> {
        let mut marks = self.marks.get(line.kernel).cloned().unwrap_or_default();
        marks.extend(kernel_marks::of_tasks(line.tasks, self.opened.workers(self.variant.class.many())));
        marks
    }

    /// Bytes a second that a line reads.
    fn rate(&self, line: &Line) -> f64 {
        line.bytes as f64 * 1e9 / line.wall_ns.max(1) as f64
    }

    /// Part of what the matrix units could multiply in the time of a line that it multiplies with weights.
    fn multiplied(&self, line: &Line) -> Option<f64> {
        let units = self.units?;
        let least = line.codes as f64 / units.codes + line.halves as f64 / units.halves;
        (least > 0.0).then(|| least * 1e9 / line.wall_ns.max(1) as f64)
    }

    /// Microseconds of a step that its launches take at least: each to read its bytes, or for those before it to be over.
    fn least(&self, line: &Line) -> f64 {
        let launches = (line.count as u64 * self.total.steps).max(1);
        let reads = line.bytes as f64 / launches as f64 / self.bandwidth * 1e6;
        line.count as f64 * reads.max(self.start)
    }

    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.total.wall_ns.max(1) as f64
    }

    /// Bytes that a step reads, the cache included.
    fn bytes(&self) -> f64 {
        let all: u64 = self.total.lines.iter().map(|l| l.bytes).sum();
        all as f64 / self.total.steps.max(1) as f64
    }

    fn text(&self) -> String {
        let total = &self.total;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{:<28} {:>5} {:>10} {:>8} {:>6} {:>8} {:>6}{}  {:<22} {:<10} origin",
            "kernel",
            "count",
            "us",
            "least",
            "time",
            "GB/s",
            "peak",
            if self.units.is_some() { "  units" } else { "" },
            "marks",
            "part"
        );
        for line in total.lines.iter().filter(|line| self.is_shown(line)) {
            let _ = writeln!(
                out,
                "{:<28} {:>5} {:>10.1} {:>8.1} {:>5.1}% {:>8.2} {:>5.0}%{}  {:<22} {:<10} {}",
                self.symbol(line),
                line.count,
                total.per_step(line.wall_ns) / 1e3,
                self.least(line),
                self.share(line.wall_ns) * 100.0,
                self.rate(line) / 1e9,
                self.rate(line) / self.bandwidth * 100.0,
                match (self.units, self.multiplied(line)) {
                    (None, _) => String::new(),
                    (Some(_), None) => format!("{:>7}", "-"),
                    (Some(_), Some(share)) => format!("{:>6.0}%", share * 100.0),
                },
                self.marks_of(line).join(", "),
                line.scope,
                shortened(&line.origin),
            );
        }
        if self.args.source {
            out += &self.sources();
        }
        let (sum, wall) = (total.sum_ns(), total.host_ns);
        let _ = writeln!(
            out,
            "sum of kernels {:.1} us and end of step {:.1} us: {:.1}% of {:.1} us by the host's clock{}",
            total.per_step(sum - total.rest_ns) / 1e3,
            total.per_step(total.rest_ns) / 1e3,
            sum as f64 / wall.max(1) as f64 * 100.0,
            total.per_step(wall) / 1e3,
            if self.sum_is_whole() { "" } else { " (MISMATCH: the times above do not explain the step)" },
        );
        if let Some((_, log)) = self.opened.engine.program(self.variant) {
            log.choices.iter().filter(|line| line.starts_with("choice")).for_each(|line| {
                let _ = writeln!(out, "{line}");
            });
        }
        let _ = writeln!(out, "{}", self.ahead);
        out += &self.last_line();
        out.push('\n');
        out
    }

    /// Whether the times explain what the host saw, up to 5% and what starting a step costs. A card has a clock of its own, by
    /// which a prompt may take 0.2% longer than by that of the host.
    fn sum_is_whole(&self) -> bool {
        let (sum, wall) = (self.total.sum_ns() as f64, self.total.host_ns as f64);
        sum <= wall * 1.005 && wall - sum <= 0.05 * wall + 50e3 * self.total.steps as f64
    }

    fn last_line(&self) -> String {
        let Some((program, log)) = self.opened.engine.program(self.variant) else { return String::new() };
        let tokens = f64::from(self.args.step_tokens());
        let limit = self.bandwidth / self.bytes().max(1.0) * tokens;
        let reached = tokens * 1e9 / self.total.per_step(self.total.host_ns).max(1.0);
        format!(
            "{} kernels in {} stages; schedule cache {} hits, {} misses; {:.2} MB a step; limit {limit:.2} tok/s, \
             reached {reached:.2}, {:.0}% of it",
            program.launches(),
            program.stages.len(),
            log.hits,
            log.misses,
            self.bytes() / 1e6,
            reached / limit * 100.0
        )
    }

    fn sources(&self) -> String {
        let mut shown: Vec<usize> = self.total.lines.iter().filter(|l| self.is_shown(l)).map(|l| l.kernel).collect();
        shown.sort_unstable();
        shown.dedup();
        let Some((program, _)) = self.opened.engine.program(self.variant) else { return String::new() };
        shown.iter().map(|&kernel| format!("\n{}\n", program.kernels[kernel].source.trim_end())).collect()
    }

    fn json(&self) -> Value {
        let total = &self.total;
        let source = |kernel: usize| {
            let (program, _) = self.opened.engine.program(self.variant)?;
            Some(program.kernels[kernel].source.clone())
        };
        let line = |line: &Line| {
            let mut object = json!({
                "kernel": self.symbol(line),
                "part": line.scope,
                "origin": line.origin,
                "count": line.count,
                "ns": total.per_step(line.wall_ns),
                "least_ns": self.least(line) * 1e3,
                "share": self.share(line.wall_ns),
                "bytes": line.bytes / total.steps.max(1),
                "gb_per_s": self.rate(line) / 1e9,
                "peak_share": self.rate(line) / self.bandwidth,
                "matrix_unit_share": self.multiplied(line),
                "tasks": line.tasks,
                "marks": self.marks_of(line),
            });
            if self.args.source {
                object["source"] = json!(source(line.kernel));
            }
            object
        };
        let (program, log) = match self.opened.engine.program(self.variant) {
            Some((program, log)) => (Some(program), Some(log)),
            None => (None, None),
        };
        let tokens = f64::from(self.args.step_tokens());
        let limit = self.bandwidth / self.bytes().max(1.0) * tokens;
        let reached = tokens * 1e9 / total.per_step(total.host_ns).max(1.0);
        json!({
            "device": self.opened.engine.device().name(),
            "tokens": self.args.tokens,
            "sequences": self.args.parallel,
            "depth": self.args.depth,
            "steps": total.steps,
            "output": self.variant.output.name(),
            "steps_ahead": self.ahead.steps(),
            "none_ahead_because": self.ahead.reason(),
            "lines": total.lines.iter().filter(|l| self.is_shown(l)).map(line).collect::<Vec<_>>(),
            "rest_ns": total.per_step(total.rest_ns),
            "sum_ns": total.per_step(total.sum_ns()),
            "wall_ns": total.per_step(total.host_ns),
            "sum_is_whole": self.sum_is_whole(),
            "kernels": program.map(|p| p.launches()),
            "distinct_kernels": program.map(|p| p.kernels.len()),
            "stages": program.map(|p| p.stages.len()),
            "schedule_cache_hits": log.map(|l| l.hits),
            "schedule_cache_misses": log.map(|l| l.misses),
            "choices": log.map(|l| &l.choices),
            "bytes_per_step": self.bytes().round() as u64,
            "bandwidth": self.bandwidth,
            "matrix_units": self.units.map(|units| json!({"codes": units.codes, "halves": units.halves})),
            "limit_ts": limit,
            "reached_ts": reached,
            "share": reached / limit,
        })
    }
}

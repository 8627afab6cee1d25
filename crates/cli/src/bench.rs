//! `bench`: prompt and decoding speed, with the tests and columns of llama-bench.
//!
//! Only steps are timed: no tokenizer, no sampler but that of a device which chooses tokens itself. Tokens are random, from a
//! fixed seed. Depth is filled once a test;
//! each repetition overwrites what the one before wrote behind it.

mod batched;
mod block;
mod each_off;
mod machine;
mod record;
mod report;
mod turns;

use crate::arguments::{EngineFlags, MeasureFlags, ModelOrDemo};
use crate::failure::Usage;
use crate::interrupt::{self, Watch};
use crate::models;
use crate::numbers::Counts;
use crate::open::{self, Opened, Positions};
use crate::peaks::{self, Bandwidth};
use crate::terminal;
use crate::tune::TuneFlag;
use model::engine::Engine;
use model::random::Random;
use model::sent::Arriving;
use model::step::{Class, Variant};
use model::steps::Steps;
use record::Record;
use report::{Format, Report, Row};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;
use text::sampler::{Draw, SamplerConfig};

/// What to measure.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOrDemo,
    /// Lengths of prompts; 0 is none
    #[arg(short = 'p', long, value_name = "N", default_value = "512")]
    n_prompt: Counts,
    /// Numbers of tokens to decode; 0 is none
    #[arg(short = 'n', long, value_name = "N", default_value = "128")]
    n_gen: Counts,
    /// A prompt and then tokens to decode, timed together (-pg)
    #[arg(long, value_name = "N,M")]
    prompt_and_gen: Vec<Pair>,
    /// Tokens in the cache before each test
    #[arg(short = 'd', long, value_name = "N", default_value = "0")]
    n_depth: Counts,
    /// Repetitions
    #[arg(short, long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=10000))]
    repetitions: u32,
    /// Decode so many sequences at a time, with the columns of llama-batched-bench (-np)
    #[arg(long, value_name = "N", conflicts_with_all = ["n_depth", "prompt_and_gen", "block"])]
    parallel: Option<Counts>,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "md")]
    output: Format,
    /// What the cache holds before a test at a depth: of tokens that are computed, or random numbers, which takes no time
    #[arg(long, value_enum, default_value = "computed")]
    fill: Fill,
    /// Do not run each test once before it is timed
    #[arg(long)]
    no_warmup: bool,
    /// Measure one block and its feed-forward instead; --block N takes medians of at least N times (30)
    #[arg(long)]
    block: bool,
    /// Least number of times that the medians of --block are taken over; also behind it
    #[arg(long, value_name = "N", default_value = "30", hide = true, requires = "block",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    block_times: u32,
    /// Measure by turns with other flags of the engine, or another model: --ab '--without merge'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, conflicts_with_all = ["parallel", "block", "machine"])]
    ab: Option<String>,
    /// Measure by turns with each pass left out, as `kernloom passes` lists them; with -p 0 -n 0 only count kernels
    #[arg(long, conflicts_with_all = ["parallel", "block", "ab", "machine"])]
    each_off: bool,
    /// Where else to look for what changes nothing on the model, in this order: --also '-m MODEL' --also '-ctk q8_0'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, requires = "each_off")]
    also: Vec<String>,
    /// Turns of --ab and --each-off [default: as many as repetitions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10000))]
    rounds: Option<u32>,
    /// Markdown file whose table gets the figures of --each-off
    #[arg(long, value_name = "FILE", requires = "each_off")]
    into: Option<PathBuf>,
    /// Write what this machine is, what the model that comes with the program says on the device, and all results to a file to send
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parallel", "block", "ab", "each_off", "machine"])]
    report: Option<PathBuf>,
    /// Measure what the machine can do at most, without a model
    #[arg(long, conflicts_with_all = ["parallel", "block"])]
    machine: bool,
    #[command(flatten)]
    measure: MeasureFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    tune: TuneFlag,
}

/// Lengths of a prompt and of what is decoded after it.
#[derive(Clone, Copy, Debug)]
struct Pair(usize, usize);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Pair, String> {
        match text.parse::<Counts>()?.0[..] {
            [prompt, gen_] if prompt > 0 && gen_ > 0 => Ok(Pair(prompt, gen_)),
            _ => Err("two numbers above 0 are needed, as in 512,128".into()),
        }
    }
}

/// One test: a prompt, tokens decoded after it, and what the cache holds before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    pub prompt: usize,
    pub generated: usize,
    pub depth: usize,
}

impl Test {
    fn tokens(&self) -> usize {
        self.prompt + self.generated
    }

    /// Whether it decodes and nothing else: then the bandwidth bounds it.
    fn decodes(&self) -> bool {
        self.prompt == 0
    }

    /// The first and the last position of a token that it decodes, or that would follow.
    fn decoded(&self) -> [usize; 2] {
        let first = self.depth + self.prompt;
        [first, first + self.generated.saturating_sub(1)]
    }

    fn classes(&self, engine: &Engine) -> Vec<Class> {
        let prompt = self.depth + self.prompt;
        [engine.classes(0..self.depth), engine.classes(self.depth..prompt)].concat()
    }
}

/// Measures.
pub fn run(args: Arguments) -> anyhow::Result<()> {
    if args.machine {
        return machine::run(&args);
    }
    args.tune.before(&args.model, &args.engine, &args.measure)?;
    if let Some(parallel) = &args.parallel {
        return batched::run(&args, &parallel.0);
    }
    let tests = tests(&args);
    if tests.is_empty() && !args.block && !args.each_off {
        return Err(Usage("nothing to measure: -p and -n are 0".into()).into());
    }
    if let Some(setting) = &args.ab {
        return turns::run(&args, setting, &tests);
    }
    if args.each_off {
        return each_off::run(&args, &tests);
    }
    let mut record = args.report.as_ref().map(|file| Record::of_machine(file, &args.engine)).transpose()?;
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let tests = match args.block {
        true => args.n_depth.0.iter().map(|&depth| Test { prompt: 0, generated: 1, depth }).collect(),
        false => tests,
    };
    let mut opened = ready(&path, &args.engine, &tests, true)?;
    let _lock = peaks::lock(&args.measure)?;
    let watch = interrupt::watch();
    if args.block {
        return block::run(&mut opened, &args.n_depth.0, args.block_times as usize, &watch);
    }
    let decodes = tests.iter().any(Test::decodes);
    let mut bandwidth = decodes.then(|| Bandwidth::of(&opened.machine, &args.measure)).transpose()?;
    let mut report = Report::new(args.output, &path, &opened, &args.engine)?;
    for test in tests {
        let beside = bandwidth.as_mut().filter(|_| test.decodes());
        let (times, reads) = times(&mut opened, test, &args, &watch, beside)?;
        let row = Row::new(&opened, test, times, &reads);
        record.iter_mut().for_each(|record| record.add(report.object(&row)));
        report.add(&row)?;
    }
    report.finish()?;
    record.map_or(Ok(()), Record::finish)
}

fn tests(args: &Arguments) -> Vec<Test> {
    let mut tests = vec![];
    for &depth in &args.n_depth.0 {
        let prompts = args.n_prompt.0.iter().map(|&prompt| Test { prompt, generated: 0, depth });
        let decodes = args.n_gen.0.iter().map(|&generated| Test { prompt: 0, generated, depth });
        let both = args.prompt_and_gen.iter().map(|&Pair(prompt, generated)| Test { prompt, generated, depth });
        tests.extend(prompts.chain(decodes).chain(both).filter(|test| test.tokens() > 0));
    }
    tests
}

/// Opens a model and compiles the programs that tests need, and that of one token.
fn ready(path: &Path, flags: &EngineFlags, tests: &[Test], talk: bool) -> anyhow::Result<Opened> {
    let positions = tests.iter().map(|t| t.depth + t.tokens()).max().unwrap_or(1);
    let mut opened = open::engine(path, flags, Positions::Needed(positions), talk)?;
    opened.measurable()?;
    let variants = variants(tests, &opened.engine);
    opened.prepare(&variants)?;
    Ok(opened)
}

/// The program that decodes a token at a position.
fn decoding(engine: &Engine, at: usize) -> Variant {
    engine.decoding(&SamplerConfig::greedy(), at)
}

/// Where tests decode; at the beginning, if there are none and programs are only counted.
fn decoded(tests: &[Test]) -> Vec<usize> {
    if tests.is_empty() { vec![0] } else { tests.iter().flat_map(|test| test.decoded()).collect() }
}

/// The programs that tests need, and those that decode.
fn variants(tests: &[Test], engine: &Engine) -> Vec<Variant> {
    let of_prompts = tests.iter().flat_map(|t| t.classes(engine)).map(Variant::from);
    let mut variants: Vec<Variant> =
        of_prompts.chain(decoded(tests).into_iter().map(|at| decoding(engine, at))).collect();
    variants.sort_unstable();
    variants.dedup();
    variants
}

/// Nanoseconds of every repetition, and the bandwidth right before each of them, where it is asked for.
fn times(
    opened: &mut Opened,
    test: Test,
    args: &Arguments,
    watch: &Watch,
    mut bandwidth: Option<&mut Bandwidth>,
) -> anyhow::Result<(Vec<u64>, Vec<f64>)> {
    terminal::progress(&format!("{}: filling the cache and warming up", report::name(test)));
    let mut running = Running::new(opened, test, watch, args.fill, !args.no_warmup)?;
    let (mut times, mut reads) = (vec![], vec![]);
    for repetition in 1..=args.repetitions {
        terminal::progress(&format!("{}: {repetition} of {}", report::name(test), args.repetitions));
        reads.extend(bandwidth.as_mut().map(|bandwidth| bandwidth.now()).transpose()?);
        times.push(running.repetition()?);
    }
    terminal::wipe();
    Ok((times, reads))
}

/// What the cache holds before a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Fill {
    /// What tokens gave
    Computed,
    /// Numbers that no tokens gave
    Random,
}

/// A test on an engine whose cache is filled to its depth.
struct Running<'a> {
    opened: &'a mut Opened,
    test: Test,
    random: Random,
    watch: &'a Watch,
}

impl<'a> Running<'a> {
    fn new(
        opened: &'a mut Opened,
        test: Test,
        watch: &'a Watch,
        fill: Fill,
        warm: bool,
    ) -> anyhow::Result<Running<'a>> {
        let mut running = Running { opened, test, random: Random(1), watch };
        match fill {
            Fill::Computed => running.prompt(test.depth, 0)?,
            Fill::Random => {
                let Running { opened, random, .. } = &mut running;
                opened.engine.fill_cache(test.depth, || random.below(1 << 31) << 1)?;
                terminal::line(&format!("{}: the cache holds random numbers", report::name(test)));
            }
        }
        if warm {
            running.prompt(test.prompt, test.depth)?;
            running.decode(test.generated.min(1), test.depth + test.prompt)?;
        }
        Ok(running)
    }

    /// Runs the test once; nanoseconds that it took.
    fn repetition(&mut self) -> anyhow::Result<u64> {
        let Test { prompt, generated, depth } = self.test;
        self.opened.engine.go_on_from(depth);
        let start = Instant::now();
        self.prompt(prompt, depth)?;
        self.decode(generated, depth + prompt)?;
        Ok(start.elapsed().as_nanos() as u64)
    }

    /// Computes `n` tokens from position `start` on, in steps of as many as the engine takes.
    fn prompt(&mut self, n: usize, start: usize) -> anyhow::Result<()> {
        let chunk = self.opened.engine.chunk();
        for at in (0..n).step_by(chunk) {
            self.watch.check()?;
            let tokens = self.tokens(chunk.min(n - at));
            self.opened.engine.step(&tokens, start + at, tokens.len() - 1..tokens.len())?;
        }
        Ok(())
    }

    /// Computes `n` tokens one by one; where the device chooses tokens itself, those that follow from a random one.
    fn decode(&mut self, n: usize, start: usize) -> anyhow::Result<()> {
        let engine = &mut self.opened.engine;
        if n > 0 {
            engine.config().check_goes_on()?;
        }
        let ahead = engine.ahead();
        let mut flight = VecDeque::new();
        for at in 0..n {
            self.watch.check()?;
            let token = self.random.token(engine.config());
            if ahead == 0 {
                engine.step(&[token], start + at, 0..1)?;
                continue;
            }
            flight.push_back(engine.send_token((at == 0).then_some(token), start + at, Draw::GREEDY)?);
            if flight.len() > ahead {
                flight.pop_front().map(Arriving::tokens).transpose()?;
            }
        }
        flight.into_iter().try_for_each(|last| last.tokens().map(drop))?;
        Ok(())
    }

    fn tokens(&mut self, n: usize) -> Vec<u32> {
        (0..n).map(|_| self.random.token(self.opened.engine.config())).collect()
    }
}

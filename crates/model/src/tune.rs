//! A search for faster plans of a model's kernels, on the model's own steps.
//!
//! A step runs by the program of the heuristics and by others in turn. In each of these, every kernel that takes time
//! has another setting, and the times of all launches are taken, so that one step tries a setting of each kernel. What
//! a kernel reads is then what it reads in use: weights of its own for each layer, from memory, and what other kernels
//! left in the caches. Times are the sum over launches of the least of several steps, always against the heuristics in
//! the same minute. What is kept in the end has to win once more, all together, by the least and by the median.
//!
//! Before it is timed, a program has to give the logits that the heuristics give.

mod beam;

use crate::engine::{Engine, Loaded};
use crate::error::EngineError;
use crate::median::median;
use crate::random::Random;
use crate::step::{Output, Variant};
use beam::Beam;
use compiler::program::retile::Retiled;
use compiler::program::{Count, Launch, Program};
use compiler::{Compiled, KernelKey, Numerics, Setting, Tuned};
use device::{Clock, Profile};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Programs that take turns with the one of the heuristics.
const SIDE_BY_SIDE: usize = 3;

/// A kernel that takes less of a step is left alone.
const LEAST_SHARE: f64 = 0.01;

/// A setting has to make a kernel so much faster to be kept: less than that is noise.
const LEAST_GAIN: f64 = 0.03;

/// Turns of a program: as many steps as take this long, within limits.
const TURNS_TIME: Duration = Duration::from_millis(500);
const LEAST_TURNS: u32 = 3;
const MOST_TURNS: u32 = 9;

/// So many times the turns are taken of what is kept, before it is.
const PROOF: u32 = 3;

/// NMSE of logits by another order of sums, at most: see `crates/model/tests/switches.rs`.
const EXACT: f64 = 1e-9;
const INT8: f64 = 2e-2;

/// As [`INT8`], at most: a layer of experts may choose others, which doubles what comes out of the layers before. Logits that have
/// nothing to do with each other are at 2.
const INT8_MIXTURE: f64 = 1.5;

/// A step to find plans for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunedStep {
    /// Its tokens.
    pub tokens: usize,
    /// Tokens in the cache before.
    pub depth: usize,
}

/// What a search may do, and who hears of it.
pub struct Search<'a> {
    /// How long it may take; with nothing at all, what is known is only measured.
    pub time: Duration,
    /// Plans that were found before, to go on from.
    pub known: &'a Tuned,
    /// Hears how far the search is, and says whether to go on.
    pub told: &'a mut dyn FnMut(&Progress) -> bool,
}

/// How far a search is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Kernels that are looked at.
    pub kernels: usize,
    /// Kernels that have a better plan than that of the heuristics.
    pub better: usize,
    /// Plans that were tried.
    pub tried: usize,
    /// Whether the result is being proved.
    pub proof: bool,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing was left to try.
    Complete,
    /// The time was up.
    Time,
    /// It was told to.
    Interrupted,
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The step.
    pub step: TunedStep,
    /// The kernels that take time, longest first.
    pub kernels: Vec<Found>,
    /// Nanoseconds of a step by the heuristics, and by what was found.
    pub default_ns: u64,
    /// See `default_ns`.
    pub tuned_ns: u64,
    /// Plans that were tried.
    pub tried: usize,
    /// Why it ended.
    pub end: End,
    /// Plans that gave other results, which is a bug of the compiler.
    pub wrong: Vec<String>,
}

/// What was found for a kernel.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is.
    pub key: KernelKey,
    /// Its name in the program of the heuristics.
    pub symbol: String,
    /// The layer and operations of its first launch.
    pub origin: String,
    /// Launches a step.
    pub launches: usize,
    /// Its part of a step, from 0 to 1.
    pub share: f64,
    /// Nanoseconds of all its launches in a step by the heuristics, and by what was found: the time of the processors,
    /// divided among them.
    pub default_ns: u64,
    /// See `default_ns`.
    pub tuned_ns: u64,
    /// What the heuristics say.
    pub default: Setting,
    /// What is better; `None` if nothing is.
    pub setting: Option<Setting>,
}

impl Outcome {
    /// What is to be kept: the better settings, and which kernels have none. A search that was interrupted does not
    /// know of the latter.
    pub fn plans(&self) -> BTreeMap<KernelKey, Option<Setting>> {
        let told = self.kernels.iter().filter(|kernel| kernel.setting.is_some() || self.end != End::Interrupted);
        told.map(|kernel| (kernel.key, kernel.setting)).collect()
    }
}

/// Searches for faster plans of the kernels of a step. The engine must not use plans that were found before.
///
/// # Errors
/// Of the compiler and of the device, and a step that is too long for the engine.
pub fn tune(engine: &mut Engine, step: TunedStep, search: Search<'_>) -> Result<Outcome, EngineError> {
    let deadline = Instant::now() + search.time;
    let variant = Variant::from(engine.class_of(step.tokens, step.depth));
    let compiled = engine.build(variant)?;
    let mut bench = Bench::new(engine, step)?;
    let first = bench.heuristics(bench.turns)?;
    let launches: Vec<usize> = launches(&compiled.program).collect();
    let most = most(bench.engine);
    let mut tuner = Tuner {
        kernels: kernels(&compiled, &launches, &first, search.known),
        bench,
        compiled,
        launches,
        most,
        told: search.told,
        tried: 0,
        wrong: vec![],
    };
    let end = if search.time.is_zero() { Ok(End::Complete) } else { tuner.search(deadline) };
    let end = unless_stopped(end)?;
    let mut outcome = tuner.outcome(step, &first, end);
    if end != End::Interrupted {
        let proved = tuner.prove(&mut outcome).map(|()| outcome.end);
        outcome.end = unless_stopped(proved)?;
    }
    Ok(outcome)
}

/// NMSE that logits of an engine may have by another order of sums.
fn most(engine: &Engine) -> f64 {
    let config = engine.config();
    let mixtures = (0..config.layers).filter(|&layer| config.experts_of(layer).is_some()).count();
    match engine.numerics() {
        Numerics::Exact => EXACT,
        Numerics::Int8 => INT8_MIXTURE.min(INT8 * 2f64.powi(mixtures as i32)),
    }
}

/// A compiler that was told to end is an end of the search like others.
fn unless_stopped(end: Result<End, EngineError>) -> Result<End, EngineError> {
    end.or_else(|error| if error.is_stopped() { Ok(End::Interrupted) } else { Err(error) })
}

/// The kernel of each launch.
fn launches(program: &Program) -> impl Iterator<Item = usize> {
    program.each_launch().map(|launch| launch.kernel)
}

/// The first launch of a kernel.
fn first_launch(program: &Program, kernel: usize) -> Option<&Launch> {
    program.each_launch().find(|launch| launch.kernel == kernel)
}

/// The kernels that take time, longest first.
fn kernels(compiled: &Compiled, launches: &[usize], times: &Times, known: &Tuned) -> Vec<Tried> {
    let whole: u64 = times.launches.iter().sum();
    let mut all: Vec<Tried> = vec![];
    for (number, kernel) in compiled.program.kernels.iter().enumerate() {
        let Some(key) = compiled.key(number) else { continue };
        let ns = times.of(launches, number);
        if (ns as f64) < LEAST_SHARE * whole as f64 {
            continue;
        }
        let known = known.0.get(&key).copied();
        let beam = Beam::new(&compiled.machine, known);
        let default = Setting::of(&compiled.machine);
        let tasks = first_launch(&compiled.program, number).map_or(Count::default(), |launch| launch.tasks.clone());
        let sources = HashSet::from([(kernel.source.clone(), tasks)]);
        all.push(Tried { number, key, ns, default, known, beam, sources });
    }
    all.sort_by_key(|kernel| std::cmp::Reverse(kernel.ns));
    all
}

/// The search of a kernel.
struct Tried {
    /// In the program.
    number: usize,
    key: KernelKey,
    /// Nanoseconds by the heuristics.
    ns: u64,
    /// What the heuristics say.
    default: Setting,
    /// What was found before.
    known: Option<Setting>,
    beam: Beam,
    /// Sources and numbers of tasks that were tried: many settings are the same for a kernel.
    sources: HashSet<(String, Count)>,
}

impl Tried {
    /// The next setting whose kernel is new.
    fn next(&mut self, compiled: &mut Compiled) -> Option<(Setting, Retiled)> {
        while let Some(setting) = self.beam.next() {
            let Some(kernel) = compiled.kernel_by(self.number, &setting) else { continue };
            let (source, tasks) = kernel.source();
            if self.sources.insert((source.to_owned(), tasks.clone())) {
                return Some((setting, kernel));
            }
        }
        None
    }

    /// Whether there is nothing left to try.
    fn is_done(&mut self) -> bool {
        match self.beam.next() {
            Some(setting) => {
                self.beam.put_back(setting);
                false
            }
            None => true,
        }
    }

    /// The best setting, if it is worth being kept.
    fn better(&self) -> Option<(Setting, f64)> {
        Some(self.beam.winner()).filter(|(_, ratio)| *ratio <= 1.0 - LEAST_GAIN)
    }
}

/// A kernel by its place in [`Tuner::kernels`], and its setting in a program.
type Try = (usize, Setting);

/// Searches all kernels of a step.
struct Tuner<'a, 'e> {
    bench: Bench<'e>,
    compiled: Compiled,
    /// The kernel of each launch.
    launches: Vec<usize>,
    kernels: Vec<Tried>,
    /// NMSE of logits at most.
    most: f64,
    told: &'a mut dyn FnMut(&Progress) -> bool,
    tried: usize,
    wrong: Vec<String>,
}

impl Tuner<'_, '_> {
    /// Tries settings until there are none, or the time is up, or somebody says so.
    fn search(&mut self, deadline: Instant) -> Result<End, EngineError> {
        let mut longest = Duration::ZERO;
        loop {
            let start = Instant::now();
            if !self.tell(false) {
                return Ok(End::Interrupted);
            }
            // What is found has to be proved in the same time.
            let proof = self.bench.step_time * (2 * PROOF * self.bench.turns);
            if start + longest + proof > deadline && !longest.is_zero() {
                return Ok(End::Time);
            }
            let mut programs: Vec<(Loaded, Vec<Try>)> = vec![];
            for _ in 0..SIDE_BY_SIDE {
                let (program, tries) = self.next_program();
                if tries.is_empty() {
                    break;
                }
                programs.extend(self.checked(program, tries)?);
                // Compiling takes most of the time of a round: what is compiled is to be measured too.
                if start.elapsed() > deadline.saturating_duration_since(start) / SIDE_BY_SIDE as u32 {
                    break;
                }
            }
            if programs.is_empty() && self.kernels.iter_mut().all(|kernel| kernel.is_done()) {
                return Ok(End::Complete);
            }
            if !self.measure(&mut programs)? {
                return Ok(End::Interrupted);
            }
            longest = longest.max(start.elapsed());
        }
    }

    /// Says how far it is; whether to go on.
    fn tell(&mut self, proof: bool) -> bool {
        let better = self.kernels.iter().filter(|kernel| kernel.better().is_some()).count();
        (self.told)(&Progress { kernels: self.kernels.len(), better, tried: self.tried, proof })
    }

    /// The program of the heuristics with the next setting of each kernel.
    fn next_program(&mut self) -> (Program, Vec<Try>) {
        let mut program = self.compiled.program.clone();
        let mut tries = vec![];
        for (place, kernel) in self.kernels.iter_mut().enumerate() {
            if let Some((setting, new)) = kernel.next(&mut self.compiled) {
                new.put_into(&mut program);
                tries.push((place, setting));
            }
        }
        (program, tries)
    }

    /// The program, if its results are those of the heuristics. Otherwise the kernels to blame are found, and the
    /// program has the others' settings alone.
    fn checked(&mut self, program: Program, tries: Vec<Try>) -> Result<Option<(Loaded, Vec<Try>)>, EngineError> {
        if let Ok(loaded) = self.right(program)? {
            return Ok(Some((loaded, tries)));
        }
        let mut innocent = vec![];
        for &one in &tries {
            let alone = self.with(&[one]);
            match self.right(alone)? {
                Ok(_) => innocent.push(one),
                Err(problem) => {
                    let (kernel, setting) = (&self.kernels[one.0], one.1);
                    let symbol = &self.compiled.program.kernels[kernel.number].symbol;
                    self.wrong.push(format!("{symbol} with {setting}: {problem}"));
                }
            }
        }
        if innocent.is_empty() {
            return Ok(None);
        }
        let program = self.with(&innocent);
        match self.right(program)? {
            Ok(loaded) => Ok(Some((loaded, innocent))),
            Err(problem) => {
                self.wrong.push(format!("{} plans that are right one by one: {problem}", innocent.len()));
                Ok(None)
            }
        }
    }

    /// A program that gives what that of the heuristics gives, or what is wrong with it.
    fn right(&mut self, program: Program) -> Result<Result<Loaded, String>, EngineError> {
        let mut loaded = match self.bench.engine.load(Arc::new(program), Default::default()) {
            Ok(loaded) => loaded,
            Err(error) if error.is_stopped() => return Err(error),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let nmse = self.bench.nmse(&mut loaded)?;
        Ok(if nmse <= self.most { Ok(loaded) } else { Err(format!("NMSE {nmse:.1e}")) })
    }

    /// The program of the heuristics with these settings.
    fn with(&mut self, tries: &[Try]) -> Program {
        let mut program = self.compiled.program.clone();
        for &(place, setting) in tries {
            let number = self.kernels[place].number;
            if let Some(kernel) = self.compiled.kernel_by(number, &setting) {
                kernel.put_into(&mut program);
            }
        }
        program
    }

    /// Measures programs in turn with that of the heuristics. Whether to go on.
    fn measure(&mut self, programs: &mut [(Loaded, Vec<Try>)]) -> Result<bool, EngineError> {
        let (mut base, mut times) = (Times::default(), vec![Times::default(); programs.len()]);
        for _ in 0..self.bench.turns {
            if !self.tell(false) {
                return Ok(false);
            }
            base.take(&self.bench.step(None)?);
            for ((loaded, _), times) in programs.iter_mut().zip(&mut times) {
                times.take(&self.bench.step(Some(loaded))?);
            }
        }
        for ((_, tries), times) in programs.iter().zip(&times) {
            for &(place, setting) in tries {
                let kernel = &mut self.kernels[place];
                let (new, old) = (times.of(&self.launches, kernel.number), base.of(&self.launches, kernel.number));
                kernel.beam.measured(setting, new as f64 / old.max(1) as f64);
                self.tried += 1;
            }
        }
        Ok(true)
    }

    /// What was found, before it is proved.
    fn outcome(&self, step: TunedStep, first: &Times, end: End) -> Outcome {
        let whole: u64 = first.launches.iter().sum();
        let origin = |number: usize| {
            first_launch(&self.compiled.program, number).map_or(String::new(), |launch| launch.origin.clone())
        };
        let found = |kernel: &Tried| {
            let searched = self.tried > 0;
            let better = if searched { kernel.better() } else { kernel.known.map(|known| (known, 1.0)) };
            Found {
                key: kernel.key,
                symbol: self.compiled.program.kernels[kernel.number].symbol.clone(),
                origin: origin(kernel.number),
                launches: self.launches.iter().filter(|&&k| k == kernel.number).count(),
                share: kernel.ns as f64 / whole.max(1) as f64,
                default_ns: kernel.ns,
                tuned_ns: better.map_or(kernel.ns, |(_, ratio)| (kernel.ns as f64 * ratio) as u64),
                default: kernel.default,
                setting: better.map(|(setting, _)| setting),
            }
        };
        Outcome {
            step,
            kernels: self.kernels.iter().map(found).collect(),
            default_ns: first.step(),
            tuned_ns: first.step(),
            tried: self.tried,
            end,
            wrong: self.wrong.clone(),
        }
    }

    /// Measures all that was found together, and drops what does not hold. Kernels that run beside each other may gain apart
    /// and lose together: then those stay that make a step faster alone.
    fn prove(&mut self, outcome: &mut Outcome) -> Result<(), EngineError> {
        let Some(all) = self.turns(outcome, |_| true)? else { return Ok(()) };
        let proof = match all.gains() {
            true => all,
            false => {
                for place in 0..outcome.kernels.len() {
                    if outcome.kernels[place].setting.is_none() {
                        continue;
                    }
                    let Some(alone) = self.turns(outcome, |other| other == place)? else { return Ok(()) };
                    if !alone.gains() {
                        outcome.kernels[place].setting = None;
                    }
                }
                let Some(rest) = self.turns(outcome, |_| true)? else { return Ok(()) };
                rest
            }
        };
        let Proof { base, tuned } = &proof;
        (outcome.default_ns, outcome.tuned_ns) = (base.step(), tuned.step());
        for (kernel, found) in self.kernels.iter().zip(&mut outcome.kernels) {
            let (launches, number) = (&self.launches, kernel.number);
            let (old, new) = (base.of(launches, number), tuned.of(launches, number));
            let medians = [base.median(launches, number), tuned.median(launches, number)];
            (found.default_ns, found.tuned_ns) = (old, new);
            // A single lucky step is no proof.
            let gains = |old: u64, new: u64| new as f64 <= (1.0 - LEAST_GAIN) * old as f64;
            if !proof.gains() || found.setting.is_none() || !gains(old, new) || !gains(medians[0], medians[1]) {
                (found.setting, found.tuned_ns) = (None, old);
            }
        }
        Ok(())
    }

    /// Steps by the heuristics and by what was found for these kernels, in turns; `None` if that is not right, or somebody says
    /// not to go on.
    fn turns(&mut self, outcome: &mut Outcome, wanted: impl Fn(usize) -> bool) -> Result<Option<Proof>, EngineError> {
        let found = outcome.kernels.iter().enumerate().filter(|(place, _)| wanted(*place));
        let tries: Vec<Try> = found.filter_map(|(place, found)| Some((place, found.setting?))).collect();
        let program = self.with(&tries);
        let mut loaded = match self.right(program)? {
            Ok(loaded) => loaded,
            Err(problem) => {
                outcome.wrong.push(format!("{} plans that were found, together: {problem}", tries.len()));
                outcome.kernels.iter_mut().for_each(|found| (found.setting, found.tuned_ns) = (None, found.default_ns));
                return Ok(None);
            }
        };
        let mut proof = Proof::default();
        for turn in 0..PROOF * self.bench.turns {
            if !self.tell(true) && turn > 0 {
                outcome.end = End::Interrupted;
                return Ok(None);
            }
            proof.base.take(&self.bench.step(None)?);
            proof.tuned.take(&self.bench.step(Some(&mut loaded))?);
        }
        Ok(Some(proof))
    }
}

/// The times of the heuristics and of what was found, by turns.
#[derive(Default)]
struct Proof {
    base: Times,
    tuned: Times,
}

impl Proof {
    /// Whether what was found makes a whole step faster, by the least and by the median.
    fn gains(&self) -> bool {
        self.tuned.step() < self.base.step() && self.tuned.median_step() < self.base.median_step()
    }
}

/// The times of several steps, in nanoseconds: those of launches as the processors count them, divided among the
/// workers, so that what else runs on the machine has less say.
#[derive(Clone, Debug, Default)]
struct Times {
    /// The least of each launch.
    launches: Vec<u64>,
    /// Of each launch, step after step.
    all: Vec<Vec<u64>>,
    /// Of whole steps.
    steps: Vec<u64>,
}

impl Times {
    fn take(&mut self, profile: &Profile) {
        let workers = profile.workers.max(1) as u64;
        let times: Vec<u64> = profile.launches.iter().map(|launch| launch.processor_ns / workers).collect();
        if self.all.is_empty() {
            self.launches.clone_from(&times);
        }
        self.launches.iter_mut().zip(&times).for_each(|(least, &time)| *least = time.min(*least));
        self.steps.push(profile.wall_ns);
        self.all.push(times);
    }

    /// The least of a whole step.
    fn step(&self) -> u64 {
        self.steps.iter().copied().min().unwrap_or(0)
    }

    fn median_step(&self) -> u64 {
        median(&mut self.steps.iter().map(|&ns| ns as f64).collect::<Vec<_>>()) as u64
    }

    /// All launches of a kernel together, each at its best.
    fn of(&self, launches: &[usize], kernel: usize) -> u64 {
        sum(launches, kernel, &self.launches)
    }

    /// All launches of a kernel together, in the middle one of the steps, or between the two in the middle.
    fn median(&self, launches: &[usize], kernel: usize) -> u64 {
        let mut steps: Vec<f64> = self.all.iter().map(|times| sum(launches, kernel, times) as f64).collect();
        median(&mut steps) as u64
    }
}

fn sum(launches: &[usize], kernel: usize, times: &[u64]) -> u64 {
    launches.iter().zip(times).filter(|(k, _)| **k == kernel).map(|(_, ns)| ns).sum()
}

/// Runs the step.
struct Bench<'e> {
    engine: &'e mut Engine,
    tokens: Vec<u32>,
    /// What another step reads, so that results of the heuristics are not there before a program is checked.
    others: Vec<u32>,
    depth: usize,
    /// Logits of `tokens` by the heuristics.
    want: Vec<f32>,
    /// Steps of a program that are timed.
    turns: u32,
    step_time: Duration,
}

impl<'e> Bench<'e> {
    /// Fills the cache, and finds out how long a step takes.
    fn new(engine: &'e mut Engine, step: TunedStep) -> Result<Bench<'e>, EngineError> {
        let mut random = Random(1);
        let chunk = engine.chunk();
        for at in (0..step.depth).step_by(chunk) {
            let n = chunk.min(step.depth - at);
            let tokens: Vec<u32> = (0..n).map(|_| random.token(engine.config())).collect();
            engine.step(&tokens, at, n - 1..n)?;
        }
        let tokens: Vec<u32> = (0..step.tokens).map(|_| random.token(engine.config())).collect();
        let others = (0..step.tokens).map(|_| random.token(engine.config())).collect();
        let depth = step.depth;
        let (turns, step_time) = (LEAST_TURNS, Duration::ZERO);
        let mut bench = Bench { engine, tokens, others, depth, want: vec![], turns, step_time };
        // The first step brings in what is on disk.
        bench.step(None)?;
        let start = Instant::now();
        bench.step(None)?;
        bench.step_time = start.elapsed().max(Duration::from_micros(1));
        bench.want = bench.engine.output(Output::Logits, 1)?.to_vec();
        let turns = TURNS_TIME.as_nanos() / bench.step_time.as_nanos();
        bench.turns = (turns.min(u128::from(MOST_TURNS)) as u32).max(LEAST_TURNS);
        Ok(bench)
    }

    /// Runs a step by a program, or by that of the heuristics.
    fn step(&mut self, by: Option<&mut Loaded>) -> Result<Profile, EngineError> {
        match by {
            None => self.engine.profile_with(&self.tokens, self.depth, None, Clock::Processors),
            Some(loaded) => Ok(self.engine.profile_by(loaded, &self.tokens, self.depth)?.0),
        }
    }

    /// The times of steps by the heuristics.
    fn heuristics(&mut self, turns: u32) -> Result<Times, EngineError> {
        let mut times = Times::default();
        for _ in 0..turns {
            times.take(&self.step(None)?);
        }
        Ok(times)
    }

    /// How far the logits of a program are from those of the heuristics: mean squared error over mean square.
    fn nmse(&mut self, loaded: &mut Loaded) -> Result<f64, EngineError> {
        self.engine.profile(&self.others, self.depth, None)?;
        let (_, got) = self.engine.profile_by(loaded, &self.tokens, self.depth)?;
        let square = |x: f64| x * x;
        let error: f64 = got.iter().zip(&self.want).map(|(g, w)| square(f64::from(*g) - f64::from(*w))).sum();
        let nmse = error / self.want.iter().map(|w| square(f64::from(*w))).sum::<f64>();
        // Weights of zeros give logits of zeros.
        Ok(if error == 0.0 {
            0.0
        } else if nmse.is_nan() {
            f64::INFINITY
        } else {
            nmse
        })
    }
}

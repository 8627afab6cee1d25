//! Golden logits on AArch64: the kernels of whole steps, built by a cross compiler and run under emulation, at every
//! instruction level.

use crate::gates;
use crate::support::{Golden, floats, golden};
use compiler::{Compiled, Numerics};
use device::{Isa, Null, Target};
use gguf::Gguf;
use model::batch::Batch;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use testkit::standalone::builder::{Builder, find};
use testkit::standalone::{GivenStep, Standalone};

/// Tokens of the steps of each file, which are of all classes: the first is read by runs.
const STEPS: &[usize] = &[50, 9, 3, 1, 1];

/// Those of `exact`, which differs in what sums are made of: of the classes of the most and the fewest tokens.
const SUMS: &[usize] = &[63, 1];

/// Models that run under `exact`, too: both kinds of attention, and experts. Its kernels are sums of floats, of which others
/// have no more kinds.
const EXACT: [&str; 2] = ["tiny-llama", "tiny-mla-moe"];

/// The levels, which differ in their dots of integers: under `exact` they are one.
const LEVELS: [Isa; 3] = [Isa::Neon, Isa::NeonDot, Isa::NeonI8mm];

/// Flags behind those of kernels. Full optimisation takes minutes, and is tried on single kernels
/// (`device/tests/levels.rs`); with less of it, gcc does not see that a loop fills a vector.
const FLAGS: [&str; 3] = ["-static", "-Og", "-Wno-maybe-uninitialized"];

/// A run: a file, a level, a policy and steps.
type Run<'a> = (&'a Golden, Isa, Numerics, &'static [usize]);

#[test]
fn golden_logits_of_every_kind() {
    let files = golden();
    let mut models = BTreeSet::new();
    let mut runs: Vec<Run<'_>> = vec![];
    // The first file of each model, the levels in turn. Formats are tested on single kernels (`device/tests/levels.rs`).
    let mut level = LEVELS.into_iter().cycle();
    for file in files.iter().filter(|file| models.insert(&file.model)) {
        if EXACT.contains(&&*file.model) {
            runs.push((file, Isa::Neon, Numerics::Exact, SUMS));
        }
        runs.push((file, level.next().expect("a level"), Numerics::Int8, STEPS));
    }
    check(&runs);
}

#[test]
#[ignore = "builds for many minutes; .ci/run --full runs it"]
fn golden_logits_of_every_file() {
    let files = golden();
    let of_file = |file| LEVELS.map(|isa| (file, isa, Numerics::Int8, STEPS)).into_iter();
    let runs: Vec<Run<'_>> =
        files.iter().flat_map(|file| of_file(file).chain([(file, Isa::Neon, Numerics::Exact, SUMS)])).collect();
    check(&runs);
}

fn check(runs: &[Run<'_>]) {
    let (Some(compiler), Some(emulator)) = (find("aarch64-linux-gnu-gcc"), find("qemu-aarch64")) else {
        println!("neon: aarch64-linux-gnu-gcc or qemu-aarch64 is not installed: nothing ran");
        return;
    };
    assert!(!runs.is_empty(), "no golden files");
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(vec![]));
    let worker = || {
        while let Some(&run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(problem) = problem(run, &compiler, &emulator) {
                let (file, isa, numerics, _) = run;
                let problem = format!("{} {numerics:?} at {isa}: {problem}", file.name);
                problems.lock().expect("no panic above").push(problem);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let problems = problems.into_inner().expect("no panic above");
    assert!(problems.is_empty(), "{} of {} runs:\n{}", problems.len(), runs.len(), problems.join("\n"));
    let files: BTreeSet<&str> = runs.iter().map(|run| run.0.name.as_str()).collect();
    println!("neon: {} golden files ran at {} levels, {} runs", files.len(), LEVELS.len(), runs.len());
}

/// What is wrong with the logits of a file, if anything.
fn problem(run: Run<'_>, compiler: &Path, emulator: &Path) -> Option<String> {
    let (file, isa, numerics, _) = run;
    let emulated = [emulator.to_str().expect("a path in UTF-8"), "-cpu", "max"];
    let builder = Builder { compiler, run: &emulated, flags: &FLAGS };
    let folder = folder(&format!("{}-{numerics:?}-{isa}", file.name));
    let (source, data) = program(run);
    std::fs::write(folder.join("data"), data).expect("data");
    builder.build(&folder, &[&device::cpu::toolchain::FLAGS[..], isa.flags()].concat(), &source);
    let ran = builder.run(&folder, &["data", "logits"]);
    std::fs::remove_file(folder.join("data")).expect("the data");
    if !ran.status.success() {
        return Some(format!("{}: {}", ran.status, String::from_utf8_lossy(&ran.stdout)));
    }
    let name = if numerics == Numerics::Exact { "exact" } else { "int8" };
    let got = floats(&std::fs::read(folder.join("logits")).expect("logits"));
    gates::problem(file, &got, &file.logits(), name, None)
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neon").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The steps of a file as a C program, and its data.
fn program((file, isa, numerics, steps): Run<'_>) -> (String, Vec<u8>) {
    let weights = Arc::new(Gguf::open(&file.path).expect("a golden file"));
    let target = Target { isa, extras: vec![] };
    let cache = CacheKind::of(numerics);
    let options = EngineOptions { compiler: target.options(numerics), context: 64, chunk: 64, cache };
    let engine = || Engine::new(weights.clone(), Arc::new(Null), options.clone()).expect("a golden model");
    let limits = engine().limits();
    let tokens: Vec<u32> = file.prompt.iter().chain(&file.greedy).copied().collect();
    assert_eq!(steps.iter().sum::<usize>(), tokens.len(), "{}", file.name);
    let mut batches = vec![];
    let mut at = 0;
    for &n in steps {
        let mut batch = Batch::new(limits);
        batch.add(&tokens[at..at + n], at, &[0]).expect("a step");
        batch.want(0..n);
        batches.push(batch);
        at += n;
    }
    let classes: BTreeSet<Class> = batches.iter().map(|batch| batch.variant().class).collect();
    let mut engines: Vec<(Class, Engine)> = classes.into_iter().map(|class| (class, engine())).collect();
    let programs: BTreeMap<Class, &Compiled> =
        engines.iter_mut().map(|(class, engine)| (*class, engine.compile(*class).expect("a program"))).collect();
    let step = |batch: &Batch| {
        let class = batch.variant().class;
        let compiled = programs[&class];
        let bytes = |name| batch.input(name).unwrap_or_default().iter().flat_map(|v| v.to_le_bytes()).collect();
        GivenStep {
            compiled,
            inputs: Batch::inputs(class.into()).map(|name| (name, bytes(name))).collect(),
            vars: compiled.program.vars.iter().map(|v| batch.variable(&v.name).expect("a variable")).collect(),
            wanted: 4 * batch.rows() * file.vocab,
        }
    };
    let steps: Vec<GivenStep<'_>> = batches.iter().map(step).collect();
    let mut all = Standalone::default();
    all.add_steps(&steps, |name| weights.data(weights.tensor(name).expect("a weight")));
    let (source, data, _) = all.finish();
    (source, data)
}

//! Whole tiny models on the GPU-like target: every kernel as blocks of threads in the interpreter, which finds races,
//! divergence and misaligned loads, against the reference logits.
//!
//! The files lie in `shared/golden` beside the repository; without it, a subset in `tests/golden` is used. One file of
//! each model and of each format runs here; all of them with `-- --ignored`.

use crate::support::{cpu, nmse, options, synth, tokens};
use compiler::gpu::GpuPlan;
use compiler::{Numerics, Options};
use cuda::architecture::Architecture;
use device::{Device, Interpreter};
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use testkit::golden::{Golden, all, folder};

/// Tokens of each step: first a step of several, then steps of one.
const DECODING: [usize; 3] = [2, 1, 1];

/// The same for a prompt, which tiles multiply, and one token after it.
const PROMPT: [usize; 2] = [24, 1];

/// Files whose prompts are read: of experts, and of codes that lie in other ways.
const PROMPTS: [&str; 4] = ["tiny-mla-moe-Q4_0", "tiny-llama-Q4_0", "tiny-llama-Q4_K_M", "tiny-llama-IQ4_XS"];

/// What is wrong with the logits of a file with such a cache, if anything. After a prompt, one token is read by the program
/// of long pasts.
fn problem(file: &Golden, (mut compiler, cache): (Options, CacheKind), steps: &[usize]) -> Option<String> {
    let opened = Arc::new(Gguf::open(&file.path).expect("a model file"));
    let numerics = compiler.numerics;
    compiler.without.extend((steps == PROMPT).then(|| "short".to_owned()));
    let options = EngineOptions { compiler, context: 128, chunk: 64, cache };
    let mut engine = Engine::new(opened, Arc::new(Interpreter::of_blocks().apart()), options).expect("a model");
    file.problem(numerics, steps, |tokens, at| {
        let logits = engine.step(tokens, at, 0..tokens.len());
        logits.map(<[f32]>::to_vec).map_err(|error| error.to_string())
    })
}

fn check(jobs: Vec<(&Golden, Numerics)>, steps: &[usize]) {
    check_with(jobs, steps, Options::gpu, CacheKind::of);
}

fn check_with(
    jobs: Vec<(&Golden, Numerics)>,
    steps: &[usize],
    options: impl Fn(Numerics) -> Options + Sync,
    cache: impl Fn(Numerics) -> CacheKind + Sync,
) {
    let jobs = Mutex::new(jobs);
    let problems = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let Some((file, numerics)) = jobs.lock().expect("no panic").pop() else { break };
                    let run =
                        std::panic::AssertUnwindSafe(|| problem(file, (options(numerics), cache(numerics)), steps));
                    let problem = std::panic::catch_unwind(run).unwrap_or_else(|_| Some("panicked".into()));
                    if let Some(problem) = problem {
                        problems.lock().expect("no panic").push(format!("{} {numerics:?}: {problem}", file.name));
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn models_run_in_blocks_of_threads() {
    let files = all();
    assert!(!files.is_empty(), "no golden files in {}", folder().display());
    let (mut models, mut quants, mut jobs) = (HashSet::new(), HashSet::new(), vec![]);
    for f in &files {
        let (model, quant) = (models.insert(f.model.as_str()), quants.insert(f.quant.as_str()));
        jobs.extend(model.then_some((f, Numerics::Exact)));
        jobs.extend((model || quant).then_some((f, Numerics::Int8)));
    }
    let n = jobs.iter().filter(|j| j.1 == Numerics::Int8).count();
    check(jobs, &DECODING);
    println!("gpu: {n} files ran in blocks of threads");
}

#[test]
fn prompts_run_in_blocks_of_threads() {
    let files = all();
    let wanted = |f: &&Golden| PROMPTS.iter().any(|name| f.name.strip_suffix(".gguf") == Some(name));
    let jobs: Vec<(&Golden, Numerics)> = files.iter().filter(wanted).map(|f| (f, Numerics::Int8)).collect();
    assert!(jobs.len() >= 2, "{} of the files are in {}", jobs.len(), folder().display());
    check(jobs, &PROMPT);
}

/// What a laptop's card does, with a seventh of the multiprocessors and half of the shared memory.
#[test]
fn models_run_on_few_multiprocessors() {
    let files = all();
    let wanted = |f: &&Golden| PROMPTS[..3].iter().any(|name| f.name.strip_suffix(".gguf") == Some(name));
    let small = Architecture::named("sm_89:20").expect("a card");
    for steps in [&DECODING[..], &PROMPT] {
        let jobs: Vec<(&Golden, Numerics)> = files.iter().filter(wanted).map(|f| (f, Numerics::Int8)).collect();
        assert!(jobs.len() >= 2, "{} of the files are in {}", jobs.len(), folder().display());
        check_with(jobs, steps, |numerics| small.options(numerics), CacheKind::of);
    }
}

/// What adapters do that know matrices as a whole only, with large tiles and with small ones.
#[test]
fn prompts_run_by_cooperative_matrices() {
    let files = all();
    for shared in [48 << 10, 32 << 10] {
        let wanted = |f: &&Golden| PROMPTS.iter().any(|name| f.name.strip_suffix(".gguf") == Some(name));
        let jobs: Vec<(&Golden, Numerics)> = files.iter().filter(wanted).map(|f| (f, Numerics::Int8)).collect();
        assert!(jobs.len() >= 2, "{} of the files are in {}", jobs.len(), folder().display());
        let plan = GpuPlan { shared, ..GpuPlan::portable(32, 256) }.with_cooperative_matrices();
        assert!(plan.cooperative);
        check_with(jobs, &PROMPT, |numerics| Options::wgsl_on(numerics, plan.clone()), CacheKind::of);
    }
}

/// Rows of a latent that lie as codes become halves once a step, and are then multiplied as others are.
#[test]
fn prompts_with_a_cache_of_8_bits_run_in_blocks_of_threads() {
    let files = all();
    let latent = |f: &&Golden| f.name == "tiny-mla-moe-Q4_0.gguf";
    let jobs: Vec<(&Golden, Numerics)> = files.iter().filter(latent).map(|f| (f, Numerics::Int8)).collect();
    assert_eq!(jobs.len(), 1, "in {}", folder().display());
    check_with(jobs, &PROMPT, Options::gpu, |_| CacheKind::Q8_0);
}

/// A task that reads several pages, each loaded a round before, has the logits of the processor; of codes, with the same
/// halves made of them.
#[test]
fn several_pages_of_a_task_are_read_in_blocks_of_threads() {
    let steps = [40, 40, 1];
    let shapes = ["tiny-mla-moe", "tiny-llama"];
    for (shape, cache) in shapes.into_iter().flat_map(|s| [(s, CacheKind::F16), (s, CacheKind::Q8_0)]) {
        let file = synth(shape, "q4_0", Some(1));
        let logits = |device: Arc<dyn Device>, mut compiler: Options| {
            compiler.without.extend(["split", "runs", "short"].map(str::to_owned));
            compiler.prices.fusions.codes_to_halves = true;
            let options = EngineOptions { compiler, context: 128, chunk: 64, cache };
            let mut engine = Engine::new(file.clone(), device, options).expect("a model");
            let all = tokens(steps.iter().sum(), engine.config().vocab as u32, 5);
            let mut at = 0;
            let mut of_step = |n: usize| {
                at += n;
                engine.step(&all[at - n..at], at - n, n - 1..n).expect("a step").to_vec()
            };
            steps.map(&mut of_step).concat()
        };
        let got = logits(Arc::new(Interpreter::of_blocks().apart()), Options::gpu(Numerics::Exact));
        let want = logits(cpu(2), options(Numerics::Exact));
        let error = nmse(&got, &want);
        assert!(error <= 1e-6, "{shape} with a cache of {cache}: NMSE {error:.1e}");
    }
}

#[test]
#[ignore = "interprets for a minute"]
fn all_models_run_in_blocks_of_threads() {
    let files = all();
    let jobs = || files.iter().flat_map(|f| [(f, Numerics::Exact), (f, Numerics::Int8)]).collect();
    check(jobs(), &DECODING);
    check(jobs(), &PROMPT);
    println!("gpu: {} files ran in blocks of threads", files.len());
}

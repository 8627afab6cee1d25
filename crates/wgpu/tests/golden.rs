//! Golden logits on an adapter, as it is and with less than it can do.

use compiler::gpu::GpuPlan;
use compiler::{Numerics, Options};
use device::{Device, Interpreter};
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::synth::{SynthOptions, SynthPlan};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use testkit::golden::{Golden, all, folder, nmse};
use webgpu::Wgpu;
use webgpu::adapter::{Adapter, adapters};

/// Tokens of each step: a few, and one after another.
const DECODING: [usize; 4] = [7, 1, 1, 1];

/// The same for a prompt.
const PROMPT: [usize; 2] = [40, 1];

/// The first adapter.
fn first() -> Option<Adapter> {
    adapters().into_iter().next()
}

fn problem(device: &Arc<Wgpu>, file: &Golden, numerics: Numerics, options: Options, steps: &[usize]) -> Option<String> {
    let opened = Arc::new(Gguf::open(&file.path).expect("a model file"));
    let cache = CacheKind::of(numerics);
    let options = EngineOptions { compiler: options, context: 128, chunk: 64, cache };
    let mut engine = match Engine::new(opened, device.clone(), options) {
        Ok(engine) => engine,
        Err(error) => return Some(error.to_string()),
    };
    file.problem(numerics, steps, |tokens, at| {
        let logits = engine.step(tokens, at, 0..tokens.len());
        logits.map(<[f32]>::to_vec).map_err(|error| error.to_string())
    })
}

/// Both policies of each file.
fn both(files: &[Golden]) -> Vec<(&Golden, Numerics)> {
    files.iter().flat_map(|file| [(file, Numerics::Exact), (file, Numerics::Int8)]).collect()
}

/// Runs files in these steps, on several threads that each open the adapter for themselves: one in software compiles a kernel
/// where it is first sent, and what is sent to one device waits for that.
fn check(adapter: &Adapter, jobs: Vec<(&Golden, Numerics)>, steps: &[usize], change: impl Fn(&mut Options) + Sync) {
    let jobs = Mutex::new(jobs);
    let problems = Mutex::new(vec![]);
    let work = || {
        let device = Arc::new(Wgpu::of(adapter.clone()).expect("an adapter that can be opened"));
        loop {
            let Some((file, numerics)) = jobs.lock().expect("no panic").pop() else { break };
            let mut options = device.options(numerics);
            change(&mut options);
            if let Some(problem) = problem(&device, file, numerics, options, steps) {
                problems.lock().expect("no panic").push(format!("{} {numerics:?}: {problem}", file.name));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The files whose names begin so.
fn named(names: &[&str]) -> Vec<Golden> {
    let files: Vec<Golden> = all().into_iter().filter(|f| names.iter().any(|n| f.name.starts_with(n))).collect();
    assert!(!files.is_empty(), "no golden files of {names:?} in {}", folder().display());
    files
}

#[test]
fn golden_logits() {
    let Some(adapter) = first() else {
        println!("wgpu: skipped, as there is no adapter");
        return;
    };
    let files = all();
    assert!(!files.is_empty(), "no golden files in {}", folder().display());
    // `exact` of one file of each model, and of each format that is unpacked in its own way. Files that only have another format
    // than one before them run with a sum a thread and no loads before others, as an adapter in software compiles half as long;
    // in steps of one class for each policy; and as if all they have read were long.
    let (mut models, mut formats) = (HashSet::new(), HashSet::new());
    let (mut whole, mut one_by_one, mut together) = (vec![], vec![], vec![]);
    for file in &files {
        match (models.insert(&file.model), formats.insert(&file.quant)) {
            (true, _) => whole.extend([(file, Numerics::Exact), (file, Numerics::Int8)]),
            (false, format) => {
                one_by_one.extend(format.then_some((file, Numerics::Exact)));
                together.push((file, Numerics::Int8));
            }
        }
    }
    let less = |options: &mut Options| {
        options.without.push("short".into());
        options.on_gpu(|plan| (plan.rows, plan.early) = (1, 0));
    };
    check(&adapter, whole, &DECODING, |_| {});
    check(&adapter, one_by_one, &[1; 10], less);
    check(&adapter, together, &[7, 3], less);
    println!("wgpu: {} files ran on {adapter}", files.len());
}

#[test]
fn golden_logits_of_prompts() {
    let Some(adapter) = first() else { return };
    check(&adapter, both(&named(&["tiny-mla-moe-Q4_0", "tiny-llama-Q4_K_M"])), &PROMPT, |_| {});
}

/// Threads that do not reach each other's registers, few buffers of a kernel, little memory of a workgroup; narrow loads;
/// blocks of few threads whose memory is not shared.
#[test]
fn adapters_that_can_do_less() {
    let Some(adapter) = first() else { return };
    let files = named(&["tiny-mla-moe-Q4_0"]);
    let with = |change: fn(&mut GpuPlan)| check(&adapter, both(&files), &DECODING, |options| options.on_gpu(change));
    with(|plan| {
        (plan.lanes, plan.most_warps, plan.warps, plan.product_warps) = (1, 32, 4, 32);
        (plan.shared, plan.slots, plan.alignment) = (16 << 10, 7, 256);
    });
    with(|plan| (plan.widest, plan.rows, plan.join) = (4, 1, false));
    with(|plan| (plan.shared, plan.warps, plan.all_warps) = (0, 1, 1));
}

/// Entries of a table of signs and sizes, which no golden file has, beside those that the interpreter takes from the table.
#[test]
fn tables_of_signs_and_sizes() {
    let Some(adapter) = first() else { return };
    let options = SynthOptions { layers: Some(1), ..SynthOptions::default() };
    let plan = SynthPlan::new("tiny-llama", "mxfp4", &options).expect("a shape");
    let file = Arc::new(Gguf::parse(plan.to_vec().expect("a file")).expect("a model"));
    let device = Arc::new(Wgpu::of(adapter).expect("an adapter that can be opened"));
    let mut options = device.options(Numerics::Int8);
    options.on_gpu(|plan| (plan.rows, plan.early) = (1, 0));
    let logits = |device: Arc<dyn Device>| {
        let cache = CacheKind::of(Numerics::Int8);
        let options = EngineOptions { compiler: options.clone(), context: 128, chunk: 64, cache };
        let mut engine = Engine::new(file.clone(), device, options).expect("an engine");
        engine.step(&[1, 2, 3], 0, 0..3).expect("a step").to_vec()
    };
    let error = nmse(&logits(device), &logits(Arc::new(Interpreter::of_blocks())));
    assert!(error < 1e-6, "NMSE {error:e}");
}

//! A search for plans tells a kernel that computes something else from one that is slower.

use crate::support::{self, cpu, nmse, synth, tokens};
use compiler::program::Program;
use compiler::{KernelKey, Numerics, Options, Setting, Tuned};
use device::{Device, Executable, Interpreter, Memory, Null};
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::tune::{End, Outcome, Search, TunedStep, tune};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A processor that leaves out a kernel whenever it is another than at first.
struct Saboteur {
    cpu: Arc<dyn Device>,
    /// The kernel that reads this tensor.
    reads: &'static str,
    /// Its source in the first program.
    first: Mutex<Option<String>>,
}

impl Device for Saboteur {
    fn name(&self) -> String {
        self.cpu.name()
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> device::Result<Box<dyn Executable>> {
        let mut program = Program::clone(&program);
        let mut launches = program.stages.iter().flat_map(|stage| &stage.launches);
        let victim = launches.find(|launch| launch.origin.contains(self.reads)).expect("such a kernel").kernel;
        let source = &mut program.kernels[victim].source;
        let mut first = self.first.lock().expect("no panic");
        let was = first.get_or_insert_with(|| source.clone());
        if source != was {
            *source = source.replacen('{', "{ return;", 1);
        }
        self.cpu.load(Arc::new(program), memory)
    }
}

fn engine(device: Arc<dyn Device>) -> Engine {
    let compiler = support::options(Numerics::Int8);
    let options = EngineOptions { compiler, context: 64, chunk: 16, cache: CacheKind::F16 };
    Engine::new(synth("tiny-mla-moe", "q4_0", Some(2)), device, options).expect("a model")
}

fn search(engine: &mut Engine, step: TunedStep, seconds: u64, go_on: bool) -> Outcome {
    let known = Tuned::default();
    let search = Search { time: Duration::from_secs(seconds), known: &known, told: &mut |_| go_on };
    tune(engine, step, search).expect("a search")
}

#[test]
fn all_that_is_tried_computes_the_same() {
    let mut engine = engine(cpu(2));
    for step in [TunedStep { tokens: 1, depth: 3 }, TunedStep { tokens: 9, depth: 0 }] {
        let outcome = search(&mut engine, step, 1, true);
        assert_eq!(outcome.wrong, Vec::<String>::new());
        assert!(outcome.tried > 0 && !outcome.kernels.is_empty() && outcome.end != End::Interrupted);
        let longest: Vec<f64> = outcome.kernels.iter().map(|kernel| kernel.share).collect();
        assert!(longest.is_sorted_by(|a, b| a >= b), "in order of their time: {longest:?}");
        for kernel in &outcome.kernels {
            assert_ne!(kernel.setting, Some(kernel.default));
            assert!(kernel.tuned_ns <= kernel.default_ns);
        }
        assert_eq!(outcome.plans().len(), outcome.kernels.len(), "each kernel has a key of its own");
    }
}

/// An engine for blocks of threads whose kernels have these plans.
fn engine_of_blocks(file: &Arc<Gguf>, device: Arc<dyn Device>, tuned: Tuned) -> Engine {
    let compiler = Options { tuned: Arc::new(tuned), ..Options::gpu(Numerics::Int8) };
    let options = EngineOptions { compiler, context: 128, chunk: 64, cache: CacheKind::F16 };
    Engine::new(file.clone(), device, options).expect("a model")
}

/// The keys of all kernels for blocks of threads of steps of some tokens each.
fn keys(file: &Arc<Gguf>, steps: &[usize]) -> BTreeSet<KernelKey> {
    let mut engine = engine_of_blocks(file, Arc::new(Null), Tuned::default());
    let (mut keys, mut at) = (BTreeSet::new(), 0);
    for &n in steps {
        let class = engine.class_of(n, at);
        let compiled = engine.compile(class).expect("a program");
        keys.extend((0..compiled.program.kernels.len()).filter_map(|kernel| compiled.key(kernel)));
        at += n;
    }
    keys
}

/// Logits of steps of some tokens each by an engine for blocks of threads whose kernels have these plans.
fn logits(file: &Arc<Gguf>, device: &Arc<dyn Device>, tuned: Tuned, steps: &[usize]) -> Vec<f32> {
    let mut engine = engine_of_blocks(file, device.clone(), tuned);
    let all = tokens(steps.iter().sum(), 512, 3);
    let (mut out, mut at) = (vec![], 0);
    for &n in steps {
        out.extend_from_slice(engine.step(&all[at..at + n], at, n - 1..n).expect("a step"));
        at += n;
    }
    out
}

/// Checks that steps of a model give the same with each of these settings for all kernels at once.
fn compare(shape: &str, steps: &[usize], settings: &[Setting]) {
    let device: Arc<dyn Device> = Arc::new(Interpreter::of_blocks());
    let file = synth(shape, "q4_0", Some(2));
    let keys = keys(&file, steps);
    let want = logits(&file, &device, Tuned::default(), steps);
    let mut changed = 0;
    for setting in settings {
        let got = logits(&file, &device, Tuned(keys.iter().map(|&key| (key, *setting)).collect()), steps);
        let far = nmse(&got, &want);
        assert!(far < 2e-2, "{shape}, {setting}: NMSE {far:.1e}");
        changed += usize::from(got != want);
    }
    assert!(changed > 1, "{shape}: settings change the order of sums");
}

#[test]
fn extreme_settings_of_a_gpu_compute_the_same() {
    let setting = |text: &str| text.parse().expect("a setting");
    let settings = [
        "warps=1 all-warps=25 blocks=25 block-rows=4 rows=1 early=0 resident=256 tokens=16 tile-rows=32 tile-warps=4",
        "warps=16 all-warps=400 blocks=400 block-rows=128 rows=8 early=512 resident=1024 tokens=128 tile-rows=256 tile-warps=16",
        "warps=1 all-warps=400 blocks=25 block-rows=128 rows=1 early=512 resident=256 tokens=64 tile-rows=32 tile-warps=8",
    ];
    compare("tiny-mla-moe", &[40, 3, 1], &settings.map(setting));
}

#[test]
#[ignore = "takes minutes; .ci/run --full runs it"]
fn every_setting_of_a_gpu_computes_the_same() {
    let machine = Options::gpu(Numerics::Int8).machine;
    let settings = Setting::of(&machine).neighbours(&machine);
    for shape in ["tiny-mla-moe", "tiny-llama", "tiny-qwen3moe"] {
        compare(shape, &[40, 3, 1], &settings);
    }
}

#[test]
fn blocks_of_threads_are_searched_too() {
    let (file, device) = (synth("tiny-llama", "q4_0", Some(1)), Arc::new(Interpreter::of_blocks()));
    let mut engine = engine_of_blocks(&file, device, Tuned::default());
    let outcome = search(&mut engine, TunedStep { tokens: 1, depth: 3 }, 1, true);
    assert_eq!(outcome.wrong, Vec::<String>::new());
    assert!(outcome.tried > 0 && !outcome.kernels.is_empty() && outcome.end != End::Interrupted);
    assert_eq!(outcome.plans().len(), outcome.kernels.len(), "each kernel has a key of its own");
}

#[test]
fn a_kernel_that_computes_something_else_is_never_kept() {
    let reads = "ffn_down";
    let device = Saboteur { cpu: cpu(2), reads, first: Mutex::new(None) };
    let mut engine = engine(Arc::new(device));
    // Without a cache to fill, the first program is that of the step.
    let outcome = search(&mut engine, TunedStep { tokens: 1, depth: 0 }, 1, true);
    // The first of the program is the victim; which of them takes longest is another question.
    let number = |symbol: &str| symbol[1..].split('_').next().and_then(|number| number.parse::<u32>().ok());
    let victims = outcome.kernels.iter().filter(|kernel| kernel.origin.contains(reads));
    let victim = victims.min_by_key(|kernel| number(&kernel.symbol)).expect("it takes time");
    assert!(!outcome.wrong.is_empty());
    let wrong = |wrong: &String| number(wrong) == number(&victim.symbol);
    assert!(outcome.wrong.iter().all(wrong), "{}: {:?}", victim.symbol, outcome.wrong);
    assert_eq!(victim.setting, None::<Setting>);
    assert!(outcome.tried > 0, "the others are tried");
}

#[test]
fn a_search_ends_when_it_is_told_to() {
    let outcome = search(&mut engine(cpu(1)), TunedStep { tokens: 1, depth: 3 }, 3000, false);
    assert_eq!((outcome.end, outcome.tried), (End::Interrupted, 0));
    assert!(outcome.plans().values().all(Option::is_none));
}

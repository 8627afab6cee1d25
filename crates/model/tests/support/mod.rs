//! Tiny models, ways to run and to change them, and measures of what comes out.
#![allow(dead_code)]

pub mod hollow;
pub mod machine;
pub mod reference;
pub mod served;
pub mod weights;

use compiler::{Numerics, Options};
use device::{Cpu, CpuConfig, Target};
use gguf::Gguf;
use model::synth::{SynthOptions, SynthPlan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The processor with so many workers. Kernels are kept from one run of the tests to the next.
pub fn cpu(threads: usize) -> Arc<Cpu> {
    let config = CpuConfig { threads, ..cpu_config(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")) };
    Arc::new(Cpu::new(&config).expect("a C compiler"))
}

/// The processor with kernels that are kept in a folder, of a compiler that is quick: what they compute is tested here, on tokens
/// that are few.
pub fn cpu_config(kernels: &Path) -> CpuConfig {
    let mut config = CpuConfig::from_environment();
    config.toolchain.search = testkit::quick_compiler::search_path(Path::new(env!("CARGO_TARGET_TMPDIR")));
    config.cache.folder = Some(kernels.to_path_buf());
    config
}

/// What the compiler does for this machine, without its matrix unit.
pub fn options(numerics: Numerics) -> Options {
    let mut options = Target::detect(None).expect("a target").options(numerics);
    options.on_cpu(|cpu| cpu.plan.matrix_unit = false);
    options
}

/// A file of random weights.
pub fn synth(shape: &str, quant: &str, layers: Option<u32>) -> Arc<Gguf> {
    synth_of(shape, quant, layers, 7)
}

/// The same of this seed.
pub fn synth_of(shape: &str, quant: &str, layers: Option<u32>, seed: u64) -> Arc<Gguf> {
    let options = SynthOptions { layers, seed, ..Default::default() };
    let plan = SynthPlan::new(shape, quant, &options).expect("a known shape and quantisation");
    Arc::new(Gguf::parse(plan.to_vec().expect("a file")).expect("a file that reads back"))
}

/// Where golden files lie: beside the repository, and a subset of them in it.
pub fn golden_folders() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    [root.join("../shared/golden"), root.join("tests/golden")]
}

/// The golden files beside the repository, or else those in it.
pub fn golden() -> Vec<PathBuf> {
    let [beside, subset] = golden_folders();
    golden_in(if beside.is_dir() { &beside } else { &subset })
}

/// The golden files of a folder.
pub fn golden_in(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("golden files").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    files.sort();
    files
}

/// What `f` makes of each of these, in their order, by as many threads as there are processors.
pub fn in_parallel<T: Sync, R: Send>(all: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at) else { break };
            let made = f(one);
            results.lock().expect("no panic above").insert(at, made);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    results.into_inner().expect("no panic above").into_values().collect()
}

/// Tokens without a pattern (Marsaglia, "Xorshift RNGs", 2003).
pub fn tokens(count: usize, vocab: u32, seed: u32) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state % vocab
    };
    (0..count).map(|_| next()).collect()
}

/// Mean squared error over mean square. NaN if anything is NaN.
pub fn nmse(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error: f64 = got.iter().zip(want).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    error / want.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>()
}

/// The largest NMSE of a row; NaN counts as infinite.
pub fn worst_row(got: &[f32], want: &[f32], row: usize) -> f64 {
    let rows = got.chunks(row).zip(want.chunks(row));
    rows.map(|(a, b)| nmse(a, b)).map(|e| if e.is_nan() { f64::INFINITY } else { e }).fold(0.0, f64::max)
}

/// Mean over rows of the KL divergence of `got` from `want`.
pub fn mean_kl(got: &[f32], want: &[f32], vocab: usize) -> f64 {
    let log_total = |row: &[f32]| {
        let most = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
        most + row.iter().map(|&v| (f64::from(v) - most).exp()).sum::<f64>().ln()
    };
    let row = |(g, w): (&[f32], &[f32])| {
        let (lg, lw) = (log_total(g), log_total(w));
        let term = |(&g, &w): (&f32, &f32)| {
            let (log_q, log_p) = (f64::from(g) - lg, f64::from(w) - lw);
            log_p.exp() * (log_p - log_q)
        };
        g.iter().zip(w).map(term).sum::<f64>()
    };
    got.chunks(vocab).zip(want.chunks(vocab)).map(row).sum::<f64>() / (want.len() / vocab) as f64
}

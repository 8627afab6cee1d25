//! Logits of tiny models against reference logits, through the cpu device.
//!
//! The files lie in `shared/golden` beside the repository; without it, a subset
//! in `tests/golden` is used. Every file runs under `exact` (NMSE and greedy
//! ids) in steps of 7 tokens and under `int8` (mean KL divergence) token by
//! token; one file of some families runs in steps of 1, 7 and 64. All files in
//! steps of every size: `cargo test --release -- --ignored`.

use compiler::{Numerics, Options};
use device::{CacheConfig, Cpu, CpuConfig};
use gguf::Gguf;
use ir::DType;
use model::engine::{Engine, EngineOptions};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// NMSE that `exact` may have.
const EXACT_NMSE: f64 = 1e-9;

/// Files that every run takes in steps of 1, 7 and 64 tokens.
const IN_EVERY_STEP: [&str; 3] = ["tiny-llama-Q4_0.gguf", "tiny-mla-moe-Q4_0.gguf", "tiny-qwen3-Q4_0.gguf"];

/// A file and what is known about it.
struct Golden {
    name: String,
    moe: bool,
    path: PathBuf,
    prompt: Vec<u32>,
    greedy: Vec<u32>,
    vocab: usize,
    peer_kld: f64,
    logits: Vec<f32>,
}

/// The folder with the files.
fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = root.join("../shared/golden");
    if shared.join("manifest.json").is_file() { shared } else { root.join("tests/golden") }
}

fn ids(entry: &Value, key: &str) -> Vec<u32> {
    entry[key].as_array().expect("a list").iter().map(|v| v.as_u64().expect("an id") as u32).collect()
}

fn floats(path: &Path) -> Vec<f32> {
    let raw = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    raw.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// Whether a model has experts; the legacy and softmax ones do too.
fn is_mixture(model: &str) -> bool {
    ["moe", "legacy", "softmax"].iter().any(|part| model.contains(part))
}

/// The files of the manifest that are there.
fn all() -> Vec<Golden> {
    let folder = folder();
    let manifest = std::fs::read(folder.join("manifest.json")).expect("a manifest of golden files");
    let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest in JSON");
    let entries = manifest.as_array().expect("a list of files").iter();
    let file = |entry: &Value| {
        let name = entry["file"].as_str().expect("a name");
        let path = folder.join(name);
        path.is_file().then(|| Golden {
            name: name.into(),
            moe: is_mixture(entry["model"].as_str().expect("a model")),
            prompt: ids(entry, "prompt"),
            greedy: ids(entry, "greedy"),
            vocab: entry["vocab"].as_u64().expect("a size") as usize,
            peer_kld: entry["peer_kld"].as_f64().expect("a divergence"),
            logits: floats(&path.with_extension("logits.f32")),
            path,
        })
    };
    entries.filter_map(file).collect()
}

impl Golden {
    /// Logits of all tokens, in steps of at most `batch`.
    fn run(&self, cpu: &Arc<Cpu>, numerics: Numerics, batch: usize) -> Vec<f32> {
        let file = Arc::new(Gguf::open(&self.path).expect("a model file"));
        let cache = if numerics == Numerics::Exact { DType::F32 } else { DType::F16 };
        let options = EngineOptions { compiler: Options::cpu(numerics, 64), context: 256, chunk: 64, cache };
        let mut engine = Engine::new(file, cpu.clone(), options).expect("an engine");
        let tokens: Vec<u32> = self.prompt.iter().chain(&self.greedy).copied().collect();
        let mut out = vec![];
        for (i, step) in tokens.chunks(batch).enumerate() {
            out.extend_from_slice(engine.step(step, i * batch, 0..step.len()).expect("a step"));
        }
        out
    }

    /// What is wrong with logits under a policy, if anything.
    fn problem(&self, numerics: Numerics, logits: &[f32]) -> Option<String> {
        assert_eq!(logits.len(), self.logits.len());
        match numerics {
            Numerics::Exact => {
                let nmse = nmse(logits, &self.logits);
                let first = self.prompt.len() - 1;
                let chosen: Vec<u32> =
                    logits.chunks(self.vocab).skip(first).take(self.greedy.len()).map(argmax).collect();
                let same = chosen == self.greedy;
                // Written so that NaN fails.
                let close = nmse <= EXACT_NMSE;
                (!close || !same).then(|| format!("nmse {nmse:.2e} (at most {EXACT_NMSE:e}), greedy ids equal: {same}"))
            }
            Numerics::Int8 => {
                let most = if self.moe { 3.0 * self.peer_kld + 5e-3 } else { 2.0 * self.peer_kld + 1e-4 };
                let kl = mean_kl(logits, &self.logits, self.vocab);
                let close = kl <= most;
                (!close).then(|| format!("mean KL {kl:.2e} (at most {most:.2e})"))
            }
        }
    }
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(a, b)| (*a as f64 - *b as f64).powi(2)).sum();
    error / want.iter().map(|b| (*b as f64).powi(2)).sum::<f64>()
}

fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a row") as u32
}

/// Mean over rows of the KL divergence of `got` from `want`.
fn mean_kl(got: &[f32], want: &[f32], vocab: usize) -> f64 {
    let log_total = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::MIN, f32::max) as f64;
        most + row.iter().map(|&v| (v as f64 - most).exp()).sum::<f64>().ln()
    };
    let row = |(g, w): (&[f32], &[f32])| {
        let (lg, lw) = (log_total(g), log_total(w));
        let term = |(&g, &w): (&f32, &f32)| {
            let (log_q, log_p) = (g as f64 - lg, w as f64 - lw);
            log_p.exp() * (log_p - log_q)
        };
        g.iter().zip(w).map(term).sum::<f64>()
    };
    got.chunks(vocab).zip(want.chunks(vocab)).map(row).sum::<f64>() / (want.len() / vocab) as f64
}

fn cpu(threads: usize) -> Arc<Cpu> {
    let mut config = CpuConfig::from_environment();
    config.threads = threads;
    config.compile_jobs = 1;
    config.cache = CacheConfig { folder: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")), ..config.cache };
    Arc::new(Cpu::new(&config).expect("a C compiler"))
}

/// Runs files under policies at batches and reports all that is wrong.
fn check(mut jobs: Vec<(&Golden, Numerics, usize)>) {
    jobs.reverse();
    let jobs = Mutex::new(jobs);
    let problems = Mutex::new(vec![]);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let cpu = cpu(1);
                loop {
                    let job = jobs.lock().expect("no panic").pop();
                    let Some((file, numerics, batch)) = job else { break };
                    let run = std::panic::AssertUnwindSafe(|| file.problem(numerics, &file.run(&cpu, numerics, batch)));
                    let problem = std::panic::catch_unwind(run).unwrap_or_else(|_| Some("panicked".into()));
                    if let Some(problem) = problem {
                        let line = format!("{} {numerics:?} batch {batch}: {problem}", file.name);
                        println!("{line}");
                        problems.lock().expect("no panic").push(line);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn logits_agree_with_the_reference() {
    let files = all();
    assert!(!files.is_empty(), "no golden files in {}", folder().display());
    let mut jobs = vec![];
    for file in &files {
        jobs.extend([(file, Numerics::Exact, 7), (file, Numerics::Int8, 1)]);
        if IN_EVERY_STEP.contains(&file.name.as_str()) {
            jobs.extend([(file, Numerics::Exact, 1), (file, Numerics::Exact, 64)]);
        }
    }
    check(jobs);
    println!("golden: {} files ran", files.len());
}

#[test]
#[ignore = "compiles kernels for several minutes"]
fn logits_agree_in_steps_of_every_size() {
    let files = all();
    let mut jobs = vec![];
    for file in &files {
        for numerics in [Numerics::Exact, Numerics::Int8] {
            jobs.extend([1, 7, 64].map(|batch| (file, numerics, batch)));
        }
    }
    check(jobs);
    println!("golden: {} files ran at 3 sizes of steps", files.len());
}

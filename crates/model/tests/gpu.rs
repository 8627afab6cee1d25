//! Whole tiny models on the GPU-like target: every kernel as blocks of threads in the interpreter, which finds races,
//! divergence and misaligned loads, against the reference logits.
//!
//! The files lie in `shared/golden` beside the repository; without it, a subset in `tests/golden` is used. One file of
//! each model and of each format runs here; all of them with `-- --ignored`.

use compiler::{Numerics, Options};
use device::Interpreter;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// NMSE that `exact` may have.
const EXACT_NMSE: f64 = 1e-9;

/// Tokens that are run: first a step of several, then steps of one.
const TOKENS: usize = 4;
const FIRST: usize = 2;

struct Golden {
    name: String,
    path: PathBuf,
    tokens: Vec<u32>,
    vocab: usize,
    logits: Vec<f32>,
    /// Mean KL divergence of a peer that rounds its activations too.
    peer_kld: f64,
    model: String,
    quant: String,
}

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = root.join("../shared/golden");
    if shared.join("manifest.json").is_file() { shared } else { root.join("tests/golden") }
}

fn all() -> Vec<Golden> {
    let folder = folder();
    let manifest = std::fs::read(folder.join("manifest.json")).expect("a manifest of golden files");
    let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest in JSON");
    let ids = |entry: &Value, key: &str| -> Vec<u32> {
        entry[key].as_array().expect("a list").iter().map(|v| v.as_u64().expect("an id") as u32).collect()
    };
    let file = |entry: &Value| {
        let name = entry["file"].as_str().expect("a name").to_string();
        let path = folder.join(&name);
        let raw = std::fs::read(path.with_extension("logits.f32")).ok()?;
        let (model, quant) = name.strip_suffix(".gguf")?.rsplit_once('-')?;
        let (model, quant) = (model.to_string(), quant.to_string());
        path.is_file().then(|| Golden {
            tokens: [ids(entry, "prompt"), ids(entry, "greedy")].concat(),
            peer_kld: entry["peer_kld"].as_f64().expect("a divergence"),
            vocab: entry["vocab"].as_u64().expect("a size") as usize,
            logits: raw.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect(),
            model,
            quant,
            name,
            path,
        })
    };
    manifest.as_array().expect("a list of files").iter().filter_map(file).collect()
}

impl Golden {
    fn problem(&self, numerics: Numerics) -> Option<String> {
        let file = Arc::new(Gguf::open(&self.path).expect("a model file"));
        let cache = CacheKind::of(numerics);
        let options = EngineOptions { compiler: Options::gpu(numerics), context: 128, chunk: 64, cache };
        let mut engine = Engine::new(file, Arc::new(Interpreter::of_blocks().apart()), options).expect("a model");
        let mut got = vec![];
        let mut at = 0;
        while at < TOKENS {
            let n = if at == 0 { FIRST } else { 1 };
            match engine.step(&self.tokens[at..at + n], at, 0..n) {
                Ok(logits) => got.extend_from_slice(logits),
                Err(e) => return Some(e.to_string()),
            }
            at += n;
        }
        let want = &self.logits[..TOKENS * self.vocab];
        if got.len() != want.len() {
            return Some(format!("{} logits", got.len()));
        }
        // Written so that NaN fails.
        let (what, error, most) = match numerics {
            Numerics::Exact => ("nmse", nmse(&got, want), EXACT_NMSE),
            // Wider than in golden.rs: a few tokens are not many to take the mean of.
            Numerics::Int8 => ("mean KL", mean_kl(&got, want, self.vocab), 4.0 * self.peer_kld + 1e-2),
        };
        let close = error <= most;
        (!close).then(|| format!("{what} {error:.2e} (at most {most:.2e})"))
    }
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(a, b)| (*a as f64 - *b as f64).powi(2)).sum();
    error / want.iter().map(|b| (*b as f64).powi(2)).sum::<f64>()
}

/// Mean over rows of the KL divergence of `got` from `want`.
fn mean_kl(got: &[f32], want: &[f32], vocab: usize) -> f64 {
    let log_total = |row: &[f32]| row.iter().map(|&v| f64::from(v).exp()).sum::<f64>().ln();
    let row = |(g, w): (&[f32], &[f32])| -> f64 {
        let (lg, lw) = (log_total(g), log_total(w));
        let term = |(&g, &w): (&f32, &f32)| {
            let (q, p) = (f64::from(g) - lg, f64::from(w) - lw);
            p.exp() * (p - q)
        };
        g.iter().zip(w).map(term).sum()
    };
    got.chunks(vocab).zip(want.chunks(vocab)).map(row).sum::<f64>() / (want.len() / vocab) as f64
}

fn check(jobs: Vec<(&Golden, Numerics)>) {
    let jobs = Mutex::new(jobs);
    let problems = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let Some((file, numerics)) = jobs.lock().expect("no panic").pop() else { break };
                    let run = std::panic::AssertUnwindSafe(|| file.problem(numerics));
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
    check(jobs);
    println!("gpu: {n} files ran in blocks of threads");
}

#[test]
#[ignore = "interprets for a minute"]
fn all_models_run_in_blocks_of_threads() {
    let files = all();
    check(files.iter().flat_map(|f| [(f, Numerics::Exact), (f, Numerics::Int8)]).collect());
    println!("gpu: {} files ran in blocks of threads", files.len());
}

//! Whatever is left out by name, a model computes the same.

mod support;

use compiler::{Numerics, Options, switches};
use device::Interpreter;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{nmse, synth, tokens};

/// Tokens of the prompt: enough for the program that takes many.
const TOKENS: usize = 9;

/// Logits of a prompt of many tokens, of a step of few and of two steps of one.
fn logits(file: &Arc<gguf::Gguf>, numerics: Numerics, without: &[&str]) -> Result<Vec<f32>, String> {
    let mut compiler = Options::cpu(numerics, 64);
    compiler.check = numerics == Numerics::Exact;
    compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
    let options = EngineOptions { compiler, context: 80, chunk: 16, cache: CacheKind::F32 };
    let mut engine = Engine::new(file.clone(), Arc::new(Interpreter), options).map_err(|e| e.to_string())?;
    let all = tokens(TOKENS + 4, engine.config().vocab as u32, 3);
    let mut out = vec![];
    let mut at = 0;
    for n in [TOKENS, 2, 1, 1] {
        out.extend_from_slice(engine.step(&all[at..at + n], at, 0..n).map_err(|e| e.to_string())?);
        at += n;
    }
    Ok(out)
}

#[test]
fn nothing_that_can_be_left_out_changes_a_result() {
    let files = [
        ("tiny-mla-moe", synth("tiny-mla-moe", "q4_0", Some(2))),
        ("tiny-llama", synth("tiny-llama", "q4_k_m", Some(2))),
    ];
    let mut cases = vec![];
    for (name, file) in &files {
        for (numerics, most) in [(Numerics::Exact, 1e-9), (Numerics::Int8, 2e-2)] {
            let want = Arc::new(logits(file, numerics, &[]).expect("logits"));
            cases.extend(switches().into_iter().map(|s| (*name, file, numerics, most, want.clone(), s.name)));
        }
    }
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(vec![]));
    let worker = || {
        while let Some((name, file, numerics, most, want, switch)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let problem = match logits(file, *numerics, &[*switch]) {
                Ok(got) => Some(nmse(&got, want)).filter(|e| e.is_nan() || e > most).map(|e| format!("NMSE {e:.2e}")),
                Err(error) => Some(error),
            };
            if let Some(problem) = problem {
                problems.lock().expect("no panic").push(format!("{name} {numerics:?} without {switch}: {problem}"));
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

//! `kernloom logits` against reference logits: every file, both policies, steps of 1, 7 and 64 tokens; and the first
//! tokens of one file of each model and of each quantisation through the interpreter.

mod support;

use device::Isa;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Golden, floats, folder, golden, list, run, text};

/// NMSE that `exact` may have.
const EXACT_NMSE: f64 = 1e-9;

/// KL that `exact` may have with a cache of 8 bits, and what such a cache may add to that of `int8`. Measured 2.4e-5 to
/// 6.1e-5 under `exact`.
const Q8_0_KL: f64 = 2e-4;

/// The same with experts, of which other ones may be chosen. Measured 1.6e-3 to 2.4e-3 under `exact`.
const Q8_0_MIXTURE_KL: f64 = 8e-3;

const BATCHES: [usize; 3] = [1, 7, 64];

/// Tokens that the interpreter computes, in steps that make programs of two classes.
const INTERPRETED: usize = 8;

/// A run of the command.
#[derive(Clone, Copy)]
struct Case<'a> {
    file: &'a Golden,
    numerics: &'static str,
    /// How the cache is kept, if not as the policy has it.
    cache: Option<&'static str>,
    batch: usize,
    device: &'static str,
    tokens: usize,
    /// The instruction level and the C compiler, if they are not those that the program would choose.
    built: Option<(Isa, &'static str)>,
}

#[test]
fn logits_of_every_file() {
    let files = golden();
    let of_file = |file| {
        let tokens = usize::MAX;
        let case =
            move |numerics, batch| Case { file, numerics, cache: None, batch, device: "cpu", tokens, built: None };
        ["exact", "int8"].into_iter().flat_map(move |numerics| BATCHES.map(|batch| case(numerics, batch)))
    };
    assert!(!files.is_empty(), "no golden files");
    check(&files, &files.iter().flat_map(of_file).collect::<Vec<_>>(), "the logits command");
}

#[test]
fn logits_with_a_cache_of_8_bits() {
    let files = first_of_each_model();
    let of_file = |file| {
        let (cache, tokens) = (Some("q8_0"), usize::MAX);
        let case = move |numerics, batch| Case { file, numerics, cache, batch, device: "cpu", tokens, built: None };
        ["exact", "int8"].into_iter().flat_map(move |numerics| BATCHES.map(|batch| case(numerics, batch)))
    };
    check(&files, &files.iter().flat_map(of_file).collect::<Vec<_>>(), "the logits command with a cache of q8_0");
}

#[test]
fn interpreted_logits_with_a_cache_of_8_bits() {
    interpreted(&first_of_each_model(), Some("q8_0"));
}

/// One file of each model: its attention is that of the others.
fn first_of_each_model() -> Vec<Golden> {
    let mut models = BTreeSet::new();
    let mut files = golden();
    files.retain(|file| models.insert(file.model.clone()));
    assert!(!files.is_empty(), "no golden files");
    files
}

#[test]
fn interpreted_logits_of_every_kind() {
    // The first file of each model and of each quantisation.
    let (mut models, mut quants) = (BTreeSet::new(), BTreeSet::new());
    let mut files = golden();
    files.retain(|file| models.insert(file.model.clone()) | quants.insert(file.quant.clone()));
    interpreted(&files, None);
}

#[test]
#[ignore = "half a minute; .ci/run --full runs it"]
fn interpreted_logits_of_every_file() {
    interpreted(&golden(), None);
}

fn interpreted(files: &[Golden], cache: Option<&'static str>) {
    let case = |file, numerics| Case {
        file,
        numerics,
        cache,
        batch: 7,
        device: "interpreter",
        tokens: INTERPRETED,
        built: None,
    };
    let cases: Vec<Case<'_>> = files.iter().flat_map(|file| ["exact", "int8"].map(|n| case(file, n))).collect();
    check(files, &cases, "the interpreter");
}

#[test]
fn logits_at_every_instruction_level() {
    let files: Vec<Golden> = golden().into_iter().filter(|file| file.name == "tiny-llama-Q4_0.gguf").collect();
    assert_eq!(files.len(), 1, "a file that is part of the repository");
    at_every_level(&files);
}

#[test]
#[ignore = "compiles for many minutes; .ci/run --full runs it"]
fn logits_of_every_file_at_every_instruction_level() {
    at_every_level(&golden());
}

fn at_every_level(files: &[Golden]) {
    let there = |cc: &&str| std::process::Command::new(cc).arg("--version").output().is_ok_and(|o| o.status.success());
    let (compilers, missing): (Vec<&str>, Vec<&str>) = ["gcc", "clang"].into_iter().partition(there);
    missing.iter().for_each(|cc| println!("{cc} is not installed: no logits through it"));
    let levels = Isa::available();
    let mut cases: Vec<Case<'_>> = vec![];
    for file in files {
        for &cc in &compilers {
            let of = |&isa: &Isa| {
                let (numerics, device, tokens) = ("int8", "cpu", usize::MAX);
                Case { file, numerics, cache: None, batch: 7, device, tokens, built: Some((isa, cc)) }
            };
            cases.extend(levels.iter().map(of));
        }
    }
    check(files, &cases, &format!("{} at {} instruction levels", compilers.join(" and "), levels.len()));
}

fn check(files: &[Golden], cases: &[Case<'_>], through: &str) {
    let next = AtomicUsize::new(0);
    let problems = Mutex::new(vec![]);
    let worker = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(problem) = problem(case) {
                let Case { file, numerics, cache, batch, built, .. } = case;
                let cache = cache.map_or(String::new(), |cache| format!(" with a cache of {cache}"));
                let built = built.map_or(String::new(), |(isa, cc)| format!(" at {isa} with {cc}"));
                let problem = format!("{} {numerics}{cache} in steps of {batch}{built}: {problem}", file.name);
                println!("{problem}");
                problems.lock().expect("no panic above").push(problem);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    println!("golden: {} files ran through {through}, {} runs", files.len(), cases.len());
    let problems = problems.into_inner().expect("no panic above");
    assert!(problems.is_empty(), "{} of {} runs:\n{}", problems.len(), cases.len(), problems.join("\n"));
}

/// What is wrong with the logits of a file, if anything.
fn problem(case: &Case<'_>) -> Option<String> {
    let Case { file, numerics, cache, batch, device, tokens, built } = *case;
    let mut more = built.map_or(vec![], |(isa, cc)| vec!["--isa", isa.name(), "--cc", cc]);
    more.extend(cache.iter().flat_map(|&cache| ["--cache-type-k", cache]));
    let name = format!("golden-{}-{numerics}-{batch}-{device}{}.f32", file.name, more.concat());
    let out = folder().join(name);
    let all: Vec<u32> = file.prompt.iter().chain(&file.greedy).copied().take(tokens).collect();
    let (ids, batch) = (list(all.iter()), batch.to_string());
    let args = ["logits", "-m", text(&file.path), "--tokens", &ids, "--batch", &batch, "-t", "1", "--device", device];
    let ran = run(&[&args[..], &["--numerics", numerics, "--out", text(&out)], &more].concat());
    if ran.code != 0 {
        return Some(ran.err.lines().last().unwrap_or_default().to_owned());
    }
    let (got, mut want) = (floats(&std::fs::read(&out).expect("logits")), file.logits());
    std::fs::remove_file(out).expect("a test file");
    want.truncate(all.len() * file.vocab);
    if got.len() != want.len() {
        return Some(format!("{} logits instead of {}", got.len(), want.len()));
    }
    if (numerics, cache) == ("exact", None) {
        let chosen: Vec<u32> = got.chunks(file.vocab).skip(file.prompt.len() - 1).map(argmax).collect();
        let same = chosen.iter().zip(&file.greedy).all(|(a, b)| a == b);
        let nmse = nmse(&got, &want);
        let wrong = !same || nmse.is_nan() || nmse > EXACT_NMSE;
        return wrong.then(|| format!("NMSE {nmse:.2e}, greedy ids equal: {same}"));
    }
    // Over a few tokens one flipped expert weighs more.
    let few = if all.len() < 64 { 4.0 } else { 1.0 };
    let of_int8 = if file.is_mixture() { 3.0 * file.peer_kld + 5e-3 } else { 2.0 * file.peer_kld + 1e-4 };
    let of_cache = if file.is_mixture() { Q8_0_MIXTURE_KL } else { Q8_0_KL };
    let most = few
        * match (numerics, cache) {
            ("exact", _) => of_cache,
            (_, Some(_)) => of_int8 + of_cache,
            (_, None) => of_int8,
        };
    let kl = mean_kl(&got, &want, file.vocab);
    (kl.is_nan() || kl > most).then(|| format!("mean KL {kl:.2e}, at most {most:.2e}"))
}

fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).expect("a row") as u32
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    error / want.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>()
}

fn mean_kl(got: &[f32], want: &[f32], vocab: usize) -> f64 {
    let rows = got.chunks(vocab).zip(want.chunks(vocab));
    let of_row = |(got, want): (&[f32], &[f32])| -> f64 {
        let (lg, lw) = (log_sum(got), log_sum(want));
        let term = |(&g, &w): (&f32, &f32)| {
            let (log_w, log_g) = (f64::from(w) - lw, f64::from(g) - lg);
            log_w.exp() * (log_w - log_g)
        };
        got.iter().zip(want).map(term).sum()
    };
    let count = want.len() / vocab;
    rows.map(of_row).sum::<f64>() / count as f64
}

fn log_sum(row: &[f32]) -> f64 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    f64::from(max) + row.iter().map(|&v| f64::from(v - max).exp()).sum::<f64>().ln()
}

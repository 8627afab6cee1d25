//! `kernloom logits` against reference logits: every file under both policies, and the first tokens of one file of each
//! model and of each quantisation through the interpreter.
//!
//! Steps of 1, 7 and 64 tokens make programs of all classes. A file whose model another one has is read in steps of 63, of which
//! the last has one token, and under `exact` of 64 alone: what a format adds there is how its blocks are unpacked, which is
//! tested for few tokens on single kernels (`device/tests/levels.rs`).
//!
//! Kernels are built with little optimisation but for two models at the levels of this machine, and all that `.ci/run` does
//! outside of these tests.

use crate::gates;
use crate::support::{Golden, floats, folder, golden, list, run, text};
use device::Isa;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const BATCHES: [usize; 3] = [1, 7, 64];

/// Steps whose programs are of all classes: the last of steps of 7 tokens has one.
const CLASSES: [usize; 2] = [7, 64];

/// Steps whose programs are of the classes of the most and the fewest tokens.
const SUMS: [usize; 1] = [63];

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
    assert!(!files.is_empty(), "no golden files");
    let (mut models, mut cases) = (BTreeSet::new(), vec![]);
    for file in &files {
        let (exact, int8) =
            if models.insert(&file.model) { (&BATCHES[..], &BATCHES[..]) } else { (&BATCHES[2..], &SUMS[..]) };
        for (numerics, batches) in [("exact", exact), ("int8", int8)] {
            let (device, tokens) = ("cpu", usize::MAX);
            let case = |&batch| Case { file, numerics, cache: None, batch, device, tokens, built: None };
            cases.extend(batches.iter().map(case));
        }
    }
    check(&files, &cases, "the logits command");
}

#[test]
fn logits_with_a_cache_of_8_bits() {
    let files = first_of_each_model();
    let of_file = |file| {
        let (cache, tokens) = (Some("q8_0"), usize::MAX);
        let case = move |numerics, batch| Case { file, numerics, cache, batch, device: "cpu", tokens, built: None };
        // Entries of the cache are read alike under both policies.
        CLASSES.map(|batch| case("int8", batch)).into_iter().chain([case("exact", BATCHES[2])])
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

/// One that is part of the repository.
fn file_of(name: &str) -> Vec<Golden> {
    let files: Vec<Golden> = golden().into_iter().filter(|file| file.name == name).collect();
    assert_eq!(files.len(), 1, "{name}");
    files
}

#[test]
fn logits_with_full_optimisation() {
    let Some(cc) = ["gcc", "clang"].into_iter().find(is_there) else { return };
    let isa = *Isa::available().last().expect("a level");
    let files = file_of("tiny-mla-moe-Q4_0.gguf");
    let case = |numerics, batch| {
        let (device, tokens) = ("cpu", usize::MAX);
        Case { file: &files[0], numerics, cache: None, batch, device, tokens, built: Some((isa, cc)) }
    };
    let cases: Vec<Case<'_>> = ["exact", "int8"].iter().flat_map(|n| CLASSES.map(|batch| case(n, batch))).collect();
    check(&files, &cases, &format!("{cc} with full optimisation"));
}

#[test]
fn logits_at_every_instruction_level() {
    at_every_level(&file_of("tiny-llama-Q4_0.gguf"));
}

#[test]
#[ignore = "compiles for many minutes; .ci/run --full runs it"]
fn logits_of_every_file_at_every_instruction_level() {
    at_every_level(&golden());
}

fn is_there(cc: &&str) -> bool {
    std::process::Command::new(cc).arg("--version").output().is_ok_and(|ran| ran.status.success())
}

fn at_every_level(files: &[Golden]) {
    let (compilers, missing): (Vec<&str>, Vec<&str>) = ["gcc", "clang"].into_iter().partition(is_there);
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
    gates::problem(file, &got, &want, numerics, cache)
}

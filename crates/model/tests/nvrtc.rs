//! Every kernel that the GPU-like target makes of tiny models is CUDA that NVRTC compiles: to code of an H200, and those of
//! some files to code of an A100 and of an RTX 50.
//!
//! `KERNLOOM_NVRTC` names the library (`libnvrtc.so.13`, from the wheel `nvidia-cuda-nvrtc`; `.ci/run` fetches it). It
//! needs no GPU. Without it the test says that it was skipped.

use compiler::program::Kernel;
use compiler::{Compiled, Numerics, Options};
use cuda::architecture::Architecture;
use cuda::nvrtc::{NEWEST, Nvrtc, options};
use gguf::Gguf;
use model::cache::{CacheKind, PAGE};
use model::config::Config;
use model::step::{Class, Sizes, build};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use testkit::cases::programs;

/// The architecture of an H200.
const MAIN: &str = "sm_90a";

/// Others, for which the first of the files are compiled too.
const OTHERS: [&str; 2] = ["sm_80", "sm_120a"];

/// Files that those take.
const OF_OTHERS: usize = 2;

/// Files that every run takes, spread over the list; `.ci/run --full` takes all.
const SOME: usize = 5;

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = root.join("../shared/golden");
    if shared.join("manifest.json").is_file() { shared } else { root.join("tests/golden") }
}

/// The program of a file for a class of steps.
fn program(path: &Path, numerics: Numerics, class: Class, architecture: &str) -> Compiled {
    let file = Gguf::open(path).expect("a model file");
    let config = Config::read(&file).expect("a model");
    let options = Architecture::named(architecture).expect("an architecture").options(numerics);
    let cache = CacheKind::of(numerics);
    let pages = 256 / PAGE;
    let sizes = Sizes {
        class,
        output: model::step::Output::Logits,
        most_tokens: 64,
        most_rows: 64,
        segments: 1,
        window_pages: pages,
        pages,
        row_pages: pages,
        cache,
    };
    build(&file, &config, &sizes, &options).expect("a program")
}

/// Distinct kernels of one program, with what precedes them.
struct Unit {
    name: String,
    architecture: &'static str,
    kernels: usize,
    source: String,
}

/// What the models of the golden files need: some of them for one token, or all of them in every form.
fn units(every: bool) -> Vec<Unit> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("golden files")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "gguf"))
        .collect();
    files.sort();
    let apart = if every { 1 } else { files.len().div_ceil(SOME) };
    let mut seen = HashSet::new();
    let mut units = vec![];
    let mut add = |path: &Path, architecture: &'static str| {
        let file = path.file_stem().map_or(String::new(), |n| n.to_string_lossy().into_owned());
        let jobs = match every {
            true => vec![(Numerics::Int8, 1), (Numerics::Exact, 1), (Numerics::Int8, 4), (Numerics::Int8, 64)],
            false => vec![(Numerics::Int8, 1)],
        };
        for (numerics, tokens) in jobs {
            let program = program(path, numerics, Class::of(tokens), architecture).program;
            // Kernels that another program had, under another name, need not be compiled again.
            let of = |k: &Kernel| format!("{architecture} {}", k.source.replace(&k.symbol, "kernel"));
            let new = program.kernels.iter().filter(|k| seen.insert(of(k)));
            let new: Vec<&str> = new.map(|k| k.source.as_str()).collect();
            let source = format!("{}\n{}", program.prelude, new.join("\n"));
            let name = format!("{file} {numerics:?} {tokens} for {architecture}");
            units.push(Unit { name, architecture, kernels: new.len(), source });
        }
    };
    let files: Vec<&PathBuf> = files.iter().step_by(apart.max(1)).collect();
    files.iter().for_each(|path| add(path, MAIN));
    for architecture in OTHERS {
        files.iter().take(OF_OTHERS).for_each(|path| add(path, architecture));
    }
    units
}

/// The compiler that a setting names.
pub fn library() -> Option<Nvrtc> {
    let Ok(path) = std::env::var("KERNLOOM_NVRTC") else {
        println!("nvrtc: skipped, KERNLOOM_NVRTC does not name the library");
        return None;
    };
    Some(Nvrtc::find(Some(Path::new(&path)), (NEWEST, 0)).expect("the library that KERNLOOM_NVRTC names"))
}

fn check(every: bool) {
    let Some(nvrtc) = library() else { return };
    let units = units(every);
    let kernels: usize = units.iter().map(|u| u.kernels).sum();
    assert!(kernels > 0, "no kernels in {}", folder().display());
    let (left, problems) = (Mutex::new(units), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let Some(unit) = left.lock().expect("no panic").pop() else { break };
                    match nvrtc.compile(&unit.source, &options(unit.architecture)) {
                        Ok(code) if !code.is_empty() || unit.kernels == 0 => {}
                        Ok(_) => problems.lock().expect("no panic").push(format!("{}: no code", unit.name)),
                        Err(e) => problems.lock().expect("no panic").push(format!("{}: {e}", unit.name)),
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    println!("nvrtc: {kernels} kernels compiled for {MAIN}, {}", OTHERS.join(", "));
}

/// Signed integers that do not fit are undefined in CUDA, so they are added and multiplied as others.
#[test]
fn integers_are_computed_modulo_their_range() {
    let (_, case) = programs::all().into_iter().find(|(name, _)| name == "integers wrap").expect("the program");
    let compiled = case.compile(&Options::gpu(Numerics::Exact)).expect("a program");
    let kernels: Vec<&str> = compiled.program.kernels.iter().map(|kernel| &*kernel.source).collect();
    for sign in ["+", "-", "*"] {
        let wraps = |line: &&str| line.contains("(int)((u32)") && line.contains(&format!(" {sign} (u32)"));
        assert!(kernels.iter().flat_map(|source| source.lines()).any(|line| wraps(&line)), "no {sign} wraps");
    }
    if let Some(nvrtc) = library() {
        let source = format!("{}\n{}", compiled.program.prelude, kernels.join("\n"));
        assert!(!nvrtc.compile(&source, &options(MAIN)).expect("CUDA that compiles").is_empty());
    }
}

#[test]
fn kernels_of_models_compile() {
    check(false);
}

#[test]
#[ignore = "compiles for minutes"]
fn kernels_of_all_models_compile() {
    check(true);
}

//! Every matrix product of every golden model takes a path that was made for it, and the compiler can say which.

mod support;

use compiler::compile::Compiled;
use compiler::program::Launch;
use compiler::{Numerics, Options};
use device::Null;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use model::synth::{Plan, SynthOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::hollow::Hollow;

/// Sums over rows of weights by packed integer dots or by the matrix unit.
const PACKED: [&str; 3] = ["integer dot", "integer tile", "block product"];

/// Sums of floats in vectors: along the sum, or along the output where blocks lie across the sum.
const VECTORS: [&str; 2] = ["vector reduction", "vector columns"];

fn golden() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = root.join("../shared/golden");
    let folder = if beside.is_dir() { beside } else { root.join("tests/golden") };
    let files = std::fs::read_dir(folder).expect("golden files").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    files.sort();
    files
}

/// Whether a product may take any path: half of an `attn_kv_b` that is not split is read transposed, so that the sum goes
/// across its blocks; and rows of a single block have no sum over blocks, which only a tiny model has.
fn may_be_generic(tensor: &gguf::Tensor) -> bool {
    tensor.name.ends_with("attn_kv_b.weight") || tensor.shape()[0] == u64::from(tensor.ty.block_len())
}

/// Matrices that a launch multiplies with. The embedding does not count: most kernels that read it take a row.
fn matrices<'a>(file: &'a Gguf, launch: &Launch) -> Vec<&'a gguf::Tensor> {
    let names = launch.origin.split(' ');
    let tensor = |name: &str| file.tensors().iter().find(|t| t.name.strip_suffix(".weight") == Some(name));
    names
        .filter_map(tensor)
        .filter(|t| t.shape().len() > 1 && t.name != "token_embd.weight" && !may_be_generic(t))
        .collect()
}

/// What is wrong with the paths of a program, and how many products it has.
fn generic(file: &Gguf, compiled: &Compiled, numerics: Numerics) -> (Vec<String>, usize) {
    let (mut found, mut products) = (vec![], 0);
    for launch in compiled.program.stages.iter().flat_map(|stage| &stage.launches) {
        let matrices = matrices(file, launch);
        let paths = &compiled.bodies[launch.kernel].paths;
        let count = |wanted: &[&str]| paths.iter().filter(|path| wanted.contains(path)).count();
        // Where blocks lie across the sum, many tokens read them as floats that were made once.
        if !matrices.is_empty()
            && matrices.iter().all(|t| t.name.ends_with("attn_k_b.weight"))
            && paths[..] == ["vector map"]
        {
            continue;
        }
        let is_packed = |t: &&&gguf::Tensor| numerics == Numerics::Int8 && t.ty.block_len() > 1;
        let packed = matrices.iter().filter(is_packed).count();
        if count(&PACKED) < packed || count(&PACKED) + count(&VECTORS) < matrices.len() {
            found.push(format!("{}: {}", launch.origin, paths.join(", ")));
        }
        products += matrices.len();
    }
    (found, products)
}

/// As [`generic`], of every program of a file.
fn problems(path: &Path, without: &[&str]) -> (Vec<String>, usize) {
    let file = Arc::new(Gguf::open(path).expect("a golden file"));
    let (mut found, mut products) = (vec![], 0);
    for numerics in [Numerics::Exact, Numerics::Int8] {
        let mut compiler = Options::cpu(numerics, 64);
        compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
        let options = EngineOptions { compiler, context: 128, chunk: 64, cache: CacheKind::F32 };
        let mut engine = Engine::new(file.clone(), Arc::new(Null), options).expect("a golden model");
        for class in Class::ALL {
            let compiled = engine.compile(class).expect("a program");
            let (of_program, n) = generic(&file, compiled, numerics);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            found.extend(of_program.iter().map(|p| format!("{name} {numerics:?} {class:?}: {p}")));
            products += n;
        }
    }
    (found, products)
}

#[test]
fn no_product_of_a_golden_model_takes_a_generic_path() {
    let files = golden();
    let (mut found, mut products) = (vec![], 0);
    for path in &files {
        let (of_file, n) = problems(path, &[]);
        found.extend(of_file);
        products += n;
    }
    println!("{products} products of {} golden models", files.len());
    assert!(products > 100 * files.len(), "{products} products were found");
    assert!(found.is_empty(), "{} of {products}:\n{}", found.len(), found.join("\n"));
}

/// The paths of the kernel that reads a cache of 8 bits, in steps that decode.
fn of_the_cache(shape: &str, numerics: Numerics) -> Vec<Vec<&'static str>> {
    let hollow = Hollow { cache: Some(CacheKind::Q8_0), numerics, ..Hollow::new(shape, 1) };
    let paths = |class| {
        let compiled = hollow.compile_with(class, &Options::cpu(numerics, 64)).expect("a program");
        let mut launches = compiled.program.stages.iter().flat_map(|stage| &stage.launches);
        // What else asks for pages writes to them before.
        let pages = |launch: &&Launch| launch.origin.split(' ').any(|name| name == "page_table");
        let launch = launches.rfind(pages).expect("attention");
        compiled.bodies[launch.kernel].paths.clone()
    };
    [Class::One, Class::Few].map(paths).to_vec()
}

#[test]
fn a_cache_of_8_bits_is_read_by_integer_dots() {
    // Keys, or latents and rotated keys.
    for (shape, sums) in [("llama-3.2-1b", 1), ("qwen3-30b-a3b", 1), ("youtu-llm-2b", 2), ("glm-4.7-flash", 2)] {
        for (numerics, wanted) in [(Numerics::Int8, sums), (Numerics::Exact, 0)] {
            for paths in of_the_cache(shape, numerics) {
                let packed = paths.iter().filter(|path| PACKED.contains(path)).count();
                assert_eq!(packed, wanted, "{shape} {numerics:?}: {}", paths.join(", "));
            }
        }
    }
}

#[test]
fn a_step_counts_the_bytes_of_each_weight_once() {
    for shape in
        ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3moe", "tiny-glm4", "tiny-mla-moe", "tiny-mla-dense"]
    {
        let plan = Plan::new(shape, "q4_0", &SynthOptions::default()).expect("a shape");
        let file = Arc::new(Gguf::parse(plan.to_vec().expect("a file")).expect("a file that reads back"));
        let compiler = Options::cpu(Numerics::Int8, 64);
        let options = EngineOptions { compiler, context: 128, chunk: 64, cache: CacheKind::F32 };
        let mut engine = Engine::new(file, Arc::new(Null), options).expect("a model");
        engine.prepare(Class::One).expect("a program");
        let (counted, planned) = (model::plan::step_bytes(&engine).expect("bytes") as f64, plan.step_bytes() as f64);
        // Norm weights are read by several kernels.
        assert!((0.99..1.03).contains(&(counted / planned)), "{shape}: {counted} bytes instead of {planned}");
    }
}

#[test]
fn a_generic_path_is_found() {
    let path = golden().into_iter().find(|path| path.ends_with("tiny-mla-moe-Q4_0.gguf")).expect("a golden file");
    for without in [&["dot", "tile"][..], &["lanes"]] {
        assert!(!problems(&path, without).0.is_empty(), "without {without:?}");
    }
}

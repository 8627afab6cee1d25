//! Every matrix product of every golden model takes a path that was made for it, and the compiler's log says which.

use crate::support::hollow::Hollow;
use crate::support::{golden, in_parallel};
use compiler::program::Launch;
use compiler::program::products::{PACKED, Product};
use compiler::{Numerics, Options};
use device::{Extra, Isa, Null, Target};
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use model::synth::{SynthOptions, SynthPlan};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Sums of floats in vectors: along the sum, or along the output where blocks lie across the sum.
const VECTORS: [&str; 2] = ["vector reduction", "vector columns"];

/// What a program is made for.
#[derive(Clone, Debug)]
struct Setup {
    numerics: Numerics,
    target: Target,
    cache: CacheKind,
}

/// Machines with vectors of 16 bytes, of 32 with products by twos and by fours, and of 64 with and without a matrix unit.
fn setups() -> Vec<Setup> {
    let target = |isa| Target { isa, extras: vec![] };
    let unit = Target { isa: Isa::Avx512Vnni, extras: vec![Extra::AmxBf16] };
    let int8 = [Isa::NeonDot, Isa::Avx2, Isa::AvxVnni, Isa::Avx512Vnni].map(target).into_iter().chain([unit]);
    let int8 = int8.map(|target| Setup { numerics: Numerics::Int8, target, cache: CacheKind::F16 });
    let exact = [Isa::NeonDot, Isa::Avx512Vnni].map(target);
    let exact = exact.map(|target| Setup { numerics: Numerics::Exact, target, cache: CacheKind::F32 });
    int8.chain(exact).collect()
}

impl Setup {
    fn options(&self) -> Options {
        self.target.options(self.numerics)
    }

    /// Classes whose products are not those of another setup or class.
    fn classes(&self) -> impl Iterator<Item = Class> + use<> {
        // Few tokens do without the matrix unit, and sums of floats go by vectors for any number of tokens.
        let unit = self.options().plan().is_some_and(|plan| plan.matrix_unit);
        let of_floats = self.numerics == Numerics::Exact;
        let has =
            move |class: &Class| (!unit || class.many()) && (!of_floats || [Class::One, Class::Many].contains(class));
        Class::ALL.into_iter().filter(has)
    }
}

/// The products of the program of a class, and the names of its kernels.
fn products(file: &Arc<Gguf>, setup: &Setup, class: Class, without: &[&str]) -> (Vec<Product>, Vec<String>) {
    let mut compiler = setup.options();
    compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
    let options = EngineOptions { compiler, context: 128, chunk: 64, cache: setup.cache };
    let mut engine = Engine::new(file.clone(), Arc::new(Null), options).expect("a golden model");
    let compiled = engine.compile(class).expect("a program");
    let names = compiled.program.kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
    (compiled.log.products.clone(), names)
}

/// Matrices that a step multiplies with, and how often. Of the embedding, rows are taken; a model without a head of its
/// own multiplies with it as well.
fn matrices(file: &Gguf) -> BTreeMap<&str, usize> {
    let head = file.tensors().iter().any(|t| t.name == "output.weight");
    let is_matrix = |t: &&gguf::Tensor| t.shape().len() > 1 && !(head && t.name == "token_embd.weight");
    // Matrices that hold two are multiplied with by halves.
    let has = |name: &str| file.tensors().iter().any(|t| t.name == name);
    let halves = |name: &str| {
        let gate = name.strip_suffix("ffn_up").map(|layer| format!("{layer}ffn_gate.weight"));
        name.ends_with("attn_kv_b") || gate.is_some_and(|gate| !has(&gate))
    };
    file.tensors()
        .iter()
        .filter(is_matrix)
        .map(|t| t.name.strip_suffix(".weight").unwrap_or(&t.name))
        .map(|name| (name, if halves(name) { 2 } else { 1 }))
        .collect()
}

/// Whether a product takes a path that was not made for it.
fn is_generic(file: &Gguf, setup: &Setup, product: &Product) -> bool {
    let tensor = |name: &String| file.tensors().iter().find(|t| t.name.strip_suffix(".weight") == Some(name));
    let weights: Vec<&gguf::Tensor> = product.operands.iter().filter_map(tensor).collect();
    let weights = if product.computed { vec![] } else { weights };
    let all = |is: &dyn Fn(&gguf::Tensor) -> bool| !weights.is_empty() && weights.iter().all(|t| is(t));
    // Contraction across blocks: each term of the sum has a scale of its own, and there is no dot of codes.
    let across = all(&|t| ["attn_k_b.weight", "attn_kv_b.weight"].iter().any(|name| t.name.ends_with(name)));
    let in_vectors = VECTORS.contains(&&*product.path);
    if across && product.why.as_deref() == Some("the sum goes across blocks") {
        return !in_vectors;
    }
    // Rows that do not fill the last block of the matrix unit: 400 of them, in one tiny model.
    let uneven =
        setup.options().plan().is_some_and(|plan| plan.matrix_unit) && all(&|t| t.shape()[1] % ir::PRODUCT as u64 != 0);
    let in_blocks = all(&|t| t.ty.block_len() > 1);
    let packed = PACKED.contains(&&*product.path);
    match setup.numerics {
        Numerics::Int8 if in_blocks && !uneven => !packed,
        _ => !packed && !in_vectors,
    }
}

/// Kernels whose names are not those of the paths that their products took.
fn misnamed(products: &[Product], names: &[String]) -> Vec<String> {
    let mut paths: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    products.iter().for_each(|product| paths.entry(product.kernel).or_default().push(&product.path));
    let names = paths.into_iter().map(|(kernel, paths)| (&names[kernel], paths));
    let wrong = names.filter(|(name, paths)| !paths.iter().any(|path| name.ends_with(&path.replace(' ', "_"))));
    wrong.map(|(name, paths)| format!("{name} takes {}", paths.join(", "))).collect()
}

/// What is wrong with the paths of every program of a file, and how many products it has.
fn problems(path: &Path, setups: &[Setup], without: &[&str]) -> (Vec<String>, usize) {
    let file = Arc::new(Gguf::open(path).expect("a golden file"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let matrices = matrices(&file);
    let (mut found, mut count) = (vec![], 0);
    for setup in setups {
        for class in setup.classes() {
            let program = format!("{name} {:?} {} {class:?}", setup.numerics, setup.target);
            let (products, names) = products(&file, setup, class, without);
            let generic = products.iter().filter(|p| is_generic(&file, setup, p));
            found.extend(generic.map(|p| format!("{program}: {p}")));
            found.extend(misnamed(&products, &names).into_iter().map(|name| format!("{program}: {name}")));
            for (matrix, times) in &matrices {
                let logged = products.iter().filter(|p| !p.computed && p.operands.iter().any(|o| o == matrix)).count();
                if logged != *times {
                    found.push(format!("{program}: {matrix} is logged {logged} times"));
                }
            }
            count += products.len();
        }
    }
    (found, count)
}

#[test]
fn no_product_of_a_golden_model_takes_a_generic_path() {
    let files = golden();
    let all = in_parallel(&files, |path| problems(path, &setups(), &[]));
    let products: usize = all.iter().map(|(_, count)| count).sum();
    let found: Vec<String> = all.into_iter().flat_map(|(found, _)| found).collect();
    println!("{products} products of {} golden models", files.len());
    assert!(products > 500 * files.len(), "{products} products were found");
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
        compiled.bodies[launch.kernel].paths()
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

/// Latents are decompressed for a prompt by weights whose blocks may lie across the sum.
#[test]
fn prompts_over_a_cache_of_8_bits_take_no_scalar_sums() {
    for shape in ["llama-3.2-1b", "youtu-llm-2b", "glm-4.7-flash"] {
        let hollow = Hollow { cache: Some(CacheKind::Q8_0), numerics: Numerics::Int8, ..Hollow::new(shape, 1) };
        for class in [Class::Many, Class::Prompt] {
            let compiled = hollow.compile_with(class, &Options::cpu(Numerics::Int8, 64)).expect("a program");
            let products = compiled.bodies.iter().filter(|body| body.paths().contains(&"integer tile")).count();
            let scalar = compiled.bodies.iter().filter(|body| body.paths().contains(&"scalar reduction")).count();
            assert!(products > 3 && scalar == 0, "{shape} {class:?}: {scalar} kernels beside {products} of products");
        }
    }
}

#[test]
fn a_step_counts_the_bytes_of_each_weight_once() {
    for shape in
        ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3moe", "tiny-glm4", "tiny-mla-moe", "tiny-mla-dense"]
    {
        let plan = SynthPlan::new(shape, "q4_0", &SynthOptions::default()).expect("a shape");
        let file = Arc::new(Gguf::parse(plan.to_vec().expect("a file")).expect("a file that reads back"));
        let compiler = Options::cpu(Numerics::Int8, 64);
        let options = EngineOptions { compiler, context: 128, chunk: 64, cache: CacheKind::F32 };
        let mut engine = Engine::new(file, Arc::new(Null), options).expect("a model");
        engine.prepare(Class::One).expect("a program");
        let (counted, planned) =
            (model::memory_plan::step_bytes(&engine).expect("bytes") as f64, plan.step_bytes() as f64);
        // Norm weights are read by several kernels.
        assert!((0.99..1.03).contains(&(counted / planned)), "{shape}: {counted} bytes instead of {planned}");
    }
}

#[test]
fn a_generic_path_is_found() {
    let path = golden().into_iter().find(|path| path.ends_with("tiny-mla-moe-Q4_0.gguf")).expect("a golden file");
    let setup = setups().into_iter().find(|s| s.target.isa == Isa::Avx512Vnni).expect("a setup");
    let found = |without: &[&str]| problems(&path, std::slice::from_ref(&setup), without).0;
    // Sums across blocks have no dots, but vectors.
    if let Some(legacy) = golden().into_iter().find(|path| path.ends_with("tiny-mla-legacy-Q4_0.gguf")) {
        let scalar = problems(&legacy, std::slice::from_ref(&setup), &["lanes"]).0;
        assert!(scalar.iter().any(|problem| problem.ends_with("the sum goes across blocks")));
    }
    for without in [&["dot"][..], &["dot", "tile"], &["lanes"]] {
        let found = found(without);
        assert!(!found.is_empty(), "without {without:?}");
        // Whatever path products take, their kernels are named after it.
        assert!(!found.iter().any(|problem| problem.contains(" takes ")), "{}", found.join("\n"));
    }
}

/// What a token reads of an embedding in blocks is data: it is unpacked once, and a matrix of floats stays as it is.
#[test]
fn rows_of_an_embedding_are_no_weights() {
    let hollow = Hollow { context: 128, ..Hollow::new("gemma-4-e2b", 2) };
    for class in [Class::One, Class::Few, Class::Many] {
        let compiled = hollow.compile_with(class, &Options::cpu(Numerics::Int8, 64)).expect("a program");
        let reads = |product: &&Product| product.operands.iter().any(|name| name == "per_layer_model_proj");
        let paths: Vec<&str> = compiled.log.products.iter().filter(reads).map(|product| &*product.path).collect();
        assert!(!paths.is_empty() && paths.iter().all(|path| VECTORS.contains(path)), "{class:?}: {paths:?}");
    }
}

//! Kernels of blocks for the real shapes, without any data: hardly more stages than on a CPU, and one launch in each; no
//! more shared memory than a multiprocessor has; and of each kernel of a step of one token, what decides how long it
//! takes.

use crate::snapshots::{LAYER, compare, reads, stages_of_layer};
use crate::support::hollow::Hollow;
use compiler::gpu::GpuPlan;
use compiler::program::products::Product;
use compiler::program::{Kernel, Launch, Stage};
use compiler::{Compiled, Numerics, Options};
use ir::Op;
use model::cache::CacheKind;
use model::step::{Class, Output};
use std::fmt::Write;

/// Bytes of shared memory that one block may have on an H200.
const SHARED: usize = 227 << 10;

fn one_token(shape: &str, layers: u32) -> Compiled {
    of_class(Class::One, shape, layers)
}

fn of_class(class: Class, shape: &str, layers: u32) -> Compiled {
    compiled(class, shape, layers, Options::gpu)
}

fn compiled(class: Class, shape: &str, layers: u32, options: fn(Numerics) -> Options) -> Compiled {
    let hollow = Hollow::new(shape, layers);
    let options = Options { check: true, ..options(hollow.numerics) };
    hollow.compile_with(class, &options).expect("a program whose kernels keep the rules")
}

#[test]
fn real_shapes_become_blocks() {
    let layers = 3;
    for shape in ["glm-4.7-flash", "youtu-llm-2b", "llama-3.2-1b"] {
        let cpu = Hollow::new(shape, layers).compile();
        let c = one_token(shape, layers);
        // Many parts of the cache are merged by a kernel of their own.
        let most = cpu.program.stages.len() + layers as usize;
        assert!(c.program.stages.len() <= most, "{shape}: {} stages", c.program.stages.len());
        if shape != "llama-3.2-1b" {
            // Few are merged by those who read them.
            let short = of_class(Class::Short, shape, layers);
            assert_eq!(short.program.stages.len() + layers as usize, c.program.stages.len(), "{shape}, a short past");
        }
        assert!(c.program.stages.iter().all(|stage| stage.launches.len() == 1), "{shape}: launches beside each other");
        for launch in c.program.stages.iter().flat_map(|s| &s.launches) {
            let kernel = &c.program.kernels[launch.kernel];
            let (symbol, block) = (&kernel.symbol, kernel.geometry);
            assert_eq!(block.scratch_bytes, 0, "{shape} {symbol}: what a block keeps does not fit");
            assert!(block.shared_bytes <= SHARED, "{shape} {symbol}: {block:?}");
            assert!(block.waits, "{shape} {symbol}: it may not begin early");
            // Of ends in 64 bits, ptxas of CUDA 13.0 made addresses from constants that it had overwritten.
            assert!(!kernel.source.contains("kl_min<i64>"), "{shape} {symbol}: indices that fit 32 bits have more");
        }
    }
}

/// Writes down the kernels of a layer and those after the last one.
fn check(name: &str, shape: &str, class: Class) {
    check_with(name, shape, class, Options::gpu);
}

fn check_with(name: &str, shape: &str, class: Class, options: fn(Numerics) -> Options) {
    let layers = LAYER + 2;
    let [c, shorter] = [layers, layers - 1].map(|layers| compiled(class, shape, layers, options));
    let step = match class {
        Class::One | Class::Short => class.words().into(),
        class => format!("{class:?}"),
    };
    let mut text = format!("{shape}, layer {LAYER} of {layers}, {step}, int8, blocks of threads\n");
    let mut write = |number: String, stage: &Stage| {
        let _ = writeln!(text, "\nstage {number}");
        stage.launches.iter().for_each(|launch| kernel(&c, launch, &mut text));
    };
    let stages = stages_of_layer(&c, &shorter);
    stages.iter().enumerate().for_each(|(number, stage)| write((number + 1).to_string(), stage));
    c.program.stages.last().into_iter().for_each(|stage| write("last".into(), stage));
    compare(name, &text);
}

fn kernel(c: &Compiled, launch: &Launch, text: &mut String) {
    let kernel = &c.program.kernels[launch.kernel];
    let blocks = launch.tasks.eval(&c.program.vars.iter().map(|v| v.max).collect::<Vec<_>>()).expect("a count");
    let body = &c.bodies[launch.kernel];
    let barriers = barriers(c, body.root);
    let size = kernel.geometry;
    let early = early_bytes(c, body.root);
    let _ = writeln!(text, "  {}", reads(launch));
    let scratch =
        if size.scratch_bytes > 0 { format!(", {} bytes of scratch", size.scratch_bytes) } else { String::new() };
    let _ = writeln!(
        text,
        "    {blocks} blocks of {} threads, {barriers} barriers, {} bytes shared, {early} bytes a thread early{scratch}",
        size.threads, size.shared_bytes
    );
}

/// Bytes that a thread loads before it waits for the launches before its own, in the part that loads most; none in a
/// kernel that begins when they are over.
pub fn early_bytes(c: &Compiled, root: ir::Id) -> usize {
    let g = &c.graph;
    if *g.op(root) == Op::Parts {
        return g.src(root).iter().map(|&part| early_bytes(c, part)).max().unwrap_or(0);
    }
    let all = g.src(root);
    let Some(wait) = all.iter().position(|&s| *g.op(s) == Op::Wait) else { return 0 };
    let before = all[..wait].to_vec();
    let all = g.toposort(&before);
    all.into_iter().filter(|&id| *g.op(id) == Op::Load).map(|id| g.ty(id).bytes()).sum()
}

/// Barriers in the text of a kernel, or of the part that has most.
fn barriers(c: &Compiled, statement: ir::Id) -> usize {
    let g = &c.graph;
    match g.op(statement) {
        Op::Barrier { .. } => 1,
        Op::Block => g.src(statement).iter().map(|&s| barriers(c, s)).sum(),
        Op::Parts => g.src(statement).iter().map(|&s| barriers(c, s)).max().unwrap_or(0),
        Op::Loop | Op::If => g.src(statement)[1..].iter().map(|&s| barriers(c, s)).sum(),
        _ => 0,
    }
}

/// Several sequences merge parts of elements that do not divide the threads of a block.
#[test]
fn few_sequences_keep_the_rules() {
    for shape in ["glm-4.7-flash", "deepseek-v2-lite"] {
        of_class(Class::Few, shape, 2);
    }
}

#[test]
fn kernels_of_glm_flash_are_as_they_were() {
    check("gpu_glm_flash", "glm-4.7-flash", Class::One);
}

#[test]
fn kernels_of_deepseek_lite_are_as_they_were() {
    check("gpu_deepseek_lite", "deepseek-v2-lite", Class::One);
}

#[test]
fn kernels_of_youtu_are_as_they_were() {
    check("gpu_youtu", "youtu-llm-2b", Class::One);
    check("gpu_youtu_short", "youtu-llm-2b", Class::Short);
}

#[test]
fn kernels_of_prompts_and_sequences_are_as_they_were() {
    check("gpu_glm_flash_prompt", "glm-4.7-flash", Class::Prompt);
    check("gpu_glm_flash_many", "glm-4.7-flash", Class::Many);
    check("gpu_glm_flash_several", "glm-4.7-flash", Class::Several);
}

/// Where a warp has matrices as a whole, sums over weights and what is computed of them need no memory of the device; what a
/// loop of attention keeps, and what a norm reads again, lie there.
#[test]
fn prompts_by_cooperative_matrices_are_as_they_were() {
    check_with("wgsl_glm_flash_prompt", "glm-4.7-flash", Class::Prompt, Options::wgsl_of_matrices);
    check_with("wgsl_youtu_prompt", "youtu-llm-2b", Class::Prompt, Options::wgsl_of_matrices);
}

/// One token where memory consists of words: the number of a page is loaded in no loop but that over pages, and bytes and halves
/// go to memory by words, of which a lane stores all. A flag for each expert alone, of a task each, has no neighbours.
#[test]
fn one_token_stores_and_loads_words() {
    check_with("wgsl_youtu_short", "youtu-llm-2b", Class::Short, Options::wgsl_of_matrices);
    for (shape, flags) in [("youtu-llm-2b", 0), ("glm-4.7-flash", 1)] {
        let c = compiled(Class::Short, shape, 2, Options::wgsl_of_matrices);
        let changed = |kernel: &Kernel| kernel.source.matches("atomicXor(&p").count();
        let all: usize = c.program.kernels.iter().map(changed).sum();
        assert_eq!(all, flags, "{shape}: stores to memory of less than a word");
        let attention = c.program.each_launch().find(|launch| reads(launch) == "position segment page_table");
        let attention = attention.expect("a kernel that reads pages");
        let slot = |name: &str| {
            let is_it = |&buffer: &usize| c.program.buffers[buffer].name == name;
            format!("p{}[", attention.args.iter().position(is_it).expect("a buffer"))
        };
        let (before, loops) = c.program.kernels[attention.kernel].source.split_once("for (").expect("loops");
        assert_eq!(loops.matches(&slot("page_table")).count(), 1, "{shape}: page numbers are loaded once a page");
        assert!(before.contains(&slot("segment")), "{shape}: the sequence is known before the loops");
    }
}

/// The heads of a token are the columns of one tile: pages are multiplied from where they lie, and what is summed over them stays
/// in registers.
#[test]
fn one_token_multiplies_pages_where_they_lie() {
    check_with("wgsl_youtu_one", "youtu-llm-2b", Class::One, Options::wgsl_of_matrices);
    let small = |numerics| {
        let plan = GpuPlan { shared: 32 << 10, ..GpuPlan::portable(32, 256) };
        Options::wgsl_on(numerics, plan.with_cooperative_matrices())
    };
    // Of 20 heads a tile has 10.
    for (shape, options) in [
        ("youtu-llm-2b", Options::wgsl_of_matrices as fn(Numerics) -> Options),
        ("glm-4.7-flash", Options::wgsl_of_matrices),
        ("glm-4.7-flash", small),
    ] {
        let c = compiled(Class::One, shape, 2, options);
        let attention = c.program.each_launch().find(|launch| reads(launch) == "position segment page_table");
        let attention = attention.expect("a kernel that reads pages");
        let is_cache = |&buffer: &usize| c.program.buffers[buffer].name.starts_with("cache");
        let cache = attention.args.iter().position(is_cache).expect("a buffer");
        let source = &c.program.kernels[attention.kernel].source;
        assert!(source.contains(&format!("<coop_mat16x16<f16, A>>(&p{cache}[")), "{shape}: {source}");
        assert!(!source.contains("scratch["), "{shape}: sums lie in memory");
    }
}

/// The kernels behind the last layer of a step that gives this.
fn choosing(output: Output) -> String {
    let hollow = Hollow { output, ..Hollow::new("youtu-llm-2b", 1) };
    let c = hollow.compile_with(Class::One, &Options::gpu(hollow.numerics)).expect("a program");
    let mut text = format!("\n{output:?}\n");
    let head = |stage: &&Stage| stage.launches.iter().all(|launch| !reads(launch).contains("token_embd"));
    let behind = c.program.stages.iter().rev().take_while(head).collect::<Vec<_>>();
    behind.iter().rev().flat_map(|stage| &stage.launches).for_each(|launch| kernel(&c, launch, &mut text));
    text
}

#[test]
fn kernels_that_choose_tokens_are_as_they_were() {
    let text = [Output::Likeliest, Output::Drawn].map(choosing).concat();
    compare("gpu_sampling", &format!("Behind the head of youtu-llm-2b, one token, blocks of threads\n{text}"));
}

#[test]
fn attention_multiplies_matrices() {
    let shapes = ["glm-4.7-flash", "deepseek-v2-lite", "youtu-llm-2b", "llama-3.2-1b", "qwen3-30b-a3b"];
    for (shape, class) in shapes.into_iter().flat_map(|shape| [(shape, Class::One), (shape, Class::Prompt)]) {
        let c = of_class(class, shape, 2);
        let all = || c.bodies.iter().filter(|b| b.paths().contains(&"fragments"));
        assert!(all().next().is_some(), "{shape}, {class:?}");
        for body in all() {
            let count = |path: &str| body.paths().iter().filter(|p| **p == path).count();
            // Scores, with what takes elements of them, and weighted sums; the sums lie in registers from begin to end.
            assert!(count("warp product") >= 3, "{shape}, {class:?}: {:?}", body.paths());
            assert_eq!(count("fragments"), 2, "{shape}, {class:?}: {:?}", body.paths());
            // Those of several tokens go row by row, and nothing between two products leaves the registers.
            let by_rows = if class == Class::Prompt { 8..99 } else { 0..1 };
            assert!(by_rows.contains(&count("warp rows")), "{shape}, {class:?}: {:?}", body.paths());
        }
        // Keys and values are on their way while something else is computed, and waited for with the other threads.
        let ahead = c.program.kernels.iter().filter(|k| k.source.contains("kl_copy(")).collect::<Vec<_>>();
        assert_eq!(ahead.is_empty(), class == Class::One, "{shape}, {class:?}");
        let waits =
            |k: &&&Kernel| k.source.matches("kl_copied();").count() == k.source.matches("__syncthreads();").count();
        assert!(ahead.iter().all(|k| waits(&k)), "{shape}, {class:?}");
    }
}

/// What goes from token to token stays in the lanes that have it: a loop of a recurrence has no memory of its block, and so waits
/// for nobody.
#[test]
fn what_a_recurrence_carries_lies_in_registers() {
    let targets: [fn(Numerics) -> Options; 3] = [Options::gpu, Options::wgsl_of_matrices, Options::wgsl];
    let shapes = ["qwen3.5-0.8b", "kimi-linear-48b-a3b", "mamba2-2.7b", "mamba-2.8b"];
    for (shape, options) in shapes.into_iter().flat_map(|shape| targets.map(|options| (shape, options))) {
        let c = compiled(Class::Prompt, shape, 1, options);
        let kernels: Vec<&Kernel> = c.program.kernels.iter().filter(|k| k.symbol.ends_with("lane_rows")).collect();
        let [kernel] = kernels[..] else { panic!("{shape}: {} kernels of recurrences", kernels.len()) };
        assert_eq!(kernel.geometry.shared_bytes, 0, "{shape}");
        let waits = ["__syncthreads", "workgroupBarrier"].iter().any(|barrier| kernel.source.contains(barrier));
        assert!(!waits, "{shape}: {}", kernel.source);
    }
}

/// The tasks of a shared expert leave most of a card idle, so they are a part of the launch of all others.
#[test]
fn a_shared_expert_runs_beside_the_others() {
    for shape in ["glm-4.7-flash", "deepseek-v2-lite"] {
        let hollow = Hollow { most_tokens: 2048, ..Hollow::new(shape, 2) };
        let options = Options::wgsl_of_matrices(hollow.numerics);
        let c = hollow.compile_with(Class::Prompt, &options).expect("a program");
        for part in ["gate", "down"] {
            let names = [format!("ffn_{part}_exps"), format!("ffn_{part}_shexp")];
            let launches = || c.program.stages.iter().flat_map(|stage| &stage.launches);
            let both = launches().filter(|launch| names.iter().all(|name| launch.origin.contains(name.as_str())));
            assert_eq!(both.count(), 1, "{shape}: {part}");
        }
    }
}

/// Queries are halves where the keys that they meet are, and nowhere else: other keys are not rounded for them.
#[test]
fn caches_that_are_no_halves_are_not_multiplied_by_cooperative_matrices() {
    for (cache, halves) in [(CacheKind::F32, false), (CacheKind::F16, true), (CacheKind::Q8_0, false)] {
        let hollow = Hollow { cache: Some(cache), ..Hollow::new("llama-3.2-1b", 2) };
        let c = hollow.compile_with(Class::Prompt, &Options::wgsl_of_matrices(hollow.numerics)).expect("a program");
        let whole = c.bodies.iter().any(|body| body.paths().contains(&"whole product"));
        assert_eq!(whole, halves, "keys of {cache}");
    }
}

/// A task that reads page after page has the next one on its way while it computes, in registers that spill nothing
/// (`sass.rs`): halves, or the codes that they are made of.
#[test]
fn pages_of_a_long_past_are_loaded_a_round_ahead() {
    let shapes = ["glm-4.7-flash", "youtu-llm-2b", "llama-3.2-1b"];
    for (shape, codes) in shapes.into_iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let (cache, wide) = match codes {
            false => (None, "kl_load<vec<f16, 8>>"),
            true => (Some(CacheKind::Q8_0), "kl_load<vec<i8, 8>>"),
        };
        // Wide loads of the kernel that multiplies keys: before its loop, and within.
        let loads = |context: i64| {
            let hollow = Hollow { context, cache, ..Hollow::new(shape, 2) };
            let c = hollow.compile_with(Class::One, &Options::gpu(hollow.numerics)).expect("a program");
            let body = c.bodies.iter().position(|b| b.paths().contains(&"fragments")).expect("attention");
            let source = &c.program.kernels[body].source;
            assert_eq!(source.contains("kl_scaled_codes("), codes, "{shape}: codes become halves by no way of floats");
            source.matches(wide).count()
        };
        let [short, long] = [1024, 65_536].map(loads);
        assert!(short > 0 && long == 2 * short, "{shape}, {wide}: {short} loads, {long} of a long past");
    }
}

/// Factors of all of a long input beside a tile would leave no room for the tile.
#[test]
fn long_sums_of_prompts_are_tiles() {
    for shape in ["llama-3.1-8b", "glm-4.7-flash"] {
        let hollow = Hollow { quant: "q4_k_m", ..Hollow::new(shape, 2) };
        let c = hollow.compile_with(Class::Prompt, &Options::gpu(hollow.numerics)).expect("a program");
        let dots = c.bodies.iter().map(|body| body.paths()).find(|paths| paths.contains(&"integer dot"));
        assert_eq!(dots, None, "{shape}");
    }
}

/// Experts whose biases are added to what a tile computes have tiles of tokens all the same: all of their weights are multiplied
/// by cooperative matrices. Several sequences leave most places of a tile empty, and each token reads its experts by itself.
#[test]
fn experts_with_biases_are_multiplied_in_tiles() {
    for (class, path) in
        [(Class::Prompt, "block product"), (Class::Many, "block product"), (Class::Several, "integer dot")]
    {
        let options = Options::wgsl_of_matrices(Numerics::Int8);
        let hollow = Hollow { most_tokens: 2048, ..Hollow::new("gpt-oss-20b", 2) };
        let c = hollow.compile_with(class, &options).expect("a program");
        let of_experts = |p: &&Product| p.operands.iter().any(|name| name.ends_with("_exps"));
        let paths: Vec<&str> = c.log.products.iter().filter(of_experts).map(|p| p.path.as_ref()).collect();
        assert_eq!(paths, [path; 6], "{class:?}");
    }
}

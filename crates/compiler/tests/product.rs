//! Products by a matrix unit: every block format, any number of tokens, through the interpreter.

use crate::support::{Case, Random, bytes, programs};
use compiler::Options;
use compiler::{Compiled, Numerics, dims};
use gguf::format::Format;
use ir::DType;

/// Both sides are rounded to eight bits: about 2.5e-6.
const BF16: f64 = 1e-5;

/// Factors of blocks are rounded, too.
const BLOCKS: f64 = 3e-5;

/// The options of steps of many tokens on a machine with a matrix unit.
fn unit(vector_bytes: usize) -> Options {
    let mut options = Options::cpu(Numerics::Int8, vector_bytes);
    options.on_cpu(|cpu| cpu.plan.matrix_unit = true);
    options.for_many_tokens()
}

/// `tokens` of at most 80, times 256 rows of `k` elements; values of heads lie apart if `heads` is more than one.
fn case(format: &Format, tokens: usize, k: usize, heads: usize) -> Case {
    let mut r = Random(17);
    let mut case = Case { vars: vec![("t", tokens as i64)], ..Case::default() };
    let t = case.b.var("t", 1, 80);
    case.bind("x", bytes(&r.floats(tokens * k)));
    let w = programs::weights(&mut case, "w", format, &[256, k as i64], &mut r);
    let shape = dims![t, heads as i64, (k / heads) as i64];
    let x = case.b.input("x", DType::F32, shape).reshape(dims![t, k as i64]);
    // What is an input itself has no kernel of its own.
    let y = x.silu().linear(&w);
    case.output("y", &(&y * &y));
    case
}

fn check(name: &str, case: &Case, vector_bytes: usize) {
    check_within(BF16, name, case, vector_bytes);
}

fn check_within(error: f64, name: &str, case: &Case, vector_bytes: usize) {
    let c = case.check(&unit(vector_bytes), error).unwrap_or_else(|e| panic!("{name}, {vector_bytes} bytes: {e}"));
    let paths: Vec<_> = c.bodies.iter().flat_map(|b| b.paths()).collect();
    assert!(paths.contains(&"block product"), "{name}, {vector_bytes} bytes: {paths:?}");
}

#[test]
fn every_block_format_is_multiplied_in_blocks() {
    for format in gguf::format::rows().iter().filter(|f| f.as_blocks().is_some()) {
        // Of few levels, all products of a block have the error of its factor.
        let error = if format.bits_per_value() < 2.5 { BLOCKS } else { BF16 };
        check_within(error, &format.name, &case(format, 33, 512, 1), 64);
    }
}

#[test]
fn any_number_of_tokens_and_any_length() {
    let format = programs::format("Q4_0");
    for tokens in [1, 2, 3, 31, 32, 64, 79, 80] {
        check(&format!("{tokens} tokens"), &case(format, tokens, 96, 1), 64);
    }
    for k in [32, 352, 1024, 1408] {
        check(&format!("{k} elements"), &case(format, 5, k, 1), 64);
    }
    check("several heads", &case(format, 5, 256, 4), 64);
    check("narrow vectors", &case(format, 5, 256, 1), 16);
}

/// The same of weights of 16 bits, which begin with the bits that say least.
fn case_of_halves(ty: DType, tokens: usize, k: usize, rows: usize) -> Case {
    let mut r = Random(17);
    let mut case = Case { vars: vec![("t", tokens as i64)], ..Case::default() };
    let t = case.b.var("t", 1, 80);
    case.bind("x", bytes(&r.floats(tokens * k)));
    // Numbers near one, of either sign.
    let upper = if ty == DType::F16 { 0x3c00 } else { 0x3f80 };
    let half = |bits: u64| (upper | bits as u16 & 0x807f).to_le_bytes();
    case.bind("w", (0..rows * k).flat_map(|_| half(r.bits())).collect());
    let x = case.b.input("x", DType::F32, dims![t, k as i64]);
    let w = case.b.param("w", ty, dims![rows as i64, k as i64]).cast(DType::F32);
    let y = x.silu().linear(&w);
    case.output("y", &(&y + &y));
    case
}

#[test]
fn warps_multiply_weights_of_16_bits() {
    let paths = |case: &Case, options: &Options| -> Vec<&str> {
        let c = case.check(options, BF16).unwrap_or_else(|e| panic!("{e}"));
        c.bodies.iter().flat_map(|b| b.paths()).collect()
    };
    let options = Options::gpu(Numerics::Int8);
    for ty in [DType::F16, DType::BF16] {
        for (tokens, k, rows) in
            [(33, 512, 256), (1, 96, 48), (2, 96, 48), (31, 96, 16), (64, 272, 64), (80, 2048, 128)]
        {
            let case = case_of_halves(ty, tokens, k, rows);
            let found = paths(&case, &options.for_many_tokens());
            assert!(found.contains(&"block product"), "{ty:?}, {tokens} tokens, {rows} rows of {k}: {found:?}");
        }
        let case = case_of_halves(ty, 33, 256, 64);
        let mut without = options.clone();
        without.without.push("bf16".into());
        let exact = Options::gpu(Numerics::Exact);
        for other in [options.for_one_token(), options.batch_invariant(), without, exact] {
            let found = paths(&case, &other.for_many_tokens());
            assert!(!found.contains(&"block product"), "{ty:?}: {found:?}");
        }
    }
}

#[test]
fn four_warps_multiply_together() {
    let mut options = Options::gpu(Numerics::Int8);
    // As many rows a block as are multiplied together, where so few would have a multiprocessor each.
    options.on_gpu(|gpu| (gpu.groups, gpu.processors) = (true, 1));
    for ty in [DType::F16, DType::BF16] {
        for (tokens, k, rows) in [(64, 256, 128), (33, 192, 256), (80, 128, 512), (64, 1408, 64), (31, 256, 320)] {
            let case = case_of_halves(ty, tokens, k, rows);
            let c = case
                .check(&options.for_many_tokens(), BF16)
                .unwrap_or_else(|e| panic!("{ty:?}, {tokens} tokens, {rows} rows of {k}: {e}"));
            assert!(
                c.program.kernels.iter().any(|k| k.source.contains("kl_group_product(")),
                "{ty:?}, {tokens} tokens, {rows} rows of {k}"
            );
        }
    }
}

#[test]
fn four_warps_multiply_every_block_format() {
    let mut options = Options::gpu(Numerics::Int8);
    options.on_gpu(|gpu| (gpu.groups, gpu.processors) = (true, 1));
    let together = |c: &Compiled| c.program.kernels.iter().any(|k| k.source.contains("kl_group_product("));
    let mut wrong = vec![];
    let mut check = |format: &Format, tokens: i64, warps: i64| {
        options.on_gpu(|gpu| (gpu.tile_tokens, gpu.tile_rows, gpu.product_warps) = (tokens, 64, warps));
        match case(format, 33, 256, 1).check(&options.for_many_tokens(), BLOCKS) {
            Err(e) => wrong.push(format!("{}, {tokens} tokens a block: {e}", format.name)),
            Ok(c) if together(&c) != (warps >= 4) => wrong.push(format!("{}, {tokens}, {warps} warps", format.name)),
            Ok(c) if !c.bodies.iter().any(|b| b.paths().contains(&"block product")) => {
                wrong.push(format!("{}, {tokens}, {warps} warps: no block product", format.name));
            }
            Ok(_) => {}
        }
    };
    for format in gguf::format::rows().iter().filter(|f| f.as_blocks().is_some()) {
        check(format, 64, 4);
        // Too few warps: rows are unpacked in shared memory.
        check(format, 64, 2);
    }
    for tokens in [16, 32, 128] {
        check(programs::format("Q4_K"), tokens, 8);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn it_can_be_left_out() {
    let mut options = Options::cpu(Numerics::Int8, 64);
    options.on_cpu(|cpu| cpu.plan.matrix_unit = true);
    options.without.push("product".into());
    let c = case(programs::format("Q4_0"), 5, 256, 1).compile(&options.for_many_tokens()).expect("a program");
    assert!(c.bodies.iter().all(|b| !b.paths().contains(&"block product")));
}

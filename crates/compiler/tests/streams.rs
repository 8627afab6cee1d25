//! Rows that stream past a few tokens: every block format, any number of tokens, sums of several panels.

use crate::support::{Case, Random, bytes, programs};
use compiler::Options;
use compiler::{Numerics, dims};
use gguf::format::Format;
use ir::DType;

/// NMSE of activations of 8 bits.
const INT8: f64 = 1e-3;

/// `tokens` of at most `most`, times `rows` rows of `k` elements.
fn case(format: &Format, tokens: usize, most: i64, rows: i64, k: usize) -> Case {
    let mut r = Random(29);
    let mut case = Case { vars: vec![("t", tokens as i64)], ..Case::default() };
    let t = case.b.var("t", 1, most);
    let x = case.b.input("x", DType::F32, dims![t, k as i64]);
    case.bind("x", bytes(&r.floats(tokens * k)));
    let w = programs::weights(&mut case, "w", format, &[rows, k as i64], &mut r);
    let y = x.silu().linear(&w);
    case.output("y", &(&y * &y));
    case
}

/// Checks the case, and returns the C source of its kernels.
fn check(name: &str, case: &Case, vector_bytes: usize) -> String {
    let options = Options::cpu(Numerics::Int8, vector_bytes);
    let c = case.check(&options, INT8).unwrap_or_else(|e| panic!("{name}, {vector_bytes} bytes: {e}"));
    assert!(c.bodies.iter().any(|b| b.paths().contains(&"integer tile")), "{name}, {vector_bytes} bytes");
    c.program.kernels.iter().map(|k| k.source.as_str()).collect()
}

/// Whether kernels lay unpacked codes of rows out for many tokens.
fn lays_out(source: &str) -> bool {
    source.contains("uint8_t *restrict s")
}

#[test]
fn every_block_format_streams_past_few_tokens() {
    for format in gguf::format::rows().iter().filter(|f| f.as_blocks().is_some()) {
        for vector_bytes in [16, 32, 64] {
            let source = check(&format.name, &case(format, 5, 8, 256, 512), vector_bytes);
            assert!(!lays_out(&source), "{}, {vector_bytes} bytes", format.name);
        }
    }
}

#[test]
fn any_number_of_tokens() {
    let format = programs::format("Q4_0");
    for tokens in 1..=8 {
        check(&format!("{tokens} of 8"), &case(format, tokens, 8, 256, 512), 64);
    }
    for tokens in [1, 2, 3, 5, 8, 9, 33] {
        let source = check(&format!("{tokens} of 80"), &case(format, tokens, 80, 256, 512), 64);
        assert!(lays_out(&source), "more than a few take rows that are laid out");
    }
}

#[test]
fn long_sums_are_cut_into_panels() {
    for name in ["Q4_0", "Q4_K", "Q6_K"] {
        for tokens in [1, 3, 8] {
            check(&format!("{tokens} tokens, {name}"), &case(programs::format(name), tokens, 8, 256, 6144), 64);
        }
    }
}

#[test]
fn short_sums_are_laid_out_from_three_tokens_on() {
    let format = programs::format("Q4_0");
    for tokens in [1, 2, 3, 8] {
        let source = check(&format!("{tokens} tokens"), &case(format, tokens, 8, 256, 128), 64);
        assert!(lays_out(&source));
    }
}

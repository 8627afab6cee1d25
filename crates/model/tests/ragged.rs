//! Two sequences in one step, on pages that lie in disorder, agree with each of them alone.

use crate::support::machine::{Machine, Setup, Token, sequence};
use crate::support::{cpu, mean_kl, synth, tokens, worst_row};
use compiler::Numerics;
use model::cache::CacheKind;

/// Caches, and the NMSE that a row may have: the two runs sum in different orders, and with blocks a code may fall to
/// either side.
const CACHES: [(CacheKind, f64); 2] = [(CacheKind::F32, 1e-9), (CacheKind::Q8_0, 1e-4)];

/// Mean KL divergence that batch mates may make under `int8`: codes fall to either side, and with experts others may be
/// chosen.
const INT8_KL: f64 = 1e-4;
const INT8_MIXTURE_KL: f64 = 5e-3;

const VOCAB: usize = 512;

/// Positions of the two sequences that the steps end at: long ones, a few tokens, one token of each, and one of one.
const ENDS: [[usize; 2]; 7] = [[0, 0], [100, 10], [145, 66], [148, 68], [149, 69], [150, 69], [150, 70]];

/// The same for blocks of threads, which are interpreted: as few of each as there can be, over the end of a page.
const ENDS_OF_BLOCKS: [[usize; 2]; 5] = [[0, 0], [62, 3], [65, 5], [66, 6], [67, 6]];

/// Takes from two lists by turns as long as both have something.
fn interleave(a: Vec<Token>, b: Vec<Token>) -> Vec<Token> {
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    let mut out = vec![];
    loop {
        match (a.next(), b.next()) {
            (None, None) => return out,
            (x, y) => out.extend(x.into_iter().chain(y)),
        }
    }
}

/// Logits of both sequences in steps that they share, and of each alone.
fn logits(shape: &str, numerics: Numerics, cache: CacheKind) -> [[Vec<f32>; 2]; 2] {
    let (file, cpu) = (synth(shape, "q4_0", None), cpu(2));
    logits_of(numerics, cache, &ENDS, |setup| Machine::new(&file, &cpu, setup))
}

/// The same on any machine, in steps with these ends.
fn logits_of(
    numerics: Numerics,
    cache: CacheKind,
    ends: &[[usize; 2]],
    machine: impl Fn(Setup) -> Machine,
) -> [[Vec<f32>; 2]; 2] {
    let setup = Setup { numerics, cache, chunk: 128, pages: 7, table: (2, 3) };
    let ids: [Vec<u32>; 2] = [(0, 1), (1, 2)].map(|(s, seed)| tokens(ends[ends.len() - 1][s], VOCAB as u32, seed));
    let of_step = |s: usize, w: &[[usize; 2]]| sequence(&ids[s][w[0][s]..w[1][s]], w[0][s], s);

    let mut both = machine(setup);
    both.set_pages(0, [5, 0, 3]);
    both.set_pages(1, [1, 6, 2]);
    let mut got = [vec![], vec![]];
    for window in ends.windows(2) {
        let step = interleave(of_step(0, window), of_step(1, window));
        let logits = both.run_all(&step);
        step.iter().zip(logits.chunks(VOCAB)).for_each(|(token, row)| got[token.segment].extend_from_slice(row));
    }
    let alone = |s: usize| {
        let mut alone = machine(setup);
        alone.set_pages(s, [0, 1, 2]);
        let steps = ends.windows(2).map(|window| of_step(s, window)).filter(|step| !step.is_empty());
        steps.flat_map(|step| alone.run_all(&step)).collect()
    };
    let want: [Vec<f32>; 2] = [0, 1].map(alone);
    assert!((0..2).all(|s| got[s].len() == want[s].len() && want[s].len() == ids[s].len() * VOCAB));
    [got, want]
}

fn check(shape: &str) {
    for (cache, most) in CACHES {
        let [got, want] = logits(shape, Numerics::Exact, cache);
        for (s, (got, want)) in got.iter().zip(&want).enumerate() {
            let error = worst_row(got, want, VOCAB);
            println!("{shape}, cache of {cache}, sequence {s}: NMSE {error:.1e} in the worst row");
            assert!(error <= most, "{shape}, cache of {cache}, sequence {s}: NMSE {error:e}");
        }
    }
}

fn check_int8(shape: &str, most: f64) {
    let [got, want] = logits(shape, Numerics::Int8, CacheKind::F16);
    for (s, (got, want)) in got.iter().zip(&want).enumerate() {
        let kl = mean_kl(got, want, VOCAB);
        println!("{shape}, int8, sequence {s}: mean KL {kl:.1e}");
        // Written so that NaN fails.
        assert!(kl <= most, "{shape}, int8, sequence {s}: mean KL {kl:e}");
    }
}

/// The same in blocks of threads.
fn check_blocks(shape: &str, most: f64) {
    let file = synth(shape, "q4_0", None);
    let machine = |setup| Machine::of_blocks(&file, setup);
    let [got, want] = logits_of(Numerics::Int8, CacheKind::F16, &ENDS_OF_BLOCKS, machine);
    for (s, (got, want)) in got.iter().zip(&want).enumerate() {
        let kl = mean_kl(got, want, VOCAB);
        println!("{shape}, blocks, sequence {s}: mean KL {kl:.1e}");
        // Written so that NaN fails.
        assert!(kl <= most, "{shape}, blocks, sequence {s}: mean KL {kl:e}");
    }
}

#[test]
fn attention_in_blocks_of_threads() {
    check_blocks("tiny-llama", INT8_KL);
    check_blocks("tiny-mla-dense", INT8_KL);
}

#[test]
fn grouped_attention() {
    check("tiny-llama");
}

#[test]
fn latent_attention_and_experts() {
    check("tiny-mla-moe");
}

#[test]
fn latent_attention_and_experts_with_integers() {
    check_int8("tiny-mla-dense", INT8_KL);
    check_int8("tiny-mla-moe", INT8_MIXTURE_KL);
}

//! Two sequences in one step, on pages that lie in disorder, agree with each of them alone.

use crate::support::machine::{Machine, Setup, Token, sequence};
use crate::support::{cpu, synth, tokens, worst_row};
use compiler::Numerics;
use model::cache::CacheKind;

/// Caches, and the NMSE that a row may have: the two runs sum in different orders, and with blocks a code may fall to
/// either side.
const CACHES: [(CacheKind, f64); 2] = [(CacheKind::F32, 1e-9), (CacheKind::Q8_0, 1e-4)];

/// Positions of the two sequences that the steps end at: long ones, a few tokens, one token of each, and one of one.
const ENDS: [[usize; 2]; 7] = [[0, 0], [100, 10], [145, 66], [148, 68], [149, 69], [150, 69], [150, 70]];

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

fn check(shape: &str) {
    CACHES.iter().for_each(|&(cache, most)| agrees(shape, cache, most));
}

fn agrees(shape: &str, cache: CacheKind, most: f64) {
    let file = synth(shape, "q4_0", None);
    let cpu = cpu(2);
    let setup = Setup { numerics: Numerics::Exact, cache, chunk: 128, pages: 7, table: (2, 3) };
    let vocab = model::config::Config::read(&file).expect("a known model").vocab as usize;
    let ids = [tokens(150, vocab as u32, 1), tokens(70, vocab as u32, 2)];
    let of_step = |s: usize, w: &[[usize; 2]]| sequence(&ids[s][w[0][s]..w[1][s]], w[0][s], s);

    let mut both = Machine::new(&file, &cpu, setup);
    both.set_pages(0, [5, 0, 3]);
    both.set_pages(1, [1, 6, 2]);
    let mut got = [vec![], vec![]];
    for window in ENDS.windows(2) {
        let step = interleave(of_step(0, window), of_step(1, window));
        let logits = both.run_all(&step);
        step.iter().zip(logits.chunks(vocab)).for_each(|(token, row)| got[token.segment].extend_from_slice(row));
    }
    for s in [0, 1] {
        let mut alone = Machine::new(&file, &cpu, setup);
        alone.set_pages(s, [0, 1, 2]);
        let steps = ENDS.windows(2).map(|window| of_step(s, window)).filter(|step| !step.is_empty());
        let want: Vec<f32> = steps.flat_map(|step| alone.run_all(&step)).collect();
        let error = worst_row(&got[s], &want, vocab);
        println!("{shape}, cache of {cache}, sequence {s}: NMSE {error:.1e} in the worst of {} rows", ids[s].len());
        assert_eq!(got[s].len(), ids[s].len() * vocab);
        assert!(error <= most, "{shape}, cache of {cache}, sequence {s}: NMSE {error:e}");
    }
}

#[test]
fn grouped_attention() {
    check("tiny-llama");
}

#[test]
fn latent_attention_and_experts() {
    check("tiny-mla-moe");
}

//! What logits may differ from those of a reference.

use crate::support::{Golden, argmax};

/// NMSE that `exact` may have.
const EXACT_NMSE: f64 = 1e-9;

/// KL that `exact` may have with a cache of 8 bits, and what such a cache may add to that of `int8`. Measured 2.4e-5 to
/// 6.1e-5 under `exact`.
const Q8_0_KL: f64 = 2e-4;

/// The same with experts, of which other ones may be chosen. Measured 1.6e-3 to 2.4e-3 under `exact`.
const Q8_0_MIXTURE_KL: f64 = 8e-3;

/// What is wrong with the logits of the first tokens of a file under a policy and with a cache other than its own, if
/// anything: of every token of `want`.
pub fn problem(file: &Golden, got: &[f32], want: &[f32], numerics: &str, cache: Option<&str>) -> Option<String> {
    if got.len() != want.len() {
        return Some(format!("{} logits instead of {}", got.len(), want.len()));
    }
    if (numerics, cache) == ("exact", None) {
        let chosen: Vec<u32> = got.chunks(file.vocab).skip(file.prompt.len() - 1).map(argmax).collect();
        let same = chosen.iter().zip(&file.greedy).all(|(a, b)| a == b);
        let nmse = nmse(got, want);
        let wrong = !same || nmse.is_nan() || nmse > EXACT_NMSE;
        return wrong.then(|| format!("NMSE {nmse:.2e}, greedy ids equal: {same}"));
    }
    // Over a few tokens one flipped expert weighs more.
    let few = if want.len() < 64 * file.vocab { 4.0 } else { 1.0 };
    let of_int8 = if file.is_mixture() { 3.0 * file.peer_kld + 5e-3 } else { 2.0 * file.peer_kld + 1e-4 };
    let of_cache = if file.is_mixture() { Q8_0_MIXTURE_KL } else { Q8_0_KL };
    let most = few
        * match (numerics, cache) {
            ("exact", _) => of_cache,
            (_, Some(_)) => of_int8 + of_cache,
            (_, None) => of_int8,
        };
    let kl = mean_kl(got, want, file.vocab);
    (kl.is_nan() || kl > most).then(|| format!("mean KL {kl:.2e}, at most {most:.2e}"))
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

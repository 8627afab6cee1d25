//! Tiny models beside the logits that a reference has computed for them.
//!
//! The files lie in `shared/golden` beside the repository; without it, a subset in `tests/golden` is used.

use compiler::Numerics;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// NMSE that `exact` may have.
const EXACT_NMSE: f64 = 1e-9;

/// A model and its logits.
pub struct Golden {
    /// Its file.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// The model and its quantisation, as the name has them.
    pub model: String,
    /// See there.
    pub quant: String,
    tokens: Vec<u32>,
    vocab: usize,
    logits: Vec<f32>,
    /// Mean KL divergence of a peer that rounds its activations too.
    peer_kld: f64,
}

/// Where they lie.
pub fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = root.join("../shared/golden");
    if shared.join("manifest.json").is_file() { shared } else { root.join("tests/golden") }
}

/// All of them.
pub fn all() -> Vec<Golden> {
    let folder = folder();
    let manifest = std::fs::read(folder.join("manifest.json")).expect("a manifest of golden files");
    let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest in JSON");
    let ids = |entry: &Value, key: &str| -> Vec<u32> {
        entry[key].as_array().expect("a list").iter().map(|v| v.as_u64().expect("an id") as u32).collect()
    };
    let file = |entry: &Value| {
        let name = entry["file"].as_str().expect("a name").to_string();
        let path = folder.join(&name);
        let raw = std::fs::read(path.with_extension("logits.f32")).ok()?;
        let (model, quant) = name.strip_suffix(".gguf")?.rsplit_once('-')?;
        let (model, quant) = (model.to_string(), quant.to_string());
        path.is_file().then(|| Golden {
            tokens: [ids(entry, "prompt"), ids(entry, "greedy")].concat(),
            peer_kld: entry["peer_kld"].as_f64().expect("a divergence"),
            vocab: entry["vocab"].as_u64().expect("a size") as usize,
            logits: raw.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect(),
            model,
            quant,
            name,
            path,
        })
    };
    manifest.as_array().expect("a list of files").iter().filter_map(file).collect()
}

impl Golden {
    /// What is wrong with logits of the first tokens, if anything. `step` gives those of some tokens from a position on; they
    /// are asked for in steps of so many.
    pub fn problem(
        &self,
        numerics: Numerics,
        steps: &[usize],
        mut step: impl FnMut(&[u32], usize) -> Result<Vec<f32>, String>,
    ) -> Option<String> {
        let mut got = vec![];
        let mut at = 0;
        for &n in steps {
            match step(&self.tokens[at..at + n], at) {
                Ok(logits) => got.extend(logits),
                Err(error) => return Some(error),
            }
            at += n;
        }
        let want = &self.logits[..at * self.vocab];
        if got.len() != want.len() {
            return Some(format!("{} logits", got.len()));
        }
        // Written so that NaN fails.
        let (what, error, most) = match numerics {
            Numerics::Exact => ("nmse", nmse(&got, want), EXACT_NMSE),
            // Wider than in golden.rs: a few tokens are not many to take the mean of.
            Numerics::Int8 => ("mean KL", mean_kl(&got, want, self.vocab), 4.0 * self.peer_kld + 1e-2),
        };
        let close = error <= most;
        (!close).then(|| format!("{what} {error:.2e} (at most {most:.2e})"))
    }
}

/// Mean squared error over mean square. NaN if anything is NaN.
pub fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(a, b)| (*a as f64 - *b as f64).powi(2)).sum();
    error / want.iter().map(|b| (*b as f64).powi(2)).sum::<f64>()
}

/// Mean over rows of the KL divergence of `got` from `want`.
fn mean_kl(got: &[f32], want: &[f32], vocab: usize) -> f64 {
    let log_total = |row: &[f32]| row.iter().map(|&v| f64::from(v).exp()).sum::<f64>().ln();
    let row = |(g, w): (&[f32], &[f32])| -> f64 {
        let (lg, lw) = (log_total(g), log_total(w));
        let term = |(&g, &w): (&f32, &f32)| {
            let (q, p) = (f64::from(g) - lg, f64::from(w) - lw);
            p.exp() * (p - q)
        };
        g.iter().zip(w).map(term).sum()
    };
    got.chunks(vocab).zip(want.chunks(vocab)).map(row).sum::<f64>() / (want.len() / vocab) as f64
}

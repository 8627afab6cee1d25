//! What matrices meet, beside what the step's own tensors say.

use crate::support;
use compiler::Numerics;
use device::Interpreter;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::importance::{self, Importances};
use model::perplexity::Windows;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Tokens of a text that are there in every tiny vocabulary.
fn text(n: u32) -> Vec<u32> {
    (0..n).map(|i| 3 + i * 37 % 200).collect()
}

fn collected(shape: &str, chunk: i64) -> (Arc<Gguf>, Importances) {
    let file = support::synth(shape, "f32", None);
    let compiler = support::options(Numerics::Exact);
    let options = EngineOptions { compiler, context: 32, chunk, cache: CacheKind::F32 };
    let mut engine = Engine::new(file.clone(), Arc::new(Interpreter::default()), options).expect("an engine");
    let windows = Windows::new(text(64), 32, Some(1)).expect("two windows");
    let told = importance::collect(&mut engine, &windows, |_| ControlFlow::Continue(())).expect("importances");
    (file, told)
}

/// Whether all sums are the same but for the order of additions.
fn near(a: &[f64], b: &[f64]) -> bool {
    let most = a.iter().fold(0f64, |most, v| most.max(*v));
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * most)
}

#[test]
fn every_matrix_of_a_block_meets_every_token_and_experts_those_that_chose_them() {
    for shape in ["tiny-llama", "tiny-mla-moe", "tiny-qwen3moe", "tiny-gpt-oss", "tiny-qwen3.5"] {
        let (file, told) = collected(shape, 512);
        assert_eq!(told.windows, (2, 32), "{shape}");
        let mut expected: Vec<&gguf::Tensor> = file.tensors().iter().filter(|t| is_matrix(t)).collect();
        expected.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(
            told.tensors.keys().collect::<Vec<_>>(),
            expected.iter().map(|t| &t.name).collect::<Vec<_>>(),
            "{shape}"
        );
        for (sums, tensor) in told.tensors.values().zip(expected) {
            let (columns, matrices) = (tensor.dims[0] as usize, tensor.dims[2] as usize);
            let name = format!("{shape} {}", tensor.name);
            assert_eq!((sums.columns(), sums.rows.len()), (columns, matrices), "{name}");
            let arch = file.architecture().expect("a model");
            let met = match tensor.name.contains("_exps") {
                true => file.metadata().u64(&format!("{arch}.expert_used_count")).expect("experts") as usize,
                false => matrices,
            };
            assert_eq!(sums.rows.iter().sum::<f64>(), (64 * met) as f64, "{name}");
            assert!(sums.squares.iter().all(|sum| sum.is_finite() && *sum >= 0.0), "{name}");
            assert!(sums.squares.iter().any(|sum| *sum > 0.0), "{name}");
        }
        // Steps of other lengths see the same.
        let (_, cut) = collected(shape, 24);
        for (name, sums) in &told.tensors {
            let other = &cut.tensors[name];
            assert!(sums.rows == other.rows && near(&sums.squares, &other.squares), "{shape} {name}");
        }
    }
}

/// Whether a tensor has matrices that a step multiplies tokens with.
fn is_matrix(tensor: &gguf::Tensor) -> bool {
    let multiplied = tensor.name.ends_with(".weight") && !tensor.name.contains("conv");
    tensor.n_dims > 1 && tensor.name.starts_with("blk.") && multiplied
}

#[test]
fn the_first_matrix_meets_the_norm_of_the_embedding() {
    let (file, told) = collected("tiny-llama", 512);
    let values = |name: &str| -> Vec<f32> {
        let (words, _) = file.data(file.tensor(name).expect("a tensor")).as_chunks();
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    };
    let (embedding, norm) = (values("token_embd.weight"), values("blk.0.attn_norm.weight"));
    let eps = file.metadata().f32("llama.attention.layer_norm_rms_epsilon").expect("one");
    let mut sums = vec![0f64; norm.len()];
    for token in Windows::new(text(64), 32, Some(1)).expect("two windows").inputs().flatten() {
        let row = &embedding[token as usize * norm.len()..][..norm.len()];
        let mean = row.iter().map(|v| f64::from(v * v)).sum::<f64>() / row.len() as f64;
        let factor = 1.0 / (mean + f64::from(eps)).sqrt();
        sums.iter_mut().zip(row).zip(&norm).for_each(|((sum, v), w)| *sum += (f64::from(v * w) * factor).powi(2));
    }
    for part in ["q", "k", "v"] {
        assert!(near(&told.tensors[&format!("blk.0.attn_{part}.weight")].squares, &sums), "{part}");
    }
}

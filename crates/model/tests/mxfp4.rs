//! Models whose matrices are MXFP4: no file of the golden data has them.

use crate::support::reference::Reference;
use crate::support::{self, cpu, mean_kl, nmse, synth, tokens, weights};
use compiler::Numerics;
use gguf::{GgmlType, Gguf, Tensor};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::sync::Arc;

/// NMSE of `exact`.
const EXACT: f64 = 1e-9;

/// Mean KL divergence of `int8`: twice what Q4_0 files of these shapes reach.
const INT8: f64 = 2e-3;

const VOCAB: usize = 512;

/// A model whose matrices are MXFP4 where their rows are whole blocks.
fn quantised(shape: &str, layers: Option<u32>) -> Arc<Gguf> {
    let plain = synth(shape, "f32", layers);
    let block = u64::from(GgmlType::MXFP4.block_len());
    let is_matrix =
        |t: &Tensor| t.shape().len() > 1 && !t.name.contains("ffn_gate_inp") && t.dims[0].is_multiple_of(block);
    let ty = |t: &Tensor| if is_matrix(t) { GgmlType::MXFP4 } else { GgmlType::F32 };
    weights::converted(&plain, ty)
}

/// Logits of all tokens in steps of several sizes.
fn logits(file: &Arc<Gguf>, numerics: Numerics) -> Vec<f32> {
    let options =
        EngineOptions { compiler: support::options(numerics), context: 256, chunk: 64, cache: CacheKind::F32 };
    let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
    let ids = tokens(48, VOCAB as u32, 6);
    let mut out = vec![];
    for (start, count) in [(0, 20), (20, 7), (27, 1), (28, 1), (29, 19)] {
        out.extend_from_slice(engine.step(&ids[start..start + count], start, 0..count).expect("a step"));
    }
    out
}

fn check(shape: &str) {
    let file = quantised(shape, None);
    // The same weights as floats, by the reference dequantiser.
    let plain = weights::edited(&file, |_| (), |_, _| ());
    let want = logits(&plain, Numerics::Exact);
    let exact = nmse(&logits(&file, Numerics::Exact), &want);
    let int8 = mean_kl(&logits(&file, Numerics::Int8), &want, VOCAB);
    println!("{shape}: exact NMSE {exact:.1e}, int8 mean KL {int8:.1e}");
    assert!(exact <= EXACT, "{shape}: NMSE {exact:e} under exact");
    assert!(int8 <= INT8, "{shape}: mean KL {int8:e} under int8");
}

#[test]
fn a_dense_model() {
    check("tiny-llama");
}

#[test]
fn latent_attention_and_experts() {
    check("tiny-mla-moe");
}

#[test]
fn one_block_against_plain_arithmetic() {
    for shape in ["tiny-llama", "tiny-mla-dense"] {
        let file = quantised(shape, Some(1));
        let reference = Reference::new(&file, &tokens(48, VOCAB as u32, 6), |v| v);
        let want: Vec<f32> = (0..48).flat_map(|at| reference.logits(at)).collect();
        let error = nmse(&logits(&file, Numerics::Exact), &want);
        println!("{shape}: NMSE {error:.1e}");
        assert!(error <= EXACT, "{shape}: NMSE {error:e}");
    }
}

//! Models whose matrices are MXFP4, NVFP4, TQ1_0, TQ2_0, Q1_0 or Q2_0: no file of the golden data has them.

use crate::support::reference::Reference;
use crate::support::{self, cpu, mean_kl, nmse, synth, synth_of, tokens, weights};
use compiler::Numerics;
use gguf::{GgmlType, Gguf, Tensor};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::sync::Arc;

/// NMSE of `exact`.
const EXACT: f64 = 1e-9;

/// Mean KL divergence of `int8`: twice what Q4_0 files of these shapes reach.
const INT8: f64 = 2e-3;

/// The same of mixtures of NVFP4 and Q2_0, in which up to three tokens of the text come to another expert.
const FLIPPED: f64 = 1e-2;

const VOCAB: usize = 512;

const TYPES: [GgmlType; 6] =
    [GgmlType::MXFP4, GgmlType::NVFP4, GgmlType::TQ1_0, GgmlType::TQ2_0, GgmlType::Q1_0, GgmlType::Q2_0];

/// A model whose matrices are of a type where their rows are whole blocks. Weights of TQ1_0 are others, with which all tokens
/// of a mixture keep their experts.
fn quantised(ty: GgmlType, shape: &str, layers: Option<u32>) -> Arc<Gguf> {
    let plain = match ty {
        GgmlType::TQ1_0 => synth_of(shape, "f32", layers, 2),
        _ => synth(shape, "f32", layers),
    };
    let block = u64::from(ty.block_len());
    let is_matrix =
        |t: &Tensor| t.shape().len() > 1 && !t.name.contains("ffn_gate_inp") && t.dims[0].is_multiple_of(block);
    weights::converted(&plain, |t: &Tensor| if is_matrix(t) { ty } else { GgmlType::F32 })
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

fn check(ty: GgmlType, shape: &str, most: f64) {
    let file = quantised(ty, shape, None);
    // The same weights as floats, by the reference dequantiser.
    let plain = weights::edited(&file, |_| (), |_, _| ());
    let want = logits(&plain, Numerics::Exact);
    let exact = nmse(&logits(&file, Numerics::Exact), &want);
    let int8 = mean_kl(&logits(&file, Numerics::Int8), &want, VOCAB);
    println!("{shape} {ty}: exact NMSE {exact:.1e}, int8 mean KL {int8:.1e}");
    assert!(exact <= EXACT, "{shape} {ty}: NMSE {exact:e} under exact");
    assert!(int8 <= most, "{shape} {ty}: mean KL {int8:e} under int8");
}

#[test]
fn a_dense_model() {
    TYPES.into_iter().for_each(|ty| check(ty, "tiny-llama", INT8));
}

#[test]
fn latent_attention_and_experts() {
    for ty in TYPES {
        let flipped = [GgmlType::NVFP4, GgmlType::Q2_0].contains(&ty);
        check(ty, "tiny-mla-moe", if flipped { FLIPPED } else { INT8 });
    }
}

#[test]
fn one_block_against_plain_arithmetic() {
    for shape in ["tiny-llama", "tiny-mla-dense"] {
        let file = quantised(GgmlType::MXFP4, shape, Some(1));
        let reference = Reference::new(&file, &tokens(48, VOCAB as u32, 6), |v| v);
        let want: Vec<f32> = (0..48).flat_map(|at| reference.logits(at)).collect();
        let error = nmse(&logits(&file, Numerics::Exact), &want);
        println!("{shape}: NMSE {error:.1e}");
        assert!(error <= EXACT, "{shape}: NMSE {error:e}");
    }
}

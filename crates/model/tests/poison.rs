//! Weights that are NaN or infinite give logits that are NaN, or an error. They never make a kernel read what is not its
//! own: not outside a buffer, which the interpreter checks, and not rows of the cache that belong to nobody.

use crate::support::machine::{Machine, Setup, sequence};
use crate::support::{self, cpu, synth, tokens, weights};
use compiler::Numerics;
use device::Interpreter;
use gguf::{GgmlType, Gguf, Tensor};
use model::cache::CacheKind;
use model::config::ConfigError;
use model::engine::{Engine, EngineOptions};
use model::error::EngineError;
use model::step::Class;
use std::sync::Arc;

const VOCAB: usize = 512;

/// Lengths of the steps.
const STEPS: [usize; 3] = [10, 3, 1];

/// The token whose embedding is poisoned.
const VICTIM: usize = 5;

/// Bytes of rows of the cache that no token has written: finite numbers, in both types.
const STALE: u8 = 0x33;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Poison {
    /// All bits of all blocks: NaN as a float, as a scale of any kind.
    AllNan,
    /// All bits of the first block.
    OneNan,
    /// The first float, or the f16 scale of the first block.
    OneInfinite,
}

const KINDS: [Poison; 3] = [Poison::AllNan, Poison::OneNan, Poison::OneInfinite];

impl Poison {
    /// Changes a tensor, or a part of it that begins with a block.
    fn apply(self, tensor: &Tensor, bytes: &mut [u8]) {
        let block = tensor.ty.row_bytes(tensor.ty.block_len().into()).expect("a block") as usize;
        match self {
            Poison::AllNan => bytes.fill(0xff),
            Poison::OneNan => bytes[..block].fill(0xff),
            Poison::OneInfinite if block == 4 => bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes()),
            // The scale of Q6_K comes last.
            Poison::OneInfinite if tensor.ty == GgmlType::Q6_K => bytes[block - 2..block].copy_from_slice(&[0, 0x7c]),
            Poison::OneInfinite => bytes[..2].copy_from_slice(&[0, 0x7c]),
        }
    }
}

fn ids() -> Vec<u32> {
    tokens(STEPS.iter().sum(), VOCAB as u32, 8)
}

/// The tensors of the second block, and those outside of blocks.
fn targets(file: &Gguf) -> Vec<&Tensor> {
    let is_target = |t: &&Tensor| !t.name.starts_with("blk.") || t.name.starts_with("blk.1.");
    file.tensors().iter().filter(is_target).collect()
}

fn poisoned(file: &Gguf, target: &Tensor, poison: Poison) -> Arc<Gguf> {
    let edit = |tensor: &Tensor, bytes: &mut Vec<u8>| match tensor.name == target.name {
        true if tensor.name == "token_embd.weight" && poison != Poison::AllNan => {
            let row = ids()[VICTIM] as usize * tensor.row_bytes() as usize;
            poison.apply(tensor, &mut bytes[row..]);
        }
        true => poison.apply(tensor, bytes),
        false => {}
    };
    weights::edited_bytes(file, edit)
}

/// Whether a tensor decides which experts are used. A value that is not finite would only change the choice.
fn is_router(name: &str) -> bool {
    name.ends_with("ffn_gate_inp.weight") || name.ends_with("exp_probs_b.bias")
}

/// Logits of all tokens, over a cache that is full of `stale` bytes.
fn logits(machine: &mut Machine, stale: u8) -> Vec<f32> {
    STEPS.iter().for_each(|&count| machine.prepare(Class::of(count)));
    for layer in 0..machine.config.layers {
        for part in ["", ".k", ".v", ".scale", ".k.scale", ".v.scale"] {
            if let Ok(state) = machine.memory.state_mut::<u8>(&format!("cache.{layer}{part}")) {
                state.fill(stale);
            }
        }
    }
    let mut out = vec![];
    let mut at = 0;
    for count in STEPS {
        out.extend(machine.run_all(&sequence(&ids()[at..at + count], at, 0)));
        at += count;
    }
    out
}

/// Whether two rows are the same numbers.
fn same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
}

/// Rows that must have NaN: not every token uses every expert, and only later tokens must see a bad embedding (earlier
/// ones may, as all of a page is read and zero times NaN is NaN).
fn least_bad_rows(target: &Tensor, poison: Poison) -> usize {
    let all = ids().len();
    match &*target.name {
        "token_embd.weight" if poison != Poison::AllNan => all - VICTIM,
        name if name.contains("_exps.") => 1,
        _ => all,
    }
}

fn check(shape: &str) {
    let file = synth(shape, "q4_0", None);
    let cpu = cpu(2);
    let mut problems = vec![];
    let kinds =
        [(Numerics::Exact, CacheKind::F32), (Numerics::Int8, CacheKind::F16), (Numerics::Int8, CacheKind::Q8_0)];
    for (numerics, cache) in kinds {
        let setup = Setup { numerics, cache, chunk: 64, pages: 1, table: (1, 1) };
        let mut machine = Machine::new(&file, &cpu, setup);
        let healthy = logits(&mut machine, 0);
        assert!(healthy.iter().all(|v| v.is_finite()));
        for target in targets(&file).into_iter().filter(|t| !is_router(&t.name)) {
            for poison in KINDS {
                let file = poisoned(&file, target, poison);
                let got = logits(&mut machine.with_weights(&file), 0);
                let stale = logits(&mut machine.with_weights(&file), STALE);
                let bad = got.chunks(VOCAB).filter(|row| row.iter().any(|v| v.is_nan())).count();
                let what = format!("{shape} {numerics:?}, cache of {cache}, {poison:?} in {}", target.name);
                if bad < least_bad_rows(target, poison) {
                    problems.push(format!("{what}: only {bad} rows have NaN"));
                }
                if !same(&got, &stale) {
                    problems.push(format!("{what}: logits depend on rows of the cache that nobody wrote"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
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
fn a_softmax_of_nothing_is_nan() {
    // One value of all queries is 1 and one of all keys is infinite, where heads are not rotated: all scores are.
    const MARK: usize = 40;
    let plain = synth("tiny-glm4", "f32", None);
    for key in [f32::INFINITY, f32::NEG_INFINITY] {
        let edit = |tensor: &Tensor, values: &mut Vec<f32>| {
            let (query, bias) = (tensor.name.contains("attn_q."), tensor.name.ends_with("bias"));
            if query || tensor.name.contains("attn_k.") {
                let len = if bias { 1 } else { tensor.dims[0] as usize };
                let value = if query { 1.0 } else { key };
                values[MARK * len..][..len].fill(if bias { value } else { 0.0 });
            }
        };
        let file = weights::edited(&plain, |_| (), edit);
        let setup = Setup { numerics: Numerics::Exact, cache: CacheKind::F32, chunk: 64, pages: 1, table: (1, 1) };
        let got = logits(&mut Machine::new(&file, &cpu(2), setup), STALE);
        assert!(got.iter().all(|v| v.is_nan()), "keys of {key}");
    }
}

fn interpreted(file: &Arc<Gguf>) -> Result<Engine, EngineError> {
    let compiler = support::options(Numerics::Exact);
    let options = EngineOptions { compiler, context: 64, chunk: 64, cache: CacheKind::F32 };
    Engine::new(file.clone(), Arc::new(Interpreter::default()), options)
}

#[test]
fn every_access_stays_in_bounds() {
    let file = synth("tiny-mla-moe", "q4_0", None);
    for name in ["token_embd.weight", "blk.1.attn_norm.weight", "blk.1.ffn_norm.weight"] {
        let file = poisoned(&file, file.tensor(name).expect("a tensor of the file"), Poison::AllNan);
        let mut interpreter = interpreted(&file).expect("sound metadata");
        for (start, count) in [(0, 3), (3, 1)] {
            let logits = interpreter.step(&ids()[start..start + count], start, 0..count).expect("a step");
            assert!(logits.iter().all(|v| v.is_nan()), "{name}");
        }
    }
}

#[test]
fn a_router_that_is_not_finite_is_refused() {
    let file = synth("tiny-mla-moe", "q4_0", None);
    for target in targets(&file).into_iter().filter(|t| is_router(&t.name)) {
        for poison in KINDS {
            let problem = interpreted(&poisoned(&file, target, poison)).err().expect("refused");
            let EngineError::Config(ConfigError::Gguf(problem)) = problem else { panic!("{problem}") };
            assert!(problem.to_string().contains(&target.name), "{problem}");
        }
    }
}

//! What single models have and the golden data does not: groups of experts, blocks for the prediction of later tokens,
//! divisors and scaling of rotations, weights in halves. Against plain computations in f64.

use crate::support::reference::Reference;
use crate::support::{self, cpu, nmse, synth, tokens, weights, worst_row};
use compiler::Numerics;
use device::Interpreter;
use gguf::{GgmlType, Gguf, Tensor, Writer};
use model::cache::CacheKind;
use model::config::Config;
use model::engine::{Engine, EngineOptions, Sharing};
use model::steps::Steps;
use std::sync::Arc;

/// NMSE of `exact`.
const EXACT: f64 = 1e-9;

const VOCAB: usize = 512;

/// Lengths of the steps: of many tokens, few and one.
const STEPS: [usize; 4] = [20, 5, 1, 1];

fn options(numerics: Numerics) -> EngineOptions {
    EngineOptions { compiler: support::options(numerics), context: 128, chunk: 64, cache: CacheKind::F32 }
}

fn ids() -> Vec<u32> {
    tokens(STEPS.iter().sum(), VOCAB as u32, 6)
}

/// Logits of all tokens.
fn logits(file: &Arc<Gguf>, numerics: Numerics) -> Vec<f32> {
    let mut engine = Engine::new(file.clone(), cpu(2), options(numerics)).expect("an engine");
    run(&mut engine)
}

fn run(steps: &mut dyn Steps) -> Vec<f32> {
    let (ids, mut out, mut at) = (ids(), vec![], 0);
    for count in STEPS {
        out.extend_from_slice(steps.step(&ids[at..at + count], at, 0..count).expect("a step"));
        at += count;
    }
    out
}

/// Logits of all tokens by a plain computation of a model of one block.
fn plain(file: &Gguf) -> Vec<f32> {
    let reference = Reference::new(file, &ids(), |values| values);
    (0..ids().len()).flat_map(|at| reference.logits(at)).collect()
}

/// The last block of a model alone, with other metadata.
fn last_block(file: &Gguf, layers: i64, set: impl FnOnce(&mut Writer)) -> Arc<Gguf> {
    let prefix = format!("blk.{}.", layers - 1);
    let name = |t: &Tensor| match t.name.strip_prefix(&prefix) {
        Some(part) => Some(format!("blk.0.{part}")),
        None if t.name.starts_with("blk.") => None,
        None => Some(t.name.clone()),
    };
    let mut writer = Writer::new();
    writer.copy_metadata(file.metadata());
    set(&mut writer);
    renamed(file, writer, name)
}

/// A file with tensors by other names, or without them.
fn renamed(file: &Gguf, mut writer: Writer, name: impl Fn(&Tensor) -> Option<String>) -> Arc<Gguf> {
    let mut sources = std::collections::HashMap::new();
    for t in file.tensors() {
        if let Some(name) = name(t) {
            writer.tensor(&name, t.ty, t.shape()).expect("a legal tensor");
            sources.insert(name, t);
        }
    }
    let bytes = writer.to_vec(|t, out| out.write_all(file.data(sources[&t.name])));
    Arc::new(Gguf::parse(bytes.expect("a file")).expect("a file that reads back"))
}

#[test]
fn experts_are_chosen_within_the_best_groups() {
    let whole = synth("tiny-mla-moe", "f32", Some(2));
    let with = |groups: u32, used: u32| {
        last_block(&whole, 2, |writer| {
            writer.set("deepseek2.block_count", 1u32).set("deepseek2.leading_dense_block_count", 0u32);
            writer.set("deepseek2.expert_group_count", groups).set("deepseek2.expert_group_used_count", used);
        })
    };
    let free = plain(&with(1, 1));
    for (groups, used) in [(1, 1), (3, 1), (3, 2), (2, 1)] {
        let file = with(groups, used);
        let want = plain(&file);
        let error = worst_row(&logits(&file, Numerics::Exact), &want, VOCAB);
        let apart = nmse(&want, &free);
        println!("{used} of {groups} groups: NMSE {error:.1e}; {apart:.1e} from a free choice");
        assert!(error <= EXACT, "{used} of {groups} groups: NMSE {error:e}");
        assert!(groups == 1 || apart > 1e-4, "{used} of {groups} groups choose what a free choice does");
    }
}

#[test]
fn a_block_for_later_tokens_is_there_and_not_run() {
    let file = synth("tiny-mla-moe", "q4_0", Some(3));
    let arch = "deepseek2";
    // The last block holds nothing that could be computed with.
    let poisoned = weights::edited(
        &file,
        |writer| _ = writer.set(format!("{arch}.nextn_predict_layers"), 1u32),
        |tensor, values| {
            if tensor.name.starts_with("blk.2.") {
                values.fill(f32::NAN);
            }
        },
    );
    let mut writer = Writer::new();
    writer.copy_metadata(file.metadata());
    writer.set(format!("{arch}.block_count"), 2u32);
    let shorter = renamed(&file, writer, |t| (!t.name.starts_with("blk.2.")).then(|| t.name.clone()));
    let shorter = weights::edited(&shorter, |_| (), |_, _| ());
    assert_eq!(Config::read(&poisoned).expect("a model").layers, 2);
    let (got, want) = (logits(&poisoned, Numerics::Exact), logits(&shorter, Numerics::Exact));
    assert!(want.iter().all(|v| v.is_finite()));
    assert_eq!(got, want);
    assert!(nmse(&logits(&weights::edited(&file, |_| (), |_, _| ()), Numerics::Exact), &want) > 1e-4, "three blocks");
}

#[test]
fn angles_are_divided_by_the_tensor_of_divisors() {
    let file = synth("tiny-llama", "f32", Some(1));
    let config = Config::read(&file).expect("a model");
    let divisors: Vec<f32> = (0..config.rope.dims / 2).map(|i| 1.0 + (i % 5) as f32 * 1.75).collect();
    let divided = weights::with_more(&file, &[("rope_freqs.weight", divisors.clone())]);
    check_angles(&file, &divided, |i| 1.0 / f64::from(divisors[i]));
}

#[test]
fn biases_of_the_feed_forward_are_added() {
    let file = synth("tiny-llama", "f32", Some(1));
    let config = Config::read(&file).expect("a model");
    let bias = |rows: i64, step: i64| (0..rows).map(|i| (i * step % 13) as f32 * 0.05 - 0.3).collect();
    let (gate, up, down) = (bias(config.ffn[0], 3), bias(config.ffn[0], 5), bias(config.hidden, 7));
    let more = [("blk.0.ffn_gate.bias", gate), ("blk.0.ffn_up.bias", up), ("blk.0.ffn_down.bias", down)];
    let without = plain(&file);
    for some in [&more[..1], &more[1..2], &more[2..], &more[..]] {
        let biased = weights::with_more(&file, some);
        let want = plain(&biased);
        let apart = nmse(&want, &without);
        assert!(apart > 1e-3, "{}: biases make no difference ({apart:e})", some[0].0);
        let error = worst_row(&logits(&biased, Numerics::Exact), &want, VOCAB);
        assert!(error <= EXACT, "{}: NMSE {error:e}", some[0].0);
        let rounded = worst_row(&logits(&biased, Numerics::Int8), &want, VOCAB);
        println!(
            "{} of {} biases: NMSE {error:.1e}, {apart:.1e} from none, int8 {rounded:.1e}",
            some.len(),
            more.len()
        );
        assert!(rounded < 1e-2, "{}: NMSE {rounded:e} in int8", some[0].0);
    }
}

#[test]
fn linear_scaling_divides_all_angles() {
    let file = synth("tiny-llama", "f32", Some(1));
    let scaled = |factor: f32| {
        let set = |writer: &mut Writer| {
            writer.set("llama.rope.scaling.type", "linear").set("llama.rope.scaling.factor", factor);
        };
        weights::edited(&file, set, |_, _| ())
    };
    check_angles(&file, &scaled(4.0), |_| 0.25);
}

/// Checks the angles of a model of one block against those of another times factors, and its logits.
fn check_angles(file: &Arc<Gguf>, changed: &Arc<Gguf>, factor: impl Fn(usize) -> f64) {
    let base: f64 = file.metadata().require("llama.rope.freq_base").expect("a base");
    let rope = Config::read(changed).expect("a model").rope;
    for (i, theta) in rope.theta.iter().enumerate() {
        let want = base.powf(-2.0 * i as f64 / rope.dims as f64) * factor(i);
        assert!((theta - want).abs() <= 1e-12 * want, "pair {i}: {theta}, expected {want}");
    }
    let want = plain(changed);
    let error = worst_row(&logits(changed, Numerics::Exact), &want, VOCAB);
    let apart = nmse(&want, &plain(file));
    println!("NMSE {error:.1e}; {apart:.1e} from the model as it was");
    assert!(error <= EXACT, "NMSE {error:e}");
    assert!(apart > 1e3 * EXACT, "the angles make no difference ({apart:e})");
}

#[test]
fn weights_in_halves() {
    for (shape, ty) in [
        ("tiny-llama", GgmlType::F16),
        ("tiny-mla-moe", GgmlType::F16),
        ("tiny-qwen3", GgmlType::BF16),
        ("tiny-mla-dense", GgmlType::BF16),
    ] {
        let file = synth(shape, "f32", Some(2));
        let of = |t: &Tensor| if t.shape().len() > 1 && !t.name.contains("ffn_gate_inp") { ty } else { GgmlType::F32 };
        let halves = weights::converted(&file, of);
        // The same numbers as floats.
        let floats = weights::edited(&halves, |_| (), |_, _| ());
        let want = logits(&floats, Numerics::Exact);
        let sharing = Sharing { sequences: 1, positions: 128, rows: None, whole_windows: false };
        let interpreter =
            Engine::shared(halves.clone(), Arc::new(Interpreter::default()), options(Numerics::Exact), sharing);
        let meant = run(&mut interpreter.expect("an interpreter"));
        // No tensor is in a block format, so there are no codes of inputs either.
        for (what, got) in [
            ("exact", logits(&halves, Numerics::Exact)),
            ("int8", logits(&halves, Numerics::Int8)),
            ("interpreted", meant),
        ] {
            let error = worst_row(&got, &want, VOCAB);
            println!("{shape} in {ty:?}, {what}: NMSE {error:.1e}");
            assert!(error <= EXACT, "{shape} in {ty:?}, {what}: NMSE {error:e}");
        }
        assert!(nmse(&want, &logits(&file, Numerics::Exact)) > EXACT, "{ty:?} is no rounding");
    }
}

//! Only distances count: logits stay the same when all positions move by 100,000.
//!
//! The positions before the first token exist as rows of the cache all the same. They are made invisible by keys of
//! which every query thinks so little that their weight is zero: one value of each query is positive and not rotated,
//! the same value of a key is zero where a token has written it, and far below zero elsewhere.

use crate::support::machine::{Machine, Setup, sequence};
use crate::support::{cpu, synth, tokens, weights, worst_row};
use compiler::Numerics;
use gguf::{Gguf, Tensor, Writer};
use model::cache::{CacheKind, PAGE};
use model::step::Class;
use std::sync::Arc;

/// How far the positions move; no whole number of pages.
const DISTANCE: usize = 100_000;

/// Positions of a very long context, and the steps there.
const FAR: usize = 1_500_007;
const FEW: [usize; 3] = [3, 1, 1];

/// NMSE of a row of logits.
const MOST: f64 = 1e-7;

/// Value of a key that nobody looks at.
const REPULSIVE: f32 = -1e6;

const VOCAB: usize = 512;

/// Lengths of the steps that the tokens come in.
const STEPS: [usize; 4] = [70, 3, 1, 1];

/// The page of all positions before the first token but those that share a page with it.
const EMPTY: usize = 0;

/// A model of which some values of the keys are not rotated and not written to.
struct Marked {
    name: &'static str,
    file: Arc<Gguf>,
    /// What follows the number of the layer in the name of the cache of keys.
    keys: &'static str,
    /// Values of a row of that cache.
    width: usize,
    /// The values that are not written to.
    marks: &'static [usize],
}

impl Marked {
    /// Logits of all tokens, the first of which is at position `first`; those after the first step come `gap`
    /// positions later than they could.
    fn logits(&self, steps: &[usize], first: usize, gap: usize) -> Vec<f32> {
        let ids = tokens(steps.iter().sum(), VOCAB as u32, 4);
        let row_pages = first.max(DISTANCE) / PAGE as usize + 4;
        let setup =
            Setup { numerics: Numerics::Exact, cache: CacheKind::F32, chunk: 128, pages: 4, table: (1, row_pages) };
        let mut machine = Machine::new(&self.file, &cpu(2), setup);
        machine.set_pages(0, std::iter::repeat_n(EMPTY, first / PAGE as usize).chain(1..4));
        machine.prepare(Class::of(steps[0]));
        for layer in 0..machine.config.layers {
            let name = format!("cache.{layer}{}", self.keys);
            let cache = machine.memory.state_mut::<f32>(&name).expect("a cache");
            cache.chunks_mut(self.width).for_each(|row| self.marks.iter().for_each(|&m| row[m] = REPULSIVE));
        }
        let mut at = 0;
        let mut logits = vec![];
        for &count in steps {
            let start = first + at + if at == 0 { 0 } else { gap };
            logits.extend(machine.run_all(&sequence(&ids[at..at + count], start, 0)));
            at += count;
        }
        logits
    }

    fn check(&self) {
        let name = self.name;
        let near = self.logits(&STEPS, 0, 0);
        let error = worst_row(&self.logits(&STEPS, DISTANCE, 0), &near, VOCAB);
        println!("{name}: NMSE {error:.1e} in the worst row");
        assert!(error <= MOST, "{name}: NMSE {error:e}");
        // Whoever ignores positions would pass so far.
        let apart = worst_row(&self.logits(&STEPS, 0, 20), &near, VOCAB);
        assert!(apart > 100.0 * MOST, "{name}: distances make no difference ({apart:e})");
    }
}

/// A model with biases that rotates the first half of its heads.
fn half_rotated(name: &'static str, set: impl FnOnce(&mut Writer)) -> Marked {
    const HEAD: usize = 64;
    const MARK: usize = 40;
    let edit = |tensor: &Tensor, values: &mut Vec<f32>| {
        let (query, key) = (tensor.name.contains("attn_q."), tensor.name.contains("attn_k."));
        if query || key {
            let bias = tensor.name.ends_with("bias");
            let len = if bias { 1 } else { tensor.dims[0] as usize };
            let marked = values.chunks_mut(len).skip(MARK).step_by(HEAD);
            marked.for_each(|row| row.fill(if query && bias { 30.0 } else { 0.0 }));
        }
    };
    let file = weights::edited(&synth(name, "f32", None), set, edit);
    Marked { name, file, keys: ".k", width: 2 * HEAD, marks: &[MARK, HEAD + MARK] }
}

#[test]
fn pairs_beside_each_other() {
    half_rotated("tiny-glm4", |_| ()).check();
}

/// Positions that do not fit into 20 bits, of which the angle would take more than 32 with its fraction.
#[test]
fn one_and_a_half_million_positions() {
    let model = half_rotated("tiny-glm4", |_| ());
    let near = model.logits(&FEW, 0, 0);
    let error = worst_row(&model.logits(&FEW, FAR, 0), &near, VOCAB);
    println!("from {FAR} on: NMSE {error:.1e} in the worst row");
    assert!(error <= MOST, "NMSE {error:e}");
}

#[test]
fn pairs_of_two_halves() {
    half_rotated("tiny-qwen2", |writer| _ = writer.set("qwen2.rope.dimension_count", 32u32)).check();
}

#[test]
fn latent_attention() {
    // The first value of a hidden state is that of the embedding, which is the same for all tokens; the first values
    // of the bottleneck and of each query are multiples of it.
    let edit = |tensor: &Tensor, values: &mut Vec<f32>| {
        let row = tensor.dims[0] as usize;
        // Makes the first of every `rows` rows copy the first value of its input.
        let copy_first = |values: &mut [f32], rows: usize| {
            for chunk in values.chunks_mut(row * rows) {
                chunk[..row].fill(0.0);
                chunk[0] = 1.0;
            }
        };
        let rank = 256;
        match tensor.name.rsplit_once("blk.").map_or(&tensor.name[..], |(_, name)| &name[2..]) {
            "token_embd.weight" => values.chunks_mut(row).for_each(|row| row[0] = 1.0),
            "attn_q_a.weight" => copy_first(values, rank),
            "attn_q_b.weight" => copy_first(values, 64 + 32),
            "attn_k_b.weight" => copy_first(values, rank),
            "attn_kv_a_mqa.weight" | "attn_output.weight" | "ffn_down.weight" => values[..row].fill(0.0),
            _ => {}
        }
    };
    let name = "tiny-mla-dense";
    let file = weights::edited(&synth(name, "f32", None), |_| (), edit);
    Marked { name, file, keys: "", width: 256 + 32, marks: &[0] }.check();
}

//! 5000 positions, which is several splits, pages and tiles: logits of one block against a softmax over the cache that
//! the test computes plainly in f64.

use crate::support::machine::{Machine, Setup, Token, sequence};
use crate::support::reference::{Reference, Row};
use crate::support::{cpu, nmse, synth, tokens, weights};
use compiler::Numerics;
use model::cache::CacheKind;
use model::cache::PAGE;
use model::step::Class;

const POSITIONS: usize = 5000;

/// Tokens of a step of the prefill.
const CHUNK: usize = 512;

/// Where a page, a round of splits and a step begin and end, and the last position.
const CHECKED: [usize; 12] = [0, 1, 63, 64, 255, 256, 511, 512, 2047, 4095, 4096, POSITIONS - 1];

/// Factor of the queries: scores are so far apart that single positions decide, wherever they lie.
const SHARPNESS: f32 = 5.0;

/// NMSE of logits with a cache of f32.
const F32: f64 = 1e-9;

/// NMSE of logits with a cache of f16: the last bit of a key that decides may fall to either side.
const F16: f64 = 1e-7;

/// NMSE of logits with a cache of 8 bits: a code next to a half may fall to either side, and is then 1/127 of the largest
/// value of its block away. Measured 3.2e-9 at most.
const Q8_0: f64 = 1e-7;

/// What the cache makes of values that lie side by side.
fn stored(kind: CacheKind, values: Row) -> Row {
    let half = |v: f64| f64::from(half::f16::from_f64(v));
    let block = |block: &[f64]| -> Row {
        let most = block.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        block.iter().map(|v| if most > 0.0 { (v / most * 127.0).round() * half(most / 127.0) } else { 0.0 }).collect()
    };
    match kind {
        CacheKind::F32 => values,
        CacheKind::F16 => values.into_iter().map(half).collect(),
        CacheKind::Q8_0 => values.chunks(32).flat_map(block).collect(),
    }
}

fn check(shape: &str, queries: &str) {
    let file = synth(shape, "f32", Some(1));
    let sharpen = |tensor: &gguf::Tensor, values: &mut Vec<f32>| {
        if tensor.name == queries {
            values.iter_mut().for_each(|v| *v *= SHARPNESS);
        }
    };
    let file = weights::edited(&file, |_| (), sharpen);
    let cpu = cpu(2);
    let pages = POSITIONS.div_ceil(PAGE as usize);
    let ids = tokens(POSITIONS, 512, 3);
    let all = sequence(&ids, 0, 0);
    for (cache, most) in [(CacheKind::F32, F32), (CacheKind::F16, F16), (CacheKind::Q8_0, Q8_0)] {
        let reference = Reference::new(&file, &ids, |values| stored(cache, values));
        let numerics = Numerics::Exact;
        let setup = Setup { numerics, cache, chunk: CHUNK as i64, pages, table: (1, pages) };
        let mut machine = Machine::new(&file, &cpu, setup);
        // Any order will do; 29 has no factor in common with the number of pages.
        machine.set_pages(0, (0..pages).map(|page| page * 29 % pages));
        let mut compare = |step: &[Token], rows: &[usize]| {
            let logits = machine.run(step, rows);
            for (row, got) in rows.iter().zip(logits.chunks(512)) {
                let at = step[*row].position;
                let error = nmse(got, &reference.logits(at));
                let what = format!("{shape}, {cache:?}, position {at} in a step of {}", step.len());
                println!("{what}: NMSE {error:.1e}");
                assert!(error <= most, "{what}: NMSE {error:e}");
            }
        };
        for step in all.chunks(CHUNK) {
            let rows: Vec<usize> = (0..step.len()).filter(|&r| CHECKED.contains(&step[r].position)).collect();
            compare(step, if rows.is_empty() { &[0] } else { &rows });
        }
        // What a token writes is what is there already.
        let again: Vec<Token> = CHECKED.map(|at| all[at]).to_vec();
        again.iter().for_each(|token| compare(&[*token], &[0]));
        compare(&again[4..], &[0, 1, 2, 3, 4, 5, 6, 7]);
        compare(&again, &[11, 3, 7]);
    }
}

/// NMSE of logits of blocks of threads from those of the CPU: queries and exponentials are halves there.
const HALVES: f64 = 1e-5;

/// Steps of one token in blocks of threads, over the cache that the CPU has written.
fn check_blocks(shape: &str) {
    let (file, cpu) = (synth(shape, "f32", Some(1)), cpu(2));
    let pages = POSITIONS.div_ceil(PAGE as usize);
    let all = sequence(&tokens(POSITIONS, 512, 3), 0, 0);
    let (numerics, cache) = (Numerics::Int8, CacheKind::F16);
    let setup = Setup { numerics, cache, chunk: CHUNK as i64, pages, table: (1, pages) };
    let (mut machine, mut blocks) = (Machine::new(&file, &cpu, setup), Machine::of_blocks(&file, setup));
    for machine in [&mut machine, &mut blocks] {
        machine.set_pages(0, (0..pages).map(|page| page * 29 % pages));
    }
    all.chunks(CHUNK).for_each(|step| drop(machine.run(step, &[0])));
    blocks.prepare(Class::One);
    for part in ["", ".k", ".v"] {
        let name = format!("cache.0{part}");
        if let Ok(state) = machine.memory.state::<u8>(&name) {
            blocks.memory.write_state(&name, 0, state).expect("the same cache");
        }
    }
    for at in CHECKED {
        let [want, got] = [&mut machine, &mut blocks].map(|m| m.run(&[all[at]], &[0]));
        let error = nmse(&got, &want);
        println!("{shape}, blocks, position {at}: NMSE {error:.1e}");
        // Written so that NaN fails.
        assert!(error <= HALVES, "{shape}, blocks, position {at}: NMSE {error:e}");
    }
}

#[test]
fn one_token_in_blocks_of_threads() {
    check_blocks("tiny-llama");
    check_blocks("tiny-mla-dense");
}

#[test]
fn keys_and_values() {
    check("tiny-llama", "blk.0.attn_q.weight");
}

#[test]
fn latent_rows() {
    check("tiny-mla-dense", "blk.0.attn_q_b.weight");
}

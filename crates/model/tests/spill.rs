//! Pages of the cache that had to make room come back as they were.

use crate::support::served::served;
use crate::support::{self, cpu, synth, tokens};
use compiler::Numerics;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions, Sharing};
use model::scheduler;
use model::step::Class;

/// Texts by turns over a cache of six pages, of which each takes three or four: what is said, and how many of their tokens
/// were there; with room beside the device and without.
fn by_turns(shape: &str, options: &EngineOptions, len: usize) {
    let file = synth(shape, "f32", None);
    let said = |beside_bytes: u64| {
        let engine = Engine::shared(file.clone(), cpu(2), options.clone(), Sharing::of_texts(2, 384));
        let mut engine = engine.expect("an engine");
        engine.prepare(Class::One).expect("a program");
        // Room is made beside the steps; here, nothing is to be forgotten for want of it.
        while beside_bytes > 0 && engine.room_beside(beside_bytes, 0).expect("a device").pages == 0 {
            std::thread::yield_now();
        }
        let texts: Vec<Vec<u32>> = (0..3).map(|seed| tokens(len, 512, seed)).collect();
        let turns: Vec<&[u32]> = (0..5).map(|turn| &texts[turn % 3][..]).collect();
        let options = scheduler::Options { beside_bytes, ..scheduler::Options::default() };
        let (answers, stats) = served(engine, options, &turns);
        let (answers, found): (Vec<_>, Vec<usize>) = answers.into_iter().unzip();
        (answers, found, stats.moved_out, stats.moved_in)
    };
    let (with, without) = (said(1 << 30), said(0));
    assert_eq!((with.0, without.2, without.3), (without.0, 0, 0), "{shape}");
    assert!(without.1.iter().all(|&found| found == 0), "{shape}: {:?}", without.1);
    // Behind a text that is read again lies the answer to it, which may be the same: all but its last token is known.
    let most = if shape == "tiny-qwen3.5" { len - 8 } else { len - 1 } / 64 * 64;
    assert!(with.1[3..].iter().all(|&found| found >= most), "{shape}: {:?}", with.1);
    println!("{shape}: {} pages out and {} in", with.2, with.3);
    assert!(with.2 > with.3 && with.3 >= 4, "{shape}: {} and {}", with.2, with.3);
}

#[test]
fn a_text_says_the_same_when_its_pages_come_back() {
    // Halves; codes with their scales; and a model that remembers, whose snapshot needs the pages as well.
    for (shape, numerics, cache) in [
        ("tiny-llama", Numerics::Int8, CacheKind::F16),
        ("tiny-mla-dense", Numerics::Int8, CacheKind::Q8_0),
        ("tiny-qwen3.5", Numerics::Exact, CacheKind::F32),
    ] {
        let options = EngineOptions { compiler: support::options(numerics), context: 320, chunk: 128, cache };
        by_turns(shape, &options, 200);
    }
}

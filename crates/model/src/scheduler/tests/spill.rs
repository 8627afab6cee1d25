//! Pages that had to make room come back from beside the device.

use super::*;

fn options(pages: usize) -> Options {
    Options { beside_bytes: (pages * PAGE_BYTES) as u64, ..Options::default() }
}

/// Texts by turns over a cache that holds two of them; how many tokens were computed.
fn by_turns(options: Options) -> (u64, Stats) {
    let mut bench = bench(64, 2, 512, 8, options);
    for _ in 0..3 {
        for seed in 0..4 {
            let text = prompt(seed, 200);
            let ear = bench.add(&text, 5);
            bench.finish();
            assert_eq!(ear.tokens(), alone(&text, 5, 512));
        }
    }
    let stats = bench.scheduler.stats().clone();
    (stats.prompt_tokens, stats)
}

#[test]
fn a_text_that_others_took_the_place_of_comes_back() {
    let (without, stats) = by_turns(options(0));
    assert_eq!((without, stats.moved_out, stats.pages_beside), (12 * 200, 0, 0));
    let (with, stats) = by_turns(options(16));
    // All but the last token of a text that was read before.
    assert_eq!((with, stats.cached_tokens), (4 * 200 + 8, 8 * 199));
    assert!(stats.moved_in >= 8 * 3 && stats.moved_out > stats.moved_in, "{stats:?}");
    // All texts need 16 pages: of 12, what is wanted next is always what was used longest ago.
    let (some, stats) = by_turns(options(4));
    assert_eq!((some, stats.pages_beside), (without, 4));
    let (anew, _) = by_turns(Options { reuse: false, ..options(16) });
    assert_eq!(anew, without);
}

#[test]
fn who_makes_room_for_an_elder_reads_nothing_again() {
    let run = |options: Options| {
        let mut bench = bench(64, 4, 256, 8, options);
        let long = |text: &Vec<u32>| alone(text, 140, 256).len() > 120;
        let texts: Vec<Vec<u32>> = (0..).map(|seed| prompt(seed, 110)).filter(long).take(4).collect();
        let ears: Vec<Ear> = texts.iter().map(|text| bench.add(text, 150)).collect();
        bench.finish();
        for (text, ear) in texts.iter().zip(&ears) {
            assert_eq!(ear.tokens(), alone(text, 150, 256));
        }
        assert!(bench.scheduler.stats().preemptions > 0);
        bench.steps().iter().map(|(tokens, _)| tokens).sum::<usize>()
    };
    let (forgets, keeps) = (run(options(0)), run(options(64)));
    assert!(keeps < forgets, "{keeps} and {forgets}");
}

#[test]
fn what_takes_longer_than_computing_it_is_not_moved() {
    let mut bench = bench(64, 2, 512, 8, options(16));
    bench.slow.store(true, Ordering::SeqCst);
    for seed in [0, 1, 2, 0] {
        let ear = bench.add(&prompt(seed, 200), 5);
        bench.finish();
        assert_eq!(ear.tokens(), alone(&prompt(seed, 200), 5, 512));
    }
    assert_eq!((bench.scheduler.stats().moved_out, bench.scheduler.stats().prompt_tokens), (0, 800));
}

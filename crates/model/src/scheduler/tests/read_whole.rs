//! Texts that are read whole, whatever was computed before: those whose tokens are scored, and those of a model that
//! remembers in states.

use super::*;

#[test]
fn tokens_of_a_prompt_are_scored_once_each_whatever_runs_beside_them() {
    // Few pages and rows: prompts are read in pieces, give way to a text, and have been computed for another.
    let mut bench = bench(16, 3, 256, 5, Options::default());
    let text = (1..).map(|seed| prompt(seed, 60)).find(|text| alone(text, 90, 256).len() == 90).unwrap();
    let told = bench.add(&text, 90);
    let long = prompt(2, 180);
    let ask = |bench: &mut Bench, tokens: &[u32], limit, count| {
        let ear = Ear::default();
        bench.scheduler.submit(Job { score: Some(count), ..job(tokens, limit, &ear) }).unwrap();
        ear
    };
    let (whole, none) = (ask(&mut bench, &long, 0, 2), ask(&mut bench, &long, 4, 0));
    let one = ask(&mut bench, &[5], 0, 1);
    bench.finish();
    assert_eq!(told.tokens(), alone(&text, 90, 256));
    assert_eq!((whole.tokens(), whole.finish()), (vec![], Some(Finish::Limit)));
    assert_eq!(none.tokens(), alone(&long, 4, 256));
    let row = |at: usize| {
        let mut logits = vec![0.0; VOCAB];
        logits[next(long[..at].iter().copied()) as usize] = LIKELY;
        logits
    };
    for (ear, count) in [(&whole, 2), (&none, 0)] {
        let scores = ear.heard.lock().unwrap().scores.clone();
        assert_eq!(scores.len(), 179);
        for (at, (token, top)) in (1..).zip(scores) {
            let (logprob, expected) = sampler::score(&row(at), long[at], count);
            assert_eq!((token, top), (Logprob { id: long[at], logprob }, expected), "token {at}");
        }
    }
    assert_eq!((one.finish(), one.heard.lock().unwrap().scores.len()), (Some(Finish::Limit), 0));
    assert!(bench.scheduler.stats().preemptions > 0, "some had to make room");
}

#[test]
fn a_token_that_ends_a_scored_text_is_scored_too() {
    let start = (1..).map(|seed| prompt(seed, 4)).find(|tokens| next(tokens.iter().copied()) == END).unwrap();
    let (mut bench, ear) = (bench(16, 1, 256, 6, Options::default()), Ear::default());
    bench.scheduler.submit(Job { score: Some(1), ..job(&start, 5, &ear) }).unwrap();
    bench.finish();
    let heard = ear.heard.lock().unwrap();
    assert_eq!((heard.scores.len(), heard.tokens.len()), (4, 0));
    let (last, top) = &heard.scores[3];
    assert_eq!((last.id, top[0]), (END, *last), "it is the likeliest");
}

/// What each place has read is checked by the engine in every step.
#[test]
fn a_model_that_remembers_reads_every_token_once_and_in_order() {
    for ahead in [0, 1] {
        // Prompts that begin alike, and one that leaves.
        let options = Options { beside: 8, snapshots: 0, ..Options::default() };
        let mut bench = bench_over(true, ahead, 32, 3, 256, 4, options);
        let prompts: Vec<Vec<u32>> = [(1, 70), (1, 70), (2, 90), (1, 100), (3, 5), (1, 130)]
            .iter()
            .map(|&(seed, len)| prompt(seed, len))
            .collect();
        let ears: Vec<Ear> = prompts.iter().map(|prompt| bench.add(prompt, 60)).collect();
        let leaves = bench.add(&prompt(1, 80), 60);
        for _ in 0..12 {
            bench.scheduler.step();
        }
        leaves.closed.store(true, Ordering::SeqCst);
        bench.finish();
        for (prompt, ear) in prompts.iter().zip(&ears) {
            assert_eq!(ear.tokens(), alone(prompt, 60, 256), "{ahead} ahead, {} tokens", prompt.len());
        }
        assert_eq!(bench.scheduler.stats().cached_tokens, 0, "nothing is taken from pages");
    }
}

/// Tokens that see what follows: a text is in one step, with those that have room there, and the cache has nothing of it.
#[test]
fn texts_of_a_model_that_sees_ahead_are_in_one_step_each() {
    let limits = Limits { whole: true, ..limits(100, 3, 100, 6) };
    let mut bench = bench_of(limits, false, 0, Options::default());
    let texts: Vec<Vec<u32>> = [100, 60, 40, 5, 60].iter().map(|&len| prompt(1, len)).collect();
    let ask = |text: &Vec<u32>| {
        let ear = Ear::default();
        bench.scheduler.submit(Job { pooling: Some(Pooling::Mean), ..job(text, 0, &ear) }).unwrap();
        ear
    };
    let ears: Vec<Ear> = texts.iter().map(ask).collect();
    let text = bench.scheduler.submit(job(&texts[0], 5, &Ear::default()));
    assert_eq!(text, Err(Rejected::NoText));
    bench.finish();
    for (text, ear) in texts.iter().zip(ears) {
        let mean = (text.len() - 1) as f32 / 2.0;
        assert_eq!(ear.heard.lock().unwrap().vector[1], mean);
        assert_eq!(ear.finish(), Some(Finish::End));
    }
    assert_eq!(*bench.steps.lock().unwrap(), [(100, 1), (100, 2), (65, 2)]);
    assert_eq!(bench.scheduler.stats().cached_tokens, 0);
}

//! The scheduler over a model that remembers through pages (`paged.rs`).

use self::paged::{LIKELY, Paged, alone, next};
use super::*;
use crate::cache::PAGE;
use crate::sequence::{Event, PromptError, Request};
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use text::sampler::{self, Logprob, Sampled, SamplerConfig};

mod paged;
mod read_whole;
mod snapshots;
mod spill;

const VOCAB: usize = 97;
const END: u32 = 0;

/// Bytes of a page of the cache.
const PAGE_BYTES: usize = BLOCK * size_of::<i32>();

#[derive(Default)]
struct Heard {
    tokens: Vec<u32>,
    vector: Vec<f32>,
    scores: Vec<(Logprob, Vec<Logprob>)>,
    cached: usize,
    progress: usize,
    end: Option<Result<(Finish, Spent), Failure>>,
    dropped: bool,
}

#[derive(Clone, Default)]
struct Ear {
    heard: Arc<Mutex<Heard>>,
    closed: Arc<AtomicBool>,
    stop_after: Option<usize>,
}

impl Sink for Ear {
    fn event(&mut self, event: Event<'_>) -> ControlFlow<()> {
        let mut heard = self.heard.lock().unwrap();
        assert!(heard.end.is_none(), "nothing comes after the end");
        match event {
            Event::Prompt { cached, done, total } => {
                assert!(cached <= done && done <= total && heard.tokens.is_empty());
                (heard.cached, heard.progress) = (cached, done);
            }
            Event::Token { sampled: Sampled { id, .. }, .. } => {
                assert!(heard.progress > 0, "the prompt is done before the first token");
                heard.tokens.push(id);
                if self.stop_after == Some(heard.tokens.len()) {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn score(&mut self, token: Logprob, top: &[Logprob]) -> ControlFlow<()> {
        self.heard.lock().unwrap().scores.push((token, top.to_vec()));
        ControlFlow::Continue(())
    }

    fn vector(&mut self, vector: &[f32]) {
        self.heard.lock().unwrap().vector = vector.to_vec();
    }

    fn end(&mut self, end: Result<(Finish, Spent), Failure>) {
        let mut heard = self.heard.lock().unwrap();
        assert!(heard.end.is_none(), "it ends once");
        heard.end = Some(end);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

impl Ear {
    fn tokens(&self) -> Vec<u32> {
        self.heard.lock().unwrap().tokens.clone()
    }

    fn finish(&self) -> Option<Finish> {
        self.spent().map(|(finish, _)| finish)
    }

    fn spent(&self) -> Option<(Finish, Spent)> {
        self.heard.lock().unwrap().end.clone().map(|end| end.unwrap())
    }
}

struct Bench {
    scheduler: Scheduler,
    steps: Arc<Mutex<Vec<(usize, usize)>>>,
    fail: Arc<AtomicBool>,
    slow: Arc<AtomicBool>,
}

fn bench(tokens: usize, segments: usize, context: usize, pages: usize, options: Options) -> Bench {
    bench_ahead(0, tokens, segments, context, pages, options)
}

/// Over an engine that takes so many steps before the tokens of one are known.
fn bench_ahead(ahead: usize, tokens: usize, segments: usize, context: usize, pages: usize, options: Options) -> Bench {
    bench_over(false, ahead, tokens, segments, context, pages, options)
}

/// The same over an engine that remembers, if it does.
fn bench_over(
    remembers: bool,
    ahead: usize,
    tokens: usize,
    segments: usize,
    context: usize,
    pages: usize,
    options: Options,
) -> Bench {
    bench_of(limits(tokens, segments, context, pages), remembers, ahead, options)
}

fn limits(tokens: usize, segments: usize, context: usize, pages: usize) -> Limits {
    let reach = crate::prefill_attention::Reach::NOTHING;
    Limits { vocab: VOCAB, tokens, rows: segments, segments, context, pages, whole: false, ranks: None, reach }
}

fn bench_of(limits: Limits, remembers: bool, ahead: usize, options: Options) -> Bench {
    let (steps, fail, slow) = (Arc::default(), Arc::default(), Arc::default());
    let cache = vec![-1; limits.pages * PAGE as usize];
    let (steps_of, fail_of) = (Arc::clone(&steps), Arc::clone(&fail));
    let read = remembers.then(|| vec![vec![]; limits.segments]);
    let (beside, logits, chosen) = (vec![], vec![], vec![]);
    let slow_of = Arc::clone(&slow);
    let engine =
        Paged { limits, cache, beside, slow: slow_of, logits, steps: steps_of, fail: fail_of, ahead, chosen, read };
    Bench { scheduler: Scheduler::new(Box::new(engine), options), steps, fail, slow }
}

fn job(prompt: &[u32], limit: usize, ear: &Ear) -> Job {
    let sampling = SamplerConfig::greedy();
    let request = Request { prompt: prompt.to_vec(), sampling, limit: Some(limit), ends: Arc::from([END]) };
    Job { id: 1, request, constraint: None, pooling: None, score: None, sink: Box::new(ear.clone()) }
}

fn prompt(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 1 + (seed * 31 + i * i * 7 + i) % (VOCAB as u32 - 1)).collect()
}

impl Bench {
    fn add(&mut self, prompt: &[u32], limit: usize) -> Ear {
        let ear = Ear::default();
        self.scheduler.submit(job(prompt, limit, &ear)).unwrap();
        ear
    }

    fn finish(&mut self) {
        for _ in 0..100_000 {
            if !self.scheduler.step() {
                assert!(self.scheduler.is_idle());
                assert_eq!(self.scheduler.pages.in_use(), 0, "all pages are given back");
                return;
            }
        }
        panic!("it never ends");
    }

    fn steps(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut *self.steps.lock().unwrap())
    }
}

#[test]
fn sequences_join_and_leave_and_read_what_is_theirs() {
    let mut bench = bench(32, 3, 512, 32, Options { beside: 8, ..Options::default() });
    let prompts: Vec<Vec<u32>> = (0..7).map(|i| prompt(i, 1 + i as usize * 23)).collect();
    let ears: Vec<Ear> = prompts
        .iter()
        .enumerate()
        .map(|(i, p)| {
            bench.scheduler.step();
            bench.add(p, 5 + i * 3)
        })
        .collect();
    bench.finish();
    for (i, (p, ear)) in prompts.iter().zip(&ears).enumerate() {
        assert_eq!(ear.tokens(), alone(p, 5 + i * 3, 512), "request {i}");
    }
    assert!(bench.steps().iter().all(|&(tokens, sequences)| tokens <= 32 && sequences <= 3));
}

#[test]
fn a_step_flies_while_the_tokens_before_it_are_taken() {
    let mut bench = bench_ahead(1, 32, 3, 512, 32, Options::default());
    let ear = bench.add(&prompt(1, 5), 6);
    bench.scheduler.step();
    assert_eq!((ear.tokens().len(), bench.steps()), (0, vec![(5, 1)]), "nothing is known yet");
    bench.scheduler.step();
    assert_eq!((ear.tokens().len(), bench.steps()), (1, vec![(1, 1)]), "the next step is sent");
    bench.finish();
    assert_eq!((ear.tokens(), bench.steps().len()), (alone(&prompt(1, 5), 6, 512), 4), "no token is one too many");
    // Who wants what the host alone knows waits, and so does everybody beside it.
    let (ear, other) = (bench.add(&prompt(2, 9), 9), Ear::default());
    let mut watched = job(&prompt(3, 4), 3, &other);
    watched.request.sampling.logprobs = Some(0);
    bench.scheduler.step();
    bench.scheduler.submit(watched).unwrap();
    bench.finish();
    assert_eq!(ear.tokens(), alone(&prompt(2, 9), 9, 512));
    assert_eq!(other.tokens(), alone(&prompt(3, 4), 3, 512));
}

#[test]
fn vectors_come_after_texts_that_were_sent() {
    let mut bench = bench_ahead(1, 32, 3, 512, 32, Options::default());
    let (text, ear) = (bench.add(&prompt(1, 5), 2), Ear::default());
    (0..2).for_each(|_| assert!(bench.scheduler.step()));
    bench.scheduler.submit(Job { pooling: Some(Pooling::Last), ..job(&prompt(2, 4), 0, &ear) }).unwrap();
    assert!(bench.scheduler.step());
    assert_eq!(text.tokens().len(), 2, "the last step of the text has landed");
    assert!(bench.scheduler.step(), "there is something to do");
    bench.finish();
    assert_eq!(ear.heard.lock().unwrap().vector.len(), 2);
}

#[test]
fn a_step_in_flight_that_fails_ends_its_requests() {
    let mut bench = bench_ahead(1, 32, 3, 512, 32, Options::default());
    let first = bench.add(&prompt(1, 5), 60);
    (0..4).for_each(|_| assert!(bench.scheduler.step()));
    bench.fail.store(true, Ordering::SeqCst);
    assert!(bench.scheduler.step());
    assert!(matches!(first.heard.lock().unwrap().end, Some(Err(Failure::Engine(_)))));
    let second = bench.add(&prompt(1, 5), 4);
    bench.finish();
    assert_eq!(second.tokens(), alone(&prompt(1, 5), 4, 512));
}

#[test]
fn a_long_prompt_does_not_stop_others() {
    let mut bench = bench(128, 4, 2048, 64, Options { beside: 16, ..Options::default() });
    let quick = bench.add(&prompt(1, 3), 60);
    bench.scheduler.step();
    let long = bench.add(&prompt(2, 1500), 1);
    let short = bench.add(&prompt(3, 20), 1);
    bench.steps();
    let before = quick.tokens().len();
    for _ in 0..5 {
        bench.scheduler.step();
    }
    // One token each step for who decodes, and half of the room for the eldest prompt.
    assert_eq!(quick.tokens().len(), before + 5);
    assert!(bench.steps().iter().take(2).all(|&step| step == (17, 3)));
    assert!(short.finish().is_some() && long.finish().is_none());
    bench.finish();
    assert_eq!(long.tokens(), alone(&prompt(2, 1500), 1, 2048));
}

#[test]
fn alone_a_prompt_gets_the_whole_step() {
    let mut bench = bench(128, 4, 2048, 64, Options::default());
    let ear = bench.add(&prompt(2, 300), 2);
    bench.finish();
    assert_eq!(bench.steps(), [(128, 1), (128, 1), (44, 1), (1, 1)]);
    assert_eq!(ear.finish(), Some(Finish::Limit));
    let (_, spent) = ear.spent().unwrap();
    assert_eq!((spent.prompt, spent.cached, spent.generated), (300, 0, 2));
    assert_eq!(ear.heard.lock().unwrap().progress, 300, "the last word about the prompt is that it is done");
}

#[test]
fn what_was_computed_is_not_computed_again() {
    let mut bench = bench(512, 2, 1024, 32, Options::default());
    let text = prompt(5, 200);
    bench.add(&text, 3);
    bench.finish();
    bench.steps();
    let again = bench.add(&text, 3);
    bench.finish();
    assert_eq!(bench.steps()[0], (1, 1));
    assert_eq!(again.spent().unwrap().1.cached, 199);
    assert_eq!(again.tokens(), alone(&text, 3, 1024));
    let mut forked = text[..150].to_vec();
    forked.extend(prompt(9, 30));
    let ear = bench.add(&forked, 3);
    bench.finish();
    assert!(ear.spent().unwrap().1.cached >= 128);
    assert_eq!(ear.tokens(), alone(&forked, 3, 1024));
    let stats = bench.scheduler.stats();
    assert_eq!((stats.prompt_tokens + stats.cached_tokens) as usize, 200 + 200 + 180);

    let mut forgetful = self::bench(512, 2, 1024, 32, Options { reuse: false, ..Options::default() });
    forgetful.add(&text, 3);
    forgetful.finish();
    let ear = forgetful.add(&text, 3);
    forgetful.finish();
    assert_eq!(ear.spent().unwrap().1.cached, 0);
}

#[test]
fn one_prompt_with_many_continuations_is_computed_once() {
    let mut bench = bench(64, 4, 1024, 64, Options::default());
    let text = prompt(5, 300);
    let ears: Vec<Ear> = (0..4).map(|_| bench.add(&text, 3)).collect();
    let other = bench.add(&prompt(6, 20), 3);
    bench.scheduler.step();
    assert!(other.heard.lock().unwrap().progress > 0 || !other.tokens().is_empty(), "who begins otherwise goes on");
    bench.finish();
    for ear in &ears {
        assert_eq!(ear.tokens(), alone(&text, 3, 1024));
    }
    let computed = bench.scheduler.stats().prompt_tokens as usize;
    assert!(computed <= 300 + 3 * (300 - 256) + 20, "{computed}");
}

#[test]
fn too_few_pages_cost_time_and_nothing_else() {
    // Four sequences of up to four pages in five pages.
    let mut bench = bench(64, 4, 256, 5, Options { queue: 9, ..Options::default() });
    let prompts: Vec<Vec<u32>> = (0..8).map(|i| prompt(i, 50)).collect();
    let ears: Vec<Ear> = prompts.iter().map(|p| bench.add(p, 150)).collect();
    bench.finish();
    for (p, ear) in prompts.iter().zip(&ears) {
        assert_eq!(ear.tokens(), alone(p, 150, 256));
    }
    assert!(bench.scheduler.stats().preemptions > 0);
}

#[test]
fn the_context_ends_a_text_with_a_word() {
    let mut bench = bench(64, 2, 70, 4, Options::default());
    let text = (0..).map(|i| prompt(i, 60)).find(|p| alone(p, 99, 70).len() == 11).unwrap();
    let ear = bench.add(&text, 99);
    bench.finish();
    assert_eq!((ear.tokens().len(), ear.finish()), (11, Some(Finish::ContextFull)));
    let ear = Ear::default();
    let refused = bench.scheduler.submit(job(&prompt(1, 71), 1, &ear));
    assert_eq!(refused, Err(PromptError::TooLong { tokens: 71, context: 70 }.into()));
    assert_eq!(bench.scheduler.submit(job(&[], 1, &ear)), Err(PromptError::Empty.into()));
    assert!(matches!(
        bench.scheduler.submit(job(&[97], 1, &ear)),
        Err(Rejected::Prompt(PromptError::Token { token: 97, .. }))
    ));
}

#[test]
fn a_closed_request_is_gone_within_a_step() {
    let mut bench = bench(16, 1, 512, 8, Options { queue: 2, ..Options::default() });
    let running = bench.add(&prompt(1, 100), 50);
    bench.scheduler.step();
    let (first, second) = (bench.add(&prompt(2, 10), 3), bench.add(&prompt(3, 10), 3));
    assert!(matches!(bench.scheduler.submit(job(&[1], 1, &Ear::default())), Err(Rejected::Full(2))));
    // In the queue.
    first.closed.store(true, Ordering::SeqCst);
    bench.scheduler.step();
    assert_eq!((bench.scheduler.queue.len(), running.finish()), (1, None));
    // In its prompt.
    running.closed.store(true, Ordering::SeqCst);
    bench.steps();
    bench.scheduler.step();
    assert_eq!(bench.steps(), [(10, 1)], "the next one runs at once");
    bench.finish();
    assert_eq!(second.tokens(), alone(&prompt(3, 10), 3, 512));
    // While it decodes.
    let decoding = bench.add(&prompt(4, 3), 400);
    for _ in 0..4 {
        bench.scheduler.step();
    }
    decoding.closed.store(true, Ordering::SeqCst);
    assert!(!bench.scheduler.step());
    assert_eq!(bench.scheduler.pages.in_use(), 0);
}

#[test]
fn a_sink_may_stop_its_text() {
    let mut bench = bench(16, 1, 512, 8, Options::default());
    let text = (0..).map(|i| prompt(i, 9)).find(|p| alone(p, 9, 512).len() == 9).unwrap();
    let ear = Ear { stop_after: Some(4), ..Ear::default() };
    bench.scheduler.submit(job(&text, 9, &ear)).unwrap();
    bench.finish();
    assert_eq!((ear.tokens(), ear.finish()), (alone(&text, 4, 512), Some(Finish::Stopped)));
}

#[test]
fn vectors_are_pooled_over_whole_prompts_beside_texts() {
    // Few pages: the prompts come one after the other, in pieces, and give way to texts.
    let mut bench = bench(16, 3, 256, 6, Options::default());
    let text = prompt(1, 70);
    let told = bench.add(&text, 20);
    let long = prompt(2, 150);
    let ask = |bench: &mut Bench, tokens: &[u32], pooling| {
        let ear = Ear::default();
        bench.scheduler.submit(Job { pooling: Some(pooling), ..job(tokens, 5, &ear) }).unwrap();
        ear
    };
    // The second time the cache has the prompt, and every row counts none the less.
    let means = [ask(&mut bench, &long, Pooling::Mean), ask(&mut bench, &long, Pooling::Mean)];
    let (last, one) = (ask(&mut bench, &long, Pooling::Last), ask(&mut bench, &[5], Pooling::Mean));
    let (each, first) = (ask(&mut bench, &long, Pooling::Each), ask(&mut bench, &long, Pooling::First));
    bench.finish();
    assert_eq!(told.tokens(), alone(&text, 20, 256));
    let rows: Vec<f32> = (1..=150).map(|n| next(long[..n].iter().copied()) as f32).collect();
    for ear in means {
        let vector = ear.heard.lock().unwrap().vector.clone();
        assert!((vector[0] - rows.iter().sum::<f32>() / 150.0).abs() < 1e-4 && vector[1] == 149.0 / 2.0, "{vector:?}");
        assert_eq!(ear.finish(), Some(Finish::End));
    }
    assert_eq!(last.heard.lock().unwrap().vector, [rows[149], 149.0]);
    assert_eq!(first.heard.lock().unwrap().vector, [rows[0], 0.0]);
    let all: Vec<f32> = rows.iter().enumerate().flat_map(|(at, &row)| [row, at as f32]).collect();
    assert_eq!(each.heard.lock().unwrap().vector, all);
    assert_eq!(one.heard.lock().unwrap().vector, [next([5]) as f32, 0.0]);
}

#[test]
fn seeds_give_the_same_text_alone_and_beside_others() {
    let sampling = |seed| SamplerConfig { seed, temperature: 8.0, ..SamplerConfig::default() };
    let run = |others: usize| {
        let mut bench = bench(64, 4, 512, 32, Options::default());
        let ear = Ear::default();
        for i in 0..others {
            bench.add(&prompt(i as u32, 30 + i), 20);
            bench.scheduler.step();
        }
        let mut job = job(&prompt(7, 40), 30, &ear);
        job.request.sampling = sampling(11);
        bench.scheduler.submit(job).unwrap();
        bench.finish();
        ear.tokens()
    };
    let text = run(0);
    assert!(text.len() > 3);
    assert_eq!((run(1), run(6)), (text.clone(), text));
}

#[test]
fn a_failing_step_ends_its_requests_and_no_others() {
    let mut bench = bench(64, 1, 512, 16, Options::default());
    let (first, second) = (bench.add(&prompt(1, 30), 10), bench.add(&prompt(2, 30), 10));
    bench.scheduler.step();
    bench.fail.store(true, Ordering::SeqCst);
    bench.finish();
    assert!(matches!(&first.heard.lock().unwrap().end, Some(Err(Failure::Engine(_)))));
    assert_eq!(second.tokens(), alone(&prompt(2, 30), 10, 512));
}

/// Allows even tokens only, and three of them.
struct Even(usize);

impl Constraint for Even {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), String> {
        if self.0 == 3 {
            return Err("nothing is allowed".into());
        }
        logits.iter_mut().skip(1).step_by(2).for_each(|logit| *logit = f32::NEG_INFINITY);
        logits[0] = f32::NEG_INFINITY;
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        assert_eq!(token % 2, 0);
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn constraints_choose_and_may_give_up() {
    let mut bench = bench(64, 1, 512, 16, Options::default());
    let ear = Ear::default();
    let constraint: Option<Box<dyn Constraint>> = Some(Box::new(Even(0)));
    bench.scheduler.submit(Job { constraint, ..job(&prompt(1, 30), 10, &ear) }).unwrap();
    bench.finish();
    assert_eq!(ear.tokens().len(), 3);
    let end = ear.heard.lock().unwrap().end.clone();
    assert_eq!(end, Some(Err(Failure::Constraint("nothing is allowed".into()))));
}

#[test]
fn a_request_that_rules_out_what_its_constraint_allows_is_told() {
    let mut bench = bench(64, 1, 512, 16, Options::default());
    let ear = Ear::default();
    let constraint: Option<Box<dyn Constraint>> = Some(Box::new(Even(0)));
    let mut job = Job { constraint, ..job(&prompt(1, 30), 10, &ear) };
    job.request.sampling.logit_bias = (0..VOCAB as u32).map(|id| (id, f32::NEG_INFINITY)).collect();
    bench.scheduler.submit(job).unwrap();
    bench.finish();
    let end = ear.heard.lock().unwrap().end.clone();
    assert!(matches!(&end, Some(Err(Failure::Constraint(why))) if why.contains("logit_bias")), "{end:?}");
}

/// Panics when it is asked.
struct Broken;

impl Constraint for Broken {
    fn mask(&mut self, _: &mut [f32]) -> Result<(), String> {
        panic!("a test")
    }

    fn accept(&mut self, _: u32) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_panic_of_a_choice_ends_what_runs_and_nothing_else() {
    let mut bench = bench(64, 2, 512, 16, Options::default());
    let (broken, beside) = (Ear::default(), Ear::default());
    let constraint: Option<Box<dyn Constraint>> = Some(Box::new(Broken));
    bench.scheduler.submit(Job { constraint, ..job(&prompt(1, 30), 10, &broken) }).unwrap();
    bench.scheduler.submit(job(&prompt(2, 30), 10, &beside)).unwrap();
    let later = bench.add(&prompt(3, 30), 10);
    bench.finish();
    for ear in [broken, beside] {
        let end = ear.heard.lock().unwrap().end.clone();
        assert_eq!(end, Some(Err(Failure::Engine("a worker panicked: 1 calls".into()))));
    }
    assert_eq!(later.tokens(), alone(&prompt(3, 30), 10, 512));
}

#[test]
fn a_worker_runs_drains_and_ends() {
    let Bench { scheduler, .. } = bench(64, 2, 512, 16, Options { queue: 3, ..Options::default() });
    let (worker, thread) = worker::Worker::start(scheduler).unwrap();
    let ears: Vec<Ear> = (0..3).map(|_| Ear::default()).collect();
    for (i, ear) in ears.iter().enumerate() {
        worker.submit(job(&prompt(i as u32, 40), 25, ear)).unwrap();
    }
    worker.drain();
    assert_eq!(worker.submit(job(&[1], 1, &Ear::default())), Err(Rejected::ShuttingDown));
    thread.join().unwrap();
    assert!(worker.is_ended());
    for (i, ear) in ears.iter().enumerate() {
        assert_eq!(ear.tokens(), alone(&prompt(i as u32, 40), 25, 512));
    }
    assert_eq!(worker.stats().waiting, 0);
}

/// Counts the places that are taken when it hears of its end.
struct Counting {
    worker: Arc<Mutex<Option<worker::Worker>>>,
    taken: Arc<Mutex<Option<usize>>>,
}

impl Sink for Counting {
    fn event(&mut self, _: Event<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn vector(&mut self, _: &[f32]) {}

    fn end(&mut self, _: Result<(Finish, Spent), Failure>) {
        if let Some(worker) = &*self.worker.lock().unwrap() {
            *self.taken.lock().unwrap() = Some(worker.stats().places.iter().flatten().count());
        }
    }

    fn is_closed(&self) -> bool {
        false
    }
}

#[test]
fn who_hears_of_its_end_is_not_counted_any_more() {
    let Bench { scheduler, .. } = bench(64, 2, 512, 16, Options::default());
    let (worker, thread) = worker::Worker::start(scheduler).unwrap();
    let (known, taken) = (Arc::new(Mutex::new(Some(worker.clone()))), Arc::default());
    let sink = Counting { worker: known, taken: Arc::clone(&taken) };
    worker.submit(Job { sink: Box::new(sink), ..job(&prompt(1, 40), 9, &Ear::default()) }).unwrap();
    worker.drain();
    thread.join().unwrap();
    assert_eq!(*taken.lock().unwrap(), Some(0));
}

#[test]
fn a_worker_that_aborts_tells_everybody() {
    let Bench { scheduler, .. } = bench(16, 1, 4096, 64, Options::default());
    let (worker, thread) = worker::Worker::start(scheduler).unwrap();
    let ears: Vec<Ear> = (0..3).map(|_| Ear::default()).collect();
    for (i, ear) in ears.iter().enumerate() {
        worker.submit(job(&prompt(i as u32, 4000), 90, ear)).unwrap();
    }
    worker.abort();
    thread.join().unwrap();
    for ear in &ears {
        let heard = ear.heard.lock().unwrap();
        assert!(heard.end.is_some() || heard.dropped);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any mix of requests, pages, places and steps gives each request the text it has alone.
    #[test]
    fn batch_mates_make_no_difference(
        jobs in prop::collection::vec((0u32..4, 1usize..200, 0usize..40, 0usize..6), 1..16),
        tokens in 4usize..90,
        segments in 1usize..5,
        pages in 4usize..14,
        beside in 1usize..40,
        reuse in any::<bool>(),
        ahead in 0usize..2,
        remembers in any::<bool>(),
        snapshots in 0usize..5,
        room in 0usize..6,
    ) {
        let beside_bytes = (room * PAGE_BYTES) as u64;
        let options = Options { queue: 99, beside, reuse, snapshots, beside_bytes };
        let mut bench = bench_over(remembers, ahead, tokens.max(segments), segments, 250, pages, options);
        let mut ears = vec![];
        for (seed, len, limit, wait) in jobs {
            for _ in 0..wait {
                bench.scheduler.step();
            }
            // Prompts that begin alike, and differ after a while.
            let text: Vec<u32> = prompt(0, len).iter().enumerate()
                .map(|(i, &t)| if i < 100 { t } else { 1 + (t + seed) % (VOCAB as u32 - 1) }).collect();
            let ear = Ear::default();
            let mut job = job(&text, limit, &ear);
            // Some want what only the host can tell.
            job.request.sampling.logprobs = (seed == 3).then_some(0);
            bench.scheduler.submit(job).unwrap();
            ears.push((ear, alone(&text, limit, 250)));
        }
        bench.finish();
        for (ear, expected) in ears {
            prop_assert_eq!(ear.tokens(), expected);
        }
    }
}

//! Texts that are served one after the other.

use ::text::sampler::SamplerConfig;
use model::engine::Engine;
use model::scheduler::{Failure, Job, Options, Scheduler, Sink, Spent, Stats};
use model::sequence::{Event, Finish, Request};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// What a request heard: its tokens, and how many of its prompt were there.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<(Vec<u32>, usize)>>);

impl Ear {
    fn heard(&self) -> (Vec<u32>, usize) {
        self.0.lock().expect("no panic").clone()
    }
}

impl Sink for Ear {
    fn event(&mut self, event: Event<'_>) -> ControlFlow<()> {
        let mut heard = self.0.lock().expect("no panic");
        match event {
            Event::Prompt { cached, .. } => heard.1 = cached,
            Event::Token { sampled, .. } => heard.0.push(sampled.id),
        }
        ControlFlow::Continue(())
    }

    fn vector(&mut self, _: &[f32]) {}

    fn end(&mut self, end: Result<(Finish, Spent), Failure>) {
        end.expect("an answer");
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// The answer of six tokens to each text, with how much of it was in the cache; and what happened.
pub fn served(engine: Engine, options: Options, texts: &[&[u32]]) -> (Vec<(Vec<u32>, usize)>, Stats) {
    let mut scheduler = Scheduler::new(Box::new(engine), options);
    let answer = |text: &&[u32]| {
        let ear = ask(&mut scheduler, text);
        while scheduler.step() {}
        ear.heard()
    };
    (texts.iter().map(answer).collect(), scheduler.stats().clone())
}

/// The same of texts that all wait from the beginning.
pub fn served_together(engine: Engine, options: Options, texts: &[&[u32]]) -> (Vec<(Vec<u32>, usize)>, Stats) {
    let mut scheduler = Scheduler::new(Box::new(engine), options);
    let ears: Vec<Ear> = texts.iter().map(|text| ask(&mut scheduler, text)).collect();
    while scheduler.step() {}
    (ears.iter().map(Ear::heard).collect(), scheduler.stats().clone())
}

fn ask(scheduler: &mut Scheduler, text: &[u32]) -> Ear {
    let (ear, sampling) = (Ear::default(), SamplerConfig::greedy());
    let request = Request { prompt: text.to_vec(), sampling, limit: Some(6), ends: Arc::from([]) };
    let sink = Box::new(ear.clone());
    let job = Job { id: 1, request, constraint: None, pooling: None, score: None, sink };
    scheduler.submit(job).expect("a place");
    ear
}

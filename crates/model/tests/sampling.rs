//! Tokens that a step chooses: as the sampler of the host chooses them, and what comes of steps that are sent ahead.

use compiler::{Builder, Numerics, compile, dims};
use device::{Device, Interpreter};
use gguf::Gguf;
use ir::DType;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::generate::{Generator, Timing};
use model::sampling::{drawn, likeliest};
use model::sequence::{Event, Request};
use model::step::Output;
use model::synth::{SynthOptions, SynthPlan};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use testkit::cases::Random;
use text::sampler::{BIASED, Draw, Sampler, SamplerConfig};

/// Logits with ties, NaN and infinities among them.
fn odd(random: &mut Random, n: usize) -> Vec<f32> {
    let one = |random: &mut Random| match random.below(400) {
        0 => f32::NAN,
        1 => f32::NEG_INFINITY,
        2 => -0.0,
        3..80 => random.below(40) as f32 / 4.0 - 5.0,
        _ => 6.0 * random.float(),
    };
    (0..n).map(|_| one(random)).collect()
}

fn settings(random: &mut Random, vocab: usize) -> SamplerConfig {
    let pick = |random: &mut Random, of: &[f32]| of[random.below(of.len())];
    SamplerConfig {
        temperature: pick(random, &[0.0, 0.3, 0.8, 1.0, 2.0]),
        top_k: 1 + random.below(64),
        top_p: pick(random, &[0.0, 0.5, 0.95, 1.0]),
        min_p: pick(random, &[0.0, 0.05, 0.5, 1.0]),
        seed: random.bits(),
        logit_bias: (0..random.below(BIASED + 1))
            .map(|_| (random.below(vocab) as u32, pick(random, &[f32::NEG_INFINITY, -3.0, 2.0])))
            .collect(),
        ..SamplerConfig::default()
    }
}

/// Chooses tokens by both programs and by the sampler; how many of the drawn ones differ.
fn differing(device: &dyn Device, vocab: usize, rows: usize, rounds: Range<usize>) -> usize {
    let b = Builder::new();
    let logits = b.input("logits", DType::F32, dims![rows, vocab]);
    let draws = b.input("draws", DType::F32, dims![rows, Draw::LEN]);
    let outputs = [("likeliest", &likeliest(&logits)), ("drawn", &drawn(&logits, &draws))];
    let program = compile(&b, "choose", &outputs, &[], &device.options(Numerics::Exact)).expect("a program").program;
    let mut memory = device.memory();
    let mut step = device.load(Arc::new(program), &mut memory).expect("a loaded program");
    let (mut random, mut differing) = (Random(vocab as u64), 0);
    for round in rounds {
        let configs: Vec<SamplerConfig> = (0..rows).map(|_| settings(&mut random, vocab)).collect();
        let mut given = odd(&mut random, rows * vocab);
        match round {
            0 => given[..vocab].fill(f32::NAN),
            1 => given[vocab / 2] = f32::INFINITY,
            2 => given[..vocab].fill(1.5),
            _ => {}
        }
        let numbers: Vec<f32> =
            configs.iter().flat_map(|config| config.draw(round as u64).expect("a draw").numbers()).collect();
        memory.input_mut::<f32>("logits").expect("an input").copy_from_slice(&given);
        memory.input_mut::<f32>("draws").expect("an input").copy_from_slice(&numbers);
        step.run(&mut memory, &[]).expect("a step");
        let likeliest = memory.output::<i32>("likeliest").expect("an output").to_vec();
        let drawn = memory.output::<i32>("drawn").expect("an output").to_vec();
        for (row, config) in configs.into_iter().enumerate() {
            let own = &given[row * vocab..][..vocab];
            let choose = |config: SamplerConfig| {
                let mut sampler = Sampler::new(config, vocab).expect("a sampler");
                sampler.set_step(round as u64);
                sampler.sample(own).map_or(-1, |sampled| sampled.id as i32)
            };
            assert_eq!(likeliest[row], choose(SamplerConfig::greedy()), "{vocab} tokens, round {round}, row {row}");
            differing += usize::from(drawn[row] != choose(config));
        }
    }
    differing
}

#[test]
fn steps_choose_as_the_sampler_does() {
    let cpu = crate::support::cpu(2);
    // Sums are rounded otherwise, so a number that falls between two tokens may fall to the other.
    for (vocab, rows) in [(331, 1), (64, 3), (2048, 2), (4640, 2), (4799, 1), (32_003, 1), (34_656, 1)] {
        let differing = differing(&*cpu, vocab, rows, 0..100);
        assert!(differing <= rows, "{differing} of {} differ, {vocab} tokens", 100 * rows);
    }
}

#[test]
fn blocks_of_threads_choose_as_the_sampler_does() {
    let blocks = Interpreter::of_blocks().apart();
    for (vocab, rows, rounds) in [(331, 2, 0..4), (2240, 1, 3..4)] {
        assert_eq!(differing(&blocks, vocab, rows, rounds), 0, "{vocab} tokens");
    }
}

/// An engine of a tiny model.
fn engine(device: Arc<dyn Device>) -> Engine {
    let plan = SynthPlan::new("tiny-llama", "q4_0", &SynthOptions::default()).expect("a shape");
    let file = Arc::new(Gguf::parse(plan.to_vec().expect("a file")).expect("a file"));
    let compiler = device.options(Numerics::Exact);
    let options = EngineOptions { compiler, context: 12, chunk: 8, cache: CacheKind::F32 };
    Engine::new(file, device, options).expect("a model")
}

fn generated(device: Arc<dyn Device>, sampling: &SamplerConfig, ends: &[u32]) -> (Vec<u32>, String, usize) {
    let mut engine = engine(device);
    let (mut generator, mut timing, mut out) = (Generator::new(), Timing::default(), vec![]);
    let mut finish = String::new();
    // The second text goes on where the first left steps in flight.
    for prompt in [&[5, 6, 7][..], &[5, 6, 7, 8]] {
        let request =
            Request { prompt: prompt.to_vec(), sampling: sampling.clone(), limit: Some(7), ends: Arc::from(ends) };
        let ended = generator.generate(&mut engine, request, &mut timing, |event| {
            if let Event::Token { sampled, .. } = event {
                out.push(sampled.id);
            }
            ControlFlow::Continue(())
        });
        finish += &format!("{:?} ", ended.expect("a text"));
    }
    (out, finish, timing.steps)
}

#[test]
fn texts_are_the_same_with_steps_in_flight() {
    let draws = SamplerConfig { top_k: 40, top_p: 0.95, seed: 3, ..SamplerConfig::default() };
    let biased = SamplerConfig { logit_bias: vec![(3, f32::NEG_INFINITY), (9, 0.5)], ..SamplerConfig::greedy() };
    for sampling in [SamplerConfig::greedy(), draws, biased] {
        let here = generated(Arc::new(Interpreter::of_blocks()), &sampling, &[]);
        let ahead = generated(Arc::new(Interpreter::of_blocks().apart()), &sampling, &[]);
        assert_eq!(here, ahead);
        assert_eq!((here.0.len(), here.2), (14, 12));
        // One of its own tokens ends the text, so a step is in flight for nothing.
        let ends = [here.0[3]];
        let (here, ahead) = (
            generated(Arc::new(Interpreter::of_blocks()), &sampling, &ends),
            generated(Arc::new(Interpreter::of_blocks().apart()), &sampling, &ends),
        );
        assert_eq!(here, ahead);
    }
}

#[test]
fn what_decodes_is_what_is_profiled() {
    let mut beside = engine(Arc::new(Interpreter::of_blocks().apart()));
    let greedy = SamplerConfig::greedy();
    let draws = SamplerConfig { top_k: 40, ..SamplerConfig::default() };
    let penalised = SamplerConfig { presence_penalty: 1.0, ..draws.clone() };
    let mut launches = vec![];
    for (sampling, output) in [(&greedy, Output::Likeliest), (&draws, Output::Drawn), (&penalised, Output::Logits)] {
        let (draw, variant) = (beside.draw(sampling), beside.decoding(sampling, 0));
        assert_eq!((variant.output, draw.is_some()), (output, output.chooses()));
        let profile = beside.profile(&[5], 0, draw).expect("times");
        let (program, _) = beside.program(variant).expect("it ran");
        assert_eq!(profile.launches.len(), program.launches(), "{output:?}");
        launches.push(profile.launches.len());
    }
    assert!(launches[2] < launches[0] && launches[0] < launches[1], "choosing takes kernels: {launches:?}");
    // A few tokens that are ruled out are for the device to leave out.
    let biased = SamplerConfig { logit_bias: vec![(1, f32::NEG_INFINITY)], ..greedy.clone() };
    assert_eq!(beside.decoding(&biased, 0).output, Output::Drawn);
    // A device that does not work beside the host gives logits, whatever is asked for.
    let here = engine(Arc::new(Interpreter::of_blocks()));
    assert_eq!((here.draw(&greedy), here.decoding(&greedy, 0).output), (None, Output::Logits));
}

//! Texts whose tokens the adapter chooses, with a step ahead of the host.

use compiler::Numerics;
use device::Device;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::generate::{Generator, Timing};
use model::sequence::{Event, Request};
use model::synth::{SynthOptions, SynthPlan};
use std::ops::ControlFlow;
use std::sync::Arc;
use text::sampler::SamplerConfig;
use webgpu::Wgpu;
use webgpu::adapter::adapters;

/// The tokens of two texts, the second of which goes on where steps of the first may be in flight.
fn generated(device: Arc<Wgpu>, sampling: &SamplerConfig) -> Vec<u32> {
    let plan = SynthPlan::new("tiny-llama", "q4_0", &SynthOptions::default()).expect("a shape");
    let file = Arc::new(Gguf::parse(plan.to_vec().expect("a file")).expect("a file"));
    let compiler = device.options(Numerics::Exact);
    let options = EngineOptions { compiler, context: 32, chunk: 8, cache: CacheKind::F32 };
    let mut engine = Engine::new(file, device, options).expect("a model");
    let (mut generator, mut timing, mut out) = (Generator::new(), Timing::default(), vec![]);
    for prompt in [&[5, 6, 7][..], &[5, 6, 7, 8]] {
        let (prompt, sampling, ends) = (prompt.to_vec(), sampling.clone(), Arc::from([]));
        let request = Request { prompt, sampling, limit: Some(12), ends };
        let ended = generator.generate(&mut engine, request, &mut timing, |event| {
            if let Event::Token { sampled, .. } = event {
                out.push(sampled.id);
            }
            ControlFlow::Continue(())
        });
        ended.expect("a text");
    }
    out
}

#[test]
fn texts_are_the_same_with_steps_in_flight() {
    if adapters().is_empty() {
        return;
    }
    let with = |ahead| Arc::new(Wgpu::new(0).expect("an adapter that can be opened").with_steps_ahead(ahead));
    let draws = SamplerConfig { top_k: 40, top_p: 0.95, seed: 3, ..SamplerConfig::default() };
    let biased = SamplerConfig { logit_bias: vec![(3, f32::NEG_INFINITY), (9, 0.5)], ..SamplerConfig::greedy() };
    for sampling in [SamplerConfig::greedy(), draws, biased] {
        // With none, the host chooses.
        let here = generated(with(0), &sampling);
        assert_eq!(here.len(), 24);
        for ahead in [1, 3] {
            assert_eq!(here, generated(with(ahead), &sampling), "{ahead} steps ahead");
        }
    }
}

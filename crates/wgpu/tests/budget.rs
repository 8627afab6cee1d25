//! How much memory an adapter has, and what is planned by it.

use gguf::Gguf;
use model::cache::CacheKind;
use model::config::Config;
use model::memory_plan::{ModelMemory, Room, default_context};
use model::synth::{SynthOptions, SynthPlan};
use webgpu::Wgpu;
use webgpu::adapter::{Kind, adapters};

#[test]
fn a_software_adapter_has_memory_of_the_host() {
    for adapter in adapters().into_iter().filter(|adapter| adapter.kind() == Kind::Software) {
        let total = adapter.budget().expect("heaps").total;
        assert!(total > 64 << 20, "{adapter}: {total} bytes");
        let free = adapter.free_memory();
        assert_eq!(free.is_some(), device::available_memory().is_some(), "{adapter}");
        assert!(free.is_none_or(|free| 0 < free && free <= total), "{adapter}: {free:?} of {total} bytes");
    }
}

#[test]
fn what_does_not_fit_on_an_adapter_is_refused_with_the_plan() {
    let known = |adapter: &webgpu::adapter::Adapter| adapter.free_memory().is_some();
    let Some(adapter) = adapters().into_iter().find(known) else { return };
    let largest_block = adapter.largest_block();
    let device = Wgpu::of(adapter).expect("an adapter that can be opened");
    let plan = SynthPlan::new("tiny-llama", "q4_0", &SynthOptions::default()).expect("a shape");
    let file = Gguf::parse(plan.to_vec().expect("a file")).expect("a file");
    let config = Config::read(&file).expect("a model");
    let plan = |context| ModelMemory::of_cache(&config, context, CacheKind::F16, &file).on(&device);
    assert_eq!(plan(64).check(), Ok(()));
    let small = ModelMemory { available: Some(file.bytes() + plan(1024).cache), ..plan(4096) };
    let error = small.check().expect_err("a cache that is too large").to_string();
    assert!(error.contains("about 1024 positions fit") && !error.contains("mapped"), "{error}");
    assert!(plan(1 << 40).check().is_err());
    // A cache that nobody chose is one that kernels reach.
    let endless = Config { context: 1 << 40, ..config.clone() };
    let usual = default_context(&endless, CacheKind::F16, file.bytes(), Room::of(&device), false);
    assert!(plan(usual).largest <= largest_block, "{usual} positions");
}

//! GPUs that WebGPU's native implementation reaches: Vulkan, Metal, DirectX 12.
//!
//! Nothing of them is needed to build this crate, or to start a program that has it. What a kernel computes is the compiler's
//! business, which writes WGSL; what is here is which adapters there are and what they can do ([`adapter`]), how much memory
//! they have ([`budget`]), what lies in it ([`memory`]) and how weights come there (`stage`), pipelines ([`pipelines`]) and steps
//! ([`steps`]).

pub mod adapter;
mod bandwidth;
pub mod budget;
mod context;
pub mod memory;
pub mod pipelines;
mod stage;
pub mod steps;
mod timestamps;

use adapter::Adapter;
use compiler::program::Program;
use compiler::{Numerics, Options};
use context::{Context, unusable};
use device::host::workers::Workers;
use device::{Device, Executable, Memory, Result, validate};
use memory::AdapterHeap;
use std::path::Path;
use std::sync::Arc;
use steps::Steps;

/// An adapter in use.
pub struct Wgpu {
    adapter: Adapter,
    context: Arc<Context>,
    heap: Arc<AdapterHeap>,
    ahead: usize,
    workers: Workers,
}

/// What a driver that is there may lack to list its adapters.
fn lacks() -> &'static str {
    let nvidia = Path::new("/proc/driver/nvidia/version").exists();
    if nvidia { "; that of NVIDIA needs libvulkan1, libX11 and libXext (packages libx11-6 and libxext6)" } else { "" }
}

impl Wgpu {
    /// Takes the adapter of this number into use.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] if there is none, or it cannot run kernels.
    pub fn new(ordinal: usize) -> Result<Wgpu> {
        let mut all = adapter::adapters();
        if ordinal >= all.len() {
            let there: Vec<String> = all.iter().map(Adapter::to_string).collect();
            let there = if there.is_empty() { "none".into() } else { there.join("; ") };
            let lacks = if all.is_empty() { lacks() } else { "" };
            return Err(unusable(format!(
                "there is no wgpu:{ordinal}; there are: {there}. A driver of Vulkan, Metal or DirectX 12 is needed{lacks}"
            )));
        }
        Wgpu::of(all.swap_remove(ordinal))
    }

    /// As [`Wgpu::new`], for an adapter of [`adapter::adapters`].
    ///
    /// # Errors
    /// As [`Wgpu::new`].
    pub fn of(adapter: Adapter) -> Result<Wgpu> {
        let context = Arc::new(Context::new(&adapter)?);
        let heap = Arc::new(AdapterHeap::new(context.clone()));
        Ok(Wgpu { adapter, context, heap, ahead: device::AHEAD, workers: Workers::default() })
    }

    /// With so many steps that are sent before the result of one is known.
    #[must_use]
    pub fn with_steps_ahead(self, ahead: usize) -> Wgpu {
        Wgpu { ahead, ..self }
    }

    /// Bytes a second that a kernel reads which does nothing else.
    ///
    /// # Errors
    /// Of the adapter.
    pub fn read_bandwidth(&self) -> Result<f64> {
        bandwidth::measure(&self.context)
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }
}

impl Device for Wgpu {
    fn name(&self) -> String {
        self.adapter.to_string()
    }

    fn options(&self, numerics: Numerics) -> Options {
        self.adapter.options(numerics)
    }

    fn memory(&self) -> Memory {
        Memory::on(self.heap.clone())
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        validate::program(&program)?;
        memory.check_place(&self.context.name, &program)?;
        let pipelines = pipelines::load(&self.context, &program)?;
        let places = memory.bind(&program)?;
        let heap = self.heap.clone();
        Ok(Box::new(Steps::new(self.context.clone(), heap, program, pipelines, places, memory.id())?))
    }

    fn available_memory(&self) -> Option<u64> {
        self.adapter.free_memory()
    }

    fn largest_block(&self) -> Option<u64> {
        Some(self.adapter.largest_block())
    }

    fn keeps_weights(&self) -> bool {
        true
    }

    fn steps_ahead(&self) -> usize {
        self.ahead.min(device::MOST_AHEAD)
    }

    fn parallel_for(&self, count: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        self.workers.each(count, job)
    }

    fn check(&self) -> Result<()> {
        self.context.check()
    }
}

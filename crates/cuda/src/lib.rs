//! NVIDIA's cards as devices: generated kernels compiled by NVRTC, replayed as one graph a step.
//!
//! Nothing of CUDA is needed to build this crate, or to start a program that has it: the driver is looked for when a
//! device is opened, the compiler when a kernel is missing that was not kept. What a kernel computes is the compiler's
//! business; what is here is memory ([`memory`]), code ([`nvrtc`], [`cubins`], [`kernels`]) and launches ([`replay`]).

pub mod ahead;
pub mod architecture;
mod bandwidth;
pub mod cubins;
pub mod disassembly;
pub mod driver;
pub mod kernels;
mod matrix_units;
pub mod memory;
pub mod nvrtc;
pub mod replay;
mod toolkit;

use compiler::program::Program;
use compiler::{Numerics, Options, Tuned};
use cubins::{Compiling, Cubins};
use device::host::workers::Workers;
use device::store::blobs::Blobs;
use device::{AHEAD, CacheConfig, Device, Executable, MatrixUnits, Memory, Result, TunedPlans, Warning, validate};
use driver::{Card, Context, Driver, unusable};
use memory::CardHeap;
use replay::{Replay, Sending};
use std::sync::Arc;
use std::thread;

/// How to use a card.
#[derive(Clone)]
pub struct CudaConfig {
    /// The card, by its number among those that this process may use.
    pub ordinal: usize,
    /// Where compiled kernels are kept.
    pub cache: CacheConfig,
    /// How kernels are compiled.
    pub compiling: Compiling,
    /// How steps are sent to the card.
    pub sending: Sending,
    /// Steps that are sent before the result of one is known.
    pub ahead: usize,
}

impl CudaConfig {
    /// The first card, with the cache folder of the environment.
    pub fn from_environment() -> CudaConfig {
        CudaConfig {
            ordinal: 0,
            cache: CacheConfig::from_environment(),
            compiling: Compiling::default(),
            sending: Sending::default(),
            ahead: AHEAD,
        }
    }
}

/// The cards that this process may use.
///
/// # Errors
/// [`device::Error::Unusable`] without a driver, and of the driver.
pub fn cards() -> Result<Vec<Card>> {
    Driver::load()?.cards()
}

/// A card.
pub struct Cuda {
    context: Arc<Context>,
    heap: Arc<CardHeap>,
    cubins: Cubins,
    tuned: Arc<Tuned>,
    warnings: Vec<Warning>,
    sending: Sending,
    ahead: usize,
    workers: Workers,
}

impl Cuda {
    /// Takes a card into use. The compiler is looked for when a kernel is missing.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] with what is missing and what to do, and of the driver.
    pub fn new(config: &CudaConfig) -> Result<Cuda> {
        let mut cards = cards()?;
        if config.ordinal >= cards.len() {
            let names: Vec<String> = cards.iter().map(|card| format!("cuda:{} {}", card.ordinal, card.name)).collect();
            let (wanted, there) = (config.ordinal, names.join(", "));
            return Err(unusable(format!("there is no cuda:{wanted}; there are: {there}")));
        }
        Cuda::of(cards.swap_remove(config.ordinal), config)
    }

    /// As [`Cuda::new`], for a card of [`cards`], whatever number the configuration has.
    ///
    /// # Errors
    /// As [`Cuda::new`].
    pub fn of(card: Card, config: &CudaConfig) -> Result<Cuda> {
        let context = Context::new(card)?;
        let architecture = context.card.architecture().name();
        let blobs = Blobs::open(&config.cache, &architecture);
        let driver = Some(context.card.driver.version);
        let cubins = Cubins::new(architecture, driver, config.compiling.clone(), blobs);
        let heap = Arc::new(CardHeap::new(context.clone()));
        let (sending, ahead) = (config.sending, config.ahead);
        let (tuned, workers) = (Arc::default(), Workers::default());
        let mut cuda = Cuda { context, heap, cubins, tuned, warnings: vec![], sending, ahead, workers };
        match cuda.tuned_plans(&config.cache).map_or(Ok(Tuned::default()), |plans| plans.read()) {
            // Kernels that were built ahead do without them.
            Ok(tuned) if !tuned.0.is_empty() && cuda.cubins.nvrtc().is_ok() => cuda.tuned = Arc::new(tuned),
            Ok(_) => {}
            Err(warning) => cuda.warnings.push(warning),
        }
        Ok(cuda)
    }

    /// What the user should know about how the device was opened.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The card.
    pub fn card(&self) -> &Card {
        &self.context.card
    }

    /// Whether kernels can be compiled, or there are some that were built before.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] without either.
    pub fn check_compiler(&self) -> Result<()> {
        if self.cubins.blobs().count() > 0 { Ok(()) } else { self.cubins.nvrtc().map(drop) }
    }

    /// The kernels of a program as the machine code that they are compiled to.
    ///
    /// # Errors
    /// As [`Cubins::assembly`].
    pub fn assembly(&self, program: &Program) -> Result<String> {
        self.cubins.assembly(program)
    }

    /// Bytes a second that a kernel reads which does nothing else.
    ///
    /// # Errors
    /// Of the compiler and of the driver.
    pub fn read_bandwidth(&self) -> Result<f64> {
        bandwidth::measure(&self.context, self.cubins.nvrtc()?)
    }

    /// Products a second of kernels that do nothing else.
    ///
    /// # Errors
    /// Of the compiler and of the driver.
    pub fn matrix_units(&self) -> Result<MatrixUnits> {
        matrix_units::measure(&self.context, self.cubins.nvrtc()?)
    }

    /// Bytes of its memory that are free, and all.
    ///
    /// # Errors
    /// Of the driver.
    pub fn free_memory(&self) -> Result<(usize, usize)> {
        self.context.memory()
    }
}

impl Device for Cuda {
    fn name(&self) -> String {
        let card = self.card();
        let gib = card.memory as f64 / f64::from(1 << 30);
        format!("{}, {}, {gib:.0} GiB, {}", self.context.name(), card.name, card.architecture().name())
    }

    fn options(&self, numerics: Numerics) -> Options {
        Options { tuned: self.tuned.clone(), ..self.card().architecture().options(numerics) }
    }

    fn memory(&self) -> Memory {
        Memory::on(self.heap.clone())
    }

    fn check(&self) -> Result<()> {
        self.context.wait()
    }

    fn steps_ahead(&self) -> usize {
        self.ahead.min(device::MOST_AHEAD)
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        validate::program(&program)?;
        memory.check_place(&self.context.name(), &program)?;
        // Weights are on their way while kernels are compiled.
        let (loaded, places) = thread::scope(|scope| {
            let loaded = scope.spawn(|| kernels::load(&self.context, &self.cubins, &program));
            let places = memory.bind(&program);
            let loaded = loaded.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (loaded, places)
        });
        let (loaded, places) = (loaded?, places?);
        let replay = Replay::new(self.context.clone(), program, loaded, places, memory.id(), self.sending)?;
        Ok(Box::new(replay))
    }

    fn parallel_for(&self, count: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        self.workers.each(count, job)
    }

    fn kept(&self, follows_from: &str) -> Option<Vec<u8>> {
        self.cubins.blobs().program(follows_from)
    }

    fn keep(&self, follows_from: &str, program: &[u8]) {
        self.cubins.blobs().keep_program(follows_from, program);
    }

    fn tuned_plans(&self, kept: &CacheConfig) -> Option<TunedPlans> {
        let Card { name, multiprocessors, memory, .. } = self.card();
        let machine = format!("{name}, {multiprocessors} multiprocessors, {memory} bytes");
        TunedPlans::of(kept, &self.card().architecture().name(), machine)
    }

    fn available_memory(&self) -> Option<u64> {
        self.free_memory().ok().map(|(free, _)| free as u64)
    }

    fn keeps_weights(&self) -> bool {
        true
    }
}

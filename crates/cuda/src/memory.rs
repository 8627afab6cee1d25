//! Memory of a card.

use crate::driver::{Context, Event};
use cudarc::driver::sys::{self, CUresult};
use device::heap::{Block, Copied, Heap, HostBytes, Port, Region, Requested};
use device::packing::Packing;
use device::{Error, Result};
use gguf::format::Planes;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use compiler::program::Program;

/// Bytes at whose multiples ports begin.
const ALIGN: usize = 256;

/// Bytes of memory that inputs share, at least: they go to the card in one copy.
const INPUTS: usize = 256 << 10;

/// Bytes that go to the card at once while weights are read.
const STAGE: usize = 32 << 20;

/// Bytes of the card's memory.
struct Allocation {
    context: Arc<Context>,
    start: u64,
    bytes: usize,
}

impl Allocation {
    /// Bytes with the slack of a weight, all zero.
    fn new(context: &Arc<Context>, bytes: usize, purpose: &str) -> Result<Allocation> {
        let allocation = Allocation::raw(context, bytes, purpose)?;
        allocation.clear(0..bytes + Program::WEIGHT_SLACK)?;
        Ok(allocation)
    }

    /// Bytes with the slack of a weight, that may hold anything.
    fn raw(context: &Arc<Context>, bytes: usize, purpose: &str) -> Result<Allocation> {
        let mut start = 0;
        let exhausted = |free| Error::OutOfDeviceMemory {
            device: format!("{} ({})", context.name(), context.card.name),
            purpose: purpose.into(),
            bytes,
            free,
        };
        let Some(all) = bytes.checked_add(Program::WEIGHT_SLACK) else { return Err(exhausted(context.memory()?.0)) };
        // SAFETY: it is freed once, when this is dropped.
        match context.result(|_| unsafe { sys::cuMemAlloc_v2(&mut start, all) }) {
            Ok(()) => Ok(Allocation { context: context.clone(), start, bytes }),
            Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Err(exhausted(context.memory()?.0)),
            Err(result) => Err(context.failed("cuMemAlloc", result)),
        }
    }

    fn clear(&self, range: Range<usize>) -> Result<()> {
        assert!(range.end <= self.bytes + Program::WEIGHT_SLACK, "{range:?} of {} bytes", self.bytes);
        if range.is_empty() {
            return Ok(());
        }
        self.context.call("cuMemsetD8Async", |stream| {
            // SAFETY: the range is within the allocation.
            unsafe { sys::cuMemsetD8Async(self.start + range.start as u64, 0, range.len(), stream) }
        })
    }

    /// Sends bytes, which stay in place until the stream has taken them.
    fn send(&self, at: usize, bytes: &[u8]) -> Result<()> {
        assert!(at + bytes.len() <= self.bytes, "{at} + {} of {} bytes", bytes.len(), self.bytes);
        self.context.call("cuMemcpyHtoDAsync", |stream| {
            let from = bytes.as_ptr().cast();
            // SAFETY: both ranges are within what they are part of.
            unsafe { sys::cuMemcpyHtoDAsync_v2(self.start + at as u64, from, bytes.len(), stream) }
        })
    }

    /// Brings bytes, and waits for them.
    fn bring(&self, at: usize, to: *mut u8, bytes: usize) -> Result<()> {
        self.begin_to_bring(at, to, bytes)?;
        self.context.wait()
    }

    /// Brings bytes after whatever was sent to the card before.
    fn begin_to_bring(&self, at: usize, to: *mut u8, bytes: usize) -> Result<()> {
        assert!(at + bytes <= self.bytes, "{at} + {bytes} of {} bytes", self.bytes);
        self.context.call("cuMemcpyDtoHAsync", |stream| {
            // SAFETY: the source is within the allocation, and the caller has room for so many bytes.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), self.start + at as u64, bytes, stream) }
        })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: freed once; the driver waits for what still uses it.
        let _ = self.context.call("cuMemFree", |_| unsafe { sys::cuMemFree_v2(self.start) });
    }
}

/// Bytes of the host that the card reads and writes without the processor's help. They are pages of the system that are made
/// known to the driver: asking it for memory takes six times as long, and no step is launched meanwhile.
struct Pinned {
    context: Arc<Context>,
    region: Region,
    /// Where the driver cannot, it copies them by way of memory of its own.
    known: bool,
}

impl Pinned {
    fn new(context: &Arc<Context>, bytes: usize, purpose: &str) -> Result<Pinned> {
        let mut region = Region::new(bytes.max(1), purpose)?;
        // What the system still has to find, the driver would wait for with all others that call it.
        HostBytes::as_mut_slice(&mut region).fill(0);
        // SAFETY: the region lives until it is made unknown when this is dropped.
        let known =
            context.result(|_| unsafe { sys::cuMemHostRegister_v2(region.address().cast(), region.bytes(), 0) });
        Ok(Pinned { context: context.clone(), region, known: known.is_ok() })
    }
}

impl HostBytes for Pinned {
    fn start(&self) -> *mut u8 {
        HostBytes::start(&self.region)
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        HostBytes::as_mut_slice(&mut self.region)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: unmade once; what the stream still copies has been waited for, or its result is not wanted.
        let _ = self.context.call("cuMemHostUnregister", |stream| unsafe {
            sys::cuStreamSynchronize(stream);
            if self.known { sys::cuMemHostUnregister(self.region.address().cast()) } else { CUresult::CUDA_SUCCESS }
        });
    }
}

/// Bytes that the host does not reach.
struct Far {
    all: Allocation,
    /// Memory of requests that nobody waits for any more.
    idle: Arc<Mutex<Vec<Stage>>>,
}

impl Far {
    fn new(all: Allocation) -> Far {
        Far { all, idle: Arc::default() }
    }
}

impl Block for Far {
    fn address(&self) -> *mut u8 {
        self.all.start as *mut u8
    }

    fn bytes(&self) -> usize {
        self.all.bytes
    }

    fn host(&self) -> Option<*mut u8> {
        None
    }

    fn fetch(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn request(&mut self, bytes: usize) -> Result<Box<dyn Requested>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stage = match idle {
            Some(stage) => stage,
            None => Stage::new(&self.all.context, self.all.bytes, "an output")?,
        };
        self.all.begin_to_bring(0, stage.buffer.start(), bytes)?;
        stage.taken.record()?;
        Ok(Box::new(Letter { stage: Some(stage), bytes, idle: self.idle.clone() }))
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.all.send(at, bytes)?;
        self.all.context.wait()
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.all.bring(at, to.as_mut_ptr(), to.len())
    }

    unsafe fn begin_read(&self, at: usize, to: *mut u8, bytes: usize) -> Result<()> {
        self.all.begin_to_bring(at, to, bytes)
    }

    unsafe fn begin_write(&mut self, at: usize, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller has promised that it is so much memory, and that it stays as it is until the stream is through.
        self.all.send(at, unsafe { std::slice::from_raw_parts(from, bytes) })
    }

    fn clear(&mut self, range: Range<usize>) -> Result<()> {
        assert!(range.end <= self.all.bytes, "{range:?} of {} bytes", self.all.bytes);
        self.all.clear(range)
    }
}

/// What was asked for of a block.
struct Letter {
    stage: Option<Stage>,
    bytes: usize,
    idle: Arc<Mutex<Vec<Stage>>>,
}

impl Requested for Letter {
    fn wait(mut self: Box<Self>) -> Result<Vec<u8>> {
        let bytes = self.bytes;
        let stage = self.stage.as_mut().expect("given back when this is dropped");
        stage.taken.wait()?;
        Ok(stage.buffer.as_mut_slice()[..bytes].to_vec())
    }
}

impl Drop for Letter {
    fn drop(&mut self) {
        // Whatever still comes is overwritten by what is asked for next, in the order of the stream.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.stage.take());
    }
}

/// Memory that inputs are parts of, on the card and on the host.
struct Inputs {
    far: Allocation,
    near: Pinned,
}

/// An input: a part of what goes to the card in one copy.
struct Input {
    of: Arc<Inputs>,
    at: usize,
    bytes: usize,
}

impl Block for Input {
    fn address(&self) -> *mut u8 {
        (self.of.far.start + self.at as u64) as *mut u8
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host(&self) -> Option<*mut u8> {
        Some(self.of.near.start().wrapping_add(self.at))
    }

    fn fetch(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        assert!(at + bytes.len() <= self.bytes, "{at} + {} of {} bytes", bytes.len(), self.bytes);
        // SAFETY: the part belongs to this input alone, which is borrowed alone.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.of.near.start().add(self.at + at), bytes.len()) };
        Ok(())
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        assert!(at + to.len() <= self.bytes, "{at} + {} of {} bytes", to.len(), self.bytes);
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(self.of.near.start().add(self.at + at), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn clear(&mut self, range: Range<usize>) -> Result<()> {
        self.write(range.start, &vec![0; range.len()])
    }
}

/// Sends what the host has written to inputs, with as few copies as they lie in pieces of memory. When this returns, they
/// may be written again: `stage` holds a copy until the card has taken it.
pub fn send_inputs(context: &Context, blocks: &[(u64, *mut u8, usize)], stage: &mut Stage) -> Result<()> {
    // An event that was never recorded has passed.
    stage.taken.wait()?;
    let mut rest = stage.buffer.as_mut_slice();
    for &(address, host, bytes) in blocks {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(bytes);
        // SAFETY: these are inputs of a memory that is lent to the step.
        part.copy_from_slice(unsafe { std::slice::from_raw_parts(host, bytes) });
        context.call("cuMemcpyHtoDAsync", |stream| {
            // SAFETY: the target is an input of that memory, and the copy stays until it was taken.
            unsafe { sys::cuMemcpyHtoDAsync_v2(address, part.as_ptr().cast(), bytes, stream) }
        })?;
        rest = after;
    }
    stage.taken.record()
}

/// Bytes on their way to the card, or from it.
pub struct Stage {
    buffer: Pinned,
    /// When they have been copied.
    taken: Event,
}

impl Stage {
    /// Room for so many bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and of the driver.
    pub fn new(context: &Arc<Context>, bytes: usize, purpose: &str) -> Result<Stage> {
        Ok(Stage { buffer: Pinned::new(context, bytes, purpose)?, taken: context.event()? })
    }
}

/// Makes blocks on a card.
pub struct CardHeap {
    context: Arc<Context>,
    place: String,
    /// Where the next input goes: what is used of the memory that inputs share.
    inputs: Mutex<Option<(Arc<Inputs>, usize)>>,
    stages: Mutex<Vec<Stage>>,
}

impl CardHeap {
    /// The memory of a card.
    pub fn new(context: Arc<Context>) -> CardHeap {
        CardHeap { place: context.name(), context, inputs: Mutex::default(), stages: Mutex::default() }
    }

    /// Sends a weight by pinned memory, piece after piece.
    fn stream(&self, to: &Allocation, packing: &Packing) -> Result<()> {
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = packing.whole_rows(STAGE);
        if stages.first().is_some_and(|stage| stage.buffer.region.bytes() < piece) {
            stages.clear();
        }
        while stages.len() < 2 {
            stages.push(Stage::new(&self.context, piece.max(STAGE), "sending weights to the card")?);
        }
        for (range, which) in packing.pieces(STAGE).zip([0, 1].into_iter().cycle()) {
            let stage = &mut stages[which];
            // An event that was never recorded has passed.
            stage.taken.wait()?;
            let bytes = &mut stage.buffer.as_mut_slice()[..range.len()];
            packing.fill_by_threads(range.start, bytes);
            to.send(range.start, bytes)?;
            stage.taken.record()?;
        }
        Ok(())
    }
}

impl Heap for CardHeap {
    fn place(&self) -> &str {
        &self.place
    }

    fn allocate(&self, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        Ok(Box::new(Far::new(Allocation::new(&self.context, bytes, purpose)?)))
    }

    fn port(&self, way: Port, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        if way == Port::Output {
            let far = Far::new(Allocation::new(&self.context, bytes, purpose)?);
            return Ok(Box::new(Copied { far, copy: Pinned::new(&self.context, bytes, purpose)? }));
        }
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let room = |(of, used): &(Arc<Inputs>, usize)| of.far.bytes >= used + bytes;
        if !inputs.as_ref().is_some_and(room) {
            let all = bytes.max(INPUTS);
            let far = Allocation::new(&self.context, all, purpose)?;
            *inputs = Some((Arc::new(Inputs { far, near: Pinned::new(&self.context, all, purpose)? }), 0));
        }
        let (of, used) = inputs.as_mut().expect("made above");
        let at = *used;
        *used = (at + bytes).next_multiple_of(ALIGN);
        Ok(Box::new(Input { of: of.clone(), at, bytes }))
    }

    fn beside(&self, bytes: usize, purpose: &str) -> Result<Box<dyn HostBytes>> {
        Ok(Box::new(Pinned::new(&self.context, bytes, purpose)?))
    }

    fn weight(&self, name: &str, source: &[u8], planes: Option<&Planes>) -> Result<Option<Box<dyn Block>>> {
        let packing = Packing::new(name, source, planes)?;
        let to = Allocation::raw(&self.context, packing.bytes(), &format!("weight {name}"))?;
        self.stream(&to, &packing)?;
        Ok(Some(Box::new(Far::new(to))))
    }
}

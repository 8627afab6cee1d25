//! Memory of an adapter.
//!
//! Kernels are given buffers and offsets, not addresses. What stands for the address of a block is a number of the heap's own,
//! and the heap knows the buffer that it lies in.

use crate::adapter::buffer_bytes;
use crate::context::{Context, WORD, unusable};
use crate::stage::Stages;
use device::Result;
use device::heap::{Block, Copied, Heap, Port, Region, Requested};
use device::packing::Packing;
use gguf::format::Planes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers that stand for addresses are multiples of this.
const APART: u64 = 1 << 12;

/// Buffers by what stands for their address.
#[derive(Default)]
struct Table {
    next: u64,
    buffers: BTreeMap<u64, wgpu::Buffer>,
}

/// The memory of an adapter.
pub struct AdapterHeap {
    context: Arc<Context>,
    table: Arc<Mutex<Table>>,
    stages: Mutex<Stages>,
}

/// Bytes in a buffer of their own.
struct Far {
    context: Arc<Context>,
    table: Arc<Mutex<Table>>,
    buffer: wgpu::Buffer,
    address: u64,
    bytes: usize,
}

impl AdapterHeap {
    pub(crate) fn new(context: Arc<Context>) -> AdapterHeap {
        AdapterHeap { context, table: Arc::default(), stages: Mutex::default() }
    }

    /// The buffer that an address of a block stands for, and how far from its beginning.
    pub(crate) fn find(&self, address: *mut u8) -> Option<(wgpu::Buffer, u64)> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, buffer) = table.buffers.range(..=address as u64).next_back()?;
        let offset = address as u64 - start;
        (offset < buffer.size()).then(|| (buffer.clone(), offset))
    }

    fn far(&self, bytes: usize, purpose: &str) -> Result<Far> {
        let context = &self.context;
        let size = buffer_bytes(bytes);
        if size > context.binding_bytes {
            let (size, most) = (size >> 20, context.binding_bytes >> 20);
            return Err(unusable(format!(
                "{purpose} takes {size} MiB, and kernels of {} reach {most} MiB of a buffer; use --device cpu, or a smaller \
                 --ctx-size if it is a cache",
                context.title
            )));
        }
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let made = context.scoped(|| context.device.create_buffer(&descriptor));
        let buffer = made.map_err(|error| match error {
            wgpu::Error::OutOfMemory { .. } => unusable(format!(
                "{} is out of memory: {bytes} bytes for {purpose}; choose a smaller context (-c), or --device cpu",
                context.title
            )),
            other => context.failed(other.to_string()),
        })?;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let address = table.next + APART;
        table.next = (address + size).next_multiple_of(APART);
        table.buffers.insert(address, buffer.clone());
        Ok(Far { context: context.clone(), table: self.table.clone(), buffer, address, bytes })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).buffers.remove(&self.address);
    }
}

/// A range that begins and ends with whole words.
fn widened(at: usize, bytes: usize) -> Range<usize> {
    at / WORD * WORD..(at + bytes).next_multiple_of(WORD)
}

impl Block for Far {
    fn address(&self) -> *mut u8 {
        self.address as *mut u8
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host(&self) -> Option<*mut u8> {
        None
    }

    fn fetch(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        assert!(at + bytes.len() <= self.bytes, "{at} + {} of {} bytes", bytes.len(), self.bytes);
        let wide = widened(at, bytes.len());
        if wide.len() == bytes.len() {
            self.context.queue.write_buffer(&self.buffer, at as u64, bytes);
            return self.context.check();
        }
        let mut words = self.context.ask(&self.buffer, wide.start, wide.len()).take()?;
        words[at - wide.start..][..bytes.len()].copy_from_slice(bytes);
        self.context.queue.write_buffer(&self.buffer, wide.start as u64, &words);
        self.context.check()
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        assert!(at + to.len() <= self.bytes, "{at} + {} of {} bytes", to.len(), self.bytes);
        if to.is_empty() {
            return Ok(());
        }
        let wide = widened(at, to.len());
        let words = self.context.ask(&self.buffer, wide.start, wide.len()).take()?;
        to.copy_from_slice(&words[at - wide.start..][..to.len()]);
        Ok(())
    }

    fn request(&mut self, bytes: usize) -> Result<Box<dyn Requested>> {
        Ok(Box::new(self.context.ask(&self.buffer, 0, bytes)))
    }

    fn clear(&mut self, range: Range<usize>) -> Result<()> {
        if !range.start.is_multiple_of(WORD) || !range.end.is_multiple_of(WORD) {
            return self.write(range.start, &vec![0; range.len()]);
        }
        let context = &self.context;
        let mut encoder = context.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.clear_buffer(&self.buffer, range.start as u64, Some(range.len() as u64));
        context.queue.submit([encoder.finish()]);
        context.check()
    }
}

impl Heap for AdapterHeap {
    fn place(&self) -> &str {
        &self.context.name
    }

    fn allocate(&self, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        // Buffers are zero where nothing was written.
        Ok(Box::new(self.far(bytes, purpose)?))
    }

    fn port(&self, _: Port, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        Ok(Box::new(Copied {
            far: self.far(bytes, purpose)?,
            copy: Region::new(bytes.next_multiple_of(WORD), purpose)?,
        }))
    }

    fn weight(&self, name: &str, source: &[u8], planes: Option<&Planes>) -> Result<Option<Box<dyn Block>>> {
        let packing = Packing::new(name, source, planes)?;
        let far = self.far(packing.bytes(), &format!("weight {name}"))?;
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).send(&self.context, &packing, &far.buffer)?;
        Ok(Some(Box::new(far)))
    }
}

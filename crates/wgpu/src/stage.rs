//! Memory that both the host and the adapter reach, by which weights go to the adapter.
//!
//! There are two buffers, so that one is filled while the other is copied, and they are kept: new memory of a driver costs as much
//! as what is done with it. It may be slow to read, so threads repack rows elsewhere, a few at a time, and only copy them there.

use crate::context::{Context, Mapping, WORD};
use device::Result;
use device::packing::Packing;
use std::thread;

/// Bytes of a buffer, if a row is not larger.
const STAGE: usize = 32 << 20;

/// Bytes that a thread has in a near cache before it copies them.
const NEAR: usize = 128 << 10;

/// A buffer, and what it waits for; at first it waits for nothing.
struct Stage {
    buffer: wgpu::Buffer,
    mapping: Option<Mapping>,
}

/// The buffers, of one size.
#[derive(Default)]
pub(crate) struct Stages(Vec<Stage>);

impl Stages {
    /// Sends a weight to a buffer, which is done when all that was sent is over.
    pub(crate) fn send(&mut self, context: &Context, packing: &Packing, to: &wgpu::Buffer) -> Result<()> {
        let size = packing.whole_rows(STAGE).max(STAGE).next_multiple_of(WORD) as u64;
        self.0.retain(|stage| stage.buffer.size() >= size);
        while self.0.len() < 2 {
            let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
            let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: true };
            let made = context.scoped(|| context.device.create_buffer(&descriptor));
            let buffer = made.map_err(|error| context.failed(format!("sending weights: {error}")))?;
            self.0.push(Stage { buffer, mapping: None });
        }
        for range in packing.pieces(STAGE) {
            self.0.rotate_left(1);
            let Stage { buffer, mapping } = &mut self.0[0];
            if let Some(mapping) = mapping.take() {
                mapping.wait(context)?;
            }
            let bytes = range.len().next_multiple_of(WORD) as u64;
            let mut view = buffer.get_mapped_range_mut(..bytes).map_err(|error| context.failed(error.to_string()))?;
            fill(packing, range.start, view.slice(..range.len()));
            drop(view);
            buffer.unmap();
            let mut encoder = context.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(buffer, 0, to, range.start as u64, bytes);
            let sent = context.queue.submit([encoder.finish()]);
            *mapping = Some(Mapping::of(buffer, wgpu::MapMode::Write, sent));
            context.check()?;
        }
        Ok(())
    }
}

/// A part of the memory of a buffer that one thread writes.
struct Part<'a>(wgpu::WriteOnly<'a, [u8]>);

// SAFETY: it is as a `&mut [u8]`, which is `Send`; what wgpu says of that leaves slices out.
unsafe impl Send for Part<'_> {}

/// Writes what begins at this byte, by several threads.
fn fill(packing: &Packing, start: usize, mut to: wgpu::WriteOnly<[u8]>) {
    let share = packing.share(to.len());
    thread::scope(|scope| {
        let mut at = start;
        while !to.is_empty() {
            let part = Part(to.split_off(..share.min(to.len())).expect("within it"));
            let first = at;
            at += part.0.len();
            scope.spawn(move || part.fill(packing, first));
        }
    });
}

impl Part<'_> {
    fn fill(mut self, packing: &Packing, start: usize) {
        let bytes = self.0.len();
        let near = &mut vec![0; packing.whole_rows(NEAR).min(bytes)];
        for at in (0..bytes).step_by(near.len()) {
            let next = near.len().min(bytes - at);
            packing.fill(start + at, &mut near[..next]);
            self.0.slice(at..at + next).copy_from_slice(&near[..next]);
        }
    }
}

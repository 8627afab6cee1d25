//! How long launches take by the clock of the adapter.

use crate::context::Context;
use device::Result;
use std::ops::Range;
use std::sync::Arc;

/// Launches that are timed in one command buffer at most: a set of queries has room for two times of each.
pub(crate) const LAUNCHES: usize = wgpu::QUERY_SET_MAX_QUERIES as usize / 2;

/// Whether the adapter has a clock.
pub(crate) fn are_there(context: &Context) -> bool {
    context.device.features().contains(wgpu::Features::TIMESTAMP_QUERY)
}

/// Nanoseconds of so many launches, at most [`LAUNCHES`]. `encode` adds a launch to a pass of its own.
pub(crate) fn of_launches(
    context: &Arc<Context>,
    launches: Range<usize>,
    mut encode: impl FnMut(&mut wgpu::ComputePass<'_>, usize) -> Result<()>,
) -> Result<Vec<u64>> {
    let device = &context.device;
    let count = 2 * launches.len() as u32;
    let ty = wgpu::QueryType::Timestamp;
    let queries = device.create_query_set(&wgpu::QuerySetDescriptor { label: None, ty, count });
    let bytes = u64::from(count) * 8;
    let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
    let descriptor = wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
    let resolved = device.create_buffer(&descriptor);
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    for (number, launch) in (0..).zip(launches) {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: &queries,
                beginning_of_pass_write_index: Some(2 * number),
                end_of_pass_write_index: Some(2 * number + 1),
            }),
        });
        encode(&mut pass, launch)?;
    }
    encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
    context.queue.submit([encoder.finish()]);
    let raw = context.ask(&resolved, 0, bytes as usize).take()?;
    let times: Vec<u64> = raw.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect();
    let period = f64::from(context.queue.get_timestamp_period());
    let each = |pair: &[u64]| (pair[1].saturating_sub(pair[0]) as f64 * period) as u64;
    Ok(times.chunks_exact(2).map(each).collect())
}

//! How fast an adapter reads its memory.

use crate::context::Context;
use device::Result;
use std::time::Instant;

/// Bytes that are read, if a kernel reaches so many.
const BYTES: u64 = 256 << 20;

/// Times that they are read in one command buffer, and how often that is tried.
const ROUNDS: (u32, u32) = (8, 3);

/// Reads everything, neighbours by neighbours, and stores what keeps the loads from being left out.
const KERNEL: &str = "
@group(0) @binding(0) var<storage, read_write> all: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;
@compute @workgroup_size(256)
fn read(@builtin(global_invocation_id) thread: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let threads = groups.x * 256u;
  var sum = vec4<u32>(0u);
  for (var at = thread.x; at < arrayLength(&all); at += threads) { sum += all[at]; }
  sums[thread.x] = sum.x + sum.y + sum.z + sum.w;
}
";

/// Workgroups of the kernel.
const GROUPS: u32 = 1024;

/// Bytes a second.
pub(crate) fn measure(context: &Context) -> Result<f64> {
    let bytes = BYTES.min(context.binding_bytes) / 16 * 16;
    let device = &context.device;
    let run = context.scoped(|| {
        let buffer = |size| {
            let usage = wgpu::BufferUsages::STORAGE;
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let (all, sums) = (buffer(bytes), buffer(u64::from(GROUPS) * 256 * 4));
        let source = wgpu::ShaderSource::Wgsl(KERNEL.into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("read"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let entries = [all.as_entire_binding(), sums.as_entire_binding()];
        let entries: Vec<_> =
            (0..).zip(entries).map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource }).collect();
        let layout = &pipeline.get_bind_group_layout(0);
        let bound = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries });
        (pipeline, bound)
    });
    let (pipeline, bound) = run.map_err(|error| context.failed(error.to_string()))?;
    let (rounds, tries) = ROUNDS;
    let mut best = f64::INFINITY;
    // The first one makes the pages, and is not counted.
    for number in 0..=tries {
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bound, &[]);
        for _ in 0..rounds {
            pass.dispatch_workgroups(GROUPS, 1, 1);
        }
        drop(pass);
        let start = Instant::now();
        context.queue.submit([encoder.finish()]);
        context.wait()?;
        if number > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(bytes as f64 * f64::from(rounds) / best)
}

//! A step on the adapter: a command buffer with a launch after another, or several where the adapter waits for them.
//!
//! Everything that changes from step to step lies in memory, so what is bound to a launch is bound once. Between launches the
//! implementation puts barriers, as most of them write to the arena that others read.

use crate::context::{Context, unusable};
use crate::memory::AdapterHeap;
use crate::pipelines::Pipelines;
use crate::timestamps;
use compiler::program::{BufferKind, Launch, Program};
use compiler::render::wgsl::ROW;
use device::{Clock, CompileReport, Error, Executable, Memory, Place, Profile, Result, validate};
use std::sync::Arc;
use std::time::Instant;

/// Bytes at whose multiples what is bound ends.
const VECTOR: u64 = 16;

/// Launches of the first part of a step that the adapter waits for.
const FIRST: usize = 32;

/// A program on the adapter.
pub struct Steps {
    context: Arc<Context>,
    heap: Arc<AdapterHeap>,
    program: Arc<Program>,
    pipelines: Pipelines,
    /// The memory that it was loaded for.
    memory: u64,
    places: Vec<Place>,
    /// The moves of the memory, and the scratch, when launches were bound.
    bound_at: Option<(u64, u64)>,
    /// What is bound to each launch.
    bound: Vec<wgpu::BindGroup>,
    inputs: Vec<Input>,
    /// Values of the variables.
    vars: Option<wgpu::Buffer>,
}

/// A copy of an input on the host, and where it goes.
struct Input {
    buffer: wgpu::Buffer,
    offset: u64,
    host: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer leads to an input of the memory that a step borrows.
unsafe impl Send for Input {}

impl Steps {
    /// Binds a program whose pipelines are made to a memory of the same adapter.
    pub(crate) fn new(
        context: Arc<Context>,
        heap: Arc<AdapterHeap>,
        program: Arc<Program>,
        pipelines: Pipelines,
        places: Vec<Place>,
        memory: u64,
    ) -> Result<Steps> {
        let vars = (!program.vars.is_empty()).then(|| {
            context.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: (program.vars.len() as u64 * 4).next_multiple_of(VECTOR),
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        });
        context.check()?;
        let (bound, inputs) = (vec![], vec![]);
        Ok(Steps { context, heap, program, pipelines, memory, places, bound_at: None, bound, inputs, vars })
    }

    /// Checks the arguments of a step, binds launches if something has moved, and sends the inputs.
    fn prepare(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        if memory.id() != self.memory {
            return Err(Error::OtherMemory { program: self.program.name.clone() });
        }
        validate::vars(&self.program, vars)?;
        let scratch = self.scratch(memory, vars)?;
        if self.bound_at != Some((memory.moves(), scratch as u64)) {
            self.bind(memory, scratch)?;
            self.bound_at = Some((memory.moves(), scratch as u64));
        }
        for input in &self.inputs {
            // SAFETY: the copy of a port is as long as its block, rounded up to words, and is lent to this step.
            let bytes = unsafe { std::slice::from_raw_parts(input.host, input.bytes.next_multiple_of(4)) };
            self.context.queue.write_buffer(&input.buffer, input.offset, bytes);
        }
        if let Some(buffer) = &self.vars {
            let mut bytes: Vec<u8> = vars.iter().flat_map(|&value| (value as i32).to_le_bytes()).collect();
            bytes.resize(bytes.len().next_multiple_of(VECTOR as usize), 0);
            self.context.queue.write_buffer(buffer, 0, &bytes);
        }
        Ok(())
    }

    /// Scratch of all blocks of the launch that needs most.
    fn scratch(&self, memory: &mut Memory, vars: &[i64]) -> Result<*mut u8> {
        let most = validate::scratch(&self.program, vars)?;
        if most == 0 {
            return Ok(std::ptr::null_mut());
        }
        let place = memory.bind_scratch(1, most)?;
        Ok(memory.address(place[0]))
    }

    fn bind(&mut self, memory: &Memory, scratch: *mut u8) -> Result<()> {
        let lost = || self.context.failed("a buffer is not there");
        let mut places = vec![];
        for (buffer, &place) in self.program.buffers.iter().zip(&self.places) {
            let (far, offset) = self.heap.find(memory.address(place)).ok_or_else(lost)?;
            let rest = far.size() - offset;
            places.push((far, offset, (buffer.bytes as u64).next_multiple_of(VECTOR).max(VECTOR).min(rest)));
        }
        let scratch = if scratch.is_null() { None } else { Some(self.heap.find(scratch).ok_or_else(lost)?) };
        let bind = |launch: &Launch| {
            let pipeline = &self.pipelines.kernels[launch.kernel];
            let part = |buffer, offset, size: Option<u64>| {
                let size = size.and_then(std::num::NonZeroU64::new);
                wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size })
            };
            let slot = |(slot, &buffer): (usize, &usize)| {
                let (far, offset, bytes) = &places[buffer];
                wgpu::BindGroupEntry { binding: slot as u32, resource: part(far, *offset, Some(*bytes)) }
            };
            let mut entries: Vec<_> = launch.args.iter().enumerate().map(slot).collect();
            if let Some(vars) = &self.vars {
                let binding = pipeline.bindings.vars() as u32;
                entries.push(wgpu::BindGroupEntry { binding, resource: part(vars, 0, None) });
            }
            if let (true, Some((far, offset))) = (pipeline.scratch, &scratch) {
                let binding = pipeline.bindings.scratch() as u32;
                entries.push(wgpu::BindGroupEntry { binding, resource: part(far, *offset, None) });
            }
            let layout = &pipeline.layout;
            self.context.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
        };
        let bound = self.context.scoped(|| self.program.each_launch().map(bind).collect());
        self.bound = bound.map_err(|error| self.context.failed(error.to_string()))?;
        self.inputs = inputs(&self.program, &self.places, memory, &self.heap);
        Ok(())
    }

    /// Adds a launch to a pass.
    fn encode(&self, pass: &mut wgpu::ComputePass<'_>, number: usize, launch: &Launch, vars: &[i64]) -> Result<()> {
        let tasks = validate::tasks(&self.program, launch, vars)?;
        if tasks > 0 {
            pass.set_pipeline(&self.pipelines.kernels[launch.kernel].pipeline);
            pass.set_bind_group(0, &self.bound[number], &[]);
            pass.dispatch_workgroups(tasks.min(ROW) as u32, (tasks as u64).div_ceil(ROW as u64) as u32, 1);
        }
        Ok(())
    }

    /// Sends a step: as a whole while the adapter has another one to do, and otherwise in parts, each twice as long as the one
    /// before, so that it begins with the first launches while the rest is encoded.
    fn send(&self, vars: &[i64]) -> Result<()> {
        let mut launches = self.program.each_launch().enumerate().peekable();
        let mut most = if self.context.is_idle() { FIRST } else { usize::MAX };
        while launches.peek().is_some() {
            let mut encoder = self.context.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for (number, launch) in launches.by_ref().take(most) {
                self.encode(&mut pass, number, launch, vars)?;
            }
            drop(pass);
            self.context.queue.submit([encoder.finish()]);
            most = most.saturating_mul(2);
        }
        self.context.check()
    }

    /// Nanoseconds of each launch of a step, by the clock of the adapter.
    fn times(&self, vars: &[i64]) -> Result<Vec<u64>> {
        let all: Vec<&Launch> = self.program.each_launch().collect();
        let mut times = vec![];
        while times.len() < all.len() {
            let range = times.len()..(times.len() + timestamps::LAUNCHES).min(all.len());
            let encode = |pass: &mut wgpu::ComputePass<'_>, launch: usize| self.encode(pass, launch, all[launch], vars);
            times.extend(timestamps::of_launches(&self.context, range, encode)?);
        }
        Ok(times)
    }
}

/// The inputs of a program, as copies to make.
fn inputs(program: &Program, places: &[Place], memory: &Memory, heap: &AdapterHeap) -> Vec<Input> {
    let input = |(buffer, place): (&compiler::program::Buffer, &Place)| {
        let block = memory.input_block(*place).filter(|_| matches!(buffer.kind, BufferKind::Input(_)))?;
        let (far, offset) = heap.find(block.address())?;
        Some(Input { buffer: far, offset, host: block.host()?, bytes: block.bytes() })
    };
    program.buffers.iter().zip(places).filter_map(input).collect()
}

impl Executable for Steps {
    fn program(&self) -> &Program {
        &self.program
    }

    fn report(&self) -> &CompileReport {
        &self.pipelines.report
    }

    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        self.prepare(memory, vars)?;
        // What comes out is waited for where it is read.
        self.send(vars)
    }

    /// Takes the time of every launch by the clock of the adapter, each in a pass of its own. Then the step itself runs, whose
    /// time is that of the host's clock.
    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64], _: Clock) -> Result<Profile> {
        if !timestamps::are_there(&self.context) {
            return Err(unusable(format!("{} has no clock for launches, so there is no profile", self.context.title)));
        }
        self.prepare(memory, vars)?;
        self.send(vars)?;
        let times = self.times(vars)?;
        self.prepare(memory, vars)?;
        self.context.wait()?;
        let start = Instant::now();
        self.send(vars)?;
        self.context.wait()?;
        let wall_ns = start.elapsed().as_nanos() as u64;
        Ok(Profile::of_times(&self.program, vars, &times, wall_ns))
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        // Nothing that the adapter still runs loses its buffers.
        let _ = self.context.wait();
    }
}

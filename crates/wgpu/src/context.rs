//! An adapter in use, and what went wrong there.

use crate::adapter::Adapter;
use device::heap::Requested;
use device::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// A problem with the adapter that can be known before it is used.
pub(crate) fn unusable(problem: String) -> Error {
    Error::Unusable(problem)
}

/// Bytes at whose multiples copies begin and end.
pub(crate) const WORD: usize = 4;

/// The first thing that went wrong outside of a scope.
type Failure = Arc<Mutex<Option<String>>>;

/// An adapter in use.
pub(crate) struct Context {
    /// `wgpu:0`.
    pub(crate) name: String,
    /// With what it is.
    pub(crate) title: String,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    /// Bytes of a buffer that a kernel reaches.
    pub(crate) binding_bytes: u64,
    failure: Failure,
}

impl Context {
    pub(crate) fn new(adapter: &Adapter) -> Result<Context> {
        adapter.check()?;
        let descriptor = wgpu::DeviceDescriptor {
            required_features: adapter.features(),
            required_limits: adapter.adapter.limits(),
            memory_hints: wgpu::MemoryHints::Performance,
            experimental_features: adapter.experimental_features(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| unusable(format!("{adapter} cannot be opened: {error}")))?;
        let failure = Failure::default();
        let (of_errors, of_loss) = (failure.clone(), failure.clone());
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&of_errors, error.to_string())));
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                note(&of_loss, format!("the adapter was lost: {message}"));
            }
        });
        Ok(Context {
            name: format!("wgpu:{}", adapter.ordinal),
            title: format!("wgpu:{} ({})", adapter.ordinal, adapter.name()),
            device,
            queue,
            binding_bytes: adapter.binding_bytes(),
            failure,
        })
    }

    /// An error of the adapter.
    pub(crate) fn failed(&self, problem: impl Into<String>) -> Error {
        Error::Failed { device: self.title.clone(), problem: one_line(&problem.into()) }
    }

    /// What went wrong so far, if something did: from then on nothing is right.
    pub(crate) fn check(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map_or(Ok(()), |problem| Err(self.failed(problem.clone())))
    }

    /// Waits for all that was sent.
    pub(crate) fn wait(&self) -> Result<()> {
        self.poll(wgpu::PollType::wait_indefinitely())
    }

    /// Whether all that was sent is over, as far as is known.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.device.poll(wgpu::PollType::Poll), Ok(wgpu::PollStatus::QueueEmpty))
    }

    fn poll(&self, until: wgpu::PollType) -> Result<()> {
        let waited = self.device.poll(until);
        self.check()?;
        waited.map(drop).map_err(|error| self.failed(error.to_string()))
    }

    /// Asks for bytes of a buffer from a whole word on, as they are when all that was sent is over.
    pub(crate) fn ask(self: &Arc<Self>, buffer: &wgpu::Buffer, at: usize, bytes: usize) -> Coming {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let size = bytes.next_multiple_of(WORD) as u64;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let near = self.device.create_buffer(&descriptor);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, at as u64, &near, 0, size);
        let sent = self.queue.submit([encoder.finish()]);
        let mapping = Mapping::of(&near, wgpu::MapMode::Read, sent);
        Coming { context: self.clone(), near, bytes, mapping }
    }

    /// Calls `make`, whose errors are told apart from those of what was sent before.
    pub(crate) fn scoped<T>(&self, make: impl FnOnce() -> T) -> std::result::Result<T, wgpu::Error> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = make();
        let errors = [validation.pop(), internal.pop()].map(pollster::block_on);
        let memory = pollster::block_on(memory.pop());
        errors.into_iter().chain([memory]).flatten().next().map_or(Ok(made), Err)
    }
}

/// A buffer that becomes reachable from the host.
pub(crate) struct Mapping {
    /// What uses it until then.
    sent: wgpu::SubmissionIndex,
    mapped: mpsc::Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
}

impl Mapping {
    /// Asks for a buffer that this last uses.
    pub(crate) fn of(buffer: &wgpu::Buffer, mode: wgpu::MapMode, sent: wgpu::SubmissionIndex) -> Mapping {
        let (send, mapped) = mpsc::channel();
        buffer.map_async(mode, .., move |result| drop(send.send(result)));
        Mapping { sent, mapped }
    }

    /// Waits for it, and for nothing that was sent after what uses it.
    pub(crate) fn wait(self, context: &Context) -> Result<()> {
        context.poll(wgpu::PollType::Wait { submission_index: Some(self.sent), timeout: None })?;
        match self.mapped.recv() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(context.failed(error.to_string())),
            Err(_) => Err(context.failed("a buffer did not become reachable")),
        }
    }
}

/// Bytes on their way to the host.
pub(crate) struct Coming {
    context: Arc<Context>,
    near: wgpu::Buffer,
    bytes: usize,
    mapping: Mapping,
}

impl Coming {
    /// Waits for them, and for nothing that was sent after they were asked for.
    pub(crate) fn take(self) -> Result<Vec<u8>> {
        let context = &self.context;
        self.mapping.wait(context)?;
        let view = self.near.get_mapped_range(..).map_err(|error| context.failed(error.to_string()))?;
        Ok(view[..self.bytes].to_vec())
    }
}

impl Requested for Coming {
    fn wait(self: Box<Self>) -> Result<Vec<u8>> {
        self.take()
    }
}

fn note(failure: &Failure, problem: String) {
    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
}

/// The lines of a message as one.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

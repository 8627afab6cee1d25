//! Adapters, and what kernels may use on them.

use crate::budget::{self, Budget};
use compiler::gpu::GpuPlan;
use compiler::program::Program;
use compiler::render::wgsl::Bindings;
use compiler::{Numerics, Options};
use device::{Error, Result};
use std::fmt;

/// Threads of a block at most, where an adapter runs as many whatever a kernel keeps in registers; and where it may run fewer
/// of a kernel that keeps many, as Metal does.
const THREADS: u32 = 1024;
const SURE_THREADS: u32 = 256;

/// Bytes of memory of a workgroup that kernels use at most; more where matrices are multiplied.
const SHARED: u32 = 32 << 10;
const SHARED_OF_MATRICES: u32 = 48 << 10;

/// Rows, columns and elements of a sum of the matrices that kernels multiply.
const SIDE: u32 = 16;

/// Lanes of a subgroup at most that kernels exchange values across.
const LANES: u32 = 32;

/// Bytes at whose multiples buffers end: kernels read vectors of four words.
const VECTOR: usize = 16;

/// What kernels that multiply matrices need of an adapter.
const MATRICES: wgpu::Features = wgpu::Features::SHADER_F16.union(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);

/// What an adapter is, as far as it says whose memory it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A card with memory of its own.
    Discrete,
    /// One of Apple's, beside their processors and in the same memory.
    Apple,
    /// Another one in the memory of the processor.
    Integrated,
    /// A program of the processor that behaves like a GPU.
    Software,
    /// What does not say.
    Unknown,
}

/// An adapter, by its number among those that there are.
#[derive(Clone)]
pub struct Adapter {
    /// Its number.
    pub ordinal: usize,
    pub(crate) adapter: wgpu::Adapter,
    info: wgpu::AdapterInfo,
}

/// Bytes of a buffer for so many: kernels read a little beyond them.
pub(crate) fn buffer_bytes(bytes: usize) -> u64 {
    (bytes + Program::WEIGHT_SLACK).next_multiple_of(VECTOR) as u64
}

/// All adapters of the system; without a driver there are none.
pub fn adapters() -> Vec<Adapter> {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let descriptor = wgpu::InstanceDescriptor {
        backends,
        // Neither validation nor names: they cost time in every call.
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    };
    let instance = wgpu::Instance::new(descriptor);
    let all = pollster::block_on(instance.enumerate_adapters(backends));
    let of = |(ordinal, adapter): (usize, wgpu::Adapter)| Adapter { ordinal, info: adapter.get_info(), adapter };
    all.into_iter().enumerate().map(of).collect()
}

impl Adapter {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        match self.info.device_type {
            wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
            wgpu::DeviceType::IntegratedGpu if self.is_of_apple() => Kind::Apple,
            wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
            wgpu::DeviceType::Cpu => Kind::Software,
            wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => Kind::Unknown,
        }
    }

    /// Metal has no number of the maker.
    fn is_of_apple(&self) -> bool {
        self.info.backend == wgpu::Backend::Metal && self.info.name.starts_with("Apple")
    }

    /// Its memory, if its driver says.
    pub fn budget(&self) -> Option<Budget> {
        budget::of(&self.adapter)
    }

    /// Bytes of its memory that are free, if its driver says, or the system for what has the memory of the processor.
    pub fn free_memory(&self) -> Option<u64> {
        let Budget { total, free } = self.budget()?;
        let is_of_host = matches!(self.kind(), Kind::Apple | Kind::Integrated | Kind::Software);
        let of_host = is_of_host.then(device::available_memory).flatten();
        let least = free.into_iter().chain(of_host).min()?;
        Some(least.min(total))
    }

    /// Lanes whose registers reach each other: of a subgroup, if all of them are equally long, else a thread alone.
    pub fn lanes(&self) -> u32 {
        let (least, most) = (self.info.subgroup_min_size, self.info.subgroup_max_size);
        let known = least == most && most.is_power_of_two() && most <= LANES;
        if known && self.adapter.features().contains(wgpu::Features::SUBGROUP) { most } else { 1 }
    }

    /// What kernels use of it.
    pub(crate) fn features(&self) -> wgpu::Features {
        let of_matrices = if self.plan().cooperative { MATRICES } else { wgpu::Features::empty() };
        self.adapter.features() & (wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY) | of_matrices
    }

    /// Leave to use what is not finished of wgpu, where kernels multiply matrices.
    pub(crate) fn experimental_features(&self) -> wgpu::ExperimentalFeatures {
        match self.features().contains(MATRICES) {
            // SAFETY: what is not finished there is how kernels are checked and translated. The compiler proves that theirs load
            // and store within their arrays, and that a whole warp comes to them; golden logits are right by Vulkan.
            true => unsafe { wgpu::ExperimentalFeatures::enabled() },
            false => wgpu::ExperimentalFeatures::disabled(),
        }
    }

    /// Whether its subgroups multiply matrices of f16 numbers that kernels are written for.
    fn multiplies(&self) -> bool {
        let fits = |shape: &wgpu::CooperativeMatrixProperties| {
            [shape.m_size, shape.n_size, shape.k_size] == [SIDE; 3]
                && shape.ab_type == wgpu::CooperativeScalarType::F16
                && shape.cr_type == wgpu::CooperativeScalarType::F32
        };
        self.adapter.features().contains(MATRICES) && self.adapter.cooperative_matrix_properties().iter().any(fits)
    }

    /// The shapes of matrices that its subgroups multiply, in words.
    fn matrices(&self) -> String {
        let mut all: Vec<String> = vec![];
        for shape in self.adapter.cooperative_matrix_properties() {
            let (of, sums) = (format!("{:?}", shape.ab_type), format!("{:?}", shape.cr_type));
            let text = format!("{}x{}x{} {of} to {sums}", shape.m_size, shape.n_size, shape.k_size).to_lowercase();
            if !all.contains(&text) {
                all.push(text);
            }
        }
        if all.is_empty() { "no matrices".into() } else { format!("matrices {}", all.join(", ")) }
    }

    /// Bytes of a buffer that a kernel reaches.
    pub fn binding_bytes(&self) -> u64 {
        let limits = self.adapter.limits();
        // Addresses of bytes have 31 bits.
        limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(i32::MAX as u64)
    }

    /// Bytes of a weight or of a state that fit into such a buffer.
    pub fn largest_block(&self) -> u64 {
        let most = self.binding_bytes() / VECTOR as u64 * VECTOR as u64;
        most.saturating_sub(Program::WEIGHT_SLACK as u64)
    }

    /// How kernels use it.
    pub fn plan(&self) -> GpuPlan {
        let limits = self.adapter.limits();
        let most = if self.info.backend == wgpu::Backend::Metal { SURE_THREADS } else { THREADS };
        let threads = limits.max_compute_invocations_per_workgroup.min(most);
        let multiplies = self.multiplies();
        let shared = if multiplies { SHARED_OF_MATRICES } else { SHARED };
        let plan = GpuPlan {
            shared: limits.max_compute_workgroup_storage_size.min(shared) as usize,
            // Beside slots there are scratch and variables.
            slots: limits.max_storage_buffers_per_shader_stage as usize - Bindings::OTHERS,
            alignment: limits.min_storage_buffer_offset_alignment.max(64) as usize,
            ..GpuPlan::portable(self.lanes().into(), threads.into())
        };
        if multiplies { plan.with_cooperative_matrices() } else { plan }
    }

    /// What the compiler of kernels does for it by default.
    pub fn options(&self, numerics: Numerics) -> Options {
        Options::wgsl_on(numerics, self.plan())
    }

    /// Whether kernels can be made for it.
    pub(crate) fn check(&self) -> Result<()> {
        let limits = self.adapter.limits();
        let least = [
            ("threads of a workgroup", limits.max_compute_invocations_per_workgroup, 32),
            ("storage buffers of a kernel", limits.max_storage_buffers_per_shader_stage, 8),
            ("bytes of a workgroup", limits.max_compute_workgroup_storage_size, 16 << 10),
        ];
        match least.into_iter().find(|(_, has, needs)| has < needs) {
            Some((what, has, needs)) => {
                Err(Error::Unusable(format!("{self} has {has} {what}, and kernels need {needs}; use --device cpu")))
            }
            None => Ok(()),
        }
    }

    /// What it is and can do, in words.
    pub fn facts(&self) -> String {
        let limits = self.adapter.limits();
        let lanes = match self.lanes() {
            1 => "no subgroups of one size".into(),
            lanes => format!("subgroups of {lanes}"),
        };
        let f16 = if self.adapter.features().contains(wgpu::Features::SHADER_F16) { "f16" } else { "no f16" };
        format!(
            "{}, {}{lanes}, {f16}, {}, {} KiB a workgroup, {} storage buffers, bindings of {} MiB",
            self.backend(),
            if self.kind() == Kind::Software { "software, " } else { "" },
            self.matrices(),
            limits.max_compute_workgroup_storage_size >> 10,
            limits.max_storage_buffers_per_shader_stage,
            self.binding_bytes() >> 20,
        )
    }

    /// What it is reached through, and its driver.
    fn backend(&self) -> String {
        let (driver, version) = (&self.info.driver, &self.info.driver_info);
        let driver = [driver, version].map(|s| s.trim()).into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>();
        match driver.is_empty() {
            true => self.info.backend.to_string(),
            false => format!("{} ({})", self.info.backend, driver.join(" ")),
        }
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wgpu:{}, {}, {}", self.ordinal, self.info.name, self.backend())
    }
}

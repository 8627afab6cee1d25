//! What memory an adapter has.
//!
//! WebGPU has no words for it, so each interface is asked in its own.

/// Memory of an adapter that buffers of kernels lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that this process may still take, if the driver says.
    pub free: Option<u64>,
}

/// The interfaces of this system.
const ASK: &[fn(&wgpu::Adapter) -> Option<Budget>] = &[
    #[cfg(not(target_vendor = "apple"))]
    vulkan,
    #[cfg(windows)]
    dx12,
    #[cfg(target_vendor = "apple")]
    metal,
];

/// The memory of an adapter, if its interface says.
pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<Budget> {
    ASK.iter().find_map(|ask| ask(adapter))
}

/// The largest heap of the device: a buffer lies in one. What is free of it is an extension's to say.
#[cfg(not(target_vendor = "apple"))]
fn vulkan(adapter: &wgpu::Adapter) -> Option<Budget> {
    use ash::{ext::memory_budget, vk};
    // SAFETY: it is only asked, while it is held.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = adapter.shared_instance();
    if instance.instance_api_version() < vk::API_VERSION_1_1 {
        return None;
    }
    let told = adapter.physical_device_capabilities().supports_extension(memory_budget::NAME);
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut asked = vk::PhysicalDeviceMemoryProperties2::default();
    if told {
        asked = asked.push_next(&mut budget);
    }
    let device = adapter.raw_physical_device();
    // SAFETY: the device is one of this instance, which is of a version that has the function, and it knows what is asked.
    unsafe { instance.raw_instance().get_physical_device_memory_properties2(device, &mut asked) };
    let memory = asked.memory_properties;
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize).enumerate();
    let of_device = heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let (at, heap) = of_device.max_by_key(|(_, heap)| heap.size)?;
    let free = budget.heap_budget[at].saturating_sub(budget.heap_usage[at]);
    Some(Budget { total: heap.size, free: told.then_some(free) })
}

/// What the system lets this process have of the adapter's own memory.
#[cfg(windows)]
fn dx12(adapter: &wgpu::Adapter) -> Option<Budget> {
    // SAFETY: it is only asked, while it is held.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Dx12>() }?;
    // The first group of segments is that of the adapter.
    let told = adapter.raw_adapter().query_video_memory_info(Default::default()).ok()?;
    Some(Budget { total: told.Budget, free: Some(told.Budget.saturating_sub(told.CurrentUsage)) })
}

/// What the system recommends to stay below.
#[cfg(target_vendor = "apple")]
fn metal(adapter: &wgpu::Adapter) -> Option<Budget> {
    use objc2_metal::MTLDevice;
    // SAFETY: it is only asked, while it is held.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Metal>() }?;
    let device = adapter.raw_device();
    let total = device.recommendedMaxWorkingSetSize();
    Some(Budget { total, free: Some(total.saturating_sub(device.currentAllocatedSize() as u64)) })
}

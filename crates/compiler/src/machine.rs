//! What kernels are made for.

use crate::cpu::Cpu;
use crate::cpu::plan::Plan;
use crate::gpu::Gpu;
use crate::target::Target;

/// What kernels are made for, and how it is used.
#[derive(Clone, Debug)]
pub enum Machine {
    /// The cores of a CPU.
    Cpu(Cpu),
    /// Blocks of threads.
    Gpu(Gpu),
}

impl Machine {
    /// Widths and unrolling of a CPU.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Machine::Cpu(cpu) => Some(&cpu.plan),
            Machine::Gpu(_) => None,
        }
    }

    /// As what the rest of the compiler knows it.
    pub(crate) fn target(&self) -> &dyn Target {
        match self {
            Machine::Cpu(cpu) => cpu,
            Machine::Gpu(gpu) => gpu,
        }
    }
}

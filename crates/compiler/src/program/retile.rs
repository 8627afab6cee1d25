//! Kernels of a program for a CPU by other plans: what a search over plans tries.

use crate::compile::Compiled;
use crate::cpu::Cpu;
use crate::cpu::cut::Cuts;
use crate::cpu::tuned::{KernelKey, Setting};
use crate::program::Kernel;
use crate::program::assemble::kernel_of;
use crate::target::Target;
use std::sync::Arc;

impl Compiled {
    /// What a kernel for a CPU is; `None` for one that came with its own source.
    pub fn key(&self, kernel: usize) -> Option<KernelKey> {
        Some(KernelKey::of(&self.graph, self.nests.get(kernel)?.as_ref()?, self.machine.plan()?))
    }

    /// A kernel by another setting; `None` for one that came with its own source, or that cannot be written.
    pub fn kernel_by(&mut self, kernel: usize, setting: &Setting) -> Option<Kernel> {
        let nest = self.nests.get(kernel)?.as_ref()?;
        let cpu = Cpu { plan: setting.on(self.machine.plan()?), tuned: Arc::default(), cuts: Cuts::Sized };
        let (body, _) = cpu.tile(&mut self.graph, nest, 1);
        let launches = self.program.stages.iter().flat_map(|stage| &stage.launches);
        let slots = launches.filter(|launch| launch.kernel == kernel).map(|launch| launch.args.len()).next()?;
        kernel_of(&mut self.graph, &cpu, kernel, &[nest], &body, slots, &self.program.vars).ok()
    }
}

//! Kernels of a program by other plans: what a search over plans tries.

use crate::compile::Compiled;
use crate::program::assemble::{Source, kernel_of, lowered_by, nests, shared_slots, tasks};
use crate::program::{Count, Kernel, Program};
use crate::tuned::{KernelKey, Setting};

/// A kernel by another plan, for the launches of one that computes the same.
pub struct Retiled {
    /// Its number in the program.
    number: usize,
    kernel: Kernel,
    tasks: Count,
    /// For each of its arguments, which one of those of the other kernel it is.
    args: Vec<usize>,
}

impl Retiled {
    /// Takes the place of the other one in its program.
    pub fn put_into(self, program: &mut Program) {
        let launches = program.stages.iter_mut().flat_map(|stage| &mut stage.launches);
        for launch in launches.filter(|launch| launch.kernel == self.number) {
            launch.args = self.args.iter().map(|&arg| launch.args[arg]).collect();
            launch.tasks = self.tasks.clone();
        }
        program.kernels[self.number] = self.kernel;
    }

    /// What it does, for those who compare.
    pub fn source(&self) -> (&str, &Count) {
        (&self.kernel.source, &self.tasks)
    }
}

impl Compiled {
    /// What a kernel is; `None` for one that came with its own source.
    pub fn key(&self, kernel: usize) -> Option<KernelKey> {
        let nests: Vec<_> = self.nests(kernel).collect();
        (!nests.is_empty()).then(|| KernelKey::of(&self.graph, &nests, &self.machine))
    }

    /// A kernel by another setting; `None` for one that came with its own source, or that cannot be written.
    pub fn kernel_by(&mut self, kernel: usize, setting: &Setting) -> Option<Retiled> {
        let Compiled { program, graph: g, sources, machine, .. } = self;
        let Source { groups, lowered: usual } = &sources.kernels[kernel];
        if groups.is_empty() {
            return None;
        }
        let machine = setting.on(machine);
        let target = machine.target();
        let by = |&group: &usize| lowered_by(g, &sources.schedule, group, target, &sources.weights);
        let lowered: Vec<_> = groups.iter().map(by).collect();
        let [old, new] = [usual, &lowered].map(|lowered| shared_slots(lowered).0);
        let args = new.iter().map(|tensor| old.iter().position(|other| other == tensor)).collect::<Option<_>>()?;
        let tasks = tasks(g, &lowered, &program.vars);
        let threads = target.threads(g, &nests(&lowered));
        let (made, _) = kernel_of(g, target, kernel, &lowered, threads, &program.vars).ok()?;
        Some(Retiled { number: kernel, kernel: made, tasks, args })
    }
}

//! How many bytes a memory takes for what, known before anything is loaded.

use std::collections::BTreeMap;
use std::fmt;

use compiler::program::{BufferKind, Program};

use super::key::Key;
use crate::store::digest;

/// Bytes by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Tensors of the model file; mapped, not allocated, unless they were copied or repacked.
    pub weights: usize,
    /// What lives from step to step, the cache above all.
    pub states: usize,
    /// Written by the host.
    pub inputs: usize,
    /// Read by the host.
    pub outputs: usize,
    /// Tables computed at compile time.
    pub consts: usize,
    /// Scratch between kernels.
    pub arena: usize,
    /// Scratch of the workers.
    pub scratch: usize,
}

impl MemoryPlan {
    /// What these programs will take together before anything is loaded, on so many workers in steps of few tokens, or of
    /// many ([`Program::many_tokens`]). Slack and rounding to pages are left out.
    pub fn of(programs: &[&Program], workers: impl Fn(bool) -> usize) -> MemoryPlan {
        let mut weights: BTreeMap<&str, usize> = BTreeMap::new();
        let mut regions: BTreeMap<Key, usize> = BTreeMap::new();
        let mut need = |key: Key, bytes: usize| {
            let held = regions.entry(key).or_default();
            *held = bytes.max(*held);
        };
        for program in programs {
            need(Key::Arena, program.arena_bytes);
            let scratch = program.kernels.iter().map(|k| k.geometry.scratch_bytes).max();
            for worker in 0..workers(program.many_tokens) {
                need(Key::Scratch(worker), scratch.unwrap_or(0));
            }
            for buffer in &program.buffers {
                match &buffer.kind {
                    BufferKind::Weight(name) | BufferKind::Planes { name, .. } => {
                        let held = weights.entry(name).or_default();
                        *held = buffer.bytes.max(*held);
                    }
                    BufferKind::Input(name) => need(Key::Input(name.clone()), buffer.bytes),
                    BufferKind::Output(name) => need(Key::Output(name.clone()), buffer.bytes),
                    BufferKind::State(name) => need(Key::State(name.clone()), buffer.bytes),
                    BufferKind::Const(bytes) => {
                        need(Key::Const(digest::of_bytes(bytes)), bytes.len());
                    }
                    BufferKind::Arena(_) => {}
                }
            }
        }
        let mut plan = MemoryPlan { weights: weights.values().sum(), ..MemoryPlan::default() };
        for (key, bytes) in &regions {
            plan.add(key, *bytes);
        }
        plan
    }

    /// What is allocated: everything but the weights.
    pub fn allocated(&self) -> usize {
        self.states + self.inputs + self.outputs + self.consts + self.arena + self.scratch
    }

    pub(super) fn add(&mut self, key: &Key, bytes: usize) {
        let part = match key {
            Key::Input(_) => &mut self.inputs,
            Key::Output(_) => &mut self.outputs,
            Key::State(_) => &mut self.states,
            Key::Const(_) => &mut self.consts,
            Key::Arena => &mut self.arena,
            Key::Scratch(_) => &mut self.scratch,
        };
        *part += bytes;
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "weights {:.1} MiB, state {:.1}, arena {:.1}, inputs {:.1}, outputs {:.1}, tables {:.1}, scratch {:.1}",
            mib(self.weights),
            mib(self.states),
            mib(self.arena),
            mib(self.inputs),
            mib(self.outputs),
            mib(self.consts),
            mib(self.scratch),
        )
    }
}

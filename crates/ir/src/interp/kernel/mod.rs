//! Runs one kernel, task by task.
//!
//! A kernel is a [`Block`](crate::Op::Block) that is run once for each task; the
//! number of the task is the value of its `Range(0, Axis::Task)`. The block is
//! compiled once: the expressions of each statement become a list of
//! instructions on typed registers, and what does not depend on memory or
//! accumulators moves to the head of the outermost loop that determines it.
//! Each statement reads memory and accumulators anew.
//!
//! The interpreter is strict where a machine is not: an access out of bounds, a
//! read of an accumulator that was never set, and an integer division by zero
//! are errors. Scratch and what lies within [`SLACK`] bytes behind an input are
//! poison (NaN as floats), so that lanes that should not count show.
//!
//! A kernel with warps and lanes is run one block after another, all threads of
//! a block in step. That two threads touch the same scratch between two barriers
//! and one of them writes, that only some come to a barrier or a shuffle, and
//! wide accesses that are not aligned, are errors: what remains has the same
//! result in every order of threads.
//!
//! ```
//! use ir::interp::kernel::{Buffers, Kernel};
//! use ir::{Axis, DType, Graph, Op, Space, interp::Vars};
//!
//! // out[i] = in[i] + in[i], one task for each i.
//! let mut g = Graph::new();
//! let four = g.int(4);
//! let i = g.range(0, Axis::Task, four);
//! let input = g.buffer(0, Space::Input, DType::F32, 0);
//! let output = g.buffer(1, Space::Output, DType::F32, 0);
//! let x = g.load(input, i, 1);
//! let sum = g.add(x, x);
//! let store = g.make(Op::Store, DType::F32, vec![], vec![output, i, sum]);
//! let root = g.make(Op::Block, DType::Bool, vec![], vec![store]);
//!
//! let kernel = Kernel::compile(&g, root).unwrap();
//! let x: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
//! let mut y = vec![0; 16];
//! let mut buffers = Buffers::new().read(0, &x).write(1, &mut y);
//! kernel.run(&mut buffers, &Vars::new(), 0..4).unwrap();
//! assert_eq!(y[12..], 8.0f32.to_le_bytes());
//! ```

#[cfg(test)]
mod block_tests;
mod code;
mod compile;
mod memory;
mod races;
mod run;
#[cfg(test)]
pub(crate) mod tests;
mod warp;

use super::{Fault, VarError, Vars};
use crate::spec::{SpecError, check_kernel};
use crate::{Graph, Id, Op};
use std::ops::Range;

/// Bytes behind the end of an input that may be read: they are poison.
pub const SLACK: usize = 64;

/// Why a kernel cannot be run, or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The graph is not a kernel.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A variable has no value, or a bad one.
    #[error(transparent)]
    Var(#[from] VarError),
    /// Nothing was given for a parameter.
    #[error("nothing is bound to the parameter {0}")]
    Unbound(u32),
    /// A parameter that is written was given for reading only.
    #[error("the parameter {0} is written, but bound for reading only")]
    ReadOnly(u32),
    /// A load or store beyond its buffer.
    #[error("task {task}: {node}: {lanes} lanes at index {index} of {buffer}, which has {len} elements")]
    OutOfBounds {
        /// The task that was running.
        task: i64,
        /// The load or store.
        node: String,
        /// Its buffer.
        buffer: String,
        /// The index, in elements of the buffer.
        index: i64,
        /// Number of lanes.
        lanes: u32,
        /// Elements of the buffer.
        len: usize,
    },
    /// An accumulator was read before it was set.
    #[error("task {task}: {node} is read before it is set")]
    Unset {
        /// The task that was running.
        task: i64,
        /// The accumulator.
        node: String,
    },
    /// Two threads of a block touch the same scratch, and one of them writes, with no barrier between.
    #[error("task {task}: {node}: thread {thread} and another touch index {index} of {buffer} between two barriers")]
    Race {
        /// The task that was running.
        task: i64,
        /// The load or store.
        node: String,
        /// Its buffer.
        buffer: String,
        /// The index, in elements of the buffer.
        index: i64,
        /// The thread that came second.
        thread: usize,
    },
    /// A barrier that not all threads of a block reach, or a shuffle that not all lanes of a warp reach.
    #[error("task {task}: {node}: only some of the threads come to it")]
    Divergent {
        /// The task that was running.
        task: i64,
        /// The barrier or shuffle.
        node: String,
    },
    /// A load or store of a thread of a block that is not at a multiple of its size, or wider than any may be.
    #[error("task {task}: {node}: {bytes} bytes at index {index} are not aligned, or too many")]
    Misaligned {
        /// The task that was running.
        task: i64,
        /// The load or store.
        node: String,
        /// Its size.
        bytes: usize,
        /// The index, in elements of the buffer.
        index: i64,
    },
    /// A load or store of what other launches write or read, before those are waited for.
    #[error("task {task}: {node}: {buffer} is touched before the launches before this one are waited for")]
    Early {
        /// The task that was running.
        task: i64,
        /// The load or store.
        node: String,
        /// Its buffer.
        buffer: String,
    },
    /// Arithmetic without a result.
    #[error("task {task}: {node}: {fault}")]
    Fault {
        /// The task that was running.
        task: i64,
        /// The node.
        node: String,
        /// What happened.
        fault: Fault,
    },
}

/// The bytes of the parameters of a kernel, by slot.
#[derive(Debug, Default)]
pub struct Buffers<'a> {
    slots: Vec<Slot<'a>>,
}

#[derive(Debug, Default)]
enum Slot<'a> {
    #[default]
    Empty,
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

impl<'a> Buffers<'a> {
    /// No buffers.
    pub fn new() -> Buffers<'a> {
        Buffers::default()
    }

    /// A parameter that is only read.
    pub fn read(mut self, slot: u32, bytes: &'a [u8]) -> Buffers<'a> {
        *self.slot(slot) = Slot::Read(bytes);
        self
    }

    /// A parameter that may be written.
    pub fn write(mut self, slot: u32, bytes: &'a mut [u8]) -> Buffers<'a> {
        *self.slot(slot) = Slot::Write(bytes);
        self
    }

    fn slot(&mut self, slot: u32) -> &mut Slot<'a> {
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Slot::default);
        }
        &mut self.slots[at]
    }
}

/// A kernel ready to run.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Kernels whose tasks follow each other.
    parts: Vec<code::Code>,
}

impl Kernel {
    /// Compiles the kernel whose statements are those of the block `root`, or whose parts are its sources.
    ///
    /// # Errors
    /// [`KernelError::Spec`] if it breaks the grammar of kernels.
    pub fn compile(g: &Graph, root: Id) -> Result<Kernel, KernelError> {
        check_kernel(g, root)?;
        let parts = if *g.op(root) == Op::Parts { g.src(root) } else { &[root] };
        Ok(Kernel { parts: parts.iter().map(|&part| compile::compile(g, part)).collect::<Result<_, _>>()? })
    }

    /// The same, on a machine whose threads load and store at most so many bytes at once.
    pub fn with_widest(mut self, bytes: Option<usize>) -> Kernel {
        self.parts.iter_mut().for_each(|code| code.widest = bytes);
        self
    }

    /// Runs some of the tasks, in ascending order.
    ///
    /// # Errors
    /// A missing buffer or variable, and whatever a task does wrong; the
    /// outputs then hold what was written until that moment.
    pub fn run(&self, buffers: &mut Buffers<'_>, vars: &Vars, tasks: Range<i64>) -> Result<(), KernelError> {
        let mut first = 0;
        for code in &self.parts {
            let count = if self.parts.len() > 1 { run::task_count(code, vars)? } else { i64::MAX };
            let own = (tasks.start - first).max(0)..(tasks.end - first).min(count);
            match code.threads {
                1 => run::Machine::<true>::new(code, buffers, vars)?.run(own)?,
                _ => run::Machine::<false>::new(code, buffers, vars)?.run(own)?,
            }
            first += count;
        }
        Ok(())
    }

    /// The number of tasks: the extent of the task range, 1 if there is none; those of all parts.
    ///
    /// # Errors
    /// A missing variable.
    pub fn tasks(&self, vars: &Vars) -> Result<i64, KernelError> {
        self.parts.iter().map(|code| run::task_count(code, vars)).sum()
    }
}

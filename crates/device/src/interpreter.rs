//! The interpreter as a device: runs the IR of kernels, one task after the
//! other, on the calling thread.
//!
//! It needs no C compiler and checks every access, and is a thousand times
//! slower than the [`cpu`](crate::cpu): an oracle for tests, and a way to see
//! whether a wrong result is the compiler's or the machine's. It runs programs
//! for CPUs and for GPUs, whose weights it repacks. Whatever an earlier step or
//! an earlier value left in an output or in the arena is gone before it is
//! written anew, so that a kernel which reads what nobody wrote makes NaN.
//!
//! What it cannot do: kernels that are nothing but source, and steps that
//! allocate nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use compiler::program::{BufferKind, Launch, Program};
use compiler::{Numerics, Options};
use ir::interp::Vars;
use ir::interp::kernel::{Buffers, Kernel, KernelError};

use crate::cpu::isa::{Isa, Target};
use crate::cpu::objects::CompileReport;
use crate::error::{Error, Result};
use crate::heap::{Apart, Host};
use crate::memory::{Lent, Memory, Place};
use crate::profile::{Clock, Profile, Stopwatch};
use crate::{Device, Executable, validate};

/// What an output or a value of the arena holds that nobody has written yet: NaN as floats.
const UNWRITTEN: u8 = 0xff;

/// The device.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// The machine whose kernels it runs.
    target: Target,
    /// Whether it runs kernels of blocks of threads instead.
    blocks: bool,
    /// Whether its memory is apart from that of the host.
    apart: bool,
}

impl Default for Interpreter {
    /// Runs kernels as for the best of this machine.
    fn default() -> Interpreter {
        Interpreter::of(Target { isa: Isa::detect(), extras: vec![] })
    }
}

impl Interpreter {
    /// Runs kernels for this processor.
    pub fn of(target: Target) -> Interpreter {
        Interpreter { target, blocks: false, apart: false }
    }

    /// Runs kernels of blocks of threads, as for a GPU.
    pub fn of_blocks() -> Interpreter {
        Interpreter { blocks: true, ..Interpreter::default() }
    }

    /// The same with memory of its own, which the host does not reach, as a card has it.
    pub fn apart(self) -> Interpreter {
        Interpreter { apart: true, ..self }
    }

    fn place(&self) -> &'static str {
        if self.apart { Apart::PLACE } else { Host::PLACE }
    }
}

impl Device for Interpreter {
    fn name(&self) -> String {
        "interpreter".into()
    }

    fn options(&self, numerics: Numerics) -> Options {
        if self.blocks { Options::gpu(numerics) } else { self.target.options(numerics) }
    }

    fn memory(&self) -> Memory {
        if self.apart { Memory::on(Arc::new(Apart)) } else { Memory::new() }
    }

    fn keeps_weights(&self) -> bool {
        self.apart
    }

    fn steps_ahead(&self) -> usize {
        usize::from(self.apart)
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        let start = Instant::now();
        validate::program(&program)?;
        memory.check_place(self.place(), &program)?;
        let kernels = (0..program.kernels.len()).map(|kernel| compile(&program, kernel)).collect::<Result<_>>()?;
        let places = memory.bind(&program)?;
        let mut met = HashSet::new();
        let args: Vec<_> = program.each_launch().map(|launch| arguments(&program, launch, &places, &mut met)).collect();
        let report = CompileReport { kernels: program.kernels.len(), time: start.elapsed(), ..Default::default() };
        let loaded = Interpreted { program, report, kernels, args, memory: memory.id() };
        for (index, launch) in loaded.program.each_launch().enumerate() {
            loaded.lend(memory, index, launch)?;
        }
        Ok(Box::new(loaded))
    }
}

/// The bytecode of a kernel of a program.
fn compile(program: &Program, index: usize) -> Result<Kernel> {
    let kernel = &program.kernels[index];
    let Some(ir) = &kernel.ir else { return Err(Error::NoIr { kernel: kernel.symbol.clone() }) };
    let (graph, block) = &**ir;
    let compiled = Kernel::compile(graph, *block).map(|compiled| compiled.with_widest(kernel.geometry.widest));
    compiled.map_err(|problem| {
        let origin = program.each_launch().find(|launch| launch.kernel == index).map_or("", |launch| &launch.origin);
        failed(program, index, origin, problem)
    })
}

fn failed(program: &Program, kernel: usize, origin: &str, problem: KernelError) -> Error {
    let kernel = program.kernels[kernel].symbol.clone();
    Error::Kernel { kernel, origin: origin.into(), problem: Box::new(problem) }
}

/// An argument of a launch.
struct Argument {
    place: Place,
    bytes: usize,
    /// The parameter of the kernel.
    slot: u32,
    /// Whether no earlier launch of a step has touched what kernels must write before they read it.
    unwritten: bool,
}

/// The arguments of a launch in the order of their places; `met` are the buffers of those before it.
fn arguments(program: &Program, launch: &Launch, places: &[Place], met: &mut HashSet<usize>) -> Vec<Argument> {
    let argument = |(slot, &index): (u32, &usize)| {
        let buffer = &program.buffers[index];
        let passing = matches!(buffer.kind, BufferKind::Output(_) | BufferKind::Arena(_));
        Argument { place: places[index], bytes: buffer.bytes, slot, unwritten: met.insert(index) && passing }
    };
    let mut arguments: Vec<_> = (0..).zip(&launch.args).map(argument).collect();
    arguments.sort_by_key(|argument| argument.place);
    arguments
}

/// A program whose kernels are bytecode.
struct Interpreted {
    program: Arc<Program>,
    report: CompileReport,
    kernels: Vec<Kernel>,
    /// Of each launch.
    args: Vec<Vec<Argument>>,
    /// The memory that it was loaded for.
    memory: u64,
}

impl Interpreted {
    fn lend<'a>(&self, memory: &'a mut Memory, index: usize, launch: &Launch) -> Result<Vec<Lent<'a>>> {
        let lent = memory.lend(self.args[index].iter().map(|argument| (argument.place, argument.bytes)));
        lent.ok_or_else(|| Error::Malformed {
            program: self.program.name.clone(),
            reason: format!("arguments of {} overlap", launch.origin),
        })
    }

    fn launch(&self, memory: &mut Memory, index: usize, launch: &Launch, vars: &Vars, tasks: i64) -> Result<()> {
        let mut buffers = Buffers::new();
        for (argument, lent) in self.args[index].iter().zip(self.lend(memory, index, launch)?) {
            buffers = match lent {
                Lent::Read(bytes) => buffers.read(argument.slot, bytes),
                Lent::Write(bytes) => {
                    if argument.unwritten {
                        bytes.fill(UNWRITTEN);
                    }
                    buffers.write(argument.slot, bytes)
                }
            };
        }
        let ran = self.kernels[launch.kernel].run(&mut buffers, vars, 0..tasks);
        ran.map_err(|problem| failed(&self.program, launch.kernel, &launch.origin, problem))
    }
}

impl Executable for Interpreted {
    fn program(&self) -> &Program {
        &self.program
    }

    fn report(&self) -> &CompileReport {
        &self.report
    }

    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        self.run_profiled(memory, vars, Clock::Wall).map(drop)
    }

    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64], clock: Clock) -> Result<Profile> {
        let program = &self.program;
        if memory.id() != self.memory {
            return Err(Error::OtherMemory { program: program.name.clone() });
        }
        validate::vars(program, vars)?;
        memory.send_inputs();
        let tasks = program.each_launch().map(|launch| validate::tasks(program, launch, vars));
        let tasks = tasks.collect::<Result<Vec<_>>>()?;
        let mut named = Vars::new();
        program.vars.iter().zip(vars).for_each(|(variable, &value)| named.set(&variable.name, value));
        let stopwatch = Stopwatch::start(clock, 1, tasks.len(), program.stages.len());
        let mut index = 0;
        for (stage, of) in program.stages.iter().enumerate() {
            for launch in &of.launches {
                let start = stopwatch.now();
                self.launch(memory, index, launch, &named, tasks[index])?;
                stopwatch.record(0, index, start, stopwatch.now());
                index += 1;
            }
            stopwatch.stage_seen(stage, Instant::now());
        }
        Ok(stopwatch.stop(program, vars, tasks.into_iter()))
    }
}

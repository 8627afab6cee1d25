//! Steps through the interpreter of kernels: the same programs as on a device, run as IR, one task after the other.
//!
//! It needs no C compiler and checks every access, and is a thousand times slower. An oracle for tests, and a way to
//! see whether a wrong result is the compiler's or the machine's.

use crate::batch::{Batch, Batches, Limits};
use crate::config::Config;
use crate::engine::{EngineError, EngineOptions, Sharing};
use crate::step::{Variant, build};
use crate::steps::Steps;
use compiler::Compiled;
use compiler::program::BufferKind;
use gguf::Gguf;
use gguf::format::Planes;
use ir::interp::Vars;
use ir::interp::kernel::{Buffers, Kernel, KernelError};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// What the interpreter found wrong.
#[derive(Debug, thiserror::Error)]
pub enum InterpretError {
    /// A kernel that breaks the grammar of kernels, or does something that it must not.
    #[error("kernel {symbol} ({origin}): {problem}")]
    Kernel {
        /// The kernel.
        symbol: String,
        /// Where it came from.
        origin: String,
        /// What is wrong.
        problem: Box<KernelError>,
    },
    /// A kernel with source of its own, which is no IR.
    #[error("kernel {0} has its own source, which the interpreter cannot run")]
    Custom(String),
    /// A weight whose rows cannot be repacked.
    #[error("tensor {tensor} cannot be repacked: {problem}")]
    Repack {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// A weight that the file does not have.
    #[error("program {program} needs tensor {tensor}, which the file does not have")]
    Weight {
        /// The program.
        program: String,
        /// The tensor.
        tensor: String,
    },
}

/// A model whose kernels are interpreted.
pub struct Interpreter {
    file: Arc<Gguf>,
    config: Config,
    options: EngineOptions,
    sharing: Sharing,
    programs: HashMap<Variant, Interpreted>,
    /// Weights in planes, by name.
    packed: HashMap<String, Vec<u8>>,
    /// What lives from step to step, by name.
    states: HashMap<String, Vec<u8>>,
    out: Vec<f32>,
}

struct Interpreted {
    compiled: Compiled,
    kernels: Vec<Kernel>,
}

impl Interpreter {
    /// Checks the model; programs are compiled when they are first needed.
    ///
    /// # Errors
    /// A model that is not supported.
    pub fn new(file: Arc<Gguf>, options: EngineOptions) -> Result<Interpreter, EngineError> {
        let sharing = Sharing::none(&options);
        Interpreter::shared(file, options, sharing)
    }

    /// As [`Interpreter::new`], for several sequences that share the cache.
    ///
    /// # Errors
    /// As [`Interpreter::new`].
    pub fn shared(file: Arc<Gguf>, options: EngineOptions, sharing: Sharing) -> Result<Interpreter, EngineError> {
        let config = Config::read(&file)?;
        let (programs, packed, states) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Interpreter { file, config, options, sharing, programs, packed, states, out: vec![] })
    }

    /// A weight with its rows in planes, as a GPU would hold it.
    fn pack(&self, program: &str, name: &str, planes: &Planes) -> Result<Vec<u8>, InterpretError> {
        let (program, tensor) = (program.to_string(), name.to_string());
        let Some(found) = self.file.tensor(name) else { return Err(InterpretError::Weight { program, tensor }) };
        let data = self.file.data(found);
        let mut packed = vec![0; planes.packed_bytes(data.len()).unwrap_or(0)];
        match planes.pack(data, &mut packed) {
            Ok(()) => Ok(packed),
            Err(problem) => Err(InterpretError::Repack { tensor, problem: problem.to_string() }),
        }
    }

    /// Compiles a program, if it is not there yet.
    ///
    /// # Errors
    /// Of the compiler, and of weights that cannot be repacked.
    pub fn load(&mut self, variant: Variant) -> Result<(), EngineError> {
        if self.programs.contains_key(&variant) {
            return Ok(());
        }
        let compiled =
            build(&self.file, &self.config, &self.sharing.sizes(variant, &self.options), &self.options.compiler)?;
        for buffer in &compiled.program.buffers {
            if let BufferKind::Planes { name, planes } = &buffer.kind
                && !self.packed.contains_key(name)
            {
                self.packed.insert(name.clone(), self.pack(&compiled.program.name, name, planes)?);
            }
        }
        let mut kernels = vec![];
        for (kernel, body) in compiled.program.kernels.iter().zip(&compiled.bodies) {
            if body.paths == ["custom"] {
                return Err(InterpretError::Custom(kernel.symbol.clone()).into());
            }
            let fail = |problem| InterpretError::Kernel {
                symbol: kernel.symbol.clone(),
                origin: "compiling".into(),
                problem: Box::new(problem),
            };
            kernels.push(Kernel::compile(&compiled.graph, body.root).map_err(fail)?);
        }
        self.programs.insert(variant, Interpreted { compiled, kernels });
        Ok(())
    }
}

impl Steps for Interpreter {
    fn vocab(&self) -> usize {
        self.config.vocab as usize
    }

    fn context(&self) -> usize {
        self.options.context as usize
    }

    fn chunk(&self) -> usize {
        self.options.chunk as usize
    }

    fn prepare(&mut self, tokens: usize) -> Result<(), EngineError> {
        self.load(Batches::limits(self).class(std::iter::once(0..tokens)).into())
    }

    fn step(&mut self, tokens: &[u32], start: usize, rows: Range<usize>) -> Result<&[f32], EngineError> {
        let limits = Batches::limits(self);
        let pages: Vec<u32> = (0..limits.row_pages() as u32).collect();
        let mut batch = Batch::new(limits);
        batch.add(tokens, start, &pages)?;
        batch.want(rows);
        self.run(&batch)
    }
}

impl Batches for Interpreter {
    fn limits(&self) -> Limits {
        self.sharing.limits(&self.config, &self.options)
    }

    fn prepare(&mut self, tokens: usize) -> Result<(), EngineError> {
        self.load(Batches::limits(self).class(std::iter::once(0..tokens)).into())
    }

    fn run(&mut self, batch: &Batch) -> Result<&[f32], EngineError> {
        let variant = batch.variant();
        self.load(variant)?;
        let input = |name: &str| batch.input(name).unwrap_or_else(|| unreachable!("input {name}")).to_vec();
        let value = |name: &str| batch.variable(name).unwrap_or_else(|| unreachable!("variable {name}"));
        let (name, wanted) = (batch.output().name(), batch.rows() * batch.output().width(&self.config));
        let outputs = self.programs[&variant].run(&self.file, &self.packed, &mut self.states, &input, &value)?;
        let out = outputs.into_iter().find(|(output, _)| output == name).map(|(_, bytes)| bytes).unwrap_or_default();
        self.out.clear();
        self.out.extend(out.chunks_exact(4).take(wanted).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        Ok(&self.out)
    }
}

/// Bytes of a buffer during a step.
enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl Interpreted {
    /// Runs all launches in order; what was written to outputs comes back by name.
    fn run(
        &self,
        file: &Gguf,
        packed: &HashMap<String, Vec<u8>>,
        states: &mut HashMap<String, Vec<u8>>,
        input: &dyn Fn(&str) -> Vec<i32>,
        value: &dyn Fn(&str) -> i64,
    ) -> Result<Vec<(String, Vec<u8>)>, InterpretError> {
        let program = &self.compiled.program;
        let values: Vec<i64> = program.vars.iter().map(|v| value(&v.name)).collect();
        let mut vars = Vars::new();
        program.vars.iter().zip(&values).for_each(|(v, &value)| vars.set(&v.name, value));
        let mut memory = vec![];
        for buffer in &program.buffers {
            memory.push(match &buffer.kind {
                BufferKind::Weight(name) => match file.tensor(name) {
                    Some(tensor) => Bytes::Borrowed(file.data(tensor)),
                    None => {
                        let (program, tensor) = (program.name.clone(), name.clone());
                        return Err(InterpretError::Weight { program, tensor });
                    }
                },
                BufferKind::Planes { name, .. } => Bytes::Borrowed(packed.get(name).map_or(&[], |p| p.as_slice())),
                BufferKind::Const(bytes) => Bytes::Borrowed(bytes),
                BufferKind::Input(name) => {
                    let mut bytes: Vec<u8> = input(name).iter().flat_map(|v| v.to_le_bytes()).collect();
                    bytes.resize(buffer.bytes, 0);
                    Bytes::Owned(bytes)
                }
                BufferKind::State(name) => {
                    let mut bytes = states.remove(name).unwrap_or_default();
                    bytes.resize(buffer.bytes.max(bytes.len()), 0);
                    Bytes::Owned(bytes)
                }
                // As floats, these are NaN: what is read must have been written.
                BufferKind::Output(_) | BufferKind::Arena(_) => Bytes::Owned(vec![0xff; buffer.bytes]),
            });
        }
        let ran = self.launch_all(&mut memory, &vars, &values);
        let mut outputs = vec![];
        for (buffer, bytes) in program.buffers.iter().zip(memory) {
            match (&buffer.kind, bytes) {
                (BufferKind::State(name), Bytes::Owned(bytes)) => drop(states.insert(name.clone(), bytes)),
                (BufferKind::Output(name), Bytes::Owned(bytes)) => outputs.push((name.clone(), bytes)),
                _ => {}
            }
        }
        ran.map(|()| outputs)
    }

    fn launch_all(&self, memory: &mut [Bytes<'_>], vars: &Vars, values: &[i64]) -> Result<(), InterpretError> {
        let program = &self.compiled.program;
        for launch in program.stages.iter().flat_map(|stage| &stage.launches) {
            // Taken out of memory while the kernel has them: no two parameters are the same buffer.
            let mut taken: Vec<Bytes<'_>> = vec![];
            for &at in &launch.args {
                taken.push(std::mem::replace(&mut memory[at], Bytes::Borrowed(&[])));
            }
            let mut buffers = Buffers::new();
            for (slot, bytes) in taken.iter_mut().enumerate() {
                buffers = match bytes {
                    Bytes::Borrowed(bytes) => buffers.read(slot as u32, bytes),
                    Bytes::Owned(bytes) => buffers.write(slot as u32, bytes),
                };
            }
            let tasks = launch.tasks.eval(values);
            let ran = self.kernels[launch.kernel].run(&mut buffers, vars, 0..tasks);
            drop(buffers);
            launch.args.iter().zip(taken).for_each(|(&at, bytes)| memory[at] = bytes);
            ran.map_err(|problem| InterpretError::Kernel {
                symbol: program.kernels[launch.kernel].symbol.clone(),
                origin: launch.origin.clone(),
                problem: Box::new(problem),
            })?;
        }
        Ok(())
    }
}

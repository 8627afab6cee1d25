//! What the machine can do at most: bytes read and products a second, measured
//! through the same pool and compiler that programs run on.
//!
//! Reports set achieved speeds against these numbers; no decision of the
//! compiler hangs on them. Machines that are shared read now faster and now
//! slower: a number of another minute says little, so a [`Reader`] is kept
//! beside what it is compared with, and asked again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use compiler::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage};

use crate::error::Result;
use crate::{Cpu, Device, Executable, Extra, Memory};

/// Bytes that a read is measured over unless said otherwise: far more than any
/// cache holds.
pub const READ_BYTES: usize = 1 << 30;

/// Each speed is the best of at least this many runs.
const RUNS: usize = 7;

/// And of at least this long: a system may take a while to spread threads that
/// have just begun over its cores.
const LEAST_TIME: Duration = Duration::from_millis(300);

/// Bytes of a task that reads.
const READ_TASK: usize = 1 << 20;

/// Bytes that a task of products leaves its result in; a cache line.
const RESULT: usize = 64;

/// Rounds of a task of products, as in the C source.
const ROUNDS: usize = 4096;

const TASKS_PER_WORKER: usize = 64;

/// The kernels.
const SOURCE: &str = include_str!("bandwidth.c");

/// Speeds of all workers of a device together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Workers that took part.
    pub workers: usize,
    /// Bytes read from memory a second.
    pub read: f64,
    /// Multiply-adds of 8-bit integers a second.
    pub integer_dot: f64,
    /// Multiply-adds of f32 a second.
    pub f32: f64,
    /// Multiply-adds of bf16 numbers a second in the matrix unit, if there is one.
    pub tiles: Option<f64>,
}

/// Measures a device over `bytes` bytes of memory.
///
/// # Errors
/// [`crate::Error::OutOfMemory`], and what loading a program can fail with.
pub fn measure(cpu: &Cpu, bytes: usize) -> Result<Peaks> {
    Ok(Peaks {
        workers: cpu.threads(),
        read: Reader::new(cpu, bytes)?.now()?,
        integer_dot: products(cpu, "integer_dot")?,
        f32: products(cpu, "multiply_add")?,
        tiles: match cpu.target().extras.contains(&Extra::AmxBf16) {
            true => Some(products(cpu, "tile_product")?),
            false => None,
        },
    })
}

/// The programs that [`measure`] runs, for who builds their kernels ahead of time.
pub fn programs() -> Vec<Arc<Program>> {
    let read = ["fill", "stream"].map(|function| program(function, 1, READ_TASK));
    let products = ["integer_dot", "multiply_add"].map(|function| program(function, 1, RESULT));
    read.into_iter().chain(products).collect()
}

/// Memory of its own, read whole each time that it is asked how fast that goes.
pub struct Reader {
    memory: Memory,
    stream: Box<dyn Executable>,
    bytes: usize,
}

impl Reader {
    /// A reader of so many bytes, on the workers of a device.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn new(cpu: &Cpu, bytes: usize) -> Result<Reader> {
        let tasks = bytes.div_ceil(READ_TASK).max(1);
        let mut memory = Memory::new();
        // Pages that nobody has written are one page of zeros in the cache.
        let mut fill = cpu.load(program("fill", tasks, READ_TASK), &mut memory)?;
        fill.run(&mut memory, &[])?;
        let stream = cpu.load(program("stream", tasks, READ_TASK), &mut memory)?;
        Ok(Reader { memory, stream, bytes: READ_TASK * tasks })
    }

    /// Bytes a second, in the third of a second that this takes.
    ///
    /// # Errors
    /// Of the workers.
    pub fn now(&mut self) -> Result<f64> {
        let time = best(self.stream.as_mut(), &mut self.memory)?;
        Ok(self.bytes as f64 / time.as_secs_f64())
    }
}

fn products(cpu: &Cpu, function: &str) -> Result<f64> {
    let tasks = TASKS_PER_WORKER * cpu.threads();
    let mut memory = Memory::new();
    let mut products = cpu.load(program(function, tasks, RESULT), &mut memory)?;
    let time = best(products.as_mut(), &mut memory)?;
    let round = memory.state::<u64>("measured")?[0] as f64;
    Ok(round * (ROUNDS * tasks) as f64 / time.as_secs_f64())
}

fn best(executable: &mut dyn Executable, memory: &mut Memory) -> Result<Duration> {
    let mut best = Duration::MAX;
    let (first, mut runs) = (Instant::now(), 0);
    while runs < RUNS || first.elapsed() < LEAST_TIME {
        let start = Instant::now();
        executable.run(memory, &[])?;
        best = best.min(start.elapsed());
        runs += 1;
    }
    Ok(best)
}

/// A program of one stage that calls one of the functions of the C source, on
/// tasks of so many bytes.
fn program(function: &str, tasks: usize, task_bytes: usize) -> Arc<Program> {
    let launch = Launch {
        kernel: 0,
        args: vec![0],
        tasks: Count::Const(tasks as i64),
        origin: function.into(),
        bytes: Count::Const((tasks * task_bytes) as i64),
        ..Launch::default()
    };
    let symbol = format!("measure_{function}");
    let source = format!(
        "void {symbol}(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {{
    {function}(bufs[0], begin, end, {task_bytes});
}}
"
    );
    Arc::new(Program {
        name: symbol.clone(),
        prelude: SOURCE.into(),
        buffers: vec![Buffer {
            kind: BufferKind::State("measured".into()),
            bytes: tasks * task_bytes,
            name: "measured".into(),
        }],
        kernels: vec![Kernel::of_source(symbol, source, 0)],
        stages: vec![Stage { launches: vec![launch] }],
        ..Program::default()
    })
}

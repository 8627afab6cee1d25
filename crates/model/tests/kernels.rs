//! Every kernel of tiny models of each kind of attention and feed-forward, on the processor and in the interpreter. Each
//! stage of a step runs on both, on what the interpreter stored before, so that an error is that of one kernel, and nothing
//! adds up.

use crate::support::{self, cpu, synth, tokens};
use compiler::Numerics;
use compiler::program::{BufferKind, Launch, Program, Stage};
use device::{Clock, CompileReport, Device, Executable, Interpreter, Memory, Profile, Result};
use ir::{DType, Op, Space};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How far floats may be off, of the root mean square of their buffer: sums in another order.
const FLOATS: f64 = 1e-5;

/// A half float may be the next one, which is as far as this from it.
const HALF: f64 = 1.0 / 1024.0;

/// How many of the codes of 8 bits in a buffer, or of sums of them, may be the next ones, besides one: a value may lie
/// between two.
const CODES: f64 = 1e-2;

const VOCAB: u32 = 512;

/// Lengths of the steps: a prompt that is read by runs, many tokens, few and one.
const STEPS: [usize; 5] = [100, 20, 5, 2, 1];

/// A number of a buffer.
fn number(ty: DType, b: &[u8]) -> f64 {
    match ty {
        DType::F32 => f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into(),
        DType::I32 => i32::from_le_bytes([b[0], b[1], b[2], b[3]]).into(),
        DType::I8 => (b[0] as i8).into(),
        DType::F16 => half::f16::from_le_bytes([b[0], b[1]]).into(),
        DType::Bool | DType::U8 => b[0].into(),
        other => panic!("no kernel of a model stores {other}"),
    }
}

/// How far a buffer is from the interpreter's, as a part of what is allowed. Floats that nobody has written are NaN.
fn distance(ty: DType, got: &[u8], want: &[u8]) -> f64 {
    let size = ty.bytes();
    let pairs = || got.chunks_exact(size).zip(want.chunks_exact(size));
    let differ = || pairs().filter(|(g, w)| g != w).map(|(g, w)| (number(ty, g), number(ty, w)));
    let finite = || pairs().map(|(_, w)| number(ty, w)).filter(|w| w.is_finite());
    let (count, squares) = finite().fold((0, 0.0), |(n, sum), w| (n + 1, sum + w * w));
    let scale = (squares / f64::from(count.max(1))).sqrt();
    let sums = ty == DType::F32 && scale > 1.0 && finite().all(|w| w.fract() == 0.0);
    if !ty.is_float() || sums {
        let most = if ty == DType::I8 || sums { 1.0 } else { 0.0 };
        let next = 1.0 + CODES * (want.len() / size) as f64;
        // Written so that NaN is far.
        let far = !differ().all(|(g, w)| (g - w).abs() <= most);
        return if far { f64::INFINITY } else { differ().count() as f64 / next };
    }
    let next = |w: f64| if ty == DType::F16 { HALF * w.abs() } else { 0.0 };
    let parts = differ().map(|(g, w)| ((g - w).abs() - next(w)) / (FLOATS * scale));
    parts.map(|part| if part.is_nan() { f64::INFINITY } else { part }).fold(0.0, f64::max)
}

/// What was found of a model.
#[derive(Default)]
struct Found {
    buffers: usize,
    /// The worst distance, by type.
    worst: BTreeMap<DType, f64>,
    problems: Vec<String>,
}

/// A processor that runs each stage beside the interpreter.
struct Beside {
    processor: Arc<dyn Device>,
    found: Arc<Mutex<Found>>,
}

/// A buffer that the kernels of a stage store to.
struct Stored {
    /// The kernel, and what it reads.
    kernel: String,
    ty: DType,
    /// The name of what the interpreter stores, and whether that is an output and no state.
    name: String,
    output: bool,
    /// The name of the state that the processor stores to.
    apart: String,
}

/// A stage on both.
struct Pair {
    processor: Box<dyn Executable>,
    interpreter: Box<dyn Executable>,
    stored: Vec<Stored>,
}

/// A step, stage by stage.
struct Steps {
    /// The step in one piece, which does not run: its kernels are compiled together.
    whole: Box<dyn Executable>,
    stages: Vec<Pair>,
    /// What lay in the arena.
    passing: Vec<String>,
    found: Arc<Mutex<Found>>,
}

/// The buffers that a launch stores to, with the types of their elements.
fn stores(program: &Program, launch: &Launch) -> BTreeMap<usize, DType> {
    let (graph, root) = &**program.kernels[launch.kernel].ir.as_ref().expect("the compiler keeps it");
    let buffer = |id| match *graph.op(id) {
        Op::Buffer { slot, space: Space::Output, .. } => Some((launch.args[slot as usize], graph.dtype(id))),
        _ => None,
    };
    graph.toposort(&[*root]).into_iter().filter_map(buffer).collect()
}

/// A stage as a program.
fn stage(program: &Program, stage: usize) -> Program {
    let mut launches = program.stages[stage].launches.clone();
    let mut numbers: Vec<usize> = launches.iter().map(|launch| launch.kernel).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let kernels = numbers.iter().map(|&kernel| program.kernels[kernel].clone()).collect();
    for launch in &mut launches {
        launch.kernel = numbers.binary_search(&launch.kernel).expect("a kernel of the stage");
    }
    let stages = vec![Stage { launches }];
    Program { name: format!("{} {stage}", program.name), kernels, stages, ..program.clone() }
}

impl Device for Beside {
    fn name(&self) -> String {
        self.processor.name()
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        let whole = self.processor.load(program.clone(), memory)?;
        // What one stage leaves to another has to outlive a program.
        let mut apart = Program::clone(&program);
        let mut passing = vec![];
        for (i, buffer) in apart.buffers.iter_mut().enumerate() {
            if let BufferKind::Arena(_) = buffer.kind {
                let name = format!("{} {i}", program.name);
                passing.push(name.clone());
                buffer.kind = BufferKind::State(name);
            }
        }
        apart.arena_bytes = 0;
        let mut stages = vec![];
        for number in 0..program.stages.len() {
            let of_interpreter = stage(&apart, number);
            let mut of_processor = of_interpreter.clone();
            let mut stored = vec![];
            for launch in &program.stages[number].launches {
                for (buffer, ty) in stores(&program, launch) {
                    let (name, output) = match &apart.buffers[buffer].kind {
                        BufferKind::Output(name) => (name.clone(), true),
                        BufferKind::State(name) => (name.clone(), false),
                        other => panic!("a kernel stores to {other:?}"),
                    };
                    let kernel = format!("{} of {}", program.kernels[launch.kernel].symbol, launch.origin);
                    let apart = format!("the processor's {} {buffer}", program.name);
                    of_processor.buffers[buffer].kind = BufferKind::State(apart.clone());
                    stored.push(Stored { kernel, ty, name, output, apart });
                }
            }
            stages.push(Pair {
                processor: self.processor.load(Arc::new(of_processor), memory)?,
                interpreter: Interpreter::default().load(Arc::new(of_interpreter), memory)?,
                stored,
            });
        }
        Ok(Box::new(Steps { whole, stages, passing, found: self.found.clone() }))
    }
}

impl Executable for Steps {
    fn program(&self) -> &Program {
        self.whole.program()
    }

    fn report(&self) -> &CompileReport {
        self.whole.report()
    }

    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        let mut found = self.found.lock().expect("no panic");
        for name in &self.passing {
            memory.state_mut::<u8>(name)?.fill(0xff);
        }
        for pair in &mut self.stages {
            for stored in &pair.stored {
                // A cache keeps what is not written.
                let before = if stored.output { vec![] } else { memory.state::<u8>(&stored.name)?.to_vec() };
                let apart = memory.state_mut::<u8>(&stored.apart)?;
                apart.fill(0xff);
                apart[..before.len()].copy_from_slice(&before);
            }
            pair.processor.run(memory, vars)?;
            pair.interpreter.run(memory, vars)?;
            for Stored { kernel, ty, name, output, apart } in &pair.stored {
                let want = if *output { memory.output::<u8>(name)?.to_vec() } else { memory.read_state::<u8>(name)? };
                let distance = distance(*ty, memory.state::<u8>(apart)?, &want);
                let worst = found.worst.entry(*ty).or_default();
                *worst = worst.max(distance);
                found.buffers += 1;
                if distance > 1.0 {
                    found.problems.push(format!("{kernel} stores {ty} {distance:.1} times as far as allowed"));
                }
            }
        }
        Ok(())
    }

    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64], clock: Clock) -> Result<Profile> {
        self.whole.run_profiled(memory, vars, clock)
    }
}

/// Runs steps of a model, and compares what each kernel stores.
fn check(shape: &str, numerics: Numerics, cache: CacheKind) {
    let file = synth(shape, "q4_0", Some(2));
    let found = Arc::new(Mutex::new(Found::default()));
    let beside = Beside { processor: cpu(2), found: found.clone() };
    let options = EngineOptions { compiler: support::options(numerics), context: 256, chunk: 192, cache };
    let mut engine = Engine::new(file, Arc::new(beside), options).expect("a model");
    let ids = tokens(STEPS.iter().sum(), VOCAB, 3);
    let mut at = 0;
    for count in STEPS {
        engine.step(&ids[at..at + count], at, count - 1..count).expect("a step");
        at += count;
        let mut found = found.lock().expect("no panic");
        let step = format!("{shape}, {numerics:?}, {count} tokens: ");
        found.problems.iter_mut().filter(|p| !p.starts_with(shape)).for_each(|p| p.insert_str(0, &step));
    }
    let found = found.lock().expect("no panic");
    let worst: Vec<String> = found.worst.iter().map(|(ty, worst)| format!("{ty} {worst:.2}")).collect();
    println!(
        "{shape}, {numerics:?}, cache of {cache}: {} buffers; of what is allowed, {}",
        found.buffers,
        worst.join(", ")
    );
    assert!(found.buffers > 50, "{shape}: {} buffers", found.buffers);
    assert!(found.problems.is_empty(), "{}", found.problems.join("\n"));
}

const SHAPES: [&str; 8] = [
    "tiny-mla-dense",
    "tiny-llama",
    "tiny-qwen2",
    "tiny-qwen3",
    "tiny-glm4",
    "tiny-mla-moe",
    "tiny-mla-softmax",
    "tiny-qwen3moe",
];

#[test]
fn every_kernel_stores_what_the_interpreter_does() {
    SHAPES.iter().for_each(|shape| check(shape, Numerics::Exact, CacheKind::F32));
}

#[test]
fn every_kernel_stores_what_the_interpreter_does_with_codes_of_8_bits() {
    SHAPES.iter().for_each(|shape| check(shape, Numerics::Int8, CacheKind::F16));
    ["tiny-llama", "tiny-mla-moe"].iter().for_each(|shape| check(shape, Numerics::Int8, CacheKind::Q8_0));
}

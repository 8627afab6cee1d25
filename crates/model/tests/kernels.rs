//! Every kernel of every tiny model, on the processor and in the interpreter: whatever a step stores is compared, buffer
//! by buffer, in steps of all classes.

use crate::support::{self, cpu, nmse, synth, tokens};
use compiler::Numerics;
use compiler::program::{BufferKind, Program};
use device::{CompileReport, Device, Executable, Interpreter, Memory, Profile, Result};
use gguf::Gguf;
use ir::{DType, Op, Space};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// NMSE of a buffer of floats: sums in another order, and what later kernels make of it.
const EXACT: f64 = 1e-9;

/// NMSE of a buffer where codes of 8 bits may be rounded the other way: 1e-6 after the first layer, and 3e-3 for the sums
/// of codes that the last step ends with. A kernel that is wrong is off by about 1.
const INT8: f64 = 1e-2;

const VOCAB: u32 = 512;

/// Lengths of the steps: a prompt that is read by runs, many tokens, few and one.
const STEPS: [usize; 5] = [192, 20, 5, 2, 1];

/// What a step stored: by buffer, its name in reports, the type of its elements, and its bytes.
type Stored = BTreeMap<String, (String, DType, Vec<u8>)>;

/// A device whose steps keep what every kernel stores: the buffers of the workspace become outputs.
struct Apart {
    inner: Arc<dyn Device>,
    stored: Arc<Mutex<Stored>>,
}

impl Device for Apart {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        let mut program = Arc::unwrap_or_clone(program);
        let mut kept: BTreeMap<usize, (String, String, DType)> = BTreeMap::new();
        for launch in program.stages.iter().flat_map(|stage| &stage.launches) {
            let Some(ir) = &program.kernels[launch.kernel].ir else { continue };
            let (graph, root) = &**ir;
            for id in graph.toposort(&[*root]) {
                if let Op::Buffer { slot, space: Space::Output, .. } = *graph.op(id) {
                    let buffer = launch.args[slot as usize];
                    let name = format!("{} {buffer}", program.name);
                    kept.insert(buffer, (name, launch.origin.clone(), graph.dtype(id)));
                }
            }
        }
        kept.retain(|&buffer, (name, ..)| match &mut program.buffers[buffer].kind {
            kind @ BufferKind::Arena(_) => {
                *kind = BufferKind::Output(name.clone());
                true
            }
            BufferKind::Output(own) => {
                name.clone_from(own);
                true
            }
            _ => false,
        });
        let executable = self.inner.load(Arc::new(program), memory)?;
        Ok(Box::new(Kept { executable, kept: kept.into_values().collect(), stored: self.stored.clone() }))
    }
}

struct Kept {
    executable: Box<dyn Executable>,
    kept: Vec<(String, String, DType)>,
    stored: Arc<Mutex<Stored>>,
}

impl Executable for Kept {
    fn program(&self) -> &Program {
        self.executable.program()
    }

    fn report(&self) -> &CompileReport {
        self.executable.report()
    }

    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        self.executable.run(memory, vars)?;
        let mut stored = self.stored.lock().expect("no panic");
        stored.clear();
        for (name, origin, ty) in &self.kept {
            stored.insert(name.clone(), (origin.clone(), *ty, memory.output::<u8>(name)?.to_vec()));
        }
        Ok(())
    }

    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<Profile> {
        self.executable.run_profiled(memory, vars)
    }
}

/// What each step stores on a device.
fn steps(file: &Arc<Gguf>, device: Arc<dyn Device>, numerics: Numerics) -> Vec<Stored> {
    let stored = Arc::new(Mutex::new(Stored::new()));
    let apart = Apart { inner: device, stored: stored.clone() };
    let compiler = support::options(numerics);
    let options = EngineOptions { compiler, context: 256, chunk: 192, cache: CacheKind::of(numerics) };
    let mut engine = Engine::new(file.clone(), Arc::new(apart), options).expect("a model");
    let ids = tokens(STEPS.iter().sum(), VOCAB, 3);
    let mut at = 0;
    let mut run = |&count: &usize| {
        engine.step(&ids[at..at + count], at, count - 1..count).expect("a step");
        at += count;
        stored.lock().expect("no panic").clone()
    };
    STEPS.iter().map(&mut run).collect()
}

/// How far a buffer is from the interpreter's, of which only what was written counts: the rest is all ones.
fn distance(ty: DType, got: &[u8], want: &[u8]) -> f64 {
    let size = ty.bytes();
    let pairs = got.chunks_exact(size).zip(want.chunks_exact(size));
    let written: Vec<(&[u8], &[u8])> = pairs.filter(|(_, want)| want.iter().any(|&b| b != 0xff)).collect();
    let number = |b: &[u8]| match ty {
        DType::F32 => f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        DType::I32 => i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32,
        DType::I8 => f32::from(b[0] as i8),
        DType::F16 => half::f16::from_le_bytes([b[0], b[1]]).to_f32(),
        DType::BF16 => half::bf16::from_le_bytes([b[0], b[1]]).to_f32(),
        _ => f32::from(b[0]),
    };
    let got: Vec<f32> = written.iter().map(|(got, _)| number(got)).collect();
    let want: Vec<f32> = written.iter().map(|(_, want)| number(want)).collect();
    if got == want { 0.0 } else { nmse(&got, &want) }
}

fn check(shape: &str, numerics: Numerics, most: f64) -> usize {
    let file = synth(shape, "q4_0", Some(2));
    let processor = steps(&file, cpu(2), numerics);
    let interpreted = steps(&file, Arc::new(Interpreter), numerics);
    let mut compared = 0;
    for ((got, want), count) in processor.iter().zip(&interpreted).zip(STEPS) {
        assert!(got.keys().eq(want.keys()) && !got.is_empty(), "{shape}: a step of {count} stores other buffers");
        for (name, (origin, ty, want)) in want {
            let error = distance(*ty, &got[name].2, want);
            assert!(error <= most, "{shape}, {numerics:?}, {count} tokens, {name} of {origin} ({ty:?}): {error:.1e}");
            compared += 1;
        }
    }
    compared
}

const DENSE: [&str; 5] = ["tiny-mla-dense", "tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-glm4"];

/// Their router takes another expert where a code is rounded the other way, so they are compared in `exact` alone.
const EXPERTS: [&str; 3] = ["tiny-mla-moe", "tiny-mla-softmax", "tiny-qwen3moe"];

#[test]
fn every_kernel_stores_what_the_interpreter_does() {
    for shape in DENSE.into_iter().chain(EXPERTS) {
        let compared = check(shape, Numerics::Exact, EXACT);
        println!("{shape}, exact: {compared} buffers");
    }
}

#[test]
fn every_kernel_stores_what_the_interpreter_does_with_codes_of_8_bits() {
    for shape in DENSE {
        let compared = check(shape, Numerics::Int8, INT8);
        println!("{shape}, int8: {compared} buffers");
    }
}

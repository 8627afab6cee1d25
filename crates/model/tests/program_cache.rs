//! Programs that were compiled before are found again, and are the same.

use crate::support::{self, synth, tokens};
use compiler::Numerics;
use compiler::program::Program;
use device::{Cpu, Device, Executable, Memory, Result};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const STEPS: [(usize, Class); 3] = [(128, Class::Prompt), (5, Class::Few), (1, Class::One)];

/// A processor that counts what it finds and keeps.
struct Counted {
    cpu: Cpu,
    found: AtomicUsize,
    kept: AtomicUsize,
}

impl Device for Counted {
    fn name(&self) -> String {
        self.cpu.name()
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        self.cpu.load(program, memory)
    }

    fn kept(&self, follows_from: &str) -> Option<Vec<u8>> {
        let found = self.cpu.kept(follows_from);
        self.found.fetch_add(usize::from(found.is_some()), Ordering::Relaxed);
        found
    }

    fn keep(&self, follows_from: &str, program: &[u8]) {
        self.kept.fetch_add(1, Ordering::Relaxed);
        self.cpu.keep(follows_from, program);
    }
}

/// Logits and logs of some steps of a model in a process with this cache folder, and how many programs were found there
/// and how many kept.
fn run(shape: &str, folder: &Path, context: i64) -> (Vec<u32>, String, [usize; 2]) {
    let cpu = Cpu::new(&support::cpu_config(folder)).expect("a C compiler");
    let device = Arc::new(Counted { cpu, found: AtomicUsize::new(0), kept: AtomicUsize::new(0) });
    let compiler = support::options(Numerics::Int8);
    let options = EngineOptions { compiler, context, chunk: 192, cache: CacheKind::F16 };
    let mut engine = Engine::new(synth(shape, "q4_0", None), device.clone(), options).expect("an engine");
    let ids = tokens(STEPS.iter().map(|step| step.0).sum(), 512, 5);
    let (mut logits, mut logs, mut at) = (vec![], String::new(), 0);
    for (count, class) in STEPS {
        assert_eq!(engine.class_of(count, at), class);
        logits.extend(engine.step(&ids[at..at + count], at, 0..count).expect("a step").iter().map(|v| v.to_bits()));
        let (program, log) = engine.program(class).expect("it has run");
        logs += &format!("{} {} {}\n{log}\n", program.name, program.launches(), program.arena_bytes);
        at += count;
    }
    (logits, logs, [&device.found, &device.kept].map(|count| count.load(Ordering::Relaxed)))
}

/// A folder of this test's own.
fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn a_second_process_compiles_nothing_and_computes_the_same() {
    for shape in ["tiny-mla-moe", "tiny-llama"] {
        let folder = fresh(&format!("kept-{shape}"));
        let (first, first_logs, counts) = run(shape, &folder, 256);
        assert_eq!(counts, [0, STEPS.len()], "{shape}");
        let (second, second_logs, counts) = run(shape, &folder, 256);
        assert_eq!(counts, [STEPS.len(), 0], "{shape}");
        assert!(first == second && first_logs == second_logs, "{shape}");
        let (.., counts) = run(shape, &folder, 512);
        assert_eq!(counts, [0, STEPS.len()], "{shape}: other sizes are other programs");
    }
}

#[test]
fn programs_are_compiled_where_none_can_be_kept() {
    let file = fresh("kept-nowhere");
    std::fs::write(&file, "in the way").expect("a file");
    let (first, .., counts) = run("tiny-llama", &file, 256);
    assert_eq!(counts, [0, STEPS.len()]);
    let (second, .., counts) = run("tiny-llama", &file, 256);
    assert_eq!(counts, [0, STEPS.len()]);
    assert_eq!(first, second);
    std::fs::remove_file(file).expect("it is still a file");
}

//! Small programs by hand, and a device whose cache lives as long as a test.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use compiler::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage, Variable};
use device::{CacheConfig, Cpu, CpuConfig, Device, Memory, ToolchainConfig};

pub const ARGS: &str = "void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch";

/// A folder that is removed when the test ends.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kernloom-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn config(folder: &Folder, threads: usize) -> CpuConfig {
    CpuConfig {
        threads,
        threads_batch: None,
        target: None,
        toolchain: ToolchainConfig::from_environment(),
        cache: CacheConfig {
            folder: Some(folder.join("cache")),
            ready: vec![],
            packs: vec![],
            trusted: vec![],
            temporary: folder.0.clone(),
        },
        compile_jobs: 2,
        progress: None,
        stop: None,
        stop_compiling: None,
    }
}

pub fn cpu(folder: &Folder, threads: usize) -> Cpu {
    let cpu = Cpu::new(&config(folder, threads)).unwrap();
    assert!(cpu.warnings().is_empty(), "{:?}", cpu.warnings());
    cpu
}

/// A program that is put together piece by piece.
pub struct Builder(Program);

impl Builder {
    pub fn new() -> Builder {
        Builder(Program { name: "test".into(), prelude: "#include <stdint.h>\n".into(), ..Program::default() })
    }

    pub fn var(&mut self, name: &str, min: i64, max: i64) -> Count {
        self.0.vars.push(Variable { name: name.into(), min, max });
        Count::Var(self.0.vars.len() - 1)
    }

    pub fn buffer(&mut self, kind: BufferKind, bytes: usize) -> usize {
        let name = format!("{kind:?}");
        self.0.buffers.push(Buffer { kind, bytes, name });
        self.0.buffers.len() - 1
    }

    pub fn arena(&mut self, bytes: usize) -> usize {
        let offset = self.0.arena_bytes;
        self.0.arena_bytes = offset + bytes.next_multiple_of(64);
        self.buffer(BufferKind::Arena(offset), bytes)
    }

    /// A kernel whose body runs once for each task `i`.
    pub fn kernel(&mut self, symbol: &str, body: &str) -> usize {
        let source =
            format!("void {symbol}({ARGS}) {{\n  for (int64_t i = begin; i < end; i++) {{\n    {body}\n  }}\n}}\n");
        self.source(symbol, &source)
    }

    pub fn source(&mut self, symbol: &str, source: &str) -> usize {
        self.add(Kernel::of_source(symbol, source, 64))
    }

    pub fn add(&mut self, kernel: Kernel) -> usize {
        self.0.kernels.push(kernel);
        self.0.kernels.len() - 1
    }

    pub fn stage(&mut self) -> &mut Self {
        self.0.stages.push(Stage::default());
        self
    }

    pub fn launch(&mut self, kernel: usize, args: &[usize], tasks: Count) -> &mut Self {
        let origin = format!("launch {}", self.0.launches());
        let launch = Launch { kernel, args: args.to_vec(), tasks, origin, ..Launch::default() };
        self.0.stages.last_mut().unwrap().launches.push(launch);
        self
    }

    pub fn program(&self) -> &Program {
        &self.0
    }

    pub fn build(self) -> Arc<Program> {
        Arc::new(self.0)
    }
}

/// A program of one kernel that writes `vars[0] + i + add` into output `y`.
pub fn counting(symbol: &str, add: i64, length: usize) -> Arc<Program> {
    let mut program = Builder::new();
    program.var("n", 0, 1000);
    let y = program.buffer(BufferKind::Output("y".into()), 8 * length);
    let body = format!("((int64_t *)bufs[0])[i] = vars[0] + i + {add};");
    let kernel = program.kernel(symbol, &body);
    program.stage().launch(kernel, &[y], Count::Const(length as i64));
    program.build()
}

/// Runs a program made by [`counting`] and checks what it wrote.
pub fn check_counting(device: &Cpu, program: &Arc<Program>, add: i64) -> device::CompileReport {
    let mut memory = Memory::new();
    let mut executable = device.load(program.clone(), &mut memory).unwrap();
    executable.run(&mut memory, &[100]).unwrap();
    let y = memory.output::<i64>("y").unwrap();
    for (i, value) in y.iter().enumerate() {
        assert_eq!(*value, 100 + i as i64 + add);
    }
    executable.report().clone()
}

//! What a stage costs when its kernels do nothing: the price of the barrier,
//! of taking tasks, and of calling a kernel through the pool.
//!
//! `cargo run --release --example barrier -- [threads]...`

use std::sync::Arc;
use std::time::{Duration, Instant};

use compiler::program::{Count, Kernel, Launch, Program, Stage};
use device::{Cpu, CpuConfig, Device, Memory, default_threads};

const STAGES: usize = 400;
const STEPS: usize = 200;

fn empty(tasks: i64, launches: usize) -> Arc<Program> {
    let launch = Launch {
        kernel: 0,
        args: Vec::new(),
        tasks: Count::Const(tasks),
        origin: "nothing".into(),
        bytes: Count::Const(0),
    };
    let stage = Stage {
        launches: vec![launch; launches],
    };
    Arc::new(Program {
        name: "empty".into(),
        prelude: "#include <stdint.h>\n".into(),
        kernels: vec![Kernel {
            symbol: "nothing".into(),
            source: "void nothing(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {}".into(),
            scratch_bytes: 0,
        }],
        stages: vec![stage; STAGES],
        ..Program::default()
    })
}

/// Median time of a step, with a pause before each.
fn step(cpu: &Cpu, program: Arc<Program>, pause: Duration) -> device::Result<Duration> {
    let mut memory = Memory::new();
    let mut executable = cpu.load(program, &mut memory)?;
    let mut times = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let start = Instant::now();
        executable.run(&mut memory, &[])?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[STEPS / 2])
}

fn main() -> device::Result<()> {
    let mut threads: Vec<usize> = std::env::args().skip(1).flat_map(|n| n.parse()).collect();
    if threads.is_empty() {
        threads = (1..=default_threads()).collect();
    }
    println!("{STAGES} stages of empty kernels, median of {STEPS} steps, us a stage");
    println!("threads  1 task  2 tasks  16 tasks  256 tasks  3 launches of 16  after a sleep");
    for threads in threads {
        let cpu = Cpu::new(&CpuConfig {
            threads,
            ..CpuConfig::from_environment()
        })?;
        let stage = |tasks, launches, pause| -> device::Result<f64> {
            let time = step(&cpu, empty(tasks, launches), pause)?;
            Ok(time.as_secs_f64() * 1e6 / STAGES as f64)
        };
        let awake = Duration::ZERO;
        println!(
            "{threads:7}  {:6.3}  {:7.3}  {:8.3}  {:9.3}  {:16.3}  {:13.3}",
            stage(1, 1, awake)?,
            stage(2, 1, awake)?,
            stage(16, 1, awake)?,
            stage(256, 1, awake)?,
            stage(16, 3, awake)?,
            stage(16, 1, Duration::from_millis(2))?,
        );
    }
    Ok(())
}

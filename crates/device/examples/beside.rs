//! What is left of the speed when other processes want the same cores: steps
//! of short stages alone, and beside threads that spin.
//!
//! `cargo run --release --example beside -- [threads] [microseconds a stage]`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use compiler::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage};
use device::{Cpu, CpuConfig, Device, Executable, Memory, default_threads};

const STAGES: usize = 400;
const TASKS: i64 = 64;

/// Multiply-adds of a task per microsecond and worker, about.
const ROUNDS_PER_MICROSECOND: f64 = 900.0;

fn program(threads: usize, stage_us: f64) -> Arc<Program> {
    let rounds = stage_us * threads as f64 / TASKS as f64 * ROUNDS_PER_MICROSECOND;
    let source = format!(
        "void work(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {{
            for (int64_t i = begin; i < end; i++) {{
                float sum = i;
                for (int j = 0; j < {}; j++) sum = sum * 0.5f + 1.0f;
                ((float *)bufs[0])[i] = sum;
            }}
        }}",
        rounds as i64
    );
    let launch =
        Launch { kernel: 0, args: vec![0], tasks: Count::Const(TASKS), origin: "work".into(), ..Launch::default() };
    Arc::new(Program {
        name: "work".into(),
        prelude: "#include <stdint.h>\n".into(),
        buffers: vec![Buffer { kind: BufferKind::Arena(0), bytes: 4 * TASKS as usize, name: "y".into() }],
        arena_bytes: 4 * TASKS as usize,
        kernels: vec![Kernel::of_source("work", source, 0)],
        stages: vec![Stage { launches: vec![launch] }; STAGES],
        ..Program::default()
    })
}

/// Steps a second over about two seconds.
fn rate(executable: &mut dyn Executable, memory: &mut Memory) -> device::Result<f64> {
    let start = Instant::now();
    let mut steps = 0;
    while start.elapsed() < Duration::from_secs(2) {
        executable.run(memory, &[])?;
        steps += 1;
    }
    Ok(f64::from(steps) / start.elapsed().as_secs_f64())
}

fn main() -> device::Result<()> {
    let mut args = std::env::args().skip(1);
    let threads = args.next().and_then(|n| n.parse().ok());
    let threads = threads.unwrap_or_else(default_threads);
    let stage_us = args.next().and_then(|n| n.parse().ok()).unwrap_or(100.0);
    let cpu = Cpu::new(&CpuConfig { threads, ..CpuConfig::from_environment() })?;
    let mut memory = Memory::new();
    let mut executable = cpu.load(program(threads, stage_us), &mut memory)?;
    rate(executable.as_mut(), &mut memory)?;
    let alone = rate(executable.as_mut(), &mut memory)?;
    println!("{threads} threads alone: {alone:.1} steps/s, {:.1} us a stage", 1e6 / alone / STAGES as f64);
    for spinners in 1..=2 {
        let stop = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            for _ in 0..spinners {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let beside = rate(executable.as_mut(), &mut memory);
            stop.store(true, Ordering::Relaxed);
            beside
        })?;
        println!("beside {spinners} spinning: {beside:.1} steps/s, {:.0}%", 100.0 * beside / alone);
    }
    Ok(())
}

//! A chain of dependent stages, each of which reads its own weights once, as
//! one token does: how close the pool comes to the bandwidth of memory.
//!
//! `cargo run --release --example chain -- [threads]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use compiler::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage};
use device::cpu::bandwidth;
use device::{Cpu, CpuConfig, Device, MachineLock, Memory, default_threads};

/// Bytes that a step reads.
const TOTAL: usize = 1 << 30;

/// A task reads this much, 8 rows of a matrix of 2048 columns at 4.5 bits.
const TASK: usize = 8 * 2048 * 9 / 16;

const SOURCE: &str = "
typedef uint64_t words __attribute__((vector_size(64)));
void stream(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {
    for (int64_t task = begin; task < end; task++) {
        const words *row = (const words *)((const char *)bufs[0] + task * TASK);
        words sum[4] = {0};
        for (int i = 0; i < TASK / 64; i += 4) {
            for (int j = 0; j < 4; j++) {
                __builtin_prefetch((const char *)&row[i + j] + 4096);
                sum[j] ^= row[i + j];
            }
        }
        sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
        // Depends on what the stage before wrote.
        const uint64_t *in = bufs[1];
        uint64_t *out = bufs[2];
        out[task] = sum[0][0] ^ sum[0][7] ^ in[0];
    }
}
";

fn chain(stage_bytes: usize) -> Arc<Program> {
    let tasks = stage_bytes.div_ceil(TASK);
    let stages = TOTAL / (tasks * TASK);
    let arena = |offset| Buffer { kind: BufferKind::Arena(offset), bytes: 8 * tasks, name: "activations".into() };
    let second = (8 * tasks).next_multiple_of(64);
    let mut buffers = vec![arena(0), arena(second)];
    let mut program = Program {
        name: "chain".into(),
        prelude: format!("#include <stdint.h>\n#define TASK {TASK}\n"),
        arena_bytes: 2 * second,
        kernels: vec![Kernel::of_source("stream", SOURCE, 0)],
        ..Program::default()
    };
    for stage in 0..stages {
        buffers.push(Buffer {
            kind: BufferKind::State(format!("weights {stage}")),
            bytes: tasks * TASK,
            name: "weights".into(),
        });
        program.stages.push(Stage {
            launches: vec![Launch {
                kernel: 0,
                args: vec![buffers.len() - 1, stage % 2, (stage + 1) % 2],
                tasks: Count::Const(tasks as i64),
                origin: format!("stage {stage}"),
                bytes: Count::Const((tasks * TASK) as i64),
                ..Launch::default()
            }],
        });
    }
    program.buffers = buffers;
    Arc::new(program)
}

fn main() -> device::Result<()> {
    let _alone = MachineLock::acquire(&MachineLock::default_path(), |holder| {
        eprintln!("waiting for {holder}");
    })?;
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let cpu =
        Cpu::new(&CpuConfig { threads: threads.unwrap_or_else(default_threads), ..CpuConfig::from_environment() })?;
    let mut peak = bandwidth::measure(&cpu, bandwidth::READ_BYTES)?.read / 1e9;
    println!("{}: one read of {TOTAL} bytes {peak:.1} GB/s", cpu.name());
    println!("best steps of two seconds; the read is measured again each time");
    println!("MB a stage  stages   GB/s  of peak  us a stage over its read");
    for stage_bytes in [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20] {
        let program = chain(stage_bytes);
        let mut memory = Memory::new();
        let mut executable = cpu.load(program.clone(), &mut memory)?;
        for stage in 0..program.stages.len() {
            memory.state_mut::<u8>(&format!("weights {stage}"))?.fill(1);
        }
        let mut best = Duration::MAX;
        let first = Instant::now();
        while first.elapsed() < Duration::from_secs(2) {
            let start = Instant::now();
            executable.run(&mut memory, &[])?;
            best = best.min(start.elapsed());
        }
        peak = peak.max(bandwidth::measure(&cpu, bandwidth::READ_BYTES)?.read / 1e9);
        let stages = program.stages.len();
        let bytes = (stages * stage_bytes.div_ceil(TASK) * TASK) as f64;
        let speed = bytes / best.as_secs_f64() / 1e9;
        let over = (best.as_secs_f64() - bytes / peak / 1e9) / stages as f64;
        println!(
            "{:10.2}  {stages:6}  {speed:5.1}  {:6.0}%  {:8.2}",
            stage_bytes as f64 / 1e6,
            100.0 * speed / peak,
            1e6 * over,
        );
    }
    Ok(())
}

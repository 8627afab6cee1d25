//! What a stage costs beside the work of its kernels: the barrier, taking
//! tasks, and calling kernels through the pool.
//!
//! `cargo run --release --example barrier -- [threads]...`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use compiler::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage};
use device::{Cpu, CpuConfig, Device, MachineLock, Memory, default_threads};

const STAGES: usize = 50;
const STEPS: usize = 2000;

/// A step of equal stages, whose tasks run for so many rounds.
fn program(launches: usize, tasks: i64, rounds: usize) -> Arc<Program> {
    let launch =
        Launch { kernel: 0, args: vec![0], tasks: Count::Const(tasks), origin: "stage".into(), ..Launch::default() };
    let source = format!(
        "void work(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {{
            uint64_t x = begin;
            for (int64_t i = begin; i < end && {rounds}; i++) {{
                for (int j = 0; j < {rounds}; j++) {{
                    x = x * 3 + 1;
                    __asm__ volatile(\"\" : \"+r\"(x));
                }}
                ((uint64_t *)bufs[0])[8 * i] = x;
            }}
        }}"
    );
    Arc::new(Program {
        name: "stages".into(),
        prelude: "#include <stdint.h>\n".into(),
        buffers: vec![Buffer { kind: BufferKind::Arena(0), bytes: 64 * tasks as usize, name: "y".into() }],
        arena_bytes: 64 * tasks as usize,
        kernels: vec![Kernel::of_source("work", source, 0)],
        stages: vec![Stage { launches: vec![launch; launches] }; STAGES],
        ..Program::default()
    })
}

/// Microseconds a stage, with a pause before each step. Steps are short and the
/// fifth percentile is taken, as other processes may want the cores.
fn stage(cpu: &Cpu, program: Arc<Program>, pause: Duration) -> device::Result<f64> {
    let mut memory = Memory::new();
    let mut executable = cpu.load(program, &mut memory)?;
    let mut times = Vec::with_capacity(STEPS);
    let steps = if pause.is_zero() { STEPS } else { STEPS / 10 };
    for _ in 0..steps {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let start = Instant::now();
        executable.run(&mut memory, &[])?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 20].as_secs_f64() * 1e6 / STAGES as f64)
}

/// Nanoseconds for a word to pass from one core to another; no barrier can be
/// faster than two of them. It depends on where the threads happen to be.
fn hop() -> f64 {
    const BLOCKS: u64 = 200;
    const ROUNDS: u64 = 500;
    let word = AtomicU64::new(0);
    let turns = |block: u64, mine: u64| {
        for round in block * ROUNDS..(block + 1) * ROUNDS {
            while word.load(Ordering::Acquire) != 2 * round + mine {
                std::hint::spin_loop();
            }
            word.store(2 * round + mine + 1, Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..BLOCKS).for_each(|block| turns(block, 0)));
        let times = (0..BLOCKS).map(|block| {
            let start = Instant::now();
            turns(block, 1);
            start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
        });
        // The threads may begin on one core.
        times.fold(f64::INFINITY, f64::min)
    })
}

fn main() -> device::Result<()> {
    let _alone = MachineLock::acquire(&MachineLock::default_path(), |holder| {
        eprintln!("waiting for {holder}");
    })?;
    let mut threads: Vec<usize> = std::env::args().skip(1).flat_map(|n| n.parse()).collect();
    if threads.is_empty() {
        threads = (1..=default_threads()).collect();
    }
    if !threads.contains(&1) {
        threads.insert(0, 1);
    }
    println!("{STAGES} stages, fifth percentile of {STEPS} steps, us a stage; 'work' is a stage of");
    println!("128 tasks a worker, 'over' what it takes longer than with one worker");
    println!("               --------------- empty stages ----------------");
    println!("threads   hop  1 task  2 tasks  64 tasks  3 x 64  after a nap   work  over");
    let mut alone = 0.0;
    let awake = Duration::ZERO;
    for threads in threads {
        let cpu = Cpu::new(&CpuConfig { threads, ..CpuConfig::from_environment() })?;
        let work = stage(&cpu, program(1, 128 * threads as i64, 130), awake)?;
        if threads == 1 {
            alone = work;
        }
        println!(
            "{threads:7}  {:4.0}  {:6.3}  {:7.3}  {:8.3}  {:6.3}  {:11.3}  {work:5.2}  {:4.2}",
            hop(),
            stage(&cpu, program(1, 1, 0), awake)?,
            stage(&cpu, program(1, 2, 0), awake)?,
            stage(&cpu, program(1, 64, 0), awake)?,
            stage(&cpu, program(3, 64, 0), awake)?,
            stage(&cpu, program(1, 64, 0), Duration::from_millis(2))?,
            work - alone,
        );
    }
    Ok(())
}

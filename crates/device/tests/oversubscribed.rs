//! More threads than cores must cost a share of the speed, not all of it: a
//! pool that only spins falls to a hundredth.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use compiler::program::{BufferKind, Count};
use device::{Device, Executable, Memory};
use support::{Builder, Folder, cpu};

fn steps_per_second(executable: &mut dyn Executable, memory: &mut Memory) -> f64 {
    let start = Instant::now();
    let mut steps = 0;
    while start.elapsed() < Duration::from_millis(400) {
        executable.run(memory, &[]).unwrap();
        steps += 1;
    }
    f64::from(steps) / start.elapsed().as_secs_f64()
}

#[test]
fn a_busy_machine_slows_steps_down_in_proportion() {
    let folder = Folder::new();
    let mut program = Builder::new();
    let y = program.buffer(BufferKind::State("y".into()), 8 * 64);
    let kernel = program.kernel("spin", "volatile int64_t *y = bufs[0]; for (int j = 0; j < 300; j++) y[i] += j;");
    for _ in 0..100 {
        program.stage().launch(kernel, &[y], Count::Const(64));
    }
    let program = program.build();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for threads in [cores, 2 * cores] {
        let cpu = cpu(&folder, threads);
        let mut memory = Memory::new();
        let mut executable = cpu.load(program.clone(), &mut memory).unwrap();
        // Other tests and processes share the machine: the best of three.
        let share = (0..3).map(|_| {
            let alone = steps_per_second(executable.as_mut(), &mut memory);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..cores {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
                let beside = steps_per_second(executable.as_mut(), &mut memory);
                stop.store(true, Ordering::Relaxed);
                beside / alone
            })
        });
        let share = share.fold(0.0, f64::max);
        println!("{threads} threads: {share:.2}");
        // About a half is expected, a hundredth of a pool that only spins: far from both.
        assert!(share > 0.05, "{threads} threads: {share:.2} of the speed");
    }
}

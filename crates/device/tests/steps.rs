//! Whole steps on the processor: dependencies, sharing, arguments, profiles.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use compiler::program::{BufferKind, Count, Program};
use device::{Clock, Cpu, CpuConfig, Device, Error, Isa, Memory, Null};
use support::{Builder, Folder, check_counting, config, counting, cpu};

/// A long chain: each stage adds two neighbours of the stage before, so that a
/// stage that starts too early or skips a task spoils the end.
fn chain(stages: usize, length: usize) -> (Arc<Program>, Vec<i64>) {
    let mut program = Builder::new();
    let n = program.var("n", 1, length as i64);
    let x = program.buffer(BufferKind::Input("x".into()), 8 * length);
    let y = program.buffer(BufferKind::Output("y".into()), 8 * length);
    let parts = [program.arena(8 * length), program.arena(8 * length)];
    let load = program.kernel("load", "((int64_t *)bufs[0])[i] = ((int64_t *)bufs[1])[i];");
    let mix = program.kernel(
        "mix",
        "const int64_t *in = bufs[1]; ((int64_t *)bufs[0])[i] = (in[i] + 3 * in[(i + 1) % vars[0]]) % 1000003;",
    );
    program.stage().launch(load, &[parts[0], x], n.clone());
    for stage in 0..stages {
        let (to, from) = (parts[(stage + 1) % 2], parts[stage % 2]);
        // Two launches that share a stage, and now and then a stage of one task.
        program.stage().launch(mix, &[to, from], n.clone());
        if stage % 5 == 0 {
            program.stage().launch(load, &[x, x], Count::Const(1));
        }
        if stage % 7 == 0 {
            program.stage().launch(load, &[x, x], Count::Const(0));
        }
    }
    program.stage().launch(load, &[y, parts[stages % 2]], n);
    let mut values: Vec<i64> = (0..length as i64).map(|i| i * i % 1009).collect();
    for _ in 0..stages {
        values = (0..length).map(|i| (values[i] + 3 * values[(i + 1) % length]) % 1_000_003).collect();
    }
    (program.build(), values)
}

/// What a chain begins with.
fn fill(memory: &mut Memory) {
    let x = memory.input_mut::<i64>("x").unwrap();
    (0..).zip(x).for_each(|(i, x)| *x = i * i % 1009);
}

#[test]
fn stages_depend_on_each_other_for_any_number_of_threads() {
    let folder = Folder::new();
    let (program, expected) = chain(60, 257);
    for threads in [1, 2, 3, 4, 8, 20] {
        let cpu = cpu(&folder, threads);
        let mut memory = Memory::new();
        let mut executable = cpu.load(program.clone(), &mut memory).unwrap();
        for _ in 0..20 {
            fill(&mut memory);
            executable.run(&mut memory, &[257]).unwrap();
            let y = memory.output::<i64>("y").unwrap();
            assert_eq!(y, expected, "{threads} threads");
        }
    }
}

#[test]
fn steps_of_many_tokens_have_workers_of_their_own() {
    let folder = Folder::new();
    let (few, expected) = chain(60, 257);
    let many = Arc::new(Program { many_tokens: true, ..(*few).clone() });
    for (threads, batch) in [(1, 3), (2, 5), (4, 1)] {
        let cpu = Cpu::new(&CpuConfig { threads_batch: Some(batch), ..config(&folder, threads) }).unwrap();
        assert_eq!((cpu.threads(), cpu.threads_batch()), (threads, batch));
        assert!(cpu.name().contains(&format!("{threads} threads ({batch} for prompts)")), "{}", cpu.name());
        let mut memory = Memory::new();
        let programs = [(few.clone(), threads), (many.clone(), batch)];
        let mut steps = programs.map(|(program, workers)| (cpu.load(program, &mut memory).unwrap(), workers));
        for _ in 0..3 {
            for (step, workers) in &mut steps {
                fill(&mut memory);
                let profile = step.run_profiled(&mut memory, &[257], Clock::Wall).unwrap();
                assert_eq!(profile.workers, *workers);
                assert_eq!(memory.output::<i64>("y").unwrap(), expected, "{workers} workers");
            }
        }
        assert_eq!(cpu.regions(), 6);
    }
    let same = Cpu::new(&CpuConfig { threads_batch: Some(2), ..config(&folder, 2) }).unwrap();
    assert!(!same.name().contains("prompts"), "{}", same.name());
}

#[test]
fn launches_of_one_stage_run_each_task_once() {
    let folder = Folder::new();
    let sizes = [1, 1000, 0, 7, 64, 333];
    let mut program = Builder::new();
    let count = program.kernel("count", "((int32_t *)bufs[0])[i]++;");
    program.stage();
    for (i, size) in sizes.into_iter().enumerate() {
        let state = program.buffer(BufferKind::State(format!("s{i}")), 4 * size);
        program.launch(count, &[state], Count::Const(size as i64));
    }
    let program = program.build();
    for threads in [1, 2, 5] {
        let mut memory = Memory::new();
        let mut executable = cpu(&folder, threads).load(program.clone(), &mut memory).unwrap();
        for round in 1..=50 {
            executable.run(&mut memory, &[]).unwrap();
            for i in 0..sizes.len() {
                let state = memory.state::<i32>(&format!("s{i}")).unwrap();
                assert!(state.iter().all(|value| *value == round));
            }
        }
    }
}

#[test]
fn programs_share_a_memory_and_a_device() {
    let folder = Folder::new();
    let cpu = cpu(&folder, 2);
    let add = |symbol: &str, arena: usize| {
        let mut program = Builder::new();
        let n = program.var("n", 1, 64);
        let state = program.buffer(BufferKind::State("sum".into()), 8 * 64);
        let scratch = program.arena(arena);
        let fill = program.kernel(&format!("{symbol}_fill"), "((int64_t *)bufs[0])[i] = i;");
        let add = program.kernel(symbol, "((int64_t *)bufs[0])[i] += ((int64_t *)bufs[1])[i];");
        program.stage().launch(fill, &[scratch], n.clone());
        program.stage().launch(add, &[state, scratch], n);
        program.build()
    };
    let mut memory = Memory::new();
    let mut small = cpu.load(add("small", 8 * 64), &mut memory).unwrap();
    small.run(&mut memory, &[64]).unwrap();
    // The second program moves the arena under the first.
    let mut large = cpu.load(add("large", 16 << 20), &mut memory).unwrap();
    for _ in 0..10 {
        small.run(&mut memory, &[64]).unwrap();
        large.run(&mut memory, &[32]).unwrap();
    }
    let sum = memory.state::<i64>("sum").unwrap();
    for (i, value) in (0..).zip(sum) {
        assert_eq!(*value, i * if i < 32 { 21 } else { 11 });
    }
    let mut other = Memory::new();
    let error = small.run(&mut other, &[64]).unwrap_err();
    assert!(matches!(error, Error::OtherMemory { .. }));
}

#[test]
fn two_threads_may_run_steps_on_one_device() {
    let folder = Folder::new();
    let cpu = cpu(&folder, 3);
    std::thread::scope(|scope| {
        for add in 0..3 {
            let cpu = &cpu;
            scope.spawn(move || {
                let program = counting(&format!("count_{add}"), add, 500);
                for _ in 0..20 {
                    check_counting(cpu, &program, add);
                }
            });
        }
    });
}

#[test]
fn weights_are_read_in_place_and_tables_are_placed() {
    let folder = Folder::new();
    let mut program = Builder::new();
    let w = program.buffer(BufferKind::Weight("w".into()), 40);
    let table: Vec<u8> = (0..10).flat_map(|i: i32| (i * 7).to_le_bytes()).collect();
    let table = program.buffer(BufferKind::Const(table), 40);
    let y = program.buffer(BufferKind::Output("y".into()), 40);
    let kernel = program
        .kernel("add", "((int32_t *)bufs[0])[i] = ((const int32_t *)bufs[1])[i] + ((const int32_t *)bufs[2])[i];");
    program.stage().launch(kernel, &[y, w, table], Count::Const(10));
    let program = program.build();
    let cpu = cpu(&folder, 2);
    let mut memory = Memory::new();
    let missing = cpu.load(program.clone(), &mut memory).err().unwrap();
    assert!(matches!(missing, Error::Weight { .. }), "{missing}");
    let bytes: Vec<u8> = (0..10).flat_map(|i: i32| i.to_le_bytes()).collect();
    memory.copy_weight("w", &bytes).unwrap();
    let mut executable = cpu.load(program, &mut memory).unwrap();
    executable.run(&mut memory, &[]).unwrap();
    let expected: Vec<i32> = (0..10).map(|i| 8 * i).collect();
    assert_eq!(memory.output::<i32>("y").unwrap(), expected);
}

#[test]
fn scratch_belongs_to_one_worker_at_a_time() {
    let folder = Folder::new();
    let mut program = Builder::new();
    let bad = program.buffer(BufferKind::State("bad".into()), 8 * 256);
    let kernel = program.kernel(
        "own",
        "volatile int64_t *own = scratch; own[0] = i; for (int j = 0; j < 2000; j++) if (own[0] != i) ((int64_t *)bufs[0])[i] = 1;",
    );
    program.stage().launch(kernel, &[bad], Count::Const(256));
    let program = program.build();
    let cpu = cpu(&folder, 4);
    let mut memory = Memory::new();
    let mut executable = cpu.load(program, &mut memory).unwrap();
    for _ in 0..50 {
        executable.run(&mut memory, &[]).unwrap();
    }
    assert!(memory.state::<i64>("bad").unwrap().iter().all(|b| *b == 0));
}

#[test]
fn the_host_may_use_the_threads_between_steps() {
    let folder = Folder::new();
    let program = counting("count", 0, 16);
    let mut memory = Memory::new();
    let devices: [Box<dyn Device>; 3] = [Box::new(cpu(&folder, 1)), Box::new(cpu(&folder, 3)), Box::new(Null)];
    for device in devices {
        let mut executable = device.load(program.clone(), &mut memory).unwrap();
        for count in [0, 1, 2, 7, 1000, 70_000] {
            executable.run(&mut memory, &[1000]).unwrap();
            let calls: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
            let call = |i: usize| {
                calls[i].fetch_add(1, Ordering::Relaxed);
            };
            device.parallel_for(count, &call).unwrap();
            assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1), "{count}");
        }
    }
    let error = cpu(&folder, 3).parallel_for(9, &|i| assert_ne!(i, 4)).unwrap_err();
    assert!(matches!(error, Error::WorkerPanicked { .. }), "{error}");
}

#[test]
fn variables_are_checked_before_anything_runs() {
    let folder = Folder::new();
    let program = counting("count", 0, 16);
    let mut memory = Memory::new();
    let devices: [Box<dyn Device>; 2] = [Box::new(cpu(&folder, 2)), Box::new(Null)];
    for device in devices {
        let mut executable = device.load(program.clone(), &mut memory).unwrap();
        let error = executable.run(&mut memory, &[1001]).unwrap_err();
        assert_eq!(error.to_string(), "program test: n = 1001 is outside 0..=1000");
        let error = executable.run(&mut memory, &[-1]).unwrap_err();
        assert!(matches!(error, Error::VariableRange { .. }));
        let error = executable.run(&mut memory, &[1, 2]).unwrap_err();
        assert!(matches!(error, Error::VariableCount { got: 2, .. }));
        executable.run(&mut memory, &[1000]).unwrap();
    }
}

#[test]
fn an_impossible_number_of_tasks_leaves_the_program_usable() {
    let folder = Folder::new();
    let mut program = Builder::new();
    let n = program.var("n", -5, 5);
    let y = program.buffer(BufferKind::State("y".into()), 64);
    let kernel = program.kernel("count", "((int64_t *)bufs[0])[i]++;");
    program.stage().launch(kernel, &[y], n);
    let cpu = cpu(&folder, 2);
    let mut memory = Memory::new();
    let mut executable = cpu.load(program.build(), &mut memory).unwrap();
    executable.run(&mut memory, &[5]).unwrap();
    let error = executable.run(&mut memory, &[-1]).unwrap_err().to_string();
    assert!(error.contains("launch 0 has an impossible number"), "{error}");
    executable.run(&mut memory, &[0]).unwrap();
    executable.run(&mut memory, &[3]).unwrap();
    assert_eq!(memory.state::<i64>("y").unwrap()[..6], [2, 2, 2, 1, 1, 0]);
}

#[test]
fn a_profile_adds_up() {
    let folder = Folder::new();
    let spin = "volatile int64_t *y = bufs[0]; for (int j = 0; j < 20000; j++) y[i] += j;";
    let mut program = Builder::new();
    let n = program.var("n", 0, 64);
    let y = program.buffer(BufferKind::State("y".into()), 8 * 64);
    let z = program.buffer(BufferKind::State("z".into()), 8 * 64);
    let kernel = program.kernel("spin", spin);
    program.stage().launch(kernel, &[y], n.clone());
    program.stage().launch(kernel, &[y], Count::Const(8)).launch(kernel, &[z], Count::Const(24));
    program.stage().launch(kernel, &[y], Count::Const(0));
    for threads in [1, 2] {
        let cpu = cpu(&folder, threads);
        let mut memory = Memory::new();
        let mut executable = cpu.load(program_of(&program), &mut memory).unwrap();
        executable.run(&mut memory, &[64]).unwrap();
        // The least of several: another process may take the processor in the middle of any of them.
        let (mut least, mut least_rest) = ([u64::MAX; 2], f64::INFINITY);
        for _ in 0..10 {
            let profile = executable.run_profiled(&mut memory, &[64], Clock::Wall).unwrap();
            let walls = profile.launches.iter().map(|launch| launch.wall_ns);
            least.iter_mut().zip(walls).for_each(|(least, wall)| *least = wall.min(*least));
            least_rest = least_rest.min(profile.rest_ns as f64 / profile.wall_ns as f64);
        }
        assert!(least[0] > least[1], "64 tasks and 8 of them: {least:?} ns");
        assert!(least_rest < 0.5, "{least_rest} of the time is in no launch");
        let profile = executable.run_profiled(&mut memory, &[64], Clock::Wall).unwrap();
        assert_eq!((profile.stages.len(), profile.launches.len()), (3, 4));
        let stages: u64 = profile.stages.iter().map(|stage| stage.wall_ns).sum();
        assert_eq!(stages + profile.rest_ns, profile.wall_ns);
        for stage in &profile.stages {
            let launches = &profile.launches[stage.launches.clone()];
            let wall: u64 = launches.iter().map(|launch| launch.wall_ns).sum();
            assert!(stage.busy_ns == 0 || wall == stage.wall_ns);
            assert!(stage.busy_ns <= stage.wall_ns * threads as u64);
        }
        let tasks: Vec<_> = profile.launches.iter().map(|l| l.tasks).collect();
        assert_eq!(tasks, [64, 8, 24, 0]);
        assert_eq!(profile.stages[2].wall_ns, 0);
        assert_eq!(profile.launches[0].origin, "launch 0");
    }
}

fn program_of(builder: &Builder) -> Arc<Program> {
    Arc::new(builder.program().clone())
}

#[test]
fn every_level_of_this_machine_runs_and_has_its_own_kernels() {
    let folder = Folder::new();
    let levels = Isa::available();
    for (i, isa) in levels.iter().enumerate() {
        let mut config = config(&folder, 2);
        config.target = Some(device::Target::detect(Some(*isa)).unwrap());
        let cpu = device::Cpu::new(&config).unwrap();
        if cpu.target().isa != *isa {
            continue; // The compiler is older than the machine.
        }
        assert!(cpu.name().contains(isa.name()));
        let mut program = Builder::new();
        let y = program.buffer(BufferKind::Output("y".into()), 16);
        let kernel = program.kernel(
            "levels",
            "#if defined(__AVX512VNNI__)\n((int32_t *)bufs[0])[i] = 4;\n#elif defined(__AVX512BW__)\n((int32_t *)bufs[0])[i] = 3;\n#elif defined(__AVX2__)\n((int32_t *)bufs[0])[i] = 2;\n#else\n((int32_t *)bufs[0])[i] = 1;\n#endif",
        );
        program.stage().launch(kernel, &[y], Count::Const(4));
        let mut memory = Memory::new();
        let mut executable = cpu.load(program.build(), &mut memory).unwrap();
        assert_eq!(executable.report().compiled, 1, "level {i} compiles anew");
        executable.run(&mut memory, &[]).unwrap();
        let expected = match isa {
            Isa::Avx512Vnni => 4,
            Isa::Avx512 => 3,
            Isa::Avx2 | Isa::AvxVnni => 2,
            _ => 1,
        };
        assert_eq!(memory.output::<i32>("y").unwrap(), [expected; 4]);
    }
}

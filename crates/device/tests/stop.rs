//! Steps that are told to end.

use crate::support::{Builder, Folder, config};
use compiler::program::{BufferKind, Count};
use device::{Clock, Cpu, Device, Error, Memory};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const STAGES: usize = 50;

#[test]
fn a_step_ends_where_it_is_told_to_and_the_next_is_whole() {
    let folder = Folder::new();
    let mut program = Builder::new();
    let y = program.buffer(BufferKind::State("y".into()), 8);
    let kernel = program.kernel("next", "((int64_t *)bufs[0])[0] += 1;");
    for _ in 0..STAGES {
        program.stage().launch(kernel, &[y], Count::Const(1));
    }
    let program = program.build();
    // How many times more the answer is no.
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let asked = left.clone();
    let mut config = config(&folder, 2);
    config.stop = Some(Arc::new(move || {
        let less = |left: usize| if left == usize::MAX { None } else { Some(left.saturating_sub(1)) };
        asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Ok(0)
    }));
    let cpu = Cpu::new(&config).unwrap();
    let mut memory = Memory::new();
    let mut step = cpu.load(program, &mut memory).unwrap();
    let count = |memory: &mut Memory| memory.state_mut::<i64>("y").unwrap()[0] as usize;
    step.run(&mut memory, &[]).unwrap();
    assert_eq!(count(&mut memory), STAGES);
    left.store(STAGES / 2, Ordering::Relaxed);
    assert!(matches!(step.run(&mut memory, &[]), Err(Error::Stopped)));
    assert_eq!(count(&mut memory), STAGES + STAGES / 2);
    assert!(matches!(step.run_profiled(&mut memory, &[], Clock::Wall), Err(Error::Stopped)));
    left.store(usize::MAX, Ordering::Relaxed);
    step.run(&mut memory, &[]).unwrap();
    assert_eq!(count(&mut memory), 2 * STAGES + STAGES / 2);
}

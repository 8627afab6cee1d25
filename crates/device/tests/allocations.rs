//! A step allocates nothing, on no thread.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use compiler::program::{BufferKind, Count};
use device::{Device, Memory};
use support::{Builder, Folder, cpu};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steps_do_not_allocate() {
    let folder = Folder::new();
    let program = |symbol: &str| {
        let mut program = Builder::new();
        let n = program.var("n", 0, 256);
        let tiles = Count::CeilDiv(
            Box::new(Count::Mul(
                Box::new(n.clone()),
                Box::new(Count::Add(Box::new(Count::Const(1)), Box::new(Count::Const(2)))),
            )),
            3,
        );
        let x = program.buffer(BufferKind::Input("x".into()), 8 * 256);
        let y = program.buffer(BufferKind::State("y".into()), 8 * 256);
        let kernel = program.kernel(symbol, "((int64_t *)bufs[0])[i] += ((int64_t *)bufs[1])[i];");
        for _ in 0..20 {
            program.stage().launch(kernel, &[y, x], n.clone());
            program.stage().launch(kernel, &[y, x], tiles.clone());
            program.stage().launch(kernel, &[y, x], Count::Const(1));
        }
        program.build()
    };
    for threads in [1, 2, 3] {
        let cpu = cpu(&folder, threads);
        let mut memory = Memory::new();
        let mut one = cpu.load(program("one"), &mut memory).unwrap();
        let mut two = cpu.load(program("two"), &mut memory).unwrap();
        // Threads set up what is theirs when they first wait.
        one.run(&mut memory, &[3]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        two.run(&mut memory, &[3]).unwrap();
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        for step in 0..200 {
            if step % 50 == 0 {
                // Long enough for workers to fall asleep.
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            one.run(&mut memory, &[step % 257]).unwrap();
            two.run(&mut memory, &[7]).unwrap();
        }
        let after = ALLOCATIONS.load(Ordering::SeqCst);
        assert_eq!(after - before, 0, "{threads} threads");
    }
}

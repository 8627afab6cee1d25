//! A step allocates nothing, on any thread.

mod support;

use compiler::Numerics;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{cpu, synth, tokens};

/// The system's allocator, and how often it was asked.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(start, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Steps of one size before allocations are counted.
const WARM: usize = 2;

/// Steps in which they are.
const COUNTED: usize = 8;

// One test: the count is of the whole process.
#[test]
fn a_warm_step_allocates_nothing() {
    for (shape, numerics, cache) in [
        ("tiny-llama", Numerics::Int8, CacheKind::F16),
        ("tiny-mla-moe", Numerics::Exact, CacheKind::F32),
        ("tiny-mla-dense", Numerics::Int8, CacheKind::Q8_0),
    ] {
        let options = EngineOptions { compiler: support::options(numerics), context: 256, chunk: 64, cache };
        let mut engine = Engine::new(synth(shape, "q4_0", None), cpu(2), options).expect("an engine");
        let mut at = 0;
        for count in [12, 5, 1] {
            for step in 0..WARM + COUNTED {
                let ids = tokens(count, 512, step as u32);
                let before = ASKED.load(Ordering::Relaxed);
                engine.step(&ids, at, count - 1..count).expect("a step");
                let asked = ASKED.load(Ordering::Relaxed) - before;
                assert!(step < WARM || asked == 0, "{shape}: {asked} allocations in a step of {count} tokens");
                at += count;
            }
        }
    }
}

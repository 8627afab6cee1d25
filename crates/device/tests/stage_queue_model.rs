//! The queue of stages under a model checker, which tries the orders
//! in which two or three workers can meet (within a bound on preemptions) and
//! the stale values that each may read.

use std::ops::Range;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[path = "../src/cpu/stage_queue.rs"]
#[allow(dead_code)]
mod stage_queue;

/// The queue's atomics are loom's here.
mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

use stage_queue::{Shares, StageQueue};

/// The steps of a model: the units of each stage of each step.
type Plan = &'static [&'static [u32]];

/// What a pool would share, with data that must never be touched by two.
struct Model {
    queue: StageQueue,
    workers: usize,
    base: AtomicU64,
    units: Vec<AtomicU32>,
    /// Of each stage and unit, how many steps ran it.
    cells: Vec<Vec<UnsafeCell<u32>>>,
    last: u64,
}

// SAFETY: loom's cells panic when two threads touch one without order, which
// is what the tests are for.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn new(plan: Plan, workers: usize, group: usize) -> Model {
        let stages = plan[0].len();
        let widest = *plan.iter().flat_map(|step| *step).max().unwrap();
        let queue = StageQueue::new(workers, group);
        Model {
            // Every step is announced by one epoch of its own.
            last: queue.epoch() + (plan.len() * (stages + 1)) as u64,
            queue,
            workers,
            base: AtomicU64::new(u64::MAX),
            units: (0..stages).map(|_| AtomicU32::new(0)).collect(),
            cells: (0..stages).map(|_| (0..widest).map(|_| UnsafeCell::new(0)).collect()).collect(),
        }
    }

    fn stage(&self, epoch: u64) -> Option<usize> {
        let base = self.base.load(Ordering::Acquire);
        let stage = epoch.checked_sub(base)? as usize;
        (stage < self.units.len()).then_some(stage)
    }

    /// A unit reads what the stage before wrote, all of it, and writes its own.
    fn run(&self, stage: usize, units: Range<u32>) {
        if let Some(before) = stage.checked_sub(1) {
            let before = self.units[before].load(Ordering::Relaxed);
            for other in 0..before {
                // SAFETY: checked by loom.
                self.cells[stage - 1][other as usize].with(|cell| unsafe { assert!(*cell > 0) });
            }
        }
        for unit in units {
            // SAFETY: checked by loom.
            self.cells[stage][unit as usize].with_mut(|cell| unsafe { *cell += 1 });
        }
    }

    fn take_part(&self, worker: usize, epoch: u64, stage: usize) {
        let units = self.units[stage].load(Ordering::Acquire);
        let shares = Shares::new(units, self.workers);
        for i in 0..shares.count() {
            let share = (worker + i) % shares.count();
            let mut done = 0;
            while let Some(units) = self.queue.claim(epoch, shares, share) {
                done += units.end - units.start;
                self.run(stage, units);
            }
            if done > 0 && self.queue.finish(epoch, shares, share, done, || epoch + 1) {
                return;
            }
            if self.queue.epoch() != epoch {
                return;
            }
        }
    }

    /// A worker, which may leave early: nobody depends on one that holds
    /// nothing, and loom lets two threads that wait for a third starve it.
    fn serve(&self, worker: usize) {
        let mut patience = 3;
        while patience > 0 {
            let epoch = self.queue.epoch();
            if epoch >= self.last {
                return;
            }
            if let Some(stage) = self.stage(epoch) {
                self.take_part(worker, epoch, stage);
            }
            if self.queue.epoch() == epoch {
                patience -= 1;
                loom::thread::yield_now();
            }
        }
    }

    fn call(&self, plan: Plan) {
        let mut due = vec![vec![0; self.cells[0].len()]; self.cells.len()];
        for step in plan {
            let idle = self.queue.epoch();
            for (units, now) in self.units.iter().zip(*step) {
                units.store(*now, Ordering::Release);
            }
            self.base.store(idle + 1, Ordering::Release);
            self.queue.open(idle + 1);
            loop {
                let epoch = self.queue.epoch();
                let Some(stage) = self.stage(epoch) else {
                    break;
                };
                self.take_part(0, epoch, stage);
                if self.queue.epoch() == epoch {
                    loom::thread::yield_now();
                }
            }
            // Nobody else may be inside: the host looks at everything, alone.
            for (stage, units) in step.iter().enumerate() {
                for (unit, cell) in self.cells[stage].iter().enumerate() {
                    let due = &mut due[stage][unit];
                    *due += u32::from((unit as u32) < *units);
                    // SAFETY: checked by loom.
                    cell.with_mut(|cell| assert_eq!(unsafe { *cell }, *due));
                }
            }
        }
    }
}

fn check(plan: Plan, workers: usize, group: usize, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    // Unoptimised, one preemption less is what a minute allows.
    builder.preemption_bound = Some(preemptions - usize::from(cfg!(debug_assertions)));
    builder.check(move || {
        let model = Arc::new(Model::new(plan, workers, group));
        let threads: Vec<_> = (1..workers)
            .map(|worker| {
                let model = model.clone();
                loom::thread::spawn(move || model.serve(worker))
            })
            .collect();
        model.call(plan);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn two_workers_and_two_stages() {
    check(&[&[2, 2]], 2, 8, 3);
}

#[test]
fn stages_of_one_unit() {
    check(&[&[1, 2, 1]], 2, 8, 3);
}

#[test]
fn a_step_whose_units_shrink_and_one_whose_grow() {
    check(&[&[2], &[1]], 2, 8, 3);
    check(&[&[1], &[3]], 2, 8, 3);
}

#[test]
fn shares_counted_in_groups() {
    check(&[&[2, 1, 3]], 2, 1, 3);
    check(&[&[3]], 3, 2, 2);
}

//! The worker threads of a device, and how they wait.
//!
//! One parallel region per step: workers go through all stages by themselves
//! (see [`crate::cpu::stage_queue`]). Who has nothing to do spins for a few tens of
//! microseconds, as most stages are shorter than a wake-up, and then sleeps,
//! as a spinning thread may be what keeps the working one off its core.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cpu::stage_queue::{GROUP, Shares, StageQueue};
use crate::cpu::turns::Turns;
use crate::error::{Error, Result, text_of};

/// How long a worker spins before it sleeps.
pub(crate) const SPIN: Duration = Duration::from_micros(30);

/// Polls between two looks at the clock.
const POLLS: usize = 32;

/// Stack of a worker; kernels may keep tiles there.
const STACK_BYTES: usize = 4 << 20;

/// What the units of a step do.
pub(crate) trait Work: Sync {
    /// Runs some units of a stage on a worker. Stages run one after the
    /// other; the units of one stage run in any order and at the same time.
    fn run(&self, worker: usize, stage: usize, units: Range<u32>);
}

/// The number of units of each stage of a step.
#[derive(Debug)]
pub(crate) struct Stages {
    /// The epoch of the first stage.
    base: AtomicU64,
    units: Box<[AtomicU32]>,
}

impl Stages {
    /// Stages without units.
    pub(crate) fn new(count: usize) -> Arc<Stages> {
        Arc::new(Stages { base: AtomicU64::new(u64::MAX), units: (0..count).map(|_| AtomicU32::new(0)).collect() })
    }

    /// Sets the units of a stage; not while the step runs.
    pub(crate) fn set(&self, stage: usize, units: u32) {
        self.units[stage].store(units, Ordering::Release);
    }

    fn units(&self, stage: usize) -> u32 {
        self.units[stage].load(Ordering::Acquire)
    }

    /// The stage that an epoch stands for, if the step is under way in it.
    fn stage(&self, epoch: u64) -> Option<usize> {
        let base = self.base.load(Ordering::Acquire);
        let stage = usize::try_from(epoch.checked_sub(base)?).ok()?;
        (stage < self.units.len()).then_some(stage)
    }

    /// The first epoch from this one on that has work, or the end of the step.
    fn next_with_work(&self, mut epoch: u64) -> u64 {
        while self.stage(epoch).is_some_and(|stage| self.units(stage) == 0) {
            epoch += 1;
        }
        epoch
    }
}

/// A pool of workers; the thread that calls [`Pool::run`] is one of them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Of the callers whose steps are to run.
    turns: Turns,
}

struct Shared {
    queue: StageQueue,
    workers: usize,
    spin: Duration,
    /// The step that runs, or the last one that did.
    stages: Mutex<Option<Arc<Stages>>>,
    /// Changes when `stages` does.
    step: AtomicU64,
    /// What its units do; valid while a stage is open.
    work: UnsafeCell<Option<*const dyn Work>>,
    panicked: Mutex<Option<String>>,
    any_panicked: AtomicBool,
    stop: AtomicBool,
    sleep: Mutex<()>,
    sleepers: AtomicUsize,
    worker_bell: Condvar,
    caller_sleeps: AtomicBool,
    caller_bell: Condvar,
}

// SAFETY: only `work` is not `Sync` by itself. The caller of `run` writes it
// while no stage is open; workers read it only with units in hand, which they
// can only have after they saw a stage open.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `work` is to a `Sync` value that outlives the step.
unsafe impl Send for Shared {}

impl Pool {
    /// Starts `workers - 1` threads.
    ///
    /// # Errors
    /// [`Error::Threads`] if the system refuses.
    pub(crate) fn new(workers: usize, spin: Duration) -> Result<Pool> {
        let workers = workers.max(1);
        let shared = Arc::new(Shared {
            queue: StageQueue::new(workers, GROUP),
            workers,
            spin,
            stages: Mutex::new(None),
            step: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            panicked: Mutex::new(None),
            any_panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleep: Mutex::new(()),
            sleepers: AtomicUsize::new(0),
            worker_bell: Condvar::new(),
            caller_sleeps: AtomicBool::new(false),
            caller_bell: Condvar::new(),
        });
        let mut pool = Pool { shared, threads: Vec::with_capacity(workers - 1), turns: Turns::default() };
        for worker in 1..workers {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("kernloom-{worker}"))
                .stack_size(STACK_BYTES)
                .spawn(move || shared.serve(worker));
            match thread {
                Ok(thread) => pool.threads.push(thread),
                Err(source) => {
                    return Err(Error::Threads { threads: workers, source });
                }
            }
        }
        Ok(pool)
    }

    /// The number of workers, the caller included.
    pub(crate) fn workers(&self) -> usize {
        self.shared.workers
    }

    /// How many parallel regions were asked for.
    pub(crate) fn regions(&self) -> u64 {
        self.turns.asked()
    }

    /// Runs a step as one parallel region; returns when all its units are done. Steps of several
    /// callers take turns, in the order in which they come.
    ///
    /// # Errors
    /// [`Error::WorkerPanicked`] if a unit did.
    pub(crate) fn run(&self, stages: &Arc<Stages>, work: &dyn Work) -> Result<()> {
        let _turn = self.turns.take();
        let shared = &*self.shared;
        if shared.workers == 1 {
            for stage in 0..stages.units.len() {
                match stages.units(stage) {
                    0 => {}
                    units => shared.run_units(work, 0, stage, 0..units),
                }
            }
            return shared.verdict();
        }
        shared.announce(stages);
        let idle = shared.queue.epoch();
        stages.base.store(idle + 1, Ordering::Release);
        let first = stages.next_with_work(idle + 1);
        // SAFETY: no stage is open, so no worker reads the cell. The lifetime
        // is cut off the pointer because it is followed only while a stage of
        // this step is open, and this function returns after the last one.
        unsafe {
            *shared.work.get() = Some(std::mem::transmute::<*const (dyn Work + '_), *const (dyn Work + 'static)>(work));
        }
        shared.queue.open(first);
        shared.ring(stages, first);
        loop {
            let epoch = shared.queue.epoch();
            let Some(stage) = stages.stage(epoch) else {
                break;
            };
            if !shared.take_part(0, stages, epoch, stage) {
                shared.wait(0, epoch);
            }
        }
        shared.verdict()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(lock(&self.shared.sleep));
        self.shared.worker_bell.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The life of a worker thread.
    fn serve(&self, worker: usize) {
        let mut stages: Option<Arc<Stages>> = None;
        let mut known = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let epoch = self.queue.epoch();
            // Read after the epoch: an open stage is of this step or an older
            // one, and of an older one nothing can be claimed.
            let step = self.step.load(Ordering::Acquire);
            if step != known {
                stages = lock(&self.stages).clone();
                known = step;
            }
            let moved = match stages.as_deref() {
                Some(stages) => stages.stage(epoch).is_some_and(|stage| self.take_part(worker, stages, epoch, stage)),
                None => false,
            };
            if !moved {
                self.wait(worker, epoch);
            }
        }
    }

    /// Makes the step known to the workers, unless it was the last one too.
    fn announce(&self, stages: &Arc<Stages>) {
        let mut current = lock(&self.stages);
        if current.as_ref().is_none_or(|known| !Arc::ptr_eq(known, stages)) {
            *current = Some(stages.clone());
            self.step.fetch_add(1, Ordering::Release);
        }
    }

    /// Works on a stage until it has no units left to take. Says whether the
    /// stage is over.
    fn take_part(&self, worker: usize, stages: &Stages, epoch: u64, stage: usize) -> bool {
        let shares = Shares::new(stages.units(stage), self.workers);
        for i in 0..shares.count() {
            let share = (worker + i) % shares.count();
            let mut done = 0;
            while let Some(units) = self.queue.claim(epoch, shares, share) {
                done += units.end - units.start;
                // SAFETY: units in hand keep the stage open, and with it the
                // caller of `run`, who has lent the work for the step.
                let work = unsafe { (*self.work.get()).map(|work| &*work) };
                if let Some(work) = work {
                    self.run_units(work, worker, stage, units);
                }
            }
            if done > 0 {
                let mut opened = epoch;
                let over = self.queue.finish(epoch, shares, share, done, || {
                    opened = stages.next_with_work(epoch + 1);
                    opened
                });
                if over {
                    self.ring(stages, opened);
                    return true;
                }
            }
            if self.queue.epoch() != epoch {
                return true;
            }
        }
        false
    }

    fn run_units(&self, work: &dyn Work, worker: usize, stage: usize, units: Range<u32>) {
        // Units that panicked count as done, so that nobody waits for them.
        let run = AssertUnwindSafe(|| work.run(worker, stage, units));
        if let Err(payload) = catch_unwind(run) {
            lock(&self.panicked).get_or_insert_with(|| text_of(&*payload));
            self.any_panicked.store(true, Ordering::Release);
        }
    }

    fn verdict(&self) -> Result<()> {
        if !self.any_panicked.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let message = lock(&self.panicked).take();
        Err(Error::WorkerPanicked { message: message.unwrap_or_default() })
    }

    /// Returns when the epoch is over, or the pool.
    fn wait(&self, worker: usize, epoch: u64) {
        let over = || self.queue.epoch() != epoch || self.stop.load(Ordering::Relaxed);
        let poll = || {
            (0..POLLS).any(|_| {
                std::hint::spin_loop();
                over()
            })
        };
        if poll() {
            return;
        }
        let start = Instant::now();
        while start.elapsed() < self.spin {
            if poll() {
                return;
            }
        }
        self.sleep(worker, over);
    }

    fn sleep(&self, worker: usize, over: impl Fn() -> bool) {
        let mut guard = lock(&self.sleep);
        // Announced before the last look at the epoch; `ring` looks for
        // sleepers after it has moved the epoch. One of the two sees the other.
        let bell = if worker == 0 {
            self.caller_sleeps.store(true, Ordering::SeqCst);
            &self.caller_bell
        } else {
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            &self.worker_bell
        };
        while !over() {
            guard = bell.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        if worker == 0 {
            self.caller_sleeps.store(false, Ordering::SeqCst);
        } else {
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Wakes those who can be of use in the epoch just opened.
    fn ring(&self, stages: &Stages, epoch: u64) {
        let units = stages.stage(epoch).map(|stage| stages.units(stage));
        // A stage with one unit is left to whoever is awake.
        let wide = units.is_some_and(|units| units > 1);
        if wide && self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.sleep));
            self.worker_bell.notify_all();
        }
        if (wide || units.is_none()) && self.caller_sleeps.load(Ordering::SeqCst) {
            drop(lock(&self.sleep));
            self.caller_bell.notify_all();
        }
    }
}

/// Locks also after a panic: no lock of the pool is held across foreign code.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the runs of each unit, and checks the order of stages.
    struct Counter {
        units: Vec<Vec<AtomicU32>>,
        due: AtomicU32,
        slow: bool,
        panic_at: Option<(usize, u32)>,
    }

    impl Counter {
        fn new(units: &[u32]) -> Counter {
            let counters = |n: &u32| (0..*n).map(|_| AtomicU32::new(0)).collect();
            Counter { units: units.iter().map(counters).collect(), due: AtomicU32::new(1), slow: false, panic_at: None }
        }
    }

    impl Work for Counter {
        fn run(&self, worker: usize, stage: usize, units: Range<u32>) {
            let due = self.due.load(Ordering::Relaxed);
            for before in &self.units[..stage] {
                assert!(before.iter().all(|u| u.load(Ordering::Relaxed) == due));
            }
            for after in &self.units[stage + 1..] {
                assert!(after.iter().all(|u| u.load(Ordering::Relaxed) == due - 1));
            }
            for unit in units {
                self.units[stage][unit as usize].fetch_add(1, Ordering::Relaxed);
                if self.slow && (worker + unit as usize).is_multiple_of(3) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                if self.panic_at == Some((stage, unit)) {
                    panic!("unit {unit} of stage {stage}");
                }
            }
        }
    }

    fn run(pool: &Pool, units: &[u32], steps: u32, counter: &Counter) {
        let stages = Stages::new(units.len());
        for (stage, units) in units.iter().enumerate() {
            stages.set(stage, *units);
        }
        for step in 1..=steps {
            counter.due.store(step, Ordering::Relaxed);
            pool.run(&stages, counter).unwrap();
            for units in &counter.units {
                assert!(units.iter().all(|u| u.load(Ordering::Relaxed) == step));
            }
        }
    }

    const SHAPES: [&[u32]; 5] = [&[1, 2, 1, 1, 3, 50], &[0, 0, 7, 0, 1, 0], &[0, 0], &[], &[100, 3, 17, 1, 64, 2]];

    #[test]
    fn every_unit_runs_once_in_its_stage() {
        // More threads than cores, so that workers sleep at every place.
        for workers in 1..=20 {
            let pool = Pool::new(workers, SPIN).unwrap();
            for units in SHAPES {
                run(&pool, units, 100, &Counter::new(units));
            }
        }
    }

    #[test]
    fn workers_that_never_spin_sleep_and_wake() {
        for workers in [2, 3, 5] {
            let pool = Pool::new(workers, Duration::ZERO).unwrap();
            for units in SHAPES {
                run(&pool, units, 200, &Counter::new(units));
            }
        }
    }

    #[test]
    fn slow_units_are_waited_for() {
        let units = &[9, 1, 4, 30];
        let mut counter = Counter::new(units);
        counter.slow = true;
        run(&Pool::new(4, SPIN).unwrap(), units, 10, &counter);
    }

    #[test]
    fn steps_of_several_callers_take_turns() {
        let pool = Pool::new(3, Duration::from_micros(1)).unwrap();
        std::thread::scope(|scope| {
            for shape in 0..4 {
                let pool = &pool;
                let units = SHAPES[(shape + 4) % 5];
                scope.spawn(move || run(pool, units, 300, &Counter::new(units)));
            }
        });
    }

    #[test]
    fn a_step_of_other_sizes_follows_at_once() {
        let pool = Pool::new(4, SPIN).unwrap();
        let stages = Stages::new(2);
        let ran = AtomicU64::new(0);
        struct Sum<'a>(&'a AtomicU64);
        impl Work for Sum<'_> {
            fn run(&self, _: usize, _: usize, units: Range<u32>) {
                let length = units.end - units.start;
                self.0.fetch_add(length.into(), Ordering::Relaxed);
            }
        }
        for step in 0..20_000_u32 {
            let (a, b) = (step * 7 % 13, step % 5);
            stages.set(0, a);
            stages.set(1, b);
            pool.run(&stages, &Sum(&ran)).unwrap();
            assert_eq!(ran.swap(0, Ordering::Relaxed), u64::from(a + b));
        }
    }

    #[test]
    fn a_panic_ends_the_step_and_nothing_else() {
        for workers in [1, 2, 6] {
            let pool = Pool::new(workers, SPIN).unwrap();
            let units = &[5, 40, 3];
            for at in [(0, 0), (1, 17), (2, 2)] {
                let mut counter = Counter::new(units);
                counter.panic_at = Some(at);
                let stages = Stages::new(units.len());
                (0..3).for_each(|stage| stages.set(stage, units[stage]));
                let error = pool.run(&stages, &counter).unwrap_err().to_string();
                assert!(error.contains("unit") || error.contains("assert"), "{error}");
            }
            run(&pool, units, 10, &Counter::new(units));
        }
    }

    #[test]
    fn pools_come_and_go() {
        for workers in 1..30 {
            let pool = Pool::new(workers % 6, SPIN).unwrap();
            if workers % 2 == 0 {
                run(&pool, &[3, 1], 1, &Counter::new(&[3, 1]));
            }
        }
    }
}

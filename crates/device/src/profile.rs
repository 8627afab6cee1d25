//! Where the time of one step went.
//!
//! A stage lasts from the end of the one before to its own end, so the times
//! of the stages add up to the step but for its end. A stage's time is split
//! among its launches by the time that workers spent in each.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use compiler::program::{Count, Launch, Program, Stage};

/// The times of one step; all in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// From the start of the step to its end.
    pub wall_ns: u64,
    /// Workers, the calling thread included.
    pub workers: usize,
    /// The stages in order; their times add up to `wall_ns` less `rest_ns`.
    pub stages: Vec<StageTime>,
    /// The launches of all stages in order.
    pub launches: Vec<LaunchTime>,
    /// From the end of the last stage to the return to the caller.
    pub rest_ns: u64,
}

/// Products a second that the matrix units of a device come to at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixUnits {
    /// Of 8-bit codes.
    pub codes: f64,
    /// Of numbers of 16 bits.
    pub halves: f64,
}

/// What takes the times of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The clock of the machine, which costs some 20 ns to read.
    Wall,
    /// The processors' own counts too: time in which the system ran something else is told apart. Reading one is a call
    /// of the system, of half a microsecond, so small kernels appear longer than they are.
    Processors,
}

/// The time of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageTime {
    /// From the end of the stage before to the end of this one.
    pub wall_ns: u64,
    /// Sum over workers of the time in kernels, at most `workers * wall_ns`;
    /// the difference went into waiting.
    pub busy_ns: u64,
    /// Its launches, within [`Profile::launches`].
    pub launches: Range<usize>,
}

/// The time of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchTime {
    /// Position of its kernel in [`Program::kernels`].
    pub kernel: usize,
    /// The part of the tensor program that it belongs to; empty for none.
    pub scope: String,
    /// The tensors that it reads.
    pub origin: String,
    /// Its part of the stage's time; adds up to the stage's.
    pub wall_ns: u64,
    /// Sum over workers of the time in the kernel.
    pub busy_ns: u64,
    /// As `busy_ns`, by the processor's own count: time in which the system ran something else is not in it. By the
    /// clock where that was asked for ([`Clock::Wall`]), or where the system has no such count.
    pub processor_ns: u64,
    /// The longest that one worker spent in the kernel.
    pub longest_worker_ns: u64,
    /// Calls of the kernel.
    pub calls: u64,
    /// Tasks.
    pub tasks: i64,
    /// Bytes of weights that it reads.
    pub bytes: i64,
    /// Bytes of each row of states that it reads.
    pub row_bytes: i64,
    /// Products of 8-bit codes in its sums over weights.
    pub codes: i64,
    /// Products of numbers of 16 bits in them.
    pub halves: i64,
}

/// Takes times during a step.
pub(crate) struct Stopwatch {
    start: Instant,
    by: Clock,
    workers: usize,
    launches: usize,
    /// Of each worker, what it spent in each launch.
    busy: Box<[Busy]>,
    /// The latest end of each stage, from `start`.
    ends: Box<[AtomicU64]>,
}

/// What a worker spent in a launch, in nanoseconds.
#[derive(Default)]
struct Busy {
    clock: AtomicU64,
    processor: AtomicU64,
    calls: AtomicU64,
}

/// A moment of a worker.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    clock: Instant,
    /// What its processor has spent on it, if that is counted.
    processor: Option<u64>,
}

/// Nanoseconds that this thread has run; `None` where the system does not say.
#[cfg(unix)]
fn processor_time() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the structure that it is given, and nowhere else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    let nanoseconds = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    (failed == 0).then_some(nanoseconds)
}

/// Nanoseconds that this thread has run; `None` where the system does not say.
#[cfg(not(unix))]
fn processor_time() -> Option<u64> {
    None
}

impl Stopwatch {
    pub(crate) fn start(by: Clock, workers: usize, launches: usize, stages: usize) -> Stopwatch {
        Stopwatch {
            by,
            workers,
            launches,
            busy: (0..workers * launches).map(|_| Busy::default()).collect(),
            ends: (0..stages).map(|_| AtomicU64::new(0)).collect(),
            start: Instant::now(),
        }
    }

    /// A moment of the worker that asks.
    pub(crate) fn now(&self) -> Moment {
        Moment { clock: Instant::now(), processor: (self.by == Clock::Processors).then(processor_time).flatten() }
    }

    /// A worker was in the kernel of a launch.
    pub(crate) fn record(&self, worker: usize, launch: usize, from: Moment, to: Moment) {
        let busy = &self.busy[worker * self.launches + launch];
        let clock = to.clock.duration_since(from.clock).as_nanos() as u64;
        let processor = from.processor.zip(to.processor).map_or(clock, |(from, to)| to.saturating_sub(from));
        busy.clock.fetch_add(clock, Ordering::Relaxed);
        busy.processor.fetch_add(processor, Ordering::Relaxed);
        busy.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Work on a stage ended.
    pub(crate) fn stage_seen(&self, stage: usize, at: Instant) {
        let time = at.duration_since(self.start).as_nanos() as u64;
        self.ends[stage].fetch_max(time, Ordering::Relaxed);
    }

    /// The profile, after the step.
    pub(crate) fn stop(&self, program: &Program, vars: &[i64], tasks: impl Iterator<Item = i64>) -> Profile {
        let wall_ns = self.start.elapsed().as_nanos() as u64;
        let mut launches: Vec<_> = program
            .stages
            .iter()
            .flat_map(|stage| &stage.launches)
            .zip(tasks)
            .enumerate()
            .map(|(index, (launch, tasks))| {
                let each = |of: fn(&Busy) -> &AtomicU64| {
                    (0..self.workers).map(move |w| of(&self.busy[w * self.launches + index]).load(Ordering::Relaxed))
                };
                let busy = each(|busy| &busy.clock);
                LaunchTime {
                    kernel: launch.kernel,
                    scope: launch.scope.clone(),
                    origin: launch.origin.clone(),
                    wall_ns: 0,
                    busy_ns: busy.clone().sum(),
                    processor_ns: each(|busy| &busy.processor).sum(),
                    longest_worker_ns: busy.max().unwrap_or(0),
                    calls: each(|busy| &busy.calls).sum(),
                    tasks,
                    bytes: launch.bytes.eval(vars).unwrap_or(0),
                    row_bytes: launch.row_bytes,
                    codes: launch.multiplied.codes.eval(vars).unwrap_or(0),
                    halves: launch.multiplied.halves.eval(vars).unwrap_or(0),
                }
            })
            .collect();
        let mut stages = Vec::with_capacity(program.stages.len());
        let (mut first, mut last_end) = (0, 0);
        for (stage, end) in program.stages.iter().zip(&self.ends) {
            let range = first..first + stage.launches.len();
            first = range.end;
            // A stage without tasks never ended, and took no time.
            let end = end.load(Ordering::Relaxed).max(last_end);
            let wall_ns = end - last_end;
            last_end = end;
            share_out(wall_ns, &mut launches[range.clone()]);
            stages.push(StageTime {
                wall_ns,
                busy_ns: launches[range.clone()].iter().map(|l| l.busy_ns).sum(),
                launches: range,
            });
        }
        Profile { wall_ns, workers: self.workers, stages, launches, rest_ns: wall_ns.saturating_sub(last_end) }
    }
}

impl Profile {
    /// The profile of a step of one worker from the time of each launch, in nanoseconds; launches of a stage run at the same
    /// time.
    pub fn of_times(program: &Program, vars: &[i64], times: &[u64], wall_ns: u64) -> Profile {
        let count = |count: &Count| count.eval(vars).unwrap_or(0);
        let time = |(launch, &ns): (&Launch, &u64)| LaunchTime {
            kernel: launch.kernel,
            scope: launch.scope.clone(),
            origin: launch.origin.clone(),
            wall_ns: ns,
            busy_ns: ns,
            processor_ns: ns,
            longest_worker_ns: ns,
            calls: 1,
            tasks: count(&launch.tasks),
            bytes: count(&launch.bytes),
            row_bytes: launch.row_bytes,
            codes: count(&launch.multiplied.codes),
            halves: count(&launch.multiplied.halves),
        };
        let launches: Vec<LaunchTime> = program.each_launch().zip(times).map(time).collect();
        let mut first = 0;
        let stage = |stage: &Stage| {
            let range = first..first + stage.launches.len();
            first = range.end;
            let times = launches[range.clone()].iter().map(|launch| launch.wall_ns);
            StageTime { wall_ns: times.clone().max().unwrap_or(0), busy_ns: times.sum(), launches: range }
        };
        let stages: Vec<StageTime> = program.stages.iter().map(stage).collect();
        let in_stages: u64 = stages.iter().map(|stage| stage.wall_ns).sum();
        Profile { wall_ns, workers: 1, stages, launches, rest_ns: wall_ns.saturating_sub(in_stages) }
    }
}

/// Splits a time in proportion to busy times, without losing any of it.
fn share_out(wall_ns: u64, launches: &mut [LaunchTime]) {
    let busy: u64 = launches.iter().map(|launch| launch.busy_ns).sum();
    let mut before = 0;
    let mut given = 0;
    for launch in launches.iter_mut() {
        before += launch.busy_ns;
        let due = u128::from(wall_ns) * u128::from(before) / u128::from(busy.max(1));
        launch.wall_ns = due as u64 - given;
        given = due as u64;
    }
}

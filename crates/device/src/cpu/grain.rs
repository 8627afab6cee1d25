//! How the tasks of a launch are grouped into units, the smallest amount of
//! work that a worker takes.
//!
//! Small units balance better; each costs a call of the kernel, which may
//! begin by preparing its activations, and an atomic operation. Workers take
//! several units at once while there are many (see [`crate::cpu::stage_queue`]).

use crate::cpu::stage_queue::MAX_UNITS;

/// Units per worker and launch that are aimed at.
const PER_WORKER: i64 = 64;

/// A unit should read at least this much: about a microsecond of a core's
/// share of the memory bandwidth.
const MIN_BYTES: i64 = 16 << 10;

/// Tasks per unit of a launch of `tasks` tasks that read `bytes` together, in
/// a stage of `launches` launches.
pub(crate) fn grain(tasks: i64, bytes: i64, launches: usize, workers: usize) -> i64 {
    let workers = workers as i64;
    if workers == 1 || tasks <= 1 {
        return tasks.max(1);
    }
    let even = ceil_div(tasks, workers * PER_WORKER);
    let worthwhile = if bytes > 0 {
        let enough = i128::from(tasks) * i128::from(MIN_BYTES) / i128::from(bytes);
        // Never so coarse that a worker goes without.
        i64::try_from(enough).unwrap_or(i64::MAX).min(ceil_div(tasks, workers))
    } else {
        1
    };
    let room = i64::from(MAX_UNITS) / launches.max(1) as i64;
    even.max(worthwhile).max(ceil_div(tasks, room))
}

/// The number of units of that grain.
pub(crate) fn count(tasks: i64, grain: i64) -> u32 {
    ceil_div(tasks, grain) as u32
}

fn ceil_div(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_takes_a_launch_at_once() {
        assert_eq!(count(1000, grain(1000, 1 << 30, 1, 1)), 1);
        assert_eq!(count(0, grain(0, 0, 1, 1)), 0);
    }

    #[test]
    fn large_tasks_stay_single_and_small_ones_are_grouped() {
        assert_eq!(grain(48, 48 << 20, 1, 2), 1);
        assert_eq!(grain(4096, 4096 << 10, 1, 2), 32);
        assert_eq!(grain(64, 64 << 10, 1, 2), 16);
        assert_eq!(grain(64, 1, 1, 2), 32, "each worker gets a part");
    }

    #[test]
    fn units_always_fit() {
        for workers in [2, 64, 1024] {
            for launches in [1, 7, 65535] {
                for tasks in [0, 1, 5, 1 << 20, i64::MAX] {
                    for bytes in [0, 1, i64::MAX] {
                        let grain = grain(tasks, bytes, launches, workers);
                        assert!(grain >= 1);
                        let units = u64::from(count(tasks, grain)) * launches as u64;
                        assert!(units <= u64::from(MAX_UNITS), "{units}");
                    }
                }
            }
        }
    }
}

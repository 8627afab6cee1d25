//! How much memory is left for a model.

/// Bytes that this process may still take without making the machine swap or
/// its control group kill it; `None` where the system does not say.
///
/// Pages of a mapped file can be dropped again, so weights may exceed it, at a
/// price in speed; what [`crate::MemoryPlan::allocated`] says may not.
pub fn available_memory() -> Option<u64> {
    system::available()
}

/// Bytes of memory that this machine has; `None` where the system does not say.
pub fn total_memory() -> Option<u64> {
    system::total()
}

/// Bytes that the control groups of this process allow it, if they limit it.
pub fn memory_limit() -> Option<u64> {
    system::limit()
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;

    use crate::host::cgroup;

    pub(super) fn total() -> Option<u64> {
        line_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
    }

    pub(super) fn limit() -> Option<u64> {
        let limit = cgroup::tightest("memory", |folder| {
            let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
            read("memory.max").or_else(|| read("memory.limit_in_bytes"))?.trim().parse().ok()
        });
        // Version 1 says a huge number where there is no limit.
        limit.filter(|limit| total().is_none_or(|total| *limit < total))
    }

    pub(super) fn available() -> Option<u64> {
        let machine = of_machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
        let groups = cgroup::tightest("memory", |folder| {
            let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
            let cached = cached(&read("memory.stat").unwrap_or_default());
            let left = |limit: &str, used: &str| room(&read(limit)?, &read(used)?, cached);
            left("memory.max", "memory.current").or_else(|| left("memory.limit_in_bytes", "memory.usage_in_bytes"))
        });
        Some(groups.map_or(machine, |groups| groups.min(machine)))
    }

    pub(super) fn of_machine(meminfo: &str) -> Option<u64> {
        line_of(meminfo, "MemAvailable:")
    }

    fn line_of(meminfo: &str, name: &str) -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    }

    /// What is left below a limit; `max` is none.
    pub(super) fn room(limit: &str, used: &str, cached: u64) -> Option<u64> {
        let limit: u64 = limit.trim().parse().ok()?;
        let used: u64 = used.trim().parse().ok()?;
        Some(limit.saturating_sub(used.saturating_sub(cached)))
    }

    /// Pages of files, which are dropped when memory is short.
    pub(super) fn cached(stat: &str) -> u64 {
        let value = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            let of_files = name == "inactive_file" || name == "active_file";
            of_files.then(|| value.parse::<u64>().ok()).flatten()
        };
        stat.lines().filter_map(value).sum()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn available() -> Option<u64> {
        None
    }

    pub(super) fn total() -> Option<u64> {
        None
    }

    pub(super) fn limit() -> Option<u64> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_is_left() {
        assert!(available_memory().unwrap() > 1 << 20);
        assert!(total_memory() >= available_memory());
        assert!(memory_limit().is_none_or(|limit| Some(limit) < total_memory()));
        let text = "MemTotal:  100 kB\nMemAvailable:   42 kB\n";
        assert_eq!(system::of_machine(text), Some(42 << 10));
        assert_eq!(system::of_machine("MemTotal: 1 kB"), None);
        assert_eq!(system::room("max\n", "5\n", 0), None);
        assert_eq!(system::room("100\n", "40\n", 10), Some(70));
        assert_eq!(system::room("100\n", "140\n", 0), Some(0));
        let stat = "anon 7\ninactive_file 30\nactive_file 4\nworkingset 9\n";
        assert_eq!(system::cached(stat), 34);
    }
}

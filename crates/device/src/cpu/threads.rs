//! How many threads are worth starting.

/// Physical cores that this process may use: those of its affinity mask, at
/// most what the control groups allow it; at least one.
pub fn default_threads() -> usize {
    system::cores().min(system::quota().unwrap_or(usize::MAX)).max(1)
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::fs;

    use crate::host::cgroup;

    /// Distinct physical cores in the affinity mask.
    pub(super) fn cores() -> usize {
        let allowed = affinity();
        let core = |cpu: &usize| {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
            let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok();
            match (read("physical_package_id"), read("core_id")) {
                (Some(package), Some(core)) => (package, core),
                // Unknown topology: every processor counts.
                _ => (String::new(), cpu.to_string()),
            }
        };
        let cores: HashSet<_> = allowed.iter().map(core).collect();
        cores.len()
    }

    fn affinity() -> Vec<usize> {
        // SAFETY: the set is plain data for which zeros are the empty set, and
        // the call writes no more than its size; 0 is this thread.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            (libc::sched_getaffinity(0, size, &mut set) == 0).then_some(set)
        };
        match set {
            Some(set) => (0..libc::CPU_SETSIZE as usize)
                // SAFETY: the index is below the size of the set.
                .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
                .collect(),
            // More processors than the set has room for.
            None => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
        }
    }

    /// Whole processors that the control groups grant.
    pub(super) fn quota() -> Option<usize> {
        cgroup::tightest("cpu", |folder| {
            let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
            let modern = || unified(&read("cpu.max")?);
            let old = || legacy(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?);
            modern().or_else(old)
        })
    }

    /// `cpu.max`: a quota (or `max`) and a period.
    pub(super) fn unified(text: &str) -> Option<usize> {
        let (quota, period) = text.trim().split_once(' ')?;
        legacy(quota, period)
    }

    /// Rounded down, as a thread that is throttled holds up the others.
    pub(super) fn legacy(quota: &str, period: &str) -> Option<usize> {
        let quota: i64 = quota.trim().parse().ok()?;
        let period: i64 = period.trim().parse().ok()?;
        let whole = (quota > 0 && period > 0).then(|| quota / period)?;
        usize::try_from(whole).ok().map(|whole| whole.max(1))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn cores() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    pub(super) fn quota() -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_and_at_most_what_the_system_says() {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        assert!((1..=all.max(1)).contains(&default_threads()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn quotas_are_whole_processors() {
        assert_eq!(system::unified("max 100000\n"), None);
        assert_eq!(system::unified("250000 100000\n"), Some(2));
        assert_eq!(system::unified("50000 100000\n"), Some(1));
        assert_eq!(system::legacy("-1\n", "100000\n"), None);
        assert_eq!(system::legacy("400000\n", "100000\n"), Some(4));
        assert_eq!(system::unified("nonsense"), None);
    }
}

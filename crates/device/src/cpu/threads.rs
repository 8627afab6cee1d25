//! How many threads are worth starting.

/// Physical cores that this process may use: those of its affinity mask, at
/// most what the control groups allow it; at least one. Where there are two kinds of cores, the fast ones: a step waits for
/// the slowest.
pub fn default_threads() -> usize {
    system::cores().min(system::quota().unwrap_or(usize::MAX)).max(1)
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::fs;
    use std::path::Path;

    use crate::host::cgroup;

    /// What a core has of the speed of the fastest at least to be of its kind, in quarters.
    const QUARTERS: u64 = 3;

    /// Distinct physical cores in the affinity mask.
    pub(super) fn cores() -> usize {
        cores_of(Path::new("/sys/devices"), affinity())
    }

    /// Distinct physical cores of the fastest kind among these processors, as a folder of the system tells them.
    pub(super) fn cores_of(devices: &Path, allowed: Vec<usize>) -> usize {
        let read = |name: String| fs::read_to_string(devices.join(name)).ok();
        let slow: HashSet<usize> = read("cpu_atom/cpus".into()).map(|text| listed(&text)).unwrap_or_default();
        let speed = |cpu: usize| {
            let capacity = read(format!("system/cpu/cpu{cpu}/cpu_capacity"));
            let said = capacity.and_then(|text| text.trim().parse::<u64>().ok());
            said.unwrap_or(if slow.contains(&cpu) { 512 } else { 1024 })
        };
        let speeds: Vec<(usize, u64)> = allowed.into_iter().map(|cpu| (cpu, speed(cpu))).collect();
        let most = speeds.iter().map(|(_, speed)| *speed).max().unwrap_or(0);
        let core = |cpu: usize| {
            let of = |name: &str| read(format!("system/cpu/cpu{cpu}/topology/{name}"));
            match (of("physical_package_id"), of("core_id")) {
                (Some(package), Some(core)) => (package, core),
                // Unknown topology: every processor counts.
                _ => (String::new(), cpu.to_string()),
            }
        };
        let fast = speeds.into_iter().filter(|(_, speed)| 4 * speed >= QUARTERS * most);
        fast.map(|(cpu, _)| core(cpu)).collect::<HashSet<_>>().len()
    }

    /// The numbers of a list as the system writes them: `0-3,8`.
    fn listed(text: &str) -> HashSet<usize> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        text.trim().split(',').filter_map(range).flatten().collect()
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
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        fast().map_or(all, |fast| fast.min(all))
    }

    /// Cores of the fastest kind.
    #[cfg(target_os = "macos")]
    fn fast() -> Option<usize> {
        let (mut count, mut size) = (0i32, size_of::<i32>());
        let to = (&raw mut count).cast();
        // SAFETY: the name ends in a zero, and as many bytes are written as there are, or none.
        let said = unsafe {
            libc::sysctlbyname(c"hw.perflevel0.physicalcpu".as_ptr(), to, &mut size, std::ptr::null_mut(), 0) == 0
        };
        usize::try_from(count).ok().filter(|&count| said && count > 0)
    }

    #[cfg(not(target_os = "macos"))]
    fn fast() -> Option<usize> {
        None
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

    /// Two fast cores of two threads each and four slow ones, as one system or the other tells them.
    #[test]
    #[cfg(target_os = "linux")]
    fn slow_cores_are_left_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        for cpu in 0..8 {
            write(&format!("system/cpu/cpu{cpu}/topology/physical_package_id"), "0\n");
            let core = if cpu < 4 { cpu / 2 } else { cpu };
            write(&format!("system/cpu/cpu{cpu}/topology/core_id"), &format!("{core}\n"));
        }
        let cores = |allowed: std::ops::Range<usize>| system::cores_of(folder.path(), allowed.collect());
        assert_eq!(cores(0..8), 6, "nothing says that they differ");
        write("cpu_atom/cpus", "4-5,6,7\n");
        assert_eq!((cores(0..8), cores(3..6), cores(4..8)), (2, 1, 4));
        write("cpu_atom/cpus", "\n");
        for cpu in 0..8 {
            write(&format!("system/cpu/cpu{cpu}/cpu_capacity"), if cpu < 4 { "1024\n" } else { "446\n" });
        }
        assert_eq!((cores(0..8), cores(4..8)), (2, 4));
        write("system/cpu/cpu1/cpu_capacity", "890\n");
        assert_eq!(cores(0..8), 2, "a middle kind is fast enough");
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

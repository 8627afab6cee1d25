//! The limits of the control groups that this process is in, and of those
//! around them.

use std::fs;
use std::path::{Path, PathBuf};

/// The least limit for a controller that `limit` finds in the folder of a
/// group; folders of both versions of the interface are offered.
pub(crate) fn tightest<T: Ord>(controller: &str, limit: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let found = groups.lines().filter_map(|line| {
        let (root, path) = group(line, controller)?;
        around(&root, path).iter().filter_map(|f| limit(f)).min()
    });
    found.min()
}

/// The root and the path of a group, if it is of this controller. Lines are
/// `hierarchy:controllers:path`; version 2 has one group for all controllers.
fn group<'a>(line: &'a str, controller: &str) -> Option<(PathBuf, &'a str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let root = Path::new("/sys/fs/cgroup");
    if controllers.is_empty() {
        return Some((root.to_path_buf(), path));
    }
    let ours = controllers.split(',').any(|name| name == controller);
    ours.then(|| (root.join(controller), path))
}

/// The folder of a group and of all groups around it.
fn around(root: &Path, path: &str) -> Vec<PathBuf> {
    let inner = root.join(path.trim_start_matches('/'));
    inner.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_path_buf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions() {
        let root = |path: &str| PathBuf::from(path);
        assert_eq!(group("0::/user/app", "cpu"), Some((root("/sys/fs/cgroup"), "/user/app")));
        assert_eq!(group("4:cpu,cpuacct:/app", "cpu"), Some((root("/sys/fs/cgroup/cpu"), "/app")));
        assert_eq!(group("4:cpuacct:/app", "cpu"), None);
        assert_eq!(group("nonsense", "cpu"), None);
    }

    #[test]
    fn a_group_is_within_others() {
        let folders = around(Path::new("/sys/fs/cgroup"), "/a/b");
        let expected = ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"];
        assert_eq!(folders, expected.map(PathBuf::from));
    }
}

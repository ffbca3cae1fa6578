//! The memory for this process: of the machine, of its control group, and by its own limit.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;

/// One part in so many is for executions; the rest is for requests, answers, the store and the allocator.
const SHARE: u64 = 4;
/// The assumed memory if it cannot be read.
const UNKNOWN: u64 = 4 << 30;

/// The default for the weight of executions in memory, in bytes.
pub(crate) fn share() -> u64 {
    let bounds = [
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text)),
        fs::read_to_string("/proc/self/cgroup")
            .ok()
            .and_then(|text| group(&text, Path::new("/sys/fs/cgroup"))),
        getrlimit(Resource::As).current,
    ];
    bounds.into_iter().flatten().min().unwrap_or(UNKNOWN) / SHARE
}

/// Of the machine.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Of the control group and those around it, in both versions of the interface.
fn group(cgroup: &str, root: &Path) -> Option<u64> {
    let limits = cgroup.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kinds, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (root, file) = match kinds {
            "" => (root.to_owned(), "memory.max"),
            _ if kinds.split(',').any(|kind| kind == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let own = root.join(path.trim_start_matches('/'));
        let around = own.ancestors().take_while(|folder| folder.starts_with(&root));
        around.map(|folder| folder.join(file)).collect()
    });
    limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_read_in_bytes() {
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       16318480 kB\n"), Some(16_318_480 * 1024));
        assert_eq!(total("nothing of the kind"), None);
    }

    #[test]
    fn the_least_limit_of_the_groups_around_counts() {
        let root = std::env::temp_dir().join(format!("perdura-memory-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).expect("a folder can be made");
        fs::write(root.join("a/memory.max"), "1000\n").expect("a file can be written");
        fs::write(inner.join("memory.max"), "max\n").expect("a file can be written");
        assert_eq!(group("0::/a/b\n", &root), Some(1_000));
        fs::write(inner.join("memory.max"), "500\n").expect("a file can be written");
        assert_eq!(group("0::/a/b\n", &root), Some(500));
        assert_eq!((group("0::/c\n", &root), group("1:cpu:/a\n", &root)), (None, None));
        fs::remove_dir_all(root).expect("it can be removed");
    }

    #[test]
    fn there_is_a_share() {
        assert!(share() > 0);
    }
}

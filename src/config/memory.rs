//! The memory of the machine, as far as this process may use it.

use std::path::Path;

/// The memory that is assumed if it cannot be found out.
const UNKNOWN: u64 = 4 << 30;

/// The bytes of memory of the machine, or of the control group that this process is in.
pub fn available() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| total_of(&text)).unwrap_or(UNKNOWN);
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    limits_of(&groups, Path::new("/sys/fs/cgroup")).into_iter().fold(total, u64::min)
}

/// `MemTotal` of `/proc/meminfo`, which is in KiB.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The memory limits of the control groups in `/proc/self/cgroup`, and of those that contain them. In a container
/// the path may be that of the host; the limit is then at the root.
fn limits_of(groups: &str, root: &Path) -> Vec<u64> {
    let mut limits = Vec::new();
    for group in groups.lines() {
        let mut parts = group.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for folder in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = std::fs::read_to_string(root.join(folder).join(file));
            // Without a limit, version 2 has the word `max` there.
            limits.extend(limit.ok().and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_in_kib() {
        assert_eq!(total_of("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_of("nothing"), None);
        assert!(available() > 1 << 20);
    }

    #[test]
    fn the_limits_of_all_groups_around_the_process_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "1000\n");
        write("memory/docker/memory.limit_in_bytes", "2000\n");
        assert_eq!(limits_of("0::/a/b\n", root.path()), [1000]);
        assert_eq!(limits_of("5:cpu:/docker\n4:memory,x:/docker\n", root.path()), [2000]);
        // The path is that of the host.
        write("memory.max", "3000\n");
        assert_eq!(limits_of("0::/elsewhere\n", root.path()), [3000]);
        assert_eq!(limits_of("nonsense", root.path()), Vec::<u64>::new());
    }
}

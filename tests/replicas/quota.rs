//! Limits how much processor time a server gets, so that three servers can be compared with one on a machine whose cores
//! the clients share. It needs root and control groups; without them there is no limit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The period in microseconds in which a server gets its share. The kernel accepts shares of at least a millisecond.
const PERIOD: u64 = 50_000;

/// A control group. It is removed when this is dropped; its processes must have ended.
pub struct Quota(PathBuf);

impl Quota {
    /// Gives a process `percent` of one core. `None` if this machine does not allow it.
    pub fn of(process: u32, percent: u64) -> Option<Quota> {
        let name = format!("guarantor-test-{process}");
        let quota = PERIOD * percent / 100;
        let unified = Path::new("/sys/fs/cgroup").join(&name);
        let one = Path::new("/sys/fs/cgroup/cpu").join(&name);
        limit(&unified, process, &[("cpu.max", format!("{quota} {PERIOD}"))])
            .or_else(|_| {
                let limits =
                    [("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota.to_string())];
                limit(&one, process, &limits)
            })
            .ok()
    }
}

fn limit(group: &Path, process: u32, limits: &[(&str, String)]) -> io::Result<Quota> {
    fs::create_dir(group)?;
    // Removed again if a limit cannot be set.
    let quota = Quota(group.to_owned());
    for (name, value) in limits {
        // Control files exist already; a file system that would create one is not that of control groups.
        fs::OpenOptions::new().write(true).open(group.join(name))?;
        fs::write(group.join(name), value)?;
    }
    fs::write(group.join("cgroup.procs"), process.to_string())?;
    Ok(quota)
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

//! A cache of recently read jobs. Many clients poll one job, and between two changes of the job they all read
//! the same row.
//!
//! A job that this process writes is removed from the cache at once. A write that it cannot know about, by
//! another process or by a caller that was dropped during the commit, is seen after `FRESH`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::store::ids::{JobId, Workspace};
use crate::store::records::Job;

/// How long a row is served without reading it again.
const FRESH: Duration = Duration::from_millis(100);
/// The most cached jobs.
const MOST: usize = 4096;

/// The cache.
#[derive(Default)]
pub struct RecentJobs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of writes, so that a row read before a write is not kept after it.
    writes: u64,
    jobs: HashMap<JobId, (Instant, Arc<Job>)>,
}

impl RecentJobs {
    /// The job, if it was read recently.
    pub fn get(&self, workspace: &Workspace, id: JobId) -> Option<Arc<Job>> {
        let state = self.state.lock();
        let (read_at, job) = state.jobs.get(&id)?;
        (read_at.elapsed() < FRESH && job.workspace == *workspace).then(|| job.clone())
    }

    /// How many writes there were. Ask before reading a row and pass the number to `keep` afterwards.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// Caches a row, unless there was a write since `writes` was asked.
    pub fn keep(&self, job: Job, writes: u64) {
        let mut state = self.state.lock();
        if state.writes != writes {
            return;
        }
        if state.jobs.len() >= MOST {
            state.jobs.retain(|_, (read_at, _)| read_at.elapsed() < FRESH);
        }
        if state.jobs.len() < MOST {
            state.jobs.insert(job.id, (Instant::now(), Arc::new(job)));
        }
    }
}

impl RecentJobs {
    /// Removes a job that was written.
    pub fn forget(&self, id: JobId) {
        let mut state = self.state.lock();
        state.writes += 1;
        state.jobs.remove(&id);
    }
}

/// How many reads of jobs that are not cached run at once, at most.
const AT_ONCE: usize = 64;

/// One read for all that miss the same job in the cache. When a job changes, everyone who follows it asks at once.
pub struct ReadingJobs {
    turns: [tokio::sync::Mutex<()>; AT_ONCE],
}

impl Default for ReadingJobs {
    fn default() -> Self {
        ReadingJobs { turns: std::array::from_fn(|_| tokio::sync::Mutex::default()) }
    }
}

impl ReadingJobs {
    /// Waits until nobody else reads this job. Look into the cache again afterwards.
    pub async fn turn(&self, id: JobId) -> tokio::sync::MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        self.turns[hasher.finish() as usize % AT_ONCE].lock().await
    }
}

/// The jobs that a transaction changes. They are removed from the cache when it ends, committed or not.
pub struct Changed {
    recent: Arc<RecentJobs>,
    jobs: Vec<(JobId, &'static str)>,
}

impl Changed {
    /// For a transaction that has changed nothing yet.
    pub fn new(recent: Arc<RecentJobs>) -> Self {
        Changed { recent, jobs: Vec::new() }
    }

    /// The jobs, and what happens to them.
    pub fn jobs(&self) -> &[(JobId, &'static str)] {
        &self.jobs
    }

    /// Notes that the transaction changes this job, and how.
    pub fn add(&mut self, id: JobId, how: &'static str) {
        self.jobs.push((id, how));
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        for (id, _) in &self.jobs {
            self.recent.forget(*id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ids::{DatasetId, Timestamp};
    use crate::store::records::JobStatus;
    use guarantor_engine::log::{Capabilities, LogShape, Logging, Outcome};
    use guarantor_engine::spec::{SpecContext, SpecRequest};

    fn job() -> Job {
        let capabilities = Capabilities { features: true, ..Capabilities::default() };
        let outcome = Outcome::default();
        let logging = Logging::default();
        let shape = LogShape { rows: 9, contexts: 9, n_actions: 2, dim: 1, outcome, logging, capabilities };
        let context = SpecContext {
            shape: &shape,
            logging_policy: None,
            policy: &|_| None,
            seen_rows: 0,
            caller: "a test",
        };
        let spec = SpecRequest::default().resolve(&context).unwrap();
        Job {
            id: JobId::new(),
            workspace: Workspace::default(),
            dataset_id: DatasetId::new(),
            dataset_version: 1,
            status: JobStatus::Queued,
            spec,
            metadata: serde_json::Value::Null,
            submitted_by: Some("a test".into()),
            created_at: Timestamp(0),
            queued_at: Timestamp(0),
            shown: false,
            started_at: None,
            finished_at: None,
            attempt: 0,
            cancel_requested: false,
            progress: None,
            result: None,
            failure: None,
            certificate: None,
            evidence: None,
            revision: 1,
        }
    }

    #[test]
    fn a_row_that_was_read_before_a_write_is_not_kept_after_it() {
        let (recent, job) = (Arc::<RecentJobs>::default(), job());
        let writes = recent.writes();
        let mut changed = Changed::new(recent.clone());
        changed.add(job.id, "queued");
        drop(changed);
        recent.keep(job.clone(), writes);
        assert!(recent.get(&job.workspace, job.id).is_none());
    }

    #[test]
    fn other_workspaces_are_not_served() {
        let (recent, job) = (Arc::<RecentJobs>::default(), job());
        recent.keep(job.clone(), recent.writes());
        assert!(recent.get(&"other".parse().unwrap(), job.id).is_none());
    }
}

//! The JSON of recently read jobs. Many clients poll one job, and between two of its changes they all get
//! the same bytes. The store has already checked the caller's workspace, so this saves only the
//! serialization.

use std::collections::HashMap;

use axum::body::Bytes;
use parking_lot::Mutex;

use super::view::JobView;
use crate::http::problem::Problem;
use crate::store::{Job, JobId};

/// The two limits bound the memory: metadata can make a job large.
const MOST: usize = 1024;
const LARGEST: usize = 16 << 10;

/// The cache, with one entry per job.
#[derive(Default)]
pub struct Answers {
    written: Mutex<HashMap<JobId, (u64, Bytes)>>,
}

impl Answers {
    /// The JSON of a job. Every change of a job increases its revision, so equal revisions have equal
    /// JSON.
    pub fn of(&self, job: &Job) -> Result<Bytes, Problem> {
        if let Some(bytes) = self.at_hand(job) {
            return Ok(bytes);
        }
        let bytes = serde_json::to_vec(&JobView::from(job.clone())).map_err(Problem::internal)?;
        let bytes = Bytes::from(bytes);
        if bytes.len() <= LARGEST {
            let mut written = self.written.lock();
            if written.len() >= MOST {
                written.clear();
            }
            written.insert(job.id, (job.revision, bytes.clone()));
        }
        Ok(bytes)
    }

    /// The JSON of a job, if it was written before and is not large.
    pub fn at_hand(&self, job: &Job) -> Option<Bytes> {
        let written = self.written.lock();
        let (_, bytes) = written.get(&job.id).filter(|(revision, _)| *revision == job.revision)?;
        Some(bytes.clone())
    }
}

//! The newest events of the jobs that are followed, as they are sent. Many readers follow one job, and each of its events
//! would otherwise be read and written once for each of them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::response::sse::Event;
use parking_lot::Mutex;

use super::events::EventView;
use crate::store::{Job, JobEvent, JobId, JobStatus, Repository, Result};

/// The most jobs whose events are kept, and the most events of each. Both bound the memory.
const MOST_JOBS: usize = 64;
const MOST_EVENTS: usize = 256;

/// An event as it is sent.
#[derive(Clone)]
pub struct Written {
    /// Its number.
    pub id: u64,
    /// Whether it is the last one of its job.
    pub ends: bool,
    /// What is sent.
    pub message: Event,
}

impl From<JobEvent> for Written {
    fn from(event: JobEvent) -> Self {
        let (id, kind) = (event.id, event.kind.clone());
        let message = Event::default().id(id.to_string()).event(&kind);
        Written {
            id,
            ends: JobStatus::from_name(&kind).is_some_and(JobStatus::is_finished),
            // The data was JSON when it was stored, so serializing it again cannot fail.
            message: message.json_data(EventView::from(event)).unwrap_or_default(),
        }
    }
}

/// All events of a job after the one with the number `from`, as they were when it had this revision or later.
#[derive(Clone)]
struct Tail {
    revision: u64,
    from: u64,
    events: Arc<[Written]>,
}

impl Tail {
    fn last(&self) -> u64 {
        self.events.last().map_or(self.from, |event| event.id)
    }

    fn after(&self, id: u64) -> Vec<Written> {
        self.events.iter().filter(|event| event.id > id).cloned().collect()
    }

    /// The tail with later events, and without the oldest if there are too many.
    fn with(&self, revision: u64, later: Vec<Written>) -> Tail {
        let all: Vec<Written> = self.events.iter().cloned().chain(later).collect();
        let dropped = all.len().saturating_sub(MOST_EVENTS);
        let from = if dropped > 0 { all[dropped - 1].id } else { self.from };
        Tail { revision, from, events: all[dropped..].into() }
    }
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// The tails of jobs.
#[derive(Default)]
pub struct Tails {
    tails: Mutex<HashMap<JobId, (Turn, Option<Tail>)>>,
}

impl Tails {
    /// The events of a job after the one with the number `after`, at most `limit` of them. `job` was read before, so that
    /// the last event of a job that has ended is among the events. Its workspace was checked.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn after(
        &self,
        repository: &dyn Repository,
        job: &Job,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Written>> {
        let (turn, known) = self.of(job.id);
        if let Some(tail) = known.filter(|tail| tail.revision >= job.revision && tail.from <= after) {
            return Ok(tail.after(after));
        }
        // One of those who follow the job reads for all of them.
        let _turn = turn.lock().await;
        let known = self.of(job.id).1.filter(|tail| tail.from <= after);
        match known {
            Some(tail) if tail.revision >= job.revision => Ok(tail.after(after)),
            Some(tail) => {
                let later = read(repository, job, tail.last(), limit).await?;
                let mut found = tail.after(after);
                found.extend(later.iter().filter(|event| event.id > after).cloned());
                // As long as there are others to be read, the tail is not that of this revision.
                let complete = later.len() < limit as usize;
                self.keep(job.id, tail.with(if complete { job.revision } else { tail.revision }, later));
                Ok(found)
            }
            None => {
                let found = read(repository, job, after, limit).await?;
                // Somebody who reads the history from its beginning is far behind the others.
                if found.len() < limit as usize {
                    let empty = Tail { revision: 0, from: after, events: Arc::default() };
                    self.keep(job.id, empty.with(job.revision, found.clone()));
                }
                Ok(found)
            }
        }
    }

    fn of(&self, id: JobId) -> (Turn, Option<Tail>) {
        let mut tails = self.tails.lock();
        if tails.len() >= MOST_JOBS && !tails.contains_key(&id) {
            tails.clear();
        }
        tails.entry(id).or_default().clone()
    }

    fn keep(&self, id: JobId, tail: Tail) {
        self.tails.lock().entry(id).or_default().1 = Some(tail);
    }
}

async fn read(repository: &dyn Repository, job: &Job, after: u64, limit: u32) -> Result<Vec<Written>> {
    let found = repository.job_events(&job.workspace, job.id, after, limit).await?;
    Ok(found.into_iter().map(Written::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(id: u64) -> Written {
        Written { id, ends: false, message: Event::default() }
    }

    fn ids(events: &[Written]) -> Vec<u64> {
        events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn a_tail_knows_what_it_has_left_out() {
        let empty = Tail { revision: 0, from: 5, events: Arc::default() };
        assert_eq!((empty.last(), empty.after(0).len()), (5, 0));
        // Ids may have gaps: old reports of progress are deleted.
        let tail = empty.with(3, vec![written(6), written(9)]);
        assert_eq!((tail.from, tail.last(), ids(&tail.after(6))), (5, 9, vec![9]));
        let long = tail.with(4, (10..10 + MOST_EVENTS as u64).map(written).collect());
        assert_eq!((long.revision, long.events.len(), long.from), (4, MOST_EVENTS, 9));
        assert_eq!(ids(&long.after(long.from))[0], 10);
    }
}

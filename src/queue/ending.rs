//! Writes the end of an attempt to the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join3;
use metrics::{counter, histogram};
use tokio::sync::Notify;

use super::Queue;
use super::attempt::{End, Ended};
use super::compute::Computed;
use super::runner::RunError;
use super::timeline::STORING;
use crate::store::{
    ClaimedJob, FailureCode, Finish, Job, JobFailure, JobId, JobResult, JobStatus, PolicyId, Result, Store,
    StoreError, Success, describe_policy, job_key, json_bytes, policy_key,
};
use guarantor_engine::certificate::Certificate;
use guarantor_engine::{EngineError, Finished};

/// The waits between attempts to write an end. After the last one the lease expires, and the job is
/// computed again with the same numbers.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1600),
    Duration::from_millis(6400),
];

impl Queue {
    /// Writes the end of an attempt, or nothing if the lease is lost.
    pub async fn conclude(&self, claim: &ClaimedJob, ended: Ended) {
        let done = Notify::new();
        let write = async {
            self.write_end(claim, ended).await;
            done.notify_one();
        };
        tokio::join!(write, self.keep_lease(claim, &done));
    }

    async fn write_end(&self, claim: &ClaimedJob, ended: Ended) {
        let timeline = ended.timeline.clone();
        timeline.enter(STORING);
        let Some(finish) = self.finish_for(claim, ended).await else { return };
        let (id, token) = (claim.job.id, claim.token);
        let terms = self.settings().terms();
        for wait in RETRIES.into_iter().map(Some).chain([None]) {
            match self.store().repository().finish_job(id, token, &terms, finish.clone()).await {
                Ok(job) if job.status.is_finished() => {
                    if job.status == JobStatus::Cancelled {
                        self.store().blobs().delete(&files_of(&finish)).await;
                    }
                    record_end(&job, &timeline.phases());
                    self.announce_end(&job);
                    return;
                }
                Ok(_) => {
                    record_return(id, &finish);
                    self.shared.signals.notify(id);
                    self.shared.work.notify_one();
                    return;
                }
                Err(StoreError::LeaseLost(_)) => {
                    // An earlier attempt to write it may have succeeded although its connection was lost.
                    if let Some(job) = self.ended_with(claim, &finish).await {
                        record_end(&job, &timeline.phases());
                        self.announce_end(&job);
                        return;
                    }
                    tracing::warn!(job_id = %id, "lease lost before the end of the job was written");
                    self.store().discard(&files_of(&finish)).await;
                    return;
                }
                Err(error) => {
                    let unwritable = self.note_unwritable(&error);
                    tracing::error!(job_id = %id, %error, "could not write the end of a job");
                    if unwritable && wait.is_none() {
                        self.remember_unwritten(claim).await;
                    }
                }
            }
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return,
            }
        }
    }

    /// The job, if it has ended with the certificate of this attempt.
    async fn ended_with(&self, claim: &ClaimedJob, finish: &Finish) -> Option<Job> {
        let Finish::Succeeded(success) = finish else { return None };
        let job = self.store().repository().job_now(&claim.job.workspace, claim.job.id).await.ok()?;
        (job.certificate.as_ref() == Some(&success.certificate)).then_some(job)
    }

    async fn finish_for(&self, claim: &ClaimedJob, ended: Ended) -> Option<Finish> {
        Some(match ended.end {
            End::LeaseLost => return None,
            End::Abandoned => Finish::Released,
            End::NotRun(RunError::Failed(failure)) => Finish::Failed(failure),
            End::NotRun(RunError::Retry(failure)) => self.later(failure).await,
            End::Computed(Computed::Returned(Err(EngineError::Unavailable(why)))) => {
                self.later(JobFailure::new(FailureCode::DatasetUnreadable, why)).await
            }
            End::Computed(Computed::Panicked(panic)) => {
                // The text may contain anything that the computation held, so it is only in the log.
                tracing::error!(job_id = %claim.job.id, panic, "the engine panicked");
                let message = "the computation stopped because of an internal error; the server's log has the \
                               cause under the id of the job";
                Finish::Failed(JobFailure::new(FailureCode::Panicked, message))
            }
            End::Computed(Computed::Returned(Err(EngineError::Cancelled))) => {
                if ended.cancelled {
                    Finish::Cancelled
                } else {
                    Finish::Released
                }
            }
            End::Computed(Computed::Returned(Err(error))) => {
                let code = match error {
                    EngineError::Log(_) => FailureCode::DatasetUnreadable,
                    _ => FailureCode::EngineError,
                };
                Finish::Failed(JobFailure::new(code, error.to_string()))
            }
            End::Computed(Computed::Returned(Ok(finished))) => {
                match store_files(self.store(), claim, *finished).await {
                    Ok(success) => Finish::Succeeded(Box::new(success)),
                    Err(error) => self.not_stored(claim, &error),
                }
            }
        })
    }

    /// A result that could not be stored: the job waits for the disk, or is tried again.
    fn not_stored(&self, claim: &ClaimedJob, error: &StoreError) -> Finish {
        tracing::error!(job_id = %claim.job.id, %error, "could not store a certificate");
        let message = "the certificate could not be stored";
        if self.note_unwritable(error) {
            return Finish::Postponed(format!("{message}: the disk cannot be written"));
        }
        Finish::Retry(JobFailure::new(FailureCode::AttemptsExhausted, message))
    }

    /// Returns the job to the queue after a pause, during which the cause may go away.
    async fn later(&self, failure: JobFailure) -> Finish {
        tokio::time::sleep(self.settings().poll).await;
        Finish::Retry(failure)
    }

    /// Renews the lease until `done`: storing a large result takes time, and waiting for a full disk even more.
    async fn keep_lease(&self, claim: &ClaimedJob, done: &Notify) {
        let terms = self.settings().terms();
        loop {
            tokio::select! {
                _ = done.notified() => return,
                _ = tokio::time::sleep(terms.duration / 4) => {}
            }
            // A failure is not handled here: writing the end fails in the same way.
            let _ = self.store().repository().heartbeat(claim.job.id, claim.token, &terms, None).await;
        }
    }

    /// Remembers a job whose end could not be written because of the disk, so that it is returned to the
    /// queue later and this attempt is not counted.
    pub(super) async fn remember_unwritten(&self, claim: &ClaimedJob) {
        self.shared.unwritten.lock().await.insert(claim.job.id, claim.token);
    }

    /// After a disk error: once the disk can be written again, returns the remembered jobs to the queue,
    /// before their leases count as expired.
    ///
    /// # Errors
    /// If the disk still cannot be written, or the store fails otherwise.
    pub(super) async fn recover(&self) -> Result<()> {
        let mut unwritten = self.shared.unwritten.lock().await;
        if unwritten.is_empty() && !self.shared.unwritable.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.store().check_ready().await?;
        self.store().keep_reserve().await;
        while let Some((&id, &token)) = unwritten.iter().next() {
            let finish = Finish::Postponed("the disk could not be written".into());
            let terms = self.settings().terms();
            match self.store().repository().finish_job(id, token, &terms, finish.clone()).await {
                Ok(job) if job.status.is_finished() => {
                    record_end(&job, &[]);
                    self.announce_end(&job);
                }
                Ok(_) => {
                    record_return(id, &finish);
                    self.shared.signals.notify(id);
                }
                Err(StoreError::LeaseLost(_)) => {}
                Err(error) => return Err(error),
            }
            unwritten.remove(&id);
        }
        self.shared.unwritable.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the disk caused the error. Workers then start no job until it can be written.
    pub(super) fn note_unwritable(&self, error: &StoreError) -> bool {
        let unwritable = error.is_unwritable();
        if unwritable {
            self.shared.unwritable.store(true, Ordering::Relaxed);
        }
        unwritable
    }
}

/// Logs why a job was slow, failed or kept, in one line, and records its phases as metrics.
pub fn record_end(job: &Job, phases: &[(String, Duration)]) {
    for (phase, took) in phases {
        histogram!("guarantor_job_phase_seconds", "phase" => phase.clone()).record(took.as_secs_f64());
    }
    let spent: Vec<String> =
        phases.iter().map(|(phase, t)| format!("{phase} {:.3}", t.as_secs_f64())).collect();
    let reasons = job.result.as_ref().map(|result| {
        let codes: Vec<&str> = result.reasons.iter().map(|reason| reason.code.name()).collect();
        codes.join(",")
    });
    let began = job.started_at.or(job.finished_at).unwrap_or(job.queued_at);
    tracing::info!(
        job_id = %job.id,
        workspace = %job.workspace,
        submitted_by = job.submitted_by,
        dataset_id = %job.dataset_id,
        dataset_version = job.dataset_version,
        status = job.status.name(),
        attempt = job.attempt,
        decision = job.result.as_ref().map(|result| result.decision.name()),
        reasons,
        guaranteed_improvement = job.result.as_ref().map(|result| result.guaranteed_improvement),
        error_code = job.failure.as_ref().map(|failure| failure.code.name()),
        error = job.failure.as_ref().map(|failure| failure.message.as_str()),
        wait_seconds = began.seconds_since(job.queued_at),
        run_seconds = job.finished_at.map(|end| end.seconds_since(began)),
        phases = spent.join(", "),
        "job ended"
    );
}

/// Logs and counts a job that goes back to the queue.
fn record_return(id: JobId, finish: &Finish) {
    let (cause, reason) = match finish {
        Finish::Postponed(reason) => ("disk", reason.as_str()),
        Finish::Retry(failure) => ("store", failure.message.as_str()),
        _ => ("shutdown", "the server is shutting down"),
    };
    counter!("guarantor_jobs_requeued_total", "cause" => cause).increment(1);
    tracing::warn!(job_id = %id, cause, reason, "job returned to the queue");
}

/// The files that `store_files` wrote, for an end that was not written.
fn files_of(finish: &Finish) -> Vec<String> {
    let Finish::Succeeded(success) = finish else { return Vec::new() };
    let policy = success.policy.as_ref().map(|policy| &policy.params);
    [&success.certificate, &success.evidence].into_iter().chain(policy).map(|blob| blob.key.clone()).collect()
}

/// Writes the files of a result. `finish_job` then writes the rows that name them, in one transaction.
async fn store_files(store: &Store, claim: &ClaimedJob, finished: Finished) -> Result<Success> {
    let (job, token) = (&claim.job, claim.token);
    let put = async |name, bytes| store.blobs().put(job_key(job.id, token, name), bytes).await;
    // A policy may be large, and serializing it would block the other tasks of the thread.
    let written = tokio::task::spawn_blocking(move || {
        let policy = finished.evidence.policy().map(json_bytes).transpose()?;
        Ok::<_, StoreError>((
            json_bytes(&finished.certificate)?,
            json_bytes(&finished.evidence)?,
            policy,
            finished,
        ))
    });
    let written = written.await.map_err(|error| StoreError::damaged("a result", error))?;
    let (certificate, evidence, policy, finished) = written?;
    let policy = async {
        let Some((params, bytes)) = finished.evidence.policy().zip(policy) else { return Ok(None) };
        let id = PolicyId::new();
        let blob = store.blobs().put(policy_key(id), bytes).await?;
        Ok(Some(describe_policy(&job.workspace, id, params, Some(job.id), blob)?))
    };
    // Concurrently, because each waits for the disk.
    let (certificate, evidence, policy) =
        try_join3(put("certificate.json", certificate), put("evidence.json", evidence), policy).await?;
    let result = summary(&finished.certificate, policy.as_ref().map(|policy| policy.id));
    let (drawn, signing_key) = (Arc::new(finished.certificate), store.signing_key().cloned());
    Ok(Success { result, certificate, evidence, policy, drawn, signing_key })
}

/// The summary of a certificate that the job's row contains.
fn summary(certificate: &Certificate, policy_id: Option<PolicyId>) -> JobResult {
    JobResult {
        decision: certificate.decision,
        reasons: certificate.reasons.clone(),
        guaranteed_risk: certificate.guaranteed_risk,
        guaranteed_improvement: certificate.guaranteed_improvement,
        baseline_risk: certificate.baseline_risk.clone(),
        confidence: certificate.confidence,
        user_units: certificate.user_units.clone(),
        candidate: certificate.candidate.clone(),
        policy_id,
        exploration: certificate.exploration.clone(),
    }
}

//! From how a computation ended to what the store keeps of it.

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
    Claim, Finish, Job, JobFailure, JobId, JobResult, PolicyId, Result, Store, StoreError, Success,
    describe_policy, job_key, json_bytes, policy_key,
};
use guarantor_engine::certificate::Certificate;
use guarantor_engine::{EngineError, Finished};

/// The waits between tries to write an ending down. After them the lease runs out and the job is
/// computed again, with the same numbers.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1600),
    Duration::from_millis(6400),
];

impl Queue {
    /// Writes the ending down, or nothing where the lease is lost.
    pub async fn conclude(&self, claim: &Claim, ended: Ended) {
        let done = Notify::new();
        let write = async {
            self.write_end(claim, ended).await;
            done.notify_one();
        };
        tokio::join!(write, self.keep_lease(claim, &done));
    }

    async fn write_end(&self, claim: &Claim, ended: Ended) {
        let timeline = ended.timeline.clone();
        timeline.enter(STORING);
        let Some(finish) = self.finish_for(claim, ended).await else { return };
        let (id, token) = (claim.job.id, claim.token);
        let terms = self.settings().terms();
        for wait in RETRIES.into_iter().map(Some).chain([None]) {
            match self.store().repository().finish_job(id, token, &terms, finish.clone()).await {
                Ok(job) if job.status.is_finished() => {
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
                    tracing::warn!(job_id = %id, "the lease was lost before the end was written");
                    self.store().blobs().delete(&files_of(&finish)).await;
                    return;
                }
                Err(error) => {
                    let unwritable = self.note_unwritable(&error);
                    tracing::error!(job_id = %id, %error, "a job's end could not be written");
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

    async fn finish_for(&self, claim: &Claim, ended: Ended) -> Option<Finish> {
        Some(match ended.end {
            End::LeaseLost => return None,
            End::Abandoned => Finish::Released,
            End::NotRun(RunError::Failed(failure)) => Finish::Failed(failure),
            End::NotRun(RunError::Retry(failure)) => self.later(failure).await,
            End::Computed(Computed::Returned(Err(EngineError::Unavailable(why)))) => {
                self.later(JobFailure::new("dataset_unreadable", why)).await
            }
            End::Computed(Computed::Panicked(words)) => {
                tracing::error!(job_id = %claim.job.id, panic = words, "the core panicked");
                let message = format!("the computation stopped on an internal error: {words}");
                Finish::Failed(JobFailure::new("panicked", message))
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
                    EngineError::Log(_) => "dataset_unreadable",
                    _ => "engine_error",
                };
                Finish::Failed(JobFailure::new(code, error.to_string()))
            }
            End::Computed(Computed::Returned(Ok(finished))) => {
                match store_files(self.store(), claim, *finished).await {
                    Ok(success) => Finish::Succeeded(Box::new(success)),
                    Err(error) => {
                        tracing::error!(job_id = %claim.job.id, %error, "a certificate could not be stored");
                        let message = "the certificate could not be stored";
                        match self.note_unwritable(&error) {
                            true => Finish::Postponed(format!("{message}: the disk takes no data")),
                            false => Finish::Retry(JobFailure::new("attempts_exhausted", message)),
                        }
                    }
                }
            }
        })
    }

    /// What was in the way gets a moment to go.
    async fn later(&self, failure: JobFailure) -> Finish {
        tokio::time::sleep(self.settings().poll).await;
        Finish::Retry(failure)
    }

    /// Keeps the lease until `done`: large results take long to store, and a full disk longer.
    async fn keep_lease(&self, claim: &Claim, done: &Notify) {
        let terms = self.settings().terms();
        loop {
            tokio::select! {
                _ = done.notified() => return,
                _ = tokio::time::sleep(terms.duration / 4) => {}
            }
            // Whoever writes the end notices by himself what is wrong.
            let _ = self.store().repository().heartbeat(claim.job.id, claim.token, &terms, None).await;
        }
    }

    /// Remembers a job of which nothing could be written for want of a disk that takes it, so that it
    /// is put back as if this attempt had not been.
    pub(super) async fn remember_unwritten(&self, claim: &Claim) {
        self.shared.unwritten.lock().await.insert(claim.job.id, claim.token);
    }

    /// Where the disk had refused: waits no longer if it takes data again, and puts those jobs back
    /// before anybody counts their leases as run out.
    pub(super) async fn recover(&self) -> Result<()> {
        let mut unwritten = self.shared.unwritten.lock().await;
        if unwritten.is_empty() && !self.shared.unwritable.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.store().check_ready().await?;
        while let Some((&id, &token)) = unwritten.iter().next() {
            let finish = Finish::Postponed("the disk took no data".into());
            match self
                .store()
                .repository()
                .finish_job(id, token, &self.settings().terms(), finish.clone())
                .await
            {
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

    /// Whether it was the disk that refused; workers then wait for it.
    pub(super) fn note_unwritable(&self, error: &StoreError) -> bool {
        let unwritable = error.is_unwritable();
        if unwritable {
            self.shared.unwritable.store(true, Ordering::Relaxed);
        }
        unwritable
    }
}

/// The one line from which an operator sees why a job was slow, failed or kept.
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
        dataset_id = %job.dataset_id,
        dataset_version = job.dataset_version,
        status = job.status.name(),
        attempt = job.attempt,
        decision = job.result.as_ref().map(|result| result.decision.name()),
        reasons,
        guaranteed_improvement = job.result.as_ref().map(|result| result.guaranteed_improvement),
        error_code = job.failure.as_ref().map(|failure| failure.code.as_str()),
        error = job.failure.as_ref().map(|failure| failure.message.as_str()),
        wait_seconds = began.seconds_since(job.queued_at),
        run_seconds = job.finished_at.map(|end| end.seconds_since(began)),
        phases = spent.join(", "),
        "job ended"
    );
}

fn record_return(id: JobId, finish: &Finish) {
    let (cause, reason) = match finish {
        Finish::Postponed(reason) => ("disk", reason.as_str()),
        Finish::Retry(failure) => ("store", failure.message.as_str()),
        _ => ("shutdown", "the server is shutting down"),
    };
    counter!("guarantor_jobs_requeued_total", "cause" => cause).increment(1);
    tracing::warn!(job_id = %id, cause, reason, "job put back into the queue");
}

/// What `store_files` wrote for an ending that nobody will name.
fn files_of(finish: &Finish) -> Vec<String> {
    let Finish::Succeeded(success) = finish else { return Vec::new() };
    let policy = success.policy.as_ref().map(|policy| &policy.params);
    [&success.certificate, &success.evidence].into_iter().chain(policy).map(|blob| blob.key.clone()).collect()
}

/// The files first; the rows that name them are `finish_job`'s, in one transaction.
async fn store_files(store: &Store, claim: &Claim, finished: Finished) -> Result<Success> {
    let (job, token) = (&claim.job, claim.token);
    let put = async |name, bytes| store.blobs().put(job_key(job.id, token, name), bytes).await;
    // A policy may be large, and writing it out holds up whoever shares the thread.
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
    // Together, because each waits for the disk.
    let (certificate, evidence, policy) =
        try_join3(put("certificate.json", certificate), put("evidence.json", evidence), policy).await?;
    let result = summary(&finished.certificate, policy.as_ref().map(|policy| policy.id));
    let (drawn, signing_key) = (Arc::new(finished.certificate), store.signing_key().cloned());
    Ok(Success { result, certificate, evidence, policy, drawn, signing_key })
}

fn summary(certificate: &Certificate, policy_id: Option<PolicyId>) -> JobResult {
    JobResult {
        decision: certificate.decision,
        reasons: certificate.reasons.clone(),
        guaranteed_risk: certificate.guaranteed_risk,
        guaranteed_improvement: certificate.guaranteed_improvement,
        baseline_risk: certificate.baseline_risk.clone(),
        confidence: certificate.confidence,
        user_units: certificate.user_units.clone(),
        policy_id,
    }
}

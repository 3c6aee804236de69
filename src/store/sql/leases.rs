//! What workers write. Every statement on a claimed job names its lease's token, so a worker whose lease has
//! passed to another changes nothing.

use async_trait::async_trait;
use serde_json::json;
use sqlx::{FromRow, Row};

use super::policies::insert_policy;
use super::rows::to_json;
use super::{Repo, Write, micros};
use crate::store::error::{Result, StoreError};
use crate::store::failure::{FailureCode, JobFailure};
use crate::store::ids::{JobId, LeaseToken};
use crate::store::records::{ClaimedJob, Finish, Job, JobProgress, LeaseTerms, Success};
use crate::store::repository::Leases;

/// Progress events older than this many events are deleted; a client that resumes from further back does
/// not see them.
const PROGRESS_EVENTS: i64 = 200;

/// The state of a job after an attempt without a result.
enum Parting {
    Requeued { reason: String, counts: bool },
    Failed(JobFailure),
    Cancelled,
}

impl Parting {
    /// After a failure that the job did not cause.
    fn after_fault(job: &Job, terms: &LeaseTerms, failure: JobFailure) -> Self {
        if job.cancel_requested {
            Parting::Cancelled
        } else if job.attempt >= terms.max_attempts {
            let message =
                format!("gave up after {} attempts; the last one: {}", job.attempt, failure.message);
            Parting::Failed(JobFailure::new(FailureCode::AttemptsExhausted, message))
        } else {
            Parting::Requeued { reason: failure.message, counts: true }
        }
    }
}

impl Write {
    /// The job, if `token` still holds it.
    async fn held(&mut self, id: JobId, token: LeaseToken) -> Result<Job> {
        let job: Option<Job> = sqlx::query_as(concat!(
            "SELECT * FROM jobs WHERE id = $1 AND lease_token = $2 AND status = 'running'",
            lock_rows!()
        ))
        .bind(id.to_string())
        .bind(token.to_string())
        .fetch_optional(self.connection())
        .await?;
        job.ok_or(StoreError::LeaseLost(id.into()))
    }

    /// Ends an attempt that produced nothing.
    async fn part(&mut self, id: JobId, token: &str, parting: Parting) -> Result<Job> {
        let now = self.now.0;
        let (status, failure, uncounted, finished_at) = match &parting {
            Parting::Requeued { counts, .. } => ("queued", None, i64::from(!counts), None),
            Parting::Failed(failure) => ("failed", Some(to_json(failure)?), 0, Some(now)),
            Parting::Cancelled => ("cancelled", None, 0, Some(now)),
        };
        let after: Option<Job> = sqlx::query_as(
            "UPDATE jobs SET status = $3, failure = $4, attempt = attempt - $5, finished_at = $6, \
             started_at = CASE WHEN $6 IS NULL THEN NULL ELSE started_at END, \
             progress = CASE WHEN $6 IS NULL THEN NULL ELSE progress END, \
             queued_at = CASE WHEN $6 IS NULL THEN $7 ELSE queued_at END, \
             lease_token = NULL, lease_until = NULL, revision = revision + 1 \
             WHERE id = $1 AND lease_token = $2 RETURNING *",
        )
        .bind(id.to_string())
        .bind(token)
        .bind(status)
        .bind(failure)
        .bind(uncounted)
        .bind(finished_at)
        .bind(now)
        .fetch_optional(self.connection())
        .await?;
        let after = after.ok_or(StoreError::LeaseLost(id.into()))?;
        if after.status.is_finished() {
            self.enter_shown(&after).await?;
            self.announce_end(&after).await?;
        }
        let (kind, data) = match parting {
            Parting::Requeued { reason, .. } => ("requeued", json!({ "reason": reason })),
            Parting::Failed(failure) => ("failed", json!(failure)),
            Parting::Cancelled => ("cancelled", json!({})),
        };
        self.append_event(id, kind, &data).await?;
        Ok(after)
    }

    /// Ends the job with its result, its policy and its look.
    async fn succeed(&mut self, id: JobId, token: LeaseToken, success: Success) -> Result<Job> {
        let now = self.now.0;
        let after: Option<Job> = sqlx::query_as(
            "UPDATE jobs SET status = 'succeeded', finished_at = $3, result = $4, certificate = $5, evidence = $6, \
             lease_token = NULL, lease_until = NULL, revision = revision + 1 \
             WHERE id = $1 AND lease_token = $2 RETURNING *",
        )
        .bind(id.to_string())
        .bind(token.to_string())
        .bind(now)
        .bind(to_json(&success.result)?)
        .bind(to_json(&success.certificate)?)
        .bind(to_json(&success.evidence)?)
        .fetch_optional(self.connection())
        .await?;
        let after = after.ok_or(StoreError::LeaseLost(id.into()))?;
        if let Some(policy) = success.policy {
            let origins = self.origins_of(&after).await?;
            self.record_descent(&after, &policy.base_digest, &origins).await?;
            insert_policy(self, policy).await?;
        }
        self.enter_look(&after, &success.drawn, success.signing_key.as_deref()).await?;
        self.name_blobs(&id.to_string(), &[success.certificate, success.evidence]).await?;
        let data = json!({
            "decision": success.result.decision,
            "guaranteed_improvement": success.result.guaranteed_improvement,
        });
        self.append_event(id, "succeeded", &data).await?;
        self.announce_end(&after).await?;
        Ok(after)
    }

    async fn report(&mut self, id: JobId, token: LeaseToken, progress: &JobProgress) -> Result<()> {
        sqlx::query(
            "UPDATE jobs SET progress = $3, shown = (shown OR $4), revision = revision + 1 \
             WHERE id = $1 AND lease_token = $2",
        )
        .bind(id.to_string())
        .bind(token.to_string())
        .bind(to_json(progress)?)
        .bind(progress.progress.bound.is_some())
        .execute(self.connection())
        .await?;
        self.append_event(id, "progress", &json!(progress)).await?;
        sqlx::query(
            "DELETE FROM job_events WHERE job_id = $1 AND kind = 'progress' \
             AND id < (SELECT MAX(id) FROM job_events WHERE job_id = $1) - $2",
        )
        .bind(id.to_string())
        .bind(PROGRESS_EVENTS)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Fails a job whose row cannot be read, so that it does not hold up the jobs behind it.
    async fn fail_unreadable(&mut self, id: &str, error: &StoreError) -> Result<()> {
        let failure = JobFailure::new(FailureCode::JobUnreadable, "the stored job is damaged");
        let failed = sqlx::query(
            "UPDATE jobs SET status = 'failed', failure = $2, finished_at = $3, lease_token = NULL, \
             lease_until = NULL, revision = revision + 1 WHERE id = $1 AND status IN ('queued', 'running')",
        )
        .bind(id)
        .bind(to_json(&failure)?)
        .bind(self.now.0)
        .execute(self.connection())
        .await?;
        if failed.rows_affected() == 0 {
            // Another worker was faster.
            return Ok(());
        }
        tracing::error!(job_id = id, %error, "a job's row is damaged; the job was failed");
        match self.enter_damaged(id).await {
            // What is damaged may be the name of the dataset. The jobs behind this one must not wait for that.
            Err(error @ StoreError::Damaged(_)) => {
                tracing::error!(job_id = id, %error, "the look of a damaged job was not entered into the ledger");
            }
            entered => entered?,
        }
        self.announce_damaged(id, &failure).await?;
        match id.parse() {
            Ok(id) => self.append_event(id, "failed", &json!(failure)).await,
            Err(_) => Ok(()),
        }
    }

    async fn next_queued(&mut self) -> Result<Option<String>> {
        let next = sqlx::query(concat!(
            "SELECT j.id FROM jobs j JOIN workspaces w ON w.id = j.workspace WHERE j.status = 'queued' \
             ORDER BY w.last_served, j.seq LIMIT 1",
            skip_locked!("j")
        ))
        .fetch_optional(self.connection())
        .await?;
        Ok(next.map(|row| row.try_get("id")).transpose()?)
    }

    async fn claim(&mut self, id: &str, terms: &LeaseTerms) -> Result<ClaimedJob> {
        let (now, token) = (self.now.0, LeaseToken::new());
        let job: Job = sqlx::query_as(
            "UPDATE jobs SET status = 'running', attempt = attempt + 1, started_at = $2, lease_token = $3, \
             lease_until = $4, progress = NULL, revision = revision + 1 WHERE id = $1 RETURNING *",
        )
        .bind(id)
        .bind(now)
        .bind(token.to_string())
        .bind(now + micros(terms.duration))
        .fetch_one(self.connection())
        .await?;
        self.serve_workspace(&job).await?;
        self.append_event(job.id, "started", &json!({ "attempt": job.attempt })).await?;
        Ok(ClaimedJob { job, token })
    }

    async fn serve_workspace(&mut self, job: &Job) -> Result<()> {
        sqlx::query(
            "UPDATE workspaces SET last_served = (SELECT MAX(last_served) + 1 FROM workspaces) WHERE id = $1",
        )
        .bind(job.workspace.as_str())
        .execute(self.connection())
        .await?;
        Ok(())
    }
}

#[async_trait]
impl Leases for Repo {
    async fn expire_leases(&self, terms: &LeaseTerms) -> Result<Vec<Job>> {
        // Workers call this often and leases rarely expire, so look without the write lock first.
        let none = sqlx::query(concat!(
            "SELECT 1 FROM jobs WHERE status = 'running' AND lease_until <= ",
            now_sql!(),
            " LIMIT 1"
        ))
        .fetch_optional(&self.readers)
        .await?
        .is_none();
        if none {
            return Ok(Vec::new());
        }
        let mut write = self.write().await?;
        let now = write.now.0;
        // Whoever holds the lock of a row is extending its lease.
        let rows = sqlx::query(concat!(
            "SELECT * FROM jobs j WHERE status = 'running' AND lease_until <= $1 ORDER BY seq",
            skip_locked!("j")
        ))
        .bind(now)
        .fetch_all(write.connection())
        .await?;
        let mut changed = Vec::with_capacity(rows.len());
        for row in &rows {
            let job = match Job::from_row(row) {
                Ok(job) => job,
                Err(error) => {
                    let error = StoreError::from(error);
                    write.fail_unreadable(&row.try_get::<String, _>("id")?, &error).await?;
                    continue;
                }
            };
            let token: String = row.try_get("lease_token")?;
            let message = "the process that ran the job stopped responding";
            let parting =
                Parting::after_fault(&job, terms, JobFailure::new(FailureCode::AttemptsExhausted, message));
            changed.push(write.part(job.id, &token, parting).await?);
        }
        write.commit().await?;
        Ok(changed)
    }

    async fn claim_job(&self, terms: &LeaseTerms) -> Result<Option<ClaimedJob>> {
        let waiting = sqlx::query("SELECT 1 FROM jobs WHERE status = 'queued' LIMIT 1")
            .fetch_optional(&self.readers)
            .await?;
        if waiting.is_none() {
            return Ok(None);
        }
        loop {
            let mut write = self.write_rows().await?;
            let Some(next) = write.next_queued().await? else {
                write.commit().await?;
                return Ok(None);
            };
            match write.claim(&next, terms).await {
                Err(error @ StoreError::Damaged(_)) => {
                    // Its look is entered into the ledger, which needs the one lock for that.
                    write.roll_back().await?;
                    let mut write = self.write().await?;
                    write.fail_unreadable(&next, &error).await?;
                    write.commit().await?;
                }
                claim => {
                    let claim = claim?;
                    write.commit().await?;
                    return Ok(Some(claim));
                }
            }
        }
    }

    async fn heartbeat(
        &self,
        id: JobId,
        token: LeaseToken,
        terms: &LeaseTerms,
        progress: Option<&JobProgress>,
    ) -> Result<bool> {
        let mut write = self.write_rows().await?;
        let until = write.now.0 + micros(terms.duration);
        let asked: Option<(bool,)> = sqlx::query_as(
            "UPDATE jobs SET lease_until = $3 WHERE id = $1 AND lease_token = $2 AND status = 'running' \
             RETURNING cancel_requested",
        )
        .bind(id.to_string())
        .bind(token.to_string())
        .bind(until)
        .fetch_optional(write.connection())
        .await?;
        let (cancel_requested,) = asked.ok_or(StoreError::LeaseLost(id.into()))?;
        if let Some(progress) = progress {
            write.report(id, token, progress).await?;
        }
        write.commit().await?;
        Ok(cancel_requested)
    }

    async fn cancel_requested(&self, id: JobId, token: LeaseToken) -> Result<bool> {
        let asked: Option<(bool,)> =
            sqlx::query_as("SELECT cancel_requested FROM jobs WHERE id = $1 AND lease_token = $2")
                .bind(id.to_string())
                .bind(token.to_string())
                .fetch_optional(&self.readers)
                .await?;
        asked.map(|(cancel_requested,)| cancel_requested).ok_or(StoreError::LeaseLost(id.into()))
    }

    async fn finish_job(
        &self,
        id: JobId,
        token: LeaseToken,
        terms: &LeaseTerms,
        finish: Finish,
    ) -> Result<Job> {
        let mut write = self.write().await?;
        let before = write.held(id, token).await?;
        let parting = match finish {
            // The cancellation was acknowledged, so there must be no certificate.
            Finish::Succeeded(_) if before.cancel_requested => Parting::Cancelled,
            Finish::Succeeded(success) => {
                let after = write.succeed(id, token, *success).await?;
                write.commit().await?;
                return Ok(after);
            }
            Finish::Failed(failure) => Parting::Failed(failure),
            Finish::Cancelled => Parting::Cancelled,
            Finish::Released | Finish::Postponed(_) if before.cancel_requested => Parting::Cancelled,
            Finish::Released => {
                Parting::Requeued { reason: "the server is shutting down".into(), counts: false }
            }
            Finish::Postponed(reason) => Parting::Requeued { reason, counts: false },
            Finish::Retry(failure) => Parting::after_fault(&before, terms, failure),
        };
        let after = write.part(id, &token.to_string(), parting).await?;
        write.commit().await?;
        Ok(after)
    }

    async fn end_all_leases(&self) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE jobs SET lease_until = 0 WHERE status = 'running'")
            .execute(write.connection())
            .await?;
        sqlx::query("UPDATE imports SET lease_until = 0 WHERE status = 'running'")
            .execute(write.connection())
            .await?;
        write.commit().await
    }
}

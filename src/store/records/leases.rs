//! What workers receive and write.

use std::sync::Arc;
use std::time::Duration;

use super::{BlobRef, Job, JobResult, NewPolicy};
use crate::store::failure::JobFailure;
use crate::store::ids::LeaseToken;
use guarantor_engine::certificate::{Certificate, SigningKey};

/// A job that a worker has claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedJob {
    /// The job.
    pub job: Job,
    /// Proof of the claim.
    pub token: LeaseToken,
}

/// The terms of a lease.
#[derive(Debug, Clone, Copy)]
pub struct LeaseTerms {
    /// How long a claim or a heartbeat keeps the job.
    pub duration: Duration,
    /// How many times a job is started before it fails.
    pub max_attempts: u32,
}

/// How a worker ends an attempt. Everything is written in one transaction.
#[derive(Debug, Clone)]
pub enum Finish {
    /// The job has a certificate.
    Succeeded(Box<Success>),
    /// The job failed.
    Failed(JobFailure),
    /// The job was canceled.
    Cancelled,
    /// The process is shutting down. The job returns to its position in the queue as if this attempt had not
    /// started.
    Released,
    /// The result could not be stored, for this reason. The job returns to the queue in the same way.
    Postponed(String),
    /// Something outside of the job got in the way. The job returns to its position in the queue, or fails if
    /// this was the last attempt.
    Retry(JobFailure),
}

/// What a successful job produced.
#[derive(Debug, Clone)]
pub struct Success {
    /// A summary of the certificate.
    pub result: JobResult,
    /// The certificate's file.
    pub certificate: BlobRef,
    /// The evidence's file.
    pub evidence: BlobRef,
    /// The learned policy (kind `learn`).
    pub policy: Option<NewPolicy>,
    /// The certificate itself, for the ledger.
    pub drawn: Arc<Certificate>,
    /// Signs the certificate together with its ledger entry; `None` if nothing is signed.
    pub signing_key: Option<Arc<SigningKey>>,
}

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use guarantor::store::*;
use guarantor_engine::control::Progress;
use guarantor_engine::policy::PolicyParams;

use crate::support::{dataset, finished, job, policy_params, workspace};

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 3 };
/// A lease that expires as soon as it is granted.
const NO_TIME: LeaseTerms = LeaseTerms { duration: Duration::ZERO, max_attempts: 3 };

fn progress(fraction: f64) -> JobProgress {
    JobProgress { progress: Progress::phase("learning", fraction), elapsed_seconds: 1.0 }
}

/// What a job with made-up numbers ends with.
pub fn success(claim: &ClaimedJob) -> Success {
    let certificate = finished(&claim.job.spec).certificate;
    let drawn = Arc::new(certificate.clone());
    let id = PolicyId::new();
    let params = BlobRef::new(policy_key(id), 3);
    let job = &claim.job;
    Success {
        result: JobResult {
            decision: certificate.decision,
            reasons: certificate.reasons,
            guaranteed_risk: certificate.guaranteed_risk,
            guaranteed_improvement: certificate.guaranteed_improvement,
            baseline_risk: certificate.baseline_risk,
            confidence: certificate.confidence,
            user_units: certificate.user_units,
            policy_id: Some(id),
            candidate: None,
            exploration: None,
        },
        certificate: BlobRef::new(job_key(job.id, claim.token, "certificate.json"), 5),
        evidence: BlobRef::new(job_key(job.id, claim.token, "evidence.json"), 6),
        policy: Some(describe_policy(&job.workspace, id, &policy_params(), Some(job.id), params).unwrap()),
        drawn,
        signing_key: None,
    }
}

pub async fn jobs_are_claimed_in_order(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let mut submitted = Vec::new();
    for _ in 0..4 {
        submitted.push(job(repository, &dataset).await.id);
    }
    let mut claimed = Vec::new();
    while let Some(claim) = repository.claim_job(&TERMS).await.unwrap() {
        assert_eq!((claim.job.status, claim.job.attempt), (JobStatus::Running, 1));
        assert!(claim.job.started_at.is_some());
        claimed.push(claim.job.id);
    }
    assert_eq!(claimed, submitted);
}

pub async fn workspaces_take_turns(repository: &dyn Repository) {
    let (a, b, c) =
        (dataset(repository, "a").await, dataset(repository, "b").await, dataset(repository, "c").await);
    for dataset in [&a, &a, &a, &a, &b, &b, &c] {
        job(repository, dataset).await;
    }
    let mut served = String::new();
    while let Some(claim) = repository.claim_job(&TERMS).await.unwrap() {
        served += claim.job.workspace.as_str();
    }
    assert_eq!(served, "abcabaa");
}

pub async fn a_success_writes_everything(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    job(repository, &dataset).await;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let (id, ws, success) = (claim.job.id, workspace("a"), success(&claim));
    let finish = Finish::Succeeded(Box::new(success.clone()));
    let ended = repository.finish_job(id, claim.token, &TERMS, finish).await.unwrap();
    assert_eq!(ended, repository.job(&ws, id).await.unwrap());
    assert_eq!(ended.status, JobStatus::Succeeded);
    assert_eq!(ended.result, Some(success.result.clone()));
    assert_eq!((ended.certificate, ended.evidence), (Some(success.certificate), Some(success.evidence)));
    let policy = repository.policy(&ws, success.result.policy_id.unwrap()).await.unwrap();
    assert_eq!(policy.source_job_id, Some(id));
    let events = repository.job_events(&ws, id, 2, 10).await.unwrap();
    assert_eq!((events[0].kind.as_str(), &events[0].data["decision"]), ("succeeded", &"keep".into()));
}

/// Parameters that a job learned are known by their digest, whoever stores them and whenever.
pub async fn parameters_keep_their_descent(repository: &dyn Repository) {
    let ws = workspace("a");
    let stored = async |workspace: &Workspace| {
        let id = PolicyId::new();
        let blob = BlobRef::new(policy_key(id), 3);
        let exploring = PolicyParams::Exploring {
            share: 0.1,
            base: Box::new(policy_params()),
            with: Box::new(PolicyParams::Uniform { n_actions: 3, dim: 2 }),
        };
        let new = describe_policy(workspace, id, &exploring, None, blob).unwrap();
        repository.create_policy(new).await.unwrap()
    };
    let before = stored(&ws).await;
    assert!(before.origins.is_empty());
    let dataset = dataset(repository, "a").await;
    job(repository, &dataset).await;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let success = success(&claim);
    let learned = success.result.policy_id.unwrap();
    let finish = Finish::Succeeded(Box::new(success));
    repository.finish_job(claim.job.id, claim.token, &TERMS, finish).await.unwrap();
    let origins = BTreeSet::from([dataset.id]);
    assert_eq!(repository.policy(&ws, learned).await.unwrap().origins, origins);
    // Also with exploration, which does not change what the rest was learned from.
    assert_eq!(repository.policy(&ws, before.id).await.unwrap().origins, origins);
    for policy in [learned, before.id] {
        repository.delete_policy(&ws, policy).await.unwrap();
    }
    repository.delete_dataset(&ws, dataset.id).await.unwrap();
    assert_eq!(stored(&ws).await.origins, origins);
    assert!(stored(&workspace("b")).await.origins.is_empty());
}

pub async fn a_lost_lease_writes_nothing(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    job(repository, &dataset).await;
    let first = repository.claim_job(&NO_TIME).await.unwrap().unwrap();
    let id = first.job.id;
    let expired = repository.expire_leases(&TERMS).await.unwrap();
    assert_eq!(expired.iter().map(|job| (job.id, job.status)).collect::<Vec<_>>(), [(id, JobStatus::Queued)]);
    let second = repository.claim_job(&TERMS).await.unwrap().unwrap();
    assert_eq!((second.job.id, second.job.attempt), (id, 2));
    assert_ne!(second.token, first.token);
    let before = repository.job(&workspace("a"), id).await.unwrap();
    let lost = |result: Result<()>| assert!(matches!(result, Err(StoreError::LeaseLost(_))), "{result:?}");
    lost(repository.heartbeat(id, first.token, &TERMS, Some(&progress(0.5))).await.map(drop));
    lost(repository.cancel_requested(id, first.token).await.map(drop));
    let success = success(&first);
    let policy = success.result.policy_id.unwrap();
    for finish in [
        Finish::Succeeded(Box::new(success)),
        Finish::Failed(JobFailure::new(FailureCode::EngineError, "no")),
        Finish::Cancelled,
        Finish::Released,
        Finish::Postponed("no room".into()),
        Finish::Retry(JobFailure::new(FailureCode::EngineError, "no")),
    ] {
        lost(repository.finish_job(id, first.token, &TERMS, finish).await.map(drop));
    }
    assert_eq!(repository.job(&workspace("a"), id).await.unwrap(), before);
    assert!(repository.policy(&workspace("a"), policy).await.is_err());
    repository.finish_job(id, second.token, &TERMS, Finish::Cancelled).await.unwrap();
    // The holder cannot write twice either.
    lost(repository.finish_job(id, second.token, &TERMS, Finish::Cancelled).await.map(drop));
}

pub async fn attempts_are_bounded(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let id = job(repository, &dataset).await.id;
    for attempt in 1..=3 {
        let claim = repository.claim_job(&NO_TIME).await.unwrap().unwrap();
        assert_eq!(claim.job.attempt, attempt);
        let expired = repository.expire_leases(&TERMS).await.unwrap();
        assert_eq!(expired[0].status.is_finished(), attempt == 3);
    }
    let ended = repository.job(&workspace("a"), id).await.unwrap();
    assert_eq!((ended.status, ended.attempt), (JobStatus::Failed, 3));
    assert_eq!(ended.failure.unwrap().code, FailureCode::AttemptsExhausted);
    assert!(repository.claim_job(&TERMS).await.unwrap().is_none());
    assert!(repository.expire_leases(&TERMS).await.unwrap().is_empty());
}

pub async fn a_release_does_not_count(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let (first, second) = (job(repository, &dataset).await.id, job(repository, &dataset).await.id);
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let postponed = Finish::Postponed("no room".into());
    let released = repository.finish_job(first, claim.token, &TERMS, postponed).await.unwrap();
    assert_eq!((released.status, released.attempt), (JobStatus::Queued, 0));
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    assert_eq!((claim.job.id, claim.job.attempt), (first, 1));
    let released = repository.finish_job(first, claim.token, &TERMS, Finish::Released).await.unwrap();
    assert_eq!((released.status, released.attempt), (JobStatus::Queued, 0));
    assert_eq!((released.started_at, released.finished_at), (None, None));
    // It has kept its position in the queue.
    let again = repository.claim_job(&TERMS).await.unwrap().unwrap();
    assert_eq!((again.job.id, again.job.attempt), (first, 1));
    assert_eq!(repository.claim_job(&TERMS).await.unwrap().unwrap().job.id, second);
}

pub async fn a_canceled_job_is_not_requeued(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let ws = workspace("a");
    for finish in [
        Finish::Released,
        Finish::Postponed("no room".into()),
        Finish::Retry(JobFailure::new(FailureCode::EngineError, "no")),
    ] {
        let id = job(repository, &dataset).await.id;
        let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
        repository.cancel_job(&ws, id).await.unwrap();
        let ended = repository.finish_job(id, claim.token, &TERMS, finish).await.unwrap();
        assert_eq!(ended.status, JobStatus::Cancelled);
    }
    let id = job(repository, &dataset).await.id;
    repository.claim_job(&NO_TIME).await.unwrap().unwrap();
    repository.cancel_job(&ws, id).await.unwrap();
    repository.expire_leases(&TERMS).await.unwrap();
    assert_eq!(repository.job(&ws, id).await.unwrap().status, JobStatus::Cancelled);
}

/// A computation that was done when the cancellation came must not end with a certificate.
pub async fn a_success_after_a_cancellation_is_canceled(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let ws = workspace("a");
    for bound in [None, Some(-0.4)] {
        let id = job(repository, &dataset).await.id;
        let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
        let mut seen = progress(0.5);
        seen.progress.bound = bound;
        repository.heartbeat(id, claim.token, &TERMS, Some(&seen)).await.unwrap();
        let (asked, _) = repository.cancel_job(&ws, id).await.unwrap();
        assert_eq!((asked.status, asked.cancel_requested), (JobStatus::Running, true));
        let success = success(&claim);
        let policy = success.result.policy_id.unwrap();
        let named = [success.certificate.key.clone(), success.evidence.key.clone(), policy_key(policy)];
        let finish = Finish::Succeeded(Box::new(success));
        let ended = repository.finish_job(id, claim.token, &TERMS, finish).await.unwrap();
        assert_eq!((ended.status, &ended.result, &ended.certificate), (JobStatus::Cancelled, &None, &None));
        assert_eq!(ended, repository.job(&ws, id).await.unwrap());
        assert!(repository.policy(&ws, policy).await.is_err());
        assert_eq!(repository.unnamed_blobs(&named).await.unwrap(), named);
        // It is a look if it has shown a bound, as for every canceled job.
        let look = repository.look_of_job(&ws, id).await.unwrap();
        assert_eq!(look.map(|look| (look.decision, look.digest)), bound.map(|_| (None, None)));
    }
}

pub async fn progress_changes_the_revision(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let id = job(repository, &dataset).await.id;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let mut revision = claim.job.revision;
    for fraction in [0.25, 0.5] {
        repository.heartbeat(id, claim.token, &TERMS, Some(&progress(fraction))).await.unwrap();
        let job = repository.job(&workspace("a"), id).await.unwrap();
        assert_eq!(job.progress, Some(progress(fraction)));
        assert!(job.revision > revision);
        revision = job.revision;
    }
    // A heartbeat without progress is not a visible change.
    repository.heartbeat(id, claim.token, &TERMS, None).await.unwrap();
    assert_eq!(repository.job(&workspace("a"), id).await.unwrap().revision, revision);
    let events = repository.job_events(&workspace("a"), id, 2, 10).await.unwrap();
    assert_eq!(events.iter().map(|e| e.data["fraction"].as_f64().unwrap()).collect::<Vec<_>>(), [0.25, 0.5]);
}

pub async fn old_progress_is_forgotten(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let id = job(repository, &dataset).await.id;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    for i in 0..250 {
        repository.heartbeat(id, claim.token, &TERMS, Some(&progress(f64::from(i) / 250.0))).await.unwrap();
    }
    let events = repository.job_events(&workspace("a"), id, 0, 1000).await.unwrap();
    assert!(events.len() < 250, "{}", events.len());
    assert_eq!((events[0].kind.as_str(), events[1].kind.as_str()), ("queued", "started"));
    assert_eq!(events.last().unwrap().id, 252);
}

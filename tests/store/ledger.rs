use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use guarantor::store::*;
use guarantor_engine::certificate::{
    Certificate, Document, PublicKey, SharedLook, SharedWhy, SignatureState, SigningKey, check_signature,
};
use guarantor_engine::control::Progress;
use guarantor_engine::spec::{Family, JobSpec, Prior, PriorKind};

use crate::support::{
    NO_LIMITS, content, dataset, finished, new_dataset, new_job, new_version, spec, workspace,
};

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 3 };

fn page(limit: u32) -> PageRequest {
    PageRequest::first(limit)
}

async fn submit(repository: &dyn Repository, dataset: &Dataset, spec: JobSpec) -> Result<Job> {
    repository.submit_job(NewJob { spec, ..new_job(dataset) }, &NO_LIMITS).await
}

fn success(claim: &ClaimedJob, certificate: Certificate, key: Option<Arc<SigningKey>>) -> Success {
    let blob = |name: &str| BlobRef::new(job_key(claim.job.id, claim.token, name), 5);
    Success {
        result: JobResult {
            decision: certificate.decision,
            reasons: certificate.reasons.clone(),
            guaranteed_risk: certificate.guaranteed_risk,
            guaranteed_improvement: certificate.guaranteed_improvement,
            baseline_risk: certificate.baseline_risk.clone(),
            confidence: certificate.confidence,
            user_units: certificate.user_units.clone(),
            policy_id: None,
            candidate: None,
            exploration: None,
        },
        certificate: blob("certificate.json"),
        evidence: blob("evidence.json"),
        policy: None,
        drawn: Arc::new(certificate),
        signing_key: key,
    }
}

/// Submits a job and ends it with a certificate that `change` has changed.
async fn look(
    repository: &dyn Repository,
    dataset: &Dataset,
    spec: JobSpec,
    change: impl Fn(&mut Certificate),
) -> LedgerEntry {
    let id = submit(repository, dataset, spec).await.unwrap().id;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    assert_eq!(claim.job.id, id);
    let mut certificate = finished(&claim.job.spec).certificate;
    change(&mut certificate);
    certificate.digest = certificate.content_digest().unwrap();
    let finish = Finish::Succeeded(Box::new(success(&claim, certificate, None)));
    repository.finish_job(id, claim.token, &TERMS, finish).await.unwrap();
    repository.look_of_job(&dataset.workspace, id).await.unwrap().unwrap()
}

fn at(spec: &JobSpec, delta: f64) -> JobSpec {
    JobSpec { delta, ..spec.clone() }
}

pub async fn looks_add_up(repository: &dyn Repository) {
    let (dataset, other) = (dataset(repository, "a").await, dataset(repository, "a").await);
    let spec = spec(&dataset);
    let first = look(repository, &dataset, at(&spec, 0.05), |_| {}).await;
    let second = look(repository, &dataset, at(&spec, 0.1), |_| {}).await;
    assert_eq!((first.place.look, first.place.spent_before, first.place.spent), (1, 0.0, 0.05));
    assert_eq!((second.place.look, second.place.spent_before, second.place.spent), (2, 0.05, 0.05 + 0.1));
    assert_eq!(second.place.family_wise_confidence, 1.0 - (0.05 + 0.1));
    // Another dataset has its own rows, and therefore its own ledger.
    assert_eq!(look(repository, &other, at(&spec, 0.05), |_| {}).await.place.look, 1);
    let third = look(repository, &dataset, at(&spec, 0.9), |_| {}).await;
    assert_eq!(third.place.family_wise_confidence, 0.0, "never below 0");

    let (summary, newest) = repository.ledger(&workspace("a"), dataset.id, &page(2)).await.unwrap();
    assert_eq!((summary.looks, summary.spent), (3, third.place.spent));
    assert_eq!(newest.data, [third, second]);
    let rest = PageRequest { after: newest.next, ..page(2) };
    let (_, oldest) = repository.ledger(&workspace("a"), dataset.id, &rest).await.unwrap();
    assert_eq!((oldest.data, oldest.next), (vec![first], None));
}

/// A dataset with the rows of another one.
async fn copy_of(repository: &dyn Repository, dataset: &Dataset) -> Dataset {
    let mut new = new_dataset(&dataset.workspace);
    new.content.digest = dataset.content.digest.clone();
    repository.create_dataset(new).await.unwrap()
}

pub async fn datasets_with_the_same_rows_have_one_ledger(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let spec = spec(&first);
    look(repository, &first, at(&spec, 0.05), |_| {}).await;
    let second = copy_of(repository, &first).await;
    assert_eq!(second.shares_ledger_with, BTreeSet::from([first.id]));
    let before = repository.dataset(&first.workspace, first.id).await.unwrap();
    assert_eq!((before.shares_ledger_with, before.ledger_datasets), (BTreeSet::from([second.id]), 2));
    for (dataset, others, found) in [
        (&first, BTreeSet::from([second.id]), Some(second.id)),
        (&first, BTreeSet::from([first.id]), Some(first.id)),
        (&second, BTreeSet::from([DatasetId::new()]), None),
        (&second, BTreeSet::new(), None),
    ] {
        assert_eq!(repository.of_same_ledger(dataset.id, &others).await.unwrap(), found);
    }
    let next = look(repository, &second, at(&spec, 0.1), |_| {}).await;
    assert_eq!((next.place.look, next.place.spent_before, next.place.spent), (2, 0.05, 0.05 + 0.1));
    // The same certificate is free, whichever of the datasets it was drawn from.
    let again = look(repository, &second, at(&spec, 0.05), |_| {}).await;
    assert_eq!(again.place.shares, Some(SharedLook { look: 1, why: SharedWhy::Repeat }));
    // Deletion changes nothing, and another workspace has its own rows.
    repository.delete_dataset(&first.workspace, first.id).await.unwrap();
    let third = copy_of(repository, &first).await;
    assert_eq!(third.shares_ledger_with, BTreeSet::from([first.id, second.id]));
    let (summary, looks) = repository.ledger(&third.workspace, third.id, &page(9)).await.unwrap();
    assert_eq!((summary.looks, summary.spent), (3, 0.05 + 0.1));
    let datasets: Vec<DatasetId> = looks.data.iter().map(|look| look.dataset_id).collect();
    assert_eq!(datasets, [second.id, second.id, first.id]);
    let mut foreign = new_dataset(&workspace("b"));
    foreign.content.digest = first.content.digest.clone();
    assert!(repository.create_dataset(foreign).await.unwrap().shares_ledger_with.is_empty());
}

/// An append shows that two datasets with looks of their own have the same rows.
pub async fn ledgers_become_one(repository: &dyn Repository) {
    let (first, second) = (dataset(repository, "a").await, dataset(repository, "a").await);
    let spec = spec(&first);
    look(repository, &first, at(&spec, 0.05), |_| {}).await;
    look(repository, &first, at(&spec, 0.02), |_| {}).await;
    look(repository, &second, at(&spec, 0.1), |_| {}).await;
    let mut longer = content("datasets/second.parquet");
    longer.digest = first.content.digest.clone();
    longer.parts.insert(0, second.content.parts[0].clone());
    let joined =
        repository.add_dataset_version(&second.workspace, second.id, new_version(1, longer)).await.unwrap();
    assert_eq!(joined.shares_ledger_with, BTreeSet::from([first.id]));
    let spent = (0.05 + 0.02) + 0.1;
    for dataset in [&first, &second] {
        let (summary, looks) = repository.ledger(&dataset.workspace, dataset.id, &page(2)).await.unwrap();
        assert_eq!((summary.looks, summary.spent), (3, spent));
        let numbers: Vec<u64> = looks.data.iter().map(|look| look.place.look).collect();
        assert_eq!(numbers, [1, 2], "entries keep the numbers that were signed");
        let rest = PageRequest { after: looks.next, ..page(2) };
        let (_, rest) = repository.ledger(&dataset.workspace, dataset.id, &rest).await.unwrap();
        assert_eq!((rest.data.len(), rest.data[0].dataset_id, rest.next), (1, first.id, None));
    }
    let next = look(repository, &first, at(&spec, 0.3), |_| {}).await;
    assert_eq!((next.place.look, next.place.spent_before), (4, spent));
}

/// Uploading the rows again does not give a family new looks.
pub async fn a_family_is_one_on_all_datasets_of_a_ledger(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let family = Family { delta: 0.04, looks: 2 };
    let of_family = |seed: u64| JobSpec { delta: 0.02, family: Some(family), seed, ..spec(&first) };
    look(repository, &first, of_family(1), |_| {}).await;
    let second = copy_of(repository, &first).await;
    submit(repository, &first, of_family(2)).await.unwrap();
    let exhausted = submit(repository, &second, of_family(3)).await;
    assert!(matches!(exhausted, Err(StoreError::FamilyExhausted { taken: 1, held: 1, .. })), "{exhausted:?}");
}

pub async fn the_same_certificate_again_is_free(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let spec = spec(&dataset);
    look(repository, &dataset, at(&spec, 0.05), |_| {}).await;
    let again = look(repository, &dataset, at(&spec, 0.05), |_| {}).await;
    assert_eq!(again.place.shares, Some(SharedLook { look: 1, why: SharedWhy::Repeat }));
    assert_eq!((again.place.look, again.place.cost, again.place.spent), (2, 0.0, 0.05));
    // Other numbers are another certificate.
    let other = look(repository, &dataset, at(&spec, 0.05), |c| c.guaranteed_risk = -0.5).await;
    assert_eq!((other.place.shares, other.place.cost), (None, 0.05));
}

pub async fn a_family_has_a_limited_number_of_looks(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let family = Family { delta: 0.06, looks: 3 };
    let of_family = |seed: u64| JobSpec { delta: 0.02, family: Some(family), seed, ..spec(&dataset) };
    let exhausted = |result: Result<Job>| {
        assert!(matches!(result, Err(StoreError::FamilyExhausted { looks: 3, .. })), "{result:?}");
    };
    let first = look(repository, &dataset, of_family(1), |_| {}).await.place.family.unwrap();
    assert_eq!((first.looks, first.taken), (3, 1));
    // The same certificate takes no look of the family.
    let again = look(repository, &dataset, of_family(1), |_| {}).await.place.family.unwrap();
    assert_eq!(again.taken, 1);
    // Two queued jobs hold the looks that are left; a canceled one gives its look back.
    let held = submit(repository, &dataset, of_family(2)).await.unwrap();
    let cancelled = submit(repository, &dataset, of_family(3)).await.unwrap();
    exhausted(submit(repository, &dataset, of_family(4)).await);
    repository.cancel_job(&dataset.workspace, cancelled.id).await.unwrap();
    submit(repository, &dataset, of_family(4)).await.unwrap();
    exhausted(submit(repository, &dataset, of_family(5)).await);
    for expected in [2, 3] {
        let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
        let certificate = finished(&claim.job.spec).certificate;
        let finish = Finish::Succeeded(Box::new(success(&claim, certificate, None)));
        repository.finish_job(claim.job.id, claim.token, &TERMS, finish).await.unwrap();
        let entry = repository.look_of_job(&dataset.workspace, claim.job.id).await.unwrap().unwrap();
        assert_eq!(entry.place.family.unwrap().taken, expected);
    }
    assert!(repository.look_of_job(&dataset.workspace, held.id).await.unwrap().is_some());
    exhausted(submit(repository, &dataset, of_family(6)).await);
    // Other numbers are another family, and without a family there is no limit.
    let other = Family { delta: 0.06, looks: 4 };
    let spec = JobSpec { delta: 0.015, family: Some(other), ..of_family(6) };
    submit(repository, &dataset, spec).await.unwrap();
    submit(repository, &dataset, JobSpec { family: None, ..of_family(6) }).await.unwrap();
}

pub async fn only_success_is_a_look(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    for finish in [Finish::Failed(JobFailure::new(FailureCode::EngineError, "no")), Finish::Cancelled] {
        let id = submit(repository, &dataset, spec(&dataset)).await.unwrap().id;
        let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
        repository.finish_job(id, claim.token, &TERMS, finish).await.unwrap();
        assert_eq!(repository.look_of_job(&dataset.workspace, id).await.unwrap(), None);
    }
    // A worker that lost its lease enters no look, and the one that has it enters one.
    let id = submit(repository, &dataset, spec(&dataset)).await.unwrap().id;
    let no_time = LeaseTerms { duration: Duration::ZERO, ..TERMS };
    let late = repository.claim_job(&no_time).await.unwrap().unwrap();
    repository.expire_leases(&TERMS).await.unwrap();
    let holder = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let certificate = finished(&holder.job.spec).certificate;
    for (claim, ok) in [(&late, false), (&holder, true), (&holder, false), (&late, false)] {
        let finish = Finish::Succeeded(Box::new(success(claim, certificate.clone(), None)));
        assert_eq!(repository.finish_job(id, claim.token, &TERMS, finish).await.is_ok(), ok);
    }
    let (summary, _) = repository.ledger(&dataset.workspace, dataset.id, &page(9)).await.unwrap();
    assert_eq!(summary.looks, 1);
}

/// Running and canceled jobs show their bounds, so reading one and canceling the job is a look.
pub async fn a_bound_that_was_shown_is_a_look(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let ws = dataset.workspace.clone();
    let family = Family { delta: 0.06, looks: 2 };
    let zero = Prior { kind: PriorKind::Zero, policy_id: None, fraction: None, scale: 1.0 };
    let of_family = |tau: f64| JobSpec {
        delta: 0.03,
        family: Some(family),
        tau,
        prior: Some(zero.clone()),
        ..spec(&dataset)
    };
    let shown = async |tau: f64, bound: Option<f64>| {
        let id = submit(repository, &dataset, of_family(tau)).await.unwrap().id;
        let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
        assert_eq!(claim.job.id, id);
        let progress = Progress { bound, ..Progress::phase("learning", 0.5) };
        let progress = JobProgress { progress, elapsed_seconds: 1.0 };
        repository.heartbeat(id, claim.token, &TERMS, Some(&progress)).await.unwrap();
        claim
    };
    let finish = async |claim: &ClaimedJob, finish: Finish| {
        repository.finish_job(claim.job.id, claim.token, &TERMS, finish).await.unwrap();
        repository.look_of_job(&ws, claim.job.id).await.unwrap()
    };
    // Nothing was shown, nothing is counted.
    assert_eq!(finish(&shown(0.1, None).await, Finish::Cancelled).await, None);
    let first = finish(&shown(0.2, Some(-0.4)).await, Finish::Cancelled).await.unwrap();
    assert_eq!((first.place.look, first.place.cost, first.place.family.unwrap().taken), (1, 0.03, 1));
    assert_eq!((first.decision, first.digest, first.signature), (None, None, None));
    // The same spec again is the same look, with or without a certificate.
    let again = finish(
        &shown(0.2, Some(-0.4)).await,
        Finish::Failed(JobFailure::new(FailureCode::EngineError, "no")),
    )
    .await;
    assert_eq!(again.unwrap().place.shares, Some(SharedLook { look: 1, why: SharedWhy::Asked }));
    let claim = shown(0.2, Some(-0.4)).await;
    let certificate = finished(&claim.job.spec).certificate;
    let answered =
        finish(&claim, Finish::Succeeded(Box::new(success(&claim, certificate, None)))).await.unwrap();
    assert_eq!((answered.place.look, answered.place.cost), (3, 0.0));
    assert_eq!(answered.place.shares, Some(SharedLook { look: 1, why: SharedWhy::Asked }));
    // Shown by an attempt whose job returned to the queue and was canceled there.
    let claim = shown(0.3, Some(-0.4)).await;
    assert_eq!(finish(&claim, Finish::Released).await, None);
    let (cancelled, _) = repository.cancel_job(&ws, claim.job.id).await.unwrap();
    assert_eq!(cancelled.status, JobStatus::Cancelled);
    let last = repository.look_of_job(&ws, claim.job.id).await.unwrap().unwrap();
    assert_eq!((last.place.look, last.place.spent, last.place.family.unwrap().taken), (4, 0.06, 2));
    let exhausted = submit(repository, &dataset, of_family(0.4)).await;
    assert!(matches!(exhausted, Err(StoreError::FamilyExhausted { taken: 2, held: 0, .. })), "{exhausted:?}");
}

pub async fn a_look_outlives_its_job_and_its_dataset(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let entry = look(repository, &dataset, spec(&dataset), |_| {}).await;
    repository.sweep_jobs(Duration::ZERO).await.unwrap();
    assert!(repository.job(&dataset.workspace, entry.job_id).await.is_err());
    let (_, page) = repository.ledger(&dataset.workspace, dataset.id, &page(9)).await.unwrap();
    assert_eq!(page.data, std::slice::from_ref(&entry));
    repository.delete_dataset(&dataset.workspace, dataset.id).await.unwrap();
    let kept = repository.look_of_job(&dataset.workspace, entry.job_id).await.unwrap();
    assert_eq!(kept, Some(entry));
}

pub async fn other_workspaces_do_not_see_looks(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let entry = look(repository, &dataset, spec(&dataset), |_| {}).await;
    let foreign = repository.ledger(&workspace("b"), dataset.id, &page(9)).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(Resource::Dataset, _))), "{foreign:?}");
    assert_eq!(repository.look_of_job(&workspace("b"), entry.job_id).await.unwrap(), None);
}

pub async fn a_look_is_signed_as_it_will_be_shown(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let key = Arc::new(SigningKey::from_seed(&[3; 32]));
    look(repository, &dataset, at(&spec(&dataset), 0.2), |_| {}).await;
    let id = submit(repository, &dataset, spec(&dataset)).await.unwrap().id;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let certificate = finished(&claim.job.spec).certificate;
    let finish = Finish::Succeeded(Box::new(success(&claim, certificate.clone(), Some(key.clone()))));
    let job = repository.finish_job(id, claim.token, &TERMS, finish).await.unwrap();
    let entry = repository.look_of_job(&dataset.workspace, id).await.unwrap().unwrap();
    assert_eq!(entry.place.look, 2);
    let shown = Document {
        certificate,
        issued: Some(job.issued()),
        ledger: Some(entry.place),
        signature: entry.signature,
    };
    let shown = serde_json::to_value(shown).unwrap();
    let state = check_signature(&shown, &[key.public()]);
    assert_eq!(state, SignatureState::Valid { key_id: key.public().key_id() });
}

pub async fn signing_keys_are_remembered(repository: &dyn Repository) {
    let key = |seed: u8| -> PublicKey { SigningKey::from_seed(&[seed; 32]).public() };
    for seed in [1, 2, 1] {
        repository.remember_signing_key(&key(seed)).await.unwrap();
    }
    let keys = repository.signing_keys().await.unwrap();
    assert!(keys.len() == 2 && keys.contains(&key(1)) && keys.contains(&key(2)), "{keys:?}");
}

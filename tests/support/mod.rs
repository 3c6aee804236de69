//! What the tests of the store and the queue share: a store in a temporary directory, and records for
//! it.
#![allow(dead_code)]

use guarantor::store::{
    AddedRows, BlobRef, Dataset, DatasetContent, DatasetId, Job, JobId, NewDataset, NewJob, NewVersion,
    QueueLimits, Repository, Store, Workspace,
};
use guarantor_engine::Finished;
use guarantor_engine::certificate::{
    BaselineRisk, Certificate, DatasetRecord, Decision, Evidence, LearnedEvidence, METHOD, PriorEvidence,
    Reason, ReasonCode, UserUnits,
};
use guarantor_engine::log::{Capabilities, Logging, Outcome};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{BaselineKind, JobSpec, SpecContext, SpecRequest};
use guarantor_ingest::{LogOptions, RowSketch};
use serde_json::json;

pub async fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).await.unwrap();
    (directory, store)
}

pub fn workspace(name: &str) -> Workspace {
    name.parse().unwrap()
}

pub const NO_LIMITS: QueueLimits = QueueLimits { total: None, workspace: None };

pub fn content(part: &str) -> DatasetContent {
    DatasetContent {
        rows: 100,
        contexts: 100,
        n_actions: 3,
        dim: 2,
        outcome: Outcome::default(),
        // Datasets with the same digest have the same rows.
        digest: format!("sha256:{part}"),
        capabilities: Capabilities {
            features: true,
            full_propensities: true,
            candidates: vec!["b".into()],
            ..Capabilities::default()
        },
        last_timestamp: None,
        health: json!({ "warnings": [] }),
        parts: vec![BlobRef::new(part, 7)],
    }
}

pub fn new_dataset(workspace: &Workspace) -> NewDataset {
    let id = DatasetId::new();
    NewDataset {
        id,
        workspace: workspace.clone(),
        name: Some("a log".into()),
        logging_policy_id: None,
        options: LogOptions { logging: Logging::Fixed, ..LogOptions::default() },
        content: content(&format!("datasets/{id}/1.parquet")),
        sketch: RowSketch::default(),
        import: None,
    }
}

/// The version after `version`, with rows of its own.
pub fn new_version(version: u64, content: DatasetContent) -> NewVersion {
    let added = AddedRows { new: RowSketch::default(), all: RowSketch::default(), reaches_back: false };
    NewVersion { after_version: version, content, added: Some(added), seen_version: None }
}

pub fn spec(dataset: &Dataset) -> JobSpec {
    let shape = dataset.shape();
    let context = SpecContext {
        shape: &shape,
        logging_policy: None,
        policy: &|_| None,
        seen_rows: 0,
        caller: "a test",
    };
    SpecRequest::default().resolve(&context).unwrap()
}

pub fn new_job(dataset: &Dataset) -> NewJob {
    NewJob {
        id: JobId::new(),
        workspace: dataset.workspace.clone(),
        dataset_id: dataset.id,
        dataset_version: dataset.version,
        seen_rows: None,
        spec: spec(dataset),
        metadata: json!({ "team": "ranking" }),
        policy_ids: Vec::new(),
        submitted_by: "a test (key 1)".into(),
    }
}

pub async fn dataset(repository: &dyn Repository, name: &str) -> Dataset {
    repository.create_dataset(new_dataset(&workspace(name))).await.unwrap()
}

pub async fn job(repository: &dyn Repository, dataset: &Dataset) -> Job {
    repository.submit_job(new_job(dataset), &NO_LIMITS).await.unwrap()
}

pub fn policy_params() -> PolicyParams {
    PolicyParams::Softmax {
        mean: vec![vec![0.5, -0.25, 0.0], vec![0.0, 1.0, -1.0]],
        inverse_temperature: 1.0,
        features: Default::default(),
    }
}

/// The result of a computation with made-up numbers and the decision `keep`.
pub fn finished(spec: &JobSpec) -> Finished {
    let outcome = Outcome::default();
    let mut certificate = Certificate {
        format: "guarantor.certificate/1".into(),
        method: METHOD,
        statement: "made up".into(),
        decision: Decision::Keep,
        reasons: vec![Reason::new(ReasonCode::ImprovementNotGuaranteed, "for a test")],
        guaranteed_risk: -0.25,
        guaranteed_improvement: -0.125,
        min_improvement: 0.0,
        confidence: 0.95,
        numerical_slack: 0.0,
        baseline_risk: BaselineRisk { kind: BaselineKind::Certified, estimate: -0.375, lower_bound: None },
        user_units: UserUnits {
            guaranteed_outcome: -0.25,
            guaranteed_improvement: -0.125,
            baseline_outcome: -0.375,
            ..UserUnits::new(outcome)
        },
        objective: None,
        guardrails: Vec::new(),
        breakdown: None,
        plan: None,
        candidate: None,
        candidates: Vec::new(),
        bounds: Vec::new(),
        delta_accounting: Vec::new(),
        dataset: DatasetRecord {
            version: 1,
            digest: "sha256:00".into(),
            rows: 100,
            contexts: 100,
            n_actions: 3,
            action_sets: None,
            dim: 2,
            logging: Some(Logging::Fixed),
            actions_declared: Some(true),
            designed_repetitions: None,
            exact_propensities: None,
            outcomes: Vec::new(),
        },
        certified: None,
        merged: None,
        checks: Vec::new(),
        exploration: None,
        policy: None,
        prior_digest: None,
        cost_model_digest: None,
        learning: None,
        assumptions: Vec::new(),
        attestations: Vec::new(),
        engine_version: "test".into(),
        seed: 0,
        spec: spec.clone(),
        digest: String::new(),
    };
    certificate.digest = certificate.content_digest().unwrap();
    let prior = PriorEvidence { mean: vec![vec![0.0; 3]; 2], scale: 1.0 };
    let learned = LearnedEvidence { policy: policy_params(), prior };
    Finished { certificate, evidence: Evidence::Learned(learned) }
}

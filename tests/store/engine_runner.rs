//! The engine on stored data: from an upload to a certificate that verifies.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use guarantor::queue::{EngineRunner, Queue, QueueSettings, StoredInputs};
use guarantor::store::{self, Upload};
use guarantor::store::{Dataset, DatasetId, FailureCode, Job, JobStatus, NewJob, PolicyId, Store, Workspace};
use guarantor_engine::control::unattended;
use guarantor_engine::log::{Logging, Outcome};
use guarantor_engine::spec::{BoundKind, SpecContext, SpecRequest};
use guarantor_engine::verify::Wording;
use guarantor_engine::{self};
use guarantor_ingest::{Format, IngestLimits, LogOptions};
use serde_json::json;
use support::{new_job, policy_params, store};

const LONG: Duration = Duration::from_secs(120);

/// Rows logged by `policy_params`; action 1 is the best one.
async fn upload(store: &Store, rows: usize) -> Dataset {
    let x: Vec<f32> = (0..2 * rows).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let x = ndarray::Array2::from_shape_vec((rows, 2), x).unwrap();
    let actions = policy_params().sample(x.view(), 3).unwrap();
    let mut text = String::new();
    for (i, (action, propensity)) in actions.into_iter().enumerate() {
        let cost = if action == 1 { -1.0 } else { 0.0 };
        let row = json!({ "x": x.row(i).to_vec(), "action": action, "propensity": propensity, "cost": cost });
        text += &format!("{row}\n");
    }
    let policy = PolicyId::new();
    store.create_policy(&Workspace::default(), policy, &policy_params()).await.unwrap();
    let upload = Upload {
        id: DatasetId::new(),
        workspace: Workspace::default(),
        name: None,
        format: Format::Ndjson.into(),
        n_actions: None,
        outcome: Outcome::default(),
        outcomes: Vec::new(),
        options: LogOptions { logging: Logging::Fixed, ..LogOptions::default() },
        logging_policy: Some((policy, policy_params())),
        limits: IngestLimits::default(),
    };
    store::upload(store, upload, stream::iter([Ok(Bytes::from(text))])).await.unwrap()
}

fn job_on(dataset: &Dataset, request: &SpecRequest) -> NewJob {
    let shape = dataset.shape();
    let logging_policy =
        dataset.logging_policy_id.map(|_| guarantor_engine::spec::PolicyShape::of(&policy_params()));
    let context =
        SpecContext { shape: &shape, logging_policy, policy: &|_| None, seen_rows: 0, caller: "a test" };
    NewJob { spec: request.resolve(&context).unwrap(), ..new_job(dataset) }
}

async fn run(store: &Store, new: NewJob) -> Job {
    let settings = QueueSettings { threads_per_job: 1, ..QueueSettings::default() };
    let queue = Queue::new(store.clone(), settings);
    let workers = queue.start(Arc::new(EngineRunner::new(store.clone()))).unwrap();
    let job = queue.submit(new).await.unwrap();
    let job = queue.wait(&job.workspace, job.id, LONG).await.unwrap();
    workers.shutdown(LONG).await;
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_becomes_a_certificate_that_verifies() {
    let (_directory, store) = store().await;
    let dataset = upload(&store, 2_000).await;
    for bound in [BoundKind::Auto, BoundKind::Cbb] {
        let request = SpecRequest { bound: Some(bound), ..SpecRequest::default() };
        let job = run(&store, job_on(&dataset, &request)).await;
        assert_eq!(job.status, JobStatus::Succeeded, "{:?}", job.failure);
        let certificate = store.certificate(&job).await.unwrap().unwrap();
        let evidence = store.evidence(&job).await.unwrap().unwrap();
        let result = job.result.clone().unwrap();
        assert_eq!(result.guaranteed_improvement, certificate.guaranteed_improvement);
        assert_eq!(result.decision, certificate.decision);
        assert_eq!(certificate.dataset.digest, dataset.content.digest);
        let policy = store.repository().policy(&job.workspace, result.policy_id.unwrap()).await.unwrap();
        assert_eq!(Some(&policy.digest), certificate.policy.as_ref().map(|policy| &policy.digest));
        let fetched = StoredInputs::fetch(&store, &job.workspace, dataset.clone(), &job.spec).await;
        let inputs = fetched.unwrap();
        let control = unattended();
        let verify = |inputs: &guarantor_engine::Inputs| {
            guarantor_engine::verify(&certificate, Wording::Compared, &evidence, inputs, &control)
        };
        let verify = || inputs.with(&control, verify).unwrap();
        let verification = tokio::task::block_in_place(verify);
        assert!(verification.valid, "{verification:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_job_has_the_same_certificate() {
    let (_directory, store) = store().await;
    let dataset = upload(&store, 500).await;
    let mut certificates = Vec::new();
    for _ in 0..2 {
        let job = run(&store, job_on(&dataset, &SpecRequest::default())).await;
        certificates.push(store.certificate(&job).await.unwrap().unwrap());
    }
    assert_eq!(certificates[0], certificates[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_fails_the_job() {
    let (directory, store) = store().await;
    let dataset = upload(&store, 200).await;
    let file = directory.path().join("blobs").join(&dataset.content.parts[0].key);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let job = run(&store, job_on(&dataset, &SpecRequest::default())).await;
    assert_eq!((job.status, job.attempt), (JobStatus::Failed, 1));
    assert_eq!(job.failure.unwrap().code, FailureCode::DatasetUnreadable);
}

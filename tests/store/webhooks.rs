use std::time::Duration;

use guarantor::store::*;
use guarantor_engine::certificate::Decision;

use crate::conformance::leases::success;
use crate::support::{dataset, job, new_job, workspace};

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 3 };
const NO_TIME: LeaseTerms = LeaseTerms { duration: Duration::ZERO, max_attempts: 1 };
const MANY: u64 = 100;
/// After everything that happens in a test.
const LATER: Timestamp = Timestamp(i64::MAX / 2);

fn definition() -> WebhookDefinition {
    WebhookDefinition {
        name: "chat".into(),
        url: "https://hooks.example.com/x".into(),
        events: EventKind::OF_JOBS.into(),
        dataset_id: None,
        decision: None,
    }
}

fn new_webhook(ws: &str, definition: WebhookDefinition) -> NewWebhook {
    NewWebhook {
        id: WebhookId::new(),
        workspace: workspace(ws),
        definition,
        enabled: true,
        secret: WebhookSecret::of(&[7; 32]),
        by: "ada".into(),
    }
}

async fn webhook(repository: &dyn Repository, ws: &str) -> Webhook {
    repository.create_webhook(new_webhook(ws, definition()), MANY).await.unwrap()
}

async fn deliveries(repository: &dyn Repository, webhook: &Webhook) -> Vec<Delivery> {
    let page = PageRequest::first(100);
    repository.deliveries(&webhook.workspace, webhook.id, &page).await.unwrap().data
}

async fn due(repository: &dyn Repository) -> Vec<DueDelivery> {
    repository.due_deliveries(LATER, 100).await.unwrap()
}

pub async fn a_webhook_is_read_back_and_changed(repository: &dyn Repository) {
    let ws = workspace("a");
    let created = webhook(repository, "a").await;
    assert_eq!((created.created_by.as_str(), created.enabled, created.revision), ("ada", true, 1));
    assert_eq!((created.definition.clone(), created.dropped), (definition(), 0));
    assert_eq!(repository.webhook(&ws, created.id).await.unwrap(), created);
    let other = WebhookDefinition {
        url: "https://other.example/".into(),
        dataset_id: Some(DatasetId::new()),
        decision: Some(Decision::Deploy),
        events: [EventKind::JobFailed].into(),
        ..definition()
    };
    let changed = repository.change_webhook(&ws, created.id, &other, false, "bob").await.unwrap();
    assert_eq!((&changed.definition, changed.enabled, changed.revision), (&other, false, 2));
    assert_eq!((changed.created_by.as_str(), changed.changed_by.as_str()), ("ada", "bob"));
    assert_eq!(changed.secret, created.secret);
    assert_eq!(repository.webhook(&ws, created.id).await.unwrap(), changed);
    repository.delete_webhook(&ws, created.id).await.unwrap();
    for gone in [
        repository.webhook(&ws, created.id).await.map(drop),
        repository.change_webhook(&ws, created.id, &other, true, "bob").await.map(drop),
        repository.delete_webhook(&ws, created.id).await,
        repository.ping_webhook(&ws, created.id).await.map(drop),
    ] {
        assert!(matches!(gone, Err(StoreError::NotFound(Resource::Webhook, _))), "{gone:?}");
    }
}

pub async fn other_workspaces_do_not_see_webhooks(repository: &dyn Repository) {
    let other = workspace("b");
    let created = webhook(repository, "a").await;
    let sent = repository.ping_webhook(&workspace("a"), created.id).await.unwrap();
    let (secret, second) = (WebhookSecret::of(&[8; 32]), Duration::from_secs(1));
    for refused in [
        repository.webhook(&other, created.id).await.map(drop),
        repository.change_webhook(&other, created.id, &definition(), true, "eve").await.map(drop),
        repository.rotate_webhook_secret(&other, created.id, &secret, second, "eve").await.map(drop),
        repository.delete_webhook(&other, created.id).await,
        repository.ping_webhook(&other, created.id).await.map(drop),
        repository.deliveries(&other, created.id, &PageRequest::first(9)).await.map(drop),
        repository.redeliver(&other, created.id, sent.id).await.map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::NotFound(Resource::Webhook, _))), "{refused:?}");
    }
    assert!(repository.webhooks(&other, &PageRequest::first(9)).await.unwrap().data.is_empty());
    // A delivery is found under its own webhook only.
    let foreign = webhook(repository, "a").await;
    let refused = repository.redeliver(&workspace("a"), foreign.id, sent.id).await;
    assert!(matches!(refused, Err(StoreError::NotFound(Resource::Delivery, _))), "{refused:?}");
    assert_eq!(repository.webhook(&workspace("a"), created.id).await.unwrap(), created);
}

pub async fn webhooks_and_deliveries_are_listed_newest_first(repository: &dyn Repository) {
    let ws = workspace("a");
    let mut created = Vec::new();
    for _ in 0..3 {
        created.push(webhook(repository, "a").await);
    }
    created.reverse();
    let first = repository.webhooks(&ws, &PageRequest::first(2)).await.unwrap();
    assert_eq!(first.data, created[..2]);
    let rest = repository.webhooks(&ws, &PageRequest { limit: 2, after: first.next }).await.unwrap();
    assert_eq!((rest.data.as_slice(), rest.next), (&created[2..], None));
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(repository.ping_webhook(&ws, created[0].id).await.unwrap());
    }
    sent.reverse();
    let first = repository.deliveries(&ws, created[0].id, &PageRequest::first(2)).await.unwrap();
    assert_eq!(first.data, sent[..2]);
    let rest = PageRequest { limit: 2, after: first.next };
    assert_eq!(repository.deliveries(&ws, created[0].id, &rest).await.unwrap().data, sent[2..]);
    let full = repository.create_webhook(new_webhook("a", definition()), 3).await;
    assert!(
        matches!(full, Err(StoreError::LimitReached { resource: Resource::Webhook, limit: 3 })),
        "{full:?}"
    );
}

pub async fn a_secret_is_rotated(repository: &dyn Repository) {
    let ws = workspace("a");
    let created = webhook(repository, "a").await;
    let (old, new) = (created.secret.clone(), WebhookSecret::of(&[8; 24]));
    let hour = Duration::from_secs(3600);
    let rotated = repository.rotate_webhook_secret(&ws, created.id, &new, hour, "bob").await.unwrap();
    let now = Timestamp::now();
    let after = Timestamp(now.0 + 3_700_000_000);
    assert_eq!(rotated.secrets(now).collect::<Vec<_>>(), [&new, &old]);
    assert_eq!(rotated.secrets(after).collect::<Vec<_>>(), [&new]);
    assert_eq!((rotated.changed_by.as_str(), rotated.revision), ("bob", 2));
    let newest = WebhookSecret::of(&[9; 24]);
    let again = repository.rotate_webhook_secret(&ws, created.id, &newest, hour, "bob").await.unwrap();
    assert_eq!(again.secrets(now).collect::<Vec<_>>(), [&newest, &new]);
}

/// Every way in which a job can end, each in the transaction that ends it.
pub async fn every_end_of_a_job_is_an_event(repository: &dyn Repository) {
    let hook = webhook(repository, "a").await;
    let dataset = dataset(repository, "a").await;
    // Success.
    let succeeded = job(repository, &dataset).await;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    assert!(deliveries(repository, &hook).await.is_empty(), "it has not ended");
    let finish = Finish::Succeeded(Box::new(success(&claim)));
    repository.finish_job(claim.job.id, claim.token, &TERMS, finish).await.unwrap();
    let sent = deliveries(repository, &hook).await;
    let [event] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((event.kind, event.status), (EventKind::JobSucceeded, DeliveryStatus::Pending));
    assert_eq!(event.event_id, format!("{}-succeeded", succeeded.id));
    assert_eq!(event.subject, format!("jobs/{}", succeeded.id));
    assert_eq!((event.attempts, event.next_at, event.last_at), (0, Some(event.created_at), None));
    let data = &event.data;
    assert_eq!(data["decision"], "keep");
    assert_eq!(data["guaranteed_improvement"], -0.125);
    assert_eq!(data["dataset_id"], dataset.id.to_string());
    assert_eq!(data["dataset_digest"], dataset.content.digest);
    assert_eq!((&data["status"], &data["error"]), (&"succeeded".into(), &serde_json::Value::Null));
    assert!(data.to_string().len() < 1500 && data.get("metadata").is_none(), "{data}");
    // Failure.
    let failed = job(repository, &dataset).await;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let finish = Finish::Failed(JobFailure::new(FailureCode::EngineError, "é".repeat(400)));
    repository.finish_job(claim.job.id, claim.token, &TERMS, finish).await.unwrap();
    // Canceled in the queue, and while it ran.
    let queued = job(repository, &dataset).await;
    repository.cancel_job(&dataset.workspace, queued.id).await.unwrap();
    repository.cancel_job(&dataset.workspace, queued.id).await.unwrap();
    let running = job(repository, &dataset).await;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    repository.cancel_job(&dataset.workspace, running.id).await.unwrap();
    assert_eq!(deliveries(repository, &hook).await.len(), 3, "it has not ended");
    let finish = Finish::Succeeded(Box::new(success(&claim)));
    repository.finish_job(claim.job.id, claim.token, &TERMS, finish).await.unwrap();
    // Attempts exhausted.
    let lost = job(repository, &dataset).await;
    repository.claim_job(&NO_TIME).await.unwrap().unwrap();
    repository.expire_leases(&NO_TIME).await.unwrap();
    // A job that returns to the queue has not ended.
    job(repository, &dataset).await;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    repository.finish_job(claim.job.id, claim.token, &TERMS, Finish::Released).await.unwrap();
    let mut sent = deliveries(repository, &hook).await;
    sent.sort_by_key(|event| event.id);
    let told: Vec<(EventKind, String)> = sent.iter().map(|e| (e.kind, e.event_id.clone())).collect();
    let expected = [
        (EventKind::JobSucceeded, end_event_id(succeeded.id, JobStatus::Succeeded)),
        (EventKind::JobFailed, end_event_id(failed.id, JobStatus::Failed)),
        (EventKind::JobCancelled, end_event_id(queued.id, JobStatus::Cancelled)),
        (EventKind::JobCancelled, end_event_id(running.id, JobStatus::Cancelled)),
        (EventKind::JobFailed, end_event_id(lost.id, JobStatus::Failed)),
    ];
    assert_eq!(told, expected);
    assert_eq!(sent[1].data["error"]["code"], "engine_error");
    assert_eq!(sent[1].data["error"]["message"].as_str().unwrap().len(), 500);
    assert_eq!(sent[4].data["error"]["code"], "attempts_exhausted");
}

pub async fn webhooks_are_told_what_they_asked_for(repository: &dyn Repository) {
    let (own, other) = (dataset(repository, "a").await, dataset(repository, "a").await);
    let make = async |definition: WebhookDefinition, enabled: bool| {
        let new = NewWebhook { enabled, ..new_webhook("a", definition) };
        repository.create_webhook(new, MANY).await.unwrap()
    };
    let all = make(definition(), true).await;
    let of_data = make(WebhookDefinition { dataset_id: Some(own.id), ..definition() }, true).await;
    let deploys = make(WebhookDefinition { decision: Some(Decision::Deploy), ..definition() }, true).await;
    let failures =
        make(WebhookDefinition { events: [EventKind::JobFailed].into(), ..definition() }, true).await;
    let disabled = make(definition(), false).await;
    let foreign = webhook(repository, "b").await;
    for dataset in [&own, &other] {
        job(repository, dataset).await;
        let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
        let finish = Finish::Succeeded(Box::new(success(&claim)));
        repository.finish_job(claim.job.id, claim.token, &TERMS, finish).await.unwrap();
        let queued = repository.submit_job(new_job(dataset), &QueueLimits::default()).await.unwrap();
        repository.cancel_job(&dataset.workspace, queued.id).await.unwrap();
    }
    for (hook, told) in
        [(&all, 4), (&of_data, 2), (&deploys, 2), (&failures, 0), (&disabled, 0), (&foreign, 0)]
    {
        assert_eq!(deliveries(repository, hook).await.len(), told, "{:?}", hook.definition);
    }
    assert!(deliveries(repository, &deploys).await.iter().all(|d| d.kind == EventKind::JobCancelled));
    // Webhooks are told about the same event under the same id.
    let ids = async |hook| {
        deliveries(repository, hook).await.into_iter().map(|delivery| delivery.event_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&of_data).await, ids(&all).await[2..]);
}

pub async fn attempts_are_recorded(repository: &dyn Repository) {
    let ws = workspace("a");
    let hook = webhook(repository, "a").await;
    let sent = repository.ping_webhook(&ws, hook.id).await.unwrap();
    let at = |seconds: i64| Timestamp(sent.created_at.0 + seconds * 1_000_000);
    assert!(repository.due_deliveries(at(-1), 9).await.unwrap().is_empty());
    assert_eq!(repository.next_delivery().await.unwrap(), Some(sent.created_at));
    let found = repository.due_deliveries(at(0), 9).await.unwrap();
    assert_eq!((found.len(), &found[0].delivery, &found[0].webhook), (1, &sent, &hook));
    let failed = |seconds, after| Attempted {
        at: at(seconds),
        status: Some(503),
        error: Some("the receiver answered 503".into()),
        after,
    };
    repository.record_attempt(sent.id, &failed(1, AfterAttempt::Again(at(30)))).await.unwrap();
    repository.record_attempt(sent.id, &failed(31, AfterAttempt::Again(at(90)))).await.unwrap();
    let now = deliveries(repository, &hook).await.remove(0);
    assert_eq!((now.attempts, now.next_at, now.last_at), (2, Some(at(90)), Some(at(31))));
    assert_eq!((now.last_status, now.last_error.as_deref()), (Some(503), Some("the receiver answered 503")));
    assert!(repository.due_deliveries(at(89), 9).await.unwrap().is_empty());
    let failing = repository.webhook(&ws, hook.id).await.unwrap();
    assert_eq!((failing.failing_since, failing.last_success_at), (Some(at(1)), None));
    let depth = repository.outbox_depth().await.unwrap();
    assert_eq!((depth.pending, depth.failing), (1, 1));
    // The end, and nothing after it.
    repository.record_attempt(sent.id, &failed(91, AfterAttempt::Failed)).await.unwrap();
    repository.record_attempt(sent.id, &failed(92, AfterAttempt::Again(at(99)))).await.unwrap();
    let ended = deliveries(repository, &hook).await.remove(0);
    assert_eq!((ended.status, ended.attempts, ended.ended_at), (DeliveryStatus::Failed, 3, Some(at(91))));
    assert_eq!((ended.next_at, repository.next_delivery().await.unwrap()), (None, None));
    // Again, with the same event.
    let again = repository.redeliver(&ws, hook.id, sent.id).await.unwrap();
    assert_eq!((again.id, &again.event_id, again.attempts), (sent.id, &sent.event_id, 0));
    assert_eq!((again.status, again.ended_at), (DeliveryStatus::Pending, None));
    let received = Attempted { at: at(100), status: Some(204), error: None, after: AfterAttempt::Delivered };
    repository.record_attempt(sent.id, &received).await.unwrap();
    let delivered = deliveries(repository, &hook).await.remove(0);
    assert_eq!((delivered.status, delivered.last_error), (DeliveryStatus::Delivered, None));
    let well = repository.webhook(&ws, hook.id).await.unwrap();
    assert_eq!((well.failing_since, well.last_success_at), (None, Some(at(100))));
    assert_eq!(repository.outbox_depth().await.unwrap(), OutboxDepth::default());
    // The webhook is deleted while an attempt runs.
    let last = repository.ping_webhook(&ws, hook.id).await.unwrap();
    repository.delete_webhook(&ws, hook.id).await.unwrap();
    repository.record_attempt(last.id, &received).await.unwrap();
    assert!(due(repository).await.is_empty());
}

pub async fn a_disabled_webhook_waits_and_a_busy_one_leaves_room(repository: &dyn Repository) {
    let ws = workspace("a");
    let (one, two) = (webhook(repository, "a").await, webhook(repository, "a").await);
    for _ in 0..5 {
        repository.ping_webhook(&ws, one.id).await.unwrap();
    }
    repository.ping_webhook(&ws, two.id).await.unwrap();
    let found = repository.due_deliveries(LATER, 2).await.unwrap();
    let of = |hook: &Webhook| found.iter().filter(|due| due.webhook.id == hook.id).count();
    assert_eq!((of(&one), of(&two)), (2, 1));
    repository.change_webhook(&ws, one.id, &definition(), false, "bob").await.unwrap();
    assert_eq!(due(repository).await.len(), 1);
    assert_eq!(repository.outbox_depth().await.unwrap().pending, 1);
    repository.change_webhook(&ws, one.id, &definition(), true, "bob").await.unwrap();
    assert_eq!(due(repository).await.len(), 6);
}

pub async fn old_deliveries_are_swept(repository: &dyn Repository) {
    let ws = workspace("a");
    let hook = webhook(repository, "a").await;
    let mut sent = Vec::new();
    for i in 0..5 {
        let delivery = repository.ping_webhook(&ws, hook.id).await.unwrap();
        let at = Timestamp(delivery.created_at.0 - 10 + i);
        let received = Attempted { at, status: Some(200), error: None, after: AfterAttempt::Delivered };
        repository.record_attempt(delivery.id, &received).await.unwrap();
        sent.push(delivery.id);
    }
    let waiting = repository.ping_webhook(&ws, hook.id).await.unwrap();
    let ids = async || {
        let mut ids: Vec<DeliveryId> = deliveries(repository, &hook).await.iter().map(|d| d.id).collect();
        ids.sort();
        ids
    };
    let week = Duration::from_secs(7 * 86_400);
    assert_eq!(repository.sweep_deliveries(week, 100).await.unwrap(), 0);
    // Those that wait do not count.
    assert_eq!(repository.sweep_deliveries(week, 2).await.unwrap(), 3);
    assert_eq!(ids().await, [&sent[3..], &[waiting.id]].concat());
    // After their time, what has ended is gone, and what waits has failed.
    repository.sweep_deliveries(Duration::ZERO, 100).await.unwrap();
    let left = deliveries(repository, &hook).await;
    assert_eq!((left.len(), left[0].id, left[0].status), (1, waiting.id, DeliveryStatus::Failed));
    assert!(left[0].last_error.as_ref().unwrap().contains("too long"));
}

use std::collections::BTreeSet;
use std::time::Duration;

use guarantor::store::*;
use serde_json::{Map, Value, json};

use crate::support::{NO_LIMITS, dataset, new_job, workspace};

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 3 };
const MANY: u64 = 1000;

fn name(text: &str) -> GateName {
    text.parse().unwrap()
}

fn definition(dataset_id: Option<DatasetId>, selector: Value) -> GateDefinition {
    let Value::Object(selector) = selector else { panic!("{selector}") };
    GateDefinition {
        dataset_id,
        selector,
        delta: 0.05,
        requirements: GateRequirements { min_improvement: Some(0.01), ..GateRequirements::default() },
        allow: BTreeSet::from([Allowance::FixedLogging]),
    }
}

fn new_gate(ws: &str, gate: &str, definition: GateDefinition) -> NewGate {
    NewGate { id: GateId::new(), workspace: workspace(ws), name: name(gate), definition, by: "ada".into() }
}

async fn gate(repository: &dyn Repository, ws: &str, gate: &str) -> StandingGate {
    let new = new_gate(ws, gate, definition(None, json!({"team": "ranking"})));
    repository.create_gate(new, MANY).await.unwrap()
}

fn new_token(secret: &str) -> NewGateToken {
    NewGateToken {
        id: GateTokenId::new(),
        name: "flagger".into(),
        hash: KeyHash::of(secret),
        by: "ada".into(),
    }
}

pub async fn a_gate_is_read_back_and_changed(repository: &dyn Repository) {
    let ws = workspace("a");
    let gate = gate(repository, "a", "g").await;
    assert_eq!((gate.created_by.as_str(), gate.changed_by.as_str(), gate.revision), ("ada", "ada", 1));
    assert_eq!(gate.definition, definition(None, json!({"team": "ranking"})));
    assert_eq!(repository.gate(&ws, &name("g")).await.unwrap(), gate);
    let other = GateDefinition { delta: 0.01, ..definition(Some(DatasetId::new()), json!({})) };
    let changed = repository.change_gate(&ws, &name("g"), &other, "bob").await.unwrap();
    assert_eq!(changed.definition, other);
    assert_eq!(
        (changed.created_by.as_str(), changed.changed_by.as_str(), changed.revision),
        ("ada", "bob", 2)
    );
    assert_eq!((changed.id, changed.created_at), (gate.id, gate.created_at));
    assert_eq!(repository.gate(&ws, &name("g")).await.unwrap(), changed);
    repository.delete_gate(&ws, &name("g")).await.unwrap();
    for gone in [
        repository.gate(&ws, &name("g")).await.map(drop),
        repository.change_gate(&ws, &name("g"), &other, "bob").await.map(drop),
        repository.delete_gate(&ws, &name("g")).await,
    ] {
        assert!(matches!(gone, Err(StoreError::NotFound(Resource::Gate, _))), "{gone:?}");
    }
}

pub async fn a_name_is_taken_once_in_a_workspace(repository: &dyn Repository) {
    gate(repository, "a", "g").await;
    let again = repository.create_gate(new_gate("a", "g", definition(None, json!({"x": 1}))), MANY).await;
    assert!(matches!(again, Err(StoreError::Exists(Resource::Gate, _))), "{again:?}");
    assert_eq!(gate(repository, "b", "g").await.workspace, workspace("b"));
}

pub async fn other_workspaces_do_not_see_gates(repository: &dyn Repository) {
    let other = workspace("b");
    gate(repository, "a", "g").await;
    let token =
        repository.create_gate_token(&workspace("a"), &name("g"), new_token("gt_a"), 9).await.unwrap();
    for refused in [
        repository.gate(&other, &name("g")).await.map(drop),
        repository.change_gate(&other, &name("g"), &definition(None, json!({})), "eve").await.map(drop),
        repository.delete_gate(&other, &name("g")).await,
        repository.create_gate_token(&other, &name("g"), new_token("gt_b"), 9).await.map(drop),
        repository.gate_tokens(&other, &name("g")).await.map(drop),
        repository.revoke_gate_token(&other, &name("g"), token.id).await,
    ] {
        assert!(matches!(refused, Err(StoreError::NotFound(Resource::Gate, _))), "{refused:?}");
    }
    assert!(repository.gates(&other, &PageRequest::first(9)).await.unwrap().data.is_empty());
}

pub async fn gates_are_listed_newest_first(repository: &dyn Repository) {
    let mut created = Vec::new();
    for gate_name in ["a", "b", "c"] {
        created.push(gate(repository, "a", gate_name).await);
    }
    created.reverse();
    let first = repository.gates(&workspace("a"), &PageRequest::first(2)).await.unwrap();
    assert_eq!(first.data, created[..2]);
    let rest = PageRequest { limit: 2, after: first.next };
    let rest = repository.gates(&workspace("a"), &rest).await.unwrap();
    assert_eq!((rest.data.as_slice(), rest.next), (&created[2..], None));
}

/// A job with this metadata that has ended as failed. Jobs end in the order of the calls.
async fn ended(repository: &dyn Repository, dataset: &Dataset, metadata: Value) -> JobId {
    let new = NewJob { metadata, ..new_job(dataset) };
    repository.submit_job(new, &NO_LIMITS).await.unwrap();
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    finish_later(repository, &claim).await;
    claim.job.id
}

/// Ends the job at a later millisecond than every job before it: times are stored in milliseconds.
async fn finish_later(repository: &dyn Repository, claim: &ClaimedJob) {
    let now = || Timestamp::now().0 / 1000;
    let before = now();
    while now() <= before + 1 {
        std::hint::spin_loop();
    }
    let failure = Finish::Failed(JobFailure::new(FailureCode::EngineError, "no"));
    repository.finish_job(claim.job.id, claim.token, &TERMS, failure).await.unwrap();
}

pub async fn a_gate_asks_about_the_job_that_ended_last(repository: &dyn Repository) {
    let (a, b) = (dataset(repository, "a").await, dataset(repository, "a").await);
    let foreign = dataset(repository, "b").await;
    let by_data = new_gate("a", "data", definition(Some(a.id), json!({})));
    let by_data = repository.create_gate(by_data, MANY).await.unwrap();
    let by_label = new_gate("a", "label", definition(None, json!({"team": "ranking", "n": 1})));
    let by_label = repository.create_gate(by_label, MANY).await.unwrap();
    let asks = async |gate| repository.job_of_gate(gate).await.unwrap().map(|job: Job| job.id);
    assert_eq!((asks(&by_data).await, asks(&by_label).await), (None, None));

    let first = ended(repository, &a, json!({"team": "ranking", "n": 1, "more": [2]})).await;
    assert_eq!((asks(&by_data).await, asks(&by_label).await), (Some(first), Some(first)));
    let other = ended(repository, &b, json!({"team": "ranking", "n": 1})).await;
    assert_eq!((asks(&by_data).await, asks(&by_label).await), (Some(first), Some(other)));
    // Other values, other types, fewer members, and the same in another workspace.
    for metadata in [json!({"team": "ads", "n": 1}), json!({"team": "ranking", "n": "1"}), json!({"n": 1})] {
        ended(repository, &b, metadata).await;
    }
    ended(repository, &foreign, json!({"team": "ranking", "n": 1})).await;
    // A job that has not ended does not count, and one that was submitted earlier and ended later does.
    repository.submit_job(NewJob { metadata: json!({}), ..new_job(&a) }, &NO_LIMITS).await.unwrap();
    let slow = repository.claim_job(&TERMS).await.unwrap().unwrap();
    assert_eq!((asks(&by_data).await, asks(&by_label).await), (Some(first), Some(other)));
    let quick = ended(repository, &a, json!({})).await;
    assert_eq!(asks(&by_data).await, Some(quick));
    finish_later(repository, &slow).await;
    assert_eq!((asks(&by_data).await, asks(&by_label).await), (Some(slow.job.id), Some(other)));
    // A canceled one counts too.
    let queued = repository.submit_job(new_job(&a), &NO_LIMITS).await.unwrap();
    repository.cancel_job(&a.workspace, queued.id).await.unwrap();
    assert_eq!(asks(&by_data).await, Some(queued.id));
}

/// Behind more jobs than are compared at a time.
pub async fn a_gate_finds_its_job_behind_many_others(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let wanted = ended(repository, &dataset, json!({"app": "x"})).await;
    for _ in 0..300 {
        let other = NewJob { metadata: json!({"app": "y"}), ..new_job(&dataset) };
        let other = repository.submit_job(other, &NO_LIMITS).await.unwrap();
        repository.cancel_job(&dataset.workspace, other.id).await.unwrap();
    }
    let new = new_gate("a", "g", definition(None, json!({"app": "x"})));
    let gate = repository.create_gate(new, MANY).await.unwrap();
    assert_eq!(repository.job_of_gate(&gate).await.unwrap().unwrap().id, wanted);
    let definition = GateDefinition { selector: Map::new(), ..gate.definition.clone() };
    let all = repository.change_gate(&workspace("a"), &name("g"), &definition, "bob").await.unwrap();
    assert_ne!(repository.job_of_gate(&all).await.unwrap().unwrap().id, wanted);
}

pub async fn a_token_belongs_to_one_gate_until_it_is_revoked(repository: &dyn Repository) {
    let ws = workspace("a");
    let (one, two) = (gate(repository, "a", "one").await, gate(repository, "a", "two").await);
    let first = repository.create_gate_token(&ws, &one.name, new_token("gt_1"), 9).await.unwrap();
    let second = repository.create_gate_token(&ws, &one.name, new_token("gt_2"), 9).await.unwrap();
    assert_eq!((first.gate_id, first.name.as_str(), first.created_by.as_str()), (one.id, "flagger", "ada"));
    assert_eq!(repository.gate_tokens(&ws, &one.name).await.unwrap(), [second.clone(), first.clone()]);
    assert!(repository.gate_tokens(&ws, &two.name).await.unwrap().is_empty());
    let by = async |secret: &str| repository.gate_by_token(&KeyHash::of(secret)).await.unwrap();
    assert_eq!(by("gt_1").await, Some((one.clone(), first.id)));
    assert_eq!(by("gt_3").await, None);
    let elsewhere = repository.revoke_gate_token(&ws, &two.name, first.id).await;
    assert!(matches!(elsewhere, Err(StoreError::NotFound(Resource::GateToken, _))), "{elsewhere:?}");
    repository.revoke_gate_token(&ws, &one.name, first.id).await.unwrap();
    assert_eq!(by("gt_1").await, None);
    assert_eq!(by("gt_2").await, Some((one.clone(), second.id)));
    // A later gate of the same name does not inherit the tokens.
    repository.delete_gate(&ws, &one.name).await.unwrap();
    gate(repository, "a", "one").await;
    assert_eq!(by("gt_2").await, None);
}

pub async fn gates_and_tokens_have_limits(repository: &dyn Repository) {
    let ws = workspace("a");
    let one = gate(repository, "a", "one").await;
    let more = || new_gate("a", "two", definition(None, json!({"x": 1})));
    let full = repository.create_gate(more(), 1).await;
    assert!(matches!(full, Err(StoreError::LimitReached { resource: Resource::Gate, limit: 1 })), "{full:?}");
    repository.create_gate(more(), 2).await.unwrap();
    repository.create_gate_token(&ws, &one.name, new_token("gt_1"), 1).await.unwrap();
    let full = repository.create_gate_token(&ws, &one.name, new_token("gt_2"), 1).await;
    assert!(
        matches!(full, Err(StoreError::LimitReached { resource: Resource::GateToken, limit: 1 })),
        "{full:?}"
    );
}

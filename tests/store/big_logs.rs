//! Logs that are read from a temporary file instead of memory: the same chunks, the same certificates, and
//! no other bytes than those whose digest was checked.

use crate::support;

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures_util::stream;
use guarantor::queue::{StoredInputs, resolve};
use guarantor::store::{self, Append, Upload, UploadError};
use guarantor::store::{Dataset, DatasetId, LogMemory, PolicyId, Store, StoreError, Workspace};
use guarantor_engine::control::{Control, unattended};
use guarantor_engine::log::{
    Chunk, LogSource, MemoryLog, NamedOutcome, Outcome, PartLog, Repetitions, Side, Span, Split,
};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::SpecRequest;
use guarantor_engine::{self, EngineError, Finished};
use guarantor_ingest::{ContextLimits, DeclaredOutcomes, Format, IngestLimits, LogOptions, contexts_of};
use serde_json::{Value, json};
use support::{policy_params, store};

/// What a log may have besides features, action, propensity and cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    pub contexts: bool,
    /// Whether rows of one context were logged by design.
    pub designed: bool,
    pub full: bool,
    pub candidates: bool,
    /// Whether candidates have π(·|x).
    pub candidate_full: bool,
    pub policy: bool,
    /// Whether rows have times, and in which order.
    pub times: Times,
    pub versions: bool,
    pub digits: Digits,
    /// Whether every row has its own actions.
    pub sets: bool,
    /// Whether rows have several outcomes.
    pub outcomes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Times {
    None,
    InOrder,
    Scattered,
}

/// The digits of propensities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Digits {
    All,
    Three,
    /// Every propensity is 1/3.
    Uniform,
    /// Every propensity is 0.333, so that the log may be only nearly uniform.
    NearlyUniform,
}

pub const PLAIN: Kind = Kind {
    contexts: false,
    designed: false,
    full: false,
    candidates: false,
    candidate_full: false,
    policy: false,
    times: Times::None,
    versions: false,
    digits: Digits::All,
    sets: false,
    outcomes: false,
};

const KINDS: [Kind; 21] = [
    PLAIN,
    Kind { candidates: true, ..PLAIN },
    Kind { full: true, ..PLAIN },
    Kind { contexts: true, designed: true, full: true, ..PLAIN },
    Kind { contexts: true, designed: true, candidates: true, ..PLAIN },
    Kind { contexts: true, designed: true, policy: true, ..PLAIN },
    Kind { contexts: true, candidates: true, ..PLAIN },
    Kind { times: Times::InOrder, versions: true, digits: Digits::Three, ..PLAIN },
    Kind { times: Times::Scattered, versions: true, candidates: true, candidate_full: true, ..PLAIN },
    Kind { contexts: true, times: Times::Scattered, full: true, digits: Digits::Three, ..PLAIN },
    Kind {
        contexts: true,
        designed: true,
        times: Times::Scattered,
        versions: true,
        candidates: true,
        candidate_full: true,
        full: true,
        ..PLAIN
    },
    Kind { contexts: true, versions: true, candidates: true, digits: Digits::Uniform, ..PLAIN },
    Kind { contexts: true, versions: true, candidates: true, digits: Digits::NearlyUniform, ..PLAIN },
    Kind { sets: true, ..PLAIN },
    Kind { sets: true, full: true, candidates: true, candidate_full: true, ..PLAIN },
    Kind { sets: true, contexts: true, times: Times::InOrder, versions: true, candidates: true, ..PLAIN },
    Kind {
        sets: true,
        times: Times::Scattered,
        versions: true,
        full: true,
        candidates: true,
        candidate_full: true,
        ..PLAIN
    },
    Kind { sets: true, times: Times::Scattered, policy: true, ..PLAIN },
    Kind { sets: true, contexts: true, times: Times::Scattered, digits: Digits::Three, ..PLAIN },
    Kind { outcomes: true, contexts: true, designed: true, full: true, times: Times::Scattered, ..PLAIN },
    Kind { outcomes: true, sets: true, times: Times::Scattered, versions: true, candidates: true, ..PLAIN },
];

/// The outcomes of rows that have several.
fn outcomes(kind: Kind) -> Vec<NamedOutcome> {
    let declared = r#"{"main": {"kind": "cost", "min": -1, "max": 0}, "sale": {"kind": "reward", "max": 10, "cap": 8},
        "complaint": {"kind": "cost"}}"#;
    let declared: DeclaredOutcomes = declared.parse().unwrap();
    if kind.outcomes { declared.outcomes().unwrap() } else { Vec::new() }
}

/// The policy that logs.
fn logging_policy(kind: Kind) -> PolicyParams {
    match kind.sets {
        true => set_policy(),
        false => policy_params(),
    }
}

/// A policy for action lists. A name that is a number is its own dimension.
fn set_policy() -> PolicyParams {
    let named = json!({ "form": "named", "dim": 1 << 24 });
    let policy = json!({
        "kind": "action_scorer",
        "features": { "x": named, "actions": named },
        "inverse_temperature": 1.0,
        "actions": [{ "index": 3, "scale": 1.0, "weight": 0.8 }, { "index": 5, "scale": 1.0, "weight": -1.1 }],
    });
    serde_json::from_value(policy).unwrap()
}

/// Rows with two to six actions of their own, logged by `set_policy`.
fn set_rows(kind: Kind, n: usize) -> Vec<Value> {
    let asked: Vec<Value> = (0..n)
        .map(|i| {
            let actions: Vec<Value> = (0..2 + i * 7 % 5)
                .map(|a| json!({ "id": format!("a{}", i % 11 + a), "x": { "3": (i * a % 7) as f64 / 3.0, "5": a, "t": "u" } }))
                .collect();
            json!({ "x": { "4": (i % 13) as f64 / 5.0, "day": i % 7 }, "actions": actions })
        })
        .collect();
    let limits = ContextLimits { row: IngestLimits::default(), actions: 1 << 20, non_zeros: 1 << 24 };
    let body = json!({ "contexts": asked }).to_string();
    let contexts = contexts_of(body.as_bytes(), set_policy().set_features(), &limits).unwrap();
    let drawn = set_policy().sample(contexts.sets.view(), 5).unwrap();
    let full = set_policy().propensities(contexts.sets.view()).unwrap();
    let row = |(i, mut row): (usize, Value)| {
        let (action, propensity) = drawn[i];
        let size = contexts.sets.size(i);
        row["action"] = json!(action);
        row["cost"] = json!(if action == 1 { -1.0 } else { -((i % 5) as f64) / 10.0 });
        match (kind.full, kind.digits) {
            (true, _) => {
                let of_row: Vec<f64> = full.row(i).iter().take(size).map(|&p| f64::from(p as f32)).collect();
                row["propensities"] = json!(of_row);
            }
            (false, Digits::Three) => row["propensity"] = json!((propensity * 1000.0).ceil() / 1000.0),
            (false, _) => row["propensity"] = json!(propensity),
        }
        if kind.candidate_full {
            let last = |a: usize| if a + 1 == size { 1.0 } else { 0.0 };
            row["candidate_propensities"] = json!({
                "calm": vec![1.0 / size as f64; size],
                "zany": (0..size).map(last).collect::<Vec<f64>>(),
            });
        }
        row
    };
    asked.into_iter().enumerate().map(row).collect()
}

/// The context of a row.
fn context(kind: Kind, n: usize, i: usize) -> usize {
    if kind.contexts { (i * 7919) % (n * 2 / 3 + 1) % 2500 } else { i }
}

/// Logged rows. With context ids, the rows of a context are far apart, and a context has one to seven rows.
fn rows(kind: Kind, n: usize) -> Vec<Value> {
    let mut rows = if kind.sets { set_rows(kind, n) } else { fixed_rows(kind, n) };
    for (i, row) in rows.iter_mut().enumerate() {
        if kind.contexts {
            row["context_id"] = json!(format!("context {}", context(kind, n, i)));
        }
        if kind.candidates {
            let (action, given) = (row["action"].as_u64().unwrap(), row["propensity"].as_f64());
            row["candidates"] =
                json!({ "bold": if action == 1 { 0.9 } else { 0.05 }, "shy": given.unwrap_or(0.3) });
        }
        let scattered = (i * 7919) % n / 2;
        match kind.times {
            Times::None => {}
            Times::InOrder => row["timestamp"] = json!(1_700_000_000 + i / 3),
            Times::Scattered => row["timestamp"] = json!(1_700_000_000 + scattered),
        }
        if kind.outcomes {
            let (main, fields) = (row["cost"].clone(), row.as_object_mut().unwrap());
            fields.remove("cost");
            row["outcomes"] = json!({ "main": main, "sale": i * 13 % 11, "complaint": i * 7 % 3 % 2 });
        }
        if kind.versions {
            let arrival = if kind.times == Times::Scattered { scattered * 2 } else { i };
            row["policy_version"] = json!(format!("v{}", arrival * 5 / n));
        }
    }
    rows
}

/// Rows logged by `policy_params`.
fn fixed_rows(kind: Kind, n: usize) -> Vec<Value> {
    let context = |i: usize| context(kind, n, i);
    let x: Vec<f32> = (0..n)
        .flat_map(|i| {
            let c = context(i);
            [(c * 37 % 101) as f32 / 50.0 - 1.0, (c * 53 % 97) as f32 / 48.0 - 1.0]
        })
        .collect();
    let x = ndarray::Array2::from_shape_vec((n, 2), x).unwrap();
    let actions = policy_params().sample(x.view(), 5).unwrap();
    let full = policy_params().propensities(x.view()).unwrap();
    let row = |(i, (action, propensity)): (usize, (u32, f64))| {
        let cost = if action == 1 { -1.0 } else { -((i % 5) as f64) / 10.0 };
        let mut row = json!({ "x": x.row(i).to_vec(), "action": action, "cost": cost });
        row["propensity"] = match kind.digits {
            Digits::All => json!(propensity),
            Digits::Three => json!((propensity * 1000.0).ceil() / 1000.0),
            Digits::Uniform => json!(1.0 / 3.0),
            Digits::NearlyUniform => json!(0.333),
        };
        if kind.full {
            // In single precision, so that they must be normalized.
            let rounded = full.row(i).iter().map(|&p| f64::from(p as f32)).collect::<Vec<_>>();
            row["propensities"] = json!(rounded);
            row.as_object_mut().unwrap().remove("propensity");
        }
        if kind.candidate_full {
            row["candidate_propensities"] = json!({ "calm": [0.2, 0.3, 0.5], "zany": [0.333, 0.333, 0.333] });
        }
        row
    };
    actions.into_iter().enumerate().map(row).collect()
}

fn body(rows: &[Value]) -> impl futures_util::Stream<Item = Result<Bytes, store::BodyError>> + Unpin {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    stream::iter([Ok(Bytes::from(text))])
}

/// Stores rows in two parts, so that a chunk extends from one into the other.
pub async fn upload(store: &Store, kind: Kind, n: usize) -> Dataset {
    let rows = rows(kind, n);
    let (first, second) = rows.split_at(n / 3);
    let policy = PolicyId::new();
    store.create_policy(&Workspace::default(), policy, &logging_policy(kind)).await.unwrap();
    let upload = Upload {
        id: DatasetId::new(),
        workspace: Workspace::default(),
        name: None,
        format: Format::Ndjson.into(),
        n_actions: (!kind.sets).then_some(3),
        outcome: Outcome::default(),
        outcomes: outcomes(kind),
        options: LogOptions {
            repetitions: if kind.designed { Repetitions::Designed } else { Repetitions::Decisions },
            ..LogOptions::default()
        },
        logging_policy: kind.policy.then(|| (policy, logging_policy(kind))),
        limits: IngestLimits::default(),
    };
    let dataset = store::upload(store, upload, body(first)).await.unwrap();
    let more = append(dataset, kind);
    store::append(store, more, body(second)).await.unwrap()
}

fn append(dataset: Dataset, kind: Kind) -> Append {
    let logging_policy = kind.policy.then(|| logging_policy(kind));
    Append {
        dataset,
        request: uuid::Uuid::now_v7(),
        format: Format::Ndjson.into(),
        logging_policy,
        limits: IngestLimits::default(),
    }
}

/// The same store with no memory for logs.
pub fn without_memory(store: &Store) -> Store {
    store.clone().with_log_memory(LogMemory { max_bytes: 0, ..store.log_memory().clone() })
}

pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn assert_same(a: &dyn LogSource, b: &dyn LogSource, kind: Kind) {
    assert_eq!(a.shape(), b.shape(), "{kind:?}");
    assert_eq!(a.chunks(), b.chunks(), "{kind:?}");
    // Backwards, because chunks may be read in any order.
    for index in (0..a.chunks()).rev() {
        let (a, b): (Chunk, Chunk) = (a.chunk(index).unwrap(), b.chunk(index).unwrap());
        assert_eq!(a.x, b.x, "{kind:?} chunk {index}");
        assert_eq!((&a.ordinals, &a.offsets), (&b.ordinals, &b.offsets), "{kind:?} chunk {index}");
        assert_eq!((&a.actions, &a.costs), (&b.actions, &b.costs), "{kind:?} chunk {index}");
        assert_eq!((&a.propensities, &a.weights), (&b.propensities, &b.weights), "{kind:?} chunk {index}");
        assert_eq!((&a.full, &a.candidates), (&b.full, &b.candidates), "{kind:?} chunk {index}");
        assert_eq!((&a.arrivals, &a.last_version), (&b.arrivals, &b.last_version), "{kind:?} chunk {index}");
        assert_eq!(a.candidate_full, b.candidate_full, "{kind:?} chunk {index}");
        assert_eq!((&a.outcomes, a.outcomes.len()), (&b.outcomes, if kind.outcomes { 2 } else { 0 }));
        assert_eq!((a.sets.is_some(), b.sets.is_some()), (kind.sets, kind.sets));
        let (Some(a), Some(b)) = (&a.sets, &b.sets) else { continue };
        let (a, b) = (a.view(), b.view());
        assert_eq!((a.rows(), a.width()), (b.rows(), b.width()), "{kind:?} chunk {index}");
        assert_eq!(a.to_sets(0..a.rows()), b.to_sets(0..b.rows()), "{kind:?} chunk {index}");
    }
}

/// The same without features.
pub fn assert_lean(a: &dyn LogSource, b: &dyn LogSource) {
    assert_eq!((a.shape(), a.chunks()), (b.shape(), b.chunks()));
    for index in 0..a.chunks() {
        let (a, b): (Chunk, Chunk) = (a.lean_chunk(index).unwrap(), b.lean_chunk(index).unwrap());
        assert_eq!((&a.ordinals, &a.offsets, &a.arrivals), (&b.ordinals, &b.offsets, &b.arrivals));
        assert_eq!((&a.actions, &a.costs, &a.outcomes), (&b.actions, &b.costs, &b.outcomes));
        assert_eq!((&a.propensities, &a.weights, &a.full), (&b.propensities, &b.weights, &b.full));
        assert_eq!((&a.candidates, &a.candidate_full), (&b.candidates, &b.candidate_full));
        assert_eq!(a.last_version, b.last_version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_from_a_file_are_those_in_memory() {
    let (_directory, store) = store().await;
    for kind in KINDS {
        let dataset = upload(&store, kind, 4_000).await;
        let held = store.fetch_log(&dataset).await.unwrap();
        let stored = without_memory(&store).fetch_log(&dataset).await.unwrap();
        assert!(held.fits_in_memory() && !stored.fits_in_memory());
        blocking(move || {
            let mut memory = MemoryLog::new(held.decode().unwrap()).unwrap();
            if kind.policy {
                memory = memory.with_full_propensities(|x| logging_policy(kind).propensities(x)).unwrap();
            }
            let policy = kind.policy.then(|| logging_policy(kind));
            let spooled = stored.spool(policy.as_ref(), &unattended()).unwrap();
            assert!(memory.chunks() > 2, "the log must have several chunks");
            let capabilities = &memory.shape().capabilities;
            assert_eq!(capabilities.multiple_interactions, kind.designed);
            assert_eq!(capabilities.repeated_contexts, kind.contexts && !kind.designed);
            assert_eq!(capabilities.uniform, kind.digits == Digits::Uniform);
            assert_eq!(*capabilities, dataset.content.capabilities, "{kind:?}");
            assert_same(&memory, &spooled, kind);
            let hash = Span::Hash(Split { seed: 3, fraction: 0.4 });
            let time = Span::Time { first_certified_row: 1500, policy_version: None };
            for (span, side) in [(&hash, Side::Learn), (&hash, Side::Certify), (&time, Side::Learn)] {
                let parts =
                    [&memory as &dyn LogSource, &spooled].map(|log| PartLog::new(log, span.clone(), side));
                let [a, b] = parts.map(Result::unwrap);
                assert_same(&a, &b, kind);
            }
        })
        .await;
    }
}

async fn run(store: &Store, dataset: &Dataset, request: &SpecRequest) -> Finished {
    let workspace = Workspace::default();
    let spec = resolve(store, &workspace, dataset, request, "test").await.unwrap().spec;
    let inputs = StoredInputs::fetch(store, &workspace, dataset.clone(), &spec).await.unwrap();
    let control = unattended();
    blocking(move || inputs.with(&control, |inputs| guarantor_engine::run(&spec, inputs, &control)).unwrap())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_do_not_depend_on_where_the_log_is() {
    let (_directory, store) = store().await;
    let candidate = PolicyId::new();
    store.create_policy(&Workspace::default(), candidate, &policy_params()).await.unwrap();
    let given = json!({ "kind": "policy", "policy_id": candidate.to_string() });
    for kind in KINDS {
        let dataset = upload(&store, kind, 3_000).await;
        let mut requests = match kind.sets {
            true => vec![json!({ "kind": "learn" })],
            false => vec![
                json!({ "kind": "evaluate", "candidates": [given], "independent_of_log": true }),
                json!({ "kind": "learn", "bound": "betting", "xi": 0, "optimizer": { "epochs": 2 } }),
            ],
        };
        if kind.full && kind.contexts && !kind.sets {
            requests.push(json!({ "kind": "learn", "optimizer": { "epochs": 2 } }));
        }
        if kind.candidates {
            let logged = ["bold", "shy"].map(|name| json!({ "kind": "logged", "name": name }));
            requests.push(json!({ "kind": "evaluate", "candidates": logged, "independent_of_log": true }));
        }
        // One log of each way in which a temporary file is written.
        if kind == PLAIN || kind == KINDS[9] || kind == KINDS[10] {
            requests.push(json!({ "kind": "learn" }));
            let split = json!({ "kind": "split", "fraction": 0.4 });
            requests.push(
                json!({ "kind": "learn", "bound": "betting", "xi": 0, "prior": split, "optimizer": { "epochs": 2 } }),
            );
        }
        for request in requests {
            let request: SpecRequest = serde_json::from_value(request).unwrap();
            let in_memory = run(&store, &dataset, &request).await;
            let from_file = run(&without_memory(&store), &dataset, &request).await;
            assert_eq!(in_memory, from_file, "{kind:?} {request:?}");
            // Without their features, the rows may fit into memory.
            if request.candidates.is_none() {
                continue;
            }
            let little = LogMemory { max_bytes: 170_000, ..store.log_memory().clone() };
            let lean = run(&store.clone().with_log_memory(little), &dataset, &request).await;
            assert_eq!(in_memory, lean, "{kind:?} {request:?}");
        }
    }
}

/// Changes one byte of a part's file, two thirds of the way in.
fn damage(directory: &tempfile::TempDir, dataset: &Dataset, part: usize) {
    let file = directory.path().join("blobs").join(&dataset.content.parts[part].key);
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_part_is_noticed_before_anything_is_computed() {
    let (directory, store) = store().await;
    for (part, kind) in [(0, KINDS[3]), (1, KINDS[3]), (0, KINDS[16]), (1, KINDS[16])] {
        let dataset = upload(&store, kind, 2_000).await;
        damage(&directory, &dataset, part);
        let stored = without_memory(&store).fetch_log(&dataset).await.unwrap();
        let error = blocking(move || stored.spool(None, &unattended()).map(drop)).await.unwrap_err();
        assert!(matches!(error, EngineError::Log(_)), "{error}");
        // Nothing can be appended either: that would give the damaged rows a digest.
        let refused = store::append(&store, append(dataset, kind), body(&rows(kind, 10))).await;
        assert!(matches!(refused, Err(UploadError::Store(StoreError::Damaged(_)))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_job_does_not_read_its_log() {
    let (_directory, store) = store().await;
    let dataset = upload(&store, KINDS[0], 100).await;
    let stored = without_memory(&store).fetch_log(&dataset).await.unwrap();
    let cancelled = blocking(move || {
        let flag = AtomicBool::new(true);
        stored.spool(None, &Control::new(&flag, &|_| {})).map(drop)
    });
    assert_eq!(cancelled.await, Err(EngineError::Cancelled));
}

//! Properties of uploads over generated logs and generated damage: any valid log survives any
//! chunking; damage is never a crash or our fault, and never gets past a digest.

use crate::common;
use crate::logs;
use crate::support;

use bytes::Bytes;
use futures_util::stream;
use guarantor::store::{self, BodyError, Upload, UploadError};
use guarantor::store::{Dataset, DatasetId, Store, Workspace};
use guarantor_engine::log::Outcome;
use guarantor_ingest::{Encoding, Format, Hashing, IngestError, IngestLimits};
use logs::{ARROW, CSV, NDJSON, PARQUET, TYPES, content_digest, encoded, written};
use proptest::prelude::*;
use serde_json::{Value, json};

fn format(kind: &str) -> Format {
    match kind {
        NDJSON => Format::Ndjson,
        CSV => Format::Csv,
        PARQUET => Format::Parquet,
        ARROW => Format::ArrowStream,
        "dsjson" => Format::Dsjson(Hashing { dims: 4 }),
        "obd" => Format::Obd(Hashing { dims: 4 }),
        other => panic!("{other}"),
    }
}

async fn send(store: &Store, kind: &str, coding: &str, chunks: Vec<Bytes>) -> Result<Dataset, UploadError> {
    send_k(store, kind, coding, chunks, Some(4)).await
}

async fn send_k(
    store: &Store,
    kind: &str,
    coding: &str,
    chunks: Vec<Bytes>,
    n_actions: Option<usize>,
) -> Result<Dataset, UploadError> {
    let upload = Upload {
        id: DatasetId::new(),
        workspace: Workspace::default(),
        name: None,
        format: format(kind),
        encoding: Encoding::named(coding).unwrap(),
        n_actions,
        outcome: Outcome::default(),
        logging_policy: None,
        limits: IngestLimits::default(),
    };
    let body = stream::iter(chunks.into_iter().map(Ok::<_, BodyError>));
    store::upload(store, upload, body).await
}

/// `bytes` cut at these places, given as shares of its length.
fn cut(bytes: &[u8], cuts: &[f64]) -> Vec<Bytes> {
    let mut at: Vec<usize> = cuts.iter().map(|share| (share * bytes.len() as f64) as usize).collect();
    at.sort();
    at.push(bytes.len());
    let mut from = 0;
    let part = |to: usize| Bytes::copy_from_slice(&bytes[std::mem::replace(&mut from, to)..to]);
    at.into_iter().map(part).collect()
}

prop_compose! {
    fn row(dim: usize)(
        x in prop::collection::vec(-1e6f32..1e6, dim),
        action in 0u32..4,
        weights in prop::array::uniform4(0.01f64..1.0),
        cost in prop_oneof![Just(0.0), Just(-1.0), -1.0f64..0.0],
        context in "[ -~é\n]{1,8}",
        candidate in 0.0f64..=1.0,
    ) -> Value {
        let sum: f64 = weights.iter().sum();
        let p = weights.map(|w| w / sum);
        json!({"x": x, "action": action, "propensities": p, "cost": cost, "context_id": context,
            "candidates": {"b": candidate}})
    }
}

/// Valid rows of a common layout; contexts are made different ones, because their x are.
fn log() -> impl Strategy<Value = Vec<Value>> {
    let rows = (1usize..4).prop_flat_map(|dim| prop::collection::vec(row(dim), 1..12));
    (rows, any::<[bool; 4]>()).prop_map(|(mut rows, keep)| {
        for (i, row) in rows.iter_mut().enumerate() {
            let fields = row.as_object_mut().unwrap();
            let action = fields["action"].as_u64().unwrap() as usize;
            if !keep[0] {
                let p = fields.remove("propensities").unwrap();
                fields.insert("propensity".into(), p[action].clone());
            }
            let context = fields["context_id"].as_str().unwrap().to_owned();
            fields.insert("context_id".into(), json!(format!("{i}{context}")));
            for (keep, field) in keep[1..].iter().zip(["x", "context_id", "candidates"]) {
                if !keep {
                    fields.remove(field);
                }
            }
        }
        rows
    })
}

#[test]
fn a_valid_log_survives_any_chunking() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_directory, store) = runtime.block_on(support::store());
    let cuts = prop::collection::vec(0.0f64..1.0, 0..40);
    proptest!(common::generated(24), |(rows in log(), cuts in cuts, coding in 0usize..3)| {
        let coding = ["identity", "gzip", "zstd"][coding];
        let whole = vec![Bytes::from(written(NDJSON, &rows))];
        let whole = runtime.block_on(send(&store, NDJSON, "identity", whole)).unwrap();
        prop_assert_eq!(whole.content.rows, rows.len() as u64);
        for kind in TYPES {
            let bytes = encoded(coding, &written(kind, &rows));
            let dataset = runtime.block_on(send(&store, kind, coding, cut(&bytes, &cuts)));
            let dataset = dataset.map_err(|error| TestCaseError::fail(format!("{kind} {coding}: {error}")))?;
            prop_assert_eq!(&dataset.content.digest, &whole.content.digest, "{} {}", kind, coding);
            prop_assert_eq!(&dataset.content.health, &whole.content.health);
        }
    });
}

/// Blocks of lines, batches of rows and parts of the stored file all end somewhere in so many.
#[test]
fn a_long_log_survives_chunking_in_every_format() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_directory, store) = runtime.block_on(support::store());
    let rows = logs::rows(20_000, true);
    let mut bodies: Vec<(&str, Vec<u8>, &str)> =
        TYPES.iter().map(|kind| (*kind, written(kind, &rows), "rows")).collect();
    bodies.push(("dsjson", logs::dsjson(20_000), "dsjson"));
    bodies.push(("obd", logs::obd(20_000), "obd"));
    let mut digests = std::collections::BTreeMap::new();
    for (kind, bytes, content) in bodies {
        for (coding, size) in [("identity", usize::MAX), ("identity", 1000), ("gzip", 4099), ("zstd", 777)] {
            let coded = encoded(coding, &bytes);
            let chunks = coded.chunks(size.min(coded.len())).map(Bytes::copy_from_slice).collect();
            let stored = runtime.block_on(send_k(&store, kind, coding, chunks, None)).unwrap();
            assert_eq!(stored.content.rows, 20_000);
            let digest = digests.entry(content).or_insert_with(|| stored.content.digest.clone());
            assert_eq!(*digest, stored.content.digest, "{kind} {coding} {size}");
        }
    }
    assert_eq!(digests.len(), 3);
}

/// Whether it is a refusal that the sender can do something about.
fn is_refusal(result: &Result<Dataset, UploadError>) -> bool {
    matches!(
        result,
        Ok(_)
            | Err(UploadError::Log(
                IngestError::Rows(_)
                    | IngestError::Option { .. }
                    | IngestError::Unreadable(_)
                    | IngestError::TooLarge(_)
                    | IngestError::Expands(_)
            ))
    )
}

/// What may happen to bytes.
#[derive(Debug, Clone)]
enum Damage {
    /// Place and what it is changed by.
    Byte(f64, u8),
    Cut(f64),
    Lost(f64, f64),
    Repeated(f64, f64),
    Zeros(f64, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = 0.0f64..1.0;
    prop_oneof![
        6 => (place.clone(), 1u8..).prop_map(|(at, by)| Damage::Byte(at, by)),
        1 => place.clone().prop_map(Damage::Cut),
        1 => (place.clone(), place.clone()).prop_map(|(a, b)| Damage::Lost(a.min(b), a.max(b))),
        1 => (place.clone(), place.clone()).prop_map(|(a, b)| Damage::Repeated(a.min(b), a.max(b))),
        1 => (place, any::<u8>()).prop_map(|(at, n)| Damage::Zeros(at, n)),
    ]
}

fn damaged(mut bytes: Vec<u8>, damage: &Damage) -> Vec<u8> {
    let n = bytes.len();
    let at = |share: f64| ((share * n as f64) as usize).min(n.saturating_sub(1));
    match *damage {
        Damage::Byte(share, by) => bytes[at(share)] ^= by,
        Damage::Cut(share) => bytes.truncate(at(share)),
        Damage::Lost(from, to) => drop(bytes.drain(at(from)..at(to))),
        Damage::Repeated(from, to) => {
            let again = bytes[at(from)..at(to)].to_vec();
            bytes.splice(at(to)..at(to), again);
        }
        Damage::Zeros(share, n) => bytes.iter_mut().skip(at(share)).take(n as usize).for_each(|b| *b = 0),
    }
    bytes
}

#[test]
fn damage_is_refused_or_harmless_and_never_our_fault() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (directory, store) = runtime.block_on(support::store());
    let kept = std::cell::Cell::new(0);
    let rows = logs::rows(9, true);
    let files: Vec<(&str, &str, Vec<u8>)> = TYPES
        .into_iter()
        .flat_map(|kind| {
            let bytes = written(kind, &rows);
            ["identity", "gzip", "zstd"].map(|coding| (kind, coding, encoded(coding, &bytes)))
        })
        .collect();
    proptest!(common::generated(3000), |(which in 0..files.len() + 12, damage in damage())| {
        // The binary formats without a coding are where a byte can do most; they come up oftener.
        let (kind, coding, bytes) = files.get(which).unwrap_or_else(|| &files[6 + 3 * (which % 2)]);
        let sent = damaged(bytes.clone(), &damage);
        let result = runtime.block_on(send_k(&store, kind, coding, vec![Bytes::from(sent)], None));
        prop_assert!(is_refusal(&result), "{kind} {coding}: {result:?}");
        if let Ok(dataset) = result {
            kept.set(kept.get() + 1);
            // What was harmless is stored whole: reading it checks its digest.
            let log = runtime.block_on(store.fetch_log(&dataset)).unwrap();
            prop_assert_eq!(log.decode().unwrap().rows() as u64, dataset.content.rows);
        }
    });
    // A file in a folder of its own for each, and nothing else.
    let blobs = directory.path().join("blobs");
    assert!(kept.get() > 0);
    assert_eq!(common::files(&blobs).len(), kept.get());
    assert_eq!(common::folders(&blobs).len(), kept.get() + 1);
}

/// Through the real server, which checks the digest.
#[test]
fn no_changed_byte_gets_past_a_digest() {
    let server = common::Server::start();
    let client = server.client();
    let rows = logs::rows(9, true);
    let mut bodies: Vec<(&str, &str, &str, Vec<u8>)> = Vec::new();
    for coding in ["identity", "gzip", "zstd"] {
        let of = |kind| encoded(coding, &written(kind, &rows));
        bodies.extend(TYPES.map(|kind| (kind, coding, "", of(kind))));
        bodies.push(("application/json", coding, "?format=dsjson", encoded(coding, &logs::dsjson(9))));
        bodies.push(("text/csv", coding, "?format=obd", encoded(coding, &logs::obd(9))));
    }
    let manifest = (logs::disposition("manifest"), b"{\"n_actions\":3}".to_vec());
    let data = (logs::data_headers(CSV, "identity"), written(CSV, &rows));
    let (kind, form) = logs::form(&[(&manifest.0, &manifest.1), (&data.0, &data.1)]);
    bodies.push((&kind, "identity", "", form));
    for (kind, coding, query, body) in &bodies {
        let headers = [("content-type", *kind), ("content-encoding", *coding)];
        let stored = client.send("POST", &format!("/v1/datasets{query}"), &headers, Some(body)).expect(201);
        client.delete(&format!("/v1/datasets/{}", common::id_of(&stored))).expect(204);
    }
    proptest!(common::generated(600), |(which in 0..bodies.len() + 5, at in 0.0f64..1.0, by in 1u8..)| {
        // The form, where most is parsed before the data, comes up oftener.
        let (kind, coding, query, body) = &bodies[which.min(bodies.len() - 1)];
        let digest = content_digest(body);
        let sent = damaged(body.clone(), &Damage::Byte(at, by));
        let headers = [("content-type", *kind), ("content-encoding", *coding), ("content-digest", &digest)];
        let answer = client.send("POST", &format!("/v1/datasets{query}"), &headers, Some(&sent));
        let code = answer.json["code"].as_str().unwrap_or("none").to_owned();
        // A decoder that gives up early does so before the digest is known.
        let refused = matches!((answer.status, code.as_str()), (400, "digest_mismatch") | (422, "invalid_file"));
        // And so does whoever reads a form's manifest.
        let refused = refused || (kind.starts_with("multipart") && matches!(answer.status, 400..500));
        prop_assert!(refused, "{}", answer.text);
    });
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));
    assert!(common::files(&server.data.path().join("blobs")).is_empty());
}

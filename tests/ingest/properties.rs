//! Properties of uploads over generated damage: damage never causes a crash or an internal error, leaves nothing
//! behind, and never gets past a digest. `crates/ingest/tests` tests the same without a store.

use crate::common;
use crate::logs;
use crate::support;

use bytes::Bytes;
use futures_util::stream;
use guarantor::store::{self, BodyError, Upload, UploadError};
use guarantor::store::{Dataset, DatasetId, Store, Workspace};
use guarantor_engine::log::Outcome;
use guarantor_ingest::{Encoding, FileFormat, Format, IngestLimits};
use logs::{CSV, TYPES, content_digest, encoded, written};
use proptest::prelude::*;
use serde_json::json;

async fn send(store: &Store, kind: &str, coding: &str, body: Vec<u8>) -> Result<Dataset, UploadError> {
    let format = FileFormat::from(Format::of_content_type(kind).unwrap());
    let upload = Upload {
        id: DatasetId::new(),
        workspace: Workspace::default(),
        name: None,
        format: format.with_encoding(Encoding::named(coding).unwrap()),
        n_actions: None,
        outcome: Outcome::default(),
        outcomes: Vec::new(),
        options: Default::default(),
        logging_policy: None,
        limits: IngestLimits::default(),
    };
    store::upload(store, upload, stream::iter([Ok::<_, BodyError>(Bytes::from(body))])).await
}

/// Whether the upload was accepted, or rejected for a reason that the sender can fix.
fn is_answer(result: &Result<Dataset, UploadError>) -> bool {
    match result {
        Ok(_) => true,
        Err(UploadError::Log(error)) => error.is_of_the_body(),
        Err(_) => false,
    }
}

/// What can happen to bytes.
#[derive(Debug, Clone)]
enum Damage {
    /// Where, and what the byte is changed by.
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
fn damage_is_rejected_or_harmless_and_leaves_nothing() {
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
    proptest!(common::generated(800), |(which in 0..files.len() + 12, damage in damage())| {
        // Damage does most in the binary formats without compression, so these come up more often.
        let (kind, coding, bytes) = files.get(which).unwrap_or_else(|| &files[6 + 3 * (which % 2)]);
        let sent = damaged(bytes.clone(), &damage);
        let result = runtime.block_on(send(&store, kind, coding, sent));
        prop_assert!(is_answer(&result), "{kind} {coding}: {result:?}");
        if let Ok(dataset) = result {
            kept.set(kept.get() + 1);
            // Harmless damage is stored: reading the log checks its digest.
            let log = runtime.block_on(store.fetch_log(&dataset)).unwrap();
            prop_assert_eq!(log.decode().unwrap().rows() as u64, dataset.content.rows);
        }
    });
    // There is one file in its own folder for each dataset, and nothing else.
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
        // The form, in which most is parsed before the data, comes up more often.
        let (kind, coding, query, body) = &bodies[which.min(bodies.len() - 1)];
        let digest = content_digest(body);
        let sent = damaged(body.clone(), &Damage::Byte(at, by));
        let headers = [("content-type", *kind), ("content-encoding", *coding), ("content-digest", &digest)];
        let answer = client.send("POST", &format!("/v1/datasets{query}"), &headers, Some(&sent));
        let code = answer.json["code"].as_str().unwrap_or("none").to_owned();
        // A decoder that gives up early does so before the digest is known.
        let rejected = matches!((answer.status, code.as_str()), (400, "digest_mismatch") | (422, "invalid_file"));
        // So does the reader of a form's manifest.
        let rejected = rejected || (kind.starts_with("multipart") && matches!(answer.status, 400..500));
        prop_assert!(rejected, "{}", answer.text);
    });
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));
    assert!(common::files(&server.data.path().join("blobs")).is_empty());
}

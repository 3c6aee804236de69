//! Logs whose rows have their own actions: what is written is read back, from memory and from a temporary file.

use std::collections::BTreeSet;

use bytes::Bytes;
use guarantor_engine::control::unattended;
use guarantor_engine::footprint::{SetSizes, log_bytes};
use guarantor_engine::log::{
    ActionSets, Capabilities, Chunk, FeatureSpace, LastVersion, LogSource, Logging, MemoryLog, Outcome,
    Repetitions,
};

use super::*;
use crate::store::records::{BlobRef, DatasetContent};
use crate::store::{DatasetId, Timestamp, Workspace};

const SPACES: ActionSets =
    ActionSets { x: FeatureSpace::Named { dim: 1 << 18 }, actions: FeatureSpace::List { dim: 40 } };

fn layout() -> LogLayout {
    LogLayout {
        full: Some(0),
        candidates: vec!["bold".into(), "shy".into()],
        candidate_propensities: vec!["shy".into()],
        candidate_full: Some(0),
        timestamps: true,
        versions: true,
        sets: Some(SPACES),
        action_ids: true,
        ..LogLayout::default()
    }
}

/// Some rows, with two to `k` actions of up to `non_zeros` features.
fn rows(range: std::ops::Range<usize>, k: usize, non_zeros: usize, scattered: bool) -> LogRows {
    let mut rows =
        LogRows { candidates: vec![Vec::new(); 2], candidate_full: vec![Vec::new()], ..LogRows::default() };
    for i in range {
        let size = 2 + i * 31 % (k - 1);
        rows.sets.x.push((0..i % 4).map(|j| ((i * 977 + j * 131) as u32 % (1 << 18), 1.0 + j as f32)));
        for a in 0..size {
            let count = (i + a) % (non_zeros + 1);
            rows.sets.actions.push((0..count).map(|j| (j as u32, (i + a * j) as f32 / 8.0 + 0.125)));
            rows.full.push(1.0 / size as f64);
            rows.candidate_full[0].push(if a == 1 { 1.0 } else { 0.0 });
            rows.action_ids.push(format!("article {a}"));
        }
        rows.sets.end_row();
        rows.actions.push((i % size) as u32);
        rows.costs.push(-((i % 3) as f64) / 2.0);
        rows.propensities.push(1.0 / size as f64);
        rows.candidates[0].push(0.5);
        rows.candidates[1].push(if i % size == 1 { 1.0 } else { 0.0 });
        rows.timestamps.push(if scattered { (i * 7919 % 5000) as i64 } else { i as i64 });
        rows.versions.push(format!("v{}", i / 1000));
    }
    rows
}

fn encoded(batches: &[LogRows]) -> (Bytes, Option<SetSizes>) {
    let mut encoder = LogEncoder::new(layout());
    let mut bytes = Vec::new();
    for batch in batches {
        encoder.write(batch.clone()).unwrap();
        bytes.extend(encoder.take_bytes());
    }
    let sizes = encoder.set_sizes();
    bytes.extend(encoder.finish().unwrap().bytes);
    (bytes.into(), sizes)
}

fn stored(batches: &[Vec<LogRows>]) -> StoredLog {
    let (mut digest, mut count, mut parts, mut blobs) = (LogDigest::default(), 0, Vec::new(), Vec::new());
    for (i, batches) in batches.iter().enumerate() {
        let (bytes, sets) = encoded(batches);
        let blob = BlobRef { sets, ..BlobRef::new(format!("part {i}"), bytes.len() as u64) };
        blobs.push(blob.clone());
        parts.push(LogPart::held(blob, bytes));
        for batch in batches {
            digest.update(&layout(), batch);
            count += batch.len() as u64;
        }
    }
    let n_actions = batches.iter().flatten().map(|batch| batch.sets.largest()).max().unwrap();
    let last = || batches.iter().flatten().flat_map(|batch| &batch.versions);
    let times: Vec<i64> = batches.iter().flatten().flat_map(|batch| batch.timestamps.clone()).collect();
    let versions: Vec<&String> = last().collect();
    let latest = (0..times.len()).max_by_key(|&i| (times[i], i)).unwrap();
    let capabilities = Capabilities {
        features: true,
        action_sets: Some(SPACES),
        last_version: Some(LastVersion {
            name: versions[latest].clone(),
            first_row: 0,
            rows: 0,
            versions: 0,
        }),
        ..Capabilities::default()
    };
    let content = DatasetContent {
        rows: count,
        contexts: count,
        n_actions,
        dim: 0,
        outcome: Outcome::default(),
        digest: digest.finish(&layout(), n_actions, &Outcome::default(), &[]),
        capabilities,
        last_timestamp: None,
        health: serde_json::Value::Null,
        parts: blobs,
    };
    let dataset = Dataset {
        id: DatasetId::new(),
        workspace: Workspace::default(),
        name: None,
        created_at: Timestamp::now(),
        revision: 1,
        version: 1,
        logging_policy_id: None,
        logging: Logging::default(),
        repetitions: Repetitions::default(),
        exact_propensities: false,
        ledger_datasets: 1,
        shares_ledger_with: BTreeSet::new(),
        content,
    };
    StoredLog { parts, dataset, memory: LogMemory::default(), features: true, by_digest: false }
}

/// The rows of two parts of several batches.
fn log(scattered: bool) -> StoredLog {
    let batch = |range| rows(range, 12, 7, scattered);
    stored(&[vec![batch(0..700), batch(700..1500)], vec![batch(1500..2600)]])
}

fn assert_same(a: &Chunk, b: &Chunk) {
    assert_eq!((&a.actions, &a.costs, &a.propensities), (&b.actions, &b.costs, &b.propensities));
    assert_eq!((&a.full, &a.candidates, &a.candidate_full), (&b.full, &b.candidates, &b.candidate_full));
    assert_eq!((&a.ordinals, &a.arrivals, &a.weights), (&b.ordinals, &b.arrivals, &b.weights));
    assert_eq!(a.last_version, b.last_version);
    let (a, b) = (a.sets.as_ref().unwrap().view(), b.sets.as_ref().unwrap().view());
    assert_eq!((a.rows(), a.width()), (b.rows(), b.width()));
    for i in 0..a.rows() {
        assert_eq!((a.x(i), a.size(i)), (b.x(i), b.size(i)));
        (0..a.size(i)).for_each(|k| assert_eq!(a.action(i, k), b.action(i, k)));
    }
}

#[test]
fn chunks_of_sets_from_a_file_are_those_in_memory() {
    for scattered in [false, true] {
        let log = log(scattered);
        let memory = MemoryLog::new(log.decode().unwrap()).unwrap();
        let spooled = log.spool(None, &unattended()).unwrap();
        assert_eq!((memory.chunks(), spooled.chunks()), (3, 3));
        for index in (0..3).rev() {
            let (a, b) = (memory.chunk(index).unwrap(), spooled.chunk(index).unwrap());
            b.check(memory.shape()).unwrap();
            assert_same(&a, &b);
        }
    }
}

#[test]
fn rows_with_sets_are_read_back_as_they_were_written() {
    // The batches do not fit into one group.
    let batches = [rows(0..1000, 40, 40, false), rows(1000..6000, 40, 40, false)];
    let log = stored(&[batches.to_vec()]);
    let (mut read, mut groups) = (Vec::new(), 0);
    log.each_batch(|found, rows| {
        assert_eq!(found, &layout());
        let bytes = 8 * (rows.sets.x.non_zeros() + rows.sets.actions.non_zeros());
        assert!(bytes <= 8 << 20, "a group has {bytes} bytes");
        groups += 1;
        read.push(rows);
        Ok::<(), StoreError>(())
    })
    .unwrap();
    assert!(groups > 2, "{groups}");
    let mut whole = rows(0..0, 40, 40, false);
    let expected = rows(0..6000, 40, 40, false);
    for part in read {
        whole.sets.extend_from(&part.sets, 0..part.len());
        whole.action_ids.extend(part.action_ids);
        whole.full.extend(part.full);
        whole.actions.extend(part.actions);
    }
    assert_eq!((whole.sets, whole.action_ids), (expected.sets.clone(), expected.action_ids));
    assert_eq!((whole.full, whole.actions), (expected.full, expected.actions));
    let sizes = log.dataset.set_sizes().unwrap();
    let non_zeros = expected.sets.x.non_zeros() + expected.sets.actions.non_zeros();
    assert_eq!((sizes.actions, sizes.non_zeros), (expected.sets.actions.len() as u64, non_zeros as u64));
    assert_eq!(sizes.of_requests, expected.sets.x.non_zeros() as u64);
    // The memory of the decoded rows is estimated from them.
    let estimate = log_bytes(&log.dataset.shape(), Some(sizes));
    assert!(estimate > 8 * non_zeros as u64 && estimate < 20 * non_zeros as u64, "{estimate}");
}

/// Every damaged byte of a small log is noticed, in memory and on the way to a temporary file, and nothing panics.
#[test]
fn damaged_sets_are_noticed() {
    let batch = rows(0..20, 5, 3, false);
    let clean = stored(&[vec![batch]]);
    let bytes = clean.parts[0].bytes().unwrap();
    let mut noticed = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x40;
        let part = LogPart::held(clean.dataset.content.parts[0].clone(), damaged.into());
        let log = StoredLog {
            parts: vec![part],
            dataset: clean.dataset.clone(),
            memory: LogMemory::default(),
            features: true,
            by_digest: false,
        };
        let (decoded, spooled) = (log.decode(), log.spool(None, &unattended()));
        // Decoding on all threads also relies on the counts of rows in the index, and rejects wrong ones. Both compare the
        // digest of all rows.
        assert!(decoded.is_err() || spooled.is_ok(), "byte {at}");
        noticed += usize::from(decoded.is_err());
        if let Ok(columns) = decoded {
            assert_eq!(columns.actions.len(), 20, "byte {at}");
        }
    }
    assert!(noticed > bytes.len() / 2, "{noticed} of {}", bytes.len());
}

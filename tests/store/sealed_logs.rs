//! Jobs that need no features read the other columns alone. They notice every change of what they read, as jobs that read
//! all columns do.

use crate::big_logs::{Kind, PLAIN, Times, assert_lean, blocking, upload, without_memory};
use crate::support::store;

use std::fs::File;
use std::path::{Path, PathBuf};

use guarantor::store::{Dataset, SpooledLog, Store};
use guarantor_engine::EngineError;
use guarantor_engine::control::unattended;
use parquet::file::reader::{FileReader, SerializedFileReader};

const KIND: Kind = Kind { candidates: true, contexts: true, times: Times::InOrder, versions: true, ..PLAIN };

/// The chunks of a log as a job has them that needs no features.
async fn bare(store: &Store, dataset: &Dataset) -> Result<SpooledLog, EngineError> {
    let stored = match without_memory(store).fetch_log(dataset).await {
        Ok(stored) => stored.without_features(),
        Err(error) => return Err(error.into()),
    };
    blocking(move || stored.spool(None, &unattended())).await
}

fn file_of(directory: &Path, dataset: &Dataset, part: usize) -> PathBuf {
    directory.join("blobs").join(&dataset.content.parts[part].key)
}

/// Where the features are in a part, and where its index begins.
fn features_and_index(file: &Path) -> (Vec<std::ops::Range<u64>>, u64) {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let groups = reader.metadata().row_groups().iter();
    let columns = groups.flat_map(|group| group.columns());
    let range = |(start, length): (u64, u64)| start..start + length;
    let features = columns.clone().filter(|column| column.column_path().parts()[0] == "x");
    let end = columns.map(|column| range(column.byte_range()).end).max().unwrap();
    (features.map(|column| range(column.byte_range())).collect(), end)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_changed_byte_of_other_columns_is_noticed_and_features_are_not_read() {
    let (directory, store) = store().await;
    let dataset = upload(&store, KIND, 200).await;
    let sound = bare(&store, &dataset).await.unwrap();
    let whole = without_memory(&store).fetch_log(&dataset).await.unwrap();
    let whole = blocking(move || whole.spool(None, &unattended()).unwrap()).await;
    assert_lean(&sound, &whole);
    for part in [0, 1] {
        let file = file_of(directory.path(), &dataset, part);
        let bytes = std::fs::read(&file).unwrap();
        let (features, end) = features_and_index(&file);
        assert!(!features.is_empty() && end < bytes.len() as u64);
        let (mut unread, mut noticed) = (0, 0);
        for at in (0..bytes.len()).step_by(3) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            std::fs::write(&file, changed).unwrap();
            let at = at as u64;
            let is_feature = features.iter().any(|range| range.contains(&at));
            // Four letters precede the columns, and what is between them and the index is not used.
            match bare(&store, &dataset).await {
                Ok(found) => {
                    assert!(is_feature || at < 4 || at >= end, "byte {at} of part {part}");
                    assert_lean(&found, &sound);
                    unread += 1;
                }
                Err(error) => {
                    assert!(!is_feature, "byte {at} of part {part}: {error}");
                    assert!(matches!(error, EngineError::Log(_)), "{error}");
                    noticed += 1;
                }
            }
        }
        assert!(unread > 100 && noticed > 500, "{unread}, {noticed}");
        // Features too are noticed where they are needed.
        let mut changed = bytes.clone();
        changed[features[0].start as usize + 60] ^= 1;
        std::fs::write(&file, changed).unwrap();
        let stored = without_memory(&store).fetch_log(&dataset).await.unwrap();
        assert!(blocking(move || stored.spool(None, &unattended()).is_err()).await);
        // Verification reads all rows, also for a job that needs no features.
        let stored = without_memory(&store).fetch_log(&dataset).await.unwrap().without_features().by_digest();
        assert!(blocking(move || stored.spool(None, &unattended()).is_err()).await);
        std::fs::write(&file, bytes).unwrap();
    }
    assert_lean(&bare(&store, &dataset).await.unwrap(), &sound);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_and_facts_that_are_not_those_of_the_digest_are_noticed() {
    let (_directory, store) = store().await;
    let dataset = upload(&store, KIND, 300).await;
    let other = upload(&store, KIND, 310).await;
    bare(&store, &dataset).await.unwrap();
    let seal = dataset.content.parts[1].seal.clone();
    assert!(seal.is_some() && dataset.content.parts.iter().all(|part| part.index.is_some()));
    let changes: [fn(&mut Dataset, &Dataset); 7] = [
        |changed, _| changed.content.n_actions += 1,
        |changed, _| changed.content.outcome.max += 1.0,
        |changed, other| changed.content.digest.clone_from(&other.content.digest),
        // Sound parts of another log, with and without its seal.
        |changed, other| changed.content.parts[0].clone_from(&other.content.parts[0]),
        |changed, other| changed.content.parts.clone_from(&other.content.parts),
        |changed, _| changed.content.parts.swap(0, 1),
        |changed, _| changed.content.parts[1].index = changed.content.parts[0].index.clone(),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut changed = dataset.clone();
        change(&mut changed, &other);
        let error = bare(&store, &changed).await.map(drop).unwrap_err();
        assert!(matches!(error, EngineError::Log(_)), "{i}: {error}");
    }
    // A part without a hash of its index cannot be sealed.
    let mut unhashed = dataset.clone();
    unhashed.content.parts[0].index = None;
    assert!(bare(&store, &unhashed).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_earlier_releases_are_read_whole() {
    let (directory, store) = store().await;
    let dataset = upload(&store, KIND, 300).await;
    let sound = bare(&store, &dataset).await.unwrap();
    let mut earlier = dataset.clone();
    earlier.content.parts.iter_mut().for_each(|part| (part.index, part.seal) = (None, None));
    assert_lean(&bare(&store, &earlier).await.unwrap(), &sound);
    // So a changed feature is noticed, which nothing else can tell from other damage.
    let file = file_of(directory.path(), &dataset, 0);
    let (features, _) = features_and_index(&file);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[features[0].start as usize + 60] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(bare(&store, &earlier).await.is_err());
    assert!(bare(&store, &dataset).await.is_ok());
}

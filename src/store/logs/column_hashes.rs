//! SHA-256 of the columns of each row group, in the index of a part, so that a job that needs no features can rely on the
//! other columns without reading the features. The row of the part has the SHA-256 of the index (`BlobRef::index`), and a
//! seal over the indices of all parts, the digest of all rows and what the digest covers besides them (`seal`).

use std::collections::VecDeque;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parquet::arrow::ProjectionMask;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;
use sha2::{Digest, Sha256};

use crate::store::records::{BlobRef, DatasetContent};

/// Where the hashes are among the texts of an index.
const KEY: &str = "guarantor.columns";
/// Begins what a seal is taken of.
const SEAL: &[u8] = b"guarantor.columns/1\n";
/// The column with the features.
const FEATURES: &str = "x";

type Hash = [u8; 32];

/// Hashes the columns of a part while it is written.
#[derive(Default)]
pub struct ColumnHasher {
    /// How many bytes were seen.
    at: u64,
    /// How many row groups are expected or done.
    groups: usize,
    /// Where the columns are that were not seen to their ends, in order.
    expected: VecDeque<Range<u64>>,
    /// Of the first of them.
    open: Sha256,
    hashes: Vec<u8>,
}

impl ColumnHasher {
    /// Takes the next bytes of the file. `groups` are all row groups that were written before the end of these bytes.
    pub fn see(&mut self, groups: &[RowGroupMetaData], bytes: &[u8]) {
        for group in groups.iter().skip(self.groups) {
            let hashed = group.columns().iter().filter(|column| is_hashed(column.column_path().parts()));
            self.expected.extend(hashed.map(|column| {
                let (start, length) = column.byte_range();
                start..start + length
            }));
        }
        self.groups = groups.len();
        let end = self.at + bytes.len() as u64;
        while let Some(column) = self.expected.front().cloned() {
            let seen = column.start.max(self.at).min(end)..column.end.min(end);
            self.open.update(&bytes[(seen.start - self.at) as usize..(seen.end - self.at) as usize]);
            if column.end > end {
                break;
            }
            self.hashes.extend(std::mem::take(&mut self.open).finalize());
            self.expected.pop_front();
        }
        self.at = end;
    }

    /// The hashes, as the index will have them.
    pub fn finish(self) -> KeyValue {
        KeyValue::new(KEY.to_owned(), STANDARD.encode(self.hashes))
    }
}

fn is_hashed(path: &[String]) -> bool {
    path.first().is_some_and(|root| root != FEATURES)
}

/// The columns that are hashed.
pub fn without_features(schema: &SchemaDescriptor) -> ProjectionMask {
    let leaves = schema.columns().iter().enumerate().filter(|(_, column)| is_hashed(column.path().parts()));
    ProjectionMask::leaves(schema, leaves.map(|(i, _)| i))
}

/// The hashes that the index of a part has.
pub struct ColumnHashes {
    /// The place of each column among the hashes of its group.
    places: Vec<Option<usize>>,
    hashes: Vec<Hash>,
}

impl ColumnHashes {
    /// Those of an index; `None` if it has none, or not as many as it must have.
    pub fn of(index: &ParquetMetaData) -> Option<Self> {
        let texts = index.file_metadata().key_value_metadata()?;
        let text = texts.iter().find(|text| text.key == KEY)?.value.as_ref()?;
        let bytes = STANDARD.decode(text).ok()?;
        let mut next = 0..;
        let columns = index.file_metadata().schema_descr().columns();
        let place = |hashed: bool| hashed.then(|| next.next()).flatten();
        let places: Vec<_> =
            columns.iter().map(|column| is_hashed(column.path().parts())).map(place).collect();
        let (hashes, rest) = bytes.as_chunks();
        let each = places.iter().flatten().count();
        let whole = rest.is_empty() && hashes.len() == each * index.num_row_groups();
        whole.then(|| ColumnHashes { places, hashes: hashes.to_vec() })
    }

    /// Whether these are the bytes of a column of a row group.
    pub fn fit(&self, group: usize, column: usize, bytes: &[u8]) -> bool {
        let each = self.places.iter().flatten().count();
        let place = self.places.get(column).copied().flatten();
        let hash = place.and_then(|place| self.hashes.get(group * each + place));
        hash.is_some_and(|hash| hash[..] == Sha256::digest(bytes)[..])
    }
}

/// SHA-256 of an index, as hexadecimal digits.
pub fn hash_of_index(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Ties the indices of the parts to the digest of their rows, which was computed when they were stored. `None` if the
/// index of a part was not hashed.
pub fn seal<'a>(content: &DatasetContent, parts: impl Iterator<Item = &'a BlobRef>) -> Option<String> {
    let DatasetContent { rows, n_actions, outcome, digest, capabilities, .. } = content;
    let facts = serde_json::to_vec(&(digest, rows, n_actions, outcome, &capabilities.outcomes)).ok()?;
    let mut hash = Sha256::new_with_prefix(SEAL);
    hash.update((facts.len() as u64).to_le_bytes());
    hash.update(facts);
    for part in parts {
        hash.update(hex::decode(part.index.as_ref()?).ok()?);
    }
    Some(hex::encode(hash.finalize()))
}

//! Malformed files of many kinds: each error names its row and field, or says that it concerns the whole
//! file.

mod columnar;
mod text;

use guarantor_ingest::{Format, IngestError};

use crate::logs;
use crate::support::Reading;

/// A file that must be rejected.
pub struct Case {
    name: String,
    /// Its content type.
    kind: String,
    body: Vec<u8>,
    expected: Rejection,
}

/// Why a file must be rejected.
pub enum Rejection {
    /// The first row that is wrong, and its field.
    Row(u64, &'static str),
    /// The file as a whole.
    File,
    /// An option.
    Setting(&'static str),
    /// Its size after decompression.
    Expands,
}

pub fn case(kind: &str, name: &str, body: impl Into<Vec<u8>>, expected: Rejection) -> Case {
    Case { name: name.into(), kind: kind.into(), body: body.into(), expected }
}

/// Rows are rejected; the first of them is named.
pub fn bad_row(kind: &str, name: &str, body: impl Into<Vec<u8>>, row: u64, field: &'static str) -> Case {
    case(kind, name, body, Rejection::Row(row, field))
}

/// The file as a whole is rejected.
pub fn bad_file(kind: &str, name: &str, body: impl Into<Vec<u8>>) -> Case {
    case(kind, name, body, Rejection::File)
}

impl Case {
    /// What is wrong with the answer, if anything.
    fn check(&self) -> Result<(), String> {
        let format = Format::of_content_type(&self.kind).unwrap();
        let read = Reading::from(format).pieces(vec![self.body.clone()]);
        match (&self.expected, &read) {
            (Rejection::Row(row, field), Err(IngestError::Rows(errors)))
                if errors.first[0].row == *row && errors.first[0].field == *field =>
            {
                Ok(())
            }
            (Rejection::File, Err(IngestError::Unreadable(_))) => Ok(()),
            (Rejection::Setting(field), Err(IngestError::Option { field: found, .. })) if field == found => {
                Ok(())
            }
            (Rejection::Expands, Err(IngestError::Expands(_))) => Ok(()),
            _ => Err(format!("{:?}", read.map(|(summary, _)| summary))),
        }
    }
}

#[test]
fn every_malformed_file_is_rejected_and_named() {
    let cases: Vec<Case> =
        [text::ndjson(), text::csv(), columnar::parquet(), columnar::arrow(), columnar::both()]
            .into_iter()
            .flatten()
            .collect();
    assert!(cases.len() >= 200, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        if let Err(what) = case.check() {
            wrong.push(format!("{}: {what}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

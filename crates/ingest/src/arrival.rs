//! When rows arrived, and which policy version logged them.

use std::collections::HashMap;

use guarantor_engine::log::{LastVersion, Period};

use crate::batch::LogRows;
use crate::errors::IngestError;

/// The maximum number of policy versions of a log.
const MAX_VERSIONS: usize = 100_000;

/// The times and versions of the rows so far. Logs with both take 8 bytes per row.
#[derive(Default)]
pub struct Arrivals {
    rows: u64,
    first: Option<i64>,
    last: Option<i64>,
    out_of_order: bool,
    numbers: HashMap<String, usize>,
    versions: Vec<Version>,
    /// The version of the last row in order of arrival.
    newest: Option<(Arrival, usize)>,
    /// The times of all rows, if they also have versions.
    times: Vec<i64>,
}

/// The time and the position of a row. Rows are ordered by them.
type Arrival = (i64, u64);

struct Version {
    first: Arrival,
    rows: u64,
}

impl Arrivals {
    /// Adds rows.
    ///
    /// # Errors
    /// There are too many versions.
    pub fn add(&mut self, rows: &LogRows) -> Result<(), IngestError> {
        for &time in &rows.timestamps {
            self.out_of_order |= self.last.is_some_and(|last| time < last);
            self.first = Some(self.first.map_or(time, |first| first.min(time)));
            self.last = Some(self.last.map_or(time, |last| last.max(time)));
        }
        for (i, name) in rows.versions.iter().enumerate() {
            let arrival = (rows.timestamps.get(i).copied().unwrap_or(0), self.rows + i as u64);
            let number = match self.numbers.get(name) {
                Some(&number) => number,
                None => {
                    self.numbers.insert(name.clone(), self.versions.len());
                    self.versions.push(Version { first: arrival, rows: 0 });
                    self.versions.len() - 1
                }
            };
            let version = &mut self.versions[number];
            version.rows += 1;
            version.first = version.first.min(arrival);
            if self.newest.is_none_or(|(newest, _)| newest < arrival) {
                self.newest = Some((arrival, number));
            }
        }
        if !rows.versions.is_empty() {
            self.times.extend_from_slice(&rows.timestamps);
        }
        self.rows += rows.len() as u64;
        if self.versions.len() <= MAX_VERSIONS {
            return Ok(());
        }
        let message = format!(
            "the log has more than {MAX_VERSIONS} policy versions; policy_version names a policy, not a decision"
        );
        Err(IngestError::TooLarge(message))
    }

    /// The latest time.
    pub fn last_timestamp(&self) -> Option<i64> {
        self.last
    }

    /// The earliest and the latest time.
    pub fn period(&self) -> Option<Period> {
        Some(Period { first: self.first?, last: self.last? })
    }

    /// Whether a row has an earlier time than a row before it.
    pub fn is_out_of_order(&self) -> bool {
        self.out_of_order
    }

    /// The number of versions.
    pub fn versions(&self) -> usize {
        self.versions.len()
    }

    /// The memory that the times take, in bytes.
    pub fn bytes(&self) -> u64 {
        8 * self.times.len() as u64
    }

    /// The version of the last row in order of arrival.
    pub fn last_version(&self) -> Option<LastVersion> {
        let (_, number) = self.newest?;
        let Version { first, rows } = self.versions[number];
        let before = match self.out_of_order {
            true => (0..).zip(&self.times).filter(|&(row, &time)| (time, row) < first).count() as u64,
            false => first.1,
        };
        let name = self.numbers.iter().find(|(_, other)| **other == number)?.0.clone();
        Some(LastVersion { name, first_row: before, rows, versions: self.versions.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_version_is_that_of_the_latest_row() {
        let mut arrivals = Arrivals::default();
        let rows = |timestamps: &[i64], versions: &[&str]| LogRows {
            actions: vec![0; versions.len()],
            timestamps: timestamps.into(),
            versions: versions.iter().map(|&version| version.into()).collect(),
            ..LogRows::default()
        };
        arrivals.add(&rows(&[5, 9, 7], &["a", "b", "b"])).unwrap();
        arrivals.add(&rows(&[1, 8], &["a", "c"])).unwrap();
        let last = LastVersion { name: "b".into(), first_row: 2, rows: 2, versions: 3 };
        assert_eq!(arrivals.last_version(), Some(last));
        assert!(arrivals.is_out_of_order());
        assert_eq!(arrivals.period(), Some(Period { first: 1, last: 9 }));
        let mut untimed = Arrivals::default();
        untimed.add(&rows(&[], &["b", "a", "a"])).unwrap();
        let last = LastVersion { name: "a".into(), first_row: 1, rows: 2, versions: 2 };
        assert_eq!((untimed.last_version(), untimed.last_timestamp()), (Some(last), None));
    }
}

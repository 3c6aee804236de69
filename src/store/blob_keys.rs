//! The keys of blobs. A key begins with the resource that the blob belongs to.

use std::fmt;

use uuid::Uuid;

use super::ids::{DatasetId, JobId, LeaseToken, PolicyId};

/// The resource that stored data belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A log, or a row about a dataset.
    Dataset(DatasetId),
    /// A policy's parameters, or a row about a policy.
    Policy(PolicyId),
    /// A certificate or its evidence, or a row about a job.
    Job(JobId),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Owner::Dataset(id) => write!(f, "dataset {id}"),
            Owner::Policy(id) => write!(f, "policy {id}"),
            Owner::Job(id) => write!(f, "job {id}"),
        }
    }
}

impl Owner {
    /// The owner of the blob with this key, if the key is one that the functions below make.
    pub fn of_blob(key: &str) -> Option<Owner> {
        let (folder, rest) = key.split_once('/')?;
        let id = rest.split('/').next()?;
        match folder {
            "datasets" => id.parse().ok().map(Owner::Dataset),
            "policies" => id.strip_suffix(".json")?.parse().ok().map(Owner::Policy),
            "jobs" => id.parse().ok().map(Owner::Job),
            _ => None,
        }
    }
}

/// The key of a policy's parameters.
pub fn policy_key(id: PolicyId) -> String {
    format!("policies/{id}.json")
}

/// A new key for rows of a dataset. It contains the request, so that a repeated request finds what the first
/// one stored. The rest is new each time, because an attempt that was given up may still be writing.
pub fn dataset_part_key(id: DatasetId, request: Uuid) -> String {
    format!("{}{}.parquet", dataset_part_prefix(id, request), Uuid::now_v7())
}

/// What the key of merged sums ends with.
const MERGED: &str = ".merged.json";

/// A new key for sums that stand for the rows of a dataset.
pub fn merged_key(id: DatasetId) -> String {
    format!("datasets/{id}/{}{MERGED}", Uuid::now_v7())
}

/// Whether a key is one of merged sums.
pub fn is_merged(key: &str) -> bool {
    key.ends_with(MERGED)
}

/// What the key of a list of pinned objects ends with.
const PINNED: &str = ".pinned.json";

/// A new key for the list of objects that have the rows of a dataset.
pub fn pinned_key(id: DatasetId) -> String {
    format!("datasets/{id}/{}{PINNED}", Uuid::now_v7())
}

/// Whether a key is one of a list of pinned objects.
pub fn is_pinned(key: &str) -> bool {
    key.ends_with(PINNED)
}

/// How the keys of all attempts of one request begin.
pub fn dataset_part_prefix(id: DatasetId, request: Uuid) -> String {
    format!("datasets/{id}/{request}-")
}

/// The key of a file of a job. It contains the lease's token, because a worker that lost its lease may
/// still be writing.
pub fn job_key(id: JobId, token: LeaseToken, file: &str) -> String {
    format!("jobs/{id}/{token}/{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_owner() {
        let (dataset, policy, job) = (DatasetId::new(), PolicyId::new(), JobId::new());
        let cases = [
            (dataset_part_key(dataset, Uuid::now_v7()), Some(Owner::Dataset(dataset))),
            (policy_key(policy), Some(Owner::Policy(policy))),
            (job_key(job, LeaseToken::new(), "certificate.json"), Some(Owner::Job(job))),
            ("jobs/dead/certificate.json".into(), None),
            ("elsewhere".into(), None),
        ];
        for (key, owner) in cases {
            assert_eq!(Owner::of_blob(&key), owner, "{key}");
        }
    }
}

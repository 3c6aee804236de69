//! What a job works on.

use std::collections::BTreeMap;

use crate::checks::CheckResult;
use crate::log::LogSource;
use crate::policy::PolicyParams;

/// The log and the policies that a job reads.
pub struct Inputs<'a> {
    /// The rows.
    pub log: &'a dyn LogSource,
    /// The parameters of the dataset's logging policy, if they are known.
    pub logging_policy: Option<&'a PolicyParams>,
    /// Every policy that the spec names, by id.
    pub policies: &'a BTreeMap<String, PolicyParams>,
    /// The dataset's version, printed on the certificate.
    pub dataset_version: u64,
    /// The dataset's digest, printed on the certificate.
    pub dataset_digest: &'a str,
    /// The checks that were made on all rows at upload; None if there were none, so that the job makes them.
    pub log_checks: Option<&'a [CheckResult]>,
}

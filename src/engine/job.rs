//! The one door: a resolved specification and its inputs go in, a certificate comes out.

use std::collections::BTreeMap;

use super::certificate::{Certificate, Evidence, Verification};
use super::control::Control;
use super::error::{EngineError, Result};
use super::log::LogSource;
use super::policy::PolicyParams;
use super::spec::JobSpec;

/// What a job works on. `policies` holds every policy that the specification names, by id.
pub struct Inputs<'a> {
    pub log: &'a dyn LogSource,
    pub logging_policy: Option<&'a PolicyParams>,
    pub policies: &'a BTreeMap<String, PolicyParams>,
    /// Version and digest of the dataset, printed on the certificate.
    pub dataset_version: u64,
    pub dataset_digest: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub certificate: Certificate,
    pub evidence: Evidence,
}

/// Runs on the current rayon pool and gives the same result whatever its size.
pub fn run(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<Finished> {
    let _ = (spec, inputs, control);
    Err(EngineError::Numerical("not built yet".into()))
}

/// Computes a certificate's numbers again from the log and the evidence.
pub fn verify(
    certificate: &Certificate,
    evidence: &Evidence,
    inputs: &Inputs,
    control: &Control,
) -> Result<Verification> {
    let _ = (certificate, evidence, inputs, control);
    Err(EngineError::Numerical("not built yet".into()))
}

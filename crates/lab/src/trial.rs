//! One job through the engine's entry point, as the service runs it.

use std::collections::BTreeMap;

use guarantor_engine::control::Control;
use guarantor_engine::digest::digest_of;
use guarantor_engine::error::Result;
use guarantor_engine::log::LogSource;
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Candidate, JobSpec, PolicyShape, SpecContext, SpecRequest};
use guarantor_engine::{Finished, Inputs, run};

/// A log and what its jobs need besides it.
pub struct Trial<'a> {
    /// The rows.
    pub log: &'a dyn LogSource,
    /// The policies that requests may name.
    pub policies: &'a BTreeMap<String, PolicyParams>,
    /// The logging policy, if it is known.
    pub logging_policy: Option<&'a PolicyParams>,
    /// The log's digest, from which the engine derives splits and orders.
    pub digest: String,
}

/// No policies.
pub static NO_POLICIES: BTreeMap<String, PolicyParams> = BTreeMap::new();

impl<'a> Trial<'a> {
    /// A simulated log, with a digest of what determines its rows: its name and its seed.
    ///
    /// # Errors
    /// Never in practice: a name and a seed have a digest.
    pub fn simulated(log: &'a dyn LogSource, name: &str, seed: u64) -> Result<Self> {
        Ok(Trial { log, policies: &NO_POLICIES, logging_policy: None, digest: digest_of(&(name, seed))? })
    }

    /// The request with every default filled in.
    ///
    /// # Errors
    /// If the log does not support the request.
    pub fn resolve(&self, request: &SpecRequest) -> Result<JobSpec> {
        let context = SpecContext {
            shape: self.log.shape(),
            logging_policy: self.logging_policy.map(PolicyShape::of),
            policy: &|id| self.policies.get(id).map(PolicyShape::of),
            seen_rows: 0,
            caller: "guarantor-lab",
        };
        Ok(request.resolve(&context)?)
    }

    /// What a job works on.
    pub fn inputs(&self) -> Inputs<'_> {
        Inputs {
            log: self.log,
            logging_policy: self.logging_policy,
            policies: self.policies,
            dataset_version: 1,
            dataset_digest: &self.digest,
            log_checks: None,
        }
    }

    /// Runs the job.
    ///
    /// # Errors
    /// If the log does not support the request, or the job fails.
    pub fn run(&self, request: &SpecRequest, control: &Control) -> Result<Finished> {
        run(&self.resolve(request)?, &self.inputs(), control)
    }
}

/// A request to certify these candidates, which do not depend on the log.
pub fn evaluation(candidates: Vec<Candidate>) -> SpecRequest {
    SpecRequest { candidates: Some(candidates), independent_of_log: Some(true), ..SpecRequest::default() }
}

/// The candidate that the log carries under this name.
pub fn logged(name: &str) -> Candidate {
    Candidate::Logged { name: name.into() }
}

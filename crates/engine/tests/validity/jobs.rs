//! The claims of whole jobs: a request is resolved and run, and its certificate is compared with the truth. A
//! certificate makes several claims with one δ, so it is violated if any of them is false.

use std::collections::BTreeMap;

use guarantor_engine::certificate::{CandidateResult, Certificate};
use guarantor_engine::control::unattended;
use guarantor_engine::log::{LogSource, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{
    BoundKind, Candidate, PolicyShape, PriorKind, PriorRequest, SpecContext, SpecRequest,
};
use guarantor_engine::{Finished, Inputs, run};

use super::harness::{Claim, DELTA};
use super::world::World;

/// Runs a request on a log.
pub fn run_job(
    request: &SpecRequest,
    log: &MemoryLog,
    policies: &BTreeMap<String, PolicyParams>,
) -> Finished {
    run_later(request, log, policies, 0)
}

/// Runs a request on a log of which earlier certificates have seen the first rows.
pub fn run_later(
    request: &SpecRequest,
    log: &MemoryLog,
    policies: &BTreeMap<String, PolicyParams>,
    seen_rows: u64,
) -> Finished {
    let find = |id: &str| policies.get(id).map(PolicyShape::of);
    let context =
        SpecContext { shape: log.shape(), logging_policy: None, policy: &find, seen_rows, caller: "test" };
    let spec = request.resolve(&context).expect("a request that this log supports");
    // The digest seeds the split of a fixed log.
    let digest = format!("drawn with {}", spec.seed);
    let inputs = Inputs {
        log,
        logging_policy: None,
        policies,
        dataset_version: 1,
        dataset_digest: &digest,
        log_checks: Some(&[]),
    };
    run(&spec, &inputs, &unattended()).expect("a job on a sound log ends in a certificate")
}

/// Kind `learn` with `bound`; everything else has its default.
pub fn learning(bound: BoundKind, seed: u64) -> SpecRequest {
    SpecRequest { bound: Some(bound), delta: Some(DELTA), seed: Some(seed), ..SpecRequest::default() }
}

/// The same from the prior that plays uniformly, on all rows.
pub fn learning_from_zero(bound: BoundKind) -> SpecRequest {
    let prior = PriorRequest { kind: Some(PriorKind::Zero), ..PriorRequest::default() };
    SpecRequest { prior: Some(prior), ..learning(bound, 0) }
}

/// By how much a policy's true risk and improvement violate what was guaranteed; 0 or less if they do not.
pub fn excess(world: &World, policy: &PolicyParams, risk: f64, improvement: f64) -> f64 {
    let true_risk = world.risk(policy);
    let true_improvement = world.baseline_risk() - true_risk;
    // f64::max would drop a NaN. The sum keeps it, and NaN counts as violated.
    let (a, b) = (true_risk - risk, improvement - true_improvement);
    if (a + b).is_nan() { f64::NAN } else { a.max(b) }
}

/// The certificate of a learned policy: the claims on its risk and its improvement at once.
pub fn certificate_claim(name: &'static str, world: &World, finished: &Finished) -> Claim {
    let Certificate { guaranteed_risk, guaranteed_improvement, .. } = finished.certificate;
    let policy = finished.evidence.policy().expect("the learned policy");
    Claim::that_none_exceeds(name, [excess(world, policy, guaranteed_risk, guaranteed_improvement)])
}

/// The certificate of an `evaluate` job with all of `policies` as candidates, stored or carried by the log:
/// all claims at once.
pub fn evaluation_claim(
    name: &'static str,
    world: &World,
    log: &MemoryLog,
    policies: &BTreeMap<String, PolicyParams>,
) -> Claim {
    let logged = !log.shape().capabilities.candidates.is_empty();
    let candidate = |id: &String| match logged {
        true => Candidate::Logged { name: id.clone() },
        false => Candidate::Policy { policy_id: id.clone() },
    };
    let request = SpecRequest {
        candidates: Some(policies.keys().map(candidate).collect()),
        independent_of_log: Some(true),
        ..learning(BoundKind::Auto, 0)
    };
    let results = run_job(&request, log, policies).certificate.candidates;
    assert_eq!(results.len(), policies.len());
    let excess_of = |(result, policy): (&CandidateResult, &PolicyParams)| {
        excess(world, policy, result.guaranteed_risk, result.guaranteed_improvement)
    };
    Claim::that_none_exceeds(name, results.iter().zip(policies.values()).map(excess_of))
}

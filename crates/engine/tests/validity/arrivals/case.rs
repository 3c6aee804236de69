//! The claims of the certificates that jobs issue on one stream.

use std::collections::BTreeMap;

use guarantor_engine::Finished;
use guarantor_engine::certificate::{CandidateResult, Certificate};
use guarantor_engine::log::{MemoryLog, Span};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{BoundKind, Candidate, OptimizerRequest, PriorKind, PriorRequest, SpecRequest};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::DELTAS;
use super::nature::ACTIONS;
use super::stream::{SHADOW, Stream, Truth};
use crate::harness::Claim;
use crate::jobs::run_later;

/// The name of the candidate that does not change.
pub const STEADY: &str = "steady";

/// A stream as a log, with a candidate that does not depend on it.
pub struct Case<'a> {
    pub stream: &'a Stream,
    pub log: MemoryLog,
    pub policies: BTreeMap<String, PolicyParams>,
    /// How many rows earlier certificates have seen.
    pub seen_rows: u64,
}

/// Always plays one action.
pub fn always(action: usize, dim: usize) -> PolicyParams {
    let row: Vec<f64> = (0..ACTIONS).map(|a| f64::from(u8::from(a == action))).collect();
    PolicyParams::Softmax { mean: vec![row; dim], inverse_temperature: 1e3, features: Default::default() }
}

/// A random policy on the features, fairly close to deterministic.
pub fn random_policy(dim: usize, rng: &mut ChaCha8Rng) -> PolicyParams {
    let mut row = || (0..ACTIONS).map(|_| rng.random::<f64>() - 0.5).collect::<Vec<f64>>();
    let mean = (0..dim).map(|_| row()).collect();
    PolicyParams::Softmax { mean, inverse_temperature: 5.0, features: Default::default() }
}

/// The rows that a certificate says it certified.
pub fn certified_rows(stream: &Stream, certificate: &Certificate) -> Vec<u64> {
    let certified = certificate.certified.as_ref().expect("the certified rows");
    let Span::Time { first_certified_row, policy_version } = &certified.span else {
        panic!("an adaptive log is split by time")
    };
    let columns = &stream.columns;
    let of_version = |row: &u64| match (policy_version, &columns.versions) {
        (Some(name), Some(versions)) => columns.version_names[versions[*row as usize] as usize] == *name,
        (None, None) => true,
        _ => panic!("the version of the rows must be on the certificate"),
    };
    let rows: Vec<u64> = (*first_certified_row..columns.rows() as u64).filter(of_version).collect();
    assert_eq!(rows.len() as u64, certified.rows);
    rows
}

/// `auto` with little training: validity does not depend on how good the policy is.
pub fn quick_auto(delta: f64, seed: u64) -> SpecRequest {
    let optimizer = OptimizerRequest { max_seconds: Some(0.0), ..OptimizerRequest::default() };
    SpecRequest { delta: Some(delta), seed: Some(seed), optimizer: Some(optimizer), ..SpecRequest::default() }
}

/// The betting bound from the prior that plays uniformly, on all rows.
pub fn betting_from_zero(delta: f64) -> SpecRequest {
    SpecRequest {
        bound: Some(BoundKind::Betting),
        prior: Some(PriorRequest { kind: Some(PriorKind::Zero), ..PriorRequest::default() }),
        delta: Some(delta),
        optimizer: Some(OptimizerRequest { epochs: Some(3), ..OptimizerRequest::default() }),
        ..SpecRequest::default()
    }
}

/// Kind `evaluate` with one stored policy.
pub fn evaluating(policy_id: &str, delta: f64) -> SpecRequest {
    evaluating_all(vec![Candidate::Policy { policy_id: policy_id.into() }], delta)
}

/// Kind `evaluate` with some candidates.
pub fn evaluating_all(candidates: Vec<Candidate>, delta: f64) -> SpecRequest {
    SpecRequest {
        candidates: Some(candidates),
        independent_of_log: Some(true),
        delta: Some(delta),
        ..SpecRequest::default()
    }
}

impl<'a> Case<'a> {
    pub fn new(stream: &'a Stream, steady: PolicyParams) -> Case<'a> {
        Case { log: stream.log(), stream, policies: BTreeMap::from([(STEADY.into(), steady)]), seen_rows: 0 }
    }

    /// The same with the steady candidate in the log as well.
    pub fn with_logged_candidate(stream: &'a mut Stream, steady: PolicyParams) -> Case<'a> {
        let played = stream.played(&steady);
        stream.columns.candidates.push((STEADY.into(), played));
        Case::new(stream, steady)
    }

    pub fn run(&self, request: &SpecRequest) -> Finished {
        run_later(request, &self.log, &self.policies, self.seen_rows)
    }

    /// By how much the certificate of a learned policy promises too much.
    pub fn learned_excess(&self, finished: &Finished) -> f64 {
        let certificate = &finished.certificate;
        let rows = certified_rows(self.stream, certificate);
        let policy = finished.evidence.policy().expect("the learned policy");
        self.truth(policy, &rows).excess(certificate.guaranteed_risk, certificate.guaranteed_improvement)
    }

    /// Actions that a policy does not know have probability 0.
    fn truth(&self, policy: &PolicyParams, rows: &[u64]) -> Truth {
        let pi = policy.propensities(self.stream.x.view()).expect("a policy on these contexts");
        let padded: Vec<f64> = (pi.rows().into_iter())
            .flat_map(|row| (0..ACTIONS).map(move |a| row.get(a).copied().unwrap_or(0.0)))
            .collect();
        self.stream.truth_of(&padded, rows)
    }

    pub fn learned(&self, name: &'static str, request: &SpecRequest) -> Claim {
        let excess = self.learned_excess(&self.run(request));
        Claim::that_none_exceeds(name, [excess]).at(request.delta.expect("a δ"))
    }

    /// The largest excess over candidates, and the certificate.
    pub fn evaluate(&self, request: &SpecRequest) -> (f64, Certificate) {
        let certificate = self.run(request).certificate;
        let rows = certified_rows(self.stream, &certificate);
        let excess = |result: &CandidateResult| {
            let (_, name) = result.candidate.split_once(':').expect("a label");
            let truth = match name {
                SHADOW => self.stream.shadow_truth(&rows),
                _ => self.truth(&self.policies[name], &rows),
            };
            truth.excess(result.guaranteed_risk, result.guaranteed_improvement)
        };
        let worst = Claim::that_none_exceeds("", certificate.candidates.iter().map(excess)).truth;
        (worst, certificate)
    }

    pub fn stored(&self, name: &'static str, delta: f64) -> Claim {
        Claim::that_none_exceeds(name, [self.evaluate(&evaluating(STEADY, delta)).0]).at(delta)
    }

    /// All candidates that the log carries, in one certificate.
    pub fn logged(&self, name: &'static str, delta: f64) -> Claim {
        let logged = |(name, _): &(String, Vec<f64>)| Candidate::Logged { name: name.clone() };
        let candidates = self.stream.columns.candidates.iter().map(logged).collect();
        Claim::that_none_exceeds(name, [self.evaluate(&evaluating_all(candidates, delta)).0]).at(delta)
    }

    /// What every world is tried with: jobs that learn, and jobs that evaluate a candidate that is stored or
    /// logged, each at both δ.
    pub fn claims(&self, rng: &mut ChaCha8Rng) -> Vec<Claim> {
        let mut claims = Vec::new();
        for delta in DELTAS {
            let seed = rng.random::<u64>() >> 11;
            claims.push(self.learned("auto", &quick_auto(delta, seed)));
            claims.push(self.logged("logged candidates", delta));
            // The policy would have to know how many actions the log shows.
            if self.stream.columns.actions_declared {
                claims.push(self.stored("stored candidate", delta));
            }
        }
        claims
    }
}

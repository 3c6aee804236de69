//! `evaluate` jobs on logs of nulls, and the claims of their certificates.

use std::collections::BTreeMap;

use guarantor_engine::certificate::{BoundRecord, BoundedQuantity, CandidateResult, Certificate};
use guarantor_engine::log::{Columns, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Candidate, Looks, SpecRequest};
use ndarray::{Array2, ArrayView2};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::nulls::Null;
use crate::arrivals::stream::Truth;
use crate::harness::Claim;
use crate::jobs::run_later;

/// What a log and its candidates carry, which decides what bounds can use.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// Only the probabilities of logged actions, and no features.
    Logged,
    /// The probabilities of all actions, and no features.
    LoggedFull,
    /// Stored policies on a log with features and the probabilities of all actions.
    Stored,
}

pub const FORMS: [Form; 3] = [Form::Logged, Form::LoggedFull, Form::Stored];

impl Form {
    /// The names of the claims on the improvement, on the risk, and on everything.
    fn names(self) -> [&'static str; 3] {
        match self {
            Form::Logged => ["logged, improvement", "logged, risk", "logged, joint"],
            Form::LoggedFull => {
                ["logged in full, improvement", "logged in full, risk", "logged in full, joint"]
            }
            Form::Stored => ["stored, improvement", "stored, risk", "stored, joint"],
        }
    }
}

/// Sums of costs and certified numbers differ by rounding at least.
const ROUNDING: f64 = 1e-12;

/// By how much the improvement and the risk are worse than what was guaranteed; NaN stays NaN.
fn excesses(truth: Truth, result: &CandidateResult) -> [f64; 2] {
    let improvement = result.guaranteed_improvement - truth.improvement;
    [improvement - ROUNDING, truth.risk - result.guaranteed_risk - ROUNDING]
}

impl Null {
    pub fn truths(&self) -> Vec<Truth> {
        let baseline = self.world.baseline_risk();
        let truth = |policy: &PolicyParams| {
            let risk = self.world.risk(policy);
            Truth { risk, improvement: baseline - risk }
        };
        self.candidates.iter().map(truth).collect()
    }

    /// A log of this many contexts, with all that it can carry except for candidates.
    pub fn draw(&self, contexts: u64, rng: &mut ChaCha8Rng) -> Columns {
        self.world.draw(contexts, rng).columns
    }

    pub fn stored(&self) -> BTreeMap<String, PolicyParams> {
        self.candidates.iter().enumerate().map(|(i, policy)| (format!("c{i}"), policy.clone())).collect()
    }
}

/// The columns as a log of this form with these candidates.
pub fn in_form(form: Form, mut columns: Columns, candidates: &BTreeMap<String, PolicyParams>) -> MemoryLog {
    if form != Form::Stored {
        let x = ArrayView2::from_shape((columns.rows(), columns.dim), &columns.x).expect("rows of p");
        let of = |policy: &PolicyParams| policy.propensities(x).expect("a policy on these contexts");
        let all: Vec<Array2<f64>> = candidates.values().map(of).collect();
        let played = |pi: &Array2<f64>| {
            columns.actions.iter().enumerate().map(|(i, &a)| pi[(i, a as usize)]).collect::<Vec<f64>>()
        };
        columns.candidates = candidates.keys().cloned().zip(all.iter().map(played)).collect();
        if form == Form::LoggedFull {
            columns.candidate_full = all.into_iter().map(|pi| Some(pi.into_raw_vec_and_offset().0)).collect();
        } else {
            columns.full = None;
        }
        (columns.x, columns.dim) = (Vec::new(), 0);
    }
    MemoryLog::new(columns).expect("a drawn log is a log")
}

/// The request to evaluate these candidates. The seed stands for the log's digest.
pub fn evaluating<'a>(
    form: Form,
    names: impl Iterator<Item = &'a String>,
    delta: f64,
    looks: Looks,
    rng: &mut ChaCha8Rng,
) -> SpecRequest {
    let candidate = |name: &String| match form {
        Form::Stored => Candidate::Policy { policy_id: name.clone() },
        _ => Candidate::Logged { name: name.clone() },
    };
    SpecRequest {
        candidates: Some(names.map(candidate).collect()),
        independent_of_log: Some(true),
        delta: Some(delta),
        looks: Some(looks),
        seed: Some(rng.random::<u64>() >> 11),
        ..SpecRequest::default()
    }
}

/// The certificate of the first job on a log.
pub fn certificate(
    request: &SpecRequest,
    log: &MemoryLog,
    stored: &BTreeMap<String, PolicyParams>,
) -> Certificate {
    later_certificate(request, log, stored, 0)
}

/// The certificate of a job on a log of which earlier certificates have seen the first rows.
pub fn later_certificate(
    request: &SpecRequest,
    log: &MemoryLog,
    stored: &BTreeMap<String, PolicyParams>,
    seen_rows: u64,
) -> Certificate {
    run_later(request, log, stored, seen_rows).certificate
}

/// δ of all claims of a certificate about one quantity of a candidate.
fn share(certificate: &Certificate, candidate: &str, quantity: BoundedQuantity) -> f64 {
    let about = |record: &&BoundRecord| record.subject == candidate && record.quantity == quantity;
    let share = certificate.bounds.iter().filter(about).map(|record| record.delta).sum();
    assert!(share > 0.0, "no claim about the {} of {candidate}", quantity.name());
    share
}

/// A certificate, and what is true of its candidates on the rows that it certified.
pub struct Look {
    pub certificate: Certificate,
    pub truths: Vec<Truth>,
}

/// The claims of certificates that share one δ: on the improvement of the first candidate, on its risk, and on
/// everything. Several certificates are looks at one growing log.
pub fn claims(form: Form, looks: &[Look]) -> Vec<Claim> {
    let last = &looks.last().expect("a certificate").certificate;
    let first = &last.candidates[0].candidate;
    let worse = |look: &Look, i: usize| excesses(look.truths[i], &look.certificate.candidates[i]);
    let [improvement, risk, joint] = form.names();
    let of = |name: &'static str, which: usize, quantity: BoundedQuantity| {
        let excesses = looks.iter().map(|look| worse(look, 0)[which]);
        Claim::that_none_exceeds(name, excesses).at(share(last, first, quantity))
    };
    let all = looks.iter().flat_map(|look| (0..look.truths.len()).flat_map(|i| worse(look, i)));
    vec![
        of(improvement, 0, BoundedQuantity::Improvement),
        of(risk, 1, BoundedQuantity::Risk),
        Claim::that_none_exceeds(joint, all).at(last.spec.delta),
    ]
}

/// The first rows of a log.
pub fn first_rows(columns: &Columns, rows: usize) -> Columns {
    let cut = |values: &[f64], width: usize| values[..rows * width].to_vec();
    Columns {
        x: columns.x[..rows * columns.dim].to_vec(),
        actions: columns.actions[..rows].to_vec(),
        costs: cut(&columns.costs, 1),
        propensities: cut(&columns.propensities, 1),
        full: columns.full.as_ref().map(|full| cut(full, columns.n_actions)),
        contexts: columns.contexts.as_ref().map(|contexts| contexts[..rows].to_vec()),
        candidates: columns.candidates.iter().map(|(name, pi)| (name.clone(), cut(pi, 1))).collect(),
        ..columns.clone()
    }
}

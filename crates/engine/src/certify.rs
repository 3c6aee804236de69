//! From evidence to certificate: every number is computed here, from the log, by the same path when a
//! job ends and when a certificate is verified.

use super::baseline;
use super::bound::{Choice, ControlVariate, lambda_grid};
use super::certificate::{
    BaselineRisk, BoundRecord, CandidateResult, Certificate, DeltaShare, DirectEvidence, Evidence,
    LearningRecord,
};
use super::claims::{Claim, Quantity, bound_of, sample_of, xi_grid};
use super::control::Control;
use super::cost_model::CostModel;
use super::error::{EngineError, Result};
use super::inputs::Inputs;
use super::learn::bound_learner::Gaussian;
use super::log::{LogSource, PartLog, Side, Split};
use super::measure::Subject;
use super::policy::PolicyParams;
use super::spec::{BaselineKind, BoundKind, Candidate, JobKind, JobSpec};

/// How `auto` divides the part of δ that speaks of the policy. The improvement decides, and the policy
/// certified as given is nearly always the better of the two.
pub const DIRECT_IMPROVEMENT: f64 = 0.7;
pub const REFINED_IMPROVEMENT: f64 = 0.1;
pub const DIRECT_RISK: f64 = 0.15;
pub const REFINED_RISK: f64 = 0.05;
/// Where the baseline is not certified only the risk is bounded.
pub const DIRECT_RISK_ALONE: f64 = 0.85;
pub const REFINED_RISK_ALONE: f64 = 0.15;
/// A given policy's improvement under a certified baseline, and its risk.
const GIVEN_IMPROVEMENT: f64 = 0.8;
const GIVEN_RISK: f64 = 0.2;

/// What the bounds say of one subject, slack included.
pub(super) struct Verdict {
    pub risk: f64,
    pub improvement: f64,
    pub slack: f64,
}

/// The ledger of a certificate in the making.
pub(super) struct Ledger {
    pub records: Vec<BoundRecord>,
    pub shares: Vec<DeltaShare>,
    pub baseline: BaselineRisk,
}

impl Ledger {
    fn claim(&mut self, record: BoundRecord, what: &str) -> usize {
        self.shares.push(DeltaShare { event: record.event.clone(), share: record.delta, what: what.into() });
        self.records.push(record);
        self.records.len() - 1
    }

    /// Risk from one record and improvement from another, or from the risk and the baseline.
    fn verdict(&self, risk: usize, improvement: Option<usize>) -> Verdict {
        let of = |i: usize| (self.records[i].value, self.records[i].terms.numerical_slack);
        let (risk, risk_slack) = of(risk);
        match improvement.map(of) {
            Some((value, slack)) => Verdict {
                risk: risk + risk_slack,
                improvement: -(value + slack),
                slack: slack.max(risk_slack),
            },
            None => {
                let baseline = self.baseline.lower_bound.unwrap_or(self.baseline.estimate);
                Verdict {
                    risk: risk + risk_slack,
                    improvement: baseline - risk - risk_slack,
                    slack: risk_slack,
                }
            }
        }
    }
}

/// The whole certificate, from the log and the evidence alone.
pub fn certify(
    spec: &JobSpec,
    inputs: &Inputs,
    evidence: &Evidence,
    learning: Option<LearningRecord>,
    control: &Control,
) -> Result<Certificate> {
    let mut ledger = open(spec, inputs, control)?;
    let mut candidates = Vec::new();
    let verdict = match spec.kind {
        JobKind::Evaluate => evaluate(spec, inputs, &mut ledger, &mut candidates, control)?,
        JobKind::Learn if is_automatic(spec) => automatic(spec, inputs, evidence, &mut ledger, control)?,
        JobKind::Learn => learned(spec, inputs, evidence, &mut ledger, control)?,
    };
    super::certificate::assemble(spec, inputs, evidence, learning, ledger, candidates, verdict)
}

/// `auto` with a split. On a handful of contexts it is the betting bound from the prior `zero`.
pub fn is_automatic(spec: &JobSpec) -> bool {
    spec.bound == BoundKind::Auto && split_of(spec).is_some()
}

/// Whether the improvement is bounded directly (κ = 1), without a bound on R(π0).
pub fn bounds_improvement(spec: &JobSpec) -> bool {
    spec.baseline.kind == BaselineKind::Certified
        && matches!(spec.bound, BoundKind::Auto | BoundKind::Betting)
}

/// The part of δ that bounds on the policy may use.
pub fn policy_delta(spec: &JobSpec) -> f64 {
    if spec.baseline.kind == BaselineKind::Certified && !bounds_improvement(spec) {
        0.5 * spec.delta
    } else {
        spec.delta
    }
}

/// The baseline, and the bound on it where the specification asks for one.
fn open(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<Ledger> {
    let mean = baseline::mean_cost(inputs.log, control)?;
    let mut ledger = Ledger {
        records: Vec::new(),
        shares: Vec::new(),
        baseline: BaselineRisk { kind: spec.baseline.kind, estimate: mean, lower_bound: None },
    };
    match spec.baseline.kind {
        BaselineKind::Known => ledger.baseline.estimate = spec.baseline.risk.unwrap_or(mean),
        BaselineKind::Certified if !bounds_improvement(spec) => {
            let (sample, delta) = (sample_of(inputs.log), 0.5 * spec.delta);
            let slack = 1e-12;
            let value = baseline::lower_bound(mean, sample.contexts, delta);
            ledger.baseline.lower_bound = Some(value - slack);
            let mut terms = baseline::terms(mean, sample, delta);
            terms.numerical_slack = slack;
            let record = BoundRecord {
                event: "baseline".into(),
                quantity: "baseline_risk".into(),
                subject: "logging_policy".into(),
                bound: "bernoulli_kl".into(),
                value,
                delta,
                terms,
                used: true,
            };
            ledger.claim(record, "R(π0) is not below its lower bound");
        }
        _ => {}
    }
    Ok(ledger)
}

/// Kind `learn` with a named bound: Q against its prior.
fn learned(
    spec: &JobSpec,
    inputs: &Inputs,
    evidence: &Evidence,
    ledger: &mut Ledger,
    control: &Control,
) -> Result<Verdict> {
    let policy = required(&evidence.policy, "the learned policy")?;
    let part = certify_part(spec, inputs)?;
    let log: &dyn LogSource = part.as_ref().map_or(inputs.log, |p| p);
    let (indices, verdict) = posterior(spec, log, evidence, policy, ("", 1.0, 1.0), ledger, control)?;
    indices.iter().for_each(|&i| ledger.records[i].used = true);
    Ok(verdict)
}

/// Bounds on a posterior: risk, and improvement where it is bounded directly. `shares` are the parts of
/// the policy's δ that each may use; a single claim takes them both.
fn posterior(
    spec: &JobSpec,
    log: &dyn LogSource,
    evidence: &Evidence,
    policy: &PolicyParams,
    (suffix, improvement_share, risk_share): (&str, f64, f64),
    ledger: &mut Ledger,
    control: &Control,
) -> Result<(Vec<usize>, Verdict)> {
    let kl = posterior_kl(policy, evidence)?;
    let mut claim = |quantity: Quantity, delta: f64, what: &str| -> Result<usize> {
        let bound = bound_of(spec, log, quantity, delta)?;
        let claim = Claim {
            event: format!("{}{suffix}", quantity.name()),
            label: "learned".into(),
            subject: Subject::Policy(policy),
            quantity,
            delta,
        };
        let record = claim.for_posterior(log, &*bound, kl, control)?;
        Ok(ledger.claim(record, what))
    };
    let delta = policy_delta(spec);
    if bounds_improvement(spec) {
        // Named alone, the two quantities share δ evenly.
        let (i, r) = if suffix.is_empty() { (0.5, 0.5) } else { (improvement_share, risk_share) };
        let improvement = claim(Quantity::Improvement, i * delta, "R(π) − R(π0) is not above its bound")?;
        let risk = claim(Quantity::Risk, r * delta, "R(π) is not above its bound")?;
        let verdict = ledger.verdict(risk, Some(improvement));
        Ok((vec![improvement, risk], verdict))
    } else {
        let risk = claim(Quantity::Risk, risk_share * delta, "R(π) is not above its bound")?;
        let verdict = ledger.verdict(risk, None);
        Ok((vec![risk], verdict))
    }
}

/// KL(Q‖P) from the parameters, so that no number has to be believed.
fn posterior_kl(policy: &PolicyParams, evidence: &Evidence) -> Result<f64> {
    let prior = required(&evidence.prior, "the prior")?;
    let flat: Vec<f64> = prior.mean.iter().flatten().copied().collect();
    let k = policy.n_actions();
    let mean = ndarray::Array2::from_shape_vec((prior.mean.len(), k), flat).ok();
    match (mean, policy.gaussian(1.0)) {
        (Some(mean), Some((q, scale))) if mean.dim() == q.dim() && prior.scale > 0.0 => {
            let kl = Gaussian { mean: q, scale }.kl(&Gaussian { mean, scale: prior.scale });
            super::error::finite("KL", kl)
        }
        _ => Err(EngineError::Numerical("the prior does not have the policy's shape".into())),
    }
}

fn required<'a, T>(value: &'a Option<T>, what: &str) -> Result<&'a T> {
    value.as_ref().ok_or_else(|| EngineError::Log(format!("{what} is missing from the evidence")))
}

/// The rows of the bound where the specification splits.
pub fn certify_part<'a>(spec: &JobSpec, inputs: &Inputs<'a>) -> Result<Option<PartLog<'a>>> {
    split_of(spec).map(|split| PartLog::new(inputs.log, split, Side::Certify)).transpose()
}

pub fn split_of(spec: &JobSpec) -> Option<Split> {
    let fraction = spec.prior.as_ref()?.fraction?;
    Some(Split { seed: spec.seed, fraction })
}

/// `auto`: the first part's policy as given, and its refinement as a posterior; the better is kept.
fn automatic(
    spec: &JobSpec,
    inputs: &Inputs,
    evidence: &Evidence,
    ledger: &mut Ledger,
    control: &Control,
) -> Result<Verdict> {
    let part = certify_part(spec, inputs)?;
    let log: &dyn LogSource = part.as_ref().map_or(inputs.log, |p| p);
    let direct = required(&evidence.direct, "what the first part fixed")?;
    let (direct_policy, refined_policy) = auto_policies(evidence)?;
    let (direct_indices, direct_verdict) = as_given(spec, log, direct, direct_policy, ledger, control)?;
    let shares = match bounds_improvement(spec) {
        true => (":refined", REFINED_IMPROVEMENT, REFINED_RISK),
        false => (":refined", 0.0, REFINED_RISK_ALONE),
    };
    let (refined_indices, refined_verdict) =
        posterior(spec, log, evidence, refined_policy, shares, ledger, control)?;
    let refined_wins = refined_verdict.improvement > direct_verdict.improvement;
    let (used, verdict) = match refined_wins {
        true => (refined_indices, refined_verdict),
        false => (direct_indices, direct_verdict),
    };
    used.iter().for_each(|&i| ledger.records[i].used = true);
    // The evidence must name as its policy the one that the numbers speak of. Before the comparison
    // was made, both are listed apart and either may win.
    let undecided = direct.policy.is_some() && evidence.refined.is_some();
    let refined_named = direct.policy.is_some();
    if !undecided && refined_named != refined_wins {
        return Err(EngineError::Numerical(
            "the evidence names another policy than the bounds choose".into(),
        ));
    }
    Ok(verdict)
}

/// The two policies of `auto`: (direct, refined).
pub fn auto_policies(evidence: &Evidence) -> Result<(&PolicyParams, &PolicyParams)> {
    let direct = required(&evidence.direct, "what the first part fixed")?;
    let direct_policy = match &direct.policy {
        Some(policy) => policy,
        None => required(&evidence.policy, "the learned policy")?,
    };
    let refined_policy = match &evidence.refined {
        Some(policy) => policy,
        None => required(&evidence.policy, "the learned policy")?,
    };
    Ok((direct_policy, refined_policy))
}

/// The direct policy with what the first part fixed: nothing is minimised over.
fn as_given(
    spec: &JobSpec,
    log: &dyn LogSource,
    direct: &DirectEvidence,
    policy: &PolicyParams,
    ledger: &mut Ledger,
    control: &Control,
) -> Result<(Vec<usize>, Verdict)> {
    let cost_model = direct.calibration.map(|calibration| CostModel { scores: policy, calibration });
    let member = |lambda: f64| match cost_model {
        Some(_) => Choice { control: ControlVariate::Shrunk, tau: direct.tau, lambda },
        None => Choice { control: ControlVariate::Constant(0.0), tau: 0.0, lambda },
    };
    let mut claim = |quantity: Quantity, share: f64, lambda: f64, what: &str| -> Result<usize> {
        let claim = Claim {
            event: format!("{}:direct", quantity.name()),
            label: "learned".into(),
            subject: Subject::Policy(policy),
            quantity,
            delta: share * spec.delta,
        };
        let record = claim.for_given(log, "betting", vec![member(lambda)], cost_model.as_ref(), control)?;
        Ok(ledger.claim(record, what))
    };
    let what_risk = "R(π) is not above its bound, π learned on the first part";
    if bounds_improvement(spec) {
        let what = "R(π) − R(π0) is not above its bound, π learned on the first part";
        let improvement = claim(Quantity::Improvement, DIRECT_IMPROVEMENT, direct.improvement_lambda, what)?;
        let risk = claim(Quantity::Risk, DIRECT_RISK, direct.risk_lambda, what_risk)?;
        let verdict = ledger.verdict(risk, Some(improvement));
        Ok((vec![improvement, risk], verdict))
    } else {
        let risk = claim(Quantity::Risk, DIRECT_RISK_ALONE, direct.risk_lambda, what_risk)?;
        let verdict = ledger.verdict(risk, None);
        Ok((vec![risk], verdict))
    }
}

/// Kind `evaluate`: candidates share δ evenly; the job's own numbers are the best one's.
fn evaluate(
    spec: &JobSpec,
    inputs: &Inputs,
    ledger: &mut Ledger,
    results: &mut Vec<CandidateResult>,
    control: &Control,
) -> Result<Verdict> {
    let mut best: Option<(Vec<usize>, Verdict)> = None;
    for (i, candidate) in spec.candidates.iter().enumerate() {
        let control = control.span(i as f64 / spec.candidates.len() as f64, 1.0);
        let (policy, subject) = subject_of(candidate, inputs)?;
        let (indices, verdict) = given_candidate(spec, inputs.log, candidate, subject, ledger, &control)?;
        results.push(CandidateResult {
            candidate: candidate.label(),
            policy_digest: policy.map(PolicyParams::digest).transpose()?,
            decision: super::certificate::decide(spec, &verdict),
            guaranteed_risk: verdict.risk,
            guaranteed_improvement: verdict.improvement,
            estimated_risk: super::estimate::cips(inputs.log, subject, 0.0, &control)?,
        });
        if best.as_ref().is_none_or(|(_, b)| verdict.improvement > b.improvement) {
            best = Some((indices, verdict));
        }
    }
    let (indices, verdict) = best.ok_or_else(|| EngineError::Log("there is no candidate".into()))?;
    indices.iter().for_each(|&i| ledger.records[i].used = true);
    Ok(verdict)
}

fn subject_of<'a>(
    candidate: &Candidate,
    inputs: &Inputs<'a>,
) -> Result<(Option<&'a PolicyParams>, Subject<'a>)> {
    match candidate {
        Candidate::Policy { policy_id } => {
            let missing = || EngineError::Log(format!("policy {policy_id} is missing"));
            let policy = inputs.policies.get(policy_id).ok_or_else(missing)?;
            Ok((Some(policy), Subject::Policy(policy)))
        }
        Candidate::Logged { name } => {
            let names = &inputs.log.shape().capabilities.candidates;
            let place = names.iter().position(|n| n == name);
            let missing = || EngineError::Log(format!("candidate {name} is missing from the log"));
            Ok((None, Subject::Logged(place.ok_or_else(missing)?)))
        }
    }
}

fn given_candidate(
    spec: &JobSpec,
    log: &dyn LogSource,
    candidate: &Candidate,
    subject: Subject,
    ledger: &mut Ledger,
    control: &Control,
) -> Result<(Vec<usize>, Verdict)> {
    let label = candidate.label();
    let each = policy_delta(spec) / spec.candidates.len() as f64;
    let mut claim = |quantity: Quantity, delta: f64| -> Result<usize> {
        let event = format!("{}:{label}", quantity.name());
        let claim = Claim { event, label: label.clone(), subject, quantity, delta };
        let record = match spec.bound {
            BoundKind::LondonSandler | BoundKind::Catoni | BoundKind::Cbb => {
                claim.for_posterior(log, &*bound_of(spec, log, quantity, delta)?, 0.0, control)?
            }
            BoundKind::LogSmoothing => {
                let grid = lambda_grid(ControlVariate::Constant(0.0), 0.0, quantity.kappa());
                claim.for_given(log, "log_smoothing", grid, None, control)?
            }
            BoundKind::Betting | BoundKind::Auto => {
                let all = matches!(subject, Subject::Policy(_));
                let grid = given_grid(spec, log, all, quantity);
                claim.for_given(log, "betting", grid, None, control)?
            }
        };
        let what = match quantity {
            Quantity::Risk => format!("R of {label} is not above its bound"),
            Quantity::Improvement => format!("R of {label} minus R(π0) is not above its bound"),
        };
        Ok(ledger.claim(record, &what))
    };
    if bounds_improvement(spec) {
        let improvement = claim(Quantity::Improvement, GIVEN_IMPROVEMENT * each)?;
        let risk = claim(Quantity::Risk, GIVEN_RISK * each)?;
        let verdict = ledger.verdict(risk, Some(improvement));
        Ok((vec![improvement, risk], verdict))
    } else {
        let risk = claim(Quantity::Risk, each)?;
        let verdict = ledger.verdict(risk, None);
        Ok((vec![risk], verdict))
    }
}

/// λ × ξ for a given policy. It does not depend on n, so appended logs may be certified again.
fn given_grid(spec: &JobSpec, log: &dyn LogSource, all_actions: bool, quantity: Quantity) -> Vec<Choice> {
    let member = |xi: f64| {
        let tau = if xi == 0.0 { 0.0 } else { spec.tau };
        lambda_grid(ControlVariate::Constant(xi), tau, quantity.kappa())
    };
    xi_grid(spec, log, all_actions).into_iter().flat_map(member).collect()
}

//! Tests what is known about a certificate against the requirements of a gate.

use serde_json::{Value, json};

use super::examine::GateAnswer;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::store::{
    Allowance, GateDefinition, GateRequirements, RequiredBaseline, RequiredGuardrail, RequiredVersion,
    Timestamp,
};
use guarantor_engine::log::Logging;
use guarantor_engine::spec::BaselineKind;

/// Confidences are written in decimal and computed in binary as 1 − δ and as sums of δ: 1 − 0.07 is a little less
/// than 0.93.
const ROUNDING: f64 = 1e-12;

/// What requirements are tested on.
pub struct Facts<'a> {
    /// What the certificate says.
    pub answer: &'a GateAnswer,
    /// The newest version of its dataset.
    pub newest_version: u64,
    /// The time of the request.
    pub now: Timestamp,
}

/// The requirement that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Unmet {
    requirement: &'static str,
    required: Value,
    actual: Value,
    advice: String,
}

impl Unmet {
    /// The candidate that was asked about is not on the certificate, which has others.
    pub fn candidate(wanted: &str, names: Vec<String>) -> Unmet {
        let advice = "The certificate is not about this candidate.";
        unmet("candidate", json!(wanted), json!(names), advice)
    }
}

impl From<Unmet> for Problem {
    fn from(unmet: Unmet) -> Problem {
        let Unmet { requirement, required, actual, advice } = unmet;
        let detail = format!(
            "The gate requires {requirement} = {required}, and the certificate has {actual}. {advice}"
        );
        Problem::new(Code::RequirementFailed, detail)
            .member("requirement", requirement)
            .member("required", required)
            .member("actual", actual)
    }
}

fn unmet(requirement: &'static str, required: Value, actual: Value, advice: impl Into<String>) -> Unmet {
    Unmet { requirement, required, actual, advice: advice.into() }
}

/// The first requirement of a request about a job that the certificate does not meet.
pub fn first_unmet_of_job(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    merged(requirements.accept_merged == Some(true), requirements, facts)
        .or_else(|| first_unmet(requirements, facts))
}

/// The first requirement of a request about a standing gate that the certificate does not meet. The gate says whether it accepts
/// merged certificates; a request can only be stricter.
pub fn first_unmet_of_request(asked: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    merged(asked.accept_merged != Some(false), asked, facts).or_else(|| first_unmet(asked, facts))
}

fn first_unmet(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    policy_digest(requirements, facts)
        .or_else(|| objective(requirements, facts))
        .or_else(|| improvement(requirements, facts))
        .or_else(|| guardrails(requirements, facts))
        .or_else(|| confidence(requirements, facts))
        .or_else(|| family_confidence(requirements, facts))
        .or_else(|| baseline(requirements, facts))
        .or_else(|| age(requirements, facts))
        .or_else(|| version(requirements, facts))
}

/// The first requirement of a standing gate that the certificate does not meet: what it is closed to by default
/// comes first.
pub fn first_unmet_of_gate(definition: &GateDefinition, facts: &Facts) -> Option<Unmet> {
    not_allowed(definition, facts)
        .or_else(|| primary_objective(definition, facts))
        .or_else(|| delta(definition, facts))
        .or_else(|| first_unmet(&definition.requirements, facts))
}

/// Whether the certificate was computed from the rows, or it is accepted that it was not.
fn merged(accepted: bool, requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    (facts.answer.merged && !accepted).then(|| {
        let advice = "The certificate was merged from partials, which the service did not recompute. Ask with \
                      accept_merged=true if you trust whoever computed them.";
        unmet("accept_merged", json!(true), json!(requirements.accept_merged), advice)
    })
}

/// What a standing gate is closed to, unless it allows it.
fn not_allowed(definition: &GateDefinition, facts: &Facts) -> Option<Unmet> {
    let answer = facts.answer;
    let accepted: Vec<&str> = answer.accepted_checks.iter().map(|check| check.name()).collect();
    let found = [
        (Allowance::AcceptedChecks, !accepted.is_empty(), json!([]), json!(accepted)),
        (
            Allowance::KnownBaseline,
            answer.baseline == BaselineKind::Known,
            json!("certified"),
            json!(answer.baseline),
        ),
        (
            Allowance::PointEstimateBaseline,
            answer.baseline == BaselineKind::PointEstimate,
            json!("certified"),
            json!(answer.baseline),
        ),
        (
            Allowance::FixedLogging,
            answer.logging != Some(Logging::Adaptive),
            json!(Logging::Adaptive),
            json!(answer.logging),
        ),
        (Allowance::MergedCertificates, answer.merged, json!(false), json!(true)),
    ];
    let accepted_merged = definition.requirements.accept_merged == Some(true);
    let open = |allowance: &Allowance| {
        definition.allow.contains(allowance)
            || (accepted_merged && *allowance == Allowance::MergedCertificates)
    };
    let (allowance, _, required, actual) =
        found.into_iter().find(|(allowance, found, ..)| *found && !open(allowance))?;
    let name = allowance.name();
    let advice = format!("A standing gate is closed to this unless its `allow` contains \"{name}\".");
    Some(unmet(name, required, actual, advice))
}

/// A standing gate that names no objective asks about the dataset's primary outcome: a job with another objective
/// answers another question.
fn primary_objective(definition: &GateDefinition, facts: &Facts) -> Option<Unmet> {
    if definition.requirements.objective.is_some() {
        return None;
    }
    let (primary, actual) = (&facts.answer.primary_outcome, &facts.answer.objective);
    (actual != primary).then(|| {
        let advice = "A standing gate asks about the dataset's primary outcome, unless its `requirements` name \
                      an `objective`.";
        unmet("objective", json!(primary), json!(actual), advice)
    })
}

fn objective(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let required = requirements.objective.as_ref()?;
    let actual = &facts.answer.objective;
    (actual.as_ref() != Some(required)).then(|| {
        let advice = format!("Submit the job with `objective` = {required:?}.");
        unmet("objective", json!(required), json!(actual), advice)
    })
}

fn guardrails(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    requirements.guardrails.as_ref()?.0.iter().find_map(|required| {
        let RequiredGuardrail { outcome, max_loss } = required;
        let found = facts.answer.guardrails.iter().find(|result| result.outcome == *outcome);
        // A number that compares false fails.
        if found.is_some_and(|result| result.ok && result.guaranteed_loss <= *max_loss) {
            return None;
        }
        let actual =
            found.map(|result| json!({"outcome": outcome, "guaranteed_loss": result.guaranteed_loss}));
        let advice = match found {
            Some(_) => "More rows help, if the policy does not lose more than this.".to_owned(),
            None => format!("Submit the job with a guardrail for {outcome:?}."),
        };
        Some(unmet("guardrails", json!(required), json!(actual), advice))
    })
}

fn delta(definition: &GateDefinition, facts: &Facts) -> Option<Unmet> {
    let delta = 1.0 - facts.answer.confidence;
    (delta > definition.delta + ROUNDING).then(|| {
        let advice = "Submit the job with a smaller `delta`.";
        unmet("delta", json!(definition.delta), json!(rounded(delta)), advice)
    })
}

/// The decimal that was written: 1 − (1 − 0.05) is not exactly 0.05.
fn rounded(number: f64) -> f64 {
    (number * 1e12).round() / 1e12
}

fn policy_digest(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let required = requirements.policy_digest.as_ref()?;
    let actual = &facts.answer.policy_digest;
    (actual.as_ref() != Some(required)).then(|| {
        let advice = format!("The gate is about the candidate {}.", facts.answer.candidate);
        unmet("policy_digest", json!(required), json!(actual), advice)
    })
}

fn improvement(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let required = requirements.min_improvement?;
    let actual = facts.answer.guaranteed_improvement;
    // As for the decision: the guaranteed improvement must exceed it. A number that compares false fails.
    let met = actual > required;
    (!met).then(|| unmet("min_improvement", json!(required), json!(actual), "More rows help."))
}

fn confidence(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let required = requirements.min_confidence?;
    let actual = facts.answer.confidence;
    let met = actual >= required - ROUNDING;
    let advice = "Submit the job with a smaller `delta`.";
    (!met).then(|| unmet("min_confidence", json!(required), json!(actual), advice))
}

fn family_confidence(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let required = requirements.min_family_confidence?;
    let actual = facts.answer.family_wise_confidence;
    let met = actual >= required - ROUNDING;
    (!met).then(|| {
        let advice = format!(
            "This was look {} at these rows. Plan several looks with `family`, pool them with `looks: anytime`, or \
             use a smaller `delta`.",
            facts.answer.look
        );
        unmet("min_family_confidence", json!(required), json!(rounded(actual)), advice)
    })
}

fn baseline(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let RequiredBaseline::Certified = requirements.baseline?;
    let actual = facts.answer.baseline;
    let advice = "Submit the job without `baseline`.";
    (actual != BaselineKind::Certified)
        .then(|| unmet("baseline", json!(RequiredBaseline::Certified), json!(actual), advice))
}

fn age(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let required = requirements.max_age?;
    let seconds = facts.now.seconds_since(facts.answer.issued_at);
    let met = seconds <= required.seconds() as f64;
    (!met).then(|| {
        let actual = format!("{}s", seconds.ceil());
        unmet("max_age", json!(required), json!(actual), "Append newer rows and submit the job again.")
    })
}

fn version(requirements: &GateRequirements, facts: &Facts) -> Option<Unmet> {
    let RequiredVersion::Newest = requirements.version?;
    let (certified, newest) = (facts.answer.dataset_version, facts.newest_version);
    (certified != newest).then(|| {
        let advice = format!("The newest version of the dataset is {newest}. Submit the job again.");
        unmet("version", json!(RequiredVersion::Newest), json!(certified), advice)
    })
}

//! The wording of a certificate.

use super::{
    About, BoundedQuantity, Certificate, Decision, GuardrailResult, LedgerPlace, Reason, ReasonCode,
    SharedWhy,
};
use crate::checks::CheckResult;
use crate::log::{Capabilities, OutcomeKind, Span};
use crate::spec::{BaselineKind, BoundKind, JobKind, JobSpec, Looks};

fn percent(share: f64) -> String {
    let text = format!("{:.4}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// A guarantee this far above its estimate is rounding.
const ROUNDING: f64 = 1e-9;

/// Whether a guaranteed improvement is above its own estimate. Numbers that cannot be compared are.
pub fn exceeds(improvement: f64, estimate: f64) -> bool {
    improvement > estimate + ROUNDING || improvement.is_nan() || estimate.is_nan()
}

/// The verdict of a certificate with this guaranteed improvement, and its estimate if that is known. `guardrails` are the
/// results of its guardrails, and `failed` are the failed checks that concern it.
pub fn reasons(
    spec: &JobSpec,
    decision: Decision,
    (improvement, estimate): (f64, Option<f64>),
    guardrails: &[GuardrailResult],
    failed: &[&CheckResult],
) -> Vec<Reason> {
    let reason = |code: ReasonCode, message: String| Reason::new(code, message);
    let min = spec.min_improvement;
    let (accepted, refused): (Vec<&CheckResult>, Vec<&CheckResult>) =
        failed.iter().partition(|check| spec.accept.contains(&check.name));
    // Why not deploy: the checks come first, because nothing else can be relied on if they fail.
    let mut reasons: Vec<Reason> = Vec::new();
    for check in refused {
        let code = ReasonCode::from(check.name);
        if reasons.iter().all(|reason| reason.code != code) {
            reasons.push(reason(code, check.message.clone()));
        }
    }
    let improved = improvement > min && improvement <= 1.0;
    let first = match decision {
        Decision::Deploy => Some(reason(
            ReasonCode::ImprovementGuaranteed,
            format!("the guaranteed improvement {improvement:.6} exceeds the required {min}"),
        )),
        Decision::Keep if improved => match estimate.filter(|estimate| exceeds(improvement, *estimate)) {
            Some(estimate) if reasons.is_empty() => {
                let message = format!(
                    "the bound guarantees an improvement of {improvement:.6}, but the estimate is {estimate:.6}; a \
                     guarantee above its estimate is one of the rare lucky draws that δ allows"
                );
                let numbers = [("guaranteed_improvement", improvement), ("estimated_improvement", estimate)];
                Some(Reason::new(ReasonCode::GuaranteeExceedsEstimate, message).with_numbers(&numbers))
            }
            // The checks above or the guardrails below are the reason.
            _ => None,
        },
        Decision::Keep if improvement > 1.0 => Some(reason(
            ReasonCode::GuaranteeImpossible,
            format!(
                "the bound guarantees an improvement of {improvement:.6}, which is more than any policy \
                 can gain; the logged propensities must be wrong"
            ),
        )),
        Decision::Keep if improvement > 0.0 => Some(reason(
            ReasonCode::ImprovementBelowMinimum,
            format!("the guaranteed improvement {improvement:.6} does not exceed the required {min}"),
        )),
        Decision::Keep => Some(reason(
            ReasonCode::ImprovementNotGuaranteed,
            format!("no improvement can be guaranteed from this log (the bound is {improvement:.6})"),
        )),
    };
    reasons.extend(first);
    reasons.extend(guardrails.iter().filter_map(GuardrailResult::reason));
    if !accepted.is_empty() {
        let mut names: Vec<&str> = accepted.iter().map(|check| check.name.name()).collect();
        names.dedup();
        let by = spec.accepted_by.as_deref().unwrap_or("the caller");
        let message = format!("failed, but accepted by {by}: {}", names.join(", "));
        reasons.push(reason(ReasonCode::CheckAccepted, message));
    }
    if spec.baseline.kind == BaselineKind::PointEstimate {
        let message = "the baseline is the mean logged cost, taken as exact, so this is not a full guarantee";
        reasons.push(reason(ReasonCode::BaselineNotCertified, message.into()));
    }
    reasons
}

/// The result as a sentence.
pub fn statement(certificate: &Certificate) -> String {
    let c = certificate;
    let who = match &c.candidate {
        Some(best) => format!("the candidate {best}"),
        None => "the learned policy".into(),
    };
    let baseline = match c.spec.baseline.kind {
        BaselineKind::Certified => "the logging policy",
        BaselineKind::Known => "the baseline that the caller states as known",
        BaselineKind::PointEstimate => "the mean logged cost (an estimate, taken as exact)",
    };
    let units = match c.user_units.outcome.kind {
        OutcomeKind::Cost => format!("its expected cost is at most {:.6}", c.user_units.guaranteed_outcome),
        OutcomeKind::Reward => {
            format!("its expected reward is at least {:.6}", c.user_units.guaranteed_outcome)
        }
    };
    let decision = match c.decision {
        Decision::Deploy => "Deploy it.",
        Decision::Keep => "Keep the logging policy.",
    };
    let units = match c.user_units.outcome.cuts() {
        Some(cuts) => format!("{units} (the outcome is cut: {cuts})"),
        None => units,
    };
    let improvement = c.guaranteed_improvement;
    let failed: Vec<&str> =
        c.reasons.iter().filter_map(|reason| reason.code.name().strip_prefix("log_check_failed:")).collect();
    if !failed.is_empty() {
        let checks = if failed.len() == 1 { "check" } else { "checks" };
        return format!(
            "The log fails the {checks} {}, so nothing can be guaranteed from it. {decision}",
            failed.join(", ")
        );
    }
    let result = if improvement > 0.0 {
        format!(
            "{who} improves on {baseline} by at least {improvement:.6} in risk ({:.6} in your units), and {units}",
            c.user_units.guaranteed_improvement
        )
    } else {
        format!(
            "no improvement of {who} on {baseline} can be guaranteed (the bound is {improvement:.6} in risk), and {units}"
        )
    };
    let guardrails: String =
        c.guardrails.iter().map(|guardrail| format!("; {}", guardrail.statement())).collect();
    let merged = c.merged.as_ref().map(|merged| format!(" {}", merged.note)).unwrap_or_default();
    format!(
        "With probability at least {}% over the draw of the {} certified rows, {result}{guardrails}{}. {decision}{merged}",
        percent(c.confidence),
        c.certified.as_ref().map_or(c.dataset.rows, |certified| certified.rows),
        compared_with(c)
    )
}

/// Whom the improvement is compared with, if the logging policy may have changed.
fn compared_with(c: &Certificate) -> String {
    let Some(certified) = c.certified.as_ref().filter(|_| !c.spec.is_fixed()) else { return String::new() };
    match &certified.span {
        Span::Time { policy_version: Some(version), .. } => {
            format!(", compared with the policy version {version:?} on the rows that it logged")
        }
        _ => ", compared with the policies that were in place, on average over the certified period".into(),
    }
}

/// The conditions of the guarantee that the service cannot check in full.
pub fn assumptions(spec: &JobSpec, span: &Span) -> Vec<String> {
    let mut all: Vec<String> = if spec.is_fixed() {
        vec![
            "Contexts are independent draws from one distribution, the one that the policy will meet.".into(),
            "Each logged action was drawn with its logged propensity, given only the context.".into(),
            "Costs lie in the stated range and depend only on the context and the action.".into(),
        ]
    } else {
        vec![
            "Each logged action was drawn with its logged propensity, which was fixed before the draw.".into(),
            "Costs lie in the stated range and depend only on the context, the action and the past.".into(),
            "Rows are in their order of arrival, and the policy will meet contexts like those of the certified \
             period."
                .into(),
        ]
    };
    if spec.looks != Some(Looks::Anytime) {
        all.push(
            "The number of rows was not chosen by looking at the outcomes of the certified rows.".into(),
        );
    }
    if let Span::Time { policy_version: Some(_), .. } = span {
        all.push(
            "That this policy version is the last one was not decided by looking at the outcomes of its rows."
                .into(),
        );
    }
    if spec.kind == JobKind::Learn {
        all.push(match (spec.fraction(), span) {
            (Some(_), Span::Hash(_)) => {
                "The split of the contexts depends only on the log's digest and their order of arrival."
                    .into()
            }
            (Some(_), Span::Time { .. }) => {
                "What was learned depends only on rows that arrived before the first certified row.".into()
            }
            (None, _) => "The prior does not depend on the logged rows.".into(),
        });
    }
    if spec.bound == BoundKind::Cbb {
        all.push("The logged propensities π0(·|x) of all actions are those that were played.".into());
    }
    all
}

/// What the caller stated and the guarantee depends on. `policy_known` says whether the logging policy is
/// stored; an upload is refused if it does not give the propensities that the rows carry.
pub fn attestations(spec: &JobSpec, capabilities: &Capabilities, policy_known: bool) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    if spec.is_fixed() {
        all.push(match policy_known && capabilities.propensities_logged {
            true => "The caller states that all contexts came from one distribution (logging = fixed). The stored \
                     logging policy gives the propensities that the rows carry, so one policy logged them all."
                .into(),
            false => "The caller states that one policy logged every row, and that all contexts came from one \
                      distribution (logging = fixed)."
                .into(),
        });
    }
    if policy_known && !capabilities.propensities_logged {
        all.push(
            "The rows did not carry all of their propensities. The caller states that the stored logging policy \
             drew the actions (logging_policy_id)."
                .into(),
        );
    }
    if capabilities.exact_propensities {
        all.push(
            "The caller states that actions were drawn with exactly the propensities that were written, to the last \
             digit (exact_propensities)."
                .into(),
        );
    }
    if capabilities.multiple_interactions {
        all.push(
            "The caller states that the number of rows of a context was chosen without looking at its actions and \
             outcomes (repetitions = designed)."
                .into(),
        );
    }
    if spec.independent_of_log == Some(true) {
        all.push(match spec.is_fixed() {
            true => "The caller states that no candidate was learned from the certified rows (independent_of_log).",
            false => "The caller states that no candidate depends on anything that was logged at or after the first \
                      certified row (independent_of_log).",
        }.into());
    }
    if let (BaselineKind::Known, Some(risk)) = (spec.baseline.kind, spec.baseline.risk) {
        all.push(format!("The caller states that the logging policy's risk is {risk} (baseline.risk)."));
    }
    if let Some(by) = &spec.accepted_by {
        let names: Vec<&str> = spec.accept.iter().map(|check| check.name()).collect();
        all.push(format!(
            "These checks may fail without causing `keep`, as {by} states: {}.",
            names.join(", ")
        ));
    }
    all
}

/// What holds outside of a claim's event, as a sentence for `delta_accounting`. `outcome` is that of a guardrail.
pub fn what_holds(about: About, quantity: BoundedQuantity, outcome: Option<&str>) -> String {
    let policy = match about {
        About::Candidate(label) => label,
        About::Learned => "π",
        About::LoggingPolicy => "π0",
    };
    match quantity {
        BoundedQuantity::Risk => format!("R({policy}) is not above its bound"),
        BoundedQuantity::Improvement => format!("R({policy}) − R(π0) is not above its bound"),
        BoundedQuantity::BaselineRisk => format!("R({policy}) is not below its bound"),
        BoundedQuantity::GuardrailLoss => {
            let outcome = outcome.unwrap_or_default();
            format!("R({policy}) − R(π0) in the outcome {outcome} is not above its bound")
        }
    }
}

/// A ledger entry as a sentence.
pub(super) fn ledger(place: &LedgerPlace) -> String {
    let look = place.look;
    let free = match place.shares {
        Some(shared) if shared.why == SharedWhy::Repeat => {
            format!(" It repeats the certificate of look {} and costs nothing.", shared.look)
        }
        Some(shared) if shared.why == SharedWhy::Asked => {
            format!(
                " It asks the same question about the same rows as look {} and costs nothing.",
                shared.look
            )
        }
        Some(shared) => format!(
            " It rests on the same event as look {}, which holds at every number of rows at once, and costs \
             nothing.",
            shared.look
        ),
        None => String::new(),
    };
    let family = match place.family {
        Some(family) => format!(" It belongs to a family of {} looks.", family.looks),
        None => String::new(),
    };
    format!(
        "Look {look} at these rows.{free}{family} All looks so far hold together with probability at least \
         {}%, provided that no look was requested because of what another look showed.",
        percent(place.family_wise_confidence)
    )
}

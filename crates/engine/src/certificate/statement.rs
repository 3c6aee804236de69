//! The wording of a certificate.

use super::{
    About, AutoPolicy, BoundedQuantity, Certificate, Decision, LedgerPlace, Reason, ReasonCode, SharedWhy,
};
use crate::log::OutcomeKind;
use crate::spec::{BaselineKind, BoundKind, JobKind, JobSpec};

fn percent(share: f64) -> String {
    let text = format!("{:.4}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The reasons for the decision of a certificate with this guaranteed improvement.
pub fn reasons(spec: &JobSpec, decision: Decision, improvement: f64) -> Vec<Reason> {
    let reason = |code: ReasonCode, message: String| Reason { code, message };
    let min = spec.min_improvement;
    let mut reasons = vec![match decision {
        Decision::Deploy => reason(
            ReasonCode::ImprovementGuaranteed,
            format!("the guaranteed improvement {improvement:.6} exceeds the required {min}"),
        ),
        Decision::Keep if improvement > 1.0 => reason(
            ReasonCode::GuaranteeImpossible,
            format!(
                "the bound guarantees an improvement of {improvement:.6}, which is more than any policy \
                 can gain; the logged propensities must be wrong"
            ),
        ),
        Decision::Keep if improvement > 0.0 => reason(
            ReasonCode::ImprovementBelowMinimum,
            format!("the guaranteed improvement {improvement:.6} does not exceed the required {min}"),
        ),
        Decision::Keep => reason(
            ReasonCode::ImprovementNotGuaranteed,
            format!(
                "no improvement can be guaranteed from this log (the bound is {improvement:.6}); more rows help"
            ),
        ),
    }];
    if spec.baseline.kind == BaselineKind::PointEstimate {
        let message = "the baseline is the mean logged cost, taken as exact, so this is not a full guarantee";
        reasons.push(reason(ReasonCode::BaselineNotCertified, message.into()));
    }
    reasons
}

/// The result as a sentence.
pub fn statement(certificate: &Certificate) -> String {
    let c = certificate;
    let who = match (
        c.spec.kind,
        c.candidates.iter().max_by(|a, b| a.guaranteed_improvement.total_cmp(&b.guaranteed_improvement)),
    ) {
        (JobKind::Evaluate, Some(best)) => format!("the candidate {}", best.candidate),
        _ => "the learned policy".into(),
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
    let improvement = c.guaranteed_improvement;
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
    format!(
        "With probability at least {}% over the draw of the {} logged rows, {result}. {decision}",
        percent(c.confidence),
        c.dataset.rows
    )
}

/// The conditions of the guarantee that the service cannot check in full.
pub fn assumptions(spec: &JobSpec) -> Vec<String> {
    let mut all: Vec<String> = vec![
        "Contexts are independent draws from one distribution, the one that the policy will meet.".into(),
        "Each logged action was drawn with its logged propensity, given only the context.".into(),
        "Costs lie in the stated range and depend only on the context and the action.".into(),
    ];
    if spec.kind == JobKind::Learn {
        all.push(match spec.split() {
            Some(_) => {
                "The split of the contexts depends only on the seed and on their order of arrival.".into()
            }
            None => "The prior does not depend on the logged rows.".into(),
        });
    }
    if spec.bound == BoundKind::Cbb {
        all.push("The logged propensities π0(·|x) of all actions are those that were played.".into());
    }
    all
}

/// What the caller stated and the guarantee depends on.
pub fn attestations(spec: &JobSpec) -> Vec<String> {
    let mut all = Vec::new();
    if spec.independent_of_log == Some(true) {
        all.push(
            "The caller states that no candidate was learned from these rows (independent_of_log).".into(),
        );
    }
    if let (BaselineKind::Known, Some(risk)) = (spec.baseline.kind, spec.baseline.risk) {
        all.push(format!("The caller states that the logging policy's risk is {risk} (baseline.risk)."));
    }
    all
}

/// What holds outside of a claim's event, as a sentence for `delta_accounting`.
pub fn what_holds(about: About, quantity: BoundedQuantity) -> String {
    let policy = match about {
        About::Candidate(label) => label,
        About::Learned | About::Auto(_) => "π",
        About::LoggingPolicy => "π0",
    };
    let inequality = match quantity {
        BoundedQuantity::Risk => format!("R({policy}) is not above its bound"),
        BoundedQuantity::Improvement => format!("R({policy}) − R(π0) is not above its bound"),
        BoundedQuantity::BaselineRisk => format!("R({policy}) is not below its bound"),
    };
    match about {
        About::Auto(AutoPolicy::Direct) => format!("{inequality} (π learned on the learn side)"),
        About::Auto(AutoPolicy::Refined) => format!("{inequality} (π refined on the certify side)"),
        About::Learned | About::Candidate(_) | About::LoggingPolicy => inequality,
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

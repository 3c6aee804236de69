//! The certificate in words.

use super::{Certificate, Decision, LedgerPlace, Reason, SharedWhy};
use crate::certify::{Verdict, split_of};
use crate::log::OutcomeKind;
use crate::spec::{BaselineKind, BoundKind, JobKind, JobSpec};

fn percent(share: f64) -> String {
    let text = format!("{:.4}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

pub(super) fn reasons(spec: &JobSpec, verdict: &Verdict) -> Vec<Reason> {
    let reason = |code: &str, message: String| Reason { code: code.into(), message };
    let (gi, min) = (verdict.improvement, spec.min_improvement);
    let mut reasons = vec![match super::decide(spec, verdict) {
        Decision::Deploy => reason(
            "improvement_guaranteed",
            format!("the guaranteed improvement {gi:.6} exceeds the {min} that was asked for"),
        ),
        Decision::Keep if gi > 1.0 => reason(
            "guarantee_impossible",
            format!(
                "the bound promises {gi:.6}, more than any policy can gain: the logged propensities cannot be \
                 the ones that were played"
            ),
        ),
        Decision::Keep if gi > 0.0 => reason(
            "improvement_below_minimum",
            format!("the guaranteed improvement {gi:.6} does not exceed the {min} that was asked for"),
        ),
        Decision::Keep => reason(
            "improvement_not_guaranteed",
            format!("no improvement can be guaranteed from this log: its bound is {gi:.6}; more rows help"),
        ),
    }];
    if spec.baseline.kind == BaselineKind::PointEstimate {
        let message = "the baseline is the mean logged cost, taken as exact: this is not a full guarantee";
        reasons.push(reason("baseline_not_certified", message.into()));
    }
    reasons
}

pub(super) fn statement(certificate: &Certificate) -> String {
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
    let gi = c.guaranteed_improvement;
    let improvement = if gi > 0.0 {
        format!(
            "{who} improves on {baseline} by at least {gi:.6} in risk ({:.6} in your units), and {units}",
            c.user_units.guaranteed_improvement
        )
    } else {
        format!(
            "no improvement of {who} on {baseline} can be guaranteed (its bound is {gi:.6} in risk); {units}"
        )
    };
    format!(
        "With probability at least {} % over the draw of the {} logged rows: {improvement}. {decision}",
        percent(c.confidence),
        c.dataset.rows
    )
}

pub(super) fn assumptions(spec: &JobSpec) -> Vec<String> {
    let mut all: Vec<String> = vec![
        "Contexts are independent draws from one distribution, the one that the policy will meet.".into(),
        "Each logged action was drawn with the logged propensity, given the context alone.".into(),
        "Costs lie in the stated range and depend on the context and the action alone.".into(),
    ];
    if spec.kind == JobKind::Learn {
        all.push(match split_of(spec) {
            Some(_) => {
                "The split of the contexts depends on the seed and their order of arrival alone.".into()
            }
            None => "The prior does not depend on the logged rows.".into(),
        });
    }
    if spec.bound == BoundKind::Cbb {
        all.push("π0(·|x) is logged as it was played, for all actions.".into());
    }
    all
}

pub(super) fn attestations(spec: &JobSpec) -> Vec<String> {
    let mut all = Vec::new();
    if spec.independent_of_log == Some(true) {
        all.push(
            "The caller states that no candidate was learned from these rows (independent_of_log).".into(),
        );
    }
    if let (BaselineKind::Known, Some(risk)) = (spec.baseline.kind, spec.baseline.risk) {
        all.push(format!("The caller states that the logging policy's risk is {risk} (baseline.known)."));
    }
    all
}

/// The place in the ledger in words.
pub(super) fn ledger(place: &LedgerPlace) -> String {
    let look = place.look;
    let free = match place.shares {
        Some(shared) if shared.why == SharedWhy::Repeat => {
            format!(" It is the certificate of look {} again and costs nothing.", shared.look)
        }
        Some(shared) if shared.why == SharedWhy::Asked => {
            format!(" It asks what look {} asked of the same rows, and costs nothing.", shared.look)
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
         {} %, as long as none was asked for because of what another had found.",
        percent(place.family_wise_confidence)
    )
}

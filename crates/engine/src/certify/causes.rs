//! What caused a verdict, each cause with the numbers that show it.

use super::findings::Findings;
use crate::certificate::{Breakdown, Decision, Reason, ReasonCode};
use crate::checks::CheckResult;
use crate::spec::JobSpec;

/// From this share of certain actions on, a log counts as deterministic.
pub const DETERMINISTIC: f64 = 0.999;
/// Overlap is too little if the rows are worth less than this share of their number,
const LITTLE: f64 = 0.1;
/// or if the log hardly explored more than this share of the policy's decisions.
const UNEXPLORED: f64 = 0.05;
/// Rounding is worth a reason if it costs this share of the estimate.
const MUCH: f64 = 0.25;
/// The baseline is too wide if it costs this share of all that is taken off.
const WIDE: f64 = 0.5;

/// What a verdict is about.
pub struct Case<'a> {
    pub spec: &'a JobSpec,
    pub decision: Decision,
    pub guaranteed: f64,
    pub breakdown: Option<&'a Breakdown>,
    pub findings: Option<&'a Findings>,
    /// The failed checks that concern the policy.
    pub failed: &'a [&'a CheckResult],
}

impl Case<'_> {
    fn step(&self, name: &str) -> f64 {
        let steps = self.breakdown.map_or(&[][..], |breakdown| &breakdown.steps);
        steps.iter().find(|step| step.name == name).map_or(0.0, |step| step.change)
    }

    /// The estimate after rounding, which more rows do not make better.
    pub fn settled(&self) -> Option<f64> {
        Some(self.breakdown?.estimate + self.step("rounding") + self.step("bias"))
    }

    /// Whether the log plays one action always, and the policy another one somewhere.
    pub fn is_deterministic(&self) -> bool {
        self.findings.is_some_and(|found| found.deterministic >= DETERMINISTIC && !found.same)
    }

    /// Whether a failed check alone decided.
    pub fn is_refused(&self) -> bool {
        self.failed.iter().any(|check| !self.spec.accept.contains(&check.name))
    }
}

/// The causes of a verdict. Nothing else can be relied on if a check failed, so there are none then.
pub fn causes(case: &Case) -> Vec<Reason> {
    let mut causes = Vec::new();
    let kept = case.decision == Decision::Keep && !case.is_refused();
    // Only a bound that falls short has these causes.
    let short = case.guaranteed.is_nan() || case.guaranteed <= case.spec.min_improvement;
    if kept && short {
        causes.extend(deterministic(case));
        causes.extend(no_better(case));
        causes.extend(overlap(case));
        causes.extend(rows(case));
        causes.extend(baseline(case));
    }
    if !case.is_refused() {
        causes.extend(rounded(case));
    }
    causes
}

fn deterministic(case: &Case) -> Option<Reason> {
    let found = case.findings.filter(|_| case.is_deterministic())?;
    let message = format!(
        "the log plays one action with certainty in {:.1}% of the rows, so what other actions would have brought was \
         never seen there; more rows do not help, exploration does",
        100.0 * found.deterministic
    );
    let numbers = [("certain_share", found.deterministic), ("unexplored_share", found.unexplored)];
    Some(Reason::new(ReasonCode::DeterministicLog, message).with_numbers(&numbers))
}

fn no_better(case: &Case) -> Option<Reason> {
    let min = case.spec.min_improvement;
    let settled = case.settled()?;
    if case.findings.is_some_and(|found| found.same) {
        let message =
            "the policy plays what the logging policy plays on these rows, so there is nothing to gain";
        let numbers = [("estimated_improvement", settled), ("min_improvement", min)];
        return Some(Reason::new(ReasonCode::PolicyNoBetter, message).with_numbers(&numbers));
    }
    if settled > min {
        return None;
    }
    let message = format!("the estimated improvement {settled:.6} is not above the required {min}");
    let numbers = [("estimated_improvement", settled), ("min_improvement", min)];
    Some(Reason::new(ReasonCode::PolicyNoBetter, message).with_numbers(&numbers))
}

fn overlap(case: &Case) -> Option<Reason> {
    let found = case.findings.filter(|found| !found.same && !case.is_deterministic())?;
    if found.effective_rows >= LITTLE * found.rows && found.unexplored <= UNEXPLORED {
        return None;
    }
    let unexplored = match found.unexplored > 0.0 {
        true => {
            format!(", and the log hardly explored {:.1}% of what the policy plays", 100.0 * found.unexplored)
        }
        false => String::new(),
    };
    let message = format!(
        "the log seldom plays what the policy plays: its {:.0} certified rows are worth {:.1} rows of equal \
         weight{unexplored}",
        found.rows, found.effective_rows
    );
    let numbers = [
        ("rows", found.rows),
        ("effective_rows", found.effective_rows),
        ("unexplored_share", found.unexplored),
    ];
    Some(Reason::new(ReasonCode::TooLittleOverlap, message).with_numbers(&numbers))
}

fn rows(case: &Case) -> Option<Reason> {
    let min = case.spec.min_improvement;
    let settled = case.settled().filter(|settled| *settled > min && !case.is_deterministic())?;
    let found = case.findings?;
    let taken = settled - case.guaranteed;
    let message = format!(
        "{:.0} certified rows are too few: the estimated improvement {settled:.6} is above the required {min}, but \
         being sure takes {taken:.6} off",
        found.rows
    );
    let numbers = [
        ("rows", found.rows),
        ("estimated_improvement", settled),
        ("taken_off", taken),
        ("min_improvement", min),
    ];
    Some(Reason::new(ReasonCode::TooFewRows, message).with_numbers(&numbers))
}

fn baseline(case: &Case) -> Option<Reason> {
    let cost = -case.step("baseline");
    let taken = case.breakdown?.estimate - case.guaranteed;
    if cost <= 0.0 || cost < WIDE * taken {
        return None;
    }
    let message = format!(
        "the separate bound on the logging policy's risk takes {cost:.6} of the {taken:.6} off; the bounds `auto` and \
         `betting` need none"
    );
    let numbers = [("baseline_cost", cost), ("taken_off", taken)];
    Some(Reason::new(ReasonCode::BaselineTooWide, message).with_numbers(&numbers))
}

/// Said whatever the decision, because nobody would look for it.
fn rounded(case: &Case) -> Option<Reason> {
    let (cost, estimate) = (-case.step("rounding"), case.breakdown?.estimate);
    if cost <= 0.0 || estimate <= 0.0 || cost < MUCH * estimate {
        return None;
    }
    let message = format!(
        "the probabilities of this log or of the candidate have so few digits that they were read as rounded, which \
         takes {cost:.6} off the estimated improvement {estimate:.6}; if they are exact, upload the log with \
         exact_propensities = true, and otherwise log more digits"
    );
    let numbers = [("rounding_cost", cost), ("estimated_improvement", estimate)];
    Some(Reason::new(ReasonCode::RoundedPropensities, message).with_numbers(&numbers))
}

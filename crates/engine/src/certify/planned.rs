//! The plan of a certificate that says keep, and of a log that does not exist yet (docs/math.md#planner).

use super::breakdown::Records;
use super::causes::Case;
use super::findings::Findings;
use super::ground::Ground;
use super::shares::GIVEN;
use crate::certificate::{BoundRecord, GuardrailResult, exceeds};
use crate::error::SpecError;
use crate::log::{LogSource, Period};
use crate::plan::{Game, Outlook, POWER, Plan, PlanRequest, Seen, Settings, Sight, power_of_each};
use crate::spec::{BoundKind, JobKind, JobSpec, Looks};

/// The plan before any log exists.
///
/// # Errors
/// If a field is missing or out of its range, or fields contradict each other.
pub fn plan_before(request: &PlanRequest) -> Result<Plan, SpecError> {
    request.plan(GIVEN.improvement)
}

/// What is known about a later look.
#[derive(Clone, Copy)]
pub struct NextLook {
    /// Whether its contexts are independent draws under one policy.
    pub independent: bool,
    /// The traffic that the timestamps of the log show.
    pub rows_per_day: Option<f64>,
}

impl Ground<'_> {
    /// What is known about a later look.
    pub fn next_look(&self) -> NextLook {
        let shape = self.inputs.log.shape();
        NextLook {
            independent: self.spec.is_fixed() && !self.certified.shape().capabilities.repeated_contexts,
            rows_per_day: rows_per_day(shape.rows, shape.capabilities.period),
        }
    }
}

/// What would certify the required improvement, and every guardrail; None if the rows do not tell. It never fails.
pub fn plan_after(
    next: NextLook,
    case: &Case,
    records: Records,
    guardrails: &[GuardrailResult],
) -> Option<Plan> {
    let settings = settings_of(next, case, records)?;
    if guardrails.is_empty() {
        return Some(settings.plan(known(case)));
    }
    // A later look at fresh rows must certify everything again, also what is guaranteed now.
    let known = known(case).filter(|known| *known != Outlook::Guaranteed);
    let power = power_of_each(settings.power, guardrails.len() + 1);
    let settings = Settings { power, ..settings };
    let others: Vec<(String, Plan)> = (guardrails.iter())
        .map(|result| (result.outcome.clone(), plan_of_guardrail(result, &settings)))
        .collect();
    Some(settings.plan(known).together_with(&others, POWER))
}

/// The plan of one guardrail: its loss is a negative improvement, and its limit the one that must be exceeded. Its bound is
/// as wide as it was, relative to the error of its estimate.
fn plan_of_guardrail(result: &GuardrailResult, objective: &Settings) -> Plan {
    let contexts = objective.seen.map_or(1.0, |seen| seen.contexts);
    let (width, spread) =
        (result.guaranteed_loss - result.estimated_loss, result.standard_error * contexts.sqrt());
    let widths = if result.standard_error > 0.0 { width.max(0.0) / result.standard_error } else { 0.0 };
    let sight = Sight { game: Game::Observed(widths), spread };
    let settings = Settings {
        min_improvement: -result.max_loss,
        estimate: -result.estimated_loss,
        seen: objective.seen.map(|seen| Seen { width: width.max(0.0), game: sight.game, spread, ..seen }),
        fresh: sight,
        pooled: objective.pooled.map(|_| sight),
        ..objective.clone()
    };
    settings.plan(None)
}

fn settings_of(next: NextLook, case: &Case, records: Records) -> Option<Settings> {
    let (spec, found) = (case.spec, case.findings?);
    let record = records.improvement.unwrap_or(records.risk);
    let settled = case.settled()?;
    let contexts = found.contexts.max(1.0);
    let error = found.spread / contexts.sqrt();
    // A bound that is not in the table is as wide as it was, relative to the spread of plain weights.
    let observed = Sight {
        game: Game::Observed(if error > 0.0 { (settled - case.guaranteed).max(0.0) / error } else { 0.0 }),
        spread: found.spread,
    };
    let own = record.terms.spread.filter(|_| records.improvement.is_some());
    let fresh = match own {
        Some(spread) => Sight { game: next_game(record, spec, next), spread },
        None => observed,
    };
    let pooled = match own {
        _ if !spec.holds_at_every_n() => None,
        Some(_) => Some(Sight {
            game: Game::Anytime { controlled: found.controlled },
            spread: found.controlled_spread,
        }),
        None => Some(observed),
    };
    let settings = Settings {
        min_improvement: spec.min_improvement,
        estimate: settled,
        delta: record.delta,
        power: POWER,
        seen: Some(Seen {
            contexts,
            effective: found.effective,
            width: (settled - case.guaranteed).max(0.0),
            game: own.map_or(observed.game, |_| this_game(record, spec, found)),
            spread: fresh.spread,
        }),
        fresh,
        pooled,
        rows_per_context: found.rows / contexts,
        rows_per_day: spec.rows_per_day.or(next.rows_per_day),
        exploration: found.exploration.clone(),
    };
    Some(settings)
}

/// What already rules a promise out.
fn known(case: &Case) -> Option<Outlook> {
    let exceeds = case.breakdown.is_some_and(|breakdown| exceeds(case.guaranteed, breakdown.estimate));
    // A guarantee that is impossible is as good as a failed check: the log is wrong.
    if case.is_refused() || case.guaranteed > 1.0 {
        Some(Outlook::CheckFailed)
    } else if case.is_deterministic() {
        Some(Outlook::Deterministic)
    } else if case.findings.is_some_and(|found| found.same) {
        Some(Outlook::SamePolicy)
    } else if case.guaranteed > case.spec.min_improvement && !exceeds {
        Some(Outlook::Guaranteed)
    } else {
        None
    }
}

/// The game of this look.
fn this_game(record: &BoundRecord, spec: &JobSpec, found: &Findings) -> Game {
    match (record.bound.as_str(), spec.kind, spec.looks) {
        ("aimed_betting", ..) => Game::Aimed,
        ("budgeted_betting", ..) => Game::Budget,
        (_, JobKind::Learn, _) => Game::One,
        (_, JobKind::Evaluate, Some(Looks::Once)) => Game::Mixture,
        (_, JobKind::Evaluate, _) => Game::Anytime { controlled: found.controlled },
    }
}

/// The game of a later look at fresh rows.
fn next_game(record: &BoundRecord, spec: &JobSpec, next: NextLook) -> Game {
    match (spec.kind, spec.bound) {
        (_, BoundKind::Auto) if next.independent => Game::Aimed,
        _ if record.bound == "budgeted_betting" => Game::Budget,
        (JobKind::Learn, _) => Game::One,
        (JobKind::Evaluate, _) => Game::Mixture,
    }
}

/// The traffic that the timestamps of the log show.
pub fn rows_per_day(rows: u64, period: Option<Period>) -> Option<f64> {
    const DAY: f64 = 86_400e6;
    let period = period?;
    let days = (period.last as f64 - period.first as f64) / DAY;
    let rows = rows.saturating_sub(1) as f64 / days;
    Some(rows).filter(|rows| (1e-6..=1e12).contains(rows))
}

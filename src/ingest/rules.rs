//! The checks of a single row.

use super::IngestLimits;
use super::errors::IngestError;
use super::row::{Fault, RawRow};
use crate::engine::log::{AGREEMENT_TOLERANCE, SUM_TOLERANCE};
use crate::engine::log::{Outcome, OutcomeKind};
use crate::engine::policy::PolicyParams;
use crate::store::LogLayout;

const MAX_ID_BYTES: usize = 1024;
const MAX_CANDIDATES: usize = 1000;

pub struct Rules {
    n_actions: Option<usize>,
    pub outcome: Outcome,
    pub policy: Option<PolicyParams>,
    pub limits: IngestLimits,
}

/// A row in which everything is as it must be. `propensity` is NaN where the logging policy is
/// still to give it.
pub struct Checked {
    pub layout: LogLayout,
    pub x: Vec<f32>,
    pub action: u32,
    pub cost: f64,
    pub propensity: f64,
    pub full: Vec<f64>,
    pub context_id: Option<String>,
    pub event_id: Option<String>,
    pub candidates: Vec<f64>,
}

impl Rules {
    pub fn new(
        n_actions: Option<usize>,
        outcome: Outcome,
        policy: Option<PolicyParams>,
        limits: IngestLimits,
    ) -> Result<Self, IngestError> {
        if let Some(k) = n_actions.filter(|k| !(2..=limits.actions).contains(k)) {
            let message = format!("{k} is not in [2, {}]", limits.actions);
            return Err(IngestError::Option { field: "n_actions", message });
        }
        if let (Some(k), Some(policy)) = (n_actions, &policy)
            && policy.n_actions() != k
        {
            let message = format!("the policy has {} actions, n_actions says {k}", policy.n_actions());
            return Err(IngestError::Option { field: "logging_policy_id", message });
        }
        Ok(Rules { n_actions, outcome, policy, limits })
    }

    /// K, where something but the actions themselves says it.
    pub fn known_actions(&self, layout: Option<&LogLayout>) -> Option<usize> {
        let policy = || self.policy.as_ref().map(PolicyParams::n_actions);
        self.n_actions.or_else(policy).or(layout.and_then(|layout| layout.full))
    }

    /// Whether the logging policy is one for rows like these.
    pub fn check_policy(&self, layout: &LogLayout) -> Result<(), IngestError> {
        match &self.policy {
            Some(policy) if policy.dim() != layout.dim => {
                let message =
                    format!("the policy is for {} features, the rows have {}", policy.dim(), layout.dim);
                Err(IngestError::Option { field: "logging_policy_id", message })
            }
            _ => Ok(()),
        }
    }
}

/// `layout` is that of the rows before, if there are any.
pub fn check_row(row: RawRow, rules: &Rules, layout: Option<&LogLayout>) -> Result<Checked, Fault> {
    let own = layout_of(&row);
    check_layout(&own, rules, layout)?;
    let cost = outcome(&row, rules)?;
    let action = action(&row, rules, &own)?;
    let x = features(row.x.as_deref().unwrap_or_default())?;
    let full = row.propensities.unwrap_or_default();
    if own.full.is_some() {
        check_full(&full)?;
    }
    let propensity = propensity(row.propensity, full.get(action as usize).copied(), action, rules)?;
    for (name, value) in row.candidates.iter().flatten() {
        if !(0.0..=1.0).contains(value) {
            return Err(Fault::new(format!("candidates.{name}"), format!("{value} is not in [0, 1]")));
        }
    }
    for (field, id) in [("context_id", &row.context_id), ("event_id", &row.event_id)] {
        if id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES) {
            return Err(Fault::new(field, format!("must have 1 to {MAX_ID_BYTES} bytes")));
        }
    }
    let candidates = row.candidates.unwrap_or_default().into_values().collect();
    let (context_id, event_id) = (row.context_id, row.event_id);
    Ok(Checked { layout: own, x, action, cost, propensity, full, context_id, event_id, candidates })
}

fn layout_of(row: &RawRow) -> LogLayout {
    LogLayout {
        dim: row.x.as_ref().map_or(0, Vec::len),
        full: row.propensities.as_ref().map(Vec::len),
        context_ids: row.context_id.is_some(),
        event_ids: row.event_id.is_some(),
        candidates: row.candidates.iter().flat_map(|c| c.keys().cloned()).collect(),
    }
}

fn check_layout(own: &LogLayout, rules: &Rules, first: Option<&LogLayout>) -> Result<(), Fault> {
    if own.dim > rules.limits.dim {
        return Err(Fault::new("x", format!("has {} numbers; at most {} can be", own.dim, rules.limits.dim)));
    }
    if own.candidates.len() > MAX_CANDIDATES {
        let message = format!("names {} candidates; at most {MAX_CANDIDATES} can be", own.candidates.len());
        return Err(Fault::new("candidates", message));
    }
    if let Some(name) = own.candidates.iter().find(|name| name.is_empty() || name.len() > MAX_ID_BYTES) {
        return Err(Fault::new("candidates", format!("{name:?} is no name: 1 to {MAX_ID_BYTES} bytes")));
    }
    if let Some(k) = own.full {
        let known = rules.known_actions(None).or(first.and_then(|first| first.full));
        if let Some(known) = known.filter(|&known| known != k) {
            return Err(Fault::new(
                "propensities",
                format!("has {k} numbers where there are {known} actions"),
            ));
        }
        if !(2..=rules.limits.actions).contains(&k) {
            let message = format!("has {k} numbers; 2 to {} can be", rules.limits.actions);
            return Err(Fault::new("propensities", message));
        }
    }
    let Some(first) = first else { return Ok(()) };
    if own.dim != first.dim {
        return Err(Fault::new("x", format!("has {} numbers, the rows before have {}", own.dim, first.dim)));
    }
    for (field, here, before) in [
        ("propensities", own.full.is_some(), first.full.is_some()),
        ("context_id", own.context_ids, first.context_ids),
        ("event_id", own.event_ids, first.event_ids),
    ] {
        if here != before {
            let message = if here {
                "is here but not in the rows before"
            } else {
                "is missing; the rows before have it"
            };
            return Err(Fault::new(field, message));
        }
    }
    if own.candidates != first.candidates {
        let message = format!(
            "names [{}], the rows before [{}]",
            own.candidates.join(", "),
            first.candidates.join(", ")
        );
        return Err(Fault::new("candidates", message));
    }
    Ok(())
}

fn outcome(row: &RawRow, rules: &Rules) -> Result<f64, Fault> {
    let (field, value, other_field, other) = match rules.outcome.kind {
        OutcomeKind::Cost => ("cost", row.cost, "reward", row.reward),
        OutcomeKind::Reward => ("reward", row.reward, "cost", row.cost),
    };
    if other.is_some() {
        let message =
            format!("the upload says outcome={field}; leave {other_field} out or say outcome={other_field}");
        return Err(Fault::new(other_field, message));
    }
    let value = value.ok_or_else(|| Fault::new(field, "is missing"))?;
    if !rules.outcome.contains(value) {
        let (min, max) = (rules.outcome.min, rules.outcome.max);
        let message = format!("{value} is not in [{min}, {max}]; see outcome_min and outcome_max");
        return Err(Fault::new(field, message));
    }
    Ok(rules.outcome.to_cost(value))
}

fn action(row: &RawRow, rules: &Rules, own: &LogLayout) -> Result<u32, Fault> {
    let action = row.action.ok_or_else(|| Fault::new("action", "is missing"))?;
    let k = rules.known_actions(Some(own)).unwrap_or(rules.limits.actions);
    match u32::try_from(action) {
        Ok(small) if (small as usize) < k => Ok(small),
        _ => Err(Fault::new("action", format!("{action} is not in [0, {k})"))),
    }
}

fn features(x: &[f64]) -> Result<Vec<f32>, Fault> {
    let mut narrow = Vec::with_capacity(x.len());
    for (j, value) in x.iter().enumerate() {
        let small = *value as f32 + 0.0;
        if !small.is_finite() {
            let message = format!("{value} is not a finite single-precision number");
            return Err(Fault::new(format!("x[{j}]"), message));
        }
        narrow.push(small);
    }
    Ok(narrow)
}

fn check_full(full: &[f64]) -> Result<(), Fault> {
    if let Some((a, value)) = full.iter().enumerate().find(|(_, q)| !(0.0..=1.0 + SUM_TOLERANCE).contains(*q))
    {
        return Err(Fault::new(format!("propensities[{a}]"), format!("{value} is not a probability")));
    }
    let sum: f64 = full.iter().sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(Fault::new("propensities", format!("sum to {sum}, not 1")));
    }
    Ok(())
}

fn propensity(logged: Option<f64>, full: Option<f64>, action: u32, rules: &Rules) -> Result<f64, Fault> {
    let value = match (logged, full) {
        (Some(logged), Some(given)) if (given - logged).abs() > AGREEMENT_TOLERANCE * logged => {
            let message = format!("{logged} but propensities[{action}] is {given}");
            return Err(Fault::new("propensity", message));
        }
        (Some(logged), _) => logged,
        // A sum may exceed 1 by rounding, and so may its only part.
        (None, Some(given)) => given.min(1.0),
        (None, None) if rules.policy.is_some() => return Ok(f64::NAN),
        (None, None) => {
            let message = "is missing; log it or propensities, or upload with logging_policy_id";
            return Err(Fault::new("propensity", message));
        }
    };
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else if logged.is_none() {
        Err(Fault::new(format!("propensities[{action}]"), "is 0 for the action that was taken"))
    } else {
        Err(Fault::new("propensity", format!("{value} is not in (0, 1]")))
    }
}

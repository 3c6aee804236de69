//! The checks of a single row.

use std::collections::BTreeMap;

use super::IngestLimits;
use super::errors::IngestError;
use super::row::{Fault, List, RawRow};
use crate::batch::{LogLayout, LogRows};
use guarantor_engine::log::{AGREEMENT_TOLERANCE, SUM_TOLERANCE};
use guarantor_engine::log::{Outcome, OutcomeKind};
use guarantor_engine::policy::PolicyParams;

pub const MAX_ID_BYTES: usize = 1024;
const MAX_CANDIDATES: usize = 1000;

pub struct Rules {
    n_actions: Option<usize>,
    pub outcome: Outcome,
    pub policy: Option<PolicyParams>,
    pub limits: IngestLimits,
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
    /// `full` is the number of propensities in a row.
    pub fn known_actions(&self, full: Option<usize>) -> Option<usize> {
        let policy = || self.policy.as_ref().map(PolicyParams::n_actions);
        self.n_actions.or_else(policy).or(full)
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

/// What a row in which everything is as it must be has beside its lists. `propensity` is NaN where the
/// logging policy is still to give it.
pub struct Checked {
    pub action: u32,
    pub cost: f64,
    pub propensity: f64,
    pub context_id: Option<String>,
    pub event_id: Option<String>,
    pub candidates: BTreeMap<String, f64>,
}

/// `layout` is that of the rows before, if there are any. The lists are appended to the batch; where a
/// fault comes back, some of them may be there already.
pub fn check_row(
    row: RawRow,
    rules: &Rules,
    layout: Option<&LogLayout>,
    to: &mut LogRows,
) -> Result<Checked, Fault> {
    check_layout(&row, rules, layout)?;
    let cost = outcome(&row, rules)?;
    let action = action(&row, rules)?;
    let features = to.x.len();
    if let Some(x) = &row.x {
        x.narrow_into(&mut to.x);
        if let Some(j) = to.x[features..].iter().position(|value| !value.is_finite()) {
            let message = format!("{} is not a finite single-precision number", x.at(j));
            return Err(Fault::new(format!("x[{j}]"), message));
        }
    }
    let before = to.full.len();
    if let Some(full) = &row.propensities {
        full.widen_into(&mut to.full);
        check_full(&to.full[before..])?;
    }
    let full = to.full[before..].get(action as usize).copied();
    let propensity = propensity(row.propensity, full, action, rules)?;
    for (name, value) in row.candidates.iter().flatten() {
        if !(0.0..=1.0).contains(value) {
            return Err(Fault::new(format!("candidates.{name}"), format!("{value} is not in [0, 1]")));
        }
    }
    for (field, id) in [("context_id", &row.context_id), ("event_id", &row.event_id)] {
        if id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES) {
            return Err(wrong_id(field));
        }
    }
    let candidates = row.candidates.unwrap_or_default();
    Ok(Checked { action, cost, propensity, context_id: row.context_id, event_id: row.event_id, candidates })
}

pub fn wrong_id(field: &str) -> Fault {
    Fault::new(field, format!("must have 1 to {MAX_ID_BYTES} bytes"))
}

pub fn layout_of(row: &RawRow) -> LogLayout {
    LogLayout {
        dim: row.x.as_ref().map_or(0, List::len),
        full: row.propensities.as_ref().map(List::len),
        context_ids: row.context_id.is_some(),
        event_ids: row.event_id.is_some(),
        candidates: row.candidates.iter().flat_map(|c| c.keys().cloned()).collect(),
    }
}

fn check_layout(row: &RawRow, rules: &Rules, first: Option<&LogLayout>) -> Result<(), Fault> {
    let dim = row.x.as_ref().map_or(0, List::len);
    let candidates = || row.candidates.iter().flat_map(|named| named.keys());
    if dim > rules.limits.dim {
        return Err(Fault::new("x", format!("has {dim} numbers; at most {} can be", rules.limits.dim)));
    }
    let named = row.candidates.as_ref().map_or(0, BTreeMap::len);
    if named > MAX_CANDIDATES {
        let message = format!("names {named} candidates; at most {MAX_CANDIDATES} can be");
        return Err(Fault::new("candidates", message));
    }
    if let Some(name) = candidates().find(|name| name.is_empty() || name.len() > MAX_ID_BYTES) {
        return Err(Fault::new("candidates", format!("{name:?} is no name: 1 to {MAX_ID_BYTES} bytes")));
    }
    if let Some(k) = row.propensities.as_ref().map(List::len) {
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
    if dim != first.dim {
        return Err(Fault::new("x", format!("has {dim} numbers, the rows before have {}", first.dim)));
    }
    for (field, here, before) in [
        ("propensities", row.propensities.is_some(), first.full.is_some()),
        ("context_id", row.context_id.is_some(), first.context_ids),
        ("event_id", row.event_id.is_some(), first.event_ids),
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
    if !candidates().eq(&first.candidates) {
        let names: Vec<&str> = candidates().map(String::as_str).collect();
        let message =
            format!("names [{}], the rows before [{}]", names.join(", "), first.candidates.join(", "));
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

fn action(row: &RawRow, rules: &Rules) -> Result<u32, Fault> {
    let action = row.action.ok_or_else(|| Fault::new("action", "is missing"))?;
    let full = row.propensities.as_ref().map(List::len);
    let k = rules.known_actions(full).unwrap_or(rules.limits.actions);
    match u32::try_from(action) {
        Ok(small) if (small as usize) < k => Ok(small),
        _ => Err(Fault::new("action", format!("{action} is not in [0, {k})"))),
    }
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

//! The checks of a single row.

use std::collections::BTreeMap;

use guarantor_engine::log::{Outcome, OutcomeKind, check_distribution, disagrees};
use guarantor_engine::policy::PolicyParams;

use crate::IngestLimits;
use crate::batch::{LogLayout, LogRows};
use crate::errors::IngestError;
use crate::row::{NumberList, RawRow, RowFault};

/// The maximum length of an id and of a candidate's name.
pub const MAX_ID_BYTES: usize = 1024;
const MAX_CANDIDATES: usize = 1000;

/// What the rows of a log are checked against.
pub struct Rules {
    n_actions: Option<usize>,
    pub(crate) outcome: Outcome,
    /// The logging policy.
    pub(crate) policy: Option<PolicyParams>,
    pub(crate) limits: IngestLimits,
}

impl Rules {
    /// Rules for a log with `n_actions` actions, if the caller knows their number, logged by `policy`, if the
    /// caller has it.
    ///
    /// # Errors
    /// `n_actions` is out of range, or the policy has a different number of actions.
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
            let message = format!("the policy has {} actions, but n_actions is {k}", policy.n_actions());
            return Err(IngestError::Option { field: "logging_policy_id", message });
        }
        Ok(Rules { n_actions, outcome, policy, limits })
    }

    /// K, if it is known from something other than the logged actions. `full` is the number of propensities
    /// in a row.
    pub(crate) fn known_actions(&self, full: Option<usize>) -> Option<usize> {
        let policy = || self.policy.as_ref().map(PolicyParams::n_actions);
        self.n_actions.or_else(policy).or(full)
    }

    /// Checks that the logging policy has as many features as the rows.
    pub(crate) fn check_policy(&self, layout: &LogLayout) -> Result<(), IngestError> {
        match &self.policy {
            Some(policy) if policy.dim() != layout.dim => {
                let message =
                    format!("the policy has {} features, but the rows have {}", policy.dim(), layout.dim);
                Err(IngestError::Option { field: "logging_policy_id", message })
            }
            _ => Ok(()),
        }
    }
}

/// Checks a row and appends it to the batch `to`. `layout` is that of the earlier rows, if there are any.
///
/// Its propensity in the batch is NaN if the logging policy still has to supply it. If a fault is
/// returned, a part of the row may be in the batch; the caller truncates the batch.
pub fn check_row(
    row: RawRow,
    rules: &Rules,
    layout: Option<&LogLayout>,
    to: &mut LogRows,
) -> Result<(), RowFault> {
    check_layout(&row, rules, layout)?;
    let cost = outcome(&row, rules)?;
    let action = action(&row, rules)?;
    let features = to.x.len();
    if let Some(x) = &row.x {
        x.narrow_into(&mut to.x);
        if let Some(j) = to.x[features..].iter().position(|value| !value.is_finite()) {
            let message = format!("{} is not a finite single-precision number", x.at(j));
            return Err(RowFault::new(format!("x[{j}]"), message));
        }
    }
    let before = to.full.len();
    if let Some(full) = &row.propensities {
        full.widen_into(&mut to.full);
        check_distribution(&to.full[before..]).map_err(|(at, message)| {
            let field = at.map_or("propensities".to_owned(), |a| format!("propensities[{a}]"));
            RowFault::new(field, message)
        })?;
    }
    let full = to.full[before..].get(action as usize).copied();
    let propensity = propensity(row.propensity, full, action, rules)?;
    for (name, value) in row.candidates.iter().flatten() {
        if !(0.0..=1.0).contains(value) {
            return Err(RowFault::new(format!("candidates.{name}"), format!("{value} is not in [0, 1]")));
        }
    }
    for (field, id) in [("context_id", &row.context_id), ("event_id", &row.event_id)] {
        if id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES) {
            return Err(wrong_id(field));
        }
    }
    to.actions.push(action);
    to.costs.push(cost);
    to.propensities.push(propensity);
    to.context_ids.extend(row.context_id);
    to.event_ids.extend(row.event_id);
    let candidates = row.candidates.unwrap_or_default();
    to.candidates.resize_with(candidates.len(), Vec::new);
    for (column, value) in to.candidates.iter_mut().zip(candidates.into_values()) {
        column.push(value);
    }
    Ok(())
}

/// The fault of an id that is empty or too long.
pub fn wrong_id(field: &str) -> RowFault {
    RowFault::new(field, format!("must have 1 to {MAX_ID_BYTES} bytes"))
}

/// The layout of a log that starts with this row.
pub fn layout_of(row: &RawRow) -> LogLayout {
    LogLayout {
        dim: row.x.as_ref().map_or(0, NumberList::len),
        full: row.propensities.as_ref().map(NumberList::len),
        context_ids: row.context_id.is_some(),
        event_ids: row.event_id.is_some(),
        candidates: row.candidates.iter().flat_map(|c| c.keys().cloned()).collect(),
    }
}

fn check_layout(row: &RawRow, rules: &Rules, first: Option<&LogLayout>) -> Result<(), RowFault> {
    let dim = row.x.as_ref().map_or(0, NumberList::len);
    let candidates = || row.candidates.iter().flat_map(|named| named.keys());
    if dim > rules.limits.dim {
        return Err(RowFault::new("x", format!("has {dim} numbers; the maximum is {}", rules.limits.dim)));
    }
    let named = row.candidates.as_ref().map_or(0, BTreeMap::len);
    if named > MAX_CANDIDATES {
        let message = format!("has {named} candidates; the maximum is {MAX_CANDIDATES}");
        return Err(RowFault::new("candidates", message));
    }
    if let Some(name) = candidates().find(|name| name.is_empty() || name.len() > MAX_ID_BYTES) {
        return Err(RowFault::new(
            "candidates",
            format!("{name:?} is not a valid name; names have 1 to {MAX_ID_BYTES} bytes"),
        ));
    }
    if let Some(k) = row.propensities.as_ref().map(NumberList::len) {
        let known = rules.known_actions(None).or(first.and_then(|first| first.full));
        if let Some(known) = known.filter(|&known| known != k) {
            return Err(RowFault::new(
                "propensities",
                format!("has {k} numbers, but there are {known} actions"),
            ));
        }
        if !(2..=rules.limits.actions).contains(&k) {
            let message = format!("has {k} numbers; it must have 2 to {}", rules.limits.actions);
            return Err(RowFault::new("propensities", message));
        }
    }
    let Some(first) = first else { return Ok(()) };
    if dim != first.dim {
        return Err(RowFault::new("x", format!("has {dim} numbers, but earlier rows have {}", first.dim)));
    }
    for (field, here, before) in [
        ("propensities", row.propensities.is_some(), first.full.is_some()),
        ("context_id", row.context_id.is_some(), first.context_ids),
        ("event_id", row.event_id.is_some(), first.event_ids),
    ] {
        if here != before {
            let message = if here {
                "is present, but earlier rows do not have it"
            } else {
                "is missing, but earlier rows have it"
            };
            return Err(RowFault::new(field, message));
        }
    }
    if !candidates().eq(&first.candidates) {
        let names: Vec<&str> = candidates().map(String::as_str).collect();
        let message =
            format!("has [{}], but earlier rows have [{}]", names.join(", "), first.candidates.join(", "));
        return Err(RowFault::new("candidates", message));
    }
    Ok(())
}

fn outcome(row: &RawRow, rules: &Rules) -> Result<f64, RowFault> {
    let (field, value, other_field, other) = match rules.outcome.kind {
        OutcomeKind::Cost => ("cost", row.cost, "reward", row.reward),
        OutcomeKind::Reward => ("reward", row.reward, "cost", row.cost),
    };
    if other.is_some() {
        let message = format!(
            "is present, but the upload says outcome={field}; remove it, or upload with outcome={other_field}"
        );
        return Err(RowFault::new(other_field, message));
    }
    let value = value.ok_or_else(|| RowFault::new(field, "is missing"))?;
    if !rules.outcome.contains(value) {
        let (min, max) = (rules.outcome.min, rules.outcome.max);
        let message = format!(
            "{value} is not in [{min}, {max}]; if the range is different, set outcome_min and outcome_max"
        );
        return Err(RowFault::new(field, message));
    }
    Ok(rules.outcome.to_cost(value))
}

fn action(row: &RawRow, rules: &Rules) -> Result<u32, RowFault> {
    let action = row.action.ok_or_else(|| RowFault::new("action", "is missing"))?;
    let full = row.propensities.as_ref().map(NumberList::len);
    let k = rules.known_actions(full).unwrap_or(rules.limits.actions);
    match u32::try_from(action) {
        Ok(small) if (small as usize) < k => Ok(small),
        _ => Err(RowFault::new("action", format!("{action} is not in [0, {k})"))),
    }
}

fn propensity(logged: Option<f64>, full: Option<f64>, action: u32, rules: &Rules) -> Result<f64, RowFault> {
    let value = match (logged, full) {
        (Some(logged), Some(given)) if disagrees(logged, given) => {
            let message = format!("is {logged}, but propensities[{action}] is {given}");
            return Err(RowFault::new("propensity", message));
        }
        (Some(logged), _) => logged,
        // A sum may exceed 1 by rounding, and so may its only nonzero term.
        (None, Some(given)) => given.min(1.0),
        (None, None) if rules.policy.is_some() => return Ok(f64::NAN),
        (None, None) => {
            let message = "is missing; log it, or propensities, or upload with logging_policy_id";
            return Err(RowFault::new("propensity", message));
        }
    };
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else if logged.is_none() {
        Err(RowFault::new(format!("propensities[{action}]"), "is 0 for the logged action"))
    } else {
        Err(RowFault::new("propensity", format!("{value} is not in (0, 1]")))
    }
}

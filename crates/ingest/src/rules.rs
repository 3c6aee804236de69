//! The checks of a single row.

use std::collections::BTreeMap;

use guarantor_engine::log::{
    ActionSets, FeatureSpace, Logging, NamedOutcome, Outcome, Repetitions, agree, check_distribution,
    disagrees,
};
use guarantor_engine::policy::PolicyParams;

use serde::{Deserialize, Serialize};

use crate::IngestLimits;
use crate::action_set::RawSet;
use crate::batch::{LogLayout, LogRows};
use crate::errors::IngestError;
use crate::layout::check_layout;
use crate::outcomes::{Cut, push_outcomes};
use crate::row::{NumberList, RawRow, RowFault};

/// The maximum length of an id and of a candidate's name.
pub const MAX_ID_BYTES: usize = 1024;
/// The maximum length of a policy version.
pub const MAX_VERSION_BYTES: usize = 256;

/// What the caller states about a log as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogOptions {
    /// Whether one policy logged every row.
    pub logging: Logging,
    /// What rows with the same `context_id` are.
    pub repetitions: Repetitions,
    /// Whether propensities with few digits are exact, and not rounded.
    pub exact_propensities: bool,
}

/// What the rows of a log are checked against.
pub struct Rules {
    n_actions: Option<usize>,
    /// Whether `n_actions` was stated, and not read off earlier rows.
    declared: bool,
    /// Whether the earlier rows of the log carried their propensities.
    pub(crate) earlier_logged: bool,
    /// The primary outcome.
    pub(crate) outcome: Outcome,
    /// All outcomes, if they have names; first the primary one.
    pub(crate) outcomes: Vec<NamedOutcome>,
    /// The logging policy.
    pub(crate) policy: Option<PolicyParams>,
    pub(crate) limits: IngestLimits,
    pub(crate) options: LogOptions,
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
            && !policy.plays_sets()
            && policy.n_actions() != k
        {
            let message = format!("the policy has {} actions, but n_actions is {k}", policy.n_actions());
            return Err(IngestError::Option { field: "logging_policy_id", message });
        }
        let options = LogOptions::default();
        let outcomes = Vec::new();
        Ok(Rules {
            n_actions,
            declared: true,
            earlier_logged: true,
            outcome,
            outcomes,
            policy,
            limits,
            options,
        })
    }

    /// The same rules for a log whose rows have these outcomes; first the primary one. If there are none, rows have
    /// one outcome without a name.
    pub fn with_outcomes(self, outcomes: Vec<NamedOutcome>) -> Self {
        Rules { outcome: outcomes.first().map_or(self.outcome, |primary| primary.outcome), outcomes, ..self }
    }

    /// The same rules for a log of which the caller states this.
    pub fn with_options(self, options: LogOptions) -> Self {
        Rules { options, ..self }
    }

    /// The same rules for a log whose number of actions was stated, or else read off its earlier rows.
    pub fn with_actions_declared(self, declared: bool) -> Self {
        Rules { declared, ..self }
    }

    /// The same rules for a log whose earlier rows carried their propensities, or did not.
    pub fn with_earlier_logged(self, earlier_logged: bool) -> Self {
        Rules { earlier_logged, ..self }
    }

    /// K, if it was stated. `full` is the number of propensities in a row.
    pub(crate) fn stated_actions(&self, full: Option<usize>) -> Option<usize> {
        self.n_actions.filter(|_| self.declared).or_else(|| self.policy_actions()).or(full)
    }

    /// K, if it is known from something other than the logged actions. `full` is the number of propensities
    /// in a row.
    pub(crate) fn known_actions(&self, full: Option<usize>) -> Option<usize> {
        self.n_actions.or_else(|| self.policy_actions()).or(full)
    }

    /// The number of actions of the logging policy, unless it plays over the set that it is given.
    fn policy_actions(&self) -> Option<usize> {
        self.policy.as_ref().filter(|policy| !policy.plays_sets()).map(PolicyParams::n_actions)
    }

    /// Checks options that depend on the form of the rows, for a log that starts with rows of this layout.
    pub(crate) fn check_first(&self, layout: &LogLayout) -> Result<(), IngestError> {
        let fault = |field, message: &str| Err(IngestError::Option { field, message: message.into() });
        if layout.sets.is_some() && self.n_actions.is_some() {
            return fault(
                "n_actions",
                "cannot be set for this log: every row has its own actions and says how many there are",
            );
        }
        if layout.sets.is_some() && self.options.repetitions == Repetitions::Designed {
            return fault(
                "repetitions",
                "is designed, but every row has its own actions, so that it is a decision of its own; upload with \
                 repetitions=decisions",
            );
        }
        self.check_policy(layout)
    }

    /// Checks that the logging policy reads the features that the rows have.
    fn check_policy(&self, layout: &LogLayout) -> Result<(), IngestError> {
        let Some(policy) = &self.policy else { return Ok(()) };
        let message = match (layout.sets, policy.plays_sets()) {
            (None, false) if policy.dim() == layout.dim => return Ok(()),
            (None, false) => {
                format!("the policy has {} features, but the rows have {}", policy.dim(), layout.dim)
            }
            (None, true) => {
                "the policy plays over the actions of each row, but the rows have no actions of their own".into()
            }
            (Some(_), false) => {
                "the policy has one set of actions, but every row has its own; store the policy that scored them, or \
                 log propensities"
                    .into()
            }
            (Some(features), true) if policy.set_features().is_none_or(|read| read == features) => return Ok(()),
            (Some(features), true) => format!(
                "the policy reads {}, but the rows have {}; hash_dims must be that of the policy",
                described(policy.set_features().unwrap_or_default()),
                described(features)
            ),
        };
        Err(IngestError::Option { field: "logging_policy_id", message })
    }
}

/// The features of a log with action sets, for messages.
fn described(features: ActionSets) -> String {
    let one = |space: FeatureSpace| match space {
        FeatureSpace::None => "no features".to_owned(),
        FeatureSpace::List { dim } => format!("lists of {dim} numbers"),
        FeatureSpace::Named { dim } => format!("named features in {dim} dimensions"),
    };
    format!("requests with {} and actions with {}", one(features.x), one(features.actions))
}

/// Checks a row and appends it to the batch `to`. `layout` is that of the earlier rows, if there are any.
///
/// Its propensity in the batch is NaN if the logging policy still has to supply it. Returns which of its outcomes were
/// cut. If a fault is returned, a part of the row may be in the batch; the caller truncates the batch.
pub fn check_row(
    row: RawRow,
    rules: &Rules,
    layout: Option<&LogLayout>,
    to: &mut LogRows,
) -> Result<Cut, RowFault> {
    check_layout(&row, rules, layout)?;
    let (cost, cut) = push_outcomes(&row, rules, to)?;
    let action = action(&row, rules)?;
    let features = to.x.len();
    if let Some(set) = &row.set {
        push_set(&row, set, rules, to)?;
    } else if let Some(x) = &row.x {
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
    for (field, id) in [("context_id", &row.context_id), ("event_id", &row.event_id)] {
        if id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES) {
            return Err(wrong_id(field));
        }
    }
    if row.policy_version.as_ref().is_some_and(|v| v.is_empty() || v.len() > MAX_VERSION_BYTES) {
        return Err(wrong_id("policy_version"));
    }
    push_candidates(&row, action, to)?;
    to.actions.push(action);
    to.costs.push(cost);
    to.propensities.push(propensity);
    to.context_ids.extend(row.context_id);
    to.event_ids.extend(row.event_id);
    to.timestamps.extend(row.timestamp);
    to.versions.extend(row.policy_version);
    Ok(cut)
}

/// Appends the actions of a row, and its features.
fn push_set(row: &RawRow, set: &RawSet, rules: &Rules, to: &mut LogRows) -> Result<(), RowFault> {
    let at = to.sets.x.len();
    match (&row.x, &row.named) {
        (Some(x), _) => {
            let mut numbers = Vec::with_capacity(x.len());
            x.narrow_into(&mut numbers);
            if let Some(j) = numbers.iter().position(|value| !value.is_finite()) {
                let message = format!("{} is not a finite single-precision number", x.at(j));
                return Err(RowFault::new(format!("x[{j}]"), message));
            }
            to.sets.x.push((0..).zip(numbers));
        }
        (None, Some(named)) => to.sets.x.push(named.pairs.iter().copied()),
        (None, None) => to.sets.x.push([]),
    }
    let x = to.sets.x.vector(at).values;
    if !x.iter().all(|value| value.is_finite()) {
        let message = "has features of one dimension whose sum is not a finite single-precision number";
        return Err(RowFault::new("x", message));
    }
    let (non_zeros, most) = (x.len() + set.actions.non_zeros(), rules.limits.row_non_zeros);
    if non_zeros > most {
        let message =
            format!("has {non_zeros} features that are not 0, with those of x; the maximum is {most}");
        return Err(RowFault::new("actions", message));
    }
    to.sets.actions.extend_from(&set.actions, 0..set.len());
    to.sets.end_row();
    to.action_ids.extend_from_slice(&set.ids);
    Ok(())
}

/// Appends what the candidates would have done. The probability of the logged action is taken from π(·|x) if the row
/// does not state it.
fn push_candidates(row: &RawRow, action: u32, to: &mut LogRows) -> Result<(), RowFault> {
    let (empty, none) = (BTreeMap::new(), BTreeMap::new());
    let played = row.candidates.as_ref().unwrap_or(&empty);
    let full = row.candidate_propensities.as_ref().unwrap_or(&none);
    to.candidate_full.resize_with(full.len(), Vec::new);
    let mut of_full = Vec::with_capacity(full.len());
    for ((name, list), column) in full.iter().zip(&mut to.candidate_full) {
        let before = column.len();
        list.widen_into(column);
        of_full.push(check_candidate(name, &column[before..], action, played.get(name).copied())?);
    }
    let (mut of_full, mut at) = (full.keys().zip(of_full).peekable(), 0);
    let mut push = |value: f64| {
        if to.candidates.len() <= at {
            to.candidates.push(Vec::new());
        }
        to.candidates[at].push(value);
        at += 1;
    };
    for (name, &value) in played {
        if !(0.0..=1.0).contains(&value) {
            return Err(RowFault::new(format!("candidates.{name}"), format!("{value} is not in [0, 1]")));
        }
        while let Some((_, taken)) = of_full.next_if(|(other, _)| *other < name) {
            push(taken);
        }
        of_full.next_if(|(other, _)| *other == name);
        push(value);
    }
    of_full.for_each(|(_, taken)| push(taken));
    Ok(())
}

/// Checks π(·|x) of a candidate, and returns its probability of the logged action.
pub fn check_candidate(name: &str, full: &[f64], action: u32, played: Option<f64>) -> Result<f64, RowFault> {
    let field = || format!("candidate_propensities.{name}");
    check_distribution(full).map_err(|(at, message)| {
        RowFault::new(at.map_or_else(field, |a| format!("{}[{a}]", field())), message)
    })?;
    let given = full.get(action as usize).copied().unwrap_or(0.0).min(1.0);
    match played {
        Some(played) if !agree(&[played], &[given]) => {
            let message = format!("is {played}, but {}[{action}] is {given}", field());
            Err(RowFault::new(format!("candidates.{name}"), message))
        }
        _ => Ok(given),
    }
}

/// The fault of an id, or of a version, that is empty or too long.
pub fn wrong_id(field: &str) -> RowFault {
    let most = if field == "policy_version" { MAX_VERSION_BYTES } else { MAX_ID_BYTES };
    RowFault::new(field, format!("must have 1 to {most} bytes"))
}

fn action(row: &RawRow, rules: &Rules) -> Result<u32, RowFault> {
    let action = row.action.ok_or_else(|| RowFault::new("action", "is missing"))?;
    let lists = row.candidate_propensities.iter().flat_map(|full| full.values());
    let full = row.propensities.iter().chain(lists).next().map(NumberList::len);
    let k = match &row.set {
        Some(set) => set.len(),
        None => rules.known_actions(full).unwrap_or(rules.limits.actions),
    };
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

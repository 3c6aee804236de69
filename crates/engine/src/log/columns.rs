//! A log as columns in memory, and its checks.

use super::all;
use super::logging::{Logging, Repetitions};
use super::outcome::{NamedOutcome, Outcome};
use super::precision::Precision;
use super::sets::{ActionSets, Places, Sets};
use crate::error::RowError;

/// A log as columns. Errors count rows from 1.
#[derive(Debug, Clone)]
pub struct Columns {
    /// K, the number of actions; that of the largest set if every row has its own.
    pub n_actions: usize,
    /// p, the number of features.
    pub dim: usize,
    /// The features: rows × p, row-major.
    pub x: Vec<f32>,
    /// The logged action of each row.
    pub actions: Vec<u32>,
    /// The cost of each row, in [-1, 0]: already mapped by `outcome`.
    pub costs: Vec<f64>,
    /// All outcomes, if rows have several with names. The first is the primary one, `outcome`, with `costs`.
    pub named_outcomes: Vec<NamedOutcome>,
    /// The costs of the other outcomes, in the order of `named_outcomes`.
    pub other_costs: Vec<Vec<f64>>,
    /// π0(a|x) of the logged action of each row.
    pub propensities: Vec<f64>,
    /// π0(·|x): rows × K, row-major. If every row has its own actions, one number for each of them.
    pub full: Option<Vec<f64>>,
    /// The context of each row: any number that the rows of one context have in common.
    pub contexts: Option<Vec<u64>>,
    /// Each logged candidate by name, with its π(a|x) of the logged action of each row.
    pub candidates: Vec<(String, Vec<f64>)>,
    /// π(·|x) of each candidate, rows × K and row-major, if the log carries it; in the order of `candidates`,
    /// or empty if the log carries none.
    pub candidate_full: Vec<Option<Vec<f64>>>,
    /// The kind and range of the caller's outcomes.
    pub outcome: Outcome,
    /// Whether one policy logged every row.
    pub logging: Logging,
    /// What rows of one context are.
    pub repetitions: Repetitions,
    /// When each row was logged, in microseconds. It decides the order of arrival; rows with equal times keep
    /// their order. Without it, the order of the rows decides.
    pub timestamps: Option<Vec<i64>>,
    /// The policy version of each row, as a position in `version_names`.
    pub versions: Option<Vec<u32>>,
    /// The names of the policy versions.
    pub version_names: Vec<String>,
    /// Whether the number of actions was stated.
    pub actions_declared: bool,
    /// Whether every row carried its propensity.
    pub propensities_logged: bool,
    /// Whether the caller states that the probabilities are those that were drawn with, to the last digit.
    pub exact_propensities: bool,
    /// How precisely the propensities were written.
    pub precision: Precision,
    /// How precisely each candidate's probabilities were written; empty if all have full precision.
    pub candidate_precision: Vec<Precision>,
    /// Whether the log is known to be uniform: every propensity is 1/K.
    pub uniform: bool,
    /// The actions of each row and their features, if every row has its own.
    pub sets: Option<Sets>,
    /// The features of these sets.
    pub set_features: ActionSets,
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            n_actions: 0,
            dim: 0,
            x: Vec::new(),
            actions: Vec::new(),
            costs: Vec::new(),
            named_outcomes: Vec::new(),
            other_costs: Vec::new(),
            propensities: Vec::new(),
            full: None,
            contexts: None,
            candidates: Vec::new(),
            candidate_full: Vec::new(),
            outcome: Outcome::default(),
            logging: Logging::default(),
            repetitions: Repetitions::default(),
            timestamps: None,
            versions: None,
            version_names: Vec::new(),
            actions_declared: true,
            propensities_logged: true,
            exact_propensities: false,
            precision: Precision::default(),
            candidate_precision: Vec::new(),
            uniform: false,
            sets: None,
            set_features: ActionSets::default(),
        }
    }
}

/// How far the sum of a row's π0(·|x) may be from 1, besides what rounding its numbers to three decimals explains.
const SUM_TOLERANCE: f64 = 1e-3;
/// The most that rounding explains.
const MAX_ROUNDING: f64 = 0.02;

/// How far the sum of K probabilities may be from 1.
fn sum_tolerance(k: usize) -> f64 {
    SUM_TOLERANCE + (5e-4 * k as f64).min(MAX_ROUNDING)
}
/// The largest relative difference between two values of one propensity that counts as rounding.
pub const AGREEMENT_TOLERANCE: f64 = 1e-4;

impl Columns {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.actions.len()
    }

    /// Where the numbers of each row are in columns that have one number per action.
    pub fn places(&self) -> Places<'_> {
        Places::new(self.sets.as_ref(), self.n_actions)
    }

    /// Checks all columns.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), RowError> {
        let n = self.rows();
        let lengths = [
            ("x", self.x.len(), n * self.dim),
            ("cost", self.costs.len(), n),
            ("propensity", self.propensities.len(), n),
        ];
        for (field, got, want) in lengths {
            if got != want {
                return Err(fault(0, field, format!("has {got} values; expected {want}")));
            }
        }
        if n == 0 {
            return Err(fault(0, "rows", "the log is empty".into()));
        }
        if self.n_actions < 2 {
            let message = "a decision needs at least two actions".into();
            return Err(fault(0, "n_actions", message));
        }
        if self.sets.as_ref().is_some_and(|sets| sets.rows() != n || sets.largest() > self.n_actions) {
            return Err(fault(0, "actions", "the action sets do not fit the rows".into()));
        }
        let numbers = self.places().first(n);
        if self.full.as_ref().is_some_and(|f| f.len() != numbers)
            || self.contexts.as_ref().is_some_and(|c| c.len() != n)
            || self.candidates.iter().any(|(_, c)| c.len() != n)
            || self.other_costs.len() != self.named_outcomes.len().saturating_sub(1)
            || self.other_costs.iter().any(|costs| costs.len() != n)
            || self.named_outcomes.first().is_some_and(|primary| primary.outcome != self.outcome)
            || self.timestamps.as_ref().is_some_and(|t| t.len() != n)
            || self.versions.as_ref().is_some_and(|v| v.len() != n)
            || self.versions.iter().flatten().any(|&v| v as usize >= self.version_names.len())
            || !(self.candidate_full.is_empty() || self.candidate_full.len() == self.candidates.len())
            || self.candidate_full.iter().flatten().any(|f| f.len() != numbers)
        {
            return Err(fault(0, "columns", "an optional column does not have one entry per row".into()));
        }
        if self.in_range() {
            return Ok(());
        }
        (0..n).try_for_each(|i| self.check_row(i))
    }

    /// Whether all numbers are in their ranges, column by column; false if there are columns that must be checked row by row.
    fn in_range(&self) -> bool {
        let rows = self.full.is_some()
            || self.sets.is_some()
            || !self.other_costs.is_empty()
            || self.candidate_full.iter().any(Option::is_some);
        let k = self.n_actions;
        !rows
            && all(self.actions.iter(), |&action| (action as usize) < k)
            && all(self.costs.iter(), |cost| (*cost >= -1.0) & (*cost <= 0.0))
            && all(self.propensities.iter(), |p| (*p > 0.0) & (*p <= 1.0))
            && all(self.x.iter(), |x| x.is_finite())
            && self.candidates.iter().all(|(_, played)| all(played.iter(), |p| (*p >= 0.0) & (*p <= 1.0)))
    }

    /// Prepares checked columns for bounds (docs/math.md#rounding): scales every π(·|x) to sum to 1, takes
    /// the logged action's probability from it, and replaces rounded probabilities by the ends of their
    /// intervals at which bounds are valid.
    pub fn settle(&mut self) {
        let places = Places::new(self.sets.as_ref(), self.n_actions);
        // Ends of intervals are those of the numbers as written: scaling can move a number out of its interval.
        if self.precision.is_coarse() && !self.uniform {
            if let Some(full) = &self.full {
                take_logged(&mut self.propensities, full, &self.actions, places);
            }
            self.propensities.iter_mut().for_each(|p| *p = self.precision.upper(*p));
            self.full.iter_mut().for_each(|full| normalize(full, self.actions.len(), places));
        } else if let Some(full) = &mut self.full {
            normalize(full, self.actions.len(), places);
            take_logged(&mut self.propensities, full, &self.actions, places);
        }
        if self.uniform {
            let size = |i: usize| places.size(i) as f64;
            self.propensities.iter_mut().enumerate().for_each(|(i, p)| *p = 1.0 / size(i));
        }
        self.candidate_full.resize(self.candidates.len(), None);
        for (i, ((_, played), full)) in self.candidates.iter_mut().zip(&mut self.candidate_full).enumerate() {
            let precision = self.candidate_precision.get(i).copied().unwrap_or_default();
            if precision.is_coarse() {
                if let Some(full) = full {
                    take_logged(played, full, &self.actions, places);
                }
                played.iter_mut().for_each(|p| *p = precision.lower(*p));
                full.iter_mut().for_each(|full| normalize(full, self.actions.len(), places));
            } else if let Some(full) = full {
                normalize(full, self.actions.len(), places);
                take_logged(played, full, &self.actions, places);
            }
        }
    }

    /// The rows in order of arrival, or `None` if they are in that order already.
    pub fn arrival_order(&self) -> Option<Vec<u32>> {
        let times = self.timestamps.as_ref().filter(|t| !t.is_sorted())?;
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        order.sort_by_key(|&row| times[row as usize]);
        Some(order)
    }

    /// Puts the rows into this order.
    pub fn reorder(&mut self, order: &[u32]) {
        let sets = self.sets.take();
        let places = Places::new(sets.as_ref(), self.n_actions);
        permute(&mut self.x, order, self.dim);
        permute(&mut self.actions, order, 1);
        permute(&mut self.costs, order, 1);
        self.other_costs.iter_mut().for_each(|costs| permute(costs, order, 1));
        permute(&mut self.propensities, order, 1);
        self.full.iter_mut().for_each(|full| permute_lists(full, order, places));
        self.contexts.iter_mut().for_each(|contexts| permute(contexts, order, 1));
        self.candidates.iter_mut().for_each(|(_, played)| permute(played, order, 1));
        self.candidate_full.iter_mut().flatten().for_each(|full| permute_lists(full, order, places));
        self.timestamps.iter_mut().for_each(|times| permute(times, order, 1));
        self.versions.iter_mut().for_each(|versions| permute(versions, order, 1));
        self.sets = sets.map(|sets| sets.reordered(order));
    }

    fn check_row(&self, i: usize) -> Result<(), RowError> {
        let action = self.actions[i] as usize;
        let size = self.places().size(i);
        if action >= size {
            let message = format!("{action} is not in [0, {size})");
            return Err(fault(i + 1, "action", message));
        }
        let cost = self.costs[i];
        if !(-1.0..=0.0).contains(&cost) {
            return Err(fault(i + 1, "cost", format!("{cost} is not in [-1, 0]")));
        }
        for (named, costs) in self.named_outcomes.iter().skip(1).zip(&self.other_costs) {
            if !(-1.0..=0.0).contains(&costs[i]) {
                let field = format!("outcomes.{}", named.name);
                return Err(fault(i + 1, &field, format!("{} is not in [-1, 0]", costs[i])));
            }
        }
        let propensity = self.propensities[i];
        if !(propensity > 0.0 && propensity <= 1.0) {
            return Err(fault(i + 1, "propensity", format!("{propensity} is not in (0, 1]")));
        }
        let x = &self.x[i * self.dim..(i + 1) * self.dim];
        if let Some(j) = x.iter().position(|v| !v.is_finite()) {
            return Err(fault(i + 1, &format!("x[{j}]"), format!("{} is not finite", x[j])));
        }
        if let Some(full) = &self.full {
            check_full(i + 1, &full[self.places().of(i)], action, propensity)?;
        }
        for (name, values) in &self.candidates {
            if !(0.0..=1.0).contains(&values[i]) {
                let message = format!("{} is not in [0, 1]", values[i]);
                return Err(fault(i + 1, &format!("candidates.{name}"), message));
            }
        }
        Ok(())
    }
}

/// Scales every distribution over the actions of a row to sum to 1: numbers that were rounded do so only nearly.
fn normalize(full: &mut [f64], rows: usize, places: Places) {
    for i in 0..rows {
        let pi = &mut full[places.of(i)];
        let total: f64 = pi.iter().sum();
        pi.iter_mut().for_each(|p| *p /= total);
    }
}

/// Replaces each logged action's probability by that of its distribution.
fn take_logged(logged: &mut [f64], full: &[f64], actions: &[u32], places: Places) {
    for (i, (logged, &action)) in logged.iter_mut().zip(actions).enumerate() {
        *logged = full[places.of(i)][action as usize];
    }
}

fn permute_lists(values: &mut Vec<f64>, order: &[u32], places: Places) {
    let sorted = order.iter().flat_map(|&row| &values[places.of(row as usize)]).copied().collect();
    *values = sorted;
}

fn permute<T: Copy>(values: &mut Vec<T>, order: &[u32], width: usize) {
    let mut sorted = Vec::with_capacity(values.len());
    for &row in order {
        sorted.extend_from_slice(&values[row as usize * width..(row as usize + 1) * width]);
    }
    *values = sorted;
}

/// Whether two rows of one context can have had the same π0(·|x), up to rounding.
pub fn agree(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= AGREEMENT_TOLERANCE * a.max(*b))
}

/// Whether a logged propensity differs from `given` by more than rounding.
pub fn disagrees(logged: f64, given: f64) -> bool {
    (given - logged).abs() > AGREEMENT_TOLERANCE * logged
}

/// Whether a number can be a probability, up to rounding.
pub fn is_probability(value: f64) -> bool {
    (0.0..=1.0 + SUM_TOLERANCE).contains(&value)
}

/// Checks that π0(·|x) is a distribution, up to rounding.
///
/// # Errors
/// The index of the number that is not a probability, if it is one number, and what is wrong.
pub fn check_distribution(full: &[f64]) -> Result<(), (Option<usize>, String)> {
    if let Some(a) = full.iter().position(|&q| !is_probability(q)) {
        return Err((Some(a), format!("{} is not a probability", full[a])));
    }
    let sum: f64 = full.iter().sum();
    if (sum - 1.0).abs() > sum_tolerance(full.len()) {
        let message =
            format!("sum to {sum}, not 1, which rounding to three decimals does not explain; log all digits");
        return Err((None, message));
    }
    Ok(())
}

/// Checks a row's π0(·|x), and that it agrees with the logged propensity.
///
/// # Errors
/// The first field that is wrong.
pub fn check_full(row: usize, full: &[f64], action: usize, propensity: f64) -> Result<(), RowError> {
    check_distribution(full).map_err(|(at, message)| {
        let field = at.map_or("propensities".to_owned(), |a| format!("propensities[{a}]"));
        fault(row, &field, message)
    })?;
    let given = full[action];
    if disagrees(propensity, given) {
        let message = format!("is {propensity}, but propensities[{action}] is {given}");
        return Err(fault(row, "propensity", message));
    }
    Ok(())
}

fn fault(row: usize, field: &str, message: String) -> RowError {
    RowError { row: row as u64, field: field.into(), message }
}

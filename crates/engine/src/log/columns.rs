//! A log as columns in memory, and its checks.

use super::outcome::Outcome;
use crate::error::RowError;

/// A log as columns. Errors count rows from 1.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// K, the number of actions.
    pub n_actions: usize,
    /// p, the number of features.
    pub dim: usize,
    /// The features: rows × p, row-major.
    pub x: Vec<f32>,
    /// The logged action of each row.
    pub actions: Vec<u32>,
    /// The cost of each row, in [-1, 0]: already mapped by `outcome`.
    pub costs: Vec<f64>,
    /// π0(a|x) of the logged action of each row.
    pub propensities: Vec<f64>,
    /// π0(·|x): rows × K, row-major.
    pub full: Option<Vec<f64>>,
    /// The context of each row: any number that the rows of one context have in common.
    pub contexts: Option<Vec<u64>>,
    /// Each logged candidate by name, with its π(a|x) of the logged action of each row.
    pub candidates: Vec<(String, Vec<f64>)>,
    /// The kind and range of the caller's outcomes.
    pub outcome: Outcome,
}

/// How far the sum of a row's π0(·|x) may be from 1.
const SUM_TOLERANCE: f64 = 1e-3;
/// The largest relative difference between two values of one propensity that counts as rounding.
pub const AGREEMENT_TOLERANCE: f64 = 1e-4;

impl Columns {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.actions.len()
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
        if self.full.as_ref().is_some_and(|f| f.len() != n * self.n_actions)
            || self.contexts.as_ref().is_some_and(|c| c.len() != n)
            || self.candidates.iter().any(|(_, c)| c.len() != n)
        {
            return Err(fault(0, "columns", "an optional column does not have one entry per row".into()));
        }
        (0..n).try_for_each(|i| self.check_row(i))
    }

    /// Scales every π0(·|x) to sum to 1: probabilities that were logged as f32 do so only nearly.
    pub fn normalize(&mut self) {
        for pi in self.full.iter_mut().flat_map(|f| f.chunks_exact_mut(self.n_actions)) {
            let total: f64 = pi.iter().sum();
            pi.iter_mut().for_each(|p| *p /= total);
        }
    }

    fn check_row(&self, i: usize) -> Result<(), RowError> {
        let action = self.actions[i] as usize;
        if action >= self.n_actions {
            let message = format!("{action} is not in [0, {})", self.n_actions);
            return Err(fault(i + 1, "action", message));
        }
        let cost = self.costs[i];
        if !(-1.0..=0.0).contains(&cost) {
            return Err(fault(i + 1, "cost", format!("{cost} is not in [-1, 0]")));
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
            let full = &full[i * self.n_actions..(i + 1) * self.n_actions];
            check_full(i + 1, full, action, propensity)?;
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
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err((None, format!("sum to {sum}, not 1")));
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

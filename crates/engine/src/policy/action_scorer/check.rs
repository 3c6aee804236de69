//! Checks the parameters of a scorer of actions. Scoring assumes that they passed.

use super::{
    ActionScorer, HiddenUnits, KnownFeature, MAX_HIDDEN, MAX_KNOWN, MAX_PAIRS, MAX_UNITS, PairWeights,
};
use crate::error::{Result, SpecCode, SpecError};
use crate::log::FeatureSpace;

/// A larger factor would make scores infinite.
const MAX_INVERSE_TEMPERATURE: f64 = 1e12;
/// Weights are smaller than this, so that no score overflows.
const MAX_WEIGHT: f64 = 1e30;

impl ActionScorer {
    /// # Errors
    /// `invalid_policy` with the field at fault.
    pub fn check(&self) -> Result<(), SpecError> {
        if !self.inverse_temperature.is_finite() || self.inverse_temperature.abs() > MAX_INVERSE_TEMPERATURE {
            return fault("inverse_temperature", "must be a number from -1e12 to 1e12");
        }
        if !is_weight(self.constant) {
            return fault("constant", NOT_A_WEIGHT);
        }
        check_known("x", &self.x, self.features.x)?;
        check_known("actions", &self.actions, self.features.actions)?;
        if let Some(pairs) = &self.pairs {
            pairs.check(self.x.len(), self.actions.len())?;
        }
        self.hidden.as_ref().map_or(Ok(()), |hidden| hidden.check(self.x.len(), self.actions.len()))
    }
}

const NOT_A_WEIGHT: &str = "is not a finite number below 1e30";

fn fault<T>(field: &str, message: impl Into<String>) -> Result<T, SpecError> {
    Err(SpecError::new(SpecCode::InvalidPolicy, field, message))
}

fn is_weight(value: f64) -> bool {
    value.is_finite() && value.abs() < MAX_WEIGHT
}

fn check_known(field: &str, known: &[KnownFeature], space: FeatureSpace) -> Result<(), SpecError> {
    if known.len() > MAX_KNOWN {
        return fault(field, format!("has {} features; at most {MAX_KNOWN} are possible", known.len()));
    }
    if !known.is_sorted_by(|a, b| a.index < b.index) {
        return fault(field, "must be ascending by index, each index once");
    }
    for (i, feature) in known.iter().enumerate() {
        let fault = |name: &str, message: &str| fault(&format!("{field}[{i}].{name}"), message);
        if feature.index as usize >= space.dim() {
            return fault("index", "is not a dimension of the features");
        }
        if !feature.center.is_finite() {
            return fault("center", "must be a finite number");
        }
        if !(feature.scale.is_finite() && feature.scale > 0.0) {
            return fault("scale", "must be a positive number");
        }
        if !is_weight(feature.weight) {
            return fault("weight", NOT_A_WEIGHT);
        }
    }
    Ok(())
}

impl PairWeights {
    fn check(&self, x: usize, actions: usize) -> Result<(), SpecError> {
        let cells = match self.bits {
            Some(bits) if !(1..=20).contains(&bits) => return fault("pairs.bits", "must be from 1 to 20"),
            Some(bits) => 1 << bits,
            None => x.saturating_mul(actions),
        };
        if cells > MAX_PAIRS {
            let message =
                format!("{cells} pairs are too many; more than {MAX_PAIRS} must share cells by `bits`");
            return fault("pairs.bits", message);
        }
        if self.cells.len() != self.weights.len() {
            return fault("pairs.weights", "must have one weight per cell");
        }
        if !self.cells.is_sorted_by(|a, b| a < b) {
            return fault("pairs.cells", "must be ascending, each cell once");
        }
        if self.cells.last().is_some_and(|&last| last as usize >= cells) {
            return fault("pairs.cells", format!("has a cell that is not below {cells}"));
        }
        match self.weights.iter().position(|&weight| !is_weight(f64::from(weight))) {
            Some(at) => fault(&format!("pairs.weights[{at}]"), NOT_A_WEIGHT),
            None => Ok(()),
        }
    }
}

impl HiddenUnits {
    fn check(&self, x: usize, actions: usize) -> Result<(), SpecError> {
        let units = self.bias.len();
        if !(1..=MAX_UNITS).contains(&units) || units * (x + actions) > MAX_HIDDEN {
            return fault("hidden.bias", format!("{units} units are not possible with so many features"));
        }
        if self.output.len() != units {
            return fault("hidden.output", "must have one weight per unit");
        }
        for (field, rows, known) in [("hidden.x", &self.x, x), ("hidden.actions", &self.actions, actions)] {
            if rows.len() != known || rows.iter().any(|row| row.len() != units) {
                return fault(field, "must have one row per known feature, with one weight per unit");
            }
        }
        let rows = self.x.iter().chain(&self.actions).flatten();
        match rows.chain(&self.bias).chain(&self.output).all(|v| v.is_finite() && v.abs() < 1e9) {
            true => Ok(()),
            false => fault("hidden", "has a number that is not finite and below 1e9"),
        }
    }
}

//! From the estimate to the guarantee, step by step.

use serde::{Deserialize, Serialize};

/// How the estimated improvement becomes the guaranteed one: `estimate` plus every `change` is `guaranteed`, up to
/// rounding. All numbers are in the paper's units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Breakdown {
    /// The estimated improvement, without a guarantee.
    pub estimate: f64,
    /// What is taken off, in the order in which it is taken off. Only steps that apply.
    pub steps: Vec<BreakdownStep>,
    /// The guaranteed improvement.
    pub guaranteed: f64,
}

/// One step from the estimate to the guarantee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BreakdownStep {
    /// The stable name of the step: `rounding`, `bias`, `confidence`, `kl`, `baseline`, `numerical_slack` or `range`.
    pub name: String,
    /// What the step adds; negative if it takes off.
    pub change: f64,
    /// What the step is for, as a sentence.
    pub what: String,
}

//! The numbers of a certificate in the units of the dataset's outcome. Improvements and losses are affine images of
//! those in the paper's units, so a guarantee in one unit is a guarantee in the other (docs/math.md#setting).

use serde::{Deserialize, Serialize};

use super::{Certificate, PeriodEstimate};
use crate::log::Outcome;

/// The results in the units of the dataset's outcome. Improvements are positive when better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UserUnits {
    /// The kind and range of the outcome.
    pub outcome: Outcome,
    /// The worst expected outcome of the certified policy: an upper bound on a cost, a lower bound on a
    /// reward.
    pub guaranteed_outcome: f64,
    /// Lower bound on the improvement in expected outcome.
    pub guaranteed_improvement: f64,
    /// The baseline's expected outcome.
    pub baseline_outcome: f64,
    /// The improvement that must be exceeded for `deploy`; absent in certificates of methods 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_improvement: Option<f64>,
    /// The bound on the baseline's expected outcome, if there is one: `baseline_risk.lower_bound`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_bound: Option<f64>,
    /// The improvement over the last quarter of the certified rows, if the certificate states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_quarter: Option<PeriodEstimate>,
    /// The estimated cost of exploration, if the certificate states it. A positive number is worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exploration_cost: Option<f64>,
}

impl UserUnits {
    /// No numbers yet.
    pub fn new(outcome: Outcome) -> Self {
        UserUnits {
            outcome,
            guaranteed_outcome: 0.0,
            guaranteed_improvement: 0.0,
            baseline_outcome: 0.0,
            min_improvement: None,
            baseline_bound: None,
            last_quarter: None,
            exploration_cost: None,
        }
    }

    /// The numbers of a certificate in the units of its outcome.
    pub fn of(certificate: &Certificate) -> Self {
        let c = certificate;
        let outcome = c.user_units.outcome;
        let amount = |value: f64| outcome.improvement_to_user(value);
        let risk = |value: f64| outcome.risk_to_user(value);
        let quarter = c.certified.as_ref().and_then(|certified| certified.last_quarter);
        UserUnits {
            outcome,
            guaranteed_outcome: risk(c.guaranteed_risk),
            guaranteed_improvement: amount(c.guaranteed_improvement),
            baseline_outcome: risk(c.baseline_risk.estimate),
            min_improvement: Some(amount(c.min_improvement)),
            baseline_bound: c.baseline_risk.lower_bound.map(risk),
            last_quarter: quarter.map(|quarter| PeriodEstimate {
                rows: quarter.rows,
                improvement: amount(quarter.improvement),
                lower: amount(quarter.lower),
                upper: amount(quarter.upper),
            }),
            exploration_cost: c.exploration.as_ref().map(|e| amount(e.estimated_cost)),
        }
    }
}

/// The results of one candidate in the units of the dataset's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CandidateUnits {
    /// The candidate's worst expected outcome: an upper bound on a cost, a lower bound on a reward.
    pub guaranteed_outcome: f64,
    /// Lower bound on the candidate's improvement in expected outcome.
    pub guaranteed_improvement: f64,
    /// The estimate of the candidate's expected outcome, without a guarantee.
    pub estimated_outcome: f64,
}

impl CandidateUnits {
    /// The results of a candidate with these risks and this improvement, in the units of an outcome.
    pub fn of(
        outcome: &Outcome,
        guaranteed_risk: f64,
        guaranteed_improvement: f64,
        estimated_risk: f64,
    ) -> Self {
        CandidateUnits {
            guaranteed_outcome: outcome.risk_to_user(guaranteed_risk),
            guaranteed_improvement: outcome.improvement_to_user(guaranteed_improvement),
            estimated_outcome: outcome.risk_to_user(estimated_risk),
        }
    }
}

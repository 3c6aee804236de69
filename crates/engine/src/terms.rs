//! The terms of a bound: every number that enters it, as certificates itemize them.

use serde::{Deserialize, Serialize};

/// Every term that entered a bound. A term that the bound does not have is absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Terms {
    /// Number of rows that the bound was computed on.
    pub n: u64,
    /// Number of contexts that the bound was computed on.
    pub contexts: u64,
    /// The policy's estimated risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empirical_risk: Option<f64>,
    /// The mean of z, which estimates what is bounded; only for given policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
    /// The standard deviation of z, one per context; only for given policies. Absent in certificates of methods 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// The bound if the posterior were the prior (KL = 0); only for posteriors that moved. Absent in certificates of
    /// methods 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_without_kl: Option<f64>,
    /// KL divergence of the posterior from the prior, in nats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl: Option<f64>,
    /// What is paid for confidence besides KL, in nats: ln(N/δ), ln(2√n/δ), …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub penalty: Option<f64>,
    /// What clipping can add to the estimate at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<f64>,
    /// Mean squared weight of the policy under the logging policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_moment: Option<f64>,
    /// S_λ, the sum of ln(1 − λz).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_sum: Option<f64>,
    /// λ, the size of the bet or the free parameter of the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f64>,
    /// ξ, the constant control variate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xi: Option<f64>,
    /// The largest −ĉ of the cost model, in certificates of methods 1 to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_model_max: Option<f64>,
    /// θ, the last factor of the control variate of a given policy, which may change from row to row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    /// τ, the clipping level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
    /// γ of `ix`, which is added to each propensity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gamma: Option<f64>,
    /// κ: 1 if the bound is on R(π) − R(π0), 0 if it is on R(π).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kappa: Option<u8>,
    /// Number of parameter choices that the bound was minimized over on these rows, or that it is a mixture of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid_size: Option<u64>,
    /// Number of certified contexts that only set up the first bets of aimed bets, and are not bet on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilot: Option<u64>,
    /// The distance of the thresholds that aimed bets tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// m, from which the squares that count against a budget for the variance are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub center: Option<f64>,
    /// B, the budget for the variance, fixed before the first certified row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// V_n, what was spent of the budget. Beyond the budget the bound widens with every bit, and in the end only the constant bet λ counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<f64>,
    /// a, the knee of the payoff of bets with a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<f64>,
    /// p, the slope of that payoff above the knee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope_above: Option<f64>,
    /// ρ, the slope of that payoff below the knee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope_below: Option<f64>,
    /// A bound on the floating-point and integration error of the value.
    pub numerical_slack: f64,
}

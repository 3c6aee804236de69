//! How δ is divided among the claims about one policy (docs/math.md#delta-of-auto).

use crate::spec::{BaselineKind, JobSpec};

/// The shares of δ of the claims about one policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// The improvement's share, if the improvement is bounded directly.
    pub improvement: f64,
    /// The risk's share beside the improvement.
    pub risk: f64,
    /// The risk's share if the risk alone is bounded.
    pub risk_alone: f64,
}

/// A policy learned with a named bound.
pub const NAMED: Shares = Shares { improvement: 0.5, risk: 0.5, risk_alone: 1.0 };

/// A policy that does not depend on the certified rows: a candidate, or the learn side's policy. The improvement
/// decides, so it gets nearly all of δ.
pub const GIVEN: Shares = Shares { improvement: 0.95, risk: 0.05, risk_alone: 1.0 };

/// The share of δ that guardrails get together (docs/math.md#guardrails). Bounds grow with the root of ln(1/δ), so the
/// objective hardly notices that it is gone.
pub const GUARDRAILS: f64 = 0.25;

/// The part of δ of the objective: all of it if there are no guardrails.
pub fn objective_delta(spec: &JobSpec) -> f64 {
    if spec.guardrails.is_empty() { spec.delta } else { (1.0 - GUARDRAILS) * spec.delta }
}

/// δ of each guardrail's claim about each of the policies, which share it equally.
pub fn guardrail_delta(spec: &JobSpec, policies: usize) -> f64 {
    GUARDRAILS * spec.delta / (spec.guardrails.len() * policies).max(1) as f64
}

/// The part of δ that is left for claims about policies in the objective: half of it if the baseline needs its own
/// bound, otherwise all of it.
pub fn policy_delta(spec: &JobSpec) -> f64 {
    if spec.baseline.kind == BaselineKind::Certified && !spec.bounds_improvement() {
        0.5 * objective_delta(spec)
    } else {
        objective_delta(spec)
    }
}

//! From the estimate to the guarantee (docs/math.md#decision). Each step is the difference of two numbers that follow
//! each other, so the steps add up.

use super::account::Guarantee;
use super::findings::Findings;
use crate::certificate::{BaselineRisk, BoundRecord, Breakdown, BreakdownStep};
use crate::terms::Terms;

/// A step that changes less than this is left out, unless it always applies.
const NOTHING: f64 = 1e-15;

/// The claims about one policy.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    /// The claim about the risk.
    pub risk: &'a BoundRecord,
    /// The claim about the improvement, if it has one of its own.
    pub improvement: Option<&'a BoundRecord>,
    /// The baseline.
    pub baseline: &'a BaselineRisk,
}

/// What the steps are computed from.
struct Steps {
    at: f64,
    steps: Vec<BreakdownStep>,
}

impl Steps {
    /// The step to the next number.
    fn to(&mut self, name: &str, next: f64, what: &str, always: bool) {
        let change = next - self.at;
        if always || change.abs() > NOTHING {
            self.steps.push(BreakdownStep { name: name.into(), change, what: what.into() });
            self.at = next;
        }
    }
}

/// The bound's own estimate of what it bounds, with rounded numbers at the ends of their intervals, before what clipping
/// adds; and with it.
fn own_estimates(record: &BoundRecord, kappa: u8, findings: Option<&Findings>) -> Option<(f64, f64)> {
    let Terms { estimate, empirical_risk, xi, bias, .. } = record.terms;
    if let Some(estimate) = estimate {
        return Some((estimate, estimate));
    }
    let findings = findings?;
    let plain = if kappa == 1 { -findings.improvement } else { findings.risk };
    match empirical_risk {
        Some(risk) => Some((plain, risk - xi.unwrap_or(0.0) * bias.unwrap_or(0.0))),
        // A betting bound for all posteriors, with the constant ξ as control variate.
        None => {
            let controlled = plain - xi.unwrap_or(0.0) * (findings.mean_weight - 1.0);
            Some((controlled, controlled))
        }
    }
}

/// The steps from the estimate to the guarantee; None if the estimate is not known.
pub fn breakdown(records: Records, guarantee: &Guarantee, findings: Option<&Findings>) -> Option<Breakdown> {
    let Records { risk, improvement, baseline } = records;
    let record = improvement.unwrap_or(risk);
    let (plain, clipped) = own_estimates(record, u8::from(improvement.is_some()), findings)?;
    // What is bounded is R(π) − R(π0), or R(π) beside a baseline.
    let over = if improvement.is_some() { 0.0 } else { baseline.estimate };
    let lost = findings.map_or(0.0, |findings| findings.rounding);
    let estimate = over - plain + lost;
    let mut steps = Steps { at: estimate, steps: Vec::new() };
    let rounded =
        "Probabilities were read as rounded, so each stands for an interval and counts at its worse end.";
    steps.to("rounding", over - plain, rounded, false);
    let clipping = "Large weights are cut, which makes the estimate of the risk too large on purpose.";
    steps.to("bias", over - clipped, clipping, false);
    let unmoved = record.terms.value_without_kl.unwrap_or(record.value);
    let confidence = "The estimate may be lucky: this much is taken off for the promised confidence.";
    steps.to("confidence", over - unmoved, confidence, true);
    let kl = "The policy was learned on these rows, and is paid for by its distance from the prior.";
    steps.to("kl", over - record.value, kl, false);
    let lower = baseline.lower_bound.filter(|_| improvement.is_none()).unwrap_or(over);
    let separate = "The risk of the logging policy is itself only known from a bound.";
    steps.to("baseline", lower - record.value, separate, false);
    let slack = "A bound on the error of the arithmetic.";
    steps.to("numerical_slack", lower - (record.value + record.terms.numerical_slack), slack, true);
    let range = "No risk is below −1 or above 0 in the paper's units, whatever a bound says.";
    steps.to("range", guarantee.improvement, range, false);
    let all = [estimate, guarantee.improvement].into_iter().chain(steps.steps.iter().map(|step| step.change));
    let finite = all.into_iter().all(f64::is_finite);
    finite.then_some(Breakdown { estimate, steps: steps.steps, guaranteed: guarantee.improvement })
}

//! What a certificate says about its guardrails: outcomes that must not get much worse (docs/math.md#guardrails).

use serde::{Deserialize, Serialize};

use super::{Reason, ReasonCode, exceeds};
use crate::log::Outcome;
use crate::spec::Guardrail;

/// The estimate shows that a limit is exceeded if it is above the limit by this many of its standard errors.
const EVIDENT: f64 = 3.0;

/// The result of one guardrail. Losses are how much worse a policy is than the logging policy: positive is worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardrailResult {
    /// The outcome that must not get much worse.
    pub outcome: String,
    /// The most that the policy may lose, in the paper's units.
    pub max_loss: f64,
    /// Upper bound on the loss R(π) − R(π0) in this outcome, in the paper's units, slack included.
    pub guaranteed_loss: f64,
    /// The importance-weighted estimate of the loss, without a guarantee.
    pub estimated_loss: f64,
    /// The standard error of that estimate.
    pub standard_error: f64,
    /// Whether the loss is guaranteed to be at most `max_loss`.
    pub ok: bool,
    /// Digest of the cost model of this outcome, if the learn side fitted one as control variate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_model_digest: Option<String>,
    /// The numbers in the units of this outcome.
    pub user_units: GuardrailUnits,
}

/// The numbers of a guardrail in the units of its outcome. Losses are positive when worse, for costs and for rewards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardrailUnits {
    /// The kind and range of the outcome.
    pub outcome: Outcome,
    /// The most that the policy may lose.
    pub max_loss: f64,
    /// Upper bound on the loss.
    pub guaranteed_loss: f64,
    /// The estimate of the loss.
    pub estimated_loss: f64,
    /// The mean outcome under the logging policy, on the certified rows.
    pub baseline_outcome: f64,
}

/// The numbers that a guardrail's result is made of, in the paper's units.
#[derive(Debug, Clone, Copy)]
pub struct LossNumbers {
    /// Upper bound on the loss, slack included.
    pub guaranteed: f64,
    /// The estimate of the loss.
    pub estimated: f64,
    /// The bound's own estimate of the loss, if it has one.
    pub own: Option<f64>,
    /// The standard error of the estimate.
    pub standard_error: f64,
    /// The mean logged cost.
    pub baseline: f64,
}

impl GuardrailResult {
    /// The result of a guardrail. It is `ok` only if every number is finite and the bound is possible: no policy can
    /// gain more than 1, so a bound below −1 shows that an assumption does not hold. As for the improvement, nobody should
    /// act on a bound that is better than its own estimate.
    pub fn new(guardrail: &Guardrail, outcome: Outcome, loss: &LossNumbers) -> Self {
        let Guardrail { outcome: name, max_loss } = guardrail;
        let numbers = [loss.guaranteed, loss.estimated, loss.standard_error, loss.baseline];
        let possible = numbers.iter().all(|number| number.is_finite()) && loss.guaranteed >= -1.0;
        let likely = loss.own.is_none_or(|own| !exceeds(-loss.guaranteed, -own));
        GuardrailResult {
            outcome: name.clone(),
            max_loss: *max_loss,
            guaranteed_loss: loss.guaranteed,
            estimated_loss: loss.estimated,
            standard_error: loss.standard_error,
            // NaN compares false.
            ok: possible && likely && loss.guaranteed <= *max_loss,
            cost_model_digest: None,
            user_units: GuardrailUnits {
                outcome,
                max_loss: outcome.improvement_to_user(*max_loss),
                guaranteed_loss: outcome.improvement_to_user(loss.guaranteed),
                estimated_loss: outcome.improvement_to_user(loss.estimated),
                baseline_outcome: outcome.risk_to_user(loss.baseline),
            },
        }
    }

    /// Why the guardrail stands in the way of `deploy`; None if it does not.
    pub fn reason(&self) -> Option<Reason> {
        if self.ok {
            return None;
        }
        let GuardrailResult { outcome, max_loss, guaranteed_loss, estimated_loss, standard_error, .. } = self;
        let units = &self.user_units;
        let numbers = [
            ("max_loss", *max_loss),
            ("guaranteed_loss", *guaranteed_loss),
            ("estimated_loss", *estimated_loss),
            ("standard_error", *standard_error),
            ("max_loss_in_units", units.max_loss),
            ("guaranteed_loss_in_units", units.guaranteed_loss),
            ("estimated_loss_in_units", units.estimated_loss),
        ];
        let limit = format!("{max_loss} ({} in its units)", units.max_loss);
        let (code, message) = if *guaranteed_loss < -1.0 {
            let message = format!(
                "the bound on the loss in {outcome} is {guaranteed_loss:.6}, which is more than any policy can gain; \
                 the logged propensities must be wrong"
            );
            (ReasonCode::GuaranteeImpossible, message)
        } else if guaranteed_loss <= max_loss {
            // Nothing else makes a bound within the limit fail.
            let message = format!(
                "the bound on the loss in {outcome} is {guaranteed_loss:.6}, which is within the limit {limit} but better \
                 than its own estimate; a guarantee above its estimate is one of the rare lucky draws that δ allows"
            );
            (ReasonCode::GuaranteeExceedsEstimate, message)
        } else if estimated_loss - EVIDENT * standard_error > *max_loss {
            let message = format!(
                "the policy loses about {estimated_loss:.6} in {outcome} ({:.6} in its units), which is more than the \
                 limit {limit}; more rows do not help",
                units.estimated_loss
            );
            (ReasonCode::GuardrailViolated, message)
        } else {
            let message = format!(
                "the loss in {outcome} may be up to {guaranteed_loss:.6} ({:.6} in its units), which is more than the \
                 limit {limit}; the estimate is {estimated_loss:.6}",
                units.guaranteed_loss
            );
            (ReasonCode::GuardrailNotGuaranteed, message)
        };
        let reason = Reason::new(code, message).with_numbers(&numbers);
        Some(Reason { outcome: Some(outcome.clone()), ..reason })
    }

    /// The result as a part of the certificate's statement.
    pub(super) fn statement(&self) -> String {
        let GuardrailResult { outcome, max_loss, guaranteed_loss, user_units: units, .. } = self;
        let cuts = units.outcome.cuts().map(|cuts| format!(" (it is cut: {cuts})")).unwrap_or_default();
        match self.ok {
            true => format!(
                "its loss in {outcome}{cuts} is at most {guaranteed_loss:.6} ({:.6} in its units), within the limit \
                 {max_loss}",
                units.guaranteed_loss
            ),
            false if guaranteed_loss <= max_loss => format!(
                "nobody should rely on the bound on its loss in {outcome}{cuts} ({guaranteed_loss:.6}, {:.6} in its units)",
                units.guaranteed_loss
            ),
            false => format!(
                "that its loss in {outcome}{cuts} is within the limit {max_loss} cannot be guaranteed (the bound is \
                 {guaranteed_loss:.6}, {:.6} in its units)",
                units.guaranteed_loss
            ),
        }
    }
}

/// Whether all guardrails of a spec hold. Results that are not those of its guardrails do not.
pub fn guardrails_hold(guardrails: &[Guardrail], results: &[GuardrailResult]) -> bool {
    guardrails.len() == results.len()
        && guardrails.iter().zip(results).all(|(guardrail, result)| {
            let GuardrailResult { outcome, max_loss, guaranteed_loss, ok, .. } = result;
            *outcome == guardrail.outcome
                && *max_loss == guardrail.max_loss
                && *ok
                && guaranteed_loss <= max_loss
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::OutcomeKind;

    fn result(max_loss: f64, guaranteed: f64, estimated: f64) -> GuardrailResult {
        let guardrail = Guardrail { outcome: "complaint".into(), max_loss };
        let outcome = Outcome::new(OutcomeKind::Cost, 0.0, 20.0).unwrap();
        let loss = LossNumbers { guaranteed, estimated, own: None, standard_error: 0.01, baseline: -0.75 };
        GuardrailResult::new(&guardrail, outcome, &loss)
    }

    #[test]
    fn only_a_possible_bound_within_the_limit_is_ok() {
        assert!(result(0.01, 0.01, 0.0).ok && result(0.0, -0.2, -0.3).ok && result(0.0, -1.0, 0.0).ok);
        for (bound, estimate) in [
            (0.010001, 0.0),
            (f64::NAN, 0.0),
            (f64::INFINITY, 0.0),
            (f64::NEG_INFINITY, 0.0),
            (-1.01, 0.0),
            (0.0, f64::NAN),
        ] {
            assert!(!result(0.01, bound, estimate).ok, "{bound} {estimate}");
        }
        assert!(!result(f64::NAN, 0.0, 0.0).ok);
    }

    #[test]
    fn a_bound_better_than_its_own_estimate_is_not_ok() {
        let guardrail = Guardrail { outcome: "complaint".into(), max_loss: 0.1 };
        let outcome = Outcome::new(OutcomeKind::Cost, 0.0, 20.0).unwrap();
        let of = |guaranteed: f64, own: f64| {
            let own = Some(own);
            let loss = LossNumbers { guaranteed, estimated: 0.0, own, standard_error: 0.01, baseline: -0.75 };
            GuardrailResult::new(&guardrail, outcome, &loss)
        };
        assert!(of(0.05, 0.04).ok && of(0.05, 0.05 + 1e-12).ok);
        for (guaranteed, own) in [(0.05, 0.06), (-0.2, 0.3), (0.05, f64::NAN)] {
            let result = of(guaranteed, own);
            assert!(!result.ok, "{guaranteed} {own}");
            let reason = result.reason().unwrap();
            assert_eq!(reason.code, ReasonCode::GuaranteeExceedsEstimate);
            assert!(
                reason.message.contains("own estimate") && result.statement().contains("nobody should rely")
            );
        }
    }

    #[test]
    fn reasons_name_the_outcome_and_its_numbers() {
        assert_eq!(result(0.01, 0.005, 0.0).reason(), None);
        let wide = result(0.01, 0.05, 0.02).reason().unwrap();
        assert_eq!(wide.code, ReasonCode::GuardrailNotGuaranteed);
        assert!(wide.message.contains("complaint") && wide.message.contains("0.05"), "{}", wide.message);
        assert_eq!(wide.outcome.as_deref(), Some("complaint"));
        assert_eq!((wide.numbers["guaranteed_loss"], wide.numbers["guaranteed_loss_in_units"]), (0.05, 1.0));
        let worse = result(0.01, 0.2, 0.1).reason().unwrap();
        assert_eq!(worse.code, ReasonCode::GuardrailViolated);
        let impossible = result(0.01, -1.2, -1.3).reason().unwrap();
        assert_eq!(impossible.code, ReasonCode::GuaranteeImpossible);
    }

    #[test]
    fn results_of_other_guardrails_do_not_hold() {
        let guardrail = |max_loss: f64| Guardrail { outcome: "complaint".into(), max_loss };
        let good = result(0.01, 0.0, 0.0);
        assert!(
            guardrails_hold(&[], &[]) && guardrails_hold(&[guardrail(0.01)], std::slice::from_ref(&good))
        );
        assert!(
            !guardrails_hold(&[guardrail(0.01)], &[]) && !guardrails_hold(&[], std::slice::from_ref(&good))
        );
        assert!(!guardrails_hold(&[guardrail(0.001)], std::slice::from_ref(&good)));
        let other = Guardrail { outcome: "churn".into(), max_loss: 0.01 };
        assert!(!guardrails_hold(&[other], std::slice::from_ref(&good)));
        let forged = GuardrailResult { guaranteed_loss: 0.5, ..good };
        assert!(!guardrails_hold(&[guardrail(0.01)], &[forged]));
    }
}

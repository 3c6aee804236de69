//! Evidence: what a certificate was computed from besides the log. It is stored with the job, the
//! certificate names it by digests, and together with the log it is all that verification needs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};

use crate::bound::{Guess, Plan};
use crate::cost_model::ScoreCalibration;
use crate::policy::PolicyParams;
use crate::refit::LinearModel;

/// What a certificate was computed from besides the log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "StoredEvidence<'static>")]
pub enum Evidence {
    /// Kind `evaluate`: the candidates are named in the spec, and nothing was learned.
    Candidates,
    /// Kind `learn` with a named bound.
    Learned(LearnedEvidence),
    /// Kind `learn` with the bound `auto`.
    Auto(AutoEvidence),
}

impl Evidence {
    /// The learned policy that the certificate is about; None for kind `evaluate`.
    pub fn policy(&self) -> Option<&PolicyParams> {
        match self {
            Evidence::Candidates => None,
            Evidence::Learned(learned) => Some(&learned.policy),
            Evidence::Auto(auto) => Some(&auto.policy),
        }
    }
}

/// A policy that minimizes a named bound, and the prior that it started from.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedEvidence {
    /// The learned policy, a posterior.
    pub policy: PolicyParams,
    /// The prior of that posterior.
    pub prior: PriorEvidence,
}

/// A prior N(μ0, σ0²I), on the features of its posterior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriorEvidence {
    /// μ0, one row per feature.
    pub mean: Vec<Vec<f64>>,
    /// σ0, the standard deviation.
    pub scale: f64,
}

/// The learn side's policy and the parameters of its bound, fixed before the certify side was read.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoEvidence {
    /// The policy.
    pub policy: PolicyParams,
    /// What its bound starts from.
    pub split: SplitEvidence,
}

/// What the learn side fixed besides the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitEvidence {
    /// How the policy's scores are read as costs; None if the log has no π0(·|x).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<ScoreCalibration>,
    /// The mean and variance of z for the improvement.
    pub improvement: Guess,
    /// The mean and variance of z for the risk.
    pub risk: Guess,
    /// The plan of bets with a budget for the variance of z, on logs of policies that learn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Plan>,
    /// What the bounds of the guardrails start from, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailEvidence>,
}

/// What the learn side fixed for one guardrail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardrailEvidence {
    /// The outcome.
    pub outcome: String,
    /// The cost model of this outcome; None if the log has no π0(·|x), or too few rows or too many actions for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_model: Option<LinearModel>,
    /// The mean and variance of z for the loss.
    pub loss: Guess,
}

/// The stored form. `policy` is the certified policy.
#[derive(Serialize, Deserialize)]
struct StoredEvidence<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<Cow<'a, PolicyParams>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prior: Option<Cow<'a, PriorEvidence>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split: Option<SplitEvidence>,
}

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let policy = self.policy().map(Cow::Borrowed);
        let (prior, split) = match self {
            Evidence::Candidates => (None, None),
            Evidence::Learned(learned) => (Some(Cow::Borrowed(&learned.prior)), None),
            Evidence::Auto(auto) => (None, Some(auto.split.clone())),
        };
        StoredEvidence { policy, prior, split }.serialize(serializer)
    }
}

impl TryFrom<StoredEvidence<'_>> for Evidence {
    type Error = &'static str;

    fn try_from(stored: StoredEvidence) -> Result<Self, Self::Error> {
        match (stored.policy, stored.prior, stored.split) {
            (None, None, None) => Ok(Evidence::Candidates),
            (Some(policy), Some(prior), None) => Ok(Evidence::Learned(LearnedEvidence {
                policy: policy.into_owned(),
                prior: prior.into_owned(),
            })),
            (Some(policy), None, Some(split)) => {
                Ok(Evidence::Auto(AutoEvidence { policy: policy.into_owned(), split }))
            }
            _ => Err("evidence must contain a policy with its prior or its split, or be empty"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lig(mean: f64) -> PolicyParams {
        PolicyParams::Lig { mean: vec![vec![mean, 0.0]], scale: 0.5, features: Default::default() }
    }

    fn split() -> SplitEvidence {
        let guess = Guess { mean: -0.1, variance: 0.5 };
        let budget = Plan { center: -0.1, low: -0.01, high: 0.06, budget: 0.6, expected: 0.5 };
        let guardrails = vec![GuardrailEvidence { outcome: "churn".into(), cost_model: None, loss: guess }];
        SplitEvidence { calibration: None, improvement: guess, risk: guess, budget: Some(budget), guardrails }
    }

    #[test]
    fn the_stored_form_is_read_back() {
        let prior = PriorEvidence { mean: vec![vec![0.0, 0.0]], scale: 1.0 };
        let all = [
            (Evidence::Candidates, vec![]),
            (Evidence::Learned(LearnedEvidence { policy: lig(3.0), prior }), vec!["policy", "prior"]),
            (Evidence::Auto(AutoEvidence { policy: lig(1.0), split: split() }), vec!["policy", "split"]),
        ];
        for (evidence, members) in all {
            let stored = serde_json::to_value(&evidence).unwrap();
            assert_eq!(stored["policy"], json!(evidence.policy()), "the certified policy comes first");
            let mut names: Vec<_> = stored.as_object().unwrap().keys().cloned().collect();
            names.sort();
            assert_eq!(names, members);
            assert_eq!(serde_json::from_value::<Evidence>(stored).unwrap(), evidence);
        }
    }

    #[test]
    fn evidence_that_fits_no_kind_of_job_is_rejected() {
        let evidence = Evidence::Auto(AutoEvidence { policy: lig(1.0), split: split() });
        let mut stored = serde_json::to_value(evidence).unwrap();
        stored["prior"] = json!(PriorEvidence { mean: vec![vec![0.0, 0.0]], scale: 1.0 });
        assert!(serde_json::from_value::<Evidence>(stored.clone()).is_err(), "a prior and a split");
        stored.as_object_mut().unwrap().remove("policy");
        assert!(serde_json::from_value::<Evidence>(stored).is_err(), "no certified policy");
        assert!(serde_json::from_value::<Evidence>(json!({"policy": lig(1.0)})).is_err(), "no prior");
    }
}

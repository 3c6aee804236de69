//! Evidence: what a certificate was computed from besides the log. It is stored with the job, the
//! certificate names it by digests, and together with the log it is all that verification needs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};

use crate::cost_model::ScoreCalibration;
use crate::policy::PolicyParams;

/// What a certificate was computed from besides the log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "StoredEvidence<'static>")]
pub enum Evidence {
    /// Kind `evaluate`: the candidates are named in the spec, and nothing was learned.
    Candidates,
    /// Kind `learn` with a named bound.
    Learned(LearnedEvidence),
    /// Kind `learn` with the bound `auto`: its two policies, and which of them is certified.
    Auto {
        /// The two policies and what they were certified with.
        policies: AutoEvidence,
        /// The policy that the certificate is about.
        certified: AutoPolicy,
    },
}

impl Evidence {
    /// The learned policy that the certificate is about; None for kind `evaluate`.
    pub fn policy(&self) -> Option<&PolicyParams> {
        match self {
            Evidence::Candidates => None,
            Evidence::Learned(learned) => Some(&learned.policy),
            Evidence::Auto { policies, certified } => Some(policies.policy(*certified)),
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

/// The two policies of `auto`.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoEvidence {
    /// The learn side's policy, certified as given.
    pub direct: DirectEvidence,
    /// Its refinement on the certify side, certified as a posterior.
    pub refined: PolicyParams,
    /// The prior of the refinement.
    pub prior: PriorEvidence,
}

impl AutoEvidence {
    /// One of the two policies.
    pub fn policy(&self, which: AutoPolicy) -> &PolicyParams {
        match which {
            AutoPolicy::Direct => &self.direct.policy,
            AutoPolicy::Refined => &self.refined,
        }
    }
}

/// One of the two policies of `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoPolicy {
    /// The learn side's policy, certified as given.
    Direct,
    /// Its refinement on the certify side, certified as a posterior.
    Refined,
}

impl AutoPolicy {
    /// The name in the events of a certificate.
    pub fn name(self) -> &'static str {
        match self {
            AutoPolicy::Direct => "direct",
            AutoPolicy::Refined => "refined",
        }
    }
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
pub struct DirectEvidence {
    /// The policy.
    pub policy: PolicyParams,
    /// How the policy's scores are read as costs; None if the log has no π0(·|x).
    pub calibration: Option<ScoreCalibration>,
    /// τ of both claims.
    pub tau: f64,
    /// λ of the claim on the improvement.
    pub improvement_lambda: f64,
    /// λ of the claim on the risk.
    pub risk_lambda: f64,
}

/// The stored form. `policy` is the certified policy; for `auto`, the other policy is stored under
/// `direct.policy` or `refined`.
#[derive(Serialize, Deserialize)]
struct StoredEvidence<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<Cow<'a, PolicyParams>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prior: Option<Cow<'a, PriorEvidence>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    direct: Option<StoredDirect<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refined: Option<Cow<'a, PolicyParams>>,
}

#[derive(Serialize, Deserialize)]
struct StoredDirect<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<Cow<'a, PolicyParams>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calibration: Option<ScoreCalibration>,
    tau: f64,
    improvement_lambda: f64,
    risk_lambda: f64,
}

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let policy = self.policy().map(Cow::Borrowed);
        let stored = match self {
            Evidence::Candidates => StoredEvidence { policy, prior: None, direct: None, refined: None },
            Evidence::Learned(learned) => StoredEvidence {
                policy,
                prior: Some(Cow::Borrowed(&learned.prior)),
                direct: None,
                refined: None,
            },
            Evidence::Auto { policies: AutoEvidence { direct, refined, prior }, certified } => {
                let other = |which, policy| (which != *certified).then_some(Cow::Borrowed(policy));
                StoredEvidence {
                    policy,
                    prior: Some(Cow::Borrowed(prior)),
                    direct: Some(StoredDirect {
                        policy: other(AutoPolicy::Direct, &direct.policy),
                        calibration: direct.calibration,
                        tau: direct.tau,
                        improvement_lambda: direct.improvement_lambda,
                        risk_lambda: direct.risk_lambda,
                    }),
                    refined: other(AutoPolicy::Refined, refined),
                }
            }
        };
        stored.serialize(serializer)
    }
}

impl TryFrom<StoredEvidence<'_>> for Evidence {
    type Error = &'static str;

    fn try_from(stored: StoredEvidence) -> Result<Self, Self::Error> {
        let StoredEvidence { policy, prior, direct, refined } = stored;
        match (policy, prior, direct, refined) {
            (None, None, None, None) => Ok(Evidence::Candidates),
            (Some(policy), Some(prior), None, None) => Ok(Evidence::Learned(LearnedEvidence {
                policy: policy.into_owned(),
                prior: prior.into_owned(),
            })),
            (Some(policy), Some(prior), Some(direct), refined) => {
                let StoredDirect { policy: other, calibration, tau, improvement_lambda, risk_lambda } =
                    direct;
                let (certified, direct, refined) = match (other, refined) {
                    (None, Some(refined)) => (AutoPolicy::Direct, policy, refined),
                    (Some(direct), None) => (AutoPolicy::Refined, direct, policy),
                    _ => return Err("evidence of `auto` must contain exactly two policies"),
                };
                let policy = direct.into_owned();
                let direct = DirectEvidence { policy, calibration, tau, improvement_lambda, risk_lambda };
                let (refined, prior) = (refined.into_owned(), prior.into_owned());
                Ok(Evidence::Auto { policies: AutoEvidence { direct, refined, prior }, certified })
            }
            _ => Err("evidence must contain a policy with its prior, or be empty"),
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

    #[test]
    fn the_stored_form_is_read_back() {
        let prior = PriorEvidence { mean: vec![vec![0.0, 0.0]], scale: 1.0 };
        let policy = lig(3.0);
        let direct = DirectEvidence {
            policy: lig(1.0),
            calibration: None,
            tau: 0.25,
            improvement_lambda: 0.5,
            risk_lambda: 0.75,
        };
        let policies = AutoEvidence { direct, refined: lig(2.0), prior: prior.clone() };
        let auto = |certified| Evidence::Auto { policies: policies.clone(), certified };
        let all = [
            (Evidence::Candidates, vec![]),
            (Evidence::Learned(LearnedEvidence { policy, prior }), vec!["policy", "prior"]),
            (auto(AutoPolicy::Direct), vec!["direct", "policy", "prior", "refined"]),
            (auto(AutoPolicy::Refined), vec!["direct", "policy", "prior"]),
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
        let mut stored = serde_json::to_value(Evidence::Auto {
            policies: AutoEvidence {
                direct: DirectEvidence {
                    policy: lig(1.0),
                    calibration: None,
                    tau: 0.25,
                    improvement_lambda: 0.5,
                    risk_lambda: 0.75,
                },
                refined: lig(2.0),
                prior: PriorEvidence { mean: vec![vec![0.0, 0.0]], scale: 1.0 },
            },
            certified: AutoPolicy::Refined,
        })
        .unwrap();
        stored["refined"] = json!(lig(4.0));
        assert!(serde_json::from_value::<Evidence>(stored.clone()).is_err(), "three policies");
        stored.as_object_mut().unwrap().remove("policy");
        assert!(serde_json::from_value::<Evidence>(stored).is_err(), "no certified policy");
        assert!(serde_json::from_value::<Evidence>(json!({"policy": lig(1.0)})).is_err(), "no prior");
    }
}

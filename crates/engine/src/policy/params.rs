//! Policies as they are stored, exchanged and identified by digest.

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::{ActionScorer, FeatureMap};
use crate::digest::digest_of;
use crate::error::{EngineError, Result, SpecCode, SpecError};
use crate::log::ActionSets;

/// The form of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PolicyKind {
    /// Softmax of linear scores.
    Softmax,
    /// Argmax of linear scores with independent Gaussian weights.
    Lig,
    /// Softmax averaged over Gaussian weights.
    MixedLogit,
    /// Every action with the same probability.
    Uniform,
    /// Another policy that explores with some probability.
    Exploring,
    /// Softmax of the scores of the available actions, from their features.
    ActionScorer,
    /// Every available action with the same probability.
    UniformOverSets,
}

/// The parameters of a policy. `mean` has one row per dimension of φ(x), with K numbers each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyParams {
    /// π(a|x) ∝ exp(inverse_temperature·φ(x)ᵀmean_a).
    Softmax {
        /// μ, the weights: one row per dimension of φ(x), one number per action.
        mean: Vec<Vec<f64>>,
        /// α, the factor on the scores.
        #[serde(default = "one")]
        inverse_temperature: f64,
        /// φ, the transform of contexts; the identity if absent.
        #[serde(default, skip_serializing_if = "FeatureMap::is_identity")]
        features: FeatureMap,
    },
    /// The argmax of φ(x)ᵀθ_a with θ_a ~ N(mean_a, scale²I).
    Lig {
        /// μ, the mean of the weights: one row per dimension of φ(x), one number per action.
        mean: Vec<Vec<f64>>,
        /// σ, the standard deviation of the weights.
        #[serde(default = "one")]
        scale: f64,
        /// φ, the transform of contexts; the identity if absent.
        #[serde(default, skip_serializing_if = "FeatureMap::is_identity")]
        features: FeatureMap,
    },
    /// The softmax of φ(x)ᵀθ_a averaged over θ_a ~ N(mean_a, scale²I).
    MixedLogit {
        /// μ, the mean of the weights: one row per dimension of φ(x), one number per action.
        mean: Vec<Vec<f64>>,
        /// σ, the standard deviation of the weights.
        #[serde(default = "one")]
        scale: f64,
        /// φ, the transform of contexts; the identity if absent.
        #[serde(default, skip_serializing_if = "FeatureMap::is_identity")]
        features: FeatureMap,
    },
    /// Every action with the same probability.
    Uniform {
        /// K, the number of actions.
        n_actions: usize,
        /// p, the number of features of a context.
        dim: usize,
    },
    /// Plays `with` with probability `share`, and otherwise `base`.
    Exploring {
        /// The probability of playing `with`.
        share: f64,
        /// The policy that is played otherwise.
        #[cfg_attr(feature = "schema", schema(no_recursion))]
        base: Box<PolicyParams>,
        /// The policy to explore with.
        #[cfg_attr(feature = "schema", schema(no_recursion))]
        with: Box<PolicyParams>,
    },
    /// Scores every available action from its features and those of the request, and plays the softmax.
    ActionScorer(Box<ActionScorer>),
    /// Every available action with the same probability.
    UniformOverSets {},
}

fn one() -> f64 {
    1.0
}

impl PolicyParams {
    /// The policy's form.
    pub fn kind(&self) -> PolicyKind {
        match self {
            PolicyParams::Softmax { .. } => PolicyKind::Softmax,
            PolicyParams::Lig { .. } => PolicyKind::Lig,
            PolicyParams::MixedLogit { .. } => PolicyKind::MixedLogit,
            PolicyParams::Uniform { .. } => PolicyKind::Uniform,
            PolicyParams::Exploring { .. } => PolicyKind::Exploring,
            PolicyParams::ActionScorer(_) => PolicyKind::ActionScorer,
            PolicyParams::UniformOverSets {} => PolicyKind::UniformOverSets,
        }
    }

    /// The policy without its exploration, and what it explores with, if it does.
    pub fn parts(&self) -> (&PolicyParams, Option<(f64, &PolicyParams)>) {
        match self {
            PolicyParams::Exploring { share, base, with } => (base, Some((*share, with))),
            plain => (plain, None),
        }
    }

    /// Checks that the parameters are neither ragged nor empty, and are finite. All other methods assume that
    /// this check passed.
    ///
    /// # Errors
    /// `invalid_policy` with the field at fault.
    pub fn check(&self) -> Result<(), SpecError> {
        let fault =
            |field: &str, message: String| Err(SpecError::new(SpecCode::InvalidPolicy, field, message));
        if let PolicyParams::Exploring { share, base, with } = self {
            return check_exploring(*share, base, with);
        }
        match self {
            PolicyParams::ActionScorer(scorer) => return scorer.check(),
            PolicyParams::UniformOverSets {} => return Ok(()),
            _ => {}
        }
        if self.n_actions() < 2 {
            let field = if self.mean().is_some() { "mean" } else { "n_actions" };
            return fault(field, "a policy needs at least two actions".into());
        }
        let scale = match self {
            PolicyParams::Softmax { inverse_temperature, .. } if !inverse_temperature.is_finite() => {
                return fault("inverse_temperature", "must be a finite number".into());
            }
            PolicyParams::Lig { scale, .. } | PolicyParams::MixedLogit { scale, .. } => *scale,
            _ => 1.0,
        };
        if !(scale.is_finite() && scale >= 1e-9) {
            return fault("scale", format!("{scale} is not a finite number of at least 1e-9"));
        }
        if let Some(mean) = self.mean() {
            self.features().check(mean.len())?;
        }
        for (j, row) in self.mean().unwrap_or(&[]).iter().enumerate() {
            if row.len() != self.n_actions() {
                let want = self.n_actions();
                return fault(&format!("mean[{j}]"), format!("has {} numbers, not {want}", row.len()));
            }
            if let Some(a) = row.iter().position(|v| !v.is_finite() || v.abs() > 1e30) {
                return fault(&format!("mean[{j}][{a}]"), "is not a finite number below 1e30".into());
            }
        }
        Ok(())
    }

    /// Whether the policy plays over the set of actions that it is given.
    pub fn plays_sets(&self) -> bool {
        matches!(self.parts().0, PolicyParams::ActionScorer(_) | PolicyParams::UniformOverSets {})
    }

    /// The features that a scorer of actions reads; None for other policies.
    pub fn set_features(&self) -> Option<ActionSets> {
        let (base, explored) = self.parts();
        [Some(base), explored.map(|(_, with)| with)].into_iter().flatten().find_map(|part| match part {
            PolicyParams::ActionScorer(scorer) => Some(scorer.features),
            _ => None,
        })
    }

    /// p, the dimension of contexts; 0 if the policy plays sets.
    pub fn dim(&self) -> usize {
        match self {
            PolicyParams::ActionScorer(_) | PolicyParams::UniformOverSets {} => 0,
            PolicyParams::Uniform { dim, .. } => *dim,
            PolicyParams::Exploring { base, .. } => base.dim(),
            _ => self.features().input_dim(self.mean().map_or(0, <[_]>::len)),
        }
    }

    /// K, the number of actions; 0 if the policy plays sets.
    pub fn n_actions(&self) -> usize {
        match self {
            PolicyParams::ActionScorer(_) | PolicyParams::UniformOverSets {} => 0,
            PolicyParams::Uniform { n_actions, .. } => *n_actions,
            PolicyParams::Exploring { base, .. } => base.n_actions(),
            _ => self.mean().and_then(|m| m.first()).map_or(0, Vec::len),
        }
    }

    /// μ, without exploration; None for the uniform policy.
    pub fn mean(&self) -> Option<&[Vec<f64>]> {
        match self {
            PolicyParams::Softmax { mean, .. }
            | PolicyParams::Lig { mean, .. }
            | PolicyParams::MixedLogit { mean, .. } => Some(mean),
            PolicyParams::Uniform { .. }
            | PolicyParams::ActionScorer(_)
            | PolicyParams::UniformOverSets {} => None,
            PolicyParams::Exploring { base, .. } => base.mean(),
        }
    }

    /// φ, the transform of contexts.
    pub fn features(&self) -> &FeatureMap {
        match self {
            PolicyParams::Softmax { features, .. }
            | PolicyParams::Lig { features, .. }
            | PolicyParams::MixedLogit { features, .. } => features,
            PolicyParams::Uniform { .. }
            | PolicyParams::ActionScorer(_)
            | PolicyParams::UniformOverSets {} => &FeatureMap::Identity,
            PolicyParams::Exploring { base, .. } => base.features(),
        }
    }

    /// The Gaussian N(μ, σ²I) of this policy when it is used as a prior: its own for LIG and mixed logit,
    /// N(αμ, `softmax_scale`²I) for a softmax (paper, Experiments), and None for the uniform policy. It leaves
    /// exploration out.
    pub fn gaussian(&self, softmax_scale: f64) -> Option<(Array2<f64>, f64)> {
        let mean = self.mean_matrix()?;
        Some(match self {
            PolicyParams::Softmax { inverse_temperature, .. } => (mean * *inverse_temperature, softmax_scale),
            PolicyParams::Lig { scale, .. } | PolicyParams::MixedLogit { scale, .. } => (mean, *scale),
            PolicyParams::Uniform { .. }
            | PolicyParams::ActionScorer(_)
            | PolicyParams::UniformOverSets {} => return None,
            PolicyParams::Exploring { base, .. } => return base.gaussian(softmax_scale),
        })
    }

    /// μ as a matrix; None for the uniform policy.
    pub fn mean_matrix(&self) -> Option<Array2<f64>> {
        let mean = self.mean()?;
        let flat: Vec<f64> = mean.iter().flatten().copied().collect();
        Array2::from_shape_vec((mean.len(), self.n_actions()), flat).ok()
    }

    /// The digest of the parameters.
    ///
    /// # Errors
    /// If a parameter is not finite.
    pub fn digest(&self) -> Result<String> {
        digest_of(self)
    }

    /// An id that is the beginning of the digest, as a UUID of version 8. Without a service to give out ids, it makes
    /// certificates that name the policy the same every time.
    ///
    /// # Errors
    /// If a parameter is not finite.
    pub fn id_of_content(&self) -> Result<String> {
        let digest = self.digest()?;
        let hex = digest.trim_start_matches("sha256:");
        let number = hex.get(..32).and_then(|start| u128::from_str_radix(start, 16).ok());
        let number =
            number.ok_or_else(|| EngineError::Numerical("the digest of a policy is too short".into()))?;
        let number = number & !(0xf << 76) & !(0b11 << 62) | 8 << 76 | 0b10 << 62;
        let text = format!("{number:032x}");
        Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
    }

    /// The digest of what the scores are computed from. Policies that differ in their form, their scale or their
    /// exploration only have the same, because they know the same.
    ///
    /// # Errors
    /// If a parameter is not finite.
    pub fn scores_digest(&self) -> Result<String> {
        match self.mean() {
            Some(mean) => digest_of(&(mean, self.features())),
            None => match self.parts().0 {
                PolicyParams::ActionScorer(scorer) => {
                    digest_of(&ActionScorer { inverse_temperature: 1.0, ..(**scorer).clone() })
                }
                base => digest_of(base),
            },
        }
    }

    /// The number of dimensions of φ.
    pub fn width(&self) -> usize {
        self.mean().map_or(0, <[_]>::len)
    }

    /// About how many multiplications the scores of one context take.
    pub fn work(&self) -> usize {
        match self {
            PolicyParams::Exploring { base, with, .. } => base.work().saturating_add(with.work()),
            PolicyParams::Uniform { .. } | PolicyParams::UniformOverSets {} => 0,
            _ => {
                let inputs =
                    if let FeatureMap::Hidden { center, .. } = self.features() { center.len() } else { 0 };
                self.width().saturating_mul(inputs.saturating_add(self.n_actions()))
            }
        }
    }

    /// Whether the policy, or a part of it, is a mixed logit.
    pub fn mixes_logits(&self) -> bool {
        match self {
            PolicyParams::Exploring { base, with, .. } => base.mixes_logits() || with.mixes_logits(),
            policy => policy.kind() == PolicyKind::MixedLogit,
        }
    }
}

fn check_exploring(share: f64, base: &PolicyParams, with: &PolicyParams) -> Result<(), SpecError> {
    let fault = |field: &str, message: &str| Err(SpecError::new(SpecCode::InvalidPolicy, field, message));
    if !(0.0..=1.0).contains(&share) {
        return fault("share", "must be in [0, 1]");
    }
    for (field, policy) in [("base", base), ("with", with)] {
        // What a policy explores with may be a logging policy that explored. Deeper mixtures have no use.
        let innermost = if field == "with" { policy.parts().0 } else { policy };
        if innermost.kind() == PolicyKind::Exploring {
            return fault(field, "must not explore itself; explore once");
        }
        policy.check().map_err(|error| SpecError { field: format!("{field}.{}", error.field), ..error })?;
    }
    if (base.n_actions(), base.dim()) != (with.n_actions(), with.dim()) {
        return fault("with", "must have as many actions and features as `base`");
    }
    if let (Some(base), Some(with)) = (base.set_features(), with.set_features())
        && base != with
    {
        return fault("with", "must read the same features as `base`");
    }
    Ok(())
}

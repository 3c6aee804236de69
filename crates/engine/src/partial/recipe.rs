//! The recipe: everything that the sum over rows depends on, fixed before the first certified row.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{MergeCode, MergeError};
use crate::bound::ControlVariate;
use crate::certificate::{LearningRecord, METHOD, StrictJson, extra_field};
use crate::certify::check_plan;
use crate::checks::CheckPlan;
use crate::cost_model::ScoreCalibration;
use crate::digest::digest_of;
use crate::log::{Capabilities, LogShape, Logging, Outcome, Period, Precision};
use crate::measure::Subject;
use crate::policy::PolicyParams;
use crate::spec::{BaselineKind, BoundKind, Candidate, JobKind, JobSpec, Looks};

/// The name and version of the format.
pub const RECIPE_FORMAT: &str = "guarantor.recipe/1";
/// The most bets of one claim.
const MAX_BETS: usize = 128;
/// The longest name of a snapshot.
const MAX_SNAPSHOT: usize = 256;
/// The largest λ: λz stays at or below 0.9 for z ≤ 1.
const MAX_LAMBDA: f64 = 0.9;

/// What is certified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RecipeSubject {
    /// A policy whose propensities the rows carry under this name.
    Logged {
        /// The candidate's name in the rows.
        name: String,
    },
    /// A policy with parameters.
    Policy {
        /// The parameters.
        params: Box<PolicyParams>,
    },
}

/// What the rows must have, and how they are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogTerms {
    /// K, the number of actions.
    pub n_actions: usize,
    /// p, the number of features that the policy reads; 0 if a logged candidate is certified, which needs none.
    pub dim: usize,
    /// The kind and range of the outcome.
    pub outcome: Outcome,
    /// Whether one policy logged every row.
    pub logging: Logging,
    /// Whether propensities are exact, whatever their digits.
    pub exact_propensities: bool,
    /// Whether rows have π0(·|x) of all actions.
    pub full_propensities: bool,
    /// Whether rows have π(·|x) of the logged candidate.
    pub candidate_propensities: bool,
    /// How precisely propensities are written. Rows that are less precise cannot be merged.
    pub precision: Precision,
    /// How precisely the logged candidate's probabilities are written.
    pub candidate_precision: Precision,
}

/// Which rows were learned from. They are left out of the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SplitRule {
    /// Rows up to a time, and that time included, were learned from. All rows must have a `timestamp`.
    After {
        /// The time of the last row that was learned from, in microseconds since 1970.
        timestamp: i64,
    },
    /// The rows that were learned from are not in the partitions, as the caller states.
    Separate,
}

impl SplitRule {
    /// Whether a row is certified.
    pub fn certifies(self, timestamp: Option<i64>) -> bool {
        match self {
            SplitRule::After { timestamp: last } => timestamp.is_some_and(|time| time > last),
            SplitRule::Separate => true,
        }
    }

    /// Whether this many rows are all certified. Those without times have none in the list.
    pub fn certifies_all(self, timestamps: &[i64], rows: usize) -> bool {
        match self {
            SplitRule::After { timestamp: last } => {
                timestamps.len() == rows && timestamps.iter().fold(true, |all, &time| all & (time > last))
            }
            SplitRule::Separate => true,
        }
    }
}

/// One constant bet of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecipeBet {
    /// λ, the size of the bet.
    pub lambda: f64,
    /// θ, the factor of the control variate; 0 without one.
    pub theta: f64,
    /// Its share of the mixture.
    pub share: f64,
}

/// The log on which a recipe was frozen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedFrom {
    /// The number of its rows.
    pub rows: u64,
    /// The digest of its rows.
    pub digest: String,
    /// The sketch of its rows in hexadecimal digits, by which they are recognized among the certified ones; absent if nothing was
    /// fixed by them but the sizes of the bets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sketch: Option<String>,
}

/// A frozen recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The name and version of the format.
    pub format: String,
    /// The version of the statistical method.
    pub method: u32,
    /// The release that froze the recipe. Partials of other releases cannot be merged with it.
    pub engine_version: String,
    /// What is certified.
    pub subject: RecipeSubject,
    /// The spec that the certificate carries: δ, the required improvement, the candidate.
    pub spec: JobSpec,
    /// What the rows must have.
    pub log: LogTerms,
    /// Which rows were learned from.
    pub split: SplitRule,
    /// The bets of the claim about the improvement.
    pub improvement: Vec<RecipeBet>,
    /// The bets of the claim about the risk.
    pub risk: Vec<RecipeBet>,
    /// Whether the constant −1 is the control variate. It needs π0(·|x) and π(·|x).
    #[serde(default)]
    pub constant_control: bool,
    /// How the policy's scores are read as costs, if the cost model is the control variate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_model: Option<ScoreCalibration>,
    /// The log on which all of this was fixed.
    pub learned_from: LearnedFrom,
    /// The number of certified rows that λ was chosen for, if the caller stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_rows: Option<u64>,
    /// How the policy was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningRecord>,
    /// The snapshot of the table that the rows are read from, if there is one, as the caller names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

fn invalid(message: impl Into<String>) -> MergeError {
    MergeError::new(MergeCode::InvalidRecipe, message)
}

impl Recipe {
    /// The recipe that this JSON has.
    ///
    /// # Errors
    /// If it is not a recipe, has fields that a recipe does not have, or values that no certificate can rest on.
    pub fn from_json(text: &str) -> Result<Recipe, MergeError> {
        let unreadable = |error: serde_json::Error| invalid(format!("the recipe cannot be read: {error}"));
        let StrictJson(sent) = serde_json::from_str(text).map_err(unreadable)?;
        Recipe::from_value(sent)
    }

    /// The recipe that this JSON value is.
    ///
    /// # Errors
    /// As [`Self::from_json`].
    pub fn from_value(sent: Value) -> Result<Recipe, MergeError> {
        let unreadable = |error: serde_json::Error| invalid(format!("the recipe cannot be read: {error}"));
        let recipe: Recipe = serde_json::from_value(sent.clone()).map_err(unreadable)?;
        let kept = serde_json::to_value(&recipe).map_err(unreadable)?;
        if let Some(field) = extra_field(&sent, &kept) {
            return Err(invalid(format!("the recipe has the field {field}, which recipes do not have")));
        }
        recipe.check()?;
        Ok(recipe)
    }

    /// The recipe as canonical JSON.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn to_json(&self) -> Result<String, MergeError> {
        serde_json_canonicalizer::to_string(self)
            .map_err(|error| invalid(format!("the recipe has no canonical JSON form: {error}")))
    }

    /// The digest of the canonical JSON. Partials name their recipe by it.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn digest(&self) -> Result<String, MergeError> {
        digest_of(self).map_err(|error| invalid(error.to_string()))
    }

    /// The control variate.
    pub(super) fn control(&self) -> ControlVariate {
        match (&self.cost_model, self.constant_control) {
            (Some(_), _) => ControlVariate::CostModel,
            (None, true) => ControlVariate::Constant,
            (None, false) => ControlVariate::None,
        }
    }

    /// The policy; None if the rows carry its propensities.
    pub fn policy(&self) -> Option<&PolicyParams> {
        match &self.subject {
            RecipeSubject::Policy { params } => Some(params),
            RecipeSubject::Logged { .. } => None,
        }
    }

    /// What is measured on a log that has the logged candidate, if there is one, as its only candidate.
    pub(super) fn measured(&self) -> Subject<'_> {
        match &self.subject {
            RecipeSubject::Policy { params } => Subject::Policy(params),
            RecipeSubject::Logged { .. } => Subject::Logged(0),
        }
    }

    /// The candidate's label on the certificate; None if the policy was learned.
    pub fn label(&self) -> Option<String> {
        self.spec.candidates.first().map(Candidate::label)
    }

    /// The sizes of certified rows, and what they have.
    pub(super) fn shape(&self, rows: u64, period: Option<Period>) -> LogShape {
        let terms = &self.log;
        let logged = self.policy().is_none();
        let name = || vec!["candidate".to_owned()];
        LogShape {
            rows,
            contexts: rows,
            n_actions: terms.n_actions,
            dim: terms.dim,
            outcome: terms.outcome,
            logging: terms.logging,
            capabilities: Capabilities {
                features: terms.dim > 0,
                full_propensities: terms.full_propensities,
                candidates: if logged { name() } else { Vec::new() },
                candidate_propensities: if terms.candidate_propensities { name() } else { Vec::new() },
                exact_propensities: terms.exact_propensities,
                precision: terms.precision,
                candidate_precision: if logged { vec![terms.candidate_precision] } else { Vec::new() },
                timestamps: period.is_some(),
                period,
                ..Capabilities::default()
            },
        }
    }

    /// What the checks of its rows are.
    pub(super) fn check_plan(&self, shape: &LogShape) -> CheckPlan {
        let policies = [(self.label().unwrap_or_else(|| "learned".into()), self.measured())];
        check_plan(&self.spec, shape, &policies)
    }

    /// Whether rows must have a `timestamp`.
    pub fn needs_timestamps(&self) -> bool {
        matches!(self.split, SplitRule::After { .. })
    }

    /// Checks everything that a certificate rests on.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), MergeError> {
        if self.snapshot.as_ref().is_some_and(|name| name.is_empty() || name.len() > MAX_SNAPSHOT) {
            return Err(invalid(format!(
                "the name of the snapshot is empty or has more than {MAX_SNAPSHOT} bytes"
            )));
        }
        if self.format != RECIPE_FORMAT {
            return Err(invalid(format!("the format is {:?}, expected {RECIPE_FORMAT:?}", self.format)));
        }
        if self.method != METHOD || self.engine_version != crate::VERSION {
            let message = format!(
                "the recipe was frozen by release {} (method {}), and this is release {} (method {METHOD}); freeze it \
                 again, or use that release",
                self.engine_version,
                self.method,
                crate::VERSION
            );
            return Err(MergeError::new(MergeCode::MixedReleases, message));
        }
        check_spec(&self.spec)?;
        let explores = self.spec.explore.is_some() || self.spec.kind == JobKind::Evaluate;
        if self.spec.logging != Some(self.log.logging) || !explores {
            return Err(invalid("the spec is not that of the learn log; freeze the recipe again"));
        }
        self.check_subject()?;
        self.check_control()?;
        check_bets("improvement", &self.improvement, self.control())?;
        check_bets("risk", &self.risk, self.control())
    }

    fn check_subject(&self) -> Result<(), MergeError> {
        let LogTerms { n_actions, dim, .. } = self.log;
        if !(2..=1_000_000).contains(&n_actions) {
            return Err(invalid(format!("log.n_actions is {n_actions}, expected at least 2")));
        }
        let Outcome { kind, min, max, cap, floor } = self.log.outcome;
        let cuts = cap.is_none_or(|cap| cap == max) && floor.is_none_or(|floor| floor == min);
        if Outcome::new(kind, min, max).is_none() || !cuts {
            return Err(invalid("log.outcome has no range, or is cut elsewhere than at its ends"));
        }
        match (&self.subject, self.spec.candidates.as_slice(), self.spec.kind) {
            (RecipeSubject::Logged { name }, [Candidate::Logged { name: other }], JobKind::Evaluate)
                if name == other => {}
            (RecipeSubject::Policy { .. }, [Candidate::Policy { .. }], JobKind::Evaluate) => {}
            (RecipeSubject::Policy { .. }, [], JobKind::Learn) => {}
            _ => return Err(invalid("the subject is not the candidate of the spec")),
        }
        let Some(policy) = self.policy() else { return Ok(()) };
        policy.check().map_err(|error| invalid(format!("the policy cannot be used: {error}")))?;
        if policy.plays_sets() || (policy.n_actions(), policy.dim()) != (n_actions, dim) {
            let (k, p) = (policy.n_actions(), policy.dim());
            let message = format!(
                "the policy has {k} actions and {p} features, and the rows have {n_actions} and {dim}"
            );
            return Err(invalid(message));
        }
        Ok(())
    }

    fn check_control(&self) -> Result<(), MergeError> {
        if self.control() == ControlVariate::None {
            return Ok(());
        }
        let all = self.policy().is_some()
            || (self.log.candidate_propensities && !self.log.candidate_precision.is_coarse());
        if !self.log.full_propensities || self.log.precision.is_coarse() || !all {
            return Err(invalid("a control variate needs the propensities of all actions, not rounded"));
        }
        if let Some(model) = &self.cost_model {
            let finite = model.offset.is_finite() && model.slope.is_finite();
            if !finite || self.policy().is_none() || self.constant_control {
                return Err(invalid("the cost model does not belong to this recipe"));
            }
        }
        Ok(())
    }
}

/// Checks that what the spec asks for is a sum over rows, for one policy.
pub(super) fn check_spec(spec: &JobSpec) -> Result<(), MergeError> {
    if !(spec.delta > 0.0 && spec.delta < 1.0 && spec.min_improvement.is_finite()) {
        return Err(invalid("the spec's delta or min_improvement is out of its range"));
    }
    if !matches!(spec.bound, BoundKind::Auto | BoundKind::Betting) {
        return Err(invalid(format!(
            "the bound {} cannot be merged from partials; use auto or betting, which certify with constant bets there",
            spec.bound.name()
        )));
    }
    if spec.baseline.kind != BaselineKind::Certified {
        return Err(invalid("partials bound the improvement directly; use the baseline `certified`"));
    }
    if !spec.guardrails.is_empty() || spec.objective.is_some() {
        return Err(invalid("partials have one outcome without a name; guardrails cannot be merged yet"));
    }
    if spec.looks != Some(Looks::Once) || spec.seen_rows.is_some() {
        return Err(invalid("partials are of rows that no look has seen; use looks = once"));
    }
    if spec.candidates.len() > 1 {
        return Err(invalid(
            "a recipe is for one policy; freeze one recipe per candidate, each with its share of δ",
        ));
    }
    Ok(())
}

/// Checks that bets are a mixture of constants that never lose everything.
fn check_bets(claim: &str, bets: &[RecipeBet], control: ControlVariate) -> Result<(), MergeError> {
    let valid = |bet: &RecipeBet| {
        bet.lambda > 0.0
            && bet.lambda <= MAX_LAMBDA
            && (0.0..=1.0).contains(&bet.theta)
            && (bet.theta == 0.0 || control != ControlVariate::None)
            && bet.share > 0.0
    };
    let total: f64 = bets.iter().map(|bet| bet.share).sum();
    if bets.is_empty() || bets.len() > MAX_BETS || !bets.iter().all(valid) || (total - 1.0).abs() > 1e-9 {
        return Err(invalid(format!(
            "{claim}: expected 1 to {MAX_BETS} bets with λ in (0, {MAX_LAMBDA}], θ in [0, 1] and shares that sum to 1"
        )));
    }
    Ok(())
}

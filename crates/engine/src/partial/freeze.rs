//! Freezing a recipe: on the earliest part of a log, which is left out of the sum, everything is fixed that the sum
//! depends on.

use super::error::{MergeCode, MergeError};
use super::recipe::{
    LearnedFrom, LogTerms, RECIPE_FORMAT, Recipe, RecipeBet, RecipeSubject, SplitRule, check_spec,
};
use crate::bound::{ControlVariate, Guess, Rules};
use crate::certificate::METHOD;
use crate::certify::shares::{GIVEN, policy_delta};
use crate::claims::{PolicyQuantity, constant};
use crate::control::Control;
use crate::error::EngineError;
use crate::inputs::Inputs;
use crate::job::learn_for_other_rows;
use crate::log::{LogShape, LogSource};
use crate::measure::{Subject, collect};
use crate::spec::{Candidate, JobKind, JobSpec};

/// What to freeze.
pub struct FreezeRequest<'a> {
    /// The spec, resolved against the learn log: kind `learn` with the bound `auto`, or kind `evaluate` with one
    /// candidate.
    pub spec: &'a JobSpec,
    /// The number of rows that will be certified. λ is chosen for it; without it, a few λ share the bet.
    pub planned_rows: Option<u64>,
    /// The sketch of the learn log in hexadecimal digits, by which its rows are recognized among the certified ones.
    pub sketch: Option<String>,
}

/// Without a planned number of rows, λ is chosen for these multiples of the learn log.
const MULTIPLES: [u64; 4] = [1, 8, 64, 512];
/// Below this, a variance is taken for an accident of the learn log.
const LEAST_VARIANCE: f64 = 1e-6;

fn refused(message: &str) -> MergeError {
    MergeError::new(MergeCode::InvalidRecipe, message)
}

fn failed(error: EngineError) -> MergeError {
    MergeError::new(MergeCode::InvalidRecipe, error.to_string())
}

/// What is certified, and what the bets start from.
struct Fixed {
    subject: RecipeSubject,
    control: ControlVariate,
    /// z and θ of the improvement and of the risk.
    guesses: [(Guess, f64); 2],
}

impl Recipe {
    /// Freezes a recipe on the learn log, `inputs.log`. If its rows have timestamps, rows up to its last one are left out
    /// of every partial; otherwise they must not be in the partitions.
    ///
    /// # Errors
    /// If the spec asks for what is no sum over rows, the log cannot be read, or the caller cancels.
    pub fn freeze(inputs: &Inputs, request: &FreezeRequest, control: &Control) -> Result<Recipe, MergeError> {
        let (spec, shape) = (request.spec, inputs.log.shape());
        check_spec(spec)?;
        check_log(shape, inputs)?;
        if request.planned_rows == Some(0) {
            return Err(refused("the planned number of rows is 0; leave it out if it is not known"));
        }
        let (fixed, calibration, learning) = match spec.kind {
            JobKind::Learn => learned(inputs, request, control)?,
            JobKind::Evaluate => (given(inputs, spec, control).map_err(failed)?, None, None),
        };
        let logged = match &fixed.subject {
            RecipeSubject::Logged { name } => {
                shape.capabilities.candidates.iter().position(|own| own == name)
            }
            RecipeSubject::Policy { .. } => None,
        };
        let bets = |quantity: usize, share: f64| {
            let (guess, theta) = fixed.guesses[quantity];
            bets_of(&guess, theta, shape.contexts, request.planned_rows, share * policy_delta(spec))
        };
        let recipe = Recipe {
            format: RECIPE_FORMAT.into(),
            method: METHOD,
            engine_version: crate::VERSION.into(),
            improvement: bets(0, GIVEN.improvement),
            risk: bets(1, GIVEN.risk),
            log: terms_of(shape, &fixed.subject, logged),
            subject: fixed.subject,
            spec: spec.clone(),
            split: match shape.capabilities.period {
                Some(period) => SplitRule::After { timestamp: period.last },
                None => SplitRule::Separate,
            },
            constant_control: fixed.control == ControlVariate::Constant,
            cost_model: calibration,
            learned_from: LearnedFrom {
                rows: shape.rows,
                digest: inputs.dataset_digest.into(),
                sketch: request.sketch.clone(),
            },
            planned_rows: request.planned_rows,
            learning,
            snapshot: None,
        };
        recipe.check()?;
        Ok(recipe)
    }
}

/// Checks that rows like those of this log can be summed one by one.
fn check_log(shape: &LogShape, inputs: &Inputs) -> Result<(), MergeError> {
    let capabilities = &shape.capabilities;
    if capabilities.action_sets.is_some() {
        return Err(refused(
            "partials need rows that all have the same actions; certify this log in one process",
        ));
    }
    if capabilities.multiple_interactions {
        let message = "contexts were logged more than once by design, and partitions may divide them; certify this log \
                       in one process, or state repetitions = decisions";
        return Err(refused(message));
    }
    if !capabilities.outcomes.is_empty() {
        return Err(refused("partials need one outcome without a name; write the objective's outcome alone"));
    }
    if !capabilities.propensities_logged || inputs.logging_policy.is_some() {
        return Err(refused("partials read the propensities of the rows; write them into the rows"));
    }
    Ok(())
}

fn terms_of(shape: &LogShape, subject: &RecipeSubject, logged: Option<usize>) -> LogTerms {
    let capabilities = &shape.capabilities;
    let candidate_full = match subject {
        RecipeSubject::Logged { name } => capabilities.candidate_propensities.contains(name),
        RecipeSubject::Policy { .. } => false,
    };
    LogTerms {
        n_actions: shape.n_actions,
        dim: if logged.is_some() { 0 } else { shape.dim },
        outcome: shape.outcome,
        logging: shape.logging,
        exact_propensities: capabilities.exact_propensities,
        // π0(·|x) of a uniform log is not in its rows.
        full_propensities: capabilities.full_propensities && !capabilities.uniform,
        candidate_propensities: candidate_full,
        precision: capabilities.precision,
        candidate_precision: logged.map(|place| capabilities.precision_of(place)).unwrap_or_default(),
    }
}

type Learned =
    (Fixed, Option<crate::cost_model::ScoreCalibration>, Option<crate::certificate::LearningRecord>);

/// Learns a policy on all rows of the learn log.
fn learned(inputs: &Inputs, request: &FreezeRequest, control: &Control) -> Result<Learned, MergeError> {
    if !request.spec.is_automatic() {
        return Err(refused("a recipe learns with the bound auto, from a learn log of at least 20 rows"));
    }
    let contexts = inputs.log.shape().contexts;
    let planned = request.planned_rows.unwrap_or(contexts.saturating_mul(MULTIPLES[1]));
    let (evidence, record) = learn_for_other_rows(request.spec, inputs, planned, control).map_err(failed)?;
    let split = evidence.split;
    let (variate, theta) = match split.calibration {
        Some(_) => (ControlVariate::CostModel, 1.0),
        None => (ControlVariate::None, 0.0),
    };
    let fixed = Fixed {
        subject: RecipeSubject::Policy { params: Box::new(evidence.policy) },
        control: variate,
        guesses: [(split.improvement, theta), (split.risk, theta)],
    };
    Ok((fixed, split.calibration, Some(record)))
}

/// Takes the candidate of the spec as it is.
fn given(inputs: &Inputs, spec: &JobSpec, control: &Control) -> Result<Fixed, EngineError> {
    let capabilities = &inputs.log.shape().capabilities;
    let missing = |what: String| EngineError::Log(format!("{what} is missing"));
    let (subject, measured, all) = match spec.candidates.first() {
        Some(Candidate::Policy { policy_id }) => {
            let policy =
                inputs.policies.get(policy_id).ok_or_else(|| missing(format!("policy {policy_id}")))?;
            (RecipeSubject::Policy { params: Box::new(policy.clone()) }, Subject::Policy(policy), true)
        }
        Some(Candidate::Logged { name }) => {
            let place = capabilities.candidates.iter().position(|own| own == name);
            let place = place.ok_or_else(|| missing(format!("candidate {name}")))?;
            let all = capabilities.candidate_propensities.contains(name)
                && !capabilities.precision_of(place).is_coarse();
            (RecipeSubject::Logged { name: name.clone() }, Subject::Logged(place), all)
        }
        None => return Err(missing("the candidate".into())),
    };
    let controlled = all && capabilities.control_variate() && !capabilities.uniform;
    let variate = if controlled { ControlVariate::Constant } else { ControlVariate::None };
    let guess = |quantity: PolicyQuantity| guess_of(inputs.log, measured, quantity.kappa(), variate, control);
    let guesses = [guess(PolicyQuantity::Improvement)?, guess(PolicyQuantity::Risk)?];
    Ok(Fixed { subject, control: variate, guesses })
}

/// The mean and variance of z on the learn log, with the θ that makes it vary least. Rare costs may be missing from a
/// small learn log although its weights are there, so half of a row with a cost of −1 is added.
fn guess_of(
    log: &dyn LogSource,
    subject: Subject,
    kappa: u8,
    variate: ControlVariate,
    control: &Control,
) -> Result<(Guess, f64), EngineError> {
    let rules = Rules { kappa, control: variate, tau: 0.0 };
    let table = collect(log, subject, None, &rules, None, control)?.table;
    let sums = table.moments(0..table.len());
    let n = sums.contexts.max(1.0);
    let theta = if variate == ControlVariate::None { 0.0 } else { sums.theta(0.0, 5.0) };
    let mean = (sums.u + theta * sums.v) / n;
    let square = (sums.uu + 2.0 * theta * sums.uv + theta * theta * sums.vv) / n;
    let variance = (square - mean * mean).max(0.0) + 0.5 / (n + 1.0);
    // A guess that cannot be used is replaced by a careful one.
    Ok(match mean.is_finite() && variance.is_finite() {
        true => (Guess { mean, variance }, theta),
        false => (Guess { mean: 0.0, variance: 1.0 }, 0.0),
    })
}

/// One bet for the planned number of rows, or a few that share the claim.
fn bets_of(guess: &Guess, theta: f64, learned: u64, planned: Option<u64>, delta: f64) -> Vec<RecipeBet> {
    let guess = Guess { variance: guess.variance.max(LEAST_VARIANCE), ..*guess };
    let sizes: Vec<u64> = match planned {
        Some(rows) => vec![rows],
        None => MULTIPLES.iter().map(|times| learned.saturating_mul(*times)).collect(),
    };
    let share = 1.0 / sizes.len() as f64;
    let bet = |rows: u64| RecipeBet { lambda: constant(&guess, rows as f64, delta), theta, share };
    sizes.into_iter().map(bet).collect()
}

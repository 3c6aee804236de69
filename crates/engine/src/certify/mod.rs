//! From the log and the evidence to the certificate. Every number is computed here, in the same way when
//! a job ends and when its certificate is verified.

mod account;
mod assemble;
mod breakdown;
mod candidates;
mod causes;
mod findings;
mod ground;
mod guardrails;
mod judge;
mod merged;
mod planned;
pub mod shares;

use self::account::{Account, PolicyClaims};
use self::assemble::{Subjects, assemble};
use self::ground::Ground;
use self::guardrails::{Guardrails, certified_outcomes};
use self::judge::judge;
use self::shares::{GIVEN, NAMED, Shares, guardrail_delta, objective_delta, policy_delta};
use crate::bound::{ControlVariate, Start};
use crate::certificate::{
    About, AutoEvidence, Certificate, Exploration, LearnedEvidence, LearningRecord, PriorEvidence,
};
use crate::claims::{Bet, Claim, Game, PolicyQuantity, bound_of, guardrail_bound};
use crate::control::Control;
use crate::cost_model::CostModel;
use crate::error::{EngineError, Result, finite};
use crate::estimate;
use crate::inputs::Inputs;
use crate::learn::bound_learner::Gaussian;
use crate::log::LogSource;
use crate::measure::{Modeled, Subject};
use crate::objective::ObjectiveLog;
use crate::policy::PolicyParams;
use crate::spec::{ExploreWith, JobKind, JobSpec, Looks};

pub use candidates::certify_candidates;
pub use findings::{FINDINGS, add_logged, findings_of};
pub use ground::{Checked, check_each, check_plan, check_rows};
pub use merged::{MergedNumbers, certify_merged};
pub use planned::plan_before;

/// Certifies a policy that was learned with a named bound.
///
/// # Errors
/// If the spec is not of this kind, the log cannot be read, or a number is not finite.
pub fn certify_learned(
    spec: &JobSpec,
    inputs: &Inputs,
    evidence: &LearnedEvidence,
    learning: Option<LearningRecord>,
    control: &Control,
) -> Result<Certificate> {
    if spec.kind != JobKind::Learn || spec.is_automatic() {
        return Err(other_evidence());
    }
    let LearnedEvidence { policy, prior } = evidence;
    let objective = ObjectiveLog::new(spec, inputs.log)?;
    let of_objective = Inputs { log: objective.source(), ..*inputs };
    // The weights of a policy that was learned on the certified rows need not have the mean 1 on them.
    let ground = Ground::new(spec, &of_objective, &[], control)?;
    let claiming = &ground.claiming(control)?;
    let mut account = Account::open(claiming, ground.baseline(), control)?;
    let posterior = Posterior { about: About::Learned, policy, prior };
    let mut claims = posterior.claim(claiming, &ground.certified, NAMED, &mut account, control)?;
    let rows = certified_outcomes(spec, &ground.span, inputs)?;
    posterior.guard(claiming, &Guardrails::new(spec, rows.as_ref())?, &mut account, &mut claims, control)?;
    account.set_aside(spec.delta - claiming.delta);
    account.rest_on(&claims);
    let judged = judge(&ground, &account, &claims, (None, Subject::Policy(policy)), control)?;
    let subjects = Subjects {
        policy: Some(policy),
        prior: Some(prior),
        learning,
        exploration: exploration(&ground, policy, control)?,
        guardrails: claims.guardrails,
        outcomes: inputs.log.shape().capabilities.outcomes.clone(),
        last_quarter: ground.last_quarter(Subject::Policy(policy), control)?,
        ..Subjects::default()
    };
    assemble(&ground, account, judged, subjects)
}

/// Certifies the policy of `auto` (docs/math.md#auto).
///
/// # Errors
/// If the spec is not of this kind, the log cannot be read, or a number is not finite.
pub fn certify_auto(
    spec: &JobSpec,
    inputs: &Inputs,
    evidence: &AutoEvidence,
    learning: Option<LearningRecord>,
    control: &Control,
) -> Result<Certificate> {
    if spec.kind != JobKind::Learn || !spec.is_automatic() {
        return Err(other_evidence());
    }
    let policy = &evidence.policy;
    let objective = ObjectiveLog::new(spec, inputs.log)?;
    let of_objective = Inputs { log: objective.source(), ..*inputs };
    let checked = [(About::Learned.subject(), Subject::Policy(policy))];
    let ground = Ground::new(spec, &of_objective, &checked, control)?;
    let claiming = &ground.claiming(control)?;
    let mut account = Account::open(claiming, ground.baseline(), control)?;
    let mut claims = claim_auto(claiming, &ground, evidence, &mut account, control)?;
    let rows = certified_outcomes(spec, &ground.span, inputs)?;
    let (guardrails, delta) = (Guardrails::new(spec, rows.as_ref())?, guardrail_delta(claiming, 1));
    guardrails.claim_auto(&ground, evidence, delta, &mut account, &mut claims, control)?;
    account.set_aside(spec.delta - claiming.delta);
    account.rest_on(&claims);
    let judged = judge(&ground, &account, &claims, (None, Subject::Policy(policy)), control)?;
    let subjects = Subjects {
        policy: Some(policy),
        cost_model: cost_model(evidence),
        learning,
        exploration: exploration(&ground, policy, control)?,
        guardrails: claims.guardrails,
        outcomes: inputs.log.shape().capabilities.outcomes.clone(),
        last_quarter: ground.last_quarter(Subject::Policy(policy), control)?,
        ..Subjects::default()
    };
    assemble(&ground, account, judged, subjects)
}

/// What the certificate says about the exploration of the learned policy.
fn exploration(ground: &Ground, policy: &PolicyParams, control: &Control) -> Result<Option<Exploration>> {
    let Some(explore) = ground.spec.explore else { return Ok(None) };
    let (base, explored) = policy.parts();
    let Some((_, with)) = explored else {
        let note = "The policy does not explore: it plays nearly always the same action in a context, so the log \
                    that it produces cannot be certified again.";
        return Ok(Some(Exploration { explore, estimated_cost: 0.0, note: note.into() }));
    };
    let risk = |policy| estimate::cips(&ground.certified, Subject::Policy(policy), 0.0, control);
    let estimated_cost = finite("the cost of exploration", explore.share * (risk(with)? - risk(base)?))?;
    let note = match explore.with {
        ExploreWith::Uniform => {
            let note = "The policy plays every action in every context with at least a small probability, so the log \
                        that it produces can be certified again.";
            let positions = ground.certified.shape().capabilities.action_sets.is_some();
            match if positions { 0 } else { never_logged(&ground.certified, control)? } {
                0 => note.into(),
                never => format!("{note} {never} of them were never logged in the certified rows."),
            }
        }
        ExploreWith::LoggingPolicy => {
            "The policy plays what the logging policy played with at least a small probability, so the log that it \
             produces can be certified again where the logging policy was random."
                .into()
        }
    };
    Ok(Some(Exploration { explore, estimated_cost, note }))
}

/// The number of actions that were never logged.
fn never_logged(log: &dyn LogSource, control: &Control) -> Result<usize> {
    let mut logged = vec![false; log.shape().n_actions];
    for index in 0..log.chunks() {
        control.check()?;
        let chunk = log.chunk(index)?;
        chunk.check(log.shape())?;
        chunk.actions.iter().for_each(|&action| logged[action as usize] = true);
    }
    Ok(logged.iter().filter(|logged| !**logged).count())
}

/// The error for evidence that belongs to a different kind of job than the spec describes.
fn other_evidence() -> EngineError {
    EngineError::Log("the evidence does not belong to a job with this spec".into())
}

/// A learned policy with its prior.
struct Posterior<'a> {
    about: About<'a>,
    policy: &'a PolicyParams,
    prior: &'a PriorEvidence,
}

impl Posterior<'_> {
    fn claim(
        &self,
        spec: &JobSpec,
        log: &dyn LogSource,
        shares: Shares,
        account: &mut Account,
        control: &Control,
    ) -> Result<PolicyClaims> {
        let kl = self.kl()?;
        let Posterior { about, policy, .. } = *self;
        account.claim(spec, about, shares, policy_delta(spec), |quantity, delta| {
            let bound = bound_of(spec, log, quantity, delta)?;
            let claim = Claim { about, subject: Subject::Policy(policy), quantity, delta, guardrail: None };
            claim.for_posterior(log, &*bound, kl, control)
        })
    }

    /// The claims of the guardrails. The betting bound holds for all posteriors at once, so the policy may depend on
    /// the rows.
    fn guard(
        &self,
        spec: &JobSpec,
        guardrails: &Guardrails,
        account: &mut Account,
        claims: &mut PolicyClaims,
        control: &Control,
    ) -> Result<()> {
        let kl = self.kl()?;
        let (about, delta) = ((self.about, Subject::Policy(self.policy)), guardrail_delta(spec, 1));
        guardrails.claim(account, claims, about, delta, control, |_, log, claim| {
            claim.for_posterior(log, &guardrail_bound(spec, log, claim.delta), kl, control)
        })
    }

    /// KL(Q‖P), computed from the parameters so that no stored number has to be trusted. Exploration is mixed into
    /// the prior alike, and KL is convex, so it shrinks by the share of exploration.
    fn kl(&self) -> Result<f64> {
        let prior = self.prior;
        let flat: Vec<f64> = prior.mean.iter().flatten().copied().collect();
        let k = self.policy.n_actions();
        let mean = ndarray::Array2::from_shape_vec((prior.mean.len(), k), flat).ok();
        match (mean, self.policy.gaussian(1.0)) {
            (Some(mean), Some((q, scale))) if mean.dim() == q.dim() && prior.scale > 0.0 => {
                let kl = Gaussian { mean: q, scale }.kl(&Gaussian { mean, scale: prior.scale });
                let explored = self.policy.parts().1.map_or(0.0, |(share, _)| share);
                finite("KL", (1.0 - explored) * kl)
            }
            _ => Err(EngineError::Numerical("the prior does not have the policy's shape".into())),
        }
    }
}

/// The cost model of the learn side's policy, if it has one.
fn cost_model(evidence: &AutoEvidence) -> Option<CostModel<'_>> {
    evidence.split.calibration.map(|calibration| CostModel { scores: &evidence.policy, calibration })
}

/// Claims about the learn side's policy. The learn side fixed all parameters, so nothing is minimized.
fn claim_auto(
    spec: &JobSpec,
    ground: &Ground,
    evidence: &AutoEvidence,
    account: &mut Account,
    control: &Control,
) -> Result<PolicyClaims> {
    let (about, cost_model) = (About::Learned, cost_model(evidence));
    let (variate, start) = match cost_model {
        Some(_) => (ControlVariate::CostModel, Start::COST_MODEL),
        None => (ControlVariate::None, Start::CONSTANT),
    };
    account.claim(spec, about, GIVEN, objective_delta(spec), |quantity, delta| {
        let guess = match quantity {
            PolicyQuantity::Improvement => evidence.split.improvement,
            PolicyQuantity::Risk => evidence.split.risk,
        };
        // In order of arrival, rows of one context would choose factors for each other, and a budget is for one row each.
        let repeated = ground.certified.shape().capabilities.multiple_interactions;
        let (name, game) = match ground.may_aim() {
            true => ("aimed_betting", Game::Aimed { seed: ground.order_seed(), guess: Some(guess) }),
            false => match (quantity, evidence.split.budget) {
                (PolicyQuantity::Improvement, Some(plan)) if spec.looks == Some(Looks::Once) && !repeated => {
                    ("budgeted_betting", Game::Budget(guess, plan))
                }
                _ => ("betting", Game::One(guess)),
            },
        };
        let start = Start { fixed: repeated && !ground.may_aim(), ..start };
        let modeled = cost_model.as_ref().map(Modeled::Fixed);
        let bet = Bet { game, control: variate, start, cost_model: modeled, plays: None };
        let subject = Subject::Policy(&evidence.policy);
        let claim = Claim { about, subject, quantity, delta, guardrail: None };
        claim.for_given(&ground.certified, name, &bet, control)
    })
}

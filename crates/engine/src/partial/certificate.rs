//! The certificate of merged partials.

use super::error::MergeError;
use super::merge::Merged;
use super::recipe::{Recipe, RecipeBet};
use super::sums::ClaimSums;
use crate::bound::{ControlVariate, Guess, Member, Mixture};
use crate::certificate::{
    About, AutoEvidence, BoundRecord, Certificate, Document, Evidence, MergedRecord, SplitEvidence,
};
use crate::certify::{MergedNumbers, certify_merged};
use crate::checks::CheckScope;
use crate::claims::{Claim, PolicyQuantity, spread};
use crate::cost_model::CostModel;
use crate::error::{Result, finite};
use crate::job::Finished;
use crate::numerics::elementary::ln;
use crate::numerics::exact::ExactSum;
use crate::terms::Terms;

/// What the caller states, on every certificate of partials.
const FROZEN_BEFORE: &str = "The caller states that the recipe was frozen before anybody looked at the outcomes of the \
                             certified rows, and that the partials are the sums over these rows.";

impl Merged {
    /// The certificate. It does not depend on how the rows were divided into partitions, nor on any order.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn certificate(&self) -> Result<Certificate, MergeError> {
        let Merged { recipe, rows, sums, .. } = self;
        let shape = self.shape();
        let subject = recipe.measured();
        let n = rows.certified as f64;
        let plan = recipe.check_plan(&shape);
        let checks = sums.checks.finish(&plan, CheckScope::CertifiedRows);
        let findings: Vec<f64> = sums.findings.iter().map(|sum| sum.value() / n).collect();
        let digest = self.rows_digest()?;
        let numbers = MergedNumbers {
            spec: &recipe.spec,
            shape: &shape,
            rows: rows.total(),
            digest: &digest,
            subject,
            policy: recipe.policy(),
            cost_model: recipe.model(),
            learning: recipe.learning.clone(),
            mean_cost: finite("the mean cost", sums.cost.value() / n)?,
            findings: &findings,
            checks: &checks,
            merged: MergedRecord {
                recipe: self.recipe_digest.clone(),
                content: self.content.clone(),
                frozen_on_rows: recipe.learned_from.rows,
                frozen_on: recipe.learned_from.digest.clone(),
                snapshot: recipe.snapshot.clone(),
                note: MergedRecord::NOTE.into(),
                partials: self.partials.clone(),
            },
        };
        let mut certificate =
            certify_merged(numbers, |about, quantity, delta| self.claim(about, quantity, delta))?;
        certificate.attestations.push(FROZEN_BEFORE.into());
        certificate.digest = certificate.content_digest()?;
        Ok(certificate)
    }

    /// The certificate as a document, not signed.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn document(&self) -> Result<Document, MergeError> {
        let certificate = self.certificate()?;
        Ok(Document { certificate, issued: None, ledger: None, signature: None })
    }

    /// What a job on the merged sums returns. The evidence has the learned policy; what bets started from is in the recipe.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn finished(&self) -> Result<Finished, MergeError> {
        let certificate = self.certificate()?;
        let evidence = match self.recipe.policy().filter(|_| self.recipe.label().is_none()) {
            None => Evidence::Candidates,
            Some(policy) => {
                let unused = Guess { mean: 0.0, variance: 1.0 };
                let split = SplitEvidence {
                    calibration: self.recipe.cost_model,
                    improvement: unused,
                    risk: unused,
                    budget: None,
                    guardrails: Vec::new(),
                };
                Evidence::Auto(AutoEvidence { policy: policy.clone(), split })
            }
        };
        Ok(Finished { certificate, evidence })
    }

    fn claim(&self, about: About, quantity: PolicyQuantity, delta: f64) -> Result<BoundRecord> {
        let (bets, sums) = match quantity {
            PolicyQuantity::Improvement => (&self.recipe.improvement, &self.sums.improvement),
            PolicyQuantity::Risk => (&self.recipe.risk, &self.sums.risk),
        };
        let claim = Claim { about, subject: self.recipe.measured(), quantity, delta, guardrail: None };
        let (value, terms) = bound(bets, sums, self.rows.certified, quantity.kappa(), delta, &self.recipe)?;
        claim.record("betting", value, terms)
    }
}

/// The mixture of the bets, from its sums.
fn bound(
    bets: &[RecipeBet],
    sums: &ClaimSums,
    rows: u64,
    kappa: u8,
    delta: f64,
    recipe: &Recipe,
) -> Result<(f64, Terms)> {
    let member = |bet: &RecipeBet| Member { lambda: bet.lambda, share: bet.share, theta: Some(bet.theta) };
    let mixture = Mixture { members: bets.iter().map(member).collect(), delta };
    let logs: Vec<f64> = sums.logs.iter().map(ExactSum::value).collect();
    let found = mixture.invert(&logs, rows as f64, f64::from(kappa))?;
    let (moments, theta) = (sums.moments(rows), found.theta.unwrap_or(0.0));
    let estimate = (moments.u + theta * moments.v) / rows as f64;
    let terms = Terms {
        n: rows,
        contexts: rows,
        kl: Some(0.0),
        penalty: Some(ln(1.0 / delta)),
        tau: Some(0.0),
        kappa: Some(kappa),
        estimate: Some(finite("an estimate", estimate)?),
        theta: (recipe.control() != ControlVariate::None).then_some(theta),
        lambda: Some(found.lambda),
        log_sum: Some(found.log_sum),
        spread: spread(&moments, theta),
        grid_size: Some(bets.len() as u64),
        numerical_slack: 64.0 * f64::EPSILON * (1.0 + found.value.abs()),
        ..Terms::default()
    };
    Ok((found.value, terms))
}

impl Recipe {
    /// The cost model, if it is the control variate.
    pub(super) fn model(&self) -> Option<CostModel<'_>> {
        let (calibration, scores) = self.cost_model.zip(self.policy())?;
        Some(CostModel { scores, calibration })
    }
}

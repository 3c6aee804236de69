//! What is summed over rows.

use serde::{Deserialize, Serialize};

use super::recipe::{Recipe, RecipeBet};
use crate::bound::{Moments, Table};
use crate::checks::CheckSums;
use crate::numerics::exact::ExactSum;
use crate::numerics::logs::ln_each;

/// How many logarithms are computed at once.
const AT_ONCE: usize = 512;

/// The sums of one claim.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSums {
    /// Σ ln(1 − λz) of each bet of the recipe.
    pub logs: Vec<ExactSum>,
    /// Σu, Σu², Σv, Σv² and Σuv, where z = u + θv.
    pub moments: [ExactSum; 5],
}

impl ClaimSums {
    /// No rows yet.
    pub fn new(bets: &[RecipeBet]) -> Self {
        ClaimSums { logs: vec![ExactSum::default(); bets.len()], ..ClaimSums::default() }
    }

    /// Adds the plays of a table. Contexts were logged once.
    pub fn add(&mut self, table: &Table, bets: &[RecipeBet]) {
        let mut terms = [0.0; AT_ONCE];
        for first in (0..table.len()).step_by(AT_ONCE) {
            let range = first..(first + AT_ONCE).min(table.len());
            let terms = &mut terms[..range.len()];
            for (bet, sum) in bets.iter().zip(&mut self.logs) {
                table.factors(range.clone(), bet.theta, bet.lambda, terms);
                ln_each(terms);
                sum.add_all(terms);
            }
            // Without a control variate v is 0, and so are the sums that have it.
            let moments = if table.controlled() { 5 } else { 2 };
            for (moment, sum) in self.moments.iter_mut().enumerate().take(moments) {
                table.moment(range.clone(), moment, terms);
                sum.add_all(terms);
            }
        }
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &ClaimSums) {
        self.logs.iter_mut().zip(&other.logs).for_each(|(mine, theirs)| mine.merge(theirs));
        self.moments.iter_mut().zip(&other.moments).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// The moments over this many rows.
    pub fn moments(&self, rows: u64) -> Moments {
        let [u, uu, v, vv, uv] = self.moments.each_ref().map(ExactSum::value);
        Moments { contexts: rows as f64, u, uu, v, vv, uv }
    }

    fn is_finite(&self) -> bool {
        self.logs.iter().chain(&self.moments).all(|sum| sum.value().is_finite())
    }
}

/// Everything that is summed over the certified rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    /// The claim about the improvement.
    pub improvement: ClaimSums,
    /// The claim about the risk.
    pub risk: ClaimSums,
    /// Σc.
    pub cost: ExactSum,
    /// What the rows show about the policy besides its bounds.
    pub findings: Vec<ExactSum>,
    /// The statistics of the checks.
    pub checks: CheckSums,
}

impl Sums {
    /// No rows yet.
    pub fn new(recipe: &Recipe) -> Self {
        Sums {
            improvement: ClaimSums::new(&recipe.improvement),
            risk: ClaimSums::new(&recipe.risk),
            findings: vec![ExactSum::default(); crate::certify::FINDINGS],
            ..Sums::default()
        }
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &Sums) {
        self.improvement.merge(&other.improvement);
        self.risk.merge(&other.risk);
        self.cost.merge(&other.cost);
        self.findings.iter_mut().zip(&other.findings).for_each(|(mine, theirs)| mine.merge(theirs));
        self.checks.merge(&other.checks);
    }

    /// Whether these are the sums of a recipe's claims.
    pub fn fit(&self, recipe: &Recipe) -> bool {
        self.improvement.logs.len() == recipe.improvement.len()
            && self.risk.logs.len() == recipe.risk.len()
            && self.findings.len() == crate::certify::FINDINGS
            && self.checks.counts().len() <= recipe.log.n_actions
    }

    /// Whether all sums of the claims are finite.
    pub fn are_finite(&self) -> bool {
        self.improvement.is_finite() && self.risk.is_finite() && self.cost.value().is_finite()
    }
}

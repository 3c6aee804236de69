//! All checks of a log, row by row.

use super::candidates::Candidate;
use super::centered::Widths;
use super::counts::{ActionBets, Tally, finish_full, finish_logged};
use super::drift::{self, Drift};
use super::evidence::Finding;
use super::first_actions::FirstActions;
use super::known::Known;
use super::propensities::{FullRow, Propensities};
use super::repetitions::Repetitions;
use super::slices::Slices;
use super::timed::TimedSlices;
use super::{CheckName, CheckPlan, CheckResult, CheckRow, CheckScope, Interaction};

/// How far a probability may be above 1.
pub(super) const TOLERANCE: f64 = 1e-3;

/// Checks rows one by one. Builders of consecutive parts of a log can be merged.
pub struct ChecksBuilder {
    pub(super) plan: CheckPlan,
    /// K, if it is known in advance: declared, or the length of π0(·|x).
    pub(super) k: Option<usize>,
    pub(super) widths: Widths,
    /// Rows whose numbers are not in their ranges. They are not used, and fail every check.
    invalid: u64,
    pub(super) propensities: Propensities,
    /// In place of `propensities` if K is not known.
    pub(super) first_actions: FirstActions,
    tally: Tally,
    pub(super) bets: ActionBets,
    pub(super) candidates: Vec<Candidate>,
    pub(super) known: Known,
    repetitions: Repetitions,
    pub(super) slices: Slices,
    /// Checks that cannot be made, and why.
    skipped: Vec<(CheckName, &'static str)>,
    inverse: Vec<f64>,
}

impl ChecksBuilder {
    /// A builder that has seen no row.
    pub fn new(plan: CheckPlan) -> ChecksBuilder {
        let mut builder = ChecksBuilder {
            k: None,
            widths: Widths::of_written(plan.rounding),
            invalid: 0,
            propensities: Propensities::default(),
            first_actions: FirstActions::default(),
            tally: Tally::default(),
            bets: ActionBets::default(),
            candidates: plan.candidates.iter().map(|_| Candidate::default()).collect(),
            known: Known::default(),
            repetitions: Repetitions::default(),
            slices: Slices::default(),
            skipped: Vec::new(),
            inverse: Vec::new(),
            plan,
        };
        let known = builder.plan.n_actions > 0 && (builder.plan.actions_declared || builder.plan.full);
        // The numbers of actions of later rows may depend on earlier ones, so the largest is not known in advance.
        if known && !builder.plan.sets {
            builder.set_actions(builder.plan.n_actions);
        }
        builder
    }

    fn set_actions(&mut self, k: usize) {
        self.k = Some(k);
        if self.plan.full {
            self.widths = Widths::of_scaled(self.plan.rounding, k);
        }
    }

    /// The intervals of rounded propensities.
    pub(super) fn widths(&self) -> &Widths {
        &self.widths
    }

    /// Adds a row.
    pub fn row(&mut self, row: &CheckRow) {
        if self.k.is_none()
            && let (true, Some(full)) = (self.plan.full, row.full)
        {
            match self.plan.sets {
                true => self.widths = Widths::of_scaled(self.plan.rounding, full.len()),
                false => self.set_actions(full.len()),
            }
        }
        if !self.is_valid(row) {
            self.invalid += 1;
            return;
        }
        let p = match row.full {
            Some(full) if self.plan.full => {
                self.add_full(full, row);
                full[row.action as usize]
            }
            _ => {
                self.add_logged(row);
                row.propensity
            }
        };
        for ((candidate, weight), plan) in
            self.candidates.iter_mut().zip(row.candidates).zip(&self.plan.candidates)
        {
            candidate.add(weight, p, &self.widths, plan);
        }
        // Of a context with designed repetitions one row counts, because the risk is a mean over contexts.
        if let Some(stated) = self.plan.known_baseline
            && (row.counts_for_drift || !self.plan.designed)
        {
            self.known.add(row.cost, stated);
        }
        if let (true, Some(repetition)) = (self.plan.designed, row.repetition) {
            let row = CheckRow { full: row.full.filter(|_| self.plan.full), ..*row };
            self.repetitions.add(&row, repetition.interactions, &self.widths);
        }
        if row.counts_for_drift {
            self.slices.add(row.action as usize, row.cost, p);
        }
    }

    fn add_full(&mut self, p: &[f64], row: &CheckRow) {
        self.inverse.clear();
        // A finite maximum, because 0 · ∞ is NaN.
        self.inverse.extend(p.iter().map(|&p| if p > 0.0 { (1.0 / p).min(1e300) } else { 0.0 }));
        let full = FullRow {
            p,
            inverse: &self.inverse,
            support: p.iter().filter(|&&p| p > 0.0).count(),
            least: p.iter().fold(f64::INFINITY, |least, &p| if p < least { p } else { least }),
            action: row.action as usize,
            widths: &self.widths,
        };
        self.propensities.add_full(&full, self.plan.sets);
        self.tally.add(p, row.action as usize, &self.widths);
        for ((candidate, weight), plan) in
            self.candidates.iter_mut().zip(row.candidates).zip(&self.plan.candidates)
        {
            candidate.add_full(weight, &full, plan);
        }
    }

    fn add_logged(&mut self, row: &CheckRow) {
        match self.k.or(row.n_actions.filter(|_| self.plan.sets)) {
            Some(k) => self.propensities.add_logged(row.propensity, k, &self.widths),
            None => self.first_actions.add(row.action as usize, row.propensity, &self.widths),
        }
        self.bets.add(row.action as usize, row.propensity, &self.widths);
    }

    /// Whether all numbers are in their ranges. NaN is in none.
    pub(super) fn is_valid(&self, row: &CheckRow) -> bool {
        let action = row.action as usize;
        let all_probabilities =
            |all: &[f64]| all.iter().fold(true, |so_far, p| so_far & (*p >= 0.0) & (*p <= 1.0 + TOLERANCE));
        let k = if self.plan.sets { row.n_actions } else { self.k };
        let length = |all: &[f64]| k.is_none_or(|k| all.len() == k) && action < all.len();
        let full = match (self.plan.full, row.full) {
            (true, Some(full)) => length(full) && all_probabilities(full) && full[action] > 0.0,
            (true, None) => false,
            (false, _) => true,
        };
        let candidates = row.candidates.len() == self.candidates.len()
            && row.candidates.iter().all(|candidate| {
                (0.0..=1.0 + TOLERANCE).contains(&candidate.played)
                    && candidate.all.is_none_or(|all| length(all) && all_probabilities(all))
            });
        full && candidates
            && k.is_none_or(|k| action < k)
            && (k.is_some() || !self.plan.sets)
            && (-1.0..=0.0).contains(&row.cost)
            && row.propensity > 0.0
            && row.propensity <= 1.0 + TOLERANCE
    }

    /// Adds what a row tells about the repetitions of its context, if only earlier rows of the context are known.
    /// Rows of which this is called have no `repetition`.
    pub fn interaction(&mut self, interaction: &Interaction) {
        let full = interaction.full.filter(|_| self.plan.full);
        let fits = match full {
            Some(full) => (interaction.first_action as usize) < full.len(),
            None => !self.plan.full && interaction.first_propensity > 0.0,
        };
        if self.plan.designed && fits {
            self.repetitions.reach(&Interaction { full, ..*interaction }, &self.widths);
        }
    }

    /// Takes drift from slices by time, for a log whose rows do not come in the order of their times.
    pub fn replace_slices(&mut self, slices: TimedSlices) {
        self.slices = slices.finish();
    }

    /// Does not make a check, for this reason.
    pub fn skip(&mut self, name: CheckName, reason: &'static str) {
        self.skipped.push((name, reason));
    }

    /// Adds the rows of another builder with the same plan, which come after the rows of this one.
    pub fn merge(&mut self, other: ChecksBuilder) {
        match (self.k, other.k) {
            (None, Some(k)) => self.set_actions(k),
            // Parts of one log with different numbers of actions: their rows cannot be judged together.
            (Some(mine), Some(theirs)) if mine != theirs => self.invalid += 1,
            _ => {}
        }
        self.invalid += other.invalid;
        self.propensities.merge(other.propensities);
        self.first_actions.merge(other.first_actions);
        self.tally.merge(&other.tally);
        self.bets.merge(other.bets);
        self.candidates.iter_mut().zip(other.candidates).for_each(|(mine, theirs)| mine.merge(theirs));
        self.known.merge(other.known);
        self.repetitions.merge(other.repetitions);
        self.slices.merge(other.slices);
        self.skipped.extend(other.skipped);
    }

    /// The slices of the log and the strongest change between them, which decides only if a fixed policy was
    /// attested.
    pub fn drift(&self) -> Drift {
        let mut drift = drift::describe(&self.slices, self.plan.level);
        if self.reason(CheckName::Drift).is_some() {
            drift.change = None;
        }
        drift
    }

    /// Why a check is not made.
    fn reason(&self, name: CheckName) -> Option<&'static str> {
        self.skipped.iter().find(|(skipped, _)| *skipped == name).map(|(_, reason)| *reason)
    }

    /// The results, one for each check that applies and one for each candidate. The level is divided evenly
    /// over the checks that were made, and that of the candidates' check evenly over candidates.
    pub fn finish(self, scope: CheckScope) -> Vec<CheckResult> {
        let mut groups: Vec<Vec<Finding>> = Vec::new();
        if self.plan.full {
            // The test of sets has one number of actions: its statistic is per action.
            let k = if self.plan.sets { 1 } else { self.k.unwrap_or(0) };
            groups.push(vec![self.propensities.finish(Some(k))]);
            groups.push(vec![finish_full(&self.tally, self.plan.sets)]);
        } else {
            groups.push(vec![match self.k.is_some() || self.plan.sets {
                true => self.propensities.finish(None),
                false => self.first_actions.finish(),
            }]);
            groups.push(vec![finish_logged(&self.bets, self.k)]);
        }
        let candidates = self.candidates.iter().zip(&self.plan.candidates);
        groups.push(candidates.map(|(candidate, plan)| candidate.finish(plan)).collect());
        groups.extend(self.plan.known_baseline.map(|stated| vec![self.known.finish(stated)]));
        if self.plan.fixed {
            groups.push(vec![drift::finish(&self.slices)]);
        }
        if self.plan.designed {
            groups.push(vec![self.repetitions.finish(self.plan.full, self.k)]);
        }
        for finding in groups.iter_mut().flatten() {
            if let Some(reason) = self.reason(finding.name) {
                *finding = Finding { rows: finding.rows, ..Finding::skipped(finding.name, reason) };
            }
        }
        let made = groups.iter().filter(|group| group.iter().any(|finding| !finding.skipped)).count();
        let level = self.plan.level / made.max(1) as f64;
        let mut results = Vec::new();
        for group in groups {
            let level = level / group.len() as f64;
            results.extend(group.into_iter().map(|finding| finding.judge(scope, level, self.invalid)));
        }
        results
    }
}

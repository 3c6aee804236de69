//! The partial of a partition, from its rows chunk by chunk.

use std::mem::take;
use std::sync::Arc;

use super::content::content_of;
use super::document::{PARTIAL_FORMAT, Partial, PartialRows, check_partition};
use super::error::MergeError;
use super::recipe::{Recipe, RecipeSubject};
use super::sums::Sums;
use crate::bound::{Rules, Table};
use crate::certify::{add_logged, check_each, findings_of};
use crate::checks::{CheckPlan, SummedChecks};
use crate::claims::PolicyQuantity;
use crate::control::Control;
use crate::error::{EngineError, Result, RowError};
use crate::log::{Columns, LoggedRows, MemoryLog, Period, PrecisionFinder, Repetitions};
use crate::measure::{Modeled, collect_each, collect_logged, sum_exactly};

/// The name of a candidate in a log that has no other.
const CANDIDATE: &str = "candidate";

/// Sums up the rows of one partition.
pub struct PartialBuilder {
    recipe: Arc<Recipe>,
    digest: String,
    partition: String,
    rows: PartialRows,
    content: u128,
    period: Option<Period>,
    least_propensity: f64,
    finders: [PrecisionFinder; 2],
    sums: Sums,
    plan: CheckPlan,
}

/// The partial of a partition whose rows are in memory.
///
/// # Errors
/// If the recipe cannot be used, or the rows do not have what it needs.
pub fn partial_of(
    rows: Columns,
    recipe: &Recipe,
    partition: &str,
    control: &Control,
) -> Result<Partial, MergeError> {
    let mut builder = PartialBuilder::new(Arc::new(recipe.clone()), partition)?;
    builder.add(rows, control)?;
    builder.finish(None)
}

impl PartialBuilder {
    /// A builder that has seen no row.
    ///
    /// # Errors
    /// If the recipe cannot be used, or the name of the partition is empty or too long.
    pub fn new(recipe: Arc<Recipe>, partition: &str) -> Result<Self, MergeError> {
        recipe.check()?;
        check_partition(partition)?;
        Ok(PartialBuilder {
            digest: recipe.digest()?,
            partition: partition.into(),
            rows: PartialRows::default(),
            content: 0,
            period: None,
            least_propensity: 1.0,
            finders: Default::default(),
            sums: Sums::new(&recipe),
            plan: recipe.check_plan(&recipe.shape(0, None)),
            recipe,
        })
    }

    /// The rows that were added so far.
    pub fn rows(&self) -> PartialRows {
        self.rows
    }

    /// Adds rows. Their number of actions, outcome and precision are taken from the recipe; features and candidates
    /// that it does not need are not read.
    ///
    /// # Errors
    /// If the rows do not have what the recipe needs, a number is out of its range, or the caller cancels. The builder cannot be
    /// used any more.
    pub fn add(&mut self, columns: Columns, control: &Control) -> Result<()> {
        if columns.rows() == 0 {
            return Ok(());
        }
        let columns = self.needed(columns)?;
        columns.check()?;
        let rows = columns.rows() as u64;
        let columns = self.certified(columns);
        let certified = columns.rows() as u64;
        self.rows.certified += certified;
        self.rows.learned_from += rows - certified;
        if certified == 0 {
            return Ok(());
        }
        self.describe(&columns);
        self.sum(Columns { timestamps: None, ..columns }, control)
    }

    /// The columns that the recipe reads, with what it says about them.
    fn needed(&self, columns: Columns) -> Result<Columns> {
        let missing = |field: &str, message: &str| {
            Err(EngineError::Row(RowError { row: 0, field: field.into(), message: message.into() }))
        };
        let terms = &self.recipe.log;
        if columns.sets.is_some() {
            return missing("actions", "partials need rows that all have the same actions");
        }
        if !columns.named_outcomes.is_empty() {
            return missing("outcomes", "partials need one outcome without a name");
        }
        if self.recipe.needs_timestamps() && columns.timestamps.is_none() {
            return missing("timestamp", "is missing; the recipe leaves out rows by their time");
        }
        if terms.full_propensities && columns.full.is_none() {
            return missing("propensities", "are missing; the recipe was frozen on rows that have them");
        }
        let (dim, x) = match self.recipe.policy() {
            Some(_) if columns.dim == terms.dim => (columns.dim, columns.x),
            Some(_) => {
                let message =
                    format!("rows have {} features, and the policy reads {}", columns.dim, terms.dim);
                return missing("x", &message);
            }
            None => (0, Vec::new()),
        };
        let (candidates, candidate_full) = match &self.recipe.subject {
            RecipeSubject::Policy { .. } => (Vec::new(), Vec::new()),
            RecipeSubject::Logged { name } => {
                let Some(place) = columns.candidates.iter().position(|(own, _)| own == name) else {
                    return missing("candidates", &format!("rows do not have the candidate {name:?}"));
                };
                let full = columns.candidate_full.into_iter().nth(place).flatten();
                if terms.candidate_propensities && full.is_none() {
                    let message = format!("the candidate {name:?} has no probabilities of all actions");
                    return missing("candidates", &message);
                }
                let played =
                    columns.candidates.into_iter().nth(place).map_or(Vec::new(), |(_, played)| played);
                let full = full.filter(|_| terms.candidate_propensities);
                (vec![(CANDIDATE.to_owned(), played)], vec![full])
            }
        };
        Ok(Columns {
            n_actions: terms.n_actions,
            dim,
            x,
            candidate_precision: vec![terms.candidate_precision; candidates.len()],
            candidates,
            candidate_full,
            full: columns.full.filter(|_| terms.full_propensities),
            contexts: None,
            outcome: terms.outcome,
            logging: terms.logging,
            repetitions: Repetitions::Decisions,
            versions: None,
            version_names: Vec::new(),
            actions_declared: true,
            propensities_logged: true,
            exact_propensities: terms.exact_propensities,
            precision: terms.precision,
            uniform: false,
            ..columns
        })
    }

    /// The rows that were not learned from.
    fn certified(&self, mut columns: Columns) -> Columns {
        let times = columns.timestamps.as_deref().unwrap_or(&[]);
        if self.recipe.split.certifies_all(times, columns.rows()) {
            return columns;
        }
        let is_kept = |i: &u32| self.recipe.split.certifies(times.get(*i as usize).copied());
        columns.reorder(&(0..columns.rows() as u32).filter(is_kept).collect::<Vec<u32>>());
        columns
    }

    /// Notes the content of rows, their times and how precisely their probabilities were written.
    fn describe(&mut self, columns: &Columns) {
        self.content = self.content.wrapping_add(content_of(columns));
        if let Some(times) = &columns.timestamps
            && let (Some(&first), Some(&last)) = (times.iter().min(), times.iter().max())
        {
            let period = self.period.get_or_insert(Period { first, last });
            *period = Period { first: period.first.min(first), last: period.last.max(last) };
        }
        // Positive numbers are in the order of their bits, which are compared without branches.
        let least =
            columns.propensities.iter().fold(self.least_propensity.to_bits(), |a, p| a.min(p.to_bits()));
        self.least_propensity = f64::from_bits(least);
        let [propensities, candidate] = &mut self.finders;
        propensities.see_all(columns.full.as_ref().unwrap_or(&columns.propensities));
        for ((_, played), full) in columns.candidates.iter().zip(&columns.candidate_full) {
            candidate.see_all(full.as_ref().unwrap_or(played));
        }
    }

    /// Adds certified rows to all sums. After an error they are not those of any rows.
    fn sum(&mut self, columns: Columns, control: &Control) -> Result<()> {
        match LoggedRows::of(&columns) {
            Some(rows) => self.sum_logged(&rows, control),
            None => self.sum_log(&MemoryLog::new(columns)?, control),
        }
    }

    /// Adds rows of which only the probabilities of the logged actions are known.
    fn sum_logged(&mut self, rows: &LoggedRows, control: &Control) -> Result<()> {
        control.check()?;
        let Recipe { improvement, risk, log, .. } = &*self.recipe;
        let claims = [
            (PolicyQuantity::Improvement, improvement, &mut self.sums.improvement),
            (PolicyQuantity::Risk, risk, &mut self.sums.risk),
        ];
        for (quantity, bets, sums) in claims {
            let mut table = Table::new(quantity.kappa());
            collect_logged(rows, log.precision, &mut table)?;
            sums.add(&table, bets);
        }
        add_logged(rows, log.n_actions, &mut self.sums.findings);
        self.sums.cost.add_all(rows.costs);
        let mut checks = SummedChecks::new(self.plan.clone(), take(&mut self.sums.checks));
        checks.logged(rows);
        self.sums.checks = checks.finish();
        Ok(())
    }

    fn sum_log(&mut self, log: &MemoryLog, control: &Control) -> Result<()> {
        let recipe = Arc::clone(&self.recipe);
        let subject = recipe.measured();
        let model = recipe.model();
        let rules = [PolicyQuantity::Improvement, PolicyQuantity::Risk].map(|quantity| Rules {
            kappa: quantity.kappa(),
            control: recipe.control(),
            tau: 0.0,
        });
        let modeled = model.as_ref().map(Modeled::Fixed);
        let [improvement, risk] = collect_each(log, subject, modeled, [&rules[0], &rules[1]], None, control)?;
        self.sums.improvement.add(&improvement.table, &recipe.improvement);
        self.sums.risk.add(&risk.table, &recipe.risk);
        let findings = sum_exactly(log, subject, &*findings_of(log, subject), control)?;
        self.sums.findings.iter_mut().zip(&findings).for_each(|(sum, added)| sum.merge(added));
        let policies = [(recipe.label().unwrap_or_else(|| "learned".into()), subject)];
        let mut checks = SummedChecks::new(self.plan.clone(), take(&mut self.sums.checks));
        let cost = &mut self.sums.cost;
        check_each(log, &policies, control, &mut |row| {
            checks.row(row);
            cost.add(row.cost);
        })?;
        self.sums.checks = checks.finish();
        Ok(())
    }

    /// The partial. `sketch` recognizes its rows in other partials.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn finish(self, sketch: Option<String>) -> Result<Partial, MergeError> {
        let partial = Partial {
            format: PARTIAL_FORMAT.into(),
            recipe: self.digest,
            partition: self.partition,
            rows: self.rows,
            content: format!("{:032x}", self.content),
            period: self.period,
            least_propensity: self.least_propensity,
            digits: self.finders.each_ref().map(PrecisionFinder::seen),
            sums: self.sums,
            sketch,
            digest: String::new(),
        };
        partial.sealed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::unattended;
    use crate::partial::tests::{logged_columns, recipe_of};

    /// Column by column, the sums are those of the log row by row.
    #[test]
    fn rows_of_logged_actions_have_the_sums_of_the_log() {
        let cases = [(false, 1, 3), (false, 5, 3), (false, 20_000, 3), (true, 3000, 3), (false, 9000, 7000)];
        for ((single, rows, k), rare) in cases.into_iter().flat_map(|case| [(case, true), (case, false)]) {
            let mut columns = logged_columns(rows, k, single);
            if !rare {
                // Nothing is capped, so some sums have the same terms.
                columns.propensities.iter_mut().for_each(|p| *p = p.max(0.001));
            }
            let recipe = Arc::new(recipe_of(k, single));
            let builder = || PartialBuilder::new(Arc::clone(&recipe), "a").unwrap();
            let (mut fast, mut slow) = (builder(), builder());
            let needed = fast.needed(columns).unwrap();
            needed.check().unwrap();
            assert!(LoggedRows::of(&needed).is_some());
            for _ in 0..2 {
                fast.sum(needed.clone(), &unattended()).unwrap();
                slow.sum_log(&MemoryLog::new(needed.clone()).unwrap(), &unattended()).unwrap();
            }
            assert_eq!(fast.sums, slow.sums, "{rows} rows of {k} actions, {single}");
            assert!(fast.sums.are_finite() && fast.sums.cost.value() < 0.0);
        }
    }

    #[test]
    fn short_rows_have_the_content_of_any_rows() {
        let mut columns = logged_columns(50, 3, false);
        columns.costs[7] = -0.0;
        for times in [columns.timestamps.clone(), None] {
            columns.timestamps = times;
            let content = content_of(&columns);
            // The same rows as if they had features.
            assert_eq!(content, super::super::content::of_any(&columns));
            columns.actions[3] ^= 1;
            assert_ne!(content, content_of(&columns));
            columns.actions[3] ^= 1;
        }
    }
}

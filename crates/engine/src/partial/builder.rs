//! The partial of a partition, from its rows chunk by chunk.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::document::{PARTIAL_FORMAT, Partial, PartialRows, check_partition};
use super::error::MergeError;
use super::recipe::{Recipe, RecipeSubject};
use super::sums::{ClaimSums, Sums};
use crate::bound::Rules;
use crate::certify::{check_each, check_plan, findings_of};
use crate::checks::SummedChecks;
use crate::claims::PolicyQuantity;
use crate::control::Control;
use crate::error::{EngineError, Result, RowError};
use crate::log::{Columns, LogSource, MemoryLog, Period, PrecisionFinder, Repetitions};
use crate::measure::{Modeled, collect_each, sum_exactly};
use crate::numerics::exact::ExactSum;

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
    /// If the rows do not have what the recipe needs, a number is out of its range, or the caller cancels.
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
        let columns = Columns { timestamps: None, ..columns };
        self.sum(&MemoryLog::new(columns)?, control)
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
        let is_kept = |i: &u32| self.recipe.split.certifies(times.get(*i as usize).copied());
        let kept: Vec<u32> = (0..columns.rows() as u32).filter(is_kept).collect();
        if kept.len() < columns.rows() {
            columns.reorder(&kept);
        }
        columns
    }

    /// Notes the content of rows, their times and how precisely their probabilities were written.
    fn describe(&mut self, columns: &Columns) {
        let (n, k) = (columns.rows(), columns.n_actions);
        let mut bytes = Vec::new();
        for i in 0..n {
            bytes.clear();
            bytes.extend(columns.actions[i].to_le_bytes());
            let number = |value: f64| (value + 0.0).to_le_bytes();
            bytes.extend(number(columns.costs[i]));
            bytes.extend(number(columns.propensities[i]));
            let x = &columns.x[i * columns.dim..(i + 1) * columns.dim];
            x.iter().for_each(|x| bytes.extend((x + 0.0).to_le_bytes()));
            let lists = columns.full.iter().chain(columns.candidate_full.iter().flatten());
            lists.for_each(|list| list[i * k..(i + 1) * k].iter().for_each(|&p| bytes.extend(number(p))));
            columns.candidates.iter().for_each(|(_, played)| bytes.extend(number(played[i])));
            if let Some(times) = &columns.timestamps {
                bytes.extend(times[i].to_le_bytes());
                let period = self.period.get_or_insert(Period { first: times[i], last: times[i] });
                *period = Period { first: period.first.min(times[i]), last: period.last.max(times[i]) };
            }
            self.content = self.content.wrapping_add(xxh3_128(&bytes));
            self.least_propensity = self.least_propensity.min(columns.propensities[i]);
        }
        let [propensities, candidate] = &mut self.finders;
        columns.full.as_ref().unwrap_or(&columns.propensities).iter().for_each(|&p| propensities.see(p));
        for ((_, played), full) in columns.candidates.iter().zip(&columns.candidate_full) {
            full.as_ref().unwrap_or(played).iter().for_each(|&p| candidate.see(p));
        }
    }

    fn sum(&mut self, log: &MemoryLog, control: &Control) -> Result<()> {
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
        let claims = [
            (improvement.table, &recipe.improvement, &mut self.sums.improvement),
            (risk.table, &recipe.risk, &mut self.sums.risk),
        ];
        for (table, bets, sums) in claims {
            let mut added = ClaimSums::new(bets);
            added.add(&table, bets);
            sums.merge(&added);
        }
        let findings = sum_exactly(log, subject, &*findings_of(log, subject), control)?;
        self.sums.findings.iter_mut().zip(&findings).for_each(|(sum, added)| sum.merge(added));
        let policies = [(recipe.label().unwrap_or_else(|| "learned".into()), subject)];
        let mut checks = SummedChecks::new(check_plan(&recipe.spec, log.shape(), &policies));
        let mut cost = ExactSum::default();
        check_each(log, &policies, control, &mut |row| {
            checks.row(row);
            cost.add(row.cost);
        })?;
        self.sums.checks.merge(&checks.finish());
        self.sums.cost.merge(&cost);
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

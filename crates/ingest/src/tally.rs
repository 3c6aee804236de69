//! What is counted over all rows of a log: its health, precision, order and fingerprints.

use std::ops::Range;

use guarantor_engine::error::{EngineError, RowError};
use guarantor_engine::log::{
    ActionSets, Capabilities, ChunkSets, FeatureSpace, MAX_UNIFORM, Precision, Repetitions, disagrees,
};
use guarantor_engine::policy::PolicyParams;
use ndarray::{Array2, ArrayView2};

use crate::arrival::Arrivals;
use crate::batch::{BATCH_BYTES, LogLayout, LogRows, MIN_ROWS};
use crate::errors::{IngestError, RowErrors};
use crate::fingerprint::{add_fingerprints, of_outcome};
use crate::health::{Health, HealthBuilder};
use crate::identity::Interaction;
use crate::log_checks::{CheckRows, Known, LogChecks};
use crate::outcome_health::{OutcomeSummary, OutcomeTally};
use crate::outcomes::CutCounts;
use crate::precision::Precisions;
use crate::repeats::Repeats;
use crate::row::RowFault;
use crate::rules::{LogOptions, Rules};
use crate::sketch::RowSketch;
use crate::warning::LogTraits;

/// How many fingerprints are computed at once.
const MARKED: usize = 1024;

/// What is counted.
#[derive(Default)]
pub struct Tally {
    pub rows: u64,
    pub largest_action: u32,
    /// The number of actions of the largest set, if rows have their own actions.
    pub largest_set: usize,
    /// The number of features that are not 0, if rows have their own actions.
    pub non_zeros: u64,
    pub arrivals: Arrivals,
    pub repeats: Repeats,
    health: HealthBuilder,
    outcomes: OutcomeTally,
    checks: LogChecks,
    precisions: Precisions,
    /// Whether the logging policy gave the propensity of a row of this upload.
    filled_in: bool,
    /// The rows that are stored already.
    stored_rows: RowSketch,
    /// The rows of this upload.
    new_rows: RowSketch,
    /// Whether rows have an `event_id`, which is then different in every row.
    identified: bool,
}

/// What is known about the rows of a batch besides their content.
pub struct Numbers<'a> {
    /// Which of the rows of its context each row is; empty if rows have no contexts.
    pub interactions: &'a [Interaction],
    /// The number of each row in the file; `None` for rows that are stored already.
    pub file: Option<&'a [u64]>,
}

/// What is known about a log after its last row.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    pub layout: &'a LogLayout,
    pub n_actions: usize,
    /// Whether the number of actions was stated.
    pub stated: bool,
    pub contexts: u64,
}

impl Tally {
    /// Counts rows.
    pub fn count(
        &mut self,
        rules: &Rules,
        layout: &LogLayout,
        rows: &LogRows,
        numbers: &Numbers,
    ) -> Result<(), IngestError> {
        self.rows += rows.len() as u64;
        self.largest_action = rows.actions.iter().copied().fold(self.largest_action, u32::max);
        self.largest_set = self.largest_set.max(rows.sets.largest());
        self.non_zeros += rows.non_zeros();
        self.arrivals.add(rows)?;
        let filled = rules.policy.is_some();
        self.precisions.add(layout, rows, filled);
        self.health.update(layout, rows);
        self.outcomes.add(rows);
        match layout.full {
            Some(k) => self.health.expect_all(rows.places(layout, Some(k)), rows.len(), &rows.full),
            None if !filled => self.health.judge(&rows.propensities),
            // `ask_policy` has counted them.
            None => {}
        }
        if !filled || layout.full.is_some() {
            let (range, interactions) = (0..rows.len(), numbers.interactions);
            let rows = CheckRows { layout, rows, range, policy: None, interactions };
            self.checks.add(rows, &known(rules, layout));
        }
        self.recognize(layout, rows, numbers.file);
        Ok(())
    }

    /// Keeps what recognizes rows. `file` are their numbers in the file, unless they are stored already.
    fn recognize(&mut self, layout: &LogLayout, rows: &LogRows, file: Option<&[u64]>) {
        self.identified |= layout.event_ids;
        let sketch = if file.is_some() { &mut self.new_rows } else { &mut self.stored_rows };
        let mut marks = Vec::with_capacity(MARKED.min(rows.len()));
        for from in (0..rows.len()).step_by(MARKED) {
            let range = from..(from + MARKED).min(rows.len());
            marks.clear();
            add_fingerprints(layout, rows, range.clone(), &mut marks);
            let propensities = &rows.propensities[range.clone()];
            match rows.outcomes.is_empty() {
                true => sketch.add_all(&marks, propensities),
                false => {
                    for (mark, i) in marks.iter().zip(range.clone()) {
                        let others = rows.outcomes.iter().map(|costs| of_outcome(mark.decision, costs[i]));
                        sketch.add(*mark, others, rows.propensities[i]);
                    }
                }
            }
            if layout.event_ids {
                continue;
            }
            let numbers = file.and_then(|file| file.get(range));
            match numbers.map(|numbers| (numbers, numbers.is_sorted_by(|a, b| a + 1 == *b))) {
                Some((&[first, ..], true)) => self.repeats.add_all(&marks, propensities, first),
                // What is found among stored rows is forgiven, so their numbers do not matter.
                numbers => {
                    for (i, (mark, &propensity)) in marks.iter().zip(propensities).enumerate() {
                        let number = numbers.and_then(|(numbers, _)| numbers.get(i)).copied().unwrap_or(0);
                        self.repeats.add(mark.row, propensity, number);
                    }
                }
            }
        }
    }

    /// If the logging policy is known: fills in missing propensities and compares those that are present.
    /// It does so a few rows at a time, because π0(·|x) of all rows may be large.
    pub fn ask_policy(
        &mut self,
        rules: &Rules,
        layout: &LogLayout,
        rows: &mut LogRows,
        numbers: &Numbers,
        errors: &mut RowErrors,
    ) -> Result<(), IngestError> {
        let Some(policy) = &rules.policy else { return Ok(()) };
        let fault = |message: String| IngestError::Option { field: "logging_policy_id", message };
        let k = if layout.sets.is_some() { rows.sets.largest() } else { policy.n_actions() };
        // Scores and propensities, in double precision.
        let most = (BATCH_BYTES / (16 * k.max(1))).max(MIN_ROWS);
        for from in (0..rows.len()).step_by(most) {
            let to = rows.len().min(from + most);
            let pi = played(policy, layout, rows, from..to).map_err(|error| fault(error.to_string()))?;
            for i in from..to {
                let (action, logged) = (rows.actions[i], &mut rows.propensities[i]);
                let given = pi[(i - from, action as usize)];
                self.filled_in |= numbers.file.is_some() && logged.is_nan();
                let filled = fill_in(action, logged, given);
                if let (Err(RowFault { field, message }), Some(file)) = (filled, numbers.file) {
                    errors.add(RowError { row: file.get(i).copied().unwrap_or(0), field, message });
                }
            }
            if layout.full.is_none() && errors.is_empty() {
                let rows: &LogRows = rows;
                let all = pi.rows().into_iter().zip(from..to);
                let all: Vec<f64> = match layout.sets {
                    // Without the padding.
                    Some(_) => {
                        all.flat_map(|(pi, i)| pi.to_vec().into_iter().take(rows.sets.size(i))).collect()
                    }
                    None => pi.iter().copied().collect(),
                };
                let places = rows.places(layout, Some(k));
                self.health.expect_part(places, from..to, &all);
                let (range, interactions) = (from..to, numbers.interactions);
                let rows = CheckRows { layout, rows, range, policy: Some(&all), interactions };
                self.checks.add(rows, &known(rules, layout));
            }
        }
        Ok(())
    }

    /// What the log supports.
    pub fn capabilities(&self, rules: &Rules, counted: Counted) -> Capabilities {
        let Counted { layout, n_actions, stated, contexts } = counted;
        let LogOptions { repetitions, exact_propensities, .. } = rules.options;
        let (precision, candidate_precision) = match exact_propensities {
            true => (Precision::default(), Vec::new()),
            false => (self.precisions.propensities(), self.precisions.candidates()),
        };
        let full = layout.full.is_some() || rules.policy.is_some();
        let uniform = !full && self.precisions.is_uniform(n_actions, precision);
        let features = layout.sets.map_or(layout.dim > 0, |spaces| spaces != ActionSets::default());
        let (designed, repeated) = (repetitions == Repetitions::Designed, contexts < self.rows);
        Capabilities {
            action_sets: layout.sets,
            features,
            full_propensities: full || (uniform && n_actions <= MAX_UNIFORM),
            multiple_interactions: designed && repeated,
            repeated_contexts: !designed && repeated,
            candidates: layout.candidates.clone(),
            candidate_propensities: layout.candidate_propensities.clone(),
            actions_declared: stated,
            propensities_logged: !self.filled_in && rules.earlier_logged,
            exact_propensities,
            precision,
            candidate_precision,
            uniform,
            outcomes: rules.outcomes.clone(),
            timestamps: layout.timestamps,
            period: self.arrivals.period(),
            last_version: self.arrivals.last_version(),
        }
    }

    /// How often every row of the upload occurs at least, if it was sent several times.
    pub fn multiplied(&self) -> Option<u32> {
        self.new_rows.multiplied().filter(|_| !self.identified)
    }

    /// The health of the rows, what recognizes them, and what recognizes those of this upload. `cut` counts the rows of
    /// this upload, and `earlier` those of the versions before.
    pub fn finish(
        self,
        rules: &Rules,
        counted: Counted,
        capabilities: &Capabilities,
        (cut, earlier): (&CutCounts, &[OutcomeSummary]),
    ) -> (Health, RowSketch, RowSketch) {
        let traits = LogTraits {
            precision: capabilities.precision,
            uniform: capabilities.uniform,
            out_of_order: self.arrivals.is_out_of_order(),
            bare_actions: counted.layout.sets.is_some_and(|spaces| spaces.actions == FeatureSpace::None),
            ..LogTraits::default()
        };
        let checked = self.checks.finish(&known(rules, counted.layout), traits.out_of_order);
        let mut health = self.health.finish(counted.n_actions, checked, traits);
        health.add_outcomes(self.outcomes.finish(&rules.outcome, &rules.outcomes, cut, earlier));
        let mut all_rows = self.stored_rows;
        all_rows.merge(&self.new_rows);
        (health, all_rows, self.new_rows)
    }
}

/// What the checks need to know before the first row.
fn known(rules: &Rules, layout: &LogLayout) -> Known {
    let n_actions = match layout.sets {
        Some(_) => None,
        None => rules.stated_actions(layout.n_actions()),
    };
    Known { n_actions, options: rules.options }
}

/// π0(·|x) of some rows: rows × K, padded with zeros if rows have their own actions.
fn played(
    policy: &PolicyParams,
    layout: &LogLayout,
    rows: &LogRows,
    range: Range<usize>,
) -> Result<Array2<f64>, EngineError> {
    if layout.sets.is_some() {
        let sets = ChunkSets::part(&rows.sets, range, rows.sets.largest());
        return policy.propensities(sets.view());
    }
    let p = layout.dim;
    let x = &rows.x[range.start * p..range.end * p];
    let x =
        ArrayView2::from_shape((range.len(), p), x).map_err(|error| EngineError::Log(error.to_string()))?;
    policy.propensities(x)
}

/// Compares the logged propensity with the logging policy's, or fills it in if it was not logged.
fn fill_in(action: u32, logged: &mut f64, given: f64) -> Result<(), RowFault> {
    if logged.is_nan() {
        *logged = given;
    }
    if given <= 0.0 {
        let message = format!("the logging policy gives action {action} probability 0 here");
        Err(RowFault::new("action", message))
    } else if disagrees(*logged, given) {
        Err(RowFault::new("propensity", format!("is {logged}, but the logging policy gives {given}")))
    } else {
        Ok(())
    }
}

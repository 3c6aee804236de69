//! The merge of partials. It adds up, and rejects whatever would count rows twice, leave rows out or mix recipes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::document::{Partial, PartialRows};
use super::error::{MergeCode, MergeError};
use super::recipe::Recipe;
use super::sums::Sums;
use crate::certificate::{PartialEntry, PartialsRecord};
use crate::digest::digest_of;
use crate::log::{LogShape, Period, Precision, SeenDigits};

/// The most partials of one merge.
pub const MAX_PARTIALS: usize = 100_000;

/// What partials add up to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merged {
    pub(super) recipe: Recipe,
    pub(super) recipe_digest: String,
    /// The rows of all partitions.
    pub rows: PartialRows,
    /// The content of the certified rows, as in [`Partial::content`].
    pub content: String,
    /// The times of the first and the last certified row, if rows have times.
    pub period: Option<Period>,
    /// The smallest propensity of a certified row.
    pub least_propensity: f64,
    /// The sums.
    pub sums: Sums,
    /// The partials, by the names of their partitions.
    pub partials: PartialsRecord,
}

/// What the merged rows show, besides the certificate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergedHealth {
    /// The number of certified rows.
    pub rows: u64,
    /// The rows that were learned from, which are left out.
    pub learned_from: u64,
    /// The mean cost, in [-1, 0].
    pub mean_cost: f64,
    /// The mean of 1/π0(a|x).
    pub inverse_propensity_mean: f64,
    /// The smallest propensity.
    pub least_propensity: f64,
    /// How many rows of a uniform log the rows are worth.
    pub effective_sample_size: f64,
    /// The share of rows in which an action had a propensity of at least 0.99.
    pub near_deterministic_share: f64,
    /// How often each action was logged.
    pub action_counts: Vec<u64>,
    /// The times of the first and the last row.
    pub period: Option<Period>,
}

/// Merges partials of one recipe, in whatever order. `expected_rows` is the number of rows of the log, those that were
/// learned from included if partitions have them.
///
/// # Errors
/// If two partials have the same partition, one has another recipe, rows are missing or too many, no row is certified,
/// or a number is not finite. `guarantor_ingest::partials::merge` also finds partials with rows in common.
pub fn merge(
    recipe: &Recipe,
    mut partials: Vec<Partial>,
    expected_rows: Option<u64>,
) -> Result<Merged, MergeError> {
    recipe.check()?;
    let recipe_digest = recipe.digest()?;
    partials.sort_by(|a, b| a.partition.cmp(&b.partition));
    check_partials(recipe, &recipe_digest, &partials)?;
    let mut rows = PartialRows::default();
    let (mut content, mut period, mut least) = (0u128, None::<Period>, 1.0f64);
    let (mut sums, mut digits) = (Sums::new(recipe), [SeenDigits::default(); 2]);
    let mut entries = Vec::with_capacity(partials.len());
    for partial in &partials {
        let counted = (rows.certified.checked_add(partial.rows.certified))
            .zip(rows.learned_from.checked_add(partial.rows.learned_from))
            .filter(|(certified, learned)| certified.saturating_add(*learned) < 1 << 53);
        let too_many = || MergeError::new(MergeCode::TooManyRows, "there are more than 2^53 rows");
        let (certified, learned_from) = counted.ok_or_else(too_many)?;
        rows = PartialRows { certified, learned_from };
        content = content.wrapping_add(partial.content_sum().unwrap_or_default());
        period = match (period, partial.period) {
            (Some(a), Some(b)) => Some(Period { first: a.first.min(b.first), last: a.last.max(b.last) }),
            (a, b) => a.or(b),
        };
        least = least.min(partial.least_propensity);
        sums.merge(&partial.sums);
        digits.iter_mut().zip(&partial.digits).for_each(|(mine, theirs)| mine.merge(theirs));
        entries.push(PartialEntry {
            partition: partial.partition.clone(),
            rows: partial.rows.total(),
            digest: partial.digest.clone(),
        });
    }
    check_rows(rows, expected_rows)?;
    check_precision("propensities", recipe.log.precision, &digits[0], recipe)?;
    check_precision("the candidate's probabilities", recipe.log.candidate_precision, &digits[1], recipe)?;
    if !sums.are_finite() {
        let message =
            "a sum is not finite, so nothing can be certified; a partition has numbers out of their ranges";
        return Err(MergeError::new(MergeCode::InvalidNumbers, message));
    }
    let partials = PartialsRecord::new(entries)
        .map_err(|error| MergeError::new(MergeCode::InvalidPartial, error.to_string()))?;
    let (recipe, content) = (recipe.clone(), format!("{content:032x}"));
    Ok(Merged { recipe, recipe_digest, rows, content, period, least_propensity: least, sums, partials })
}

fn check_partials(recipe: &Recipe, digest: &str, partials: &[Partial]) -> Result<(), MergeError> {
    if partials.len() > MAX_PARTIALS {
        let message =
            format!("{} partials are more than {MAX_PARTIALS}; use larger partitions", partials.len());
        return Err(MergeError::new(MergeCode::InvalidPartial, message));
    }
    let mut seen = BTreeSet::new();
    for partial in partials {
        let who = format!("partition {:?}", partial.partition);
        if partial.recipe != digest {
            let message = format!(
                "{who} was computed with the recipe {}, and the others are merged with {digest}; compute it again with \
                 this recipe",
                partial.recipe
            );
            return Err(MergeError::new(MergeCode::MixedRecipes, message));
        }
        if !partial.sums.fit(recipe) {
            let message = format!("{who}: the sums are not those of the recipe; compute it again");
            return Err(MergeError::new(MergeCode::InvalidPartial, message));
        }
        if !seen.insert(&partial.partition) {
            let message = format!(
                "{who} is there twice; give every partition its own name, and pass the partial of a retried task once"
            );
            return Err(MergeError::new(MergeCode::RepeatedPartial, message));
        }
    }
    Ok(())
}

fn check_rows(rows: PartialRows, expected: Option<u64>) -> Result<(), MergeError> {
    let total = rows.total();
    match expected {
        Some(expected) if total < expected => Err(MergeError::new(
            MergeCode::MissingRows,
            format!("the partials have {total} rows, but {expected} were expected; a partition is missing"),
        )),
        Some(expected) if total > expected => Err(MergeError::new(
            MergeCode::TooManyRows,
            format!("the partials have {total} rows, but {expected} were expected; partitions overlap"),
        )),
        _ if rows.certified == 0 => {
            let message = format!("of {total} rows, none is left to certify");
            Err(MergeError::new(MergeCode::NoRows, message))
        }
        _ => Ok(()),
    }
}

/// Rounded numbers were read as intervals of the recipe's precision, which must not be too narrow.
fn check_precision(
    what: &str,
    assumed: Precision,
    seen: &SeenDigits,
    recipe: &Recipe,
) -> Result<(), MergeError> {
    let found = seen.precision();
    if recipe.log.exact_propensities {
        return Ok(());
    }
    let fewer = |found: Option<u8>, assumed: Option<u8>| match (found, assumed) {
        (Some(found), Some(assumed)) => found < assumed,
        (found, None) => found.is_some(),
        (None, Some(_)) => false,
    };
    let coarser = fewer(found.decimals, assumed.decimals)
        || fewer(found.significant, assumed.significant)
        || (found.single && !assumed.single);
    if !coarser {
        return Ok(());
    }
    let message = format!(
        "{what} were written less precisely ({found:?}) than the rows that the recipe was frozen on ({assumed:?}); freeze \
         it on rows like these, or with exact_propensities if they are exact"
    );
    Err(MergeError::new(MergeCode::InvalidNumbers, message))
}

impl Merged {
    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What the merged rows show.
    pub fn health(&self) -> MergedHealth {
        MergedHealth {
            rows: self.rows.certified,
            learned_from: self.rows.learned_from,
            mean_cost: self.sums.cost.value() / self.rows.certified as f64,
            inverse_propensity_mean: self.sums.checks.inverse_propensity_mean(),
            least_propensity: self.least_propensity,
            effective_sample_size: self.sums.checks.effective_sample_size(),
            near_deterministic_share: self.sums.checks.near_deterministic_share(),
            action_counts: self.sums.checks.counts(),
            period: self.period,
        }
    }

    /// The digest of the certified rows as a set, with what the recipe says about all of them.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn rows_digest(&self) -> Result<String, MergeError> {
        let content = serde_json::json!({
            "format": "guarantor.rows/1",
            "rows": self.rows,
            "content": self.content,
            "log": self.recipe.log,
        });
        Ok(digest_of(&content)?)
    }

    /// Checks sums that were stored: that they belong to their recipe.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(&self) -> Result<(), MergeError> {
        self.recipe.check()?;
        if self.recipe.digest()? != self.recipe_digest || !self.sums.fit(&self.recipe) {
            return Err(MergeError::new(MergeCode::InvalidPartial, "the sums are not those of their recipe"));
        }
        Ok(())
    }

    /// The sizes of the certified rows, and what they have.
    pub fn shape(&self) -> LogShape {
        self.recipe.shape(self.rows.certified, self.period)
    }
}

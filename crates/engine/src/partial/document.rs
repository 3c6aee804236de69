//! A partial as a document.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{MergeCode, MergeError};
use super::sums::Sums;
use crate::certificate::{StrictJson, extra_field};
use crate::digest::digest_of;
use crate::log::{Period, SeenDigits};

/// The name and version of the format.
pub const PARTIAL_FORMAT: &str = "guarantor.partial/1";
/// The longest name of a partition.
pub const MAX_PARTITION: usize = 256;

/// The numbers of rows of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialRows {
    /// The rows that are certified.
    pub certified: u64,
    /// The rows that were learned from, which are left out of every sum.
    pub learned_from: u64,
}

impl PartialRows {
    /// All rows of the partition.
    pub fn total(self) -> u64 {
        self.certified.saturating_add(self.learned_from)
    }
}

/// The sums over one partition of the rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// The name and version of the format.
    pub format: String,
    /// The digest of the recipe.
    pub recipe: String,
    /// The partition, as the caller names it. No two partials of a merge have the same.
    pub partition: String,
    /// How many rows there are.
    pub rows: PartialRows,
    /// The content of the certified rows: the sum modulo 2^128 of a hash of each, in 32 hexadecimal digits. It does
    /// not depend on their order, and contents of partitions add up.
    pub content: String,
    /// The times of the first and the last certified row, if rows have times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// The smallest propensity of a certified row; 1 if there is none.
    pub least_propensity: f64,
    /// How precisely propensities were written, and the probabilities of the logged candidate.
    pub digits: [SeenDigits; 2],
    /// The sums.
    pub sums: Sums,
    /// A sketch of the certified rows in hexadecimal digits, by which overlaps are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sketch: Option<String>,
    /// The digest of all other fields.
    pub digest: String,
}

fn invalid(message: impl Into<String>) -> MergeError {
    MergeError::new(MergeCode::InvalidPartial, message)
}

impl Partial {
    /// The partial that this JSON has.
    ///
    /// # Errors
    /// If it is not a partial, has fields that a partial does not have, or not the digest that it states.
    pub fn from_json(text: &str) -> Result<Partial, MergeError> {
        let unreadable = |error: serde_json::Error| invalid(format!("the partial cannot be read: {error}"));
        let StrictJson(sent) = serde_json::from_str(text).map_err(unreadable)?;
        Partial::from_value(sent)
    }

    /// The partial that this JSON value is.
    ///
    /// # Errors
    /// As [`Self::from_json`].
    pub fn from_value(sent: Value) -> Result<Partial, MergeError> {
        let unreadable = |error: serde_json::Error| invalid(format!("the partial cannot be read: {error}"));
        let partial: Partial = serde_json::from_value(sent.clone()).map_err(unreadable)?;
        let kept = serde_json::to_value(&partial).map_err(unreadable)?;
        if let Some(field) = extra_field(&sent, &kept) {
            return Err(invalid(format!("the partial has the field {field}, which partials do not have")));
        }
        partial.check()?;
        Ok(partial)
    }

    /// The partial as canonical JSON.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn to_json(&self) -> Result<String, MergeError> {
        serde_json_canonicalizer::to_string(self)
            .map_err(|error| invalid(format!("the partial has no canonical JSON form: {error}")))
    }

    /// The same partial with its digest.
    pub(super) fn sealed(mut self) -> Result<Partial, MergeError> {
        self.digest = self.own_digest()?;
        Ok(self)
    }

    fn own_digest(&self) -> Result<String, MergeError> {
        let without = Partial { digest: String::new(), ..self.clone() };
        digest_of(&without).map_err(|error| invalid(error.to_string()))
    }

    /// The content as a number.
    pub(super) fn content_sum(&self) -> Option<u128> {
        let canonical = |sum: &u128| format!("{sum:032x}") == self.content;
        u128::from_str_radix(&self.content, 16).ok().filter(canonical)
    }

    /// Checks that the partial is as it was computed.
    fn check(&self) -> Result<(), MergeError> {
        let who = format!("partition {:?}", self.partition);
        if self.format != PARTIAL_FORMAT {
            return Err(invalid(format!(
                "{who}: the format is {:?}, expected {PARTIAL_FORMAT:?}",
                self.format
            )));
        }
        check_partition(&self.partition)?;
        if self.own_digest()? != self.digest {
            let message = format!(
                "{who}: the partial does not have the digest that it states, so it was changed or damaged; compute it \
                 again"
            );
            return Err(invalid(message));
        }
        if self.content_sum().is_none() || !(0.0..=1.0).contains(&self.least_propensity) {
            return Err(invalid(format!("{who}: `content` or `least_propensity` is malformed")));
        }
        Ok(())
    }
}

/// Checks the name of a partition.
pub(super) fn check_partition(name: &str) -> Result<(), MergeError> {
    if name.is_empty() || name.len() > MAX_PARTITION || name.chars().any(char::is_control) {
        return Err(invalid(format!(
            "a partition's name must have 1 to {MAX_PARTITION} bytes and no control characters"
        )));
    }
    Ok(())
}

//! Why partials cannot be merged.

use serde::Serialize;

/// The stable code of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeCode {
    /// The recipe cannot be used: it is malformed, or what it asks for is no sum.
    InvalidRecipe,
    /// A partial is malformed, or does not have the digest that it states.
    InvalidPartial,
    /// A partial was computed with another recipe.
    MixedRecipes,
    /// A partial was computed by another release.
    MixedReleases,
    /// Two partials have the same partition.
    RepeatedPartial,
    /// Two partials have rows in common, or the rows of the learn log.
    OverlappingPartials,
    /// There are fewer rows than expected.
    MissingRows,
    /// There are more rows than expected.
    TooManyRows,
    /// No row is certified.
    NoRows,
    /// A number is not finite, or propensities were written less precisely than the recipe assumes.
    InvalidNumbers,
}

impl MergeCode {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            MergeCode::InvalidRecipe => "invalid_recipe",
            MergeCode::InvalidPartial => "invalid_partial",
            MergeCode::MixedRecipes => "mixed_recipes",
            MergeCode::MixedReleases => "mixed_releases",
            MergeCode::RepeatedPartial => "repeated_partial",
            MergeCode::OverlappingPartials => "overlapping_partials",
            MergeCode::MissingRows => "missing_rows",
            MergeCode::TooManyRows => "too_many_rows",
            MergeCode::NoRows => "no_rows",
            MergeCode::InvalidNumbers => "invalid_numbers",
        }
    }
}

/// Why a recipe or partials cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct MergeError {
    /// The kind of error.
    pub code: MergeCode,
    /// What is wrong, and what to do.
    pub message: String,
}

impl MergeError {
    /// An error with this code.
    pub fn new(code: MergeCode, message: impl Into<String>) -> Self {
        MergeError { code, message: message.into() }
    }
}

impl From<crate::error::EngineError> for MergeError {
    fn from(error: crate::error::EngineError) -> Self {
        MergeError::new(MergeCode::InvalidNumbers, error.to_string())
    }
}

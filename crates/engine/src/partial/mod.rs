//! Certificates of logs that outgrow one machine, docs/math.md#partials. With the policy, λ, θ and the cost model
//! fixed, what is certified is a sum over rows, so any engine that can sum can carry it:
//!
//! 1. [`Recipe::freeze`] fixes everything on the earliest part of a log, which is left out of the sum.
//! 2. [`partial_of`], or a [`PartialBuilder`] chunk by chunk, sums over one partition of the rows.
//! 3. [`merge`] adds partials up, and [`Merged::certificate`] is the certificate.
//!
//! Sums are exact, so the certificate has the same digest for every number of partitions and every order of partitions
//! and of rows. `guarantor_ingest::partials` reads files into partials.

mod builder;
mod certificate;
mod content;
mod document;
mod error;
mod freeze;
mod merge;
mod recipe;
mod sums;
#[cfg(test)]
pub(crate) mod tests;

pub use builder::{PartialBuilder, partial_of};
pub use document::{PARTIAL_FORMAT, Partial, PartialRows};
pub use error::{MergeCode, MergeError};
pub use freeze::FreezeRequest;
pub use merge::{MAX_PARTIALS, Merged, MergedHealth, merge};
pub use recipe::{LearnedFrom, LogTerms, RECIPE_FORMAT, Recipe, RecipeBet, RecipeSubject, SplitRule};
pub use sums::{ClaimSums, Sums};

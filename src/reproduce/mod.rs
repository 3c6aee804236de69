//! The paper's experiments: its datasets, the conversion of supervised examples into logs, and
//! (beside them) the figures that are made of both.
//!
//! ```text
//! load(Dataset, dir) ──▶ Supervised ──▶ Logger::train(&Supervised, seed) ──▶ Logger::log(α, m) ──▶ Bandit
//!                             └── true_risk(policy, &supervised.test)
//! ```
//! A [`Logger`] is what all inverse temperatures of one seed share: the split, the logged contexts
//! (shared, not copied, by its logs) and μ0. [`Conversion`] is the same in one step. [`toy`] is a
//! world that needs no files.

mod convert;
mod dataset;
mod files;
mod idx;
mod logging;
mod multilabel;
pub mod toy;

pub use convert::{Bandit, Conversion, Logger, true_risk};
pub use dataset::{Dataset, Examples, Labels, Supervised, load};
pub use files::LoadError;

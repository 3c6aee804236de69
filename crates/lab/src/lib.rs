//! The paper's experiments: its datasets, the conversion of supervised examples into logs, and the figures.
//!
//! ```text
//! load(PaperDataset, dir) ──▶ Supervised ──▶ Logger::train(&Supervised, seed) ──▶ Logger::log(α, m) ──▶
//! Bandit
//!                             └── true_risk(policy, &supervised.test)
//! Plan::run(&Supervised) ──▶ rows ──▶ table, claims ──▶ report; pictures ──▶ plot
//! ```
//! A [`Logger`] holds what all inverse temperatures of one seed share: the split, the logged contexts
//! (its logs share them without copying) and μ0. [`Conversion`] does the same in one step.

mod arff;
pub mod benchmark;
pub mod claims;
pub mod compare;
mod convert;
mod dataset;
mod experiments;
mod files;
mod idx;
pub mod lines;
mod logging;
mod multilabel;
pub mod normal;
pub mod pictures;
pub mod plot;
pub mod related;
pub mod report;
pub mod rows;
pub mod table;
pub mod trial;

pub use convert::{Bandit, Conversion, Logger, rewards, true_risk};
pub use dataset::{Examples, Labels, PaperDataset, Supervised, load};
pub use experiments::Plan;
pub use files::LoadError;

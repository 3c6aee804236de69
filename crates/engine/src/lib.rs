//! The compute core: logs as arrays, policies, estimators, bounds, learning, certificates.
//! Synchronous and deterministic; it does no I/O and knows nothing of who calls it.

// Index loops over parallel arrays read like the formulas that they implement.
#![allow(clippy::needless_range_loop)]

pub mod baseline;
pub mod bound;
pub mod certificate;
pub mod certify;
pub mod claims;
pub mod control;
pub mod cost_model;
pub mod error;
pub mod estimate;
pub mod job;
pub mod learn;
pub mod ledger;
pub mod log;
pub mod measure;
pub mod numerics;
pub mod policy;
pub mod spec;
pub mod split;

pub use error::{EngineError, Result};
pub use job::{Finished, Inputs, run, verify};

/// Printed on certificates: numbers are comparable digit for digit within one version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

//! The compute core: logs as arrays, policies, estimators, bounds, learning, certificates. It is synchronous
//! and deterministic, does no I/O and is independent of its callers.
//!
//! `job` is the entry point. `certify` computes certificates, `verify` recomputes them, and `certificate`
//! has their fields and wording. No module depends on another in a cycle (`tests/engine/modules.rs`).

// Index loops over parallel arrays look like the formulas that they implement.
#![allow(clippy::needless_range_loop)]

pub mod baseline;
pub mod bound;
pub mod certificate;
pub mod certify;
pub mod checks;
pub mod claims;
pub mod control;
pub mod cost_model;
pub mod digest;
pub mod error;
pub mod estimate;
pub mod footprint;
pub mod guardrail;
pub mod inputs;
pub mod job;
pub mod learn;
pub mod ledger;
pub mod log;
pub mod measure;
pub mod numerics;
pub mod objective;
pub mod partial;
pub mod plan;
pub mod policy;
pub mod rank;
pub mod refit;
pub mod row_hash;
pub mod span;
pub mod spec;
pub mod split;
pub mod terms;
pub mod verify;

pub use error::{EngineError, Result};
pub use inputs::Inputs;
pub use job::{Finished, run};
pub use verify::verify;

/// The version of the engine, printed on certificates. Within one version, equal inputs give equal bytes.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

//! The logs that teams really have: logged by policies that learn from them, with drift, with users who retry,
//! with rounded propensities, and looked at again after a certificate said keep. In each world the mean of every
//! row given its past is known, and a certificate is violated if it promises more than the mean over the rows
//! that it certified.

pub mod case;
mod drift;
mod headline;
mod learners;
pub mod logger;
pub mod nature;
mod retries;
mod rounding;
mod sequence;
pub mod stream;
mod unstated;
mod versions;

/// The δ at which every world is tried.
const DELTAS: [f64; 2] = [0.05, 0.2];

/// Logs of each world.
const LOGS: u64 = 300;

/// Rows of a log, unless a world needs more.
const ROWS: usize = 240;

/// Contexts of a world, unless it needs more.
const CONTEXTS: usize = 4;

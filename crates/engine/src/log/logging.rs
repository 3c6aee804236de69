//! How a log came about (docs/math.md#logging): whether one policy logged every row, what rows with the same
//! `context_id` are, and which policy version logged last.

use serde::{Deserialize, Serialize};

/// How a log was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Logging {
    /// The caller states that one policy logged every row and that all contexts came from one distribution.
    Fixed,
    /// The logging policy may have changed, and may have learned from earlier rows. This is the safe default.
    #[default]
    Adaptive,
}

impl Logging {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Logging::Fixed => "fixed",
            Logging::Adaptive => "adaptive",
        }
    }
}

/// What rows with the same `context_id` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Repetitions {
    /// Every row is a decision of its own, and the risk averages decisions. This covers users who retry until
    /// they succeed, and is the default.
    #[default]
    Decisions,
    /// The caller states that the number of rows of a context was chosen without looking at its actions and
    /// outcomes. The risk averages contexts.
    Designed,
}

/// The policy version of the last row of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LastVersion {
    /// Its name, as logged.
    pub name: String,
    /// The position of its first row in the order of arrival, counted from 0.
    pub first_row: u64,
    /// The number of its rows.
    pub rows: u64,
    /// How many versions the log has.
    pub versions: u64,
}

/// The times of the first and the last row of a log, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Period {
    /// The time of the first row.
    pub first: i64,
    /// The time of the last row.
    pub last: i64,
}

//! The planner (docs/math.md#planner): how many more rows would certify the required improvement, with what
//! probability, and whether fresh rows or all rows together get there sooner. A plan is a forecast from the mean and
//! the spread of the certified rows, or from what the caller expects before any log exists. It guarantees nothing.

mod forecast;
mod joint;
mod request;
mod width;
mod words;

use serde::{Deserialize, Serialize};

pub use forecast::{Outlook, Seen, Settings, Sight, outlook};
pub use joint::power_of_each;
pub use request::{PlanOutcome, PlanRequest, PlanUnit};
pub use width::Game;

/// The probability with which a plan's rows should certify the required improvement, if the caller does not say.
pub const POWER: f64 = 0.8;

/// What would certify the required improvement. A forecast, and no part of the guarantee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Plan {
    /// The improvement, in the paper's units, that must be exceeded for `deploy`.
    pub min_improvement: f64,
    /// The probability with which the planned rows are expected to certify it.
    pub power: f64,
    /// Whether a number of rows can be promised at all.
    pub possible: bool,
    /// How many more rows are needed on the sooner way; null if nothing can be promised.
    #[cfg_attr(feature = "schema", schema(required))]
    pub rows: Option<u64>,
    /// Which way needs fewer rows; null if nothing can be promised.
    #[cfg_attr(feature = "schema", schema(required))]
    pub sooner: Option<Route>,
    /// A look at new rows only (`looks: once`); null if it cannot be promised.
    #[cfg_attr(feature = "schema", schema(required))]
    pub fresh: Option<PlannedRows>,
    /// A look at old and new rows together (`looks: anytime`); null if it cannot be promised, or is not possible for
    /// this kind of job.
    #[cfg_attr(feature = "schema", schema(required))]
    pub pooled: Option<PlannedRows>,
    /// The traffic that days are computed from: as stated, or from the timestamps of the log.
    #[cfg_attr(feature = "schema", schema(required))]
    pub rows_per_day: Option<f64>,
    /// How many days `rows` take at this traffic.
    #[cfg_attr(feature = "schema", schema(required))]
    pub days: Option<f64>,
    /// What more exploration by the logging policy would save, if it would.
    pub exploration: Vec<PlannedExploration>,
    /// The plan as a sentence.
    pub message: String,
}

/// How old and new rows are used in the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// New rows only.
    Fresh,
    /// Old and new rows together.
    Pooled,
}

/// The rows of one way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlannedRows {
    /// How many more rows must be logged.
    pub rows: u64,
    /// How many days they take; null if the traffic is not known.
    #[cfg_attr(feature = "schema", schema(required))]
    pub days: Option<f64>,
}

/// What a logging policy that explores more would need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlannedExploration {
    /// The probability with which the logging policy would play uniformly, instead of what it plays now.
    pub share: f64,
    /// How many fresh rows would be needed then.
    pub rows: u64,
}

//! Rows to bytes of a format (one file per format), for simulated logs.
//!
//! What is written reads back as the same rows: features are single-precision numbers to the last bit,
//! all other numbers are double-precision ones. OBD is an exception: its reader adds positions. Rows are
//! written one at a time, so memory holds at most one batch.

pub(crate) mod arrow;
mod compressed;
pub(crate) mod csv;
pub(crate) mod dsjson;
pub mod file;
pub(crate) mod ndjson;
mod numbers;
pub(crate) mod obd;
pub(crate) mod parquet;
mod sets;

use std::io::{self, Write};

use guarantor_engine::log::{NamedOutcome, OutcomeKind};

use crate::format::Format;

pub use compressed::Compressed;
pub use sets::{FeatureValue, LoggedSet, Namespace, SetLayout};

/// What all rows of a written log have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteLayout {
    /// p, the number of features; 0 for rows without features.
    pub dim: usize,
    /// K, the number of actions.
    pub n_actions: usize,
    /// Whether the outcome is a cost or a reward.
    pub outcome: OutcomeKind,
    /// The outcomes, if they have names. Rows then have these, and no other outcome.
    pub outcomes: Vec<NamedOutcome>,
    /// Whether rows have a `context_id`; they must if contexts are logged repeatedly.
    pub context_ids: bool,
    /// Whether rows have a `timestamp`.
    pub timestamps: bool,
    /// Whether rows have a `policy_version`.
    pub versions: bool,
    /// The features of requests and actions, if every row has its own actions.
    pub sets: Option<SetLayout>,
}

impl Default for WriteLayout {
    /// Rewards without anything else.
    fn default() -> Self {
        WriteLayout {
            dim: 0,
            n_actions: 2,
            outcome: OutcomeKind::Reward,
            outcomes: Vec::new(),
            context_ids: false,
            timestamps: false,
            versions: false,
            sets: None,
        }
    }
}

impl WriteLayout {
    /// The name of the outcome's field.
    pub fn outcome_name(&self) -> &'static str {
        match self.outcome {
            OutcomeKind::Cost => "cost",
            OutcomeKind::Reward => "reward",
        }
    }
}

/// A row to write: one decision of the logging policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoggedRow<'a> {
    /// The features: p numbers.
    pub x: &'a [f32],
    /// The logged action.
    pub action: u32,
    /// π0(·|x): K numbers. The propensity is that of the action.
    pub propensities: &'a [f64],
    /// A cost or a reward, as the layout says.
    pub outcome: f64,
    /// One number for each outcome, if the layout has named ones.
    pub outcomes: &'a [f64],
    /// Written if the layout has context ids.
    pub context: u64,
    /// Microseconds since 1970, written if the layout has times.
    pub timestamp: i64,
    /// Written if the layout has versions: letters, digits, `.`, `-` and `_`.
    pub version: &'a str,
    /// The actions of the row, if the layout has action sets. `propensities` then has one number for each.
    pub set: Option<LoggedSet<'a>>,
}

/// The error of a format whose rows have one outcome.
fn check_outcomes(format: &str, layout: &WriteLayout) -> Result<(), String> {
    match layout.outcomes.is_empty() {
        true => Ok(()),
        false => Err(format!("{format} has no named outcomes; use ndjson, csv, parquet or arrow_stream")),
    }
}

impl LoggedRow<'_> {
    /// The numbers of the layout's outcomes: of those that have names, or of the only one.
    fn outcomes(&self, layout: &WriteLayout) -> &[f64] {
        match layout.outcomes.is_empty() {
            true => std::slice::from_ref(&self.outcome),
            false => self.outcomes,
        }
    }

    /// π0(a|x) of the logged action; NaN if there is no such action.
    fn propensity(&self) -> f64 {
        self.propensities.get(self.action as usize).copied().unwrap_or(f64::NAN)
    }
}

/// Turns rows into the bytes of a format.
pub(crate) trait RowEncoder {
    /// Writes a row. The encoder may hold it back to write it later.
    fn write(&mut self, row: &LoggedRow, to: &mut dyn Write) -> io::Result<()>;

    /// Writes rows that were held back, and what the format has at its end.
    fn finish(self: Box<Self>, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Writes rows to `W` in a format.
pub struct LogWriter<W> {
    encoder: Box<dyn RowEncoder>,
    to: W,
}

impl<W: Write> LogWriter<W> {
    /// Starts a log.
    ///
    /// # Errors
    /// The format cannot hold such a log ([`Format::can_write`]), or the beginning could not be written.
    pub fn new(format: Format, layout: &WriteLayout, mut to: W) -> io::Result<Self> {
        Ok(LogWriter { encoder: format.start_writing(layout, &mut to)?, to })
    }

    /// Writes the next row.
    ///
    /// # Errors
    /// The format cannot hold the row, or it could not be written.
    pub fn write(&mut self, row: &LoggedRow) -> io::Result<()> {
        self.encoder.write(row, &mut self.to)
    }

    /// Completes the log. Without this call it is truncated.
    ///
    /// # Errors
    /// The end could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.encoder.finish(&mut self.to)?;
        Ok(self.to)
    }
}

//! A row as a format delivers it: optional fields of the right types, not yet checked.

use std::collections::BTreeMap;

use guarantor_engine::log::OutcomeKind;

use crate::IngestLimits;
use crate::action_set::{RawSet, SetRules};
use crate::errors::IngestError;
use crate::features::Features;
use crate::hashing::Hashing;
use crate::plain_columns::PlainColumns;
use crate::time::Micros;
use crate::warning::Warning;

/// The fields of a row that a file has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawRow<'a> {
    pub x: Option<NumberList<'a>>,
    /// `x`, if its features have names.
    pub named: Option<NamedFeatures>,
    /// The actions of the row, if it has its own.
    pub set: Option<Box<RawSet>>,
    pub action: Option<i64>,
    pub propensity: Option<f64>,
    pub propensities: Option<NumberList<'a>>,
    pub cost: Option<f64>,
    pub reward: Option<f64>,
    /// The outcomes by name, if the row has several.
    pub outcomes: Option<BTreeMap<String, f64>>,
    pub context_id: Option<String>,
    pub event_id: Option<String>,
    pub candidates: Option<BTreeMap<String, f64>>,
    pub candidate_propensities: Option<BTreeMap<String, NumberList<'a>>>,
    /// When the row was logged.
    pub timestamp: Option<Micros>,
    pub policy_version: Option<String>,
}

/// The named features of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamedFeatures {
    /// The number of dimensions.
    pub dims: usize,
    /// The dimension and the value of each feature. A dimension may occur twice.
    pub pairs: Vec<(u32, f32)>,
}

impl NamedFeatures {
    /// The features of the field `x`, which the file calls `name`.
    pub fn of(features: &Features, name: &str, hashing: Hashing) -> Result<Self, RowFault> {
        match features.fault() {
            Some((path, why)) => Err(RowFault::new(format!("{name}.{path}"), why)),
            None => Ok(NamedFeatures { dims: hashing.dims, pairs: features.hashed(hashing).collect() }),
        }
    }
}

/// The numbers of a row: borrowed from a column, or parsed from a text.
#[derive(Debug, Clone, PartialEq)]
pub enum NumberList<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
    Parsed(Vec<f64>),
}

impl NumberList<'_> {
    pub fn len(&self) -> usize {
        match self {
            NumberList::Single(numbers) => numbers.len(),
            NumberList::Double(numbers) => numbers.len(),
            NumberList::Parsed(numbers) => numbers.len(),
        }
    }

    pub fn widen_into(&self, to: &mut Vec<f64>) {
        match self {
            NumberList::Single(numbers) => to.extend(numbers.iter().map(|&value| f64::from(value))),
            NumberList::Double(numbers) => to.extend_from_slice(numbers),
            NumberList::Parsed(numbers) => to.extend_from_slice(numbers),
        }
    }

    /// `+ 0.0` turns −0 into 0: they are the same number and must have the same representation.
    pub fn narrow_into(&self, to: &mut Vec<f32>) {
        match self {
            NumberList::Single(numbers) => to.extend(numbers.iter().map(|value| value + 0.0)),
            NumberList::Double(numbers) => to.extend(numbers.iter().map(|&value| value as f32 + 0.0)),
            NumberList::Parsed(numbers) => to.extend(numbers.iter().map(|&value| value as f32 + 0.0)),
        }
    }

    /// The number before it was narrowed or widened.
    pub fn at(&self, j: usize) -> f64 {
        match self {
            NumberList::Single(numbers) => numbers[j].into(),
            NumberList::Double(numbers) => numbers[j],
            NumberList::Parsed(numbers) => numbers[j],
        }
    }
}

impl From<Vec<f64>> for NumberList<'_> {
    fn from(numbers: Vec<f64>) -> Self {
        NumberList::Parsed(numbers)
    }
}

/// What is wrong with a field of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFault {
    pub field: String,
    pub message: String,
}

impl RowFault {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        RowFault { field: field.into(), message: message.into() }
    }
}

/// Why the reader of a format stopped.
pub enum FormatError {
    /// The bytes as a whole are not of this format; no row can be named.
    Unreadable(String),
    /// The visitor accepts no more rows, or the reason is not the format.
    Stopped(IngestError),
}

impl From<std::io::Error> for FormatError {
    fn from(error: std::io::Error) -> Self {
        FormatError::Unreadable(error.to_string())
    }
}

/// What a reader is given besides the bytes: limits, options, and what is known about the log before its
/// first row is read.
pub struct ReadContext {
    pub limits: IngestLimits,
    pub hashing: Hashing,
    /// How the actions of rows that have their own are read.
    pub sets: SetRules,
    /// Whether rows have their own actions; known in advance only if there are rows of an earlier version.
    pub has_sets: Option<bool>,
    /// Whether there are such rows and they have no features.
    pub bare: bool,
    /// K, the number of actions.
    pub actions: Option<usize>,
    /// Whether rows have π0(·|x); known in advance only if there are rows of an earlier version.
    pub full: Option<bool>,
    /// Whether rows have a time; known in advance only if there are rows of an earlier version.
    pub timestamps: Option<bool>,
    /// Whether the file has only candidates for rows that are stored already.
    pub candidates_only: bool,
    pub outcome: OutcomeKind,
    /// The `pdrop` of earlier rows, if their file had one.
    pub pdrop: Option<f64>,
}

/// What the reader of a format learned about a log besides its rows.
#[derive(Default)]
pub struct Notes {
    /// K, if the file states it.
    pub actions: Option<usize>,
    pub warnings: Vec<Warning>,
    /// The share of decisions that were dropped before they were logged.
    pub pdrop: Option<f64>,
}

impl Notes {
    /// Adds what the reader of the next file learned.
    pub fn add(&mut self, next: Notes) {
        self.actions = next.actions.or(self.actions);
        self.pdrop = next.pdrop.or(self.pdrop);
        for warning in next.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// Receives rows as they are read.
pub trait Visitor {
    /// Takes a row with its 1-based number in the file, or the reason why it is none.
    fn row(&mut self, number: u64, row: Result<RawRow<'_>, RowFault>) -> Result<(), IngestError>;

    /// Takes the next rows in whole columns. Returns false if it has taken none of them, because they must be visited one
    /// by one.
    fn columns(&mut self, columns: PlainColumns) -> Result<bool, IngestError>;
}

pub type Visit<'a> = dyn Visitor + 'a;

/// A function that takes rows one by one.
impl<F> Visitor for F
where
    F: FnMut(u64, Result<RawRow<'_>, RowFault>) -> Result<(), IngestError>,
{
    fn row(&mut self, number: u64, row: Result<RawRow<'_>, RowFault>) -> Result<(), IngestError> {
        self(number, row)
    }

    fn columns(&mut self, _: PlainColumns) -> Result<bool, IngestError> {
        Ok(false)
    }
}

/// The fields of a row, for messages.
pub const FIELDS: &str = "x, actions, action, propensity, propensities, cost, reward, outcomes, timestamp, policy_version, context_id, event_id, candidates, \
     candidate_propensities";
/// The same, one by one.
pub const FIELD_NAMES: [&str; 14] = [
    "x",
    "actions",
    "action",
    "propensity",
    "propensities",
    "cost",
    "reward",
    "outcomes",
    "timestamp",
    "policy_version",
    "context_id",
    "event_id",
    "candidates",
    "candidate_propensities",
];
/// Precedes an outcome's name in the name of its column.
pub const OUTCOME_PREFIX: &str = "outcome.";
/// Precedes a candidate's name in the name of its column.
pub const CANDIDATE_PREFIX: &str = "candidate.";
/// Precedes a candidate's name in the name of the column with its probabilities of all actions.
pub const CANDIDATE_FULL_PREFIX: &str = "candidate_propensities.";

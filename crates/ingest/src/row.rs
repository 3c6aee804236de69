//! A row as a format gives it: fields that are there or not, of the right types, unchecked.

use std::collections::BTreeMap;

use super::errors::IngestError;
use super::health::Warning;
use guarantor_engine::log::OutcomeKind;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawRow<'a> {
    pub x: Option<List<'a>>,
    pub action: Option<i64>,
    pub propensity: Option<f64>,
    pub propensities: Option<List<'a>>,
    pub cost: Option<f64>,
    pub reward: Option<f64>,
    pub context_id: Option<String>,
    pub event_id: Option<String>,
    pub candidates: Option<BTreeMap<String, f64>>,
}

/// A row's numbers: where they lie in a column, or made from a text.
#[derive(Debug, Clone, PartialEq)]
pub enum List<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
    Made(Vec<f64>),
}

impl List<'_> {
    pub fn len(&self) -> usize {
        match self {
            List::Single(numbers) => numbers.len(),
            List::Double(numbers) => numbers.len(),
            List::Made(numbers) => numbers.len(),
        }
    }

    pub fn widen_into(&self, to: &mut Vec<f64>) {
        match self {
            List::Single(numbers) => to.extend(numbers.iter().map(|&value| f64::from(value))),
            List::Double(numbers) => to.extend_from_slice(numbers),
            List::Made(numbers) => to.extend_from_slice(numbers),
        }
    }

    /// `+ 0.0` makes −0 and 0, which are one number, one.
    pub fn narrow_into(&self, to: &mut Vec<f32>) {
        match self {
            List::Single(numbers) => to.extend(numbers.iter().map(|value| value + 0.0)),
            List::Double(numbers) => to.extend(numbers.iter().map(|&value| value as f32 + 0.0)),
            List::Made(numbers) => to.extend(numbers.iter().map(|&value| value as f32 + 0.0)),
        }
    }

    /// The number as it came.
    pub fn at(&self, j: usize) -> f64 {
        match self {
            List::Single(numbers) => numbers[j].into(),
            List::Double(numbers) => numbers[j],
            List::Made(numbers) => numbers[j],
        }
    }
}

impl From<Vec<f64>> for List<'_> {
    fn from(numbers: Vec<f64>) -> Self {
        List::Made(numbers)
    }
}

/// What is wrong with a field of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub field: String,
    pub message: String,
}

impl Fault {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Fault { field: field.into(), message: message.into() }
    }
}

pub enum FormatError {
    /// The bytes as a whole are not of this format; no row can be named.
    Unreadable(String),
    /// The visitor wants no more, or it is not a matter of the format.
    Stopped(IngestError),
}

/// What is known of a log before its first row is read.
pub struct Known {
    /// K.
    pub actions: Option<usize>,
    /// Whether rows have π0(·|x); only those of an earlier version say so beforehand.
    pub full: Option<bool>,
    pub outcome: OutcomeKind,
    /// That of the rows before, where their file said it.
    pub pdrop: Option<f64>,
}

/// What a format knows of a log besides its rows.
#[derive(Default)]
pub struct Notes {
    /// K, where the file says it and the rows need not.
    pub actions: Option<usize>,
    pub warnings: Vec<Warning>,
    /// The share of decisions that were dropped before they were logged.
    pub pdrop: Option<f64>,
}

/// Takes rows as they are read, each with its 1-based place in the file.
pub type Visit<'a> = dyn FnMut(u64, Result<RawRow<'_>, Fault>) -> Result<(), IngestError> + 'a;

pub const FIELDS: &str =
    "x, action, propensity, propensities, cost, reward, context_id, event_id, candidates";
/// Before a candidate's name, where it is a column.
pub const CANDIDATE_PREFIX: &str = "candidate.";

//! Checks of a log against the assumptions of the guarantee, docs/math.md#checks. They read rows one by one,
//! keep a few sums per action, and can be merged, so they run at upload and again inside a job.
//!
//! Every check is a test whose null hypothesis follows from the assumptions. Most are e-values: products or
//! exponentials of sums whose expectation is at most 1 on every valid log, also if π0 of a row depends on all
//! earlier rows. A check fails if its evidence reaches 1/level, which Markov's inequality makes rare.

mod bets;
mod builder;
mod candidates;
mod centered;
mod counts;
mod drift;
mod evidence;
mod first_actions;
mod known;
mod logged;
mod propensities;
mod repetitions;
mod slices;
mod summed;
mod timed;

use serde::{Deserialize, Serialize};

pub use crate::log::Rounding;
pub use builder::ChecksBuilder;
pub use drift::{Drift, DriftChange, TimeSlice};
pub use logged::LoggedColumns;
pub use summed::{CheckSums, SummedChecks};
pub use timed::TimedSlices;

/// The level of all checks of one builder together. A log is checked at upload and once more in a job, so a
/// valid log fails with probability at most 2 · 0.004 < 1%.
pub const LEVEL: f64 = 0.004;

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// The mean of 1/propensity.
    Propensities,
    /// How often each action was logged.
    ActionCounts,
    /// The mean of π(a|x)/π0(a|x) of a candidate.
    CandidateWeights,
    /// The stated risk of the logging policy.
    KnownBaseline,
    /// Whether outcomes, propensities and actions stay the same over time.
    Drift,
    /// Whether the number of interactions of a context depends on its first action.
    Repetitions,
}

impl CheckName {
    /// All checks.
    pub const ALL: [CheckName; 6] = [
        CheckName::Propensities,
        CheckName::ActionCounts,
        CheckName::CandidateWeights,
        CheckName::KnownBaseline,
        CheckName::Drift,
        CheckName::Repetitions,
    ];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            CheckName::Propensities => "propensities",
            CheckName::ActionCounts => "action_counts",
            CheckName::CandidateWeights => "candidate_weights",
            CheckName::KnownBaseline => "known_baseline",
            CheckName::Drift => "drift",
            CheckName::Repetitions => "repetitions",
        }
    }

    /// The check with this name.
    pub fn from_name(name: &str) -> Option<CheckName> {
        CheckName::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// Which rows a check has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckScope {
    /// All rows, at upload.
    Log,
    /// The certified rows, in the job.
    CertifiedRows,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CheckResult {
    /// What was checked.
    pub name: CheckName,
    /// The candidate or the action that the numbers are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Which rows were checked.
    pub scope: CheckScope,
    /// Whether the check passed; null if it was not made, and the message says why.
    pub ok: Option<bool>,
    /// The number that was observed.
    pub observed: f64,
    /// What was expected.
    pub expected: f64,
    /// The evidence against the log: an e-value, or 1/p of an exact test; at most 1e300.
    pub evidence: f64,
    /// The level of the check. It fails if the evidence is at least 1/level.
    pub level: f64,
    /// The number of rows that were used.
    pub rows: u64,
    /// What was found and, if the check failed, how to fix the logging; or why the check was not made.
    pub message: String,
}

impl CheckResult {
    /// Whether the check was made and failed.
    pub fn failed(&self) -> bool {
        self.ok == Some(false)
    }
}

/// A candidate whose weights are checked.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidatePlan {
    /// The name that results carry.
    pub label: String,
    /// How precisely its probabilities were written.
    pub rounding: Rounding,
}

/// What to check, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckPlan {
    /// K, the number of actions. If it was not declared it may be 0 or too small while rows arrive.
    pub n_actions: usize,
    /// Whether the caller stated the number of actions, so that it does not depend on the rows.
    pub actions_declared: bool,
    /// Whether every row has its own actions, of which `CheckRow::n_actions` is the number. An action is then a
    /// position in the list of the row.
    pub sets: bool,
    /// Whether π0(·|x) of all actions is known.
    pub full: bool,
    /// How precisely propensities were written.
    pub rounding: Rounding,
    /// The candidates, in the order of `CheckRow::candidates`.
    pub candidates: Vec<CandidatePlan>,
    /// The stated R(π0), in [-1, 0].
    pub known_baseline: Option<f64>,
    /// Whether one fixed logging policy was attested, so that drift fails the log.
    pub fixed: bool,
    /// Whether repetitions of contexts were attested as designed.
    pub designed: bool,
    /// The level of all checks together.
    pub level: f64,
}

impl Default for CheckPlan {
    fn default() -> CheckPlan {
        CheckPlan {
            n_actions: 0,
            actions_declared: false,
            sets: false,
            full: false,
            rounding: Rounding::default(),
            candidates: Vec::new(),
            known_baseline: None,
            fixed: false,
            designed: false,
            level: LEVEL,
        }
    }
}

/// A row of a log.
#[derive(Debug, Clone, Copy)]
pub struct CheckRow<'a> {
    /// The logged action.
    pub action: u32,
    /// Its cost, in [-1, 0].
    pub cost: f64,
    /// π0(a|x) of the logged action, as written; `full[action]` if π0(·|x) is known.
    pub propensity: f64,
    /// π0(·|x), scaled to sum to 1. One number per action of the row, without padding.
    pub full: Option<&'a [f64]>,
    /// The number of actions, if every row has its own.
    pub n_actions: Option<usize>,
    /// The candidates, in the order of the plan.
    pub candidates: &'a [CandidateWeight<'a>],
    /// Only in logs with designed repetitions, and only in the first row of a context.
    pub repetition: Option<Repetition>,
    /// False for the second and later rows of one context.
    pub counts_for_drift: bool,
}

/// What a candidate would have done in a row.
#[derive(Debug, Clone, Copy)]
pub struct CandidateWeight<'a> {
    /// π(a|x) of the logged action.
    pub played: f64,
    /// π(·|x), if it is known, scaled to sum to 1.
    pub all: Option<&'a [f64]>,
}

/// A row of a log with designed repetitions that is read row by row, so that it is not known yet how often its
/// context will be logged.
#[derive(Debug, Clone, Copy)]
pub struct Interaction<'a> {
    /// How often the context was logged so far, this row included.
    pub number: u64,
    /// The action of the context's first row.
    pub first_action: u32,
    /// The propensity of that action.
    pub first_propensity: f64,
    /// π0(·|x), scaled to sum to 1. It is the same in all rows of a context.
    pub full: Option<&'a [f64]>,
}

/// How often the context of a row was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// m, the number of rows of the context.
    pub interactions: u64,
}

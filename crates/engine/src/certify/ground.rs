//! What a certificate stands on: the rows that are certified, and the checks of the log against the assumptions of
//! the guarantee (docs/math.md#checks).

use std::borrow::Cow;

use ndarray::ArrayView2;
use rayon::prelude::*;

use crate::certificate::PeriodEstimate;
use crate::checks::{
    CandidatePlan, CandidateWeight, CheckName, CheckPlan, CheckResult, CheckRow, CheckScope, ChecksBuilder,
    LEVEL, LoggedColumns, Repetition, Rounding,
};
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::estimate;
use crate::inputs::Inputs;
use crate::log::ranges::blocks;
use crate::log::{Chunk, LogShape, LogSource, PartLog, Precision, Side, Span};
use crate::measure::Subject;
use crate::numerics::special::upper_quantile;
use crate::span::{Certified, seed_of, span_of};
use crate::spec::{BaselineKind, JobSpec, Looks};

/// The share of δ for the case that the certified rows show no action that earlier rows have not shown.
const SAME_ACTIONS: f64 = 0.9;

/// A policy whose weights are checked: its label on the certificate, and the policy.
pub type Checked<'a> = (String, Subject<'a>);

/// The rows that a certificate is computed on, and their checks.
pub struct Ground<'a> {
    pub spec: &'a JobSpec,
    pub inputs: &'a Inputs<'a>,
    pub span: Span,
    pub certified: Certified<'a>,
    /// The checks of all rows that concern this job, and those of the certified rows.
    pub checks: Vec<CheckResult>,
}

impl<'a> Ground<'a> {
    /// Selects the certified rows and checks them, together with the weights of these policies.
    ///
    /// # Errors
    /// If the log cannot be read, no row is certified, or the job is canceled.
    pub fn new(
        spec: &'a JobSpec,
        inputs: &'a Inputs<'a>,
        policies: &[Checked],
        control: &Control,
    ) -> Result<Self> {
        let span = span_of(spec, inputs);
        let certified = Certified::new(&span, inputs)?;
        let mut checks = log_checks(spec, inputs, policies, control)?;
        checks.extend(check_rows(spec, &certified, policies, CheckScope::CertifiedRows, control)?);
        Ok(Ground { spec, inputs, span, certified, checks })
    }

    /// Whether aimed bets hold on the certified rows: independent contexts under one policy, and no later look that
    /// pools these rows with others (docs/math.md#aimed).
    pub fn may_aim(&self) -> bool {
        let capabilities = &self.certified.shape().capabilities;
        self.spec.is_fixed() && !capabilities.repeated_contexts && self.spec.looks == Some(Looks::Once)
    }

    /// The seed of the random order of aimed bets, from the log's digest.
    pub fn order_seed(&self) -> u64 {
        seed_of(self.inputs.dataset_digest)
    }

    /// The rows on which the logging policy is measured: all rows of a fixed log, unless some were certified
    /// before, and otherwise the certified ones.
    pub fn baseline(&self) -> &dyn LogSource {
        match self.span {
            Span::Hash(_) => self.inputs.log,
            Span::Time { .. } => &self.certified,
        }
    }

    /// The spec with the δ that claims about a learned policy may use. If the number of actions K was not stated, it
    /// was read off all rows, and the policy has K actions although it may depend on earlier rows only. So there is
    /// one claim for every K that the certified rows could have shown (docs/math.md#logging).
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn claiming(&self, control: &Control) -> Result<JobSpec> {
        let mut spec = self.spec.clone();
        let shape = self.inputs.log.shape();
        if spec.fraction().is_some() && !shape.capabilities.knows_actions() {
            let learned = PartLog::new(self.inputs.log, self.span.clone(), Side::Learn)?;
            let mut known = 0;
            for index in 0..learned.chunks() {
                control.check()?;
                known = learned.lean_chunk(index)?.actions.iter().fold(known, |k, &action| k.max(action + 1));
            }
            let more = shape.n_actions as f64 - f64::from(known);
            // The shares of more = 1, 2, … add up to what the first leaves.
            spec.delta *=
                if more <= 0.0 { SAME_ACTIONS } else { (1.0 - SAME_ACTIONS) / (more * (more + 1.0)) };
        }
        Ok(spec)
    }

    /// The failed checks that concern a candidate, or all policies if there is none.
    pub fn failed(&self, candidate: Option<&str>) -> Vec<&CheckResult> {
        let concerns = |check: &&CheckResult| {
            check.failed()
                && (check.name != CheckName::CandidateWeights
                    || check.subject.as_deref().is_none_or(|subject| candidate.is_none_or(|c| c == subject)))
        };
        self.checks.iter().filter(concerns).collect()
    }

    /// The improvement of a policy over the last quarter of the certified rows, if the logging policy may have
    /// changed over them: it may have caught up.
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn last_quarter(&self, subject: Subject, control: &Control) -> Result<Option<PeriodEstimate>> {
        let Span::Time { first_certified_row, policy_version: None } = self.span else { return Ok(None) };
        let rows = self.inputs.log.shape().rows;
        let first = first_certified_row + (rows - first_certified_row) * 3 / 4;
        if self.spec.is_fixed() || rows - first < 2 {
            return Ok(None);
        }
        let span = Span::Time { first_certified_row: first, policy_version: None };
        let quarter = match PartLog::new(&self.certified, span, Side::Certify) {
            Ok(quarter) => quarter,
            // No context is entirely in it.
            Err(EngineError::Log(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let estimate = estimate::improvement(&quarter, subject, control)?;
        let reach = upper_quantile(0.5 * self.spec.delta) * estimate.standard_error;
        Ok(Some(PeriodEstimate {
            rows: quarter.shape().rows,
            improvement: estimate.value,
            lower: estimate.value - reach,
            upper: estimate.value + reach,
        }))
    }
}

/// The checks of all rows that concern a job with these policies: those that were made at upload, or the same made
/// now.
fn log_checks(
    spec: &JobSpec,
    inputs: &Inputs,
    policies: &[Checked],
    control: &Control,
) -> Result<Vec<CheckResult>> {
    let concerns = |check: &&CheckResult| {
        check.name != CheckName::CandidateWeights
            || check.subject.as_ref().is_none_or(|subject| policies.iter().any(|(label, _)| label == subject))
    };
    match inputs.log_checks {
        Some(made) => Ok(made.iter().filter(concerns).cloned().collect()),
        None => {
            let logged = |(_, subject): &&Checked| matches!(subject, Subject::Logged(_));
            let candidates: Vec<Checked> = policies.iter().filter(logged).cloned().collect();
            check_rows(spec, inputs.log, &candidates, CheckScope::Log, control)
        }
    }
}

/// What is checked on a log of this shape.
pub fn check_plan(spec: &JobSpec, shape: &LogShape, policies: &[Checked]) -> CheckPlan {
    let capabilities = &shape.capabilities;
    let precision_of = |subject: &Subject| match subject {
        Subject::Logged(candidate) => capabilities.precision_of(*candidate),
        Subject::Policy(_) => Precision::default(),
    };
    CheckPlan {
        n_actions: shape.n_actions,
        actions_declared: capabilities.actions_declared,
        sets: capabilities.action_sets.is_some(),
        full: capabilities.full_propensities,
        rounding: if capabilities.uniform { Rounding::default() } else { capabilities.precision.rounding() },
        candidates: (policies.iter())
            .map(|(label, subject)| CandidatePlan {
                label: label.clone(),
                rounding: precision_of(subject).rounding(),
            })
            .collect(),
        known_baseline: spec.baseline.risk.filter(|_| spec.baseline.kind == BaselineKind::Known),
        fixed: spec.is_fixed(),
        designed: capabilities.multiple_interactions,
        level: LEVEL,
    }
}

/// Checks rows and the weights of policies on them.
///
/// # Errors
/// If the log cannot be read or the job is canceled.
pub fn check_rows(
    spec: &JobSpec,
    log: &dyn LogSource,
    policies: &[Checked],
    scope: CheckScope,
    control: &Control,
) -> Result<Vec<CheckResult>> {
    let mut plan = check_plan(spec, log.shape(), policies);
    if scope == CheckScope::Log {
        // The stated risk is that of the certified period.
        plan.known_baseline = None;
    }
    let before = contexts_before(log)?;
    let lean = policies.iter().all(|(_, subject)| matches!(subject, Subject::Logged(_)));
    let parts: Vec<ChecksBuilder> = blocks(log.chunks())
        .into_par_iter()
        .map(|range| {
            let mut checks = ChecksBuilder::new(plan.clone());
            for index in range {
                control.check()?;
                let chunk = match lean {
                    true => log.lean_chunk(index)?,
                    false => log.chunk(index)?,
                };
                match lean {
                    true => chunk.check_lean(log.shape())?,
                    false => chunk.check(log.shape())?,
                }
                if before.is_empty() && check_columns(&chunk, log.shape(), policies, &mut checks) {
                    continue;
                }
                let mut row = |row: &CheckRow| checks.row(row);
                check_chunk(&chunk, log.shape(), before.get(index).copied(), policies, &mut row)?;
            }
            Ok(checks)
        })
        .collect::<Result<_>>()?;
    let mut all = ChecksBuilder::new(plan);
    parts.into_iter().for_each(|part| all.merge(part));
    Ok(all.finish(scope))
}

/// Shows the rows of a log as checks see them.
///
/// # Errors
/// If the log cannot be read or the job is canceled.
pub fn check_each(
    log: &dyn LogSource,
    policies: &[Checked],
    control: &Control,
    visit: &mut dyn FnMut(&CheckRow),
) -> Result<()> {
    for index in 0..log.chunks() {
        control.check()?;
        let chunk = log.chunk(index)?;
        chunk.check(log.shape())?;
        check_chunk(&chunk, log.shape(), None, policies, visit)?;
    }
    Ok(())
}

/// The number of contexts that appeared before each chunk, if rows of one context are decisions of their own. Only
/// the first row of a context counts for drift: the others are not independent of it.
fn contexts_before(log: &dyn LogSource) -> Result<Vec<u64>> {
    let (mut before, mut next) = (Vec::new(), 0);
    if log.shape().capabilities.repeated_contexts {
        for index in 0..log.chunks() {
            before.push(next);
            // Contexts are numbered by first appearance.
            next = log.lean_chunk(index)?.ordinals.iter().fold(next, |next, &ordinal| next.max(ordinal + 1));
        }
    }
    Ok(before)
}

/// What a policy plays on a chunk.
enum Weights<'a> {
    /// π(·|x) of each context.
    Policy(ndarray::Array2<f64>),
    /// π(a|x) of each row, at the lower end of its interval, with the precision as written.
    Logged(&'a [f64], Precision),
    /// π(·|x) of each row, from the log.
    All(ArrayView2<'a, f64>),
}

/// Checks a chunk column by column, if its rows are entries of their own and nothing but numbers of logged actions is
/// known; false if not.
fn check_columns(chunk: &Chunk, shape: &LogShape, policies: &[Checked], checks: &mut ChecksBuilder) -> bool {
    let capabilities = &shape.capabilities;
    let bare = chunk.full.is_none() && chunk.sets.is_none() && !capabilities.multiple_interactions;
    if !bare || chunk.contexts() != chunk.rows() {
        return false;
    }
    let mut candidates: Vec<Cow<[f64]>> = Vec::with_capacity(policies.len());
    for (_, subject) in policies {
        let Subject::Logged(candidate) = subject else { return false };
        let (Some(played), Some(None)) =
            (chunk.candidates.get(*candidate), chunk.candidate_full.get(*candidate))
        else {
            return false;
        };
        let precision = capabilities.precision_of(*candidate);
        candidates.push(as_written(played, precision, |end| precision.written_above(end)));
    }
    let written = written_precision(shape);
    let propensities = as_written(&chunk.propensities, written, |end| written.written_below(end));
    checks.logged(&LoggedColumns {
        actions: &chunk.actions,
        costs: &chunk.costs,
        propensities: &propensities,
        candidates: candidates.iter().map(|column| &**column).collect(),
    });
    true
}

/// The numbers as they were written, which are the ends of their intervals if there are none.
fn as_written<'a>(ends: &'a [f64], precision: Precision, written: impl Fn(f64) -> f64) -> Cow<'a, [f64]> {
    match precision.rounding().is_none() {
        true => Cow::Borrowed(ends),
        false => ends.iter().map(|&end| written(end)).collect(),
    }
}

/// Chunks have the ends of intervals, and checks read the numbers as written.
fn written_precision(shape: &LogShape) -> Precision {
    match shape.capabilities.uniform {
        true => Precision::default(),
        false => shape.capabilities.precision,
    }
}

fn check_chunk(
    chunk: &Chunk,
    shape: &LogShape,
    mut contexts_before: Option<u64>,
    policies: &[Checked],
    visit: &mut dyn FnMut(&CheckRow),
) -> Result<()> {
    let missing = || EngineError::Log("the candidate is missing from the log".into());
    let capabilities = &shape.capabilities;
    let mut weights = Vec::with_capacity(policies.len());
    for (_, subject) in policies {
        weights.push(match subject {
            Subject::Policy(policy) => Weights::Policy(policy.propensities(chunk.situations())?),
            Subject::Logged(candidate) => match chunk.candidate_full.get(*candidate) {
                Some(Some(all)) => Weights::All(all.view()),
                _ => Weights::Logged(
                    chunk.candidates.get(*candidate).ok_or_else(missing)?,
                    capabilities.precision_of(*candidate),
                ),
            },
        });
    }
    let written = written_precision(shape);
    let mut candidates: Vec<CandidateWeight> = Vec::with_capacity(policies.len());
    let sets = chunk.sets.as_ref().map(|sets| sets.view());
    for c in 0..chunk.contexts() {
        let size = sets.map(|sets| sets.size(c));
        // Numbers of sets are padded to the largest one.
        let own = |all: &'_ [f64]| size.unwrap_or(all.len()).min(all.len());
        let (context, rows) = (chunk.context(c), chunk.rows_of(c));
        let new = contexts_before.is_none_or(|before| chunk.ordinals[c] >= before);
        contexts_before = contexts_before.map(|before| before.max(chunk.ordinals[c] + 1));
        for (j, row) in rows.clone().enumerate() {
            let action = chunk.actions[row];
            candidates.clear();
            candidates.extend(weights.iter().map(|weights| {
                let all = match weights {
                    Weights::Policy(all) => all.row(c).to_slice(),
                    Weights::All(all) => all.row(row).to_slice(),
                    Weights::Logged(played, precision) => {
                        let played = precision.written_above(played[row]);
                        return CandidateWeight { played, all: None };
                    }
                };
                let all = all.expect("row-major");
                let all = &all[..own(all)];
                CandidateWeight { played: all[action as usize], all: Some(all) }
            }));
            visit(&CheckRow {
                action,
                cost: chunk.costs[row],
                propensity: context.full.map_or_else(
                    || written.written_below(chunk.propensities[row]),
                    |full| full[action as usize],
                ),
                full: context.full.map(|full| &full[..own(full)]),
                n_actions: size,
                candidates: &candidates,
                repetition: (j == 0).then_some(Repetition { interactions: rows.len() as u64 }),
                counts_for_drift: j == 0 && new,
            });
        }
    }
    Ok(())
}

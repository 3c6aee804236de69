//! The checks that turn rows into a log, and the batches that a sink receives.

use guarantor_engine::error::RowError;
use guarantor_engine::log::{Capabilities, Outcome, disagrees};
use ndarray::ArrayView2;

use crate::batch::{LogLayout, LogRows};
use crate::digest::LogDigest;
use crate::errors::{IngestError, RowErrors};
use crate::hashing::Hashing;
use crate::health::{Health, HealthBuilder};
use crate::identity::{Identities, Place};
use crate::row::{Notes, RawRow, ReadContext, RowFault};
use crate::rules::{Rules, check_row, layout_of};
use crate::sink::Sink;

/// The approximate size of the features and propensities of a batch.
const BATCH_BYTES: usize = 4 << 20;
const MIN_ROWS: usize = 64;

/// What is known about a log after its last row was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct LogSummary {
    /// The number of rows. It includes rows of earlier versions, like everything below.
    pub rows: u64,
    /// The number of contexts.
    pub contexts: u64,
    /// K, the number of actions.
    pub n_actions: usize,
    /// p, the number of features.
    pub dim: usize,
    /// The kind and range of the outcomes.
    pub outcome: Outcome,
    /// The digest of the log, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// What the log supports.
    pub capabilities: Capabilities,
    /// The health report.
    pub health: Health,
}

/// Checks the rows of one log one by one, and passes valid rows to a sink in batches.
pub struct Checker {
    rules: Rules,
    /// The layout of the first valid row; all others must have the same.
    layout: Option<LogLayout>,
    batch: LogRows,
    /// The row numbers of the batch's rows in the file.
    numbers: Vec<u64>,
    batch_rows: usize,
    rows: u64,
    /// The number of rows of earlier versions and of this file, including rejected ones.
    seen: u64,
    largest_action: u32,
    identities: Identities,
    /// The digest of the remembered rows.
    digest: LogDigest,
    health: HealthBuilder,
    /// The health of the remembered rows.
    earlier: Option<Health>,
    errors: RowErrors,
}

impl Checker {
    /// A checker for a log that has no rows yet.
    pub fn new(rules: Rules) -> Self {
        Checker {
            rules,
            layout: None,
            batch: LogRows::default(),
            numbers: Vec::new(),
            batch_rows: 0,
            rows: 0,
            seen: 0,
            largest_action: 0,
            identities: Identities::default(),
            digest: LogDigest::default(),
            health: HealthBuilder::default(),
            earlier: None,
            errors: RowErrors::default(),
        }
    }

    /// What a reader needs to know before it reads.
    pub(crate) fn context(&self, hash_dims: usize) -> ReadContext {
        ReadContext {
            limits: self.rules.limits.clone(),
            hashing: Hashing { dims: hash_dims },
            actions: self.rules.known_actions(self.layout.as_ref().and_then(|layout| layout.full)),
            full: self.layout.as_ref().map(|layout| layout.full.is_some()),
            outcome: self.rules.outcome.kind,
            pdrop: self.earlier.as_ref().and_then(|health| health.pdrop),
        }
    }

    /// Remembers rows of an earlier version, to which the rows of this upload are appended.
    ///
    /// # Errors
    /// The memory for ids is used up, or the logging policy does not fit the rows.
    pub fn remember(&mut self, layout: &LogLayout, mut rows: LogRows) -> Result<(), IngestError> {
        self.fix_layout(layout.clone());
        let (p, k) = (layout.dim, layout.full.unwrap_or(0));
        for i in 0..rows.len() {
            // These rows were checked when they were uploaded, so nothing here can be rejected.
            if let Some(id) = rows.event_ids.get(i) {
                let _ = self.identities.event(id, Place::Stored);
            }
            if let Some(id) = rows.context_ids.get(i) {
                let (x, full) = (&rows.x[i * p..(i + 1) * p], &rows.full[i * k..(i + 1) * k]);
                let _ = self.identities.context(id, Place::Stored, x, full);
            }
        }
        self.check_identities()?;
        self.ask_policy(layout, &mut rows, &[])?;
        self.count(layout, &rows);
        self.seen += rows.len() as u64;
        Ok(())
    }

    /// Continues from the digest of the remembered rows, and from the parts of their health that come from
    /// their files.
    pub fn follow(&mut self, digest: LogDigest, health: Option<Health>) {
        self.digest = digest;
        self.earlier = health;
    }

    /// Takes the next row of the file, or the reason why it is not valid.
    pub(crate) fn accept(
        &mut self,
        number: u64,
        row: Result<RawRow, RowFault>,
        sink: &mut dyn Sink,
    ) -> Result<(), IngestError> {
        if self.seen >= self.rules.limits.rows {
            let message = format!("a dataset has at most {} rows; upload fewer", self.rules.limits.rows);
            return Err(IngestError::TooLarge(message));
        }
        self.seen += 1;
        let first = row.as_ref().ok().filter(|_| self.layout.is_none()).map(layout_of);
        match row.and_then(|row| self.push(number, row)) {
            Ok(()) => {
                if let Some(layout) = first {
                    self.rules.check_policy(&layout)?;
                    self.fix_layout(layout);
                }
                self.numbers.push(number);
                self.check_identities()?;
            }
            Err(fault) => {
                let (dim, full) = self.layout.as_ref().map_or((0, 0), |l| (l.dim, l.full.unwrap_or(0)));
                self.batch.truncate(self.numbers.len(), dim, full);
                self.reject(number, fault);
            }
        }
        if self.numbers.len() >= self.batch_rows.max(1) { self.flush(sink) } else { Ok(()) }
    }

    /// Completes the sink and returns the summary, or all errors.
    pub(crate) fn finish(mut self, sink: &mut dyn Sink, notes: Notes) -> Result<LogSummary, IngestError> {
        self.flush(sink)?;
        if !self.errors.is_empty() {
            return Err(IngestError::Rows(self.errors));
        }
        let nothing = || IngestError::Unreadable("the log has no rows".into());
        let layout = self.layout.ok_or_else(nothing)?;
        let n_actions = match self.rules.known_actions(layout.full).or(notes.actions) {
            Some(k) => k,
            None if self.largest_action == 0 => {
                let message = "is required: only action 0 was logged, so the number of actions cannot be inferred from the rows";
                return Err(IngestError::Option { field: "n_actions", message: message.into() });
            }
            None => self.largest_action as usize + 1,
        };
        // Nothing can be rejected from here on: a sink that has finished keeps its rows.
        let digest = sink.finish()?.ok_or_else(nothing)?;
        let contexts = if layout.context_ids { self.identities.contexts() } else { self.rows };
        let mut health = self.health.finish(n_actions);
        health.add_notes(notes, self.earlier);
        Ok(LogSummary {
            rows: self.rows,
            contexts,
            n_actions,
            dim: layout.dim,
            outcome: self.rules.outcome,
            digest: digest.finish(&layout, n_actions, &self.rules.outcome),
            capabilities: Capabilities {
                features: layout.dim > 0,
                full_propensities: layout.full.is_some() || self.rules.policy.is_some(),
                multiple_interactions: contexts < self.rows,
                candidates: layout.candidates,
            },
            health,
        })
    }

    fn reject(&mut self, number: u64, fault: RowFault) {
        self.errors.add(RowError { row: number, field: fault.field, message: fault.message });
    }

    /// Checks a row, alone and against earlier ones, and appends it to the batch. If there is a fault, a
    /// part of the row may be in the batch.
    fn push(&mut self, number: u64, row: RawRow) -> Result<(), RowFault> {
        let (x, full) = (self.batch.x.len(), self.batch.full.len());
        let has_ids = (row.event_id.is_some(), row.context_id.is_some());
        check_row(row, &self.rules, self.layout.as_ref(), &mut self.batch)?;
        if let Some(id) = self.batch.event_ids.last().filter(|_| has_ids.0) {
            self.identities.event(id, Place::Row(number))?;
        }
        if let Some(id) = self.batch.context_ids.last().filter(|_| has_ids.1) {
            let (x, full) = (&self.batch.x[x..], &self.batch.full[full..]);
            self.identities.context(id, Place::Row(number), x, full)?;
        }
        Ok(())
    }

    fn check_identities(&self) -> Result<(), IngestError> {
        let most = self.rules.limits.identity_bytes;
        if self.identities.bytes() <= most {
            return Ok(());
        }
        let message = format!(
            "comparing the log's event_ids and contexts takes more than {most} bytes of memory; upload fewer rows, \
             or leave context_id out if no context occurs twice"
        );
        Err(IngestError::TooLarge(message))
    }

    fn fix_layout(&mut self, layout: LogLayout) {
        if self.layout.is_none() {
            let row_bytes = 4 * layout.dim + 8 * layout.full.unwrap_or(0) + 64;
            self.batch_rows = (BATCH_BYTES / row_bytes).clamp(MIN_ROWS, 8192);
            self.layout = Some(layout);
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) -> Result<(), IngestError> {
        let (mut rows, numbers) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.numbers));
        let Some(layout) = self.layout.clone().filter(|_| !rows.is_empty()) else { return Ok(()) };
        self.ask_policy(&layout, &mut rows, &numbers)?;
        if !self.errors.is_empty() {
            sink.discard();
            return Ok(());
        }
        self.count(&layout, &rows);
        Ok(sink.write(&layout, &self.digest, rows)?)
    }

    fn count(&mut self, layout: &LogLayout, rows: &LogRows) {
        self.rows += rows.len() as u64;
        self.largest_action = rows.actions.iter().copied().fold(self.largest_action, u32::max);
        self.health.update(rows);
        match layout.full {
            Some(k) => self.health.expect_all(k, &rows.full),
            None if self.rules.policy.is_none() => self.health.judge(&rows.propensities),
            // `ask_policy` has counted them.
            None => {}
        }
    }

    /// If the logging policy is known: fills in missing propensities and compares those that are present.
    /// It does so a few rows at a time, because π0(·|x) of all rows may be large.
    fn ask_policy(
        &mut self,
        layout: &LogLayout,
        rows: &mut LogRows,
        numbers: &[u64],
    ) -> Result<(), IngestError> {
        let Some(policy) = &self.rules.policy else { return Ok(()) };
        let fault = |message: String| IngestError::Option { field: "logging_policy_id", message };
        let (p, k) = (layout.dim, policy.n_actions());
        // Scores and propensities, in double precision.
        let most = (BATCH_BYTES / (16 * k.max(1))).max(MIN_ROWS);
        for from in (0..rows.len()).step_by(most) {
            let to = rows.len().min(from + most);
            let x = ArrayView2::from_shape((to - from, p), &rows.x[from * p..to * p])
                .map_err(|error| fault(error.to_string()))?;
            let pi = policy.propensities(x).map_err(|error| fault(error.to_string()))?;
            if let Some(all) = pi.as_slice().filter(|_| layout.full.is_none()) {
                self.health.expect_all(k, all);
            }
            for (i, &number) in (from..to).zip(numbers.iter().skip(from)) {
                let (action, logged) = (rows.actions[i], &mut rows.propensities[i]);
                let given = pi[(i - from, action as usize)];
                if let Err(RowFault { field, message }) = fill_in(action, logged, given) {
                    self.errors.add(RowError { row: number, field, message });
                }
            }
        }
        Ok(())
    }
}

/// Compares the logged propensity with the logging policy's, or fills it in if it was not logged.
fn fill_in(action: u32, logged: &mut f64, given: f64) -> Result<(), RowFault> {
    if logged.is_nan() {
        *logged = given;
    }
    if given <= 0.0 {
        let message = format!("the logging policy gives action {action} probability 0 here");
        Err(RowFault::new("action", message))
    } else if disagrees(*logged, given) {
        Err(RowFault::new("propensity", format!("is {logged}, but the logging policy gives {given}")))
    } else {
        Ok(())
    }
}

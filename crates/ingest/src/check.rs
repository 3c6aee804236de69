//! The checks that make rows a log, and the batches that are stored of it.

use ndarray::ArrayView2;

use super::IngestLimits;
use super::errors::{IngestError, RowErrors};
use super::health::{Health, HealthBuilder};
use super::identity::{Identities, Place};
use super::row::{Fault, Known, Notes, RawRow};
use super::rules::{Checked, Rules, check_row, layout_of};
use crate::batch::{LogLayout, LogRows};
use crate::digest::LogDigest;
use crate::sink::Sink;
use guarantor_engine::error::RowError;
use guarantor_engine::log::{AGREEMENT_TOLERANCE, Capabilities, Outcome};

/// Bytes of features and propensities in a batch, about.
const BATCH_BYTES: usize = 4 << 20;
const LEAST_ROWS: usize = 64;

/// What is known about a log once its last row was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct LogSummary {
    /// Rows of earlier versions included, as in everything below.
    pub rows: u64,
    pub contexts: u64,
    pub n_actions: usize,
    pub dim: usize,
    pub outcome: Outcome,
    pub digest: String,
    pub capabilities: Capabilities,
    pub health: Health,
}

pub struct Checker {
    rules: Rules,
    /// As the first valid row has it; all others must have the same.
    layout: Option<LogLayout>,
    batch: LogRows,
    /// Where the batch's rows stand in the file.
    numbers: Vec<u64>,
    batch_rows: usize,
    rows: u64,
    /// Rows of earlier versions and of this file, those that were refused among them.
    seen: u64,
    largest_action: u32,
    identities: Identities,
    /// Of the rows that were remembered.
    digest: LogDigest,
    health: HealthBuilder,
    /// What was found of the rows that were remembered.
    earlier: Option<Health>,
    errors: RowErrors,
}

impl Checker {
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

    pub fn limits(&self) -> &IngestLimits {
        &self.rules.limits
    }

    /// What formats may want to know before they read.
    pub fn known(&self) -> Known {
        Known {
            actions: self.rules.known_actions(self.layout.as_ref().and_then(|layout| layout.full)),
            full: self.layout.as_ref().map(|layout| layout.full.is_some()),
            outcome: self.rules.outcome.kind,
            pdrop: self.earlier.as_ref().and_then(|health| health.pdrop),
        }
    }

    /// Takes note of rows that are stored already and that this upload follows.
    pub fn remember(&mut self, layout: &LogLayout, mut rows: LogRows) -> Result<(), IngestError> {
        self.fix_layout(layout.clone());
        let (p, k) = (layout.dim, layout.full.unwrap_or(0));
        for i in 0..rows.len() {
            // They were checked when they came: nothing here can be refused.
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

    /// The digest goes on from that of the rows that were remembered, and so does what only the files
    /// that they came in could say of them.
    pub fn follow(&mut self, digest: LogDigest, health: Option<Health>) {
        self.digest = digest;
        self.earlier = health;
    }

    /// Takes the next row of the file, or the reason why it is none.
    pub fn accept(
        &mut self,
        number: u64,
        row: Result<RawRow, Fault>,
        sink: &mut dyn Sink,
    ) -> Result<(), IngestError> {
        if self.seen >= self.rules.limits.rows {
            let message = format!("a dataset has at most {} rows; send fewer", self.rules.limits.rows);
            return Err(IngestError::TooLarge(message));
        }
        self.seen += 1;
        let first = row.as_ref().ok().filter(|_| self.layout.is_none()).map(layout_of);
        let lists = (self.batch.x.len(), self.batch.full.len());
        let checked = row.and_then(|row| {
            let checked = check_row(row, &self.rules, self.layout.as_ref(), &mut self.batch)?;
            self.identify(number, &checked, lists)?;
            Ok(checked)
        });
        match checked {
            Ok(checked) => {
                if let Some(layout) = first {
                    self.rules.check_policy(&layout)?;
                    self.fix_layout(layout);
                }
                self.push(number, checked);
                self.check_identities()?;
            }
            Err(fault) => {
                self.batch.x.truncate(lists.0);
                self.batch.full.truncate(lists.1);
                self.refuse(number, fault);
            }
        }
        if self.numbers.len() >= self.batch_rows.max(1) { self.flush(sink) } else { Ok(()) }
    }

    /// What was read, the sink completed, or everything that is wrong.
    pub fn finish(mut self, sink: &mut dyn Sink, notes: Notes) -> Result<LogSummary, IngestError> {
        self.flush(sink)?;
        if !self.errors.is_empty() {
            return Err(IngestError::Rows(self.errors));
        }
        let nothing = || IngestError::Unreadable("there are no rows in the body".into());
        let layout = self.layout.ok_or_else(nothing)?;
        let n_actions = match self.rules.known_actions(layout.full).or(notes.actions) {
            Some(k) => k,
            None if self.largest_action == 0 => {
                let message = "only action 0 was logged, so the rows do not say how many actions there are";
                return Err(IngestError::Option { field: "n_actions", message: message.into() });
            }
            None => self.largest_action as usize + 1,
        };
        // Everything that can be rejected was: a sink that has finished keeps its rows.
        let digest = sink.finish()?.ok_or_else(nothing)?;
        let contexts = if layout.context_ids { self.identities.contexts() } else { self.rows };
        let mut health = self.health.finish(n_actions);
        health.say(notes, self.earlier);
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

    fn refuse(&mut self, number: u64, fault: Fault) {
        self.errors.add(RowError { row: number, field: fault.field, message: fault.message });
    }

    /// `lists` is where the row's features and propensities begin in the batch.
    fn identify(&mut self, number: u64, row: &Checked, lists: (usize, usize)) -> Result<(), Fault> {
        if let Some(id) = &row.event_id {
            self.identities.event(id, Place::Row(number))?;
        }
        if let Some(id) = &row.context_id {
            let (x, full) = (&self.batch.x[lists.0..], &self.batch.full[lists.1..]);
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
            "to compare the log's event_ids, and its contexts' propensities, takes more than {most} bytes of memory; \
             send fewer rows, or leave context_id out where no context comes twice"
        );
        Err(IngestError::TooLarge(message))
    }

    fn fix_layout(&mut self, layout: LogLayout) {
        if self.layout.is_none() {
            let row_bytes = 4 * layout.dim + 8 * layout.full.unwrap_or(0) + 64;
            self.batch_rows = (BATCH_BYTES / row_bytes).clamp(LEAST_ROWS, 8192);
            self.layout = Some(layout);
        }
    }

    /// The row's lists are in the batch already.
    fn push(&mut self, number: u64, row: Checked) {
        let batch = &mut self.batch;
        batch.actions.push(row.action);
        batch.costs.push(row.cost);
        batch.propensities.push(row.propensity);
        batch.context_ids.extend(row.context_id);
        batch.event_ids.extend(row.event_id);
        batch.candidates.resize_with(row.candidates.len(), Vec::new);
        for (column, value) in batch.candidates.iter_mut().zip(row.candidates.into_values()) {
            column.push(value);
        }
        self.numbers.push(number);
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
            // `ask_policy` has told it.
            None => {}
        }
    }

    /// Where a policy logged: fills propensities that the rows leave out and compares those that they
    /// have. A few rows at a time, because π0(·|x) of all of them may be large.
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
        let most = (BATCH_BYTES / (16 * k.max(1))).max(LEAST_ROWS);
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
                if let Err(Fault { field, message }) = agree(action, logged, pi[(i - from, action as usize)])
                {
                    self.errors.add(RowError { row: number, field, message });
                }
            }
        }
        Ok(())
    }
}

/// Whether the logging policy says what was logged, which it fills in where nothing was.
fn agree(action: u32, logged: &mut f64, given: f64) -> Result<(), Fault> {
    if logged.is_nan() {
        *logged = given;
    }
    if given <= 0.0 {
        let message = format!("the logging policy gives action {action} probability 0 here");
        Err(Fault::new("action", message))
    } else if (given - *logged).abs() > AGREEMENT_TOLERANCE * *logged {
        Err(Fault::new("propensity", format!("{logged} but the logging policy says {given}")))
    } else {
        Ok(())
    }
}

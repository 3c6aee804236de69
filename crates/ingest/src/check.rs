//! The checks that turn rows into a log, and the batches that a sink receives.

mod columns;

use guarantor_engine::error::RowError;
use guarantor_engine::log::{ActionSets, Capabilities, FeatureSpace, Logging, Outcome, Repetitions};

use crate::action_set::SetRules;
use crate::batch::{BATCH_BYTES, LogLayout, LogRows};
use crate::columns::LogFacts;
use crate::digest::LogDigest;
use crate::errors::{IngestError, RowErrors};
use crate::format::Format;
use crate::hashing::Hashing;
use crate::health::Health;
use crate::identity::{Identities, Interaction, Place};
use crate::layout::layout_of;
use crate::outcomes::{Cut, CutCounts, undeclared};
use crate::row::{Notes, RawRow, ReadContext, RowFault};
use crate::rules::{LogOptions, Rules, check_row};
use crate::sink::Sink;
use crate::sketch::RowSketch;
use crate::tally::{Counted, Numbers, Tally};
use crate::time;

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
    /// The kind and range of the outcome; of the primary one if there are several.
    pub outcome: Outcome,
    /// The digest of the log, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// What the log supports.
    pub capabilities: Capabilities,
    /// What the caller states about the log.
    pub options: LogOptions,
    /// Recognizes the rows in other logs.
    pub sketch: RowSketch,
    /// The same for the rows of this upload alone.
    pub new_rows: RowSketch,
    /// The latest time of a row, in microseconds since 1970, if rows have times.
    pub last_timestamp: Option<i64>,
    /// The health report.
    pub health: Health,
}

impl LogSummary {
    /// What the engine needs to know besides the rows.
    pub fn facts(&self) -> LogFacts<'_> {
        LogFacts {
            n_actions: self.n_actions,
            outcome: self.outcome,
            options: self.options,
            capabilities: &self.capabilities,
        }
    }
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
    /// The number of rows of earlier versions and of this file, including rejected ones.
    seen: u64,
    identities: Identities,
    /// The digest of the remembered rows.
    digest: LogDigest,
    tally: Tally,
    /// The earliest time that a row may have.
    not_before: Option<i64>,
    /// Which of the rows of its context each row of the batch is.
    interactions: Vec<Interaction>,
    /// The health of the remembered rows.
    earlier: Option<Health>,
    /// How many rows of the upload had outcomes cut.
    cut: CutCounts,
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
            seen: 0,
            identities: Identities::default(),
            digest: LogDigest::default(),
            tally: Tally::default(),
            not_before: None,
            interactions: Vec::new(),
            earlier: None,
            cut: CutCounts::default(),
            errors: RowErrors::default(),
        }
    }

    /// Refuses rows with an earlier time: rows after it are certified already.
    pub fn not_before(&mut self, timestamp: i64) {
        self.not_before = Some(timestamp);
    }

    /// What a reader needs to know before it reads.
    pub(crate) fn context(&self, hash_dims: Option<usize>) -> ReadContext {
        let sets = self.layout.as_ref().map(|layout| layout.sets);
        // Rows that are appended get the dimensions of the earlier ones.
        let named = |space| matches!(space, FeatureSpace::Named { .. }).then(|| space.dim());
        let bare = |spaces| (spaces == ActionSets::default()).then_some(0);
        let earlier = (sets.flatten())
            .map(|spaces| named(spaces.actions).or(named(spaces.x)).or(bare(spaces)).or(hash_dims));
        ReadContext {
            limits: self.rules.limits.clone(),
            hashing: Hashing { dims: hash_dims.unwrap_or(Hashing::DEFAULT_DIMS) },
            sets: SetRules::new(&self.rules.limits, earlier.unwrap_or(hash_dims)),
            has_sets: sets.map(|sets| sets.is_some()),
            bare: sets.flatten() == Some(ActionSets::default()),
            actions: self.rules.known_actions(self.layout.as_ref().and_then(|layout| layout.full)),
            full: self.layout.as_ref().map(|layout| layout.full.is_some()),
            timestamps: self.layout.as_ref().map(|layout| layout.timestamps),
            candidates_only: false,
            outcome: self.rules.outcome.kind,
            pdrop: self.earlier.as_ref().and_then(|health| health.pdrop),
        }
    }

    /// Checks that files of a format can have the outcomes of the log.
    pub(crate) fn check_format(&self, format: Format) -> Result<(), IngestError> {
        if self.rules.outcomes.is_empty() || format.has_named_outcomes() {
            return Ok(());
        }
        let (name, instead) = (format.name(), "send ndjson, csv, parquet or arrow_stream");
        let (field, message) = match self.layout {
            Some(_) => ("format", format!("{name} has one outcome, but the log has named ones; {instead}")),
            None => (
                "outcomes",
                format!(
                    "cannot be declared for {name}, whose rows have one outcome; leave it out, or {instead}"
                ),
            ),
        };
        Err(IngestError::Option { field, message })
    }

    /// Remembers rows of an earlier version, to which the rows of this upload are appended. Call `end_part` after
    /// the last row of each part.
    ///
    /// # Errors
    /// The memory for ids is used up, or the logging policy does not fit the rows.
    pub fn remember(&mut self, layout: &LogLayout, rows: LogRows) -> Result<(), IngestError> {
        self.replay(layout, rows).map(drop)
    }

    /// Ends a part of the remembered rows.
    pub fn end_part(&mut self) {
        self.tally.repeats.end_part();
        self.tally.repeats.forgive();
    }

    /// Passes rows that were checked before, and got more candidates, to a sink. Call this for all rows of a dataset,
    /// then `finish_rewrite`.
    ///
    /// # Errors
    /// The memory for ids is used up, or the sink failed.
    pub fn rewrite(
        &mut self,
        layout: &LogLayout,
        rows: LogRows,
        sink: &mut dyn Sink,
    ) -> Result<(), IngestError> {
        let rows = self.replay(layout, rows)?;
        Ok(sink.write(layout, &LogDigest::default(), rows)?)
    }

    /// Completes the sink and returns the summary of the rewritten rows. `health` is what the dataset had before; the
    /// parts of it that come from files are kept.
    ///
    /// # Errors
    /// The sink failed, or there were no rows.
    pub fn finish_rewrite(
        mut self,
        health: Option<Health>,
        sink: &mut dyn Sink,
    ) -> Result<LogSummary, IngestError> {
        self.earlier = health;
        self.summarize(sink, Notes::default())
    }

    /// Counts rows that were checked before, and returns them.
    pub(crate) fn replay(&mut self, layout: &LogLayout, mut rows: LogRows) -> Result<LogRows, IngestError> {
        self.fix_layout(layout.clone());
        let p = layout.dim;
        let mut interactions = Vec::new();
        for i in 0..rows.len() {
            // These rows were checked when they were uploaded, so nothing here can be rejected.
            if let Some(id) = rows.event_ids.get(i) {
                let _ = self.identities.event(id, Place::Stored);
            }
            if let Some(id) = rows.context_ids.get(i) {
                let (x, full) = (&rows.x[i * p..(i + 1) * p], rows.full_of(layout, i));
                let repetitions = self.rules.options.repetitions;
                let row = (rows.actions[i], rows.propensities[i]);
                let seen = see_context(&mut self.identities, repetitions, id, Place::Stored, (x, full), row);
                let later = Interaction { number: 2, first_action: row.0, first_propensity: row.1 };
                interactions.push(seen.unwrap_or(later));
            }
        }
        self.check_identities()?;
        let numbers = Numbers { interactions: &interactions, file: None };
        self.tally.ask_policy(&self.rules, layout, &mut rows, &numbers, &mut self.errors)?;
        self.tally.count(&self.rules, layout, &rows, &numbers)?;
        self.seen += rows.len() as u64;
        Ok(rows)
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
        let first = row.as_ref().ok().filter(|_| self.layout.is_none());
        if let Some(names) =
            first.and_then(|row| row.outcomes.as_ref()).filter(|_| self.rules.outcomes.is_empty())
        {
            return Err(undeclared(names));
        }
        let first = first.map(|row| layout_of(row, &self.rules));
        match row.and_then(|row| self.push(number, row)) {
            Ok(cut) => {
                self.cut.add(cut);
                if let Some(layout) = first {
                    self.rules.check_first(&layout)?;
                    self.fix_layout(layout);
                }
                self.numbers.push(number);
                self.check_identities()?;
                self.check_non_zeros()?;
            }
            Err(fault) => {
                match &self.layout {
                    Some(layout) => self.batch.truncate(self.numbers.len(), layout),
                    None => self.batch = LogRows::default(),
                }
                self.interactions.truncate(self.numbers.len());
                self.reject(number, fault);
            }
        }
        let full = self.numbers.len() >= self.batch_rows.max(1) || self.batch.set_bytes() >= BATCH_BYTES;
        if full { self.flush(sink) } else { Ok(()) }
    }

    /// Whether the rows so far have named features.
    pub(crate) fn has_named_features(&self) -> bool {
        let sets = self.layout.as_ref().and_then(|layout| layout.sets).unwrap_or_default();
        [sets.x, sets.actions].iter().any(|space| matches!(space, FeatureSpace::Named { .. }))
    }

    /// Whether a row was rejected.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Completes the sink and returns the summary, or all errors.
    pub(crate) fn finish(mut self, sink: &mut dyn Sink, notes: Notes) -> Result<LogSummary, IngestError> {
        self.flush(sink)?;
        if !self.errors.is_empty() {
            return Err(IngestError::Rows(self.errors));
        }
        self.tally.repeats.end_part();
        if let Some(run) = self.tally.repeats.found() {
            return Err(IngestError::RepeatedRows { row: run.row, run: run.rows, first: run.first });
        }
        if let Some(times) = self.tally.multiplied() {
            return Err(IngestError::MultipliedRows { times });
        }
        self.summarize(sink, notes)
    }

    /// Completes the sink and returns the summary of rows without errors.
    pub(crate) fn summarize(self, sink: &mut dyn Sink, notes: Notes) -> Result<LogSummary, IngestError> {
        let nothing = || IngestError::Unreadable("the log has no rows".into());
        let layout = self.layout.clone().ok_or_else(nothing)?;
        let stated = match layout.sets {
            // The rows say how many actions they have.
            Some(_) => Some(self.tally.largest_set),
            None => self.rules.stated_actions(layout.n_actions()).or(notes.actions),
        };
        let n_actions = match stated.or_else(|| self.rules.known_actions(None)) {
            Some(k) => k,
            None if self.tally.largest_action == 0 => {
                let message = "is required: only action 0 was logged, so the number of actions cannot be inferred from the rows";
                return Err(IngestError::Option { field: "n_actions", message: message.into() });
            }
            None => self.tally.largest_action as usize + 1,
        };
        if self.rules.options.logging == Logging::Fixed && self.tally.arrivals.versions() > 1 {
            let message = format!(
                "is fixed, which says that one policy logged every row, but the rows have {} policy versions; upload \
                 with logging=adaptive, or the rows of each version as a separate dataset",
                self.tally.arrivals.versions()
            );
            return Err(IngestError::Option { field: "logging", message });
        }
        // Nothing can be rejected from here on: a sink that has finished keeps its rows.
        let digest = sink.finish()?.ok_or_else(nothing)?;
        let contexts = if layout.context_ids { self.identities.contexts() } else { self.tally.rows };
        let counted = Counted { layout: &layout, n_actions, stated: stated.is_some(), contexts };
        let (capabilities, last_timestamp) =
            (self.tally.capabilities(&self.rules, counted), self.tally.arrivals.last_timestamp());
        let rows = self.tally.rows;
        let earlier = self.earlier.as_ref().map_or(&[][..], |health| &health.outcomes);
        let (mut health, sketch, new_rows) =
            self.tally.finish(&self.rules, counted, &capabilities, (&self.cut, earlier));
        health.add_notes(notes, self.earlier);
        Ok(LogSummary {
            rows,
            contexts,
            n_actions,
            dim: layout.dim,
            outcome: self.rules.outcome,
            digest: digest.finish(&layout, n_actions, &self.rules.outcome, &self.rules.outcomes),
            capabilities,
            options: self.rules.options,
            sketch,
            new_rows,
            last_timestamp,
            health,
        })
    }

    fn reject(&mut self, number: u64, fault: RowFault) {
        self.errors.add(RowError { row: number, field: fault.field, message: fault.message });
    }

    /// Checks a row, alone and against earlier ones, and appends it to the batch. If there is a fault, a
    /// part of the row may be in the batch.
    fn push(&mut self, number: u64, row: RawRow) -> Result<Cut, RowFault> {
        let (x, full) = (self.batch.x.len(), self.batch.full.len());
        let has_ids = (row.event_id.is_some(), row.context_id.is_some());
        self.check_time(row.timestamp)?;
        let cut = check_row(row, &self.rules, self.layout.as_ref(), &mut self.batch)?;
        if let Some(id) = self.batch.event_ids.last().filter(|_| has_ids.0) {
            self.identities.event(id, Place::Row(number))?;
        }
        if let Some(id) = self.batch.context_ids.last().filter(|_| has_ids.1) {
            let (x, full) = (&self.batch.x[x..], &self.batch.full[full..]);
            let repetitions = self.rules.options.repetitions;
            let row = (
                self.batch.actions.last().copied().unwrap_or(0),
                self.batch.propensities.last().copied().unwrap_or(f64::NAN),
            );
            let place = Place::Row(number);
            let seen = see_context(&mut self.identities, repetitions, id, place, (x, full), row)?;
            self.interactions.push(seen);
        }
        Ok(cut)
    }

    fn check_time(&self, timestamp: Option<i64>) -> Result<(), RowFault> {
        match (timestamp, self.not_before) {
            (Some(time), Some(earliest)) if time < earliest => {
                let (time, earliest) = (time::to_text(time), time::to_text(earliest));
                let message = format!(
                    "{time} reaches back before rows that are already certified, of which the last is of {earliest}; \
                     a later certificate may use only rows that arrived after those of an earlier one, so upload such \
                     rows as a new dataset"
                );
                Err(RowFault::new("timestamp", message))
            }
            _ => Ok(()),
        }
    }

    fn check_identities(&self) -> Result<(), IngestError> {
        let most = self.rules.limits.identity_bytes;
        if self.identities.bytes() + self.tally.arrivals.bytes() <= most {
            return Ok(());
        }
        let message = format!(
            "comparing the log's event_ids and contexts takes more than {most} bytes of memory; upload fewer rows, \
             or leave context_id out if no context occurs twice"
        );
        Err(IngestError::TooLarge(message))
    }

    /// Checks the number of features of all rows that have their own actions.
    fn check_non_zeros(&self) -> Result<(), IngestError> {
        let most = self.rules.limits.dataset_non_zeros;
        if self.tally.non_zeros + self.batch.non_zeros() <= most {
            return Ok(());
        }
        let message = format!("a dataset has at most {most} features that are not 0; upload fewer rows");
        Err(IngestError::TooLarge(message))
    }

    fn fix_layout(&mut self, layout: LogLayout) {
        if self.layout.is_none() {
            self.batch_rows = layout.batch_rows();
            self.layout = Some(layout);
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) -> Result<(), IngestError> {
        let (mut rows, numbers) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.numbers));
        let Some(layout) = self.layout.clone().filter(|_| !rows.is_empty()) else { return Ok(()) };
        let interactions = std::mem::take(&mut self.interactions);
        let numbers = Numbers { interactions: &interactions, file: Some(&numbers) };
        self.tally.ask_policy(&self.rules, &layout, &mut rows, &numbers, &mut self.errors)?;
        if !self.errors.is_empty() {
            sink.discard();
            return Ok(());
        }
        self.tally.count(&self.rules, &layout, &rows, &numbers)?;
        Ok(sink.write(&layout, &self.digest, rows)?)
    }
}

/// Remembers a context. If repetitions are designed, its rows must agree.
fn see_context(
    identities: &mut Identities,
    repetitions: Repetitions,
    id: &str,
    place: Place,
    numbers: (&[f32], &[f64]),
    row: (u32, f64),
) -> Result<Interaction, RowFault> {
    match repetitions {
        Repetitions::Designed => identities.context(id, place, numbers, row),
        Repetitions::Decisions => Ok(identities.see_context(id)),
    }
}

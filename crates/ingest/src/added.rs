//! Candidates for rows that are stored already: a file with one row per stored row, which has the candidates'
//! probabilities and nothing else but an `event_id`. Rows are matched by it, or by their order if they have none.

use std::io::Read;

use guarantor_engine::error::RowError;
use guarantor_engine::log::{OutcomeKind, check_distribution};

use crate::IngestLimits;
use crate::action_set::SetRules;
use crate::batch::{LogLayout, LogRows};
use crate::decompress::Decoded;
use crate::errors::{IngestError, RowErrors, shortened};
use crate::files::end_of;
use crate::format::FileFormat;
use crate::hashing::Hashing;
use crate::layout::{MAX_CANDIDATES, check_names, names};
use crate::marks::{Marks, mark};
use crate::row::{FormatError, NumberList, RawRow, ReadContext, RowFault};
use crate::rules::{MAX_ID_BYTES, check_candidate, wrong_id};

/// The memory for the id of a row and its number in the file.
const ROW_BYTES: u64 = 48;

/// Candidates that were read from a file.
pub struct AddedCandidates {
    /// K; `None` if every row has its own actions.
    n_actions: Option<usize>,
    limits: IngestLimits,
    /// The names of all candidates, in ascending order.
    names: Vec<String>,
    /// The names of those with π(·|x), in ascending order.
    full_names: Vec<String>,
    /// π(a|x) of each candidate in each row; NaN where the file has only π(·|x).
    played: Vec<Vec<f64>>,
    full: Vec<Vec<f64>>,
    /// Where the numbers of each row start in the columns of `full`, and the end of the last row's.
    starts: Vec<usize>,
    /// The ids of the rows, if they have one.
    ids: Option<Marks>,
    /// The number of each row in the file.
    numbers: Vec<u64>,
    /// Which rows have been matched with a stored one.
    used: Vec<bool>,
    /// The number of stored rows so far.
    stored: u64,
    /// The number of stored rows without a row in the file, and the id of the first.
    missing: (u64, Option<String>),
    errors: RowErrors,
}

impl AddedCandidates {
    /// Reads candidates for a dataset with this number of actions; `None` if every row has its own. The format must be one whose rows have the fields
    /// `event_id`, `candidates` and `candidate_propensities`.
    ///
    /// # Errors
    /// All errors of the rows, or the first error of the file as a whole.
    pub fn read(
        file: FileFormat,
        reader: impl Read + Send + 'static,
        n_actions: Option<usize>,
        limits: IngestLimits,
    ) -> Result<Self, IngestError> {
        if file.format.hashes_features() {
            let message = format!(
                "{} has no candidates; send ndjson, csv, parquet or arrow_stream",
                file.format.name()
            );
            return Err(IngestError::Option { field: "format", message });
        }
        let context = ReadContext {
            limits: limits.clone(),
            hashing: Hashing { dims: file.dims() },
            sets: SetRules::new(&limits, file.hash_dims),
            has_sets: None,
            bare: false,
            actions: n_actions,
            full: None,
            timestamps: None,
            candidates_only: true,
            outcome: OutcomeKind::Cost,
            pdrop: None,
        };
        let mut added = AddedCandidates::new(n_actions, limits);
        let mut source = Decoded::new(file.encoding, reader, &context.limits)?;
        let rejection = source.rejection();
        let read = file
            .format
            .read(&mut source, &context, &mut |number, row: Result<RawRow, _>| added.accept(number, row));
        let read = read.and_then(|_| end_of(&mut source));
        rejection.check()?;
        match read {
            Ok(()) => {}
            Err(FormatError::Unreadable(message)) => return Err(IngestError::Unreadable(shortened(message))),
            Err(FormatError::Stopped(error)) => return Err(error),
        }
        if !added.errors.is_empty() {
            return Err(IngestError::Rows(added.errors));
        }
        if added.numbers.is_empty() {
            return Err(IngestError::Unreadable("the file has no rows".into()));
        }
        added.used = vec![false; added.numbers.len()];
        Ok(added)
    }

    fn new(n_actions: Option<usize>, limits: IngestLimits) -> Self {
        AddedCandidates {
            n_actions,
            limits,
            names: Vec::new(),
            full_names: Vec::new(),
            played: Vec::new(),
            full: Vec::new(),
            starts: vec![0],
            ids: None,
            numbers: Vec::new(),
            used: Vec::new(),
            stored: 0,
            missing: (0, None),
            errors: RowErrors::default(),
        }
    }

    /// The names of the candidates, in ascending order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn accept(&mut self, number: u64, row: Result<RawRow, RowFault>) -> Result<(), IngestError> {
        let per_row = ROW_BYTES + 8 * self.names.len() as u64;
        let most = self.limits.identity_bytes;
        let rows = self.numbers.len() as u64;
        let lists = 8 * self.full.iter().map(|column| column.len() as u64).sum::<u64>();
        if rows >= self.limits.rows || per_row.saturating_mul(rows).saturating_add(lists) > most {
            let message = format!("the candidates take more than {most} bytes of memory; add fewer at once");
            return Err(IngestError::TooLarge(message));
        }
        if let Err(RowFault { field, message }) = row.and_then(|row| self.push(number, row)) {
            self.errors.add(RowError { row: number, field, message });
        }
        Ok(())
    }

    fn push(&mut self, number: u64, row: RawRow) -> Result<(), RowFault> {
        check_fields(&row)?;
        self.check_candidates(&row)?;
        let (played, full) =
            (row.candidates.unwrap_or_default(), row.candidate_propensities.unwrap_or_default());
        if let Some((name, value)) = played.iter().find(|(_, value)| !(0.0..=1.0).contains(*value)) {
            return Err(RowFault::new(format!("candidates.{name}"), format!("{value} is not in [0, 1]")));
        }
        let mut known = self.n_actions;
        for (name, list) in &full {
            self.check_list(name, list, known)?;
            known = Some(list.len());
        }
        self.place_id(row.event_id)?;
        for (name, column) in self.names.iter().zip(&mut self.played) {
            column.push(played.get(name).copied().unwrap_or(f64::NAN));
        }
        for (list, column) in full.values().zip(&mut self.full) {
            list.widen_into(column);
        }
        self.starts.push(self.full.first().map_or(0, Vec::len));
        self.numbers.push(number);
        Ok(())
    }

    /// Checks that a row has the candidates of the first valid row, which are fixed with it.
    fn check_candidates(&mut self, row: &RawRow) -> Result<(), RowFault> {
        let names = names(row);
        let full = || row.candidate_propensities.iter().flat_map(|full| full.keys());
        if self.numbers.is_empty() {
            if names.is_empty() {
                return Err(RowFault::new("candidates", "is missing, and so is candidate_propensities"));
            }
            check_names(&names)?;
            self.names = names.iter().map(|&name| name.to_owned()).collect();
            self.full_names = full().cloned().collect();
            self.played = vec![Vec::new(); self.names.len()];
            self.full = vec![Vec::new(); self.full_names.len()];
            self.ids = row.event_id.is_some().then(Marks::default);
        }
        if !names.iter().eq(&self.names) || !full().eq(&self.full_names) {
            let message = format!("must have the candidates of the first row, [{}]", self.names.join(", "));
            return Err(RowFault::new("candidates", message));
        }
        Ok(())
    }

    fn check_list(&self, name: &str, list: &NumberList, known: Option<usize>) -> Result<(), RowFault> {
        let field = format!("candidate_propensities.{name}");
        let n = list.len();
        if let Some(k) = known.filter(|&k| k != n) {
            return Err(RowFault::new(field, format!("has {n} numbers, but there are {k} actions")));
        }
        if n > self.limits.actions {
            let message = format!("has {n} numbers; the maximum is {}", self.limits.actions);
            return Err(RowFault::new(field, message));
        }
        let mut numbers = Vec::with_capacity(n);
        list.widen_into(&mut numbers);
        check_distribution(&numbers).map_err(|(at, message)| {
            RowFault::new(at.map_or(field.clone(), |a| format!("{field}[{a}]")), message)
        })
    }

    fn place_id(&mut self, id: Option<String>) -> Result<(), RowFault> {
        match (&mut self.ids, id) {
            (None, None) => Ok(()),
            (Some(_), Some(id)) if id.is_empty() || id.len() > MAX_ID_BYTES => Err(wrong_id("event_id")),
            (Some(ids), Some(id)) => match ids.place(mark(&id)) {
                (_, true) => Ok(()),
                (first, false) => {
                    let row = self.numbers.get(first).copied().unwrap_or(0);
                    let message = format!("duplicate event_id {id:?} (first seen in row {row})");
                    Err(RowFault::new("event_id", message))
                }
            },
            (None, Some(_)) => Err(RowFault::new("event_id", "is present, but earlier rows do not have it")),
            (Some(_), None) => Err(RowFault::new("event_id", "is missing, but earlier rows have it")),
        }
    }

    /// Adds the candidates to the next stored rows. Call `finish` after the last ones: only then is it known whether
    /// every row was matched.
    ///
    /// # Errors
    /// The candidates cannot belong to rows of this layout.
    pub fn apply(
        &mut self,
        layout: &LogLayout,
        mut rows: LogRows,
    ) -> Result<(LogLayout, LogRows), IngestError> {
        self.check_layout(layout)?;
        let from = self.stored;
        self.stored += rows.len() as u64;
        let places: Vec<Option<usize>> = (0..rows.len()).map(|i| self.place(from, i, &rows)).collect();
        let mut played: Vec<Vec<f64>> = vec![Vec::with_capacity(rows.len()); self.names.len()];
        let mut full: Vec<Vec<f64>> = vec![Vec::new(); self.full_names.len()];
        for (i, place) in places.into_iter().enumerate() {
            let k = self.n_actions.unwrap_or_else(|| rows.sets.size(i));
            let Some(at) = place else {
                // What a row without a counterpart gets does not matter: the file will be rejected.
                played.iter_mut().for_each(|to| to.push(0.0));
                full.iter_mut().for_each(|to| to.resize(to.len() + k, 0.0));
                continue;
            };
            self.used[at] = true;
            let sent = self.starts[at]..self.starts[at + 1];
            if !self.full_names.is_empty() && sent.len() != k {
                let message = format!("has {} numbers, but the row has {k} actions", sent.len());
                let field = format!("candidate_propensities.{}", self.full_names[0]);
                self.errors.add(RowError { row: self.numbers[at], field, message });
                played.iter_mut().for_each(|to| to.push(0.0));
                full.iter_mut().for_each(|to| to.resize(to.len() + k, 0.0));
                continue;
            }
            for (from, to) in self.full.iter().zip(&mut full) {
                to.extend_from_slice(&from[sent.clone()]);
            }
            for (j, (name, to)) in self.names.iter().zip(&mut played).enumerate() {
                match self.played_by(name, self.played[j][at], at, rows.actions[i]) {
                    Ok(value) => to.push(value),
                    Err(RowFault { field, message }) => {
                        self.errors.add(RowError { row: self.numbers[at], field, message });
                        to.push(0.0);
                    }
                }
            }
        }
        let mut layout = layout.clone();
        merge(&mut layout.candidates, &mut rows.candidates, &self.names, played);
        merge(&mut layout.candidate_propensities, &mut rows.candidate_full, &self.full_names, full);
        if !self.full_names.is_empty() {
            layout.candidate_full = Some(self.n_actions.unwrap_or(0));
        }
        Ok((layout, rows))
    }

    /// Ends the stored rows.
    ///
    /// # Errors
    /// Rows of the file or of the dataset have no counterpart, or contradict each other.
    pub fn finish(mut self) -> Result<(), IngestError> {
        let (sent, stored) = (self.numbers.len() as u64, self.stored);
        if self.ids.is_none() && sent != stored {
            return Err(IngestError::Unreadable(format!(
                "the file has {sent} rows, but the dataset has {stored}; send one row per row of the dataset, in the \
                 same order, or log event_id"
            )));
        }
        for (&row, _) in self.numbers.iter().zip(&self.used).filter(|(_, used)| !**used) {
            let message = "is not in the dataset; send only its rows".into();
            self.errors.add(RowError { row, field: "event_id".into(), message });
        }
        if !self.errors.is_empty() {
            return Err(IngestError::Rows(self.errors));
        }
        match self.missing {
            (0, _) => Ok(()),
            (n, id) => Err(IngestError::Unreadable(shortened(format!(
                "{n} rows of the dataset have no row in the file; the first has the event_id {:?}",
                id.unwrap_or_default()
            )))),
        }
    }

    fn check_layout(&self, layout: &LogLayout) -> Result<(), IngestError> {
        let fault = |field: String, message: String| {
            let mut errors = RowErrors::default();
            errors.add(RowError { row: self.numbers.first().copied().unwrap_or(1), field, message });
            Err(IngestError::Rows(errors))
        };
        if let Some(name) = self.names.iter().find(|name| layout.candidates.contains(name)) {
            let message = "the dataset has a candidate of this name; use another name".into();
            return fault(format!("candidates.{name}"), message);
        }
        let (old, new) = (layout.candidates.len(), self.names.len());
        if old + new > MAX_CANDIDATES {
            let message = format!(
                "has {new} candidates, and the dataset has {old}; the maximum is {MAX_CANDIDATES} together"
            );
            return fault("candidates".into(), message);
        }
        if self.ids.is_some() && !layout.event_ids {
            let message = "the rows of the dataset have no event_id; leave it out, and send one row per row of the \
                           dataset, in the same order";
            return fault("event_id".into(), message.into());
        }
        Ok(())
    }

    /// The row of the file for row `i` of a batch that starts after `from` stored rows.
    fn place(&mut self, from: u64, i: usize, rows: &LogRows) -> Option<usize> {
        let Some(ids) = &self.ids else {
            let at = usize::try_from(from).ok()?.checked_add(i)?;
            return (at < self.numbers.len()).then_some(at);
        };
        let id = rows.event_ids.get(i)?;
        let found = ids.find(mark(id));
        if found.is_none() {
            self.missing.0 += 1;
            self.missing.1.get_or_insert_with(|| id.clone());
        }
        found
    }

    /// π(a|x) of the logged action.
    fn played_by(&self, name: &str, stated: f64, at: usize, action: u32) -> Result<f64, RowFault> {
        let Some(position) = self.full_names.iter().position(|other| other == name) else {
            return Ok(stated);
        };
        let full = &self.full[position][self.starts[at]..self.starts[at + 1]];
        let given = check_candidate(name, full, action, Some(stated).filter(|p| !p.is_nan()))?;
        Ok(if stated.is_nan() { given } else { stated })
    }
}

/// Only ids and candidates are used, so anything else is a misunderstanding.
fn check_fields(row: &RawRow) -> Result<(), RowFault> {
    let others = [
        ("x", row.x.is_some() || row.named.is_some()),
        ("actions", row.set.is_some()),
        ("action", row.action.is_some()),
        ("propensity", row.propensity.is_some()),
        ("propensities", row.propensities.is_some()),
        ("cost", row.cost.is_some()),
        ("reward", row.reward.is_some()),
        ("outcomes", row.outcomes.is_some()),
        ("context_id", row.context_id.is_some()),
        ("timestamp", row.timestamp.is_some()),
        ("policy_version", row.policy_version.is_some()),
    ];
    match others.into_iter().find(|(_, present)| *present) {
        Some((field, _)) => Err(RowFault::new(
            field,
            "is stored already and cannot be changed; send only event_id, candidates and candidate_propensities",
        )),
        None => Ok(()),
    }
}

/// Merges named columns, by name.
fn merge(names: &mut Vec<String>, columns: &mut Vec<Vec<f64>>, more: &[String], added: Vec<Vec<f64>>) {
    let old = std::mem::take(names).into_iter().zip(std::mem::take(columns));
    let mut all: Vec<(String, Vec<f64>)> = old.chain(more.iter().cloned().zip(added)).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    (*names, *columns) = all.into_iter().unzip();
}

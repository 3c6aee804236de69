//! Rows in whole columns: what `Checker::accept` does, for many rows at once.

use std::ops::Range;

use super::Checker;
use crate::batch::LogRows;
use crate::errors::IngestError;
use crate::identity::Place;
use crate::plain_columns::PlainColumns;
use crate::sink::Sink;

impl Checker {
    /// Takes the next rows of the file. Returns false if it has taken none of them, because one of them may have to be
    /// rejected, or has another layout than the rows before.
    pub(crate) fn accept_columns(
        &mut self,
        mut columns: PlainColumns,
        sink: &mut dyn Sink,
    ) -> Result<bool, IngestError> {
        let n = columns.numbers.len();
        if n == 0 {
            return Ok(true);
        }
        let too_many = self.seen.saturating_add(n as u64) > self.rules.limits.rows;
        let early =
            self.not_before.is_some_and(|least| columns.rows.timestamps.iter().any(|&time| time < least));
        if too_many || early || self.has_errors() {
            return Ok(false);
        }
        let Some(cut) = columns.check(&self.rules, self.layout.as_ref()) else { return Ok(false) };
        if self.layout.is_none() {
            self.rules.check_first(&columns.layout)?;
            self.fix_layout(columns.layout.clone());
        }
        self.cut.add_only(cut);
        let mut from = 0;
        while from < n {
            let to = n.min(from + self.batch_rows.max(1) - self.numbers.len());
            self.append(&mut columns, from..to);
            self.check_identities()?;
            if self.numbers.len() >= self.batch_rows.max(1) {
                self.flush(sink)?;
            }
            from = to;
        }
        Ok(true)
    }

    /// Appends checked rows to the batch, except those whose ids occurred before.
    fn append(&mut self, columns: &mut PlainColumns, range: Range<usize>) {
        self.seen += range.len() as u64;
        if !columns.layout.event_ids {
            return self.append_all(columns, range);
        }
        let mut from = range.start;
        for i in range.clone() {
            let number = columns.numbers[i];
            if let Err(fault) = self.identities.event(&columns.rows.event_ids[i], Place::Row(number)) {
                self.append_all(columns, from..i);
                self.reject(number, fault);
                from = i + 1;
            }
        }
        self.append_all(columns, from..range.end);
    }

    fn append_all(&mut self, columns: &mut PlainColumns, range: Range<usize>) {
        let PlainColumns { numbers, layout, rows, .. } = columns;
        let (p, k) = (layout.dim, layout.full.unwrap_or(0));
        let LogRows { x, full, actions, costs, propensities, candidates, timestamps, .. } = &mut self.batch;
        let most = self.batch_rows.max(1);
        append(&mut self.numbers, numbers, &range, 1, most);
        append(x, &mut rows.x, &range, p, most);
        append(full, &mut rows.full, &range, k, most);
        append(actions, &mut rows.actions, &range, 1, most);
        append(costs, &mut rows.costs, &range, 1, most);
        append(propensities, &mut rows.propensities, &range, 1, most);
        append(timestamps, &mut rows.timestamps, &range, usize::from(layout.timestamps), most);
        candidates.resize_with(layout.candidates.len(), Vec::new);
        let columns = candidates.iter_mut().zip(&mut rows.candidates);
        columns.for_each(|(to, from)| append(to, from, &range, 1, most));
        let ids = [
            (layout.event_ids, &mut self.batch.event_ids, &mut rows.event_ids),
            (layout.versions, &mut self.batch.versions, &mut rows.versions),
        ];
        for (_, to, from) in ids.into_iter().filter(|(present, ..)| *present) {
            to.extend(from[range.clone()].iter_mut().map(std::mem::take));
        }
    }
}

/// Appends some rows of a column with `width` numbers each. A batch has at most so many rows. The rows of a whole batch are
/// moved there.
fn append<T: Copy>(to: &mut Vec<T>, from: &mut Vec<T>, rows: &Range<usize>, width: usize, most: usize) {
    let numbers = rows.start * width..rows.end * width;
    if to.is_empty() && rows.len() == most && numbers == (0..from.len()) {
        *to = std::mem::take(from);
        return;
    }
    if to.is_empty() {
        to.reserve_exact(most * width);
    }
    to.extend_from_slice(&from[numbers]);
}

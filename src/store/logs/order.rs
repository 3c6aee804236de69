//! The order of a log's rows, from a first pass over their times and context ids.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::StoredLog;
use super::decode::{texts_of, times_of};
use super::spool::{SpoolError, changed};
use guarantor_engine::control::Control;
use guarantor_engine::log::Period;
use guarantor_ingest::{LogRows, Marks, mark};

type Result<T> = std::result::Result<T, SpoolError>;

/// Where each row belongs.
pub struct Order {
    rows: u64,
    /// The position of each row in the order of arrival; `None` if it is that of the rows.
    arrivals: Option<Vec<u32>>,
    /// The contexts; `None` if each row is its own.
    contexts: Option<Contexts>,
    /// The earliest and the latest time, if rows have times.
    period: Option<Period>,
    /// The hash of all times.
    times: u64,
    hasher: RandomState,
}

/// The contexts of all rows.
struct Contexts {
    marks: Marks,
    /// The context of each row, by first appearance among the rows.
    of_rows: Vec<u32>,
    /// The number of each context by first appearance in the order of arrival.
    ordinals: Vec<u32>,
    /// The number of rows of each context, in that order.
    counts: Vec<u32>,
}

/// Where a row belongs.
#[derive(Clone, Copy)]
pub struct Place {
    /// Its position in the order of arrival.
    pub arrival: u64,
    /// The number of its context.
    pub ordinal: u64,
}

/// Compares the rows of the second pass with those of the first: only their digest is checked.
pub struct Comparison<'a> {
    order: &'a Order,
    times: Box<dyn Hasher + Send + 'a>,
    rows: u64,
}

impl Order {
    /// The order of the rows of a log.
    pub fn of(log: &StoredLog, control: &Control) -> Result<Self> {
        let hasher = RandomState::new();
        let mut hash = hasher.build_hasher();
        let (mut sorted, mut last, mut ids) = (true, i64::MIN, Ids::default());
        let mut period: Option<Period> = None;
        each_time(log, control, |time| {
            hash.write_i64(time);
            sorted &= last <= time;
            last = time;
            let so_far = period.unwrap_or(Period { first: time, last: time });
            period = Some(Period { first: so_far.first.min(time), last: so_far.last.max(time) });
        })?;
        for part in &log.parts {
            part.each_batch(Some(&["context_id"]), |batch| {
                control.check()?;
                texts_of(&batch, "context_id").into_iter().flatten().for_each(|id| ids.add(id));
                Ok::<(), SpoolError>(())
            })?;
        }
        let arrivals = if sorted { None } else { Some(arrivals(log, control)?) };
        let contexts = ids.contexts(arrivals.as_deref());
        Ok(Order { rows: log.dataset.content.rows, arrivals, contexts, period, times: hash.finish(), hasher })
    }

    /// Whether the rows are in the order of arrival.
    pub fn is_sorted(&self) -> bool {
        self.arrivals.is_none()
    }

    /// The earliest and the latest time, if rows have times.
    pub fn period(&self) -> Option<Period> {
        self.period
    }

    /// The number of contexts.
    pub fn contexts(&self) -> u64 {
        self.contexts.as_ref().map_or(self.rows, |contexts| contexts.counts.len() as u64)
    }

    /// The number of rows of each context, in the order of arrival.
    pub fn counts(&self) -> &[u32] {
        self.contexts.as_ref().map_or(&[], |contexts| &contexts.counts)
    }

    /// The position of a row in the order of arrival.
    ///
    /// # Errors
    /// If there are not so many rows.
    pub fn arrival(&self, row: usize) -> Result<u64> {
        match &self.arrivals {
            Some(arrivals) => arrivals.get(row).map(|&arrival| arrival.into()).ok_or_else(changed),
            None => Ok(row as u64),
        }
    }

    /// The numbers of the contexts of rows, before which there are so many.
    ///
    /// # Errors
    /// If they are not those of the first pass.
    pub fn ordinals(&self, before: u64, rows: &LogRows) -> Result<Vec<u64>> {
        let ordinal = |i: usize| match &self.contexts {
            Some(contexts) => contexts.of(before as usize + i, rows.context_ids.get(i)),
            None => self.arrival(before as usize + i),
        };
        (0..rows.len()).map(ordinal).collect()
    }

    /// Starts a second pass.
    pub fn compare(&self) -> Comparison<'_> {
        Comparison { order: self, times: Box::new(self.hasher.build_hasher()), rows: 0 }
    }
}

impl Comparison<'_> {
    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The places of the next rows.
    ///
    /// # Errors
    /// If they are not those of the first pass.
    pub fn places(&mut self, rows: &LogRows) -> Result<Vec<Place>> {
        let from = self.rows as usize;
        self.rows += rows.len() as u64;
        self.times(&rows.timestamps);
        let place = |i: usize| {
            let row = from + i;
            let arrival = self.order.arrival(row)?;
            let ordinal = match &self.order.contexts {
                Some(contexts) => contexts.of(row, rows.context_ids.get(i))?,
                None => arrival,
            };
            Ok(Place { arrival, ordinal })
        };
        (0..rows.len()).map(place).collect()
    }

    /// Adds the times of the next rows.
    pub fn times(&mut self, times: &[i64]) {
        times.iter().for_each(|&time| self.times.write_i64(time));
    }

    /// Ends the pass.
    ///
    /// # Errors
    /// If the times were not those of the first pass.
    pub fn finish(self) -> Result<u64> {
        if self.times.finish() == self.order.times { Ok(self.rows) } else { Err(changed()) }
    }
}

impl Contexts {
    /// The number of a row's context. The first pass read the ids before the digest was checked, so the
    /// second pass compares them with those that the digest covers.
    fn of(&self, row: usize, id: Option<&String>) -> Result<u64> {
        let place = *self.of_rows.get(row).ok_or_else(changed)? as usize;
        match id {
            Some(id) if self.marks.get(place) == Some(mark(id)) => Ok(self.ordinals[place].into()),
            _ => Err(changed()),
        }
    }
}

fn each_time(log: &StoredLog, control: &Control, mut visit: impl FnMut(i64)) -> Result<()> {
    for part in &log.parts {
        part.each_batch(Some(&["timestamp"]), |batch| {
            control.check()?;
            times_of(&batch).into_iter().flatten().for_each(|&time| visit(time));
            Ok::<(), SpoolError>(())
        })?;
    }
    Ok(())
}

/// The position of each row in the order of arrival. Few logs need it, so the times are read again for it.
fn arrivals(log: &StoredLog, control: &Control) -> Result<Vec<u32>> {
    let mut times = Vec::new();
    each_time(log, control, |time| times.push(time))?;
    let mut order: Vec<u32> = (0..times.len() as u32).collect();
    order.sort_by_key(|&row| times[row as usize]);
    let mut arrivals = vec![0; times.len()];
    (0..).zip(order).for_each(|(arrival, row): (u32, u32)| arrivals[row as usize] = arrival);
    Ok(arrivals)
}

/// The context ids so far.
#[derive(Default)]
struct Ids {
    marks: Marks,
    of_rows: Vec<u32>,
}

impl Ids {
    fn add(&mut self, id: &str) {
        let (place, _) = self.marks.place(mark(id));
        self.of_rows.push(place as u32);
    }

    fn contexts(self, arrivals: Option<&[u32]>) -> Option<Contexts> {
        if self.of_rows.is_empty() {
            return None;
        }
        let n = self.marks.count();
        // The first arrival of each context.
        let mut first = vec![u32::MAX; n];
        for (row, &place) in self.of_rows.iter().enumerate() {
            let arrival =
                arrivals.map_or(row as u32, |arrivals| arrivals.get(row).copied().unwrap_or(u32::MAX));
            first[place as usize] = first[place as usize].min(arrival);
        }
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_key(|&place| first[place as usize]);
        let (mut ordinals, mut counts) = (vec![0; n], vec![0; n]);
        (0..).zip(order).for_each(|(ordinal, place): (u32, u32)| ordinals[place as usize] = ordinal);
        self.of_rows.iter().for_each(|&place| counts[ordinals[place as usize] as usize] += 1);
        Some(Contexts { marks: self.marks, of_rows: self.of_rows, ordinals, counts })
    }
}

//! The rows of a stored log, decoded on all threads, one row group each, and put together in their order. A few groups
//! are in memory at a time, wherever the bytes are.

use parquet::arrow::ProjectionMask;
use rayon::prelude::*;

use super::part::{LogPart, PartIndex};
use super::{StoredLog, decode};
use crate::store::error::StoreError;
use guarantor_ingest::{LogDigest, LogLayout, LogRows};

/// How many groups each thread decodes before their digests are taken. Two, so that the threads end at about the same time,
/// whoever takes the digests.
const GROUPS: usize = 2;

/// A row group that is being decoded.
pub struct Group<'a> {
    part: &'a LogPart,
    index: &'a PartIndex,
    number: usize,
    /// The number of rows before it.
    pub first_row: u64,
    rows: u64,
    layout: &'a LogLayout,
    /// What the digest of the log is taken of; `None` if the columns without features are read and compared with their
    /// hashes instead.
    digested: Option<Vec<u8>>,
}

impl Group<'_> {
    /// Visits the rows, one batch at a time, with the number of rows before it.
    pub fn each<E: From<StoreError>>(
        &mut self,
        mut visit: impl FnMut(u64, LogRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let Group { part, layout, digested, .. } = self;
        let mut at = self.first_row;
        let checked = digested.is_none();
        let mut read = |batch| {
            let Some((found, rows)) = decode::rows_of(&batch) else {
                return Err(no_log(part).into());
            };
            if found != **layout {
                return Err(other_columns(part).into());
            }
            if let Some(digested) = digested {
                LogDigest::write(layout, &rows, digested);
            }
            let before = at;
            at += rows.len() as u64;
            visit(before, rows)
        };
        match checked {
            true => part.each_checked_batch_of(self.index, self.number, &mut read)?,
            false => part.each_batch_of(self.index, self.number, &ProjectionMask::all(), &mut read)?,
        }
        // The places of later rows follow from the index.
        match at == self.first_row + self.rows {
            true => Ok(()),
            false => Err(StoreError::damaged_blob(part.key(), "its index counts other rows").into()),
        }
    }
}

pub fn no_log(part: &LogPart) -> StoreError {
    StoreError::damaged_blob(part.key(), "its columns are not those of a log")
}

pub fn other_columns(part: &LogPart) -> StoreError {
    StoreError::damaged_blob(part.key(), "its columns differ from those of earlier rows")
}

impl StoredLog {
    /// The layout of the rows, from the first of them. If a sealed log is read without its features, the first rows are too,
    /// and the index says how many features there are.
    pub fn layout(&self) -> Result<Option<LogLayout>, StoreError> {
        let mut first = None;
        for part in &self.parts {
            let index = part.index()?;
            for number in 0..index.groups().count() {
                let mut look = |batch| {
                    let (layout, _) = decode::rows_of(&batch).ok_or_else(|| Stop::Failed(no_log(part)))?;
                    first = Some(match self.is_bare() {
                        true => LogLayout { dim: index.dim(), ..layout },
                        false => layout,
                    });
                    Err(Stop::Enough)
                };
                let found = match self.is_bare() {
                    true => part.each_checked_batch_of(&index, number, &mut look),
                    false => part.each_batch_of(&index, number, &ProjectionMask::all(), &mut look),
                };
                match found {
                    Ok(()) => {}
                    Err(Stop::Enough) => return Ok(first),
                    Err(Stop::Failed(error)) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    /// Decodes all row groups with `decode` on the current rayon pool, and passes the results to `take` in the order of
    /// the rows. They may be relied on only after this has returned, as in `each_batch`. If `bare`, rows have no features
    /// and `layout` has none either; the log must be sealed.
    pub fn each_group<T, E>(
        &self,
        layout: &LogLayout,
        bare: bool,
        decode: impl Fn(&mut Group) -> Result<T, E> + Sync,
        mut take: impl FnMut(T) -> Result<(), E> + Send,
    ) -> Result<(), E>
    where
        T: Send,
        E: From<StoreError> + Send,
    {
        let mut indices = Vec::new();
        for part in &self.parts {
            indices.push(part.index()?);
        }
        let mut groups = Vec::new();
        let mut first_row = 0;
        for (part, index) in self.parts.iter().zip(&indices) {
            for (number, rows) in index.groups().enumerate() {
                groups.push(Group { part, index, number, first_row, rows, layout, digested: None });
                first_row += rows;
            }
        }
        let mut digest = LogDigest::default();
        let mut take_all = |decoded: Vec<(T, Option<Vec<u8>>, u64)>| {
            let one = |(decoded, digested, rows): (T, Option<Vec<u8>>, u64)| {
                let mut digested = digested.unwrap_or_default();
                digest.add(&digested, rows);
                digested.clear();
                take(decoded).map(|()| digested)
            };
            decoded.into_iter().map(one).collect::<Result<Vec<_>, E>>()
        };
        let mut groups = groups.into_iter();
        // Memory that was used before costs less than new memory, which the system clears.
        let (mut ready, mut used) = (Vec::new(), Vec::new());
        loop {
            // While some groups are decoded, the digest of those before them is taken.
            let mut next: Vec<Group> = groups.by_ref().take(GROUPS * rayon::current_num_threads()).collect();
            next.iter_mut()
                .filter(|_| !bare)
                .for_each(|group| group.digested = Some(used.pop().unwrap_or_default()));
            let last = next.is_empty();
            let decode = |mut group: Group| {
                let decoded = decode(&mut group)?;
                Ok((decoded, group.digested, group.rows))
            };
            let (decoded, taken) = rayon::join(
                || next.into_par_iter().map(decode).collect::<Result<Vec<_>, E>>(),
                || take_all(std::mem::take(&mut ready)),
            );
            used = taken?;
            ready = decoded?;
            if last {
                break;
            }
        }
        // Bare rows were compared with hashes that the seal ties to the digest.
        if bare { Ok(self.check_seal()?) } else { Ok(self.check_digest(digest, layout)?) }
    }
}

/// Why reading ends before the end.
enum Stop {
    Enough,
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Stop::Failed(error)
    }
}

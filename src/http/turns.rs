//! Turns: requests that add to one dataset follow one another. Each must see the rows of the one before it, so two at
//! once could not both succeed.
//!
//! The line of a dataset is first come, first served. A request in it has an upload permit already, so the one whose
//! turn it is never waits for another one. A client that disconnects loses its place.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::store::DatasetId;

/// The lines of all datasets.
#[derive(Clone, Default)]
pub struct Turns {
    lines: Arc<Mutex<HashMap<DatasetId, Line>>>,
}

struct Line {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many requests are in the line, including the one whose turn it is.
    length: usize,
}

/// The line is too long.
#[derive(Debug, PartialEq, Eq)]
pub struct LineFull;

/// The turn of a request, until it is dropped.
pub struct Turn {
    // In this order: the next request has its turn, then this one leaves the line.
    _turn: OwnedMutexGuard<()>,
    _place: Place,
}

/// A place in the line of a dataset.
struct Place {
    turns: Turns,
    dataset: DatasetId,
}

impl Turns {
    /// Waits for the turn of the caller, in a line of at most `most`.
    ///
    /// # Errors
    /// If the line is full.
    pub async fn wait(&self, dataset: DatasetId, most: usize) -> Result<Turn, LineFull> {
        let (turn, place) = self.enter(dataset, most)?;
        Ok(Turn { _turn: turn.lock_owned().await, _place: place })
    }

    fn enter(
        &self,
        dataset: DatasetId,
        most: usize,
    ) -> Result<(Arc<tokio::sync::Mutex<()>>, Place), LineFull> {
        let mut lines = self.lines.lock();
        let line = lines.entry(dataset).or_insert_with(|| Line { turn: Arc::default(), length: 0 });
        if line.length >= most.max(1) {
            return Err(LineFull);
        }
        line.length += 1;
        Ok((line.turn.clone(), Place { turns: self.clone(), dataset }))
    }

    /// How many requests have their turn.
    pub fn running(&self) -> usize {
        self.lines.lock().len()
    }

    /// How many requests wait for their turn.
    pub fn waiting(&self) -> usize {
        self.lines.lock().values().map(|line| line.length.saturating_sub(1)).sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut line) = self.turns.lines.lock().entry(self.dataset) {
            line.get_mut().length -= 1;
            if line.get().length == 0 {
                line.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn turns_come_in_order_and_a_dropped_request_loses_its_place() {
        let (turns, dataset) = (Turns::default(), DatasetId::new());
        let first = turns.wait(dataset, 3).await.unwrap();
        let mut second = Box::pin(turns.wait(dataset, 3));
        let mut third = Box::pin(turns.wait(dataset, 3));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert_eq!(turns.waiting(), 2);
        assert_eq!(turns.wait(dataset, 3).await.err(), Some(LineFull));
        // Another dataset has its own line.
        drop(turns.wait(DatasetId::new(), 3).await.unwrap());
        drop(second);
        assert_eq!(turns.waiting(), 1);
        drop(first);
        drop(third.await.unwrap());
        assert!(turns.lines.lock().is_empty());
    }
}

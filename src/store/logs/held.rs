//! Chunks of a log in memory, without their features. They are lent as they are: nothing can change them, and copies and
//! hashes of what many passes read would take longer than what the passes compute.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::chunk_file::{Borrowed, Place, Read};

/// As many chunks as the log will have, each of which is written once, by any thread.
pub struct HeldChunks(Vec<OnceLock<Held>>);

/// The columns of one chunk of entries of their own.
struct Held {
    actions: Actions,
    costs: Vec<f64>,
    propensities: Vec<f64>,
    full: Vec<f64>,
    candidates: Vec<Vec<f64>>,
    candidate_full: Vec<Vec<f64>>,
    outcomes: Vec<Vec<f64>>,
    last: Vec<u8>,
    ordinals: Vec<u64>,
}

/// Few actions take one byte each.
enum Actions {
    Few(Vec<u8>),
    Many(Vec<u32>),
}

impl HeldChunks {
    /// Room for so many chunks.
    pub fn new(chunks: usize) -> Self {
        HeldChunks((0..chunks).map(|_| OnceLock::new()).collect())
    }

    /// Holds a chunk. One that was not expected has no rows at its place, so that the number of rows will be wrong.
    pub fn hold(&self, index: usize, columns: &Borrowed) -> Place {
        let held = self.0.get(index).is_some_and(|place| place.set(Held::new(columns)).is_ok());
        Place::in_memory(if held { columns.actions.len() } else { 0 })
    }

    /// A chunk, if it was written.
    pub fn read(&self, index: usize) -> Option<Read<'_>> {
        let held = self.0.get(index)?.get()?;
        Some(Read {
            x: Vec::new(),
            actions: match &held.actions {
                Actions::Few(actions) => actions.iter().map(|&action| u32::from(action)).collect(),
                Actions::Many(actions) => Cow::Borrowed(actions),
            },
            costs: Cow::Borrowed(&held.costs),
            propensities: Cow::Borrowed(&held.propensities),
            full: Cow::Borrowed(&held.full),
            candidates: lent(&held.candidates),
            candidate_full: lent(&held.candidate_full),
            outcomes: lent(&held.outcomes),
            last: Cow::Borrowed(&held.last),
            ordinals: Cow::Borrowed(&held.ordinals),
            ..Read::default()
        })
    }
}

impl Held {
    fn new(columns: &Borrowed) -> Held {
        let copied = |lists: &[&[f64]]| lists.iter().map(|list| list.to_vec()).collect();
        Held {
            actions: match columns.actions.iter().all(|&action| action <= u32::from(u8::MAX)) {
                true => Actions::Few(columns.actions.iter().map(|&action| action as u8).collect()),
                false => Actions::Many(columns.actions.to_vec()),
            },
            costs: columns.costs.to_vec(),
            propensities: columns.propensities.to_vec(),
            full: columns.full.to_vec(),
            candidates: copied(&columns.candidates),
            candidate_full: copied(&columns.candidate_full),
            outcomes: copied(&columns.outcomes),
            last: columns.last.to_vec(),
            ordinals: columns.ordinals.to_vec(),
        }
    }
}

fn lent(lists: &[Vec<f64>]) -> Vec<Cow<'_, [f64]>> {
    lists.iter().map(|list| Cow::Borrowed(&list[..])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_read_as_they_were_held_and_only_once() {
        for many in [2, 70_000] {
            let columns = Borrowed {
                actions: &[0, many],
                costs: &[-1.0, 0.0],
                propensities: &[0.5, 0.25],
                full: &[0.5, 0.25, 0.25, 0.625, 0.25, 0.125],
                candidates: vec![&[0.1, 0.2]],
                candidate_full: vec![&[0.4, 0.3, 0.3, 0.25, 0.5, 0.25]],
                outcomes: vec![&[-0.25, -0.75]],
                last: &[0, 1],
                ordinals: &[7, 9],
                ..Borrowed::default()
            };
            let chunks = HeldChunks::new(2);
            assert!(chunks.read(1).is_none());
            assert_eq!(chunks.hold(1, &columns).rows(), 2);
            let read = chunks.read(1).unwrap();
            assert_eq!((&*read.actions, &*read.costs), (columns.actions, columns.costs));
            assert_eq!((&*read.propensities, &*read.full), (columns.propensities, columns.full));
            assert_eq!(
                (&*read.candidates[0], &*read.outcomes[0]),
                (columns.candidates[0], columns.outcomes[0])
            );
            assert_eq!(&*read.candidate_full[0], columns.candidate_full[0]);
            assert_eq!((&*read.last, &*read.ordinals), (columns.last, columns.ordinals));
            // Twice, and beyond the end.
            assert_eq!((chunks.hold(1, &columns).rows(), chunks.hold(2, &columns).rows()), (0, 0));
            assert!(chunks.read(0).is_none() && chunks.read(2).is_none());
        }
    }
}

//! Which events and contexts were seen, and with what: about 32 bytes an event, and a context 48 and its π0.

use super::row::Fault;
use crate::marks::{Mark, Marks, mark};
use guarantor_engine::log::agree;

const EVENT_BYTES: u64 = 32;
/// Without its π0.
const CONTEXT_BYTES: u64 = 48;

/// Where something was first seen: a row of the file, or the version before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    Row(u64),
    Stored,
}

impl Place {
    fn words(self) -> String {
        match self {
            Place::Row(row) => format!("row {row}"),
            Place::Stored => "a row of an earlier version".into(),
        }
    }
}

#[derive(Default)]
pub struct Identities {
    events: Marks,
    event_places: Places,
    contexts: Marks,
    context_places: Places,
    /// The features of each context.
    x: Vec<Mark>,
    /// π0(·|x) of each context's first row, one after the other: later ones may differ by rounding,
    /// so a mark would not do.
    full: Vec<f64>,
}

/// The row of each mark, by its number; 0 for one of an earlier version.
#[derive(Default)]
struct Places(Vec<u64>);

impl Places {
    fn push(&mut self, place: Place) {
        self.0.push(match place {
            Place::Row(row) => row,
            Place::Stored => 0,
        });
    }

    fn get(&self, number: usize) -> Place {
        match self.0.get(number) {
            Some(&row) if row > 0 => Place::Row(row),
            _ => Place::Stored,
        }
    }
}

impl Identities {
    pub fn event(&mut self, id: &str, place: Place) -> Result<(), Fault> {
        let (number, new) = self.events.place(mark(id));
        if new {
            self.event_places.push(place);
            return Ok(());
        }
        let first = self.event_places.get(number).words();
        Err(Fault::new("event_id", format!("{id:?} is that of {first} too")))
    }

    /// Rows of one context must have the same features and, π0 being a function of them, the same π0.
    pub fn context(&mut self, id: &str, place: Place, x: &[f32], full: &[f64]) -> Result<(), Fault> {
        let bytes: Vec<u8> = x.iter().flat_map(|value| (value + 0.0).to_le_bytes()).collect();
        let x = mark(bytes);
        let (number, new) = self.contexts.place(mark(id));
        if new {
            self.context_places.push(place);
            self.x.push(x);
            self.full.extend_from_slice(full);
            return Ok(());
        }
        let differs = |field: &str| {
            let first = self.context_places.get(number).words();
            Err(Fault::new(field, format!("differs from {first}, which has the same context_id")))
        };
        if self.x.get(number) != Some(&x) {
            return differs("x");
        }
        let first = self.full.get(number * full.len()..(number + 1) * full.len()).unwrap_or_default();
        if !agree(full, first) {
            return differs("propensities");
        }
        Ok(())
    }

    /// The memory that it takes, about.
    pub fn bytes(&self) -> u64 {
        let (events, contexts) = (self.events.count() as u64, self.contexts.count() as u64);
        EVENT_BYTES * events + CONTEXT_BYTES * contexts + 8 * self.full.len() as u64
    }

    pub fn contexts(&self) -> u64 {
        self.contexts.count() as u64
    }
}

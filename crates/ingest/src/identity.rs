//! Which events and contexts were seen, with their features and propensities. This takes about 32 bytes per
//! event, and 48 bytes per context; if repetitions were designed, 64 + 8·K, or 64 without π0(·|x).

use guarantor_engine::log::agree;

use crate::files::place_of;
use crate::marks::{Mark, Marks, mark};
use crate::row::RowFault;

const EVENT_BYTES: u64 = 32;
/// Without the first row and π0(·|x).
const CONTEXT_BYTES: u64 = 48;
const FIRST_BYTES: u64 = 16;

/// Where something was first seen: in the row with this number (`files.rs`), or in an earlier version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    Row(u64),
    Stored,
}

impl Place {
    /// The place, as seen from a row at `here`.
    fn describe(self, here: Place) -> String {
        let file_of = |place| match place {
            Place::Row(number) => place_of(number).0,
            Place::Stored => 0,
        };
        match self {
            Place::Row(number) if file_of(self) == file_of(here) => format!("row {}", place_of(number).1),
            Place::Row(number) => format!("row {} of file {}", place_of(number).1, file_of(self) + 1),
            Place::Stored => "an earlier version of the dataset".into(),
        }
    }
}

/// The row of a context so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interaction {
    /// How often the context was seen, this row included. If repetitions are decisions, every row after the first
    /// is number 2.
    pub number: u32,
    /// The action of the context's first row; 0 if repetitions are decisions.
    pub first_action: u32,
    /// Its propensity; NaN if the logging policy supplies it, or if repetitions are decisions.
    pub first_propensity: f64,
}

impl Interaction {
    /// Whether the row is the first of its context.
    pub fn is_first(&self) -> bool {
        self.number == 1
    }
}

/// The events and contexts that were seen.
#[derive(Default)]
pub struct Identities {
    events: Marks,
    event_places: Places,
    contexts: Marks,
    context_places: Places,
    /// The features of each context.
    x: Vec<Mark>,
    /// π0(·|x) of each context's first row, one after the other. A mark is not enough, because later rows may
    /// differ by rounding.
    full: Vec<f64>,
    /// The number of rows of each context, and the action and the propensity of its first row.
    first: Vec<Interaction>,
}

/// The row of each mark, by the number of the mark; 0 for a row of an earlier version.
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
    /// Checks that an `event_id` is new.
    pub fn event(&mut self, id: &str, place: Place) -> Result<(), RowFault> {
        let (number, new) = self.events.place(mark(id));
        if new {
            self.event_places.push(place);
            return Ok(());
        }
        let first = self.event_places.get(number).describe(place);
        Err(RowFault::new("event_id", format!("duplicate event_id {id:?} (first seen in {first})")))
    }

    /// Remembers a context whose rows are decisions.
    pub fn see_context(&mut self, id: &str) -> Interaction {
        let new = self.contexts.place(mark(id)).1;
        Interaction { number: if new { 1 } else { 2 }, first_action: 0, first_propensity: f64::NAN }
    }

    /// Checks that rows of one context have the same features and therefore, because π0 is a function of
    /// them, the same π0(·|x).
    pub fn context(
        &mut self,
        id: &str,
        place: Place,
        (x, full): (&[f32], &[f64]),
        (action, propensity): (u32, f64),
    ) -> Result<Interaction, RowFault> {
        let bytes: Vec<u8> = x.iter().flat_map(|value| (value + 0.0).to_le_bytes()).collect();
        let x = mark(bytes);
        let (number, new) = self.contexts.place(mark(id));
        if new {
            self.context_places.push(place);
            self.x.push(x);
            self.full.extend_from_slice(full);
            let first = Interaction { number: 1, first_action: action, first_propensity: propensity };
            self.first.push(first);
            return Ok(first);
        }
        let differs = |field: &str| {
            let first = self.context_places.get(number).describe(place);
            let message = format!(
                "differs from {first}, which has the same context_id; rows of one context must agree"
            );
            Err(RowFault::new(field, message))
        };
        if self.x.get(number) != Some(&x) {
            return differs("x");
        }
        let first = self.full.get(number * full.len()..(number + 1) * full.len()).unwrap_or_default();
        if !agree(full, first) {
            return differs("propensities");
        }
        // Every context of this kind of log has a first row.
        let Some(first) = self.first.get_mut(number) else { return differs("context_id") };
        first.number = first.number.saturating_add(1);
        Ok(*first)
    }

    /// The approximate memory use in bytes.
    pub fn bytes(&self) -> u64 {
        let (events, contexts) = (self.events.count() as u64, self.contexts.count() as u64);
        EVENT_BYTES * events
            + CONTEXT_BYTES * contexts
            + 8 * self.full.len() as u64
            + FIRST_BYTES * self.first.len() as u64
    }

    /// The number of contexts.
    pub fn contexts(&self) -> u64 {
        self.contexts.count() as u64
    }
}

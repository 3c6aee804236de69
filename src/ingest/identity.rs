//! Which events and contexts were seen. Texts are kept as 128 bits of their SHA-256, so that memory
//! does not grow with their length and nobody can make two of them meet.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::row::Fault;

type Mark = [u8; 16];

fn mark(bytes: impl AsRef<[u8]>) -> Mark {
    let hash = Sha256::digest(bytes.as_ref());
    std::array::from_fn(|i| hash[i])
}

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

struct Context {
    place: Place,
    x: Mark,
    /// π0(·|x) of the first row: later ones may differ by rounding, so a mark would not do.
    full: Vec<f64>,
}

#[derive(Default)]
pub struct Identities {
    events: HashMap<Mark, Place>,
    contexts: HashMap<Mark, Context>,
}

impl Identities {
    pub fn event(&mut self, id: &str, place: Place) -> Result<(), Fault> {
        if let Some(first) = self.events.insert(mark(id), place) {
            self.events.insert(mark(id), first);
            return Err(Fault::new("event_id", format!("{id:?} is that of {} too", first.words())));
        }
        Ok(())
    }

    /// Rows of one context must have the same features and, π0 being a function of them, the same π0.
    pub fn context(
        &mut self,
        id: &str,
        place: Place,
        x: &[f32],
        full: &[f64],
        tolerance: f64,
    ) -> Result<(), Fault> {
        let bytes: Vec<u8> = x.iter().flat_map(|value| (value + 0.0).to_le_bytes()).collect();
        let x = mark(bytes);
        let Some(first) = self.contexts.get(&mark(id)) else {
            self.contexts.insert(mark(id), Context { place, x, full: full.to_vec() });
            return Ok(());
        };
        let differs = |field: &str| {
            let message = format!("differs from {}, which has the same context_id", first.place.words());
            Err(Fault::new(field, message))
        };
        if x != first.x {
            return differs("x");
        }
        let agree = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * a.max(*b);
        if !full.iter().zip(&first.full).all(agree) {
            return differs("propensities");
        }
        Ok(())
    }

    pub fn contexts(&self) -> u64 {
        self.contexts.len() as u64
    }
}

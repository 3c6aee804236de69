//! Which texts were seen, numbered by first appearance. A text is kept as 128 bits of its SHA-256, so
//! that memory does not grow with its length and nobody can make two of them meet: 16 bytes and a slot
//! of 4 for each, about half of the slots taken.

use std::hash::{BuildHasher, RandomState};

use sha2::{Digest, Sha256};

pub type Mark = u128;

pub fn mark(bytes: impl AsRef<[u8]>) -> Mark {
    let hash = Sha256::digest(bytes.as_ref());
    Mark::from_le_bytes(std::array::from_fn(|i| hash[i]))
}

/// More marks than rows can be: a log has at most 2³⁰.
const EMPTY: u32 = u32::MAX;

pub struct Marks {
    marks: Vec<Mark>,
    /// Open addressing: the number of the mark that is there, or `EMPTY`. A power of two of them.
    slots: Vec<u32>,
    /// Random, so that nobody can choose texts that fall into one slot.
    keys: [u64; 2],
}

impl Default for Marks {
    fn default() -> Self {
        let random = RandomState::new();
        Marks { marks: Vec::new(), slots: vec![EMPTY; 64], keys: [0, 1].map(|i| random.hash_one(i) | 1) }
    }
}

impl Marks {
    /// The number of a mark, and whether it was not there before.
    pub fn place(&mut self, mark: Mark) -> (usize, bool) {
        if 4 * (self.marks.len() + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let slot = self.slot(mark);
        match self.slots[slot] {
            EMPTY => {
                self.slots[slot] = self.marks.len() as u32;
                self.marks.push(mark);
                (self.marks.len() - 1, true)
            }
            place => (place as usize, false),
        }
    }

    pub fn get(&self, place: usize) -> Option<Mark> {
        self.marks.get(place).copied()
    }

    pub fn count(&self) -> usize {
        self.marks.len()
    }

    /// The slot that has the mark, or the one where it belongs.
    fn slot(&self, mark: Mark) -> usize {
        let mixed =
            (mark as u64).wrapping_mul(self.keys[0]) ^ ((mark >> 64) as u64).wrapping_mul(self.keys[1]);
        let last = self.slots.len() - 1;
        let mut slot = (mixed >> 20) as usize & last;
        loop {
            match self.slots[slot] {
                EMPTY => return slot,
                place if self.marks[place as usize] == mark => return slot,
                _ => slot = (slot + 1) & last,
            }
        }
    }

    fn grow(&mut self) {
        self.slots = vec![EMPTY; 2 * self.slots.len()];
        for place in 0..self.marks.len() {
            let slot = self.slot(self.marks[place]);
            self.slots[slot] = place as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_numbered_by_first_appearance() {
        let mut marks = Marks::default();
        for round in 0..2 {
            for i in 0..10_000 {
                assert_eq!(marks.place(mark(format!("id {i}"))), (i, round == 0));
            }
        }
        assert_eq!(marks.count(), 10_000);
        assert_eq!((marks.get(7), marks.get(10_000)), (Some(mark("id 7")), None));
    }
}

//! The set of texts seen so far, numbered by first appearance.
//!
//! A text is kept as a mark, 128 bits of its SHA-256, so memory does not grow with the length of the texts
//! and nobody can construct two texts with the same mark. A mark takes 16 bytes plus a slot of 4 bytes and a
//! control byte in a hash table of which 7/16 to 7/8 is in use: 22 to 28 bytes, and for a moment more while
//! the table or the list of marks grows.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sha2::{Digest, Sha256};

/// 128 bits of the SHA-256 of a text.
pub type Mark = u128;

/// The mark of a text.
pub fn mark(bytes: impl AsRef<[u8]>) -> Mark {
    let hash = Sha256::digest(bytes.as_ref());
    Mark::from_le_bytes(std::array::from_fn(|i| hash[i]))
}

/// Marks numbered by first appearance.
#[derive(Default)]
pub struct Marks {
    marks: Vec<Mark>,
    /// The numbers of the marks, found by their hash. They fit into 4 bytes because a log has at most 2³⁰
    /// rows.
    numbers: HashTable<u32>,
    /// Has a random key, so nobody can choose texts that end up in one slot.
    hasher: RandomState,
}

impl Marks {
    /// The number of a mark, and whether the mark is new.
    pub fn place(&mut self, mark: Mark) -> (usize, bool) {
        let Marks { marks, numbers, hasher } = self;
        let hash = hasher.hash_one(mark);
        let entry = numbers.entry(
            hash,
            |&number| marks[number as usize] == mark,
            |&number| hasher.hash_one(marks[number as usize]),
        );
        match entry {
            Entry::Occupied(found) => (*found.get() as usize, false),
            Entry::Vacant(free) => {
                let number = marks.len();
                free.insert(number as u32);
                marks.push(mark);
                (number, true)
            }
        }
    }

    /// The number of a mark that was seen.
    pub fn find(&self, mark: Mark) -> Option<usize> {
        let found =
            self.numbers.find(self.hasher.hash_one(mark), |&number| self.marks[number as usize] == mark);
        found.map(|&number| number as usize)
    }

    /// The mark with this number.
    pub fn get(&self, number: usize) -> Option<Mark> {
        self.marks.get(number).copied()
    }

    /// How many marks there are.
    pub fn count(&self) -> usize {
        self.marks.len()
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

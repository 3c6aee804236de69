//! The blocks of rows that were seen, by their hashes.

use super::{BASE, MAX_BLOCKS};

/// There are at least so many bits of `marks` for each block. With more of them, fewer windows are searched for in vain. With
/// fewer, more of the words stay in the processor's caches, and each row looks one up.
const BITS: usize = 6;
/// There are at least so many slots for each block.
const SLOTS: usize = 2;

/// Hashes of blocks, in their order.
#[derive(Default)]
pub struct Seen {
    blocks: Vec<u64>,
    /// A power of 2 of places, each for the number of a block plus 1, or 0. A block is at the place that its hash says, or at
    /// the first free one after it. Of equal blocks only the first is there.
    slots: Vec<u32>,
    /// Words with three bits for each block: nearly all windows are new, and a word is found sooner than a slot.
    marks: Vec<u64>,
}

impl Seen {
    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// How many more blocks are kept.
    pub fn room(&self) -> usize {
        MAX_BLOCKS - self.blocks.len()
    }

    /// The hash of a block.
    pub fn hash(&self, number: usize) -> Option<u64> {
        self.blocks.get(number).copied()
    }

    /// Whether there may be a block with this hash.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        let spread = spread(hash);
        let bits = bits(spread);
        let word = self.marks.get(place(spread, self.marks.len())).copied().unwrap_or(0);
        word & bits == bits
    }

    /// The first block with this hash.
    pub fn find(&self, hash: u64) -> Option<usize> {
        if self.slots.is_empty() || !self.may_have(hash) {
            return None;
        }
        self.search(hash).ok()
    }

    /// The number of the block with this hash, or the slot where it would be. Half of the slots are free.
    fn search(&self, hash: u64) -> Result<usize, usize> {
        let mut at = place(spread(hash), self.slots.len());
        loop {
            match self.slots[at] as usize {
                0 => return Err(at),
                number if self.blocks[number - 1] == hash => return Ok(number - 1),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Makes room for more blocks.
    pub fn reserve(&mut self, more: usize) {
        let blocks = self.blocks.len() + more;
        if BITS * blocks > 64 * self.marks.len() {
            self.marks = vec![0; (BITS * blocks).div_ceil(64).next_power_of_two().max(1 << 8)];
            self.blocks.iter().for_each(|&hash| mark(&mut self.marks, hash));
        }
        if SLOTS * blocks > self.slots.len() {
            self.slots = vec![0; (SLOTS * blocks).next_power_of_two().max(1 << 10)];
            for number in 0..self.blocks.len() {
                if let Err(free) = self.search(self.blocks[number]) {
                    self.slots[free] = number as u32 + 1;
                }
            }
        }
    }

    /// Notes that there may be a block with this hash, which is kept later. There must be room for it.
    pub fn mark(&mut self, hash: u64) {
        mark(&mut self.marks, hash);
    }

    /// Keeps a block, if there is room for it.
    pub fn keep(&mut self, hash: u64) {
        match self.find(hash) {
            Some(_) if self.room() > 0 => self.blocks.push(hash),
            Some(_) => {}
            None => self.keep_new(hash),
        }
    }

    /// Keeps a block that is unlike all others, if there is room for it.
    pub fn keep_new(&mut self, hash: u64) {
        if self.room() == 0 {
            return;
        }
        self.reserve(1);
        let mut at = place(spread(hash), self.slots.len());
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.blocks.push(hash);
        self.slots[at] = self.blocks.len() as u32;
        self.mark(hash);
    }
}

/// Where a block is, in a power of 2 of places.
fn place(spread: u64, places: usize) -> usize {
    (spread >> 32) as usize & places.wrapping_sub(1)
}

/// Three of the bits of a word.
fn bits(spread: u64) -> u64 {
    [8, 14, 20].into_iter().fold(0, |bits, from| bits | 1 << (spread >> from & 63))
}

fn mark(marks: &mut [u64], hash: u64) {
    let spread = spread(hash);
    let at = place(spread, marks.len());
    marks[at] |= bits(spread);
}

/// Blocks are hashes already, of which some bits choose the places.
fn spread(hash: u64) -> u64 {
    (hash ^ (hash >> 32)).wrapping_mul(BASE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_first_of_equal_blocks_is_found() {
        let (mut seen, mut first) = (Seen::default(), HashMap::new());
        assert_eq!(seen.find(0), None);
        let mut hash = 1u64;
        for number in 0..5000usize {
            hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Some again, some with the same place, and 0.
            let hash = match number % 7 {
                0 => hash >> 58,
                1 => hash << 60,
                _ => hash,
            };
            assert_eq!(seen.find(hash), first.get(&hash).copied());
            seen.keep(hash);
            first.entry(hash).or_insert(number);
            assert_eq!(seen.find(hash), first.get(&hash).copied());
        }
        assert_eq!(seen.len(), 5000);
        assert!(first.iter().all(|(&hash, &number)| seen.find(hash) == Some(number)));
        assert!(seen.slots.len() >= 2 * seen.len() && 64 * seen.marks.len() >= BITS * seen.len());
    }
}

//! A log as at most 20 slices of rows in order of arrival. Slices grow as rows arrive, and where they begin
//! depends on numbers of rows only: the exact test of `drift` needs that nothing in the rows decides it.

use crate::numerics::sum::Sum;

/// The largest number of slices.
pub(super) const SLICES: usize = 20;
/// The size of the first slices.
pub(super) const FIRST_UNIT: u64 = 16;
/// Actions from this one on are not counted.
const COUNTED: usize = 1000;

/// The sums of consecutive rows.
#[derive(Default, Clone)]
pub(super) struct Slice {
    pub rows: u64,
    pub cost: Sum,
    pub propensity: Sum,
    /// How often each action was logged.
    pub counts: Vec<u64>,
}

impl Slice {
    pub fn add(&mut self, action: usize, cost: f64, propensity: f64) {
        self.rows += 1;
        self.cost.add(cost);
        self.propensity.add(propensity);
        if action < COUNTED {
            self.grow(action + 1);
            self.counts[action] += 1;
        }
    }

    fn count(&mut self, actions: &[u32]) {
        let counted = |action: &&u32| (**action as usize) < COUNTED;
        self.grow(actions.iter().filter(counted).fold(0, |k, &action| k.max(action as usize + 1)));
        for &action in actions {
            if let Some(count) = self.counts.get_mut(action as usize) {
                *count += 1;
            }
        }
    }

    pub fn absorb(&mut self, later: &Slice) {
        self.rows += later.rows;
        self.cost.merge(&later.cost);
        self.propensity.merge(&later.propensity);
        self.grow(later.counts.len());
        self.counts.iter_mut().zip(&later.counts).for_each(|(mine, theirs)| *mine += theirs);
    }

    fn grow(&mut self, k: usize) {
        if self.counts.len() < k {
            self.counts.resize(k, 0);
        }
    }
}

/// The spread of a number over all rows.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    pub squares: Sum,
    pub least: f64,
    pub most: f64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { squares: Sum::default(), least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Spread {
    pub fn add(&mut self, value: f64) {
        self.squares.add(value * value);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    fn merge(&mut self, other: &Spread) {
        self.squares.merge(&other.squares);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }
}

/// The slices of a log.
#[derive(Clone)]
pub(super) struct Slices {
    pub slices: Vec<Slice>,
    /// Slices are not joined beyond this size.
    pub unit: u64,
    pub cost: Spread,
    pub propensity: Spread,
}

impl Default for Slices {
    fn default() -> Slices {
        let (cost, propensity) = (Spread::default(), Spread::default());
        Slices { slices: Vec::new(), unit: FIRST_UNIT, cost, propensity }
    }
}

impl Slices {
    pub fn add(&mut self, action: usize, cost: f64, propensity: f64) {
        self.make_room();
        let Some(slice) = self.slices.last_mut() else { return };
        slice.add(action, cost, propensity);
        self.cost.add(cost);
        self.propensity.add(propensity);
    }

    /// The same for each of some rows in order.
    pub fn add_all(&mut self, actions: &[u32], costs: &[f64], propensities: &[f64]) {
        let mut at = 0;
        while at < actions.len() {
            self.make_room();
            let Some(slice) = self.slices.last_mut() else { return };
            let room = usize::try_from(self.unit - slice.rows).unwrap_or(usize::MAX);
            let range = at..actions.len().min(at.saturating_add(room));
            at = range.end;
            // Copies stay in registers.
            let (mut cost, mut propensity) = (self.cost, self.propensity);
            let (mut sum, mut of_propensities) = (slice.cost, slice.propensity);
            for (&value, &p) in costs[range.clone()].iter().zip(&propensities[range.clone()]) {
                sum.add(value);
                of_propensities.add(p);
                cost.add(value);
                propensity.add(p);
            }
            (self.cost, self.propensity) = (cost, propensity);
            (slice.cost, slice.propensity) = (sum, of_propensities);
            slice.rows += range.len() as u64;
            slice.count(&actions[range]);
        }
    }

    /// Makes sure that the last slice has room for a row.
    fn make_room(&mut self) {
        if self.slices.last().is_none_or(|slice| slice.rows >= self.unit) {
            if self.slices.len() >= SLICES {
                self.unit *= 2;
                self.join();
            }
            // Joined slices can be smaller than the new unit. Then the last one goes on.
            if self.slices.last().is_none_or(|slice| slice.rows >= self.unit) {
                self.slices.push(Slice::default());
            }
        }
    }

    /// Adds the slices of later rows.
    pub fn merge(&mut self, other: Slices) {
        self.unit = self.unit.max(other.unit);
        self.slices.extend(other.slices);
        self.cost.merge(&other.cost);
        self.propensity.merge(&other.propensity);
        self.join();
        while self.slices.len() > SLICES {
            self.unit *= 2;
            self.join();
        }
    }

    /// Joins neighbors while they fit into one unit.
    fn join(&mut self) {
        let mut joined: Vec<Slice> = Vec::with_capacity(self.slices.len());
        for slice in self.slices.drain(..) {
            match joined.last_mut() {
                Some(last) if last.rows + slice.rows <= self.unit => last.absorb(&slice),
                _ => joined.push(slice),
            }
        }
        self.slices = joined;
    }

    pub fn rows(&self) -> u64 {
        self.slices.iter().map(|slice| slice.rows).sum()
    }

    /// The counts of all rows.
    pub fn counts(&self) -> Vec<u64> {
        let mut all = Slice::default();
        self.slices.iter().for_each(|slice| all.absorb(slice));
        all.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_few_and_in_order() {
        let mut parts: Vec<Slices> = Vec::new();
        let mut whole = Slices::default();
        let mut row = 0;
        for size in [1, 5000, 17, 1024, 1024, 1024, 3, 40_000, 0, 999] {
            let mut part = Slices::default();
            for _ in 0..size {
                let (action, cost) = (row % 7, -((row % 11) as f64) / 16.0);
                whole.add(action, cost, 0.25);
                part.add(action, cost, 0.25);
                row += 1;
            }
            assert!(part.slices.len() <= SLICES);
            parts.push(part);
        }
        let mut merged = Slices::default();
        parts.into_iter().for_each(|part| merged.merge(part));
        for slices in [&whole, &merged] {
            assert!((5..=SLICES).contains(&slices.slices.len()), "{}", slices.slices.len());
            assert_eq!(slices.rows(), row as u64);
            assert_eq!(slices.counts(), whole.counts());
            // Row numbers are recovered from the costs: each slice continues where the last one ended.
            let mut first = 0;
            for slice in &slices.slices {
                let want: f64 = (first..first + slice.rows).map(|row| -((row % 11) as f64) / 16.0).sum();
                assert_eq!(slice.cost.value(), want);
                first += slice.rows;
            }
        }
        let largest = |s: &Slices| s.slices.iter().map(|slice| slice.rows).max();
        assert_eq!(largest(&whole), Some(4096));
    }
}

//! Slices by time, for rows that arrive in another order than that of their times. Which rows share a slice
//! depends on times only: given the times, the rows of one fixed policy are exchangeable.

use std::collections::BTreeMap;

use super::slices::{FIRST_UNIT, SLICES, Slice, Slices, Spread};

/// Intervals are joined if there are twice as many.
const INTERVALS: usize = 256;

/// The sums of rows over intervals of time that do not overlap, in memory that does not grow with the rows. An
/// interval holds about 1/128 of the rows when it is joined. It can grow beyond that if rows of several periods arrive
/// in turn, because it is never split; there are then fewer slices, and drift is seen less sharply.
#[derive(Default)]
pub struct TimedSlices {
    /// By the latest time of each interval.
    intervals: BTreeMap<i64, Interval>,
    rows: u64,
    cost: Spread,
    propensity: Spread,
}

struct Interval {
    /// The earliest time.
    from: i64,
    slice: Slice,
}

impl TimedSlices {
    /// Adds a row with the cost and the propensity of its action.
    pub fn add(&mut self, time: i64, action: u32, cost: f64, propensity: f64) {
        self.rows += 1;
        self.cost.add(cost);
        self.propensity.add(propensity);
        let next = self.intervals.range_mut(time..).next().map(|(_, interval)| interval);
        match next.filter(|interval| interval.from <= time) {
            Some(interval) => interval.slice.add(action as usize, cost, propensity),
            None => {
                let mut slice = Slice::default();
                slice.add(action as usize, cost, propensity);
                self.intervals.insert(time, Interval { from: time, slice });
            }
        }
        if self.intervals.len() >= 2 * INTERVALS {
            self.join();
        }
    }

    /// Joins neighbors while they hold few of the rows. At most `INTERVALS` + 1 remain, because two neighbors hold
    /// more than `most` together.
    fn join(&mut self) {
        let most = 2 * self.rows.div_ceil(INTERVALS as u64);
        let mut joined: Vec<(i64, Interval)> = Vec::with_capacity(self.intervals.len());
        for (to, interval) in std::mem::take(&mut self.intervals) {
            match joined.last_mut() {
                Some((last_to, last)) if last.slice.rows + interval.slice.rows <= most => {
                    last.slice.absorb(&interval.slice);
                    *last_to = to;
                }
                _ => joined.push((to, interval)),
            }
        }
        self.intervals = joined.into_iter().collect();
    }

    /// At most 20 slices of about as many rows each.
    pub(super) fn finish(self) -> Slices {
        let count = (self.rows / FIRST_UNIT).clamp(1, SLICES as u64);
        let (mut slices, mut before, mut last) = (Vec::<Slice>::new(), 0, 0);
        for interval in self.intervals.into_values() {
            let number = before * count / self.rows;
            before += interval.slice.rows;
            match slices.last_mut() {
                Some(slice) if number == last => slice.absorb(&interval.slice),
                _ => slices.push(interval.slice),
            }
            last = number;
        }
        let unit = slices.iter().map(|slice| slice.rows).fold(FIRST_UNIT, u64::max);
        Slices { slices, unit, cost: self.cost, propensity: self.propensity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30,000 rows in these orders, whose cost rises with time. Every tenth shares its time with the next.
    #[test]
    fn slices_are_those_of_the_times_in_every_order() {
        let n = 30_000i64;
        let orders: [fn(i64) -> i64; 4] =
            [|i| i, |i| 30_000 - 1 - i, |i| i * 7919 % 30_000, |i| (i % 3) * 10_000 + i / 3];
        for order in orders {
            let mut timed = TimedSlices::default();
            for i in (0..n).map(order) {
                let time = if i % 10 == 0 { i + 1 } else { i };
                // One row is far away from the others.
                let time = if i == 0 { i64::MIN } else { time };
                timed.add(time, (i % 3) as u32, -(i as f64) / n as f64, 0.5);
                assert!(timed.intervals.len() < 2 * INTERVALS);
            }
            let slices = timed.finish();
            assert_eq!((slices.rows(), slices.counts()), (n as u64, vec![10_000; 3]));
            assert!((5..=SLICES).contains(&slices.slices.len()), "{}", slices.slices.len());
            let mut first = 0;
            for slice in &slices.slices {
                assert!(slice.rows > 0);
                let rows = first..first + slice.rows;
                let want: f64 = rows.map(|i| -(i as f64) / n as f64).sum();
                assert!((slice.cost.value() - want).abs() < 1e-6, "{} {want}", slice.cost.value());
                first += slice.rows;
            }
        }
    }

    #[test]
    fn rows_of_one_moment_are_one_slice() {
        let mut timed = TimedSlices::default();
        (0..1000).for_each(|_| timed.add(5, 0, -1.0, 0.5));
        assert_eq!(timed.finish().slices.len(), 1);
        assert_eq!(TimedSlices::default().finish().slices.len(), 0);
    }
}

//! How the weights of a log are distributed, and how often its actions were logged against how often they should have
//! been: what a health report shows as pictures. Sizes are bounded, and equal rows give equal numbers in any order.

use std::collections::BTreeMap;
use std::f64::consts::SQRT_2;

use serde::{Deserialize, Serialize};

/// Weights from 2^32 on are in the last class.
const LAST_CLASS: usize = 64;
/// The number of the smallest propensities that are kept.
const SMALLEST: usize = 10;
/// The number of actions whose counts are shown.
const SHOWN_ACTIONS: usize = 50;
/// A count lies within so many standard errors of its expectation in 99.9% of all logs.
const STANDARD_ERRORS: f64 = 3.29;

/// A class of the histogram of weights. Each class is √2 times as wide as the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WeightClass {
    /// The smallest weight of the class.
    pub from: f64,
    /// Weights of the class are less than this; null in the last class.
    pub to: Option<f64>,
    /// The number of rows in it.
    pub rows: u64,
}

/// One of the smallest propensities of logged actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SmallPropensity {
    /// The propensity.
    pub propensity: f64,
    /// The number of rows that have it.
    pub rows: u64,
}

/// How often an action was logged, against its propensities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ExpectedCount {
    /// The action.
    pub action: u64,
    /// How often it was logged.
    pub count: u64,
    /// The sum of its propensities.
    pub expected: f64,
    /// The lower end of the interval in which the count of a correct log lies with a probability of 99.9%.
    pub low: f64,
    /// The upper end of that interval.
    pub high: f64,
}

/// Counts weights while rows are read.
#[derive(Default)]
pub(crate) struct Weights {
    classes: Vec<u64>,
    /// By the bits of the propensity: those of positive numbers have their order.
    smallest: BTreeMap<u64, u64>,
    /// The largest of them, if there are as many as are kept.
    largest_kept: Option<u64>,
}

impl Weights {
    /// Adds the propensity of a logged action.
    pub fn add(&mut self, propensity: f64) {
        let class = class_of(1.0 / propensity);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
        let bits = propensity.to_bits();
        if self.largest_kept.is_some_and(|largest| bits > largest) {
            return;
        }
        *self.smallest.entry(bits).or_default() += 1;
        if self.smallest.len() > SMALLEST {
            self.smallest.pop_last();
        }
        if self.smallest.len() >= SMALLEST {
            self.largest_kept = self.smallest.last_key_value().map(|(largest, _)| *largest);
        }
    }

    /// The classes from the first to the last that has rows.
    pub fn classes(&self) -> Vec<WeightClass> {
        let first = self.classes.iter().position(|rows| *rows > 0).unwrap_or(0);
        let class = |(i, rows): (usize, &u64)| WeightClass {
            from: edge(i),
            to: (i < LAST_CLASS).then(|| edge(i + 1)),
            rows: *rows,
        };
        self.classes.iter().enumerate().skip(first).map(class).collect()
    }

    /// The smallest propensities, in order.
    pub fn smallest(&self) -> Vec<SmallPropensity> {
        let value =
            |(bits, rows): (&u64, &u64)| SmallPropensity { propensity: f64::from_bits(*bits), rows: *rows };
        self.smallest.iter().map(value).collect()
    }
}

/// The counts of the actions that are furthest from their expectation, by action. `expected` are Σπ0(a) and
/// Σπ0(a)(1 − π0(a)) of each action.
pub(crate) fn expected_counts(counts: &[u64], expected: &[(f64, f64)]) -> Vec<ExpectedCount> {
    let rows: u64 = counts.iter().sum();
    let count = |(action, &(expected, variance)): (usize, &(f64, f64))| {
        let width = STANDARD_ERRORS * variance.max(0.0).sqrt();
        ExpectedCount {
            action: action as u64,
            count: counts.get(action).copied().unwrap_or(0),
            expected,
            low: (expected - width).max(0.0),
            high: (expected + width).min(rows as f64),
        }
    };
    let distance = |each: &ExpectedCount| {
        let width = (each.high - each.expected).max(each.expected - each.low).max(f64::MIN_POSITIVE);
        (each.count as f64 - each.expected).abs() / width
    };
    let mut all: Vec<ExpectedCount> = expected.iter().enumerate().map(count).collect();
    all.sort_by(|a, b| distance(b).total_cmp(&distance(a)).then(a.action.cmp(&b.action)));
    all.truncate(SHOWN_ACTIONS);
    all.sort_by_key(|each| each.action);
    all
}

/// The class of a weight of at least 1, from its exponent. Exact on every machine, unlike a logarithm.
fn class_of(weight: f64) -> usize {
    if weight >= edge(LAST_CLASS) || weight.is_nan() {
        return LAST_CLASS;
    }
    let exponent = ((weight.max(1.0).to_bits() >> 52) & 0x7ff) as usize - 1023;
    let class = 2 * exponent;
    class + usize::from(weight >= edge(class + 1))
}

/// 2^(class/2).
fn edge(class: usize) -> f64 {
    let whole = (1u64 << (class / 2)) as f64;
    if class.is_multiple_of(2) { whole } else { whole * SQRT_2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_in_the_class_that_contains_it() {
        for propensity in
            [1.0, 0.9, 0.75, 0.71, 0.7, 0.5, 0.4999, 0.2, 1.0 / 3.0, 1e-3, 2f64.powi(-32), 1e-300, 5e-324]
        {
            let mut weights = Weights::default();
            weights.add(propensity);
            let [class] = &weights.classes()[..] else { panic!("{propensity}") };
            let weight = 1.0 / propensity;
            assert!(class.from <= weight && class.to.is_none_or(|to| weight < to), "{propensity}: {class:?}");
            assert_eq!(class.rows, 1);
        }
    }

    #[test]
    fn the_smallest_propensities_do_not_depend_on_the_order_of_rows() {
        let all: Vec<f64> = (0..1000).map(|i| f64::from(1 + (i * 7) % 97) / 100.0).collect();
        let count = |values: &mut dyn Iterator<Item = f64>| {
            let mut weights = Weights::default();
            values.for_each(|value| weights.add(value));
            (weights.smallest(), weights.classes())
        };
        let forward = count(&mut all.iter().copied());
        assert_eq!(forward, count(&mut all.iter().rev().copied()));
        assert_eq!(forward.0.len(), SMALLEST);
        for (i, small) in forward.0.iter().enumerate() {
            let value = (i + 1) as f64 / 100.0;
            let rows = all.iter().filter(|other| **other == value).count() as u64;
            assert_eq!((small.propensity, small.rows), (value, rows));
        }
        assert_eq!(forward.1.iter().map(|class| class.rows).sum::<u64>(), 1000);
    }

    #[test]
    fn counts_have_intervals_and_the_furthest_are_shown() {
        let expected: Vec<(f64, f64)> = (0..200).map(|_| (100.0, 99.5)).collect();
        let mut counts = vec![100; 200];
        counts[150] = 400;
        let shown = expected_counts(&counts, &expected);
        assert_eq!(shown.len(), SHOWN_ACTIONS);
        let outside: Vec<u64> =
            shown.iter().filter(|each| each.count as f64 > each.high).map(|each| each.action).collect();
        assert_eq!(outside, [150]);
        assert!(shown.is_sorted_by_key(|each| each.action));
        assert!(expected_counts(&counts, &[]).is_empty());
        // A certain action has no room for chance.
        let certain = &expected_counts(&[5], &[(5.0, 0.0)])[0];
        assert_eq!((certain.low, certain.high), (5.0, 5.0));
    }
}

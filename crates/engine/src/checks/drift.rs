//! Whether a log stays the same over time. Under one fixed policy and contexts from one distribution rows are
//! exchangeable: given all rows, each block of them is a sample without replacement. Hoeffding showed that
//! such a sample is at least as concentrated as one with replacement, so Bernstein's bound applies to it.

use serde::{Deserialize, Serialize};

use super::evidence::{Finding, ln, readable};
use super::slices::{Slice, Slices, Spread};
use super::{CheckName, CheckScope};

/// Shares are tested and shown for this many of the most frequent actions. Which they are depends on all rows
/// together and not on their order, so the choice does not disturb the test.
const ACTIONS: usize = 50;

/// Means closer than this are equal up to rounding.
const ROUNDING: f64 = 1e-12;

/// How a log changes over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Drift {
    /// The actions whose shares are shown: the most frequent ones, at most 50.
    pub actions: Vec<u64>,
    /// Slices of rows in order of arrival, at most 20: in that of their timestamps, if they have some.
    pub slices: Vec<TimeSlice>,
    /// The change with the strongest evidence; null if the log is too short to compare slices, or if it was not
    /// tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<DriftChange>,
}

/// Consecutive rows of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TimeSlice {
    /// The number of rows; of a context that was logged several times, only the first counts.
    pub rows: u64,
    /// The mean cost, in [-1, 0].
    pub mean_cost: f64,
    /// The mean propensity of the logged actions.
    pub mean_propensity: f64,
    /// The share of each action of `Drift::actions`.
    pub action_shares: Vec<f64>,
}

/// A block of rows that differs from the whole log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DriftChange {
    /// What differs: `cost`, `propensity` or the share of an action, such as `action 3`.
    pub statistic: String,
    /// The first row of the block, from 1, among the rows that count.
    pub from_row: u64,
    /// The last row of the block.
    pub to_row: u64,
    /// The mean in the block.
    pub observed: f64,
    /// The mean in the whole log.
    pub expected: f64,
    /// 1/p of the exact test, corrected for all blocks and statistics; at most 1e300.
    pub evidence: f64,
    /// Whether the evidence is too strong for chance.
    pub significant: bool,
}

/// A statistic whose sum over each slice is known.
struct Statistic {
    name: String,
    sums: Vec<f64>,
    mean: f64,
    variance: f64,
    /// Largest minus smallest value.
    range: f64,
}

/// The block with the strongest evidence, and the logarithm of the evidence after Bonferroni's correction.
struct Strongest {
    statistic: String,
    from_row: u64,
    to_row: u64,
    observed: f64,
    expected: f64,
    log_evidence: f64,
}

impl Statistic {
    /// −ln of Bernstein's bound on one side, for a block with this sum. A block and the rest of the log
    /// deviate by the same sum; the smaller one gives the better bound.
    fn exponent(&self, sum: f64, rows: u64, n: u64) -> f64 {
        let m = rows.min(n - rows) as f64;
        let distance = (sum - rows as f64 * self.mean).abs() / m;
        if distance <= ROUNDING {
            return 0.0;
        }
        m * distance * distance / (2.0 * self.variance + 2.0 * self.range * distance / 3.0)
    }
}

fn statistics(slices: &Slices, actions: &[u64]) -> Vec<Statistic> {
    let n = slices.rows().max(1) as f64;
    let new = |name: String, sums: Vec<f64>, spread: Spread| {
        let mean = sums.iter().sum::<f64>() / n;
        let square = spread.squares.value() / n;
        // What cancellation may have lost is added back.
        let variance = (square - mean * mean).max(0.0) + 8.0 * f64::EPSILON * square;
        Statistic { name, sums, mean, variance, range: spread.most - spread.least }
    };
    let mut all = vec![
        new("cost".into(), slices.slices.iter().map(|s| s.cost.value()).collect(), slices.cost),
        new(
            "propensity".into(),
            slices.slices.iter().map(|s| s.propensity.value()).collect(),
            slices.propensity,
        ),
    ];
    for &action in actions {
        let sums: Vec<f64> =
            slices.slices.iter().map(|s| s.counts.get(action as usize).map_or(0.0, |&c| c as f64)).collect();
        let mut spread = Spread { least: 0.0, most: 1.0, ..Spread::default() };
        sums.iter().for_each(|&sum| spread.squares.add(sum));
        all.push(new(format!("action {action}"), sums, spread));
    }
    all
}

/// Every slice, which finds changes that pass, and every beginning of the log, which finds those that stay
/// and slow ones: the first half against the second is one of them.
fn blocks(slices: usize) -> Vec<std::ops::Range<usize>> {
    let single = (0..slices).map(|i| i..i + 1);
    single.chain((2..slices).map(|end| 0..end)).collect()
}

fn strongest(slices: &Slices, actions: &[u64]) -> Option<Strongest> {
    if slices.slices.len() < 2 {
        return None;
    }
    let n = slices.rows();
    let rows_of = |block: std::ops::Range<usize>| slices.slices[block].iter().map(|s| s.rows).sum::<u64>();
    let blocks = blocks(slices.slices.len());
    let statistics = statistics(slices, actions);
    let correction = ln(2.0 * (blocks.len() * statistics.len()) as f64);
    let mut best: Option<Strongest> = None;
    for statistic in &statistics {
        for block in &blocks {
            let (rows, before) = (rows_of(block.clone()), rows_of(0..block.start));
            let sum: f64 = statistic.sums[block.clone()].iter().sum();
            let log_evidence = statistic.exponent(sum, rows, n) - correction;
            if best.as_ref().is_none_or(|best| log_evidence > best.log_evidence) {
                best = Some(Strongest {
                    statistic: statistic.name.clone(),
                    from_row: before + 1,
                    to_row: before + rows,
                    observed: sum / rows as f64,
                    expected: statistic.mean,
                    log_evidence,
                });
            }
        }
    }
    best
}

fn frequent(slices: &Slices) -> Vec<u64> {
    let counts = slices.counts();
    let mut actions: Vec<usize> = (0..counts.len()).filter(|&action| counts[action] > 0).collect();
    actions.sort_by_key(|&action| (std::cmp::Reverse(counts[action]), action));
    actions.truncate(ACTIONS);
    actions.into_iter().map(|action| action as u64).collect()
}

/// The slices for display, with the strongest change between them at a level.
pub(super) fn describe(slices: &Slices, level: f64) -> Drift {
    let actions = frequent(slices);
    let of = |slice: &Slice| {
        let n = slice.rows.max(1) as f64;
        let share = |&action: &u64| slice.counts.get(action as usize).map_or(0.0, |&count| count as f64 / n);
        TimeSlice {
            rows: slice.rows,
            mean_cost: slice.cost.value() / n,
            mean_propensity: slice.propensity.value() / n,
            action_shares: actions.iter().map(share).collect(),
        }
    };
    let change = strongest(slices, &actions).map(|strongest| {
        let result = finding(&strongest, 0).judge(CheckScope::Log, level, 0);
        DriftChange {
            statistic: strongest.statistic,
            from_row: strongest.from_row,
            to_row: strongest.to_row,
            observed: strongest.observed,
            expected: strongest.expected,
            evidence: result.evidence,
            significant: result.failed(),
        }
    });
    Drift { slices: slices.slices.iter().map(of).collect(), actions, change }
}

/// The finding for logs of which a fixed policy was attested.
pub(super) fn finish(slices: &Slices) -> Finding {
    let rows = slices.rows();
    if let Some(strongest) = strongest(slices, &frequent(slices)) {
        return finding(&strongest, rows);
    }
    Finding { rows, ..Finding::skipped(CheckName::Drift, "not checked: the log is too short to show drift") }
}

fn finding(strongest: &Strongest, rows: u64) -> Finding {
    let Strongest { statistic, from_row, to_row, observed, expected, log_evidence } = strongest;
    let what = if statistic.starts_with("action") { "share of" } else { "mean" };
    Finding {
        name: CheckName::Drift,
        subject: Some(statistic.clone()),
        observed: *observed,
        expected: *expected,
        log_evidence: *log_evidence,
        rows,
        message: format!(
            "the {what} {statistic} is {} in rows {from_row} to {to_row}, and {} in the whole log",
            readable(*observed),
            readable(*expected)
        ),
        remedy: "the log changes over time, so it does not come from one fixed policy on one kind of contexts; \
                 do not state that it does",
        skipped: false,
    }
}

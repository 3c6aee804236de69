//! How often each action was logged, against its propensities.

use super::CheckName;
use super::bets::Bets;
use super::centered::{Centered, Widths};
use super::evidence::{Finding, log_mix};
use super::logged::Uppers;

/// Bets on single actions are kept for at most this many.
const TRACKED: usize = 4096;

/// Counts and propensities of all actions, from rows whose π0(·|x) is known.
#[derive(Default, Clone)]
pub(super) struct Tally {
    pub rows: u64,
    pub counts: Vec<u64>,
    /// Σp of each action.
    pub sums: Vec<f64>,
    /// Σp² of each action.
    squares: Vec<f64>,
    /// The sum over rows of how far rounding can have moved the probability of each action; empty if numbers are
    /// exact.
    slacks: Vec<f64>,
}

impl Tally {
    /// Adds a row. The slack of `Centered::add` for the indicator of action a is
    /// h_a(1 − p_a) + p_a·Σ_{b≠a} h_b. It also bounds what rounding adds to the variance.
    pub fn add(&mut self, p: &[f64], action: usize, widths: &Widths) {
        self.grow(p.len());
        self.rows += 1;
        self.counts[action] += 1;
        for ((sum, square), p) in self.sums.iter_mut().zip(&mut self.squares).zip(p) {
            *sum += p;
            *square += p * p;
        }
        if !widths.exact() {
            self.slacks.resize(self.counts.len(), 0.0);
            let total: f64 = p.iter().map(|&p| widths.half(p)).sum();
            for (slack, &p) in self.slacks.iter_mut().zip(p) {
                let half = widths.half(p);
                *slack += half * (1.0 - p) + p * (total - half);
            }
        }
    }

    fn grow(&mut self, k: usize) {
        if self.counts.len() < k {
            self.counts.resize(k, 0);
            self.sums.resize(k, 0.0);
            self.squares.resize(k, 0.0);
        }
    }

    pub fn merge(&mut self, other: &Tally) {
        self.grow(other.counts.len());
        self.rows += other.rows;
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.sums.iter_mut().zip(&other.sums).for_each(|(mine, theirs)| *mine += theirs);
        self.squares.iter_mut().zip(&other.squares).for_each(|(mine, theirs)| *mine += theirs);
        self.slacks.resize(self.slacks.len().max(other.slacks.len()), 0.0);
        self.slacks.iter_mut().zip(&other.slacks).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The logarithm of the evidence against the count of an action.
    pub fn log_evidence(&self, action: usize) -> f64 {
        let (n, sum, square) = (self.rows as f64, self.sums[action], self.squares[action]);
        // Sums were added up term by term, which loses at most nε/2 of them.
        let rounded = self.slacks.get(action).copied().unwrap_or(0.0);
        let slack = rounded * (1.0 + n * f64::EPSILON) + n * f64::EPSILON * sum;
        let excess = self.counts[action] as f64 - sum;
        let variance = (sum - square).max(0.0) + slack;
        Centered { excess, slack, variance }.log_evidence(1.0)
    }
}

/// Bets on every action, from rows of which only the logged propensity is known: 1[a]/p has a mean of at
/// most 1 for every action a.
#[derive(Default, Clone)]
pub(super) struct ActionBets {
    pub rows: u64,
    bets: Vec<Bets>,
    /// Σ1[a]/p of each action.
    weights: Vec<f64>,
}

impl ActionBets {
    pub fn add(&mut self, action: usize, p: f64, widths: &Widths) {
        self.rows += 1;
        if action >= TRACKED {
            return;
        }
        self.grow(action + 1);
        self.bets[action].bet_relative(1.0 / widths.upper(p));
        self.weights[action] += (1.0 / p).min(1e12);
    }

    /// Adds rows. There are uppers for all of them.
    pub fn add_all(&mut self, actions: &[u32], propensities: &[f64], uppers: &Uppers) {
        self.rows += actions.len() as u64;
        let tracked = actions.iter().map(|&action| action as usize).filter(|&action| action < TRACKED);
        self.grow(tracked.fold(0, |k, action| k.max(action + 1)));
        for ((&action, p), inverse) in actions.iter().zip(propensities).zip(&uppers.inverses) {
            let action = action as usize;
            if let (Some(bets), Some(weight)) = (self.bets.get_mut(action), self.weights.get_mut(action)) {
                bets.bet_relative(*inverse);
                *weight += (1.0 / p).min(1e12);
            }
        }
    }

    fn grow(&mut self, k: usize) {
        if self.bets.len() < k {
            self.bets.resize(k, Bets::default());
            self.weights.resize(k, 0.0);
        }
    }

    pub fn merge(&mut self, other: ActionBets) {
        self.grow(other.bets.len());
        self.rows += other.rows;
        self.bets.iter_mut().zip(other.bets).for_each(|(mine, theirs)| mine.merge(theirs));
        self.weights.iter_mut().zip(&other.weights).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The logarithm of the evidence against each action that was seen. The others have none.
    pub fn log_evidence(&self) -> Vec<f64> {
        self.bets.iter().map(|bets| bets.log_evidence_relative(self.rows)).collect()
    }

    /// The mean of 1[a]/p.
    pub fn mean(&self, action: usize) -> f64 {
        self.weights[action] / self.rows.max(1) as f64
    }
}

/// The share of an action in a mixture over actions. If K is not known in advance, the shares must not
/// depend on the rows: they add up to 1 over all numbers.
pub(super) fn share(action: usize, k: Option<usize>) -> f64 {
    match k {
        Some(k) => 1.0 / k.max(1) as f64,
        None => 1.0 / ((action as f64 + 1.0) * (action as f64 + 2.0)),
    }
}

/// The mixture of the evidence against actions, and the action with the largest part of it.
pub(super) fn mix(logs: &[f64], k: Option<usize>) -> (f64, usize) {
    let parts = logs.iter().enumerate().map(|(action, &log)| (share(action, k), log));
    let score = |&action: &usize| if logs[action].is_nan() { f64::INFINITY } else { logs[action] };
    let most = (0..logs.len()).map(|action| score(&action)).fold(f64::NEG_INFINITY, f64::max);
    // The first of those that differ by rounding only, so that it does not depend on the order of additions.
    let worst = (0..logs.len()).find(|action| score(action) >= most - 1e-9 * (1.0 + most.abs()));
    (log_mix(parts), worst.unwrap_or(0))
}

pub(super) const REMEDY: &str = "check that the logged action is the one that was drawn and that actions are numbered \
                      alike in `action` and in the propensities";

/// The finding on the counts of all actions. With sets of each row's own, their number is not known in advance.
pub(super) fn finish_full(tally: &Tally, sets: bool) -> Finding {
    let k = tally.counts.len();
    let logs: Vec<f64> = (0..k).map(|action| tally.log_evidence(action)).collect();
    let (log_evidence, worst) = if k == 0 { (0.0, 0) } else { mix(&logs, (!sets).then_some(k)) };
    let count = tally.counts.get(worst).copied().unwrap_or(0);
    let expected = tally.sums.get(worst).copied().unwrap_or(0.0);
    Finding {
        name: CheckName::ActionCounts,
        subject: Some(format!("action {worst}")),
        observed: count as f64,
        expected,
        log_evidence,
        rows: tally.rows,
        message: format!(
            "action {worst} was logged {count} times, and its propensities sum to {expected:.1}"
        ),
        remedy: REMEDY,
        skipped: false,
    }
}

/// The finding on 1[a]/p of all actions; `k` only if it was declared.
pub(super) fn finish_logged(bets: &ActionBets, k: Option<usize>) -> Finding {
    let logs = bets.log_evidence();
    let (log_evidence, worst) = if logs.is_empty() { (0.0, 0) } else { mix(&logs, k) };
    let observed = if logs.is_empty() { 1.0 } else { bets.mean(worst) };
    Finding {
        name: CheckName::ActionCounts,
        subject: Some(format!("action {worst}")),
        observed,
        expected: 1.0,
        log_evidence,
        rows: bets.rows,
        message: format!(
            "1/propensity summed over the rows of action {worst} is {observed:.4} per row of the log, expected \
             at most 1"
        ),
        remedy: REMEDY,
        skipped: false,
    }
}

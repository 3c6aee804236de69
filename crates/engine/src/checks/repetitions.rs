//! Whether the number of interactions of a context depends on its first action. If repetitions were designed
//! it does not, given the context; users who retry until they succeed come back after bad actions.

use super::centered::Widths;
use super::counts::{ActionBets, Tally, share};
use super::evidence::{Finding, log_mix};
use super::{CheckName, CheckRow};

/// The tests look at the contexts with more interactions than each of these.
const MORE_THAN: [u64; 4] = [1, 2, 4, 8];

/// First rows by the number of interactions of their context: 2, 3 or 4, 5 to 8, more.
#[derive(Default)]
pub(super) struct Repetitions {
    tallies: [Tally; MORE_THAN.len()],
    bets: [ActionBets; MORE_THAN.len()],
    contexts: u64,
}

impl Repetitions {
    /// Adds the first row of a context. Where π0(·|x) is known, `row.full` has it.
    pub fn add(&mut self, row: &CheckRow, interactions: u64, widths: &Widths) {
        self.contexts += 1;
        let Some(class) = MORE_THAN.iter().rposition(|&more_than| interactions > more_than) else { return };
        let action = row.action as usize;
        match row.full {
            Some(p) => self.tallies[class].add(p, action, widths),
            None => self.bets[class].add(action, row.propensity, widths),
        }
    }

    pub fn merge(&mut self, other: Repetitions) {
        self.tallies.iter_mut().zip(&other.tallies).for_each(|(mine, theirs)| mine.merge(theirs));
        self.bets.iter_mut().zip(other.bets).for_each(|(mine, theirs)| mine.merge(theirs));
        self.contexts += other.contexts;
    }

    /// `k` only if it is known in advance.
    pub fn finish(&self, full: bool, k: Option<usize>) -> Finding {
        let tests: Vec<Test> = if full { self.full_tests() } else { self.logged_tests(k) };
        let parts = tests.iter().map(|test| (test.share, test.log));
        let score = |test: &&Test| if test.log.is_nan() { f64::INFINITY } else { test.log };
        let worst = tests.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
        let (observed, expected) = worst.map_or((0.0, 0.0), |test| (test.observed, test.expected));
        let message = match worst {
            Some(Test { more_than, action, .. }) if full => format!(
                "among the first of more than {more_than} interactions, action {action} has a share of \
                 {observed:.4}, and its propensities say {expected:.4}"
            ),
            Some(Test { more_than, action, .. }) => format!(
                "among the first of more than {more_than} interactions, 1/propensity summed over action {action} \
                 is {observed:.4} per context, expected at most 1"
            ),
            None => "no context was logged more than once".into(),
        };
        Finding {
            name: CheckName::Repetitions,
            subject: worst.map(|test| format!("action {}", test.action)),
            observed,
            expected,
            log_evidence: if tests.is_empty() { 0.0 } else { log_mix(parts) },
            rows: self.contexts,
            message,
            remedy: "the number of interactions depends on what was done, as if users retried: do not state that \
                     repetitions were designed",
        }
    }

    fn full_tests(&self) -> Vec<Test> {
        let (mut tests, mut tally) = (Vec::new(), Tally::default());
        for (class, more_than) in MORE_THAN.into_iter().enumerate().rev() {
            tally.merge(&self.tallies[class]);
            let (k, n) = (tally.counts.len(), tally.rows.max(1) as f64);
            tests.extend((0..k).map(|action| Test {
                more_than,
                action,
                share: share(action, Some(k)) / MORE_THAN.len() as f64,
                log: tally.log_evidence(action),
                observed: tally.counts[action] as f64 / n,
                expected: tally.sums[action] / n,
            }));
        }
        tests
    }

    fn logged_tests(&self, k: Option<usize>) -> Vec<Test> {
        let (mut tests, mut bets) = (Vec::new(), ActionBets::default());
        for (class, more_than) in MORE_THAN.into_iter().enumerate().rev() {
            bets.merge(self.bets[class].clone());
            tests.extend(bets.log_evidence().into_iter().enumerate().map(|(action, log)| {
                let share = share(action, k) / MORE_THAN.len() as f64;
                Test { more_than, action, share, log, observed: bets.mean(action), expected: 1.0 }
            }));
        }
        tests
    }
}

/// The test of one action among the contexts with more than some number of interactions.
struct Test {
    more_than: u64,
    action: usize,
    /// The share of the test in the mixture.
    share: f64,
    log: f64,
    observed: f64,
    expected: f64,
}

//! Whether the number of interactions of a context depends on its first action. If repetitions were designed
//! it does not, given the context; users who retry until they succeed come back after bad actions.

use super::centered::Widths;
use super::counts::{ActionBets, Tally, share};
use super::evidence::{Finding, log_mix};
use super::{CheckName, CheckRow, Interaction};

/// The tests look at the contexts with more interactions than each of these.
const MORE_THAN: [u64; 4] = [1, 2, 4, 8];

/// First rows of the contexts with more than 1, 2, 4 and 8 interactions.
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
        for (class, more_than) in MORE_THAN.into_iter().enumerate() {
            if interactions > more_than {
                self.add_to(class, (row.action as usize, row.propensity), row.full, widths);
            }
        }
    }

    /// Adds a further row of a context whose later rows are not known yet.
    pub fn reach(&mut self, interaction: &Interaction, widths: &Widths) {
        let Interaction { number, first_action, first_propensity, full } = *interaction;
        self.contexts += u64::from(number == 1);
        if let Some(class) = MORE_THAN.iter().position(|&more_than| number == more_than + 1) {
            self.add_to(class, (first_action as usize, first_propensity), full, widths);
        }
    }

    fn add_to(
        &mut self,
        class: usize,
        (action, propensity): (usize, f64),
        full: Option<&[f64]>,
        widths: &Widths,
    ) {
        match full {
            Some(p) => self.tallies[class].add(p, action, widths),
            None => self.bets[class].add(action, propensity, widths),
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
        if tests.is_empty() {
            let reason = "not checked: no context was logged more than once";
            return Finding { rows: self.contexts, ..Finding::skipped(CheckName::Repetitions, reason) };
        }
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
            None => String::new(),
        };
        Finding {
            name: CheckName::Repetitions,
            subject: worst.map(|test| format!("action {}", test.action)),
            observed,
            expected,
            log_evidence: log_mix(parts),
            rows: self.contexts,
            message,
            remedy: "the number of interactions depends on what was done, as if users retried: do not state that \
                     repetitions were designed",
            skipped: false,
        }
    }

    fn full_tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for (tally, more_than) in self.tallies.iter().zip(MORE_THAN).rev() {
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
        let mut tests = Vec::new();
        for (bets, more_than) in self.bets.iter().zip(MORE_THAN).rev() {
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

//! The stated risk of the logging policy. Only a risk that is stated too high inflates improvements, so only
//! that is tested: a log that shows a higher risk than stated passes.

use super::CheckName;
use super::bets::Bets;
use super::evidence::{Finding, readable};

#[derive(Default)]
pub(super) struct Known {
    bets: Bets,
    cost: f64,
    rows: u64,
}

impl Known {
    /// 1 + r − c is in [0, 2], and its mean is at most 1 if the mean cost is at least r. The λ are constants,
    /// so the statement is about the average over the rows, also if the cost drifts.
    pub fn add(&mut self, cost: f64, stated: f64) {
        self.bets.bet(1.0 + stated - cost);
        self.cost += cost;
        self.rows += 1;
    }

    pub fn merge(&mut self, other: Known) {
        self.bets.merge(other.bets);
        self.cost += other.cost;
        self.rows += other.rows;
    }

    pub fn finish(&self, stated: f64) -> Finding {
        let observed = if self.rows == 0 { stated } else { self.cost / self.rows as f64 };
        Finding {
            name: CheckName::KnownBaseline,
            subject: None,
            observed,
            expected: stated,
            log_evidence: self.bets.log_evidence(),
            rows: self.rows,
            message: format!(
                "the mean cost of the log is {}, and the stated risk of the logging policy is {} (both scaled to \
                 [-1, 0])",
                readable(observed),
                readable(stated)
            ),
            remedy: "state the risk that the logging policy has on these contexts, or let the log estimate it",
            skipped: false,
        }
    }
}

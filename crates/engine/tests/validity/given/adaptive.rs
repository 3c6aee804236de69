//! Logs of policies that are trained on them, with exact propensities. A certificate is about the mean over the rows
//! that it certified, against the policies that were in place.

use std::collections::BTreeMap;

use guarantor_engine::log::MemoryLog;
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::Looks;
use rand_chacha::ChaCha8Rng;

use super::jobs::{Form, Look, certificate, claims, evaluating, first_rows};
use super::{DELTAS, LOGS};
use crate::arrivals::case::{STEADY, certified_rows, random_policy};
use crate::arrivals::logger::{Logger, Refit, Rule};
use crate::arrivals::nature::Nature;
use crate::arrivals::stream::{SHADOW, Stream, Truth, draw};
use crate::harness::{Claim, assert_valid, simulate};

const CONTEXTS: usize = 4;

/// A stream with a candidate that does not change. The log also carries the greedy policy of the logger's estimates,
/// which changes with every row.
struct Adaptive {
    stream: Stream,
    steady: PolicyParams,
}

impl Adaptive {
    fn new(nature: &Nature, refit: Refit, rows: usize, rng: &mut ChaCha8Rng) -> Adaptive {
        let logger = Logger::of_means(nature, Rule::EpsilonGreedy(0.2), refit);
        let mut stream = draw(nature, logger, rows, true, rng);
        let steady = random_policy(CONTEXTS, rng);
        let played = stream.played(&steady);
        stream.columns.candidates.push((STEADY.into(), played));
        Adaptive { stream, steady }
    }

    fn truth(&self, candidate: &str, rows: &[u64]) -> Truth {
        if candidate == SHADOW {
            return self.stream.shadow_truth(rows);
        }
        let pi = self.steady.propensities(self.stream.x.view()).expect("a policy on these contexts");
        self.stream.truth_of(pi.as_slice().expect("row-major"), rows)
    }

    /// The claims of jobs that look at the first rows, for each number of them.
    fn claims(
        &self,
        form: Form,
        sizes: &[usize],
        delta: f64,
        looks: Looks,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Claim> {
        let stored = BTreeMap::from([(STEADY.to_string(), self.steady.clone())]);
        let names: Vec<String> = match form {
            Form::Stored => vec![STEADY.into()],
            _ => vec![STEADY.into(), SHADOW.into()],
        };
        let request = evaluating(form, names.iter(), delta, looks, rng);
        let look = |&rows: &usize| {
            let mut part = Stream::empty(self.stream.x.clone(), true);
            part.columns = first_rows(&self.stream.columns, rows);
            let mut columns = part.columns.clone();
            if form == Form::Logged {
                (columns.full, columns.x, columns.dim) = (None, Vec::new(), 0);
            }
            let log = MemoryLog::new(columns).expect("a drawn log is a log");
            let certificate = certificate(&request, &log, &stored);
            let rows = certified_rows(&part, &certificate);
            let truths = names.iter().map(|name| self.truth(name, &rows)).collect();
            Look { certificate, truths }
        };
        claims(form, &sizes.iter().map(look).collect::<Vec<_>>())
    }
}

const FORMS: [Form; 2] = [Form::Logged, Form::Stored];

/// Rewards are rare, or not, with nothing to gain, and with something to gain.
fn natures() -> [Nature; 3] {
    [
        Nature::nothing_to_gain(CONTEXTS, 0.01),
        Nature::nothing_to_gain(CONTEXTS, 0.5),
        Nature::something_to_gain(CONTEXTS, 0.3),
    ]
}

/// One look at logs of this many rows whose policy is trained again every so many rows.
fn holds(rows: usize, every: usize, seed: u64) {
    for (nature, seed) in natures().iter().zip(seed..) {
        assert_valid(&simulate(LOGS, seed, |rng| {
            let adaptive = Adaptive::new(nature, Refit::Every(every), rows, rng);
            let mut all = Vec::new();
            for form in FORMS {
                for delta in DELTAS {
                    all.extend(adaptive.claims(form, &[rows], delta, Looks::Once, rng));
                }
            }
            all
        }));
    }
}

#[test]
fn small_logs_of_learners_hold() {
    holds(30, 5, 40_000);
}

#[test]
fn logs_of_learners_hold() {
    holds(180, 30, 40_100);
}

#[test]
fn looks_at_any_time_at_learners_hold_together() {
    for (nature, seed) in natures().iter().zip(40_200..) {
        assert_valid(&simulate(LOGS, seed, |rng| {
            let adaptive = Adaptive::new(nature, Refit::Always, 180, rng);
            let form = Form::Logged;
            let at = |delta: f64| adaptive.claims(form, &[20, 60, 180], delta, Looks::Anytime, rng);
            DELTAS.into_iter().flat_map(at).collect()
        }));
    }
}

//! A team that looks, is told to keep, collects more rows and looks again, until it may deploy. Each look
//! certifies only rows that no earlier look has seen, and holds at its own δ.

use guarantor_engine::bound::{Betting, Bound, Choice, ControlVariate, Sample};
use guarantor_engine::certificate::Certificate;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::case::{Case, STEADY, certified_rows, evaluating, quick_auto, random_policy};
use super::logger::{Logger, Refit, Rule};
use super::nature::{ACTIONS, Nature};
use super::stream::{Stream, draw};
use super::{CONTEXTS, DELTAS, LOGS};
use crate::harness::{Claim, assert_flagged, assert_valid, simulate};

/// The looks of the team, at most.
const LOOKS: [&str; 5] = ["first look", "second look", "third look", "fourth look", "fifth look"];

/// The claim of every look. Looks after the one that said deploy do not take place.
fn looks(
    stream: &Stream,
    step: usize,
    delta: f64,
    excess: impl Fn(&Case) -> (f64, Certificate),
    policy: &guarantor_engine::policy::PolicyParams,
) -> Vec<Claim> {
    let mut deployed = false;
    let mut claims = Vec::new();
    for (i, name) in LOOKS.iter().enumerate() {
        let worst = if deployed {
            f64::NEG_INFINITY
        } else {
            let part = Stream::first(stream, (i + 1) * step);
            let case = Case { seen_rows: (i * step) as u64, ..Case::new(&part, policy.clone()) };
            let (worst, certificate) = excess(&case);
            let rows = certified_rows(&part, &certificate);
            assert!(rows.iter().all(|&row| row >= (i * step) as u64), "only fresh rows are certified");
            deployed = certificate.guaranteed_improvement > 0.0;
            worst
        };
        claims.push(Claim::that_none_exceeds(name, [worst.max(-1.0)]).at(delta));
    }
    claims
}

fn online(rows: usize, rng: &mut ChaCha8Rng) -> Stream {
    let nature = Nature::nothing_to_gain(CONTEXTS, 0.5);
    let logger = Logger::of_means(&nature, Rule::EpsilonGreedy(0.4), Refit::Always);
    let full = rng.random();
    draw(&nature, logger, rows, full, rng)
}

#[test]
fn learning_again_on_fresh_rows_holds() {
    assert_valid(&simulate(LOGS, 10_600, |rng| {
        let stream = online(LOOKS.len() * 100, rng);
        let policy = random_policy(CONTEXTS, rng);
        let seed = rng.random::<u64>() >> 11;
        let at = |delta: f64| {
            let learn = |case: &Case| {
                let finished = case.run(&quick_auto(delta, seed));
                (case.learned_excess(&finished), finished.certificate)
            };
            looks(&stream, 100, delta, learn, &policy)
        };
        DELTAS.into_iter().flat_map(at).collect()
    }));
}

#[test]
fn evaluating_again_on_fresh_rows_holds() {
    assert_valid(&simulate(LOGS, 10_610, |rng| {
        let stream = online(LOOKS.len() * 200, rng);
        let policy = random_policy(CONTEXTS, rng);
        let at = |delta: f64| {
            looks(&stream, 200, delta, |case: &Case| case.evaluate(&evaluating(STEADY, delta)), &policy)
        };
        DELTAS.into_iter().flat_map(at).collect()
    }));
}

/// A log of the uniform policy in which every cost is −1 or 0 with probability ½, and the policy that always plays
/// one action: z is 1 − K, 1 or 0.
#[derive(Clone, Copy, Default)]
struct Counts {
    rows: u64,
    /// Rewarded rows of the action, and of the others.
    played: u64,
    others: u64,
}

impl Counts {
    /// The bound on R(π) − R(π0) at the best λ for this number of rows, on all rows so far.
    fn tuned_to_n(self, delta: f64) -> f64 {
        let gain = ACTIONS as f64 - 1.0;
        let variance = 0.5 * (gain * gain + gain) / ACTIONS as f64;
        let lambda = (2.0 * (1.0 / delta).ln() / (self.rows as f64 * variance)).sqrt().min(0.5);
        let sample = Sample { rows: self.rows, contexts: self.rows };
        let choices = vec![Choice { control: ControlVariate::Constant(0.0), tau: 0.0, lambda }];
        let betting = Betting { choices, ..Betting::new(sample, 1, &[0.0], 1.0, delta) };
        let log_sum = self.played as f64 * (lambda * gain).ln_1p() + self.others as f64 * (-lambda).ln_1p();
        betting.value_and_gradient(&[log_sum / self.rows as f64], 0.0).value
    }
}

/// The negative control: rows are pooled, λ is tuned to their number, and the team stops at the first deploy.
#[test]
fn pooling_rows_until_deploy_is_caught() {
    let ends: Vec<u64> = (0..80).map(|i| (30.0 * 1.09f64.powi(i)) as u64).collect();
    let last = *ends.last().expect("looks");
    assert_flagged(&simulate(2000, 10_620, |rng| {
        let (mut counts, mut best) = (Counts::default(), DELTAS.map(|_| f64::INFINITY));
        while counts.rows < last {
            counts.rows += 1;
            if rng.random() {
                let played = rng.random_range(0..ACTIONS) == 0;
                *(if played { &mut counts.played } else { &mut counts.others }) += 1;
            }
            if ends.contains(&counts.rows) {
                for (best, delta) in best.iter_mut().zip(DELTAS) {
                    *best = best.min(counts.tuned_to_n(delta));
                }
            }
        }
        let claim = |(bound, delta): (f64, f64)| Claim { name: "pooled until deploy", delta, bound, truth: 0.0 };
        best.into_iter().zip(DELTAS).map(claim).collect()
    }));
}

impl Stream {
    /// The first rows of a stream. The shadow is left out.
    fn first(stream: &Stream, rows: usize) -> Stream {
        let columns = &stream.columns;
        let mut part = Stream::empty(stream.x.clone(), columns.full.is_some());
        part.moments = stream.moments[..rows].to_vec();
        part.columns.x = columns.x[..rows * columns.dim].to_vec();
        part.columns.actions = columns.actions[..rows].to_vec();
        part.columns.costs = columns.costs[..rows].to_vec();
        part.columns.propensities = columns.propensities[..rows].to_vec();
        part.columns.full = columns.full.as_ref().map(|full| full[..rows * ACTIONS].to_vec());
        part
    }
}

//! A team that looks, is told to keep, collects more rows and looks again, until it may deploy. Each look
//! certifies only rows that no earlier look has seen, and holds at its own δ.

use guarantor_engine::bound::{Betting, Bound, Choice, Sample};
use guarantor_engine::certificate::Certificate;
use guarantor_engine::policy::PolicyParams;
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
    policy: &PolicyParams,
    excess: impl Fn(&Case) -> (f64, Certificate),
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
    // At 0.05 alone there would be too few violations to see anything, and learning takes long.
    let delta = 0.2;
    assert_valid(&simulate(LOGS, 10_600, |rng| {
        let stream = online(LOOKS.len() * 100, rng);
        let policy = random_policy(CONTEXTS, rng);
        let seed = rng.random::<u64>() >> 11;
        let learn = |case: &Case| {
            let finished = case.run(&quick_auto(delta, seed));
            (case.learned_excess(&finished), finished.certificate)
        };
        looks(&stream, 100, delta, &policy, learn)
    }));
}

#[test]
fn evaluating_again_on_fresh_rows_holds() {
    assert_valid(&simulate(LOGS, 10_610, |rng| {
        let stream = online(LOOKS.len() * 200, rng);
        let policy = random_policy(CONTEXTS, rng);
        let at = |delta: f64| {
            looks(&stream, 200, delta, &policy, |case: &Case| case.evaluate(&evaluating(STEADY, delta)))
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
    fn append(&mut self, rows: u64, rng: &mut ChaCha8Rng) {
        self.rows += rows;
        for _ in 0..rows {
            // A rewarded row of the action, of another one, or a row without a reward.
            match rng.random_range(0..2 * ACTIONS) {
                0 => self.played += 1,
                1..ACTIONS => self.others += 1,
                _ => {}
            }
        }
    }

    /// The bound on R(π) − R(π0) at the best λ for this number of rows, on all rows so far.
    fn tuned_to_n(self, delta: f64) -> f64 {
        let gain = ACTIONS as f64 - 1.0;
        let variance = 0.5 * (gain * gain + gain) / ACTIONS as f64;
        let lambda = (2.0 * (1.0 / delta).ln() / (self.rows as f64 * variance)).sqrt().min(0.5);
        let sample = Sample { rows: self.rows, contexts: self.rows };
        let choices = vec![Choice { xi: 0.0, tau: 0.0, lambda }];
        let betting = Betting { choices, ..Betting::new(sample, 1, &[0.0], 1.0, delta) };
        let log_sum = self.played as f64 * (lambda * gain).ln_1p() + self.others as f64 * (-lambda).ln_1p();
        betting.value_and_gradient(&[log_sum / self.rows as f64], 0.0).value
    }
}

/// The negative control: rows are pooled, λ is tuned to their number, and the team stops at the first deploy.
#[test]
fn pooling_rows_until_deploy_is_caught() {
    let ends: Vec<u64> = (0..80).map(|i| (30.0 * 1.09f64.powi(i)) as u64).collect();
    assert_flagged(&simulate(1000, 10_620, |rng| {
        let (mut counts, mut best) = (Counts::default(), DELTAS.map(|_| f64::INFINITY));
        for &end in &ends {
            counts.append(end - counts.rows, rng);
            for (best, delta) in best.iter_mut().zip(DELTAS) {
                *best = best.min(counts.tuned_to_n(delta));
            }
        }
        let claim =
            |(bound, delta): (f64, f64)| Claim { name: "pooled until deploy", delta, bound, truth: 0.0 };
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

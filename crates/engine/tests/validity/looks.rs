//! Optional stopping: a team appends rows and certifies again until it likes the result. Looks that the
//! service counts as free must all hold together. Bounds that hold at one look only must fail when used in
//! the same way; otherwise this test would have no power.

use std::collections::{BTreeMap, BTreeSet};

use guarantor_engine::bound::{Betting, Bound, Choice, Sample, lambda_grid};
use guarantor_engine::ledger::anytime_event;
use guarantor_engine::log::MemoryLog;
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{BoundKind, Candidate, Looks, OptimizerRequest, SpecRequest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::harness::{Claim, DELTA, assert_flagged, assert_valid, simulate};
use super::jobs::{excess, learning, learning_from_zero, run_job};
use super::prefix;
use super::world::World;

/// The numbers of rows at which to look: `looks` of them from `first` to `last`, in equal ratios.
fn looks(first: usize, last: usize, looks: usize) -> BTreeSet<usize> {
    let ratio = (last as f64 / first as f64).powf(1.0 / (looks - 1) as f64);
    (0..looks).map(|i| (first as f64 * ratio.powi(i as i32)).round() as usize).collect()
}

/// The certificates of one spec on a growing log, which the ledger counts as one look.
fn shared_claim(
    name: &'static str,
    world: &World,
    request: &SpecRequest,
    logs: &[MemoryLog],
    policies: &BTreeMap<String, PolicyParams>,
) -> Claim {
    let mut events = BTreeSet::new();
    let excess_at = |log: &MemoryLog| {
        let request = SpecRequest { looks: Some(Looks::Anytime), ..request.clone() };
        let finished = run_job(&request, log, policies);
        let c = &finished.certificate;
        events.insert(anytime_event(c).unwrap().expect("a bound that holds at every n"));
        let policy = finished.evidence.policy().or(policies.values().next()).expect("a policy");
        excess(world, policy, c.guaranteed_risk, c.guaranteed_improvement)
    };
    let excesses: Vec<f64> = logs.iter().map(excess_at).collect();
    assert_eq!(events.len(), 1, "all looks must share one event");
    Claim::that_none_exceeds(name, excesses)
}

fn evaluating() -> SpecRequest {
    SpecRequest {
        candidates: Some(vec![Candidate::Policy { policy_id: "candidate".into() }]),
        independent_of_log: Some(true),
        ..learning(BoundKind::Betting, 0)
    }
}

#[test]
fn free_looks_hold_all_together() {
    for (world, seed) in [(World::no_signal(), 210), (World::peaked(), 220)] {
        let policy = world.random_policy(0.3, &mut ChaCha8Rng::seed_from_u64(seed));
        let policies = BTreeMap::from([("candidate".to_string(), policy)]);
        let tallies = simulate(150, seed, |rng| {
            let columns = world.draw(400, rng).columns;
            let logs: Vec<MemoryLog> = looks(10, 400, 10).iter().map(|&n| prefix(&columns, n)).collect();
            let few: Vec<MemoryLog> = looks(20, 200, 4).iter().map(|&n| prefix(&columns, n)).collect();
            let optimizer = OptimizerRequest { epochs: Some(5), ..OptimizerRequest::default() };
            let learned =
                SpecRequest { optimizer: Some(optimizer), ..learning_from_zero(BoundKind::Betting) };
            vec![
                shared_claim("evaluated at every look", &world, &evaluating(), &logs, &policies),
                shared_claim("learned at every look", &world, &learned, &few, &BTreeMap::new()),
            ]
        });
        assert_valid(&tallies);
    }
}

/// The first `n` rows of a log of the uniform policy in which every cost is −1 or 0 with probability ½. The
/// policy's own risk is −½, and z_i is the cost, so the number of −1s is a sufficient statistic.
#[derive(Clone, Copy)]
struct Coins {
    n: u64,
    ones: u64,
}

impl Coins {
    /// Logarithmic smoothing over a grid of λ, by the engine's own formula.
    fn bound(self, lambdas: impl Iterator<Item = f64>) -> f64 {
        let sample = Sample { rows: self.n, contexts: self.n };
        let choice = |lambda: f64| Choice { xi: 0.0, tau: 0.0, lambda };
        let choices: Vec<Choice> = lambdas.map(choice).collect();
        let betting = Betting { choices, ..Betting::log_smoothing(sample, DELTA) };
        let statistic = |c: &Choice| self.ones as f64 * c.lambda.ln_1p() / self.n as f64;
        let statistics: Vec<f64> = betting.choices.iter().map(statistic).collect();
        betting.value_and_gradient(&statistics, 0.0).value
    }

    /// The bound of the service: its grid is the same at every n.
    fn on_the_grid(self) -> f64 {
        let grid = lambda_grid(0.0, 0.0, 0);
        self.bound(grid.into_iter().map(|choice| choice.lambda))
    }

    /// The bound at the best λ for this n. At one n it is valid, and tighter, because one λ has all of δ. But
    /// it rests on another event at every n.
    fn tuned_to_n(self) -> f64 {
        self.bound(std::iter::once((8.0 * (1.0 / DELTA).ln() / self.n as f64).sqrt()))
    }

    /// What a dashboard would show: the mean plus the normal quantile of DELTA times the standard error.
    fn normal_interval(self) -> f64 {
        let (n, mean) = (self.n as f64, self.ones as f64 / self.n as f64);
        -mean + 0.8416 * (mean * (1.0 - mean) / n).sqrt()
    }
}

#[test]
fn looking_again_without_care_is_caught() {
    let stops = looks(30, 5000, 60);
    let tallies = simulate(4000, 230, |rng| {
        let (mut ones, mut all) = (0, Vec::new());
        for n in 1..=5000 {
            ones += u64::from(rng.random_bool(0.5));
            if stops.contains(&n) {
                all.push(Coins { n: n as u64, ones });
            }
        }
        let last = *all.last().expect("a look");
        let claim = |name: &'static str, bound: f64| Claim { name, delta: DELTA, bound, truth: -0.5 };
        let least = |at: fn(Coins) -> f64| all.iter().map(|&c| at(c)).fold(f64::INFINITY, f64::min);
        vec![
            claim("λ tuned to n, at one n", last.tuned_to_n()),
            claim("normal interval, at one n", last.normal_interval()),
            claim("the grid, at every n", least(Coins::on_the_grid)),
            claim("one λ, at every n", least(|c| c.bound(std::iter::once(0.15)))),
            claim("λ tuned to n, at every n", least(Coins::tuned_to_n)),
            claim("normal interval, at every n", least(Coins::normal_interval)),
        ]
    });
    assert_valid(&tallies[..4]);
    assert_flagged(&tallies[4..]);
}

//! Bets with a budget for the variance (docs/math.md#budget), on plays of policies that learn, drift and stop. The plan
//! of each world comes from plays before the certified ones, and the truth is the average of E[z_t | the past].

use guarantor_engine::bound::{Budget, Plan, Square, Start, Sums, Table};
use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::DELTAS;
use crate::harness::{Claim, Tally, assert_flagged, assert_valid, simulate};

const ARMS: usize = 4;
const TRIALS: u64 = 2000;
const START: Start = Start { theta: 0.0, strength: 5.0, fixed: true };

/// How the logging policy and the rewards behave.
#[derive(Debug, Clone, Copy, PartialEq)]
enum World {
    /// ε-greedy on the running means of the arms.
    Learns,
    /// The same, trained again once, at half of the rows.
    Retrained,
    /// The improvement drifts from −0.135 to 0.135, or back.
    Drifts(bool),
    /// Weights up to 20.
    Heavy,
    /// Rewards are rare.
    Rare,
    /// Plays the candidate itself, so that z is 0, as soon as Σ(E z − z) is at this many standard deviations.
    Stops(f64),
    /// The same with the standard deviation of the plays so far, from a variance of 60 on. Every reward is 1.
    StopsEarly(f64),
    /// As `Stops`, but with larger weights than those that the plan was made from.
    Widens(f64),
    /// The same with weights that are raised by nothing: about three times the budget is spent.
    Exceeds(f64),
    /// As `Stops`, and one row in 200 has a weight of 700.
    Huge(f64),
}

/// One log: z_t and E[z_t | the past].
struct Log {
    z: Vec<f64>,
    truth: f64,
}

const CANDIDATE: [f64; ARMS] = [0.7, 0.1, 0.1, 0.1];
const UNIFORM: [f64; ARMS] = [0.25; ARMS];

impl World {
    fn rewards(self, at: f64) -> [f64; ARMS] {
        match self {
            World::Drifts(up) => [if up { 0.8 - 0.6 * at } else { 0.2 + 0.6 * at }, 0.5, 0.5, 0.5],
            World::Rare => [0.02; ARMS],
            World::StopsEarly(_) => [1.0; ARMS],
            _ => [0.5, 0.5, 0.4, 0.6],
        }
    }

    fn draw(self, rows: usize, rng: &mut ChaCha8Rng) -> Log {
        let (mut z, mut truth) = (Vec::with_capacity(rows), 0.0);
        let (mut counts, mut sums, mut means) = ([1.0_f64; ARMS], [0.5_f64; ARMS], [0.5_f64; ARMS]);
        // Σ(E z − z) and the variance so far.
        let (mut ahead, mut variance) = (0.0_f64, 0.0_f64);
        let whole = 0.6 * rows as f64;
        let mut stopped = false;
        for t in 0..rows {
            let rewards = self.rewards(t as f64 / rows as f64);
            let trains = self == World::Learns || (self == World::Retrained && t == rows / 2);
            if trains {
                means = std::array::from_fn(|a| sums[a] / counts[a]);
            }
            stopped |= match self {
                World::Stops(level) | World::Widens(level) | World::Exceeds(level) | World::Huge(level) => {
                    ahead >= level * f64::sqrt(whole)
                }
                World::StopsEarly(level) => variance > 60.0 && ahead >= level * f64::sqrt(variance),
                _ => false,
            };
            let logging = match self {
                World::Learns | World::Retrained => {
                    let best = (0..ARMS).max_by(|&a, &b| means[a].total_cmp(&means[b])).unwrap_or(0);
                    std::array::from_fn(|a| 0.05 + if a == best { 0.8 } else { 0.0 })
                }
                _ if stopped => CANDIDATE,
                World::Heavy => [0.035, 0.3, 0.3, 0.365],
                World::Widens(_) => [0.13, 0.29, 0.29, 0.29],
                World::Exceeds(_) => [0.12, 0.29, 0.29, 0.3],
                World::Huge(_) if t % 200 == 100 => [0.001, 0.333, 0.333, 0.333],
                // w is 1.6 or 0.53, so that z is nearly symmetric.
                World::StopsEarly(_) => [0.4375, 0.1875, 0.1875, 0.1875],
                _ => UNIFORM,
            };
            let mut u: f64 = rng.random();
            let mut arm = 0;
            while arm + 1 < ARMS && u >= logging[arm] {
                u -= logging[arm];
                arm += 1;
            }
            let reward = f64::from(rng.random::<f64>() < rewards[arm]);
            (counts[arm], sums[arm]) = (counts[arm] + 1.0, sums[arm] + reward);
            let play = -(CANDIDATE[arm] / logging[arm] - 1.0) * reward;
            let mean: f64 = (0..ARMS).map(|a| (logging[a] - CANDIDATE[a]) * rewards[a]).sum();
            let square: f64 =
                (0..ARMS).map(|a| logging[a] * rewards[a] * (CANDIDATE[a] / logging[a] - 1.0).powi(2)).sum();
            ahead += mean - play;
            variance += square - mean * mean;
            truth += mean;
            z.push(play);
        }
        Log { z, truth: truth / rows as f64 }
    }

    /// The plan from 600 plays before the first certified one. An adversary does not stop among them.
    fn plan(self, rows: usize, delta: f64) -> Plan {
        let before = match self {
            World::Stops(_) | World::Widens(_) | World::Exceeds(_) | World::Huge(_) => {
                World::Stops(f64::INFINITY)
            }
            World::StopsEarly(_) => World::StopsEarly(f64::INFINITY),
            world => world,
        };
        let plays = before.draw(600, &mut ChaCha8Rng::seed_from_u64(7)).z;
        Plan::choose(&plays, None, 1, rows as u64, 0.02, delta).expect("a plan")
    }
}

fn table_of(z: &[f64]) -> Table {
    let mut table = Table::new(1);
    z.iter().for_each(|&z| table.push(z, None, None).expect("a number"));
    table
}

fn budget_of(plan: Plan, rows: usize, delta: f64) -> Budget {
    let variance = plan.expected;
    let lambda = move |delta: f64| f64::sqrt(2.0 * f64::ln(1.0 / delta) / (rows as f64 * variance)).min(0.5);
    Budget::new(plan, rows as f64, lambda, delta)
}

fn bound(plan: Plan, z: &[f64], delta: f64) -> f64 {
    let contexts = z.len() as f64;
    budget_of(plan, z.len(), delta).bound(&table_of(z), contexts, START).expect("a bound").value
}

fn tallies(
    world: World,
    rows: usize,
    seed: u64,
    wrong: impl Fn(Plan, &[f64], f64) -> f64 + Sync,
) -> Vec<Tally> {
    let plans = DELTAS.map(|delta| (world.plan(rows, delta), delta));
    println!("{world:?}, {rows} rows:");
    simulate(TRIALS, seed, |rng| {
        let log = world.draw(rows, rng);
        let claim = |&(plan, delta): &(Plan, f64)| Claim {
            name: "improvement",
            delta,
            bound: wrong(plan, &log.z, delta),
            truth: log.truth,
        };
        plans.iter().map(claim).collect()
    })
}

#[test]
fn budgets_hold_for_policies_that_learn_drift_and_stop() {
    let worlds = [
        World::Learns,
        World::Retrained,
        World::Drifts(true),
        World::Drifts(false),
        World::Heavy,
        World::Rare,
        World::Stops(2.2),
        World::Stops(1.6),
        World::StopsEarly(2.2),
        World::Widens(2.3),
        World::Widens(1.65),
        World::Exceeds(2.3),
        World::Huge(2.2),
    ];
    for (world, seed) in worlds.into_iter().zip(46_000..) {
        assert_valid(&tallies(world, 400, seed, bound));
    }
    assert_valid(&tallies(World::Stops(2.1), 3000, 46_050, bound));
    assert_valid(&tallies(World::Learns, 60, 46_051, bound));
}

/// What the engine sums up, a second time.
fn sums(plan: Plan, z: &[f64], lambda: f64) -> Sums {
    let square = Square::new(plan.low, plan.high);
    let raised: Vec<f64> = z.iter().map(|&z| z.max(plan.center - square.reach())).collect();
    Sums {
        z: raised.iter().sum(),
        spent: raised.iter().map(|z| square.of(z - plan.center)).sum(),
        logs: z.iter().map(|z| f64::ln_1p(-lambda * z)).sum(),
    }
}

/// Whoever counts what exceeds the budget as just the budget is wrong.
#[test]
fn an_exceeded_budget_that_is_ignored_is_detected() {
    let ignored = |plan: Plan, z: &[f64], delta: f64| {
        let budget = budget_of(plan, z.len(), delta);
        let sums = sums(plan, z, budget.lambda());
        let spent = sums.spent.min(0.999_999 * budget.budget());
        budget.invert(&Sums { spent, ..sums }, z.len() as f64, 1.0).expect("a bound")
    };
    let world = World::Exceeds(2.6);
    assert_valid(&tallies(world, 3000, 46_102, bound));
    assert_flagged(&tallies(world, 3000, 46_102, ignored)[..1]);
}

/// A budget that is chosen after the fact, as just what was spent, is wrong: a policy that stops while it is ahead of
/// the variance so far has many chances.
#[test]
fn a_budget_that_was_chosen_afterward_is_detected() {
    let fitted = |plan: Plan, z: &[f64], delta: f64| {
        let spent = sums(plan, z, 0.02).spent / z.len() as f64;
        let scale = (plan.expected / spent).sqrt();
        let plan = Plan {
            budget: spent * 1.000_001,
            expected: spent,
            low: plan.low * scale,
            high: (plan.high * scale).min(0.85),
            ..plan
        };
        // The slopes have changed what was spent a little.
        let spent = sums(plan, z, 0.02).spent / z.len() as f64;
        bound(Plan { budget: spent * 1.000_001, expected: spent, ..plan }, z, delta)
    };
    assert_flagged(&tallies(World::StopsEarly(1.65), 6000, 46_101, fitted)[1..]);
}

//! A simulated shop for `guarantor simulate --dataset shop`: every visit has three outcomes, revenue, complaints and
//! returns, which depend on each other. Offers that press harder sell more and cause more complaints, so a policy that
//! improves the revenue can hurt the others. The expectation of every outcome of every offer is known.

use ndarray::ArrayView2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use guarantor_engine::log::{NamedOutcome, Outcome, OutcomeKind};
use guarantor_engine::policy::{FeatureMap, PolicyParams, pick};

/// The number of features of a visit. The first is always 1.
pub const FEATURES: usize = 6;
/// The number of offers: plain, discount, bundle, upsell.
pub const ACTIONS: usize = 4;
/// The number of outcomes: revenue, complaint, return.
pub const OUTCOMES: usize = 3;
/// The largest revenue that counts.
pub const CAP: f64 = 60.0;

/// How hard each offer presses.
const PRESSURE: [f64; ACTIONS] = [0.0, 0.3, 0.6, 1.0];
/// Which offers the logging policy likes before it looks at a visit.
const HABIT: [f64; ACTIONS] = [0.8, 0.4, 0.0, -0.6];
/// The log-odds of a purchase where nothing else is known.
const OFFSET: f64 = -1.0;
/// The price of a purchase without pressure, and what it is multiplied by, with the probability of each.
const PRICE: f64 = 10.0;
const AMOUNTS: [(f64, f64); 5] = [(0.4, 0.3), (0.8, 0.3), (1.2, 0.2), (2.0, 0.15), (8.0, 0.05)];
/// From this multiple on, a purchase is large: it is complained about and returned more often.
const LARGE: f64 = 2.0;

type Table = Vec<[f64; ACTIONS]>;

/// The shop, its visits and its logging policy.
pub struct Shop {
    rng: ChaCha8Rng,
    taste: Table,
    /// Whom pressure annoys.
    temper: Vec<f64>,
    /// How much pressure causes complaints.
    conflict: f64,
    policy: PolicyParams,
}

/// A visit, what the logging policy offered, what came of it, and the truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// The features.
    pub x: Vec<f32>,
    /// π0(·|x).
    pub propensities: Vec<f64>,
    /// The offer that was made.
    pub action: u32,
    /// Revenue (not cut), complaint and return.
    pub outcomes: [f64; OUTCOMES],
    /// The expectation of each outcome of each offer, with the revenue cut at [`CAP`].
    pub truth: [[f64; OUTCOMES]; ACTIONS],
}

/// The outcomes as an upload declares them.
pub fn outcomes() -> Vec<NamedOutcome> {
    let named = |name: &str, kind, max, cap| {
        let outcome = Outcome { kind, min: 0.0, max, cap, floor: None };
        NamedOutcome { name: name.into(), outcome }
    };
    vec![
        named("revenue", OutcomeKind::Reward, CAP, Some(CAP)),
        named("complaint", OutcomeKind::Cost, 1.0, None),
        named("return", OutcomeKind::Cost, 1.0, None),
    ]
}

impl Shop {
    /// A shop and the stream of its visits. `alpha` is the inverse temperature of the logging policy. The same numbers
    /// give the same log.
    pub fn new(world: u64, seed: u64, alpha: f64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(world);
        rng.set_stream(3);
        let mut row = || std::array::from_fn(|_| 0.5 * standard_normal(&mut rng));
        let taste: Table = (0..FEATURES).map(|_| row()).collect();
        let temper = (0..FEATURES).map(|_| 0.8 * standard_normal(&mut rng)).collect();
        let belief = |(j, row): (usize, &[f64; ACTIONS])| {
            let habit = if j == 0 { HABIT } else { [0.0; ACTIONS] };
            row.iter().zip(habit).map(|(taste, habit)| 0.5 * taste + habit).collect()
        };
        let mean = taste.iter().enumerate().map(belief).collect();
        let policy =
            PolicyParams::Softmax { mean, inverse_temperature: alpha, features: FeatureMap::default() };
        let mut visits = ChaCha8Rng::seed_from_u64(seed);
        visits.set_stream(4);
        Shop { rng: visits, taste, temper, conflict: 1.0, policy }
    }

    /// The same shop, in which pressure causes `conflict` times as many complaints; none if it is 0.
    pub fn with_conflict(self, conflict: f64) -> Self {
        Shop { conflict: conflict.clamp(0.0, 2.0), ..self }
    }

    /// The same shop, logged by another policy: the next round.
    ///
    /// # Errors
    /// If the policy does not have this world's features and actions.
    pub fn with_policy(self, policy: PolicyParams) -> Result<Self, String> {
        let (features, actions) = (policy.dim(), policy.n_actions());
        if policy.plays_sets() || (features, actions) != (FEATURES, ACTIONS) {
            return Err(format!(
                "the policy has {features} features and {actions} actions, but the shop has {FEATURES} and {ACTIONS}"
            ));
        }
        Ok(Shop { policy, ..self })
    }

    /// The logging policy.
    pub fn policy(&self) -> &PolicyParams {
        &self.policy
    }

    /// The next visit.
    pub fn visit(&mut self) -> Visit {
        let mut feature = |j: usize| match j {
            0 => 1.0,
            _ => ((standard_normal(&mut self.rng) * 1e3).round() / 1e3) as f32,
        };
        let x: Vec<f32> = (0..FEATURES).map(&mut feature).collect();
        let propensities = self.propensities(&x);
        let action = pick(propensities.iter().copied(), self.rng.random());
        let [bought, amount, complains, returns]: [f64; 4] = std::array::from_fn(|_| self.rng.random());
        let offer = self.offer(&x, action);
        let purchase = (bought < offer.buys).then(|| amount_of(amount));
        let outcomes = [
            purchase.map_or(0.0, |multiple| offer.price * multiple),
            f64::from(u8::from(complains < offer.complains(purchase))),
            f64::from(u8::from(returns < offer.returns(purchase))),
        ];
        let truth = std::array::from_fn(|a| self.offer(&x, a).expected());
        Visit { x, propensities, action: action as u32, outcomes, truth }
    }

    fn propensities(&self, x: &[f32]) -> Vec<f64> {
        // `with_policy` has checked what can be wrong.
        let uniform = || vec![1.0 / ACTIONS as f64; ACTIONS];
        let pi = ArrayView2::from_shape((1, FEATURES), x).ok().and_then(|x| self.policy.propensities(x).ok());
        pi.map_or_else(uniform, |pi| pi.row(0).to_vec())
    }

    fn offer(&self, x: &[f32], action: usize) -> Offer {
        let sum = |weights: &mut dyn Iterator<Item = f64>| -> f64 {
            weights.zip(x).map(|(weight, &x)| weight * f64::from(x)).sum()
        };
        let (pressure, taste) = (PRESSURE[action], sum(&mut self.taste.iter().map(|row| row[action])));
        let annoyed = logistic(sum(&mut self.temper.iter().copied()));
        Offer {
            buys: logistic(OFFSET + 0.6 * pressure + taste),
            price: PRICE * (1.0 + 1.5 * pressure),
            complaints: 0.02 + self.conflict * pressure * (0.05 + 0.25 * annoyed),
            pressure,
        }
    }
}

/// What an offer leads to in a visit.
struct Offer {
    /// The probability of a purchase.
    buys: f64,
    price: f64,
    /// The probability of a complaint without a large purchase.
    complaints: f64,
    pressure: f64,
}

impl Offer {
    /// The probability of a complaint after this purchase.
    fn complains(&self, purchase: Option<f64>) -> f64 {
        self.complaints + if purchase.is_some_and(|multiple| multiple >= LARGE) { 0.1 } else { 0.0 }
    }

    /// The probability that this purchase is returned.
    fn returns(&self, purchase: Option<f64>) -> f64 {
        let large = |multiple: f64| if multiple >= LARGE { 0.2 } else { 0.0 };
        purchase.map_or(0.0, |multiple| 0.05 + 0.1 * self.pressure + large(multiple))
    }

    /// The expectation of each outcome.
    fn expected(&self) -> [f64; OUTCOMES] {
        let of = |purchase: Option<f64>| {
            let revenue = purchase.map_or(0.0, |multiple| (self.price * multiple).min(CAP));
            [revenue, self.complains(purchase), self.returns(purchase)]
        };
        let nothing = of(None).map(|value| (1.0 - self.buys) * value);
        AMOUNTS.iter().fold(nothing, |sum, &(multiple, p)| {
            let bought = of(Some(multiple));
            std::array::from_fn(|i| sum[i] + self.buys * p * bought[i])
        })
    }
}

/// The multiple of the price that a uniform number draws.
fn amount_of(mut uniform: f64) -> f64 {
    for (multiple, p) in AMOUNTS {
        if uniform < p {
            return multiple;
        }
        uniform -= p;
    }
    AMOUNTS[0].0
}

fn logistic(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

fn standard_normal(rng: &mut ChaCha8Rng) -> f64 {
    let u: f64 = 1.0 - rng.random::<f64>();
    let v: f64 = rng.random();
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of what was logged, of what was expected from the logging policy, and of what is expected from always
    /// making the offer with the largest revenue.
    fn means(shop: &mut Shop, visits: usize) -> [[f64; OUTCOMES]; 3] {
        let mut sums = [[0.0; OUTCOMES]; 3];
        for _ in 0..visits {
            let visit = shop.visit();
            let best = (0..ACTIONS).max_by(|&a, &b| visit.truth[a][0].total_cmp(&visit.truth[b][0]));
            for i in 0..OUTCOMES {
                let seen = visit.outcomes[i];
                sums[0][i] += if i == 0 { seen.min(CAP) } else { seen };
                let expected = visit.propensities.iter().zip(&visit.truth).map(|(p, truth)| p * truth[i]);
                sums[1][i] += expected.sum::<f64>();
                sums[2][i] += visit.truth[best.unwrap()][i];
            }
        }
        sums.map(|means| means.map(|sum| sum / visits as f64))
    }

    #[test]
    fn the_truth_is_that_of_the_log_and_more_revenue_means_more_complaints() {
        let n = 40_000;
        let [logged, expected, best] = means(&mut Shop::new(0, 1, 0.5), n);
        for (i, width) in [CAP, 1.0, 1.0].into_iter().enumerate() {
            // Six standard errors of a number in a range of this width.
            assert!(
                (logged[i] - expected[i]).abs() < 3.0 * width / (n as f64).sqrt(),
                "{i}: {logged:?} {expected:?}"
            );
        }
        assert!(best[0] > expected[0] + 1.0, "{best:?} {expected:?}");
        assert!(best[1] > expected[1] + 0.03, "{best:?} {expected:?}");
        let [_, expected, best] = means(&mut Shop::new(0, 1, 0.5).with_conflict(0.0), n);
        assert!(best[1] < expected[1] + 0.02, "{best:?} {expected:?}");
    }

    #[test]
    fn another_policy_can_log() {
        let uniform = PolicyParams::Uniform { n_actions: ACTIONS, dim: FEATURES };
        let mut shop = Shop::new(2, 3, 1.0).with_policy(uniform).unwrap();
        assert_eq!(shop.visit().propensities, [0.25; 4]);
        let wrong = PolicyParams::Uniform { n_actions: 3, dim: FEATURES };
        assert!(Shop::new(2, 3, 1.0).with_policy(wrong).is_err());
        assert_eq!(Shop::new(2, 3, 1.0).visit(), Shop::new(2, 3, 1.0).visit());
    }
}

//! Worlds in which bounds have failed before, or could: each with a candidate that is as good as the logging
//! policy, or nearly, and logs that suggest otherwise.

use guarantor_engine::policy::PolicyParams;
use ndarray::Array2;

use crate::world::{ACTIONS, Outcomes, World};

/// A world and the policies that are evaluated in it, as their propensities in each context.
pub struct Null {
    pub world: World,
    pub candidates: Vec<PolicyParams>,
}

/// Contexts of a world.
const CONTEXTS: usize = 4;

/// A softmax policy on one-hot features that plays with these propensities.
pub fn playing(pi: impl Fn(usize, usize) -> f64, contexts: usize) -> PolicyParams {
    // exp(−1000) is 0.
    let score = |p: f64| if p > 0.0 { p.ln() } else { -1000.0 };
    let mean = (0..contexts).map(|c| (0..ACTIONS).map(|a| score(pi(c, a))).collect()).collect();
    PolicyParams::Softmax { mean, inverse_temperature: 1.0, features: Default::default() }
}

/// A world of contexts with one-hot features. Rows of `logging` are scaled to sum to 1.
fn world(
    outcomes: Outcomes,
    reward: impl Fn(usize, usize) -> f64,
    logging: impl Fn(usize, usize) -> f64,
) -> World {
    let mut pi = Array2::from_shape_fn((CONTEXTS, ACTIONS), |(c, a)| logging(c, a));
    pi.rows_mut().into_iter().for_each(|mut row| row /= row.sum());
    World {
        x: Array2::from_shape_fn((CONTEXTS, CONTEXTS), |(c, j)| f32::from(u8::from(c == j))),
        costs: Array2::from_shape_fn((CONTEXTS, ACTIONS), |(c, a)| -reward(c, a)),
        logging: pi,
        outcomes,
        most_interactions: 1,
        full_propensities: true,
    }
}

fn null(world: World, pi: impl Fn(usize, usize) -> f64) -> Null {
    let candidates = vec![playing(pi, world.x.nrows())];
    Null { world, candidates }
}

/// Plays `action` with this probability, and the others alike.
fn mostly(action: usize, share: f64) -> impl Fn(usize, usize) -> f64 {
    move |_, a| if a == action { share } else { (1.0 - share) / (ACTIONS - 1) as f64 }
}

/// Rewards are between 0.001 and 0.01, and no action has more of them.
pub fn rare_rewards() -> Null {
    let level = [0.001, 0.002, 0.005, 0.01];
    null(world(Outcomes::Bernoulli, move |c, _| level[c], |_, a| 1.0 + a as f64), mostly(0, 0.9))
}

/// In each context the candidate plays an action that was logged with probability 10⁻¹ to 10⁻⁴.
pub fn heavy_weights() -> Null {
    let logging = |c: usize, a: usize| if a == 0 { 0.1f64.powi(c as i32 + 1) } else { 1.0 / 3.0 };
    null(world(Outcomes::Bernoulli, |_, _| 0.5, logging), mostly(0, 0.97))
}

/// Half of the contexts have hardly any variance and an improvement of 0.04. The others have a large one and an
/// improvement of −0.04.
pub fn heteroscedastic() -> Null {
    let reward = |c: usize, a: usize| match (c % 2, a) {
        (0, 0) => 0.99,
        (0, _) => 0.95,
        (_, 0) => 0.46,
        (_, _) => 0.50,
    };
    let logging = |c: usize, a: usize| match (c % 2, a) {
        (0, 0) => 3.0,
        (1, 0) => 0.1,
        _ => 1.0,
    };
    null(world(Outcomes::Bernoulli, reward, logging), mostly(0, 0.97))
}

/// All costs are the same number, so only the weights vary.
pub fn equal_costs() -> Null {
    null(world(Outcomes::Exact, |_, _| 0.4, |_, a| 1.0 + a as f64), mostly(0, 0.7))
}

/// There is no reward at all, so every z is 0.
pub fn no_rewards() -> Null {
    null(world(Outcomes::Exact, |_, _| 0.0, |_, a| 1.0 + a as f64), mostly(0, 0.7))
}

/// Costs between −1 and 0 that differ by context and action.
pub fn continuous() -> Null {
    let reward = |c: usize, a: usize| 0.2 + 0.15 * ((c + a) % 4) as f64;
    null(world(Outcomes::Continuous, reward, |_, a| 1.0 + a as f64), mostly(1, 0.8))
}

/// The candidate is the logging policy. Every z of the improvement is 0.
pub fn same_policy() -> Null {
    let logging = |_: usize, a: usize| (1.0 + a as f64) / 10.0;
    null(world(Outcomes::Bernoulli, |c, _| 0.2 * (1.0 + c as f64), logging), logging)
}

/// The candidate plays an action that was never logged half of the time. It has no reward, so that nothing is lost
/// by counting it as 0, which is the least that is known.
pub fn missing_support() -> Null {
    let reward = |c: usize, a: usize| if a == 0 { 0.0 } else { 0.1 * (a + c) as f64 };
    null(world(Outcomes::Continuous, reward, |_, a| f64::from(u8::from(a > 0))), mostly(0, 0.5))
}

/// The candidate never plays an action that is logged in 2% of rows and always rewarded. z is 1 in those rows and
/// at most 0 in all others, so logs without any such row look good.
pub fn rare_losses() -> Null {
    let reward = |_: usize, a: usize| if a == 0 { 1.0 } else { 0.3 };
    let logging = |_: usize, a: usize| if a == 0 { 0.02 } else { 0.98 / 3.0 };
    null(world(Outcomes::Bernoulli, reward, logging), mostly(0, 0.0))
}

/// The candidate always plays an action that is logged in 1% of rows. z is −99 in half of those rows and at least
/// 0 in all others, so one lucky row looks like much.
pub fn rare_wins() -> Null {
    let logging = |_: usize, a: usize| if a == 0 { 0.01 } else { 0.33 };
    null(world(Outcomes::Bernoulli, |_, _| 0.5, logging), mostly(0, 1.0))
}

/// Contexts that were logged up to 12 times each, and that are good or bad whatever the action.
pub fn repetitions() -> Null {
    null(World { most_interactions: 12, ..World::few_contexts_often() }, mostly(0, 0.6))
}

/// Contexts that were logged up to five times each, with costs of all sizes.
pub fn few_repetitions() -> Null {
    null(World::repeated(), mostly(1, 0.7))
}

/// An easy world: no weight is above 4, and one action is a little better.
pub fn easy() -> Null {
    let reward = |c: usize, a: usize| 0.3 + 0.1 * c as f64 + if a == 0 { 0.05 } else { 0.0 };
    null(world(Outcomes::Bernoulli, reward, |_, _| 1.0), mostly(0, 0.9))
}

/// An easy world with costs of all sizes and no weight above 2.5.
pub fn easy_continuous() -> Null {
    let reward = |c: usize, a: usize| 0.3 + 0.1 * ((c + a) % 4) as f64;
    null(world(Outcomes::Continuous, reward, |_, a| 1.0 + 0.2 * a as f64), mostly(2, 0.75))
}

/// Several candidates in one world.
pub fn with_many(null: Null) -> Null {
    let contexts = null.world.x.nrows();
    let shifted = |by: usize| playing(move |c, a| mostly((by + c) % ACTIONS, 0.9)(c, a), contexts);
    let candidates = null.candidates.into_iter().chain((0..ACTIONS).map(shifted)).collect();
    Null { candidates, ..null }
}

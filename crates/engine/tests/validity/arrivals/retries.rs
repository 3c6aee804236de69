//! Users who retry until they succeed. How often a context is logged then depends on its outcomes.

use std::sync::Arc;

use guarantor_engine::log::{Logging, Repetitions};
use guarantor_engine::policy::PolicyParams;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::case::{Case, STEADY, always, evaluating};
use super::nature::{ACTIONS, one_hot};
use super::stream::{Moment, Stream, bernoulli};
use super::{CONTEXTS, DELTAS, LOGS, ROWS};
use crate::harness::{Claim, assert_flagged, assert_valid, simulate};
use crate::jobs::run_job;

/// The chance of success of the first two actions and of the last two, for each kind of user. The features do not
/// tell the kinds apart.
struct Users {
    easy: [f64; 2],
    hard: [f64; 2],
}

/// The last action is worse than the uniform policy by 0.0125 on average over users. Hard users retry often, and
/// for them it is better, so it is better on average over decisions.
const WORSE_BY_USER: Users = Users { easy: [1.0, 0.75], hard: [0.0, 0.2] };

/// The last action is better on average over users, and worse on average over decisions.
const WORSE_BY_DECISION: Users = Users { easy: [0.8, 1.0], hard: [0.08, 0.04] };

/// The mean improvement of the last action over users.
fn improvement_by_user(users: &Users) -> f64 {
    let gain = |[first, last]: [f64; 2]| 0.5 * (last - first);
    0.5 * (gain(users.easy) + gain(users.hard))
}

#[derive(Clone, Copy)]
struct User {
    id: u64,
    context: usize,
    success: [f64; 2],
}

impl User {
    /// The mean cost of an action.
    fn cost(&self, action: usize) -> f64 {
        -self.success[action / (ACTIONS / 2)]
    }
}

/// Up to this many users wait to retry at a time.
const WAITING: usize = 8;

/// A log of the uniform policy.
fn retrying(users: &Users, rows: usize, rng: &mut ChaCha8Rng) -> Stream {
    let mut stream = Stream::empty(one_hot(CONTEXTS), true);
    let (mut waiting, mut ids, mut next) = (Vec::<User>::new(), Vec::new(), 0);
    let newcomer = of_newcomer(users);
    for _ in 0..rows {
        let retries = waiting.len() >= WAITING || (!waiting.is_empty() && rng.random::<f64>() < 0.7);
        let user = if retries {
            let user = waiting.swap_remove(rng.random_range(0..waiting.len()));
            stream.moments.push(of_known(&user));
            user
        } else {
            let success = if rng.random() { users.easy } else { users.hard };
            next += 1;
            stream.moments.push(newcomer.clone());
            User { id: next, context: rng.random_range(0..CONTEXTS), success }
        };
        let action = rng.random_range(0..ACTIONS);
        let cost = bernoulli(user.cost(action), rng);
        stream.push(user.context, action, cost, &[1.0 / ACTIONS as f64; ACTIONS]);
        ids.push(user.id);
        if cost == 0.0 {
            waiting.push(user);
        }
    }
    stream.columns.contexts = Some(ids);
    stream
}

/// What is true of the first row of a user.
fn of_newcomer(users: &Users) -> Moment {
    let mean = |a: usize| -0.5 * (users.easy[a / (ACTIONS / 2)] + users.hard[a / (ACTIONS / 2)]);
    moment(|_, a| mean(a) / CONTEXTS as f64)
}

/// What is true of a row of a user who was there before.
fn of_known(user: &User) -> Moment {
    moment(|x, a| if x == user.context { user.cost(a) } else { 0.0 })
}

fn moment(cost: impl Fn(usize, usize) -> f64) -> Moment {
    let cells = (0..CONTEXTS).flat_map(|x| (0..ACTIONS).map(move |a| (x, a)));
    let costs: Arc<[f64]> = cells.map(|(x, a)| cost(x, a)).collect();
    let baseline = costs.iter().sum::<f64>() / ACTIONS as f64;
    Moment { baseline, costs, shadow: baseline }
}

fn last_action() -> PolicyParams {
    always(ACTIONS - 1, CONTEXTS)
}

#[test]
fn retries_as_decisions_hold() {
    assert_valid(&simulate(LOGS, 10_200, |rng| {
        let users = if rng.random() { &WORSE_BY_USER } else { &WORSE_BY_DECISION };
        let mut stream = retrying(users, 2 * ROWS, rng);
        Case::with_logged_candidate(&mut stream, last_action()).claims(rng)
    }));
}

/// The rows of a user are grouped as if their number had been designed, and the improvement by user is bounded.
#[test]
fn retries_that_are_attested_as_designed_are_caught() {
    let truth = improvement_by_user(&WORSE_BY_USER);
    assert!((truth + 0.0125).abs() < 1e-12);
    assert_flagged(&simulate(16, 10_210, |rng| {
        let mut stream = retrying(&WORSE_BY_USER, 30_000, rng);
        stream.columns.logging = Logging::Fixed;
        stream.columns.repetitions = Repetitions::Designed;
        let case = Case::new(&stream, last_action());
        let claim = |delta: f64| {
            let request = evaluating(STEADY, delta);
            let certificate = run_job(&request, &case.log, &case.policies).certificate;
            let excess = certificate.guaranteed_improvement - truth;
            Claim::that_none_exceeds("retries as designed", [excess]).at(delta)
        };
        DELTAS.map(claim).into()
    }));
}

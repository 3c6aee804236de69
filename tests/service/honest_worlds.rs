//! Worlds in which nothing is gained, through the real server with its defaults: how often does it say `deploy`? The
//! engine's validity suite counts over many more logs.

use crate::common;
use crate::honest::logged;

use common::{Client, Server, id_of};
use serde_json::{Value, json};

const LOGS: u64 = 12;
/// At δ = 0.05, more than two wrong decisions among twelve have a probability below 0.02.
const ALLOWED: usize = 2;
/// The propensities of a policy that chooses equally among four actions.
const EQUALLY: [f64; 4] = [0.25; 4];

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    fn draw(&mut self, propensities: &[f64]) -> usize {
        let mut left = self.next();
        for (action, p) in propensities.iter().enumerate() {
            left -= p;
            if left < 0.0 {
                return action;
            }
        }
        propensities.len() - 1
    }
}

fn deploys(client: &Client, spec: Value) -> bool {
    let done = client.finish(&client.submit(spec));
    assert_eq!(done["status"], "succeeded", "{done}");
    done["result"]["decision"] == "deploy"
}

/// A log of a policy that was retrained once, at 60 % of the rows, on its own log. All actions are equally good.
fn retrained(seed: u64, rows: usize) -> String {
    let mut random = Random(seed);
    let mut sums = [[(0.0, 0.0); 3]; 8];
    let mut out = String::new();
    for i in 0..rows {
        let segment = (random.next() * 8.0) as usize;
        let best = (0..3).max_by(|&a, &b| {
            let mean = |(sum, count): (f64, f64)| sum / f64::max(count, 1.0);
            mean(sums[segment][a]).total_cmp(&mean(sums[segment][b]))
        });
        let learned = i * 10 >= rows * 6;
        let propensities: [f64; 3] = std::array::from_fn(|action| match learned {
            true if best == Some(action) => 0.9,
            true => 0.05,
            false => 1.0 / 3.0,
        });
        let action = random.draw(&propensities);
        let reward = f64::from(u8::from(random.next() < 0.5));
        if !learned {
            let (sum, count) = &mut sums[segment][action];
            (*sum, *count) = (*sum + reward, *count + 1.0);
        }
        let x: [u8; 8] = std::array::from_fn(|j| u8::from(j == segment));
        out += &format!(
            "{}\n",
            json!({"x": x, "action": action, "propensities": propensities, "reward": reward})
        );
    }
    out
}

#[test]
fn a_policy_that_was_retrained_on_its_own_log_gains_nothing() {
    let server = Server::start();
    let client = server.client();
    let wrong = (0..LOGS).filter(|seed| {
        let dataset = id_of(&client.upload("?outcome=reward", &retrained(1000 + seed, 1000)).expect(201));
        deploys(&client, json!({"dataset_id": dataset, "optimizer": {"epochs": 3}}))
    });
    let wrong = wrong.count();
    assert!(wrong <= ALLOWED, "{wrong} of {LOGS}");
}

/// Users who retry until they succeed. The last action is better for users and worse by 0.0125 for decisions, because
/// users for whom it is worse retry often.
fn retrying(seed: u64, rows: usize) -> String {
    let mut random = Random(seed);
    let mut out = String::new();
    let (mut user, mut logged) = (0, 0);
    while logged < rows {
        user += 1;
        let [first, last] = if random.next() < 0.5 { [0.8, 1.0] } else { [0.08, 0.04] };
        loop {
            let action = random.draw(&EQUALLY);
            let success = random.next() < if action < 2 { first } else { last };
            let row = json!({"context_id": format!("user {user}"), "action": action, "propensities": EQUALLY,
                "reward": u8::from(success), "candidates": {"last": u8::from(action == 3)}});
            out += &format!("{row}\n");
            logged += 1;
            if success || logged >= rows {
                break;
            }
        }
    }
    out
}

#[test]
fn users_who_retry_until_they_succeed_make_no_policy_better() {
    let server = Server::start();
    let client = server.client();
    let wrong = (0..LOGS).filter(|seed| {
        let dataset = client
            .upload("?outcome=reward&exact_propensities=true", &retrying(2000 + seed, 1500))
            .expect(201);
        assert_eq!(dataset["repetitions"], "decisions");
        deploys(&client, logged(&id_of(&dataset), "last"))
    });
    let wrong = wrong.count();
    assert!(wrong <= ALLOWED, "{wrong} of {LOGS}");
}

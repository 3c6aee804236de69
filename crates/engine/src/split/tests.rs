//! Small logs with known answers.

use super::*;
use crate::control::unattended;
use crate::log::{Columns, Logging, MemoryLog, Split};
use crate::numerics::elementary::exp;
use crate::numerics::random::standard_normal;
use crate::policy::{pick, softmax};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const P: usize = 4;
const K: usize = 5;

/// A log of `rows` rows. `logging` gives π0(·|x) and `reward` the mean reward of each action.
fn log(
    rows: usize,
    logging: impl Fn(&[f64]) -> [f64; K],
    reward: impl Fn(&[f64], usize) -> f64,
) -> MemoryLog {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut columns = Columns { n_actions: K, dim: P, logging: Logging::Fixed, ..Columns::default() };
    let mut full = Vec::new();
    for _ in 0..rows {
        let x: Vec<f64> = (0..P).map(|_| standard_normal(&mut rng)).collect();
        let pi = logging(&x);
        let action = pick(pi.iter().copied(), rng.random());
        columns.x.extend(x.iter().map(|&v| v as f32));
        columns.actions.push(action as u32);
        columns.costs.push(if rng.random::<f64>() < reward(&x, action) { -1.0 } else { 0.0 });
        columns.propensities.push(pi[action]);
        full.extend(pi);
    }
    MemoryLog::new(Columns { full: Some(full), ..columns }).unwrap()
}

/// A linear score of an action; `salt` makes different ones.
fn score(x: &[f64], action: usize, salt: usize) -> f64 {
    (0..P).map(|j| x[j] * (((action * 7 + j * 5 + salt * 3) % 11) as f64 * 0.2 - 1.0)).sum()
}

fn best(x: &[f64], salt: usize) -> usize {
    (0..K).max_by(|&a, &b| score(x, a, salt).total_cmp(&score(x, b, salt))).unwrap()
}

fn soft(x: &[f64]) -> [f64; K] {
    let mut scores: [f32; K] = std::array::from_fn(|a| 0.5 * score(x, a, 0) as f32);
    softmax(&mut scores);
    let total: f64 = scores.iter().map(|&q| f64::from(q)).sum();
    scores.map(|q| f64::from(q) / total)
}

/// ε-greedy with ε = 0.3 around a ranking that has nothing to do with the rewards.
fn peaked(x: &[f64]) -> [f64; K] {
    std::array::from_fn(|a| 0.3 / K as f64 + if a == best(x, 1) { 0.7 } else { 0.0 })
}

/// About one reward in twenty rows, more for actions with a high score.
fn rare(x: &[f64], action: usize) -> f64 {
    1.0 / (1.0 + exp(3.6 - score(x, action, 0)))
}

fn label(x: &[f64], action: usize) -> f64 {
    f64::from(u8::from(action == best(x, 0)))
}

fn rows(log: &MemoryLog) -> Rows<'_> {
    Rows::new(log, &Span::Hash(Split { seed: 0, fraction: 0.5 }), Side::Learn).unwrap()
}

fn learned(log: &MemoryLog) -> PartOne {
    let target = Target { contexts: 3000, improvement_delta: 0.04 };
    learn(log, &Span::Hash(Split { seed: 0, fraction: 0.5 }), &target, 0, &unattended()).unwrap()
}

/// The scores of the start, and those that π0 was made of, each less its mean over the actions.
fn start_and_truth(log: &MemoryLog, link: ScoreLink) -> Vec<(f64, f64)> {
    let rows = rows(log);
    let members: Vec<u32> = (0..rows.len() as u32).collect();
    let fit = fit_logging(&rows, &members, K).unwrap().unwrap();
    let start = start(&rows, &members, Some(&fit), K, link).unwrap();
    let s = rows.standardized(&members).unwrap();
    let found = crate::numerics::matrix::product(s.view(), start.linear.view()) + &start.constant;
    let mut pairs = Vec::new();
    rows.each(&members, |i, context| {
        let found = found.row(i);
        let logs: Vec<f64> =
            context.full.unwrap().iter().map(|&q| crate::numerics::elementary::ln(q)).collect();
        let means = (found.sum() as f64 / K as f64, logs.iter().sum::<f64>() / K as f64);
        pairs.extend(found.iter().zip(&logs).map(|(f, l)| (*f as f64 - means.0, l - means.1)));
        Ok(())
    })
    .unwrap();
    pairs
}

#[test]
fn training_starts_from_log_pi0_if_it_predicts_rewards() {
    for link in [ScoreLink::Competing, ScoreLink::Separate] {
        let pairs = start_and_truth(&log(2000, soft, label), link);
        let sum = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>();
        let slope = sum(&|(f, l)| f * l) / sum(&|(_, l)| l * l);
        let rest = sum(&|(f, l)| (f - slope * l) * (f - slope * l)) / sum(&|(f, _)| f * f);
        assert!(slope > 1.0 && rest < 0.01, "{link:?}: slope {slope}, unexplained {rest}");
        // Rewards that do not depend on the action.
        let pairs = start_and_truth(&log(2000, soft, |_, _| 0.3), ScoreLink::Separate);
        let slope =
            pairs.iter().map(|(f, l)| f * l).sum::<f64>() / pairs.iter().map(|(_, l)| l * l).sum::<f64>();
        assert!(slope.abs() < 0.2, "slope {slope}");
    }
}

#[test]
fn the_family_that_fits_is_used_alone() {
    let choice = &learned(&log(2000, soft, label)).choices[0];
    assert!(choice.starts_with("actions modeled as competing"), "{choice}");
    let log = log(6000, peaked, rare);
    let part = learned(&log);
    assert!(part.choices[0].starts_with("actions modeled separately"), "{}", part.choices[0]);
    assert_eq!(part.calibration.unwrap().link, ScoreLink::Separate);
    // The policy plays what pays and not what π0 plays.
    let rows = rows(&log);
    let members: Vec<u32> = (0..rows.len() as u32).collect();
    let scores = part.policy.scores(rows.features_of(&members).unwrap().view()).unwrap().scores;
    let share = |salt: usize| {
        let x = rows.features_of(&members).unwrap();
        let plays = |i: &usize| {
            let x: Vec<f64> = x.row(*i).iter().map(|&v| v as f64).collect();
            greedy(scores.row(*i).as_slice().unwrap()) == best(&x, salt)
        };
        (0..members.len()).filter(plays).count() as f64 / members.len() as f64
    };
    assert!(share(0) > 0.5 && share(0) > share(1), "{} and {}", share(0), share(1));
}

#[test]
fn the_same_on_any_number_of_threads() {
    let log = log(1000, soft, label);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let four = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let (a, b) = (one.install(|| learned(&log)), four.install(|| learned(&log)));
    assert_eq!(a.policy, b.policy);
    assert_eq!((a.improvement, a.risk, a.choices), (b.improvement, b.risk, b.choices));
}

#[test]
fn efforts() {
    let recipe =
        |width: usize| Recipe { family: LossFamily::Competing, width, epochs: 36, decay: 0.1, seed: 0 };
    // A log of 1000 rows; FashionMNIST, with the fewest passes; and a few rows, with the fewest steps.
    assert_eq!(recipe(128).effort(375, 10, 4), train::Effort { batch: 16, steps: 843 });
    assert_eq!(recipe(128).effort(30_780, 784, 10), train::Effort { batch: 256, steps: 1202 });
    assert_eq!(recipe(128).effort(10, 10, 4), train::Effort { batch: 10, steps: 300 });
    assert_eq!((width(500, 10, 4), width(500, 1000, 4)), (WIDE, NARROW));
}

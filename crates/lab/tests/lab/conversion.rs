//! The conversion of examples into logs, recomputed here from the formulas.

use guarantor_engine::control::unattended;
use guarantor_engine::log::{LogSource, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_lab::{Conversion, Examples, Labels, Logger, Plan, Supervised, rewards, true_risk};
use ndarray::Array2;

use crate::fashion::Fashion;

/// Every row as (context, action, cost, propensity, weight).
fn rows(log: &MemoryLog) -> Vec<(usize, u32, f64, f64, f64)> {
    let mut all = Vec::new();
    for index in 0..log.chunks() {
        let chunk = log.chunk(index).unwrap();
        for c in 0..chunk.contexts() {
            let context = chunk.context(c);
            for j in 0..context.actions.len() {
                let row = (context.actions[j], context.costs[j], context.propensities[j], context.weights[j]);
                all.push((chunk.ordinals[c] as usize, row.0, row.1, row.2, row.3));
            }
        }
    }
    all
}

fn mean_cost(log: &MemoryLog) -> f64 {
    let rows = rows(log);
    rows.iter().map(|row| row.2).sum::<f64>() / rows.len() as f64
}

/// A multi-label dataset of clusters: each example has the label of its cluster, sometimes a second one,
/// rarely none.
fn clusters(n: usize, n_actions: usize, dim: usize) -> Supervised {
    let mut state = 12345u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let mut examples = |n: usize| {
        let (mut x, mut labels) = (Array2::zeros((n, dim)), Labels::default());
        for i in 0..n {
            let y = next() % n_actions;
            for j in 0..dim {
                x[(i, j)] = (next() % 100) as f32 / 200.0 + if j % n_actions == y { 1.0 } else { 0.0 };
            }
            let norm = x.row(i).dot(&x.row(i)).sqrt();
            x.row_mut(i).mapv_inplace(|v| v / norm);
            match next() % 10 {
                0 => labels.push(&[]),
                1 if y > 0 => labels.push(&[0, y as u32]),
                _ => labels.push(&[y as u32]),
            }
        }
        Examples { x, labels }
    };
    Supervised { name: "clusters".into(), n_actions, train: examples(n), test: examples(n / 4) }
}

/// exp(α xᵀμ_a) over its sum, from the parameters alone.
fn softmax(policy: &PolicyParams, alpha: f64, x: &[f32]) -> Vec<f64> {
    let mean = policy.mean().unwrap();
    let score = |a: usize| x.iter().zip(mean).map(|(&v, row)| v as f64 * row[a]).sum::<f64>();
    let powers: Vec<f64> = (0..mean[0].len()).map(|a| (alpha * score(a)).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|p| p / total).collect()
}

#[test]
fn a_conversion_follows_the_paper() {
    let data = clusters(2050, 7, 20);
    let (alpha, m) = (0.7, 3);
    let bandit = Conversion { alpha, interactions: m, seed: 5, contexts: None }.run(&data).unwrap();
    let shape = bandit.log.shape();
    // n_l = ⌊0.05 · 2050⌋ = 102 are set aside.
    assert_eq!((shape.contexts, shape.rows, shape.n_actions, shape.dim), (1948, 1948 * 3, 7, 20));
    assert!(shape.capabilities.full_propensities && shape.capabilities.multiple_interactions);

    // Contexts are examples of the training set, each at most once.
    let key = |x: &[f32]| x.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
    let mut place = std::collections::HashMap::new();
    for i in 0..data.train.len() {
        place.insert(key(data.train.x.row(i).as_slice().unwrap()), i);
    }
    assert_eq!(place.len(), 2050, "the examples are all different");
    let x = bandit.log.x();
    let original: Vec<usize> = (0..1948)
        .map(|c| place.remove(&key(x.row(c).as_slice().unwrap())).expect("an example, once"))
        .collect();
    assert!(original.windows(2).any(|w| w[0] > w[1]), "the order is shuffled");

    // None of them trained μ0: changing all their labels leaves it unchanged, and changing the others' does
    // not.
    let relabeled = |logged: bool| {
        let mut data = data.clone();
        let label = |i: usize| match original.contains(&i) == logged {
            true => vec![(i % 7) as u32],
            false => data.train.labels.of(i).to_vec(),
        };
        data.train.labels = (0..2050).map(label).collect();
        Logger::train(&data, 5).policy(alpha)
    };
    assert_eq!(relabeled(true), bandit.logging_policy);
    assert_ne!(relabeled(false), bandit.logging_policy);

    // Costs, propensities, weights and the frequencies of actions, recomputed.
    let (mut expected, mut variance, mut seen) = ([0.0; 7], [0.0; 7], [0.0; 7]);
    let rows = rows(&bandit.log);
    for (row, &(c, action, cost, propensity, weight)) in rows.iter().enumerate() {
        assert_eq!(c, row / m, "contexts in order, m rows each");
        let pi = softmax(&bandit.logging_policy, alpha, x.row(c).as_slice().unwrap());
        assert!((propensity - pi[action as usize]).abs() < 1e-12);
        let right = data.train.labels.of(original[c]).contains(&action);
        assert_eq!(cost, if right { -1.0 } else { 0.0 });
        assert_eq!(weight, 1.0 / 3.0);
        seen[action as usize] += 1.0;
        for a in 0..7 {
            expected[a] += pi[a];
            variance[a] += pi[a] * (1.0 - pi[a]);
        }
    }
    for a in 0..7 {
        let z: f64 = (seen[a] - expected[a]) / f64::sqrt(variance[a]);
        assert!(z.abs() < 4.5, "action {a}: {} logged, {} expected", seen[a], expected[a]);
    }
    // μ0 learned something: it is far better than uniform on examples that it has not seen.
    let risk = |alpha: f64| true_risk(&Logger::train(&data, 5).policy(alpha), &data.test).unwrap();
    assert!(risk(1.0) < risk(0.0) - 0.3, "{} at α = 1, {} at 0", risk(1.0), risk(0.0));
}

#[test]
fn logs_of_one_seed_share_their_split_and_their_draws() {
    let data = clusters(1000, 4, 8);
    let logger = Logger::train(&data, 3);
    let (once, twice) = (logger.log(0.5, 1, None).unwrap(), logger.log(0.5, 2, None).unwrap());
    let firsts: Vec<_> = rows(&twice.log).into_iter().step_by(2).map(|r| (r.0, r.1, r.2, r.3)).collect();
    let once_rows: Vec<_> = rows(&once.log).into_iter().map(|r| (r.0, r.1, r.2, r.3)).collect();
    assert_eq!(firsts, once_rows, "the first of two interactions equals the only one in a log with one each");
    assert!(!once.log.shape().capabilities.multiple_interactions);
    let few = logger.log(0.5, 1, Some(100)).unwrap();
    assert_eq!(rows(&few.log).len(), 100);
    assert!(rows(&few.log).iter().zip(&rows(&once.log)).all(|(a, b)| a == b), "a prefix");

    let again = Logger::train(&data, 3);
    assert_eq!(again.policy(0.5), once.logging_policy);
    assert_eq!(rows(&again.log(0.5, 1, None).unwrap().log), rows(&once.log));
    let other = Logger::train(&data, 4);
    assert_ne!(other.policy(0.5), once.logging_policy);
    // Interactions with one context are drawn independently.
    let pairs = rows(&twice.log);
    assert!(pairs.chunks(2).any(|pair| pair[0].1 != pair[1].1));
    // Invalid arguments are errors.
    assert!(logger.log(0.5, 0, None).is_err());
    assert!(logger.log(f64::NAN, 1, None).is_err());
    assert!(logger.replay(0.5, 1, vec![4; 10]).is_err());
}

#[test]
fn true_risk_is_the_expected_cost_of_any_policy() {
    let data = clusters(400, 3, 6);
    let n = data.test.len() as f64;
    let uniform = PolicyParams::Uniform { n_actions: 3, dim: 6 };
    let labels: usize = (0..data.test.len()).map(|i| data.test.labels.of(i).len()).sum();
    let want = -(labels as f64) / 3.0 / n;
    assert!((true_risk(&uniform, &data.test).unwrap() - want).abs() < 1e-12);
    let softmax_policy = Logger::train(&data, 1).policy(0.8);
    let by_hand = |i: usize| {
        let pi = softmax(&softmax_policy, 0.8, data.test.x.row(i).as_slice().unwrap());
        data.test.labels.of(i).iter().map(|&a| pi[a as usize]).sum::<f64>()
    };
    let want = -(0..data.test.len()).map(by_hand).sum::<f64>() / n;
    assert!((true_risk(&softmax_policy, &data.test).unwrap() - want).abs() < 1e-12);
    // A LIG policy of a tiny scale always takes the best action.
    let mean = softmax_policy.mean().unwrap().to_vec();
    let lig = PolicyParams::Lig { mean, scale: 1e-6, features: Default::default() };
    let best = |i: usize| {
        let pi = softmax(&softmax_policy, 1.0, data.test.x.row(i).as_slice().unwrap());
        let a = (0..3).max_by(|&a, &b| pi[a].total_cmp(&pi[b])).unwrap() as u32;
        f64::from(u8::from(data.test.labels.contains(i, a)))
    };
    let want = -(0..data.test.len()).map(best).sum::<f64>() / n;
    assert!((true_risk(&lig, &data.test).unwrap() - want).abs() < 1e-6);
}

/// With the order and μ0 of the published logs, propensities and R(π0) equal the published ones. The mean
/// cost of actions drawn here equals the published one within sampling error.
#[test]
fn fashion_mnist_is_logged_as_published() {
    let fashion = Fashion::load();
    assert_eq!(
        (fashion.data.train.len(), fashion.data.test.len(), fashion.logger.contexts()),
        (60_000, 10_000, 57_000)
    );
    let contexts = fashion.logger.examples(&(0..57_000).collect::<Vec<_>>());
    for (alpha, r0, logged) in
        [("0.1", -0.2296, -0.2301), ("0.5", -0.6578, -0.6656), ("1.0", -0.7611, -0.7709)]
    {
        let at = alpha.parse().unwrap();
        assert!((fashion.test_risk(&fashion.logging_policy(at)) - r0).abs() < 5e-5, "R(π0) at α = {alpha}");
        let theirs = fashion.log(alpha, 57_000);
        assert!((mean_cost(&theirs) - logged).abs() < 5e-5, "α = {alpha}: {}", mean_cost(&theirs));
        let ours = fashion.logger.log(at, 1, None).unwrap();
        assert_eq!(ours.log.shape(), theirs.shape());
        // On these contexts, whose labels are known, each cost is −1 with a known probability.
        let rewards = rewards(&fashion.logging_policy(at), &contexts).unwrap();
        let expected = -rewards.iter().sum::<f64>() / 57_000.0;
        let error = rewards.iter().map(|p| p * (1.0 - p)).sum::<f64>().sqrt() / 57_000.0;
        for log in [&theirs, &ours.log] {
            let z = (mean_cost(log) - expected) / error;
            assert!(z.abs() < 4.5, "α = {alpha}: {} is {z} standard errors from {expected}", mean_cost(log));
        }
        let (a, b) = (theirs.chunk(7).unwrap(), ours.log.chunk(7).unwrap());
        assert_eq!(a.full, b.full);
        assert_ne!(a.actions, b.actions, "the published draws differ from ours");
    }
}

/// The policy of our own training is like the published one: as good and as peaked. Adam at a rate of 0.1 is
/// still moving after ten epochs, and the paper leaves the batches open. So the risks differ by some
/// hundredths for the most peaked policies, and by some thousandths for the least peaked.
#[test]
fn our_mu0_is_similar_to_the_published_one() {
    let fashion = Fashion::load();
    for seed in [1, 2] {
        let logger = Logger::train(&fashion.data, seed);
        assert_eq!(logger.contexts(), 57_000);
        for (alpha, r0, within) in [(0.1, -0.2296, 0.01), (0.5, -0.6578, 0.035), (1.0, -0.7611, 0.045)] {
            let risk = fashion.test_risk(&logger.policy(alpha));
            assert!((risk - r0).abs() < within, "seed {seed}, α = {alpha}: {risk}");
        }
    }
}

/// After each α, a run passes all rows so far to its caller, and an error from the caller ends it.
#[test]
fn an_interrupted_run_keeps_its_results() {
    let data = clusters(400, 3, 6);
    let plan = Plan {
        alphas: vec![0.1, 0.5, 1.0],
        seeds: vec![1],
        figures: vec![2, 4],
        interactions: vec![1],
        contexts: None,
    };
    let shares = std::cell::RefCell::new(Vec::new());
    let begin = |_: &str, share: f64| shares.borrow_mut().push(share);
    let mut had: Vec<Vec<f64>> = Vec::new();
    let ended: Result<_, Box<dyn std::error::Error>> = plan.run(&data, &unattended(), &begin, &mut |rows| {
        let mut alphas: Vec<f64> = rows.iter().map(|r| r.alpha).collect();
        alphas.sort_by(f64::total_cmp);
        assert_eq!(alphas.len(), 9 * (had.len() + 1), "three lines of figure 2 and six of figure 4");
        assert!(rows.windows(2).all(|pair| pair[0].figure <= pair[1].figure), "by figure");
        alphas.dedup();
        had.push(alphas);
        if had.len() < 2 { Ok(()) } else { Err("the disk is full".into()) }
    });
    assert_eq!(ended.unwrap_err().to_string(), "the disk is full");
    assert_eq!(had, [vec![0.1], vec![0.1, 0.5]]);
    let shares = shares.into_inner();
    assert_eq!(shares.len(), 18, "jobs of two α");
    assert!(shares[0] == 0.0 && shares.windows(2).all(|pair| pair[0] < pair[1]), "{shares:?}");
    assert!((shares[9] - 1.0 / 3.0).abs() < 1e-12, "{shares:?}");
}

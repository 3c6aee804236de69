use super::fit::Steps;
use super::model::{curvature, loss_and_gradient};
use super::*;
use crate::control::unattended;
use crate::log::{Columns, Contexts, FeatureSpace, MemoryLog, Sets};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The learn side is all rows but the last.
fn all_but_one(rows: usize) -> Span {
    Span::Time { first_certified_row: rows as u64 - 1, policy_version: None }
}

/// How rewards depend on the kind of the request, the kind of the action and its quality.
type Truth = fn(u32, u32, f32) -> f64;

/// Requests of four kinds with 2 to `most` actions, each of four kinds and of some quality, played uniformly.
fn log(n: usize, most: usize, truth: Truth) -> MemoryLog {
    log_with_ids(n, most, 0, truth)
}

/// The same with an id among `ids` of each request and each action, which says nothing.
fn log_with_ids(n: usize, most: usize, ids: u32, truth: Truth) -> MemoryLog {
    let mut rng = ChaCha8Rng::seed_from_u64(n as u64 ^ most as u64);
    let mut columns = Columns { n_actions: most, full: Some(Vec::new()), ..Columns::default() };
    let mut sets = Sets::default();
    for _ in 0..n {
        let (kind, k) = (rng.random_range(0..4u32), rng.random_range(2..=most));
        let actions: Vec<(u32, f32)> = (0..k).map(|_| (rng.random_range(0..4), rng.random())).collect();
        let mut id = |first: u32| (ids > 0).then(|| (first + rng.random_range(0..ids), 1.0));
        let (request, items): (_, Vec<_>) = (id(2000), actions.iter().map(|_| id(64)).collect());
        sets.x.push([(1000 + kind, 1.0), (5, 1.0), (6, rng.random())].into_iter().chain(request));
        for (&(kind, quality), id) in actions.iter().zip(items) {
            sets.actions.push([(kind, 1.0), (20, quality)].into_iter().chain(id));
        }
        sets.end_row();
        let action = rng.random_range(0..k);
        let reward = rng.random::<f64>() < truth(kind, actions[action].0, actions[action].1);
        columns.actions.push(action as u32);
        columns.costs.push(if reward { -1.0 } else { 0.0 });
        columns.propensities.push(1.0 / k as f64);
        columns.full.iter_mut().for_each(|full| full.extend(std::iter::repeat_n(1.0 / k as f64, k)));
    }
    columns.sets = Some(sets);
    columns.set_features =
        ActionSets { x: FeatureSpace::Named { dim: 1 << 24 }, actions: FeatureSpace::Named { dim: 1 << 20 } };
    MemoryLog::new(columns).unwrap()
}

fn matching(request: u32, action: u32, _: f32) -> f64 {
    if request == action { 0.7 } else { 0.2 }
}

/// Quality is good in the middle only, which no linear score sees.
fn middling(_: u32, _: u32, quality: f32) -> f64 {
    if (quality - 0.5).abs() < 0.2 { 0.8 } else { 0.1 }
}

fn learned(log: &MemoryLog) -> PartOne {
    let rows = log.shape().rows as usize;
    learn(log, &all_but_one(rows), 1, &unattended()).unwrap()
}

fn scorer(part: &PartOne) -> &ActionScorer {
    let PolicyParams::ActionScorer(scorer) = &part.policy else { panic!("not a scorer") };
    scorer.check().unwrap();
    scorer
}

/// The mean of `truth` over what the policy plays.
fn played(part: &PartOne, log: &MemoryLog, truth: Truth) -> f64 {
    let (mut total, mut rows) = (0.0, 0.0);
    for index in 0..log.chunks() {
        let chunk = log.chunk(index).unwrap();
        let pi = part.policy.propensities(chunk.situations()).unwrap();
        let Contexts::Sets(sets) = chunk.situations() else { panic!("no sets") };
        for i in 0..sets.rows() {
            let kind = sets.x(i).indices.iter().find(|&&index| index >= 1000).unwrap() - 1000;
            for a in 0..sets.size(i) {
                let action = sets.action(i, a);
                let quality = if action.indices.len() > 1 { action.values[1] } else { 0.0 };
                total += pi[(i, a)] * truth(kind, action.indices[0], quality);
            }
            rows += 1.0;
        }
    }
    total / rows
}

#[test]
fn a_planted_interaction_is_found() {
    let log = log(3000, 6, matching);
    let part = learned(&log);
    assert!(scorer(&part).pairs.is_some() && scorer(&part).hidden.is_none(), "{:?}", part.choices);
    let value = played(&part, &log, matching);
    // With four kinds and 2 to 6 actions, the best action is worth 0.528 on average, and a random one 0.325.
    assert!(value > 0.51, "{value}");
    assert!(part.improvement.mean < -0.15 && part.improvement.variance > 0.1, "{:?}", part.improvement);
    let calibration = part.calibration.unwrap();
    assert!((calibration.slope - 1.0).abs() < 0.3, "{calibration:?}");
}

#[test]
fn pairs_of_many_features_share_cells() {
    let log = log_with_ids(8000, 6, 1500, matching);
    let part = learned(&log);
    let pairs = scorer(&part).pairs.as_ref().expect("pairs");
    assert!(pairs.bits == Some(18) && pairs.cells.len() > 10_000, "{:?}", part.choices);
    let value = played(&part, &log, matching);
    assert!(value > 0.48, "{value}");
}

#[test]
fn a_planted_bump_is_found() {
    let log = log(6000, 6, middling);
    let part = learned(&log);
    assert!(scorer(&part).hidden.is_some(), "{:?}", part.choices);
    let value = played(&part, &log, middling);
    // The best action is worth 0.684 on average, and a random one 0.38.
    assert!(value > 0.63, "{value}");
}

#[test]
fn nothing_depends_on_the_number_of_threads() {
    let log = log(2500, 5, middling);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let part = pool.install(|| learned(&log));
        (part.policy.digest().unwrap(), part.calibration, part.improvement, part.risk, part.choices)
    };
    assert_eq!(with(1), with(3));
}

fn prepared(log: &MemoryLog, limits: Limits) -> (Known, Rows) {
    let span = all_but_one(log.shape().rows as usize);
    let reader = Reader { log, span: &span };
    let known = Known::new(&reader, &unattended()).unwrap();
    let rows = Rows::new(&reader, &known, limits, &unattended()).unwrap();
    (known, rows)
}

#[test]
fn gradients_are_those_of_the_loss() {
    let log = log(300, 5, matching);
    let (known, rows) = prepared(&log, Limits::default());
    let members: Vec<u32> = (0..rows.len() as u32).filter(|row| row % 3 != 0).collect();
    let mut hashed = Layout::new(&known, true);
    hashed.pairs = Pairs::Hashed(4);
    for layout in [Layout::new(&known, false), Layout::new(&known, true), hashed] {
        let weights: Vec<f64> = (0..layout.len()).map(|i| ((i * 7 % 11) as f64 - 5.0) / 10.0).collect();
        let (_, gradient) = loss_and_gradient(&layout, &weights, &rows, &members);
        let second = curvature(&layout, &weights, &rows, &members);
        for at in 0..weights.len() {
            let moved = |by: f64| {
                let mut moved = weights.clone();
                moved[at] += by;
                loss_and_gradient(&layout, &moved, &rows, &members)
            };
            let (up, down) = (moved(1e-5), moved(-1e-5));
            let want = (up.0 - down.0) / 2e-5;
            assert!((gradient[at] - want).abs() < 1e-5 * (1.0 + want.abs()), "{at}: {} {want}", gradient[at]);
            let want = (up.1[at] - down.1[at]) / 2e-5;
            // Where two pairs of one row share a cell, the diagonal leaves out their product.
            let tolerance = if layout.pairs == Pairs::Hashed(4) { 20.0 } else { 1e-5 };
            assert!(
                (second[at] - want).abs() < tolerance * (1.0 + want.abs()),
                "{at}: {} {want}",
                second[at]
            );
        }
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let log = log(3000, 6, matching);
    let limits = Limits { rows: 700, non_zeros: 2000, held_out: 50 };
    let (known, rows) = prepared(&log, limits);
    assert_eq!((known.rows, known.x.len(), known.actions.len()), (2999, 5, 5));
    assert!((200..=700).contains(&rows.len()), "{}", rows.len());
    assert!(rows.x.non_zeros() + rows.actions.non_zeros() <= 2000 + 5, "{}", rows.x.non_zeros());
    assert!((25..=50).contains(&rows.held_out.len()), "{}", rows.held_out.len());
    let part = learn_within(&log, &all_but_one(3000), 1, limits, &unattended()).unwrap();
    assert!(part.choices.iter().any(|choice| choice.contains("rows of the learn side was used")));
    assert!(played(&part, &log, matching) > 0.4);
}

#[test]
fn common_features_are_standardized_and_constants_left_out() {
    let (known, rows) = prepared(&log(2000, 4, matching), Limits::default());
    // Dimension 5 is always 1.
    let indices: Vec<u32> = known.x.iter().map(|feature| feature.index).collect();
    assert_eq!(indices, [6, 1000, 1001, 1002, 1003]);
    assert!(
        (known.x[0].center - 0.5).abs() < 0.05 && (known.x[0].scale - 3.46).abs() < 0.2,
        "{:?}",
        known.x[0]
    );
    assert_eq!((known.x[1].center, known.x[1].scale), (0.0, 1.0));
    let values = (0..rows.len()).map(|row| f64::from(rows.x.vector(row).values[0]));
    let (sum, square) = values.fold((0.0, 0.0), |(sum, square), v| (sum + v, square + v * v));
    let n = rows.len() as f64;
    assert!((sum / n).abs() < 1e-3 && (square / n - 1.0).abs() < 1e-3);
}

#[test]
fn features_that_were_never_seen_do_not_count() {
    let part = learned(&log(2000, 4, matching));
    let mut sets = Sets::default();
    for strange in [false, true] {
        sets.x.push([(1001, 1.0), (6, 0.5)].into_iter().chain(strange.then_some((123_456, 7.0))));
        for kind in 0..3 {
            sets.actions.push([(kind, 1.0), (20, 0.5)].into_iter().chain(strange.then_some((40, -3.0))));
        }
        sets.end_row();
    }
    let pi = part.policy.propensities(sets.view()).unwrap();
    assert_eq!(pi.row(0), pi.row(1));
    assert!(pi[(0, 1)] > 0.99, "{pi}");
}

#[test]
fn degenerate_learn_sides_give_policies() {
    let never: Truth = |_, _, _| 0.0;
    let always: Truth = |_, _, _| 1.0;
    for (n, most, truth) in [
        (21, 3, matching as Truth),
        (3, 2, matching),
        (2, 2, matching),
        (200, 2, never),
        (200, 5, always),
        (300, 200, matching),
    ] {
        let log = log(n, most, truth);
        let part = learned(&log);
        let value = played(&part, &log, truth);
        assert!((0.0..=1.0 + 1e-12).contains(&value), "{n} {most}: {value}");
        assert!(part.improvement.mean.is_finite() && part.risk.variance.is_finite(), "{n} {most}");
    }
}

#[test]
fn logs_without_features_give_the_uniform_policy() {
    let n = 100;
    let mut columns = Columns { n_actions: 3, ..Columns::default() };
    let mut sets = Sets::default();
    for row in 0..n {
        sets.x.push([]);
        (0..2 + row % 2).for_each(|_| sets.actions.push([]));
        sets.end_row();
        columns.actions.push(row % 2);
        columns.costs.push(-f64::from(row % 3) / 2.0);
        columns.propensities.push(1.0 / f64::from(2 + row % 2));
    }
    columns.sets = Some(sets);
    let log = MemoryLog::new(columns).unwrap();
    let part = learned(&log);
    assert_eq!(part.calibration.is_some(), log.shape().capabilities.control_variate());
    let pi = part.policy.propensities(log.chunk(0).unwrap().situations()).unwrap();
    assert_eq!((pi[(0, 0)], pi[(0, 1)], pi[(0, 2)]), (0.5, 0.5, 0.0));
}

#[test]
fn learning_stops_when_it_is_canceled_or_out_of_time() {
    let log = log(2500, 5, matching);
    let span = all_but_one(2500);
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let seen = std::sync::Mutex::new(Vec::new());
    let report = |progress: crate::control::Progress| {
        let mut seen = seen.lock().unwrap();
        seen.push(progress.fraction);
        cancel.store(seen.len() == 5, std::sync::atomic::Ordering::Relaxed);
    };
    let result = learn(&log, &span, 1, &Control::new(&cancel, &report));
    assert!(matches!(result, Err(crate::EngineError::Cancelled)));
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() >= 5 && seen.is_sorted(), "{seen:?}");
    let control = unattended().with_budget(Some(std::time::Duration::ZERO));
    assert!(learn(&log, &span, 1, &control).unwrap().policy.check().is_ok());
    let steps = Steps::new(&control, 10);
    assert!(steps.control.out_of_time());
}

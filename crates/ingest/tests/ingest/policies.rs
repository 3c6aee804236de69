//! The logging policy, which supplies and checks propensities, and the tests of a log against itself.

use guarantor_engine::log::MemoryLog;
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{Format, IngestError, WarningCode};
use serde_json::{Value, json};

use crate::support::{Reading, rejected};

fn policy_params() -> PolicyParams {
    PolicyParams::Softmax {
        mean: vec![vec![0.5, -0.25, 0.0], vec![0.0, 1.0, -1.0]],
        inverse_temperature: 1.0,
        features: Default::default(),
    }
}

/// Rows drawn from `policy_params`, with its propensities.
fn logged_by_policy(n: usize) -> Vec<Value> {
    let x: Vec<f32> = (0..2 * n).map(|i| (i % 7) as f32 / 4.0 - 0.75).collect();
    let x = ndarray::Array2::from_shape_vec((n, 2), x).unwrap();
    let actions = policy_params().sample(x.view(), 1).unwrap();
    let row = |(i, (action, propensity)): (usize, (u32, f64))| json!({ "x": x.row(i).to_vec(), "action": action, "propensity": propensity, "cost": -0.5 });
    actions.into_iter().enumerate().map(row).collect()
}

fn without_propensity(mut rows: Vec<Value>) -> Vec<Value> {
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("propensity")));
    rows
}

fn with(policy: PolicyParams) -> Reading {
    Reading { policy: Some(policy), ..Format::Ndjson.into() }
}

#[test]
fn the_logging_policy_fills_in_and_checks_propensities() {
    let rows = logged_by_policy(500);
    let (given, _) = with(policy_params()).rows(&rows).unwrap();
    assert!(given.capabilities.full_propensities);
    assert_eq!(given.n_actions, 3);
    assert_eq!(given.health.warnings, []);
    let (filled, columns) = with(policy_params()).rows(&without_propensity(rows.clone())).unwrap();
    assert_eq!(filled.digest, given.digest);
    assert!(
        MemoryLog::new(columns).unwrap().with_full_propensities(|x| policy_params().propensities(x)).is_ok()
    );
    let mut wrong = rows.clone();
    wrong[7]["propensity"] = json!(wrong[7]["propensity"].as_f64().unwrap() * 1.01);
    let errors = rejected(with(policy_params()).rows(&wrong));
    assert_eq!((errors.total, errors.first[0].row), (1, 8));
    assert!(errors.first[0].message.contains("but the logging policy gives"), "{}", errors.first[0]);
    let read = with(PolicyParams::Uniform { n_actions: 3, dim: 5 }).rows(&rows);
    assert!(matches!(read, Err(IngestError::Option { field: "logging_policy_id", .. })), "{read:?}");
}

#[test]
fn a_policy_with_many_actions_is_asked_about_all_rows() {
    let policy = || PolicyParams::Uniform { n_actions: 5_000, dim: 1 };
    let row = |i: usize| json!({ "x": [0.5], "action": i, "cost": 0, "propensity": 1.0 / 5_000.0 });
    let mut rows: Vec<Value> = (0..300).map(row).collect();
    assert_eq!(with(policy()).rows(&rows).unwrap().0.n_actions, 5_000);
    // There are so many rows that the policy is asked several times.
    rows[290]["propensity"] = json!(0.5);
    let errors = rejected(with(policy()).rows(&rows));
    assert_eq!((errors.total, errors.first[0].row), (1, 291));
}

#[test]
fn false_propensities_are_noticed() {
    // The rows claim to prefer an action that they did not prefer.
    let mut rows = without_propensity(logged_by_policy(2_000));
    rows.iter_mut().for_each(|row| row["propensities"] = json!([0.6, 0.2, 0.2]));
    let health = Reading::from(Format::Ndjson).rows(&rows).unwrap().0.health;
    assert!(health.warnings.iter().any(|w| w.code == WarningCode::ActionCountsDoNotFit), "{health:?}");
    assert_eq!(health.action_counts.iter().sum::<u64>(), 2_000);
    let rows: Vec<_> = (0..100).map(|i| json!({ "action": i % 2, "propensity": 0.9, "cost": 0 })).collect();
    let reading = Reading { n_actions: Some(4), ..Format::Ndjson.into() };
    let health = reading.rows(&rows).unwrap().0.health;
    assert_eq!((health.min_propensity, &health.actions_never_logged[..]), (0.9, &[2, 3][..]));
    assert!(health.warnings.iter().any(|w| w.code == WarningCode::ActionsNeverLogged), "{health:?}");
}
